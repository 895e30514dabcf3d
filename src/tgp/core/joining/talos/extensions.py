"""Which system extensions the image of a machine needs."""

from collections.abc import Iterable

from tgp.core.joining.talos import nvidia
from tgp.core.model import gpus
from tgp.core.model.talos import TalosVersion

TAILSCALE = "siderolabs/tailscale"
AMD = ("siderolabs/amdgpu",)  # driver and firmware


def wanted_extensions(
    version: TalosVersion, *, tailscale: bool, model: str = "", count: int = 1, own: Iterable[str] = ()
) -> tuple[str, ...]:
    """Sorted, each once: for the mesh, for the GPUs, and those of the class.

    `model` is one of our names of GPUs; without it NVIDIA is assumed. `count` 0: no GPU.
    """
    wanted = set(own)
    if tailscale:
        wanted.add(TAILSCALE)
    if count > 0:
        gpu = gpus.get(model)
        of_amd = gpu is not None and gpu.maker == "amd"
        wanted.update(AMD if of_amd else nvidia.extensions(version, model, count))
    return tuple(sorted(wanted))
