"""Programs that come as Debian packages: the one on PATH, else installed where root may do so, else said how."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tools.toolbox.trouble import ToolboxError

PACKAGES = {  # program → package
    "blkid": "util-linux",
    "losetup": "mount",
    "mtype": "mtools",
    "sfdisk": "fdisk",
    "sgdisk": "gdisk",
    "fsck.vfat": "dosfstools",
    "xz": "xz-utils",
    "zstd": "zstd",
    "curl": "curl",
    "wget": "wget",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "wg": "wireguard-tools",
    "chromium": "chromium",
    "zsh": "zsh",
    "fish": "fish",
}
SEARCHED = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))  # where disks are dealt with
BOUND_S = 300


class NotInstalled(ToolboxError):
    """The text says what to install."""


def programs(names: Iterable[str]) -> dict[str, Path]:
    """All of them, ready to run, or NotInstalled. What is missing is installed by apt where we are root."""
    wanted = tuple(names)
    missing = [name for name in wanted if _found(name) is None]
    if missing:
        _install(sorted({PACKAGES[name] for name in missing}))
    found = {name: path for name in wanted if (path := _found(name)) is not None}
    if lacking := [name for name in wanted if name not in found]:
        packages = " ".join(sorted({PACKAGES[name] for name in lacking}))
        raise NotInstalled(f"no {', '.join(lacking)} here; on Debian: apt-get install {packages}")
    return found


def _found(name: str) -> Path | None:
    path = shutil.which(name, path=SEARCHED)
    return Path(path) if path else None


def _install(packages: list[str]) -> None:
    """Tried, not promised: the caller checks again."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    print(f"· installing {' '.join(packages)} …", file=sys.stderr, flush=True)
    with Path(tempfile.gettempdir(), "tgp-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # apt gives up where another one runs
        for command in (_apt(packages), ["apt-get", "update"], _apt(packages)):
            environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
            try:
                done = subprocess.run(command, env=environment, capture_output=True, timeout=BOUND_S, check=False)
            except subprocess.TimeoutExpired:
                return
            if done.returncode == 0 and command[1] == "install":
                return


def _apt(packages: list[str]) -> list[str]:
    return ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
