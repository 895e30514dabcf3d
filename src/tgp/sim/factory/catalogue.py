"""What the simulated factory can make: releases of Talos, and the official extensions of each."""

from tgp.core.model.talos import TalosVersion

RELEASES = {10: (0, 5, 9), 11: (0, 5, 6), 12: (0, 5, 6), 13: (0, 9)}  # minor → patches
VERSIONS = (
    *(TalosVersion(minor, patch) for minor, patches in RELEASES.items() for patch in patches),
    TalosVersion(14, 0, final=False, suffix="-rc.1"),
)
TRACKS = ("lts", "production")
ALWAYS = (
    "siderolabs/amd-ucode",
    "siderolabs/amdgpu",
    "siderolabs/gvisor",
    "siderolabs/intel-ucode",
    "siderolabs/iscsi-tools",
    "siderolabs/qemu-guest-agent",
    "siderolabs/tailscale",
    "siderolabs/util-linux-tools",
    *(
        f"siderolabs/{name}-{track}"
        for name in (
            "nonfree-kmod-nvidia",
            "nvidia-container-toolkit",
            "nvidia-fabricmanager",
            "nvidia-open-gpu-kernel-modules",
        )
        for track in TRACKS
    ),
)
SINCE = {"siderolabs/newt": 11}  # extension → the first minor release that has it


def extensions(version: TalosVersion) -> tuple[str, ...]:
    return tuple(sorted((*ALWAYS, *(name for name, minor in SINCE.items() if version.minor >= minor))))
