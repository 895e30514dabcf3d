"""NVIDIA's drivers on Talos: which extensions hold them for which release, and what loads them."""

from tgp.core.model import gpus
from tgp.core.model.talos import TalosVersion

MODULES = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")  # the extension loads none of them by itself

# Drivers come in two tracks, whose names say little: in 1.10 lts was 535 and production 570, in 1.12 they were 580 and
# 570, in 1.13 580 and 595. We take 570 while lts is older than the newest cards, 580 afterwards: it drives everything
# from Maxwell to Blackwell, which 595 no longer does.
_PRODUCTION_UNTIL = 11  # of 1.x
_JIT_HARDENING_UNTIL = 12  # of 1.x: the toolkit's hook fails with the stricter default up to there

# The open modules begin with Turing (whose chips carry the processor they need).
_CLOSED_ONLY = frozenset(("Maxwell", "Pascal", "Volta"))
_SWITCHED_FROM = 8  # SXM cards: boards of four are wired directly, boards of eight go through NVSwitches


def track(version: TalosVersion) -> str:
    return "production" if version.minor <= _PRODUCTION_UNTIL else "lts"


def extensions(version: TalosVersion, model: str = "", count: int = 1) -> tuple[str, ...]:
    """The extensions for such a machine. Without a model: those for all cards since Turing."""
    gpu = gpus.get(model)
    if gpu is not None and gpu.maker != "nvidia":
        return ()
    closed = gpu is not None and gpu.architecture in _CLOSED_ONLY
    modules = "nonfree-kmod-nvidia" if closed else "nvidia-open-gpu-kernel-modules"
    names = [modules, "nvidia-container-toolkit"]
    if gpu is not None and gpu.form == "sxm" and count >= _SWITCHED_FROM:
        names.append("nvidia-fabricmanager")
    return tuple(f"siderolabs/{name}-{track(version)}" for name in names)


def sysctls(version: TalosVersion) -> dict[str, str]:
    return {"net.core.bpf_jit_harden": "1"} if version.minor <= _JIT_HARDENING_UNTIL else {}
