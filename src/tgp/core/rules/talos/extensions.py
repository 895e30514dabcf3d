"""Which system extensions the image of a machine must hold."""

from collections.abc import Iterable

from tgp.core.model import gpus
from tgp.core.model.talos import TalosVersion
from tgp.core.rules.talos import nvidia

TAILSCALE = "siderolabs/tailscale"
AMD = ("siderolabs/amdgpu",)  # driver and firmware


def wanted_extensions(
    version: TalosVersion, *, tailscale: bool, model: str = "", count: int = 1, own: Iterable[str] = ()
) -> tuple[str, ...]:
    """Sorted, each once: what the mesh and the GPUs need, and what the class asks for besides.

    `model` is one of our names of GPUs; without it the machine is taken for one with NVIDIA's. `count` 0: none at all.
    """
    wanted = set(own)
    if tailscale:
        wanted.add(TAILSCALE)
    if count > 0:
        gpu = gpus.get(model)
        of_amd = gpu is not None and gpu.maker == "amd"
        wanted.update(AMD if of_amd else nvidia.extensions(version, model, count))
    return tuple(sorted(wanted))
