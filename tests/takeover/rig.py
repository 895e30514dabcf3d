"""A pretend machine: a disk that is a loop device, the few files of /proc and /sys that a takeover looks at, a console.

The program under test runs as it is, as root, in a mount namespace of its own. What would end the machine is recorded.
"""

import hashlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 1 << 20
SECTOR = 512
EFI = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
BIOS = "21686148-6449-6E6F-744E-656564454649"
LINUX = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
PARTITIONS = (("EFI", EFI, 3), ("BIOS", BIOS, 1), ("BOOT", LINUX, 4), ("META", LINUX, 1))  # names, types, MiB
IMAGE_MIB = 11
BOUND_S = 120
EFIVAR = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
CLOUD_INIT = ("var/lib/cloud/instances/i-1/user-data.txt", "run/cloud-init/combined-cloud-config.json")
LEFT_BEHIND = "token: join-secret-of-the-cluster\n"


def a_disk_image(path: Path) -> bytes:
    """As Talos's are: a partition table and some partitions; each of them full of its own letter."""
    path.write_bytes(b"")
    os.truncate(path, IMAGE_MIB * MIB)
    lines = ["label: gpt", *(f"size={mib}MiB, type={kind}, name={name}" for name, kind, mib in PARTITIONS)]
    subprocess.run(["sfdisk", "--quiet", path], input="\n".join(lines), text=True, check=True)
    with path.open("r+b") as image:
        for part in partitions(path):
            image.seek(part["start"] * SECTOR)
            image.write(part["name"][:1].encode() * (part["size"] * SECTOR))
    return path.read_bytes()


def partitions(disk: Path) -> list[dict[str, Any]]:
    told = subprocess.run(["sfdisk", "--json", disk], capture_output=True, text=True, check=True)
    return json.loads(told.stdout)["partitiontable"]["partitions"]


@dataclass
class Rig:
    root: Path
    backing: Path  # the file behind the disk
    disk: Path  # the loop device
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.place.mkdir(parents=True)
        real = Path("/sys/block", self.disk.name)
        self.number = (real / "dev").read_text().strip()
        for name, value in (("size", str(self.backing.stat().st_size // SECTOR)), ("ro", "0")):
            (self.place / name).write_text(f"{value}\n")
        (self.place / "dev").write_text(f"{self.number}\n")
        (self.place / "queue").mkdir()
        (self.place / "queue" / "logical_block_size").write_text("512\n")
        link = self.root / "sys/dev/block" / self.number
        link.parent.mkdir(parents=True)
        link.symlink_to(self.place)
        self.mounted_from(self.number)
        self.write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n")
        self.write("proc/sysrq-trigger", "")
        self.write("sys/class/dmi/id/product_serial", "none\n")
        for path in CLOUD_INIT:
            self.write(path, LEFT_BEHIND)
        (self.root / "run/tgp").mkdir(parents=True)
        devices = self.root / "dev"
        devices.mkdir()
        os.mknod(devices / self.disk.name, 0o600 | 0o060000, os.makedev(*map(int, self.number.split(":"))))
        (devices / "urandom").symlink_to("/dev/urandom")
        for name in ("systemctl", "swapoff", "sync"):
            stub = self.root / "stubs" / name
            self.write(f"stubs/{name}", f'#!/bin/sh\necho "{name} $*" >>"{self.root}/ended"\n')
            stub.chmod(0o755)

    @property
    def place(self) -> Path:
        return self.root / "sys/devices/block" / self.disk.name

    def write(self, path: str, text: str | bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode() if isinstance(text, str) else text)

    def mounted_from(self, number: str, options: str = "rw", beside: str = "") -> None:
        """The root filesystem, one in memory, and `beside` where there is another on the same disk."""
        lines = (
            f"1 0 {number} / / rw,relatime shared:1 - ext4 /dev/root {options},discard",
            "2 1 0:24 / /run rw,nosuid shared:5 - tmpfs tmpfs rw,size=802144k",
            *((f"3 1 {number} / /boot/efi rw,relatime shared:9 - vfat /dev/efi {beside}",) if beside else ()),
        )
        self.write("proc/self/mountinfo", "\n".join((*lines, "")))

    def read(self, path: str) -> str:
        target = self.root / path
        return target.read_text(errors="replace") if target.exists() else ""

    @property
    def console(self) -> str:
        return self.read("console")

    @property
    def sysrq(self) -> str:
        return self.read("proc/sysrq-trigger").replace("\n", "")

    @property
    def ended(self) -> list[str]:
        return self.read("ended").splitlines()

    def digest(self) -> str:
        return hashlib.sha256(self.backing.read_bytes()).hexdigest()

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """The command, on this machine. Its /run is ours; what it mounts is gone when it ends."""
        environment = {
            "PATH": f"{self.root}/stubs:{os.environ['PATH']}",
            "TGP_ROOT": str(self.root),
            "TGP_PROC": f"{self.root}/proc",
            "TGP_SYS": f"{self.root}/sys",
            "TGP_DEV": f"{self.root}/dev",
            "TGP_CONSOLE": f"{self.root}/console",
            "TGP_PAUSE": "0",
            "TGP_TRIES": "3",
            **self.environment,
        }
        inside = 'mount --bind "$0/run" /run && exec "$@"'
        whole = ["unshare", "--mount", "--propagation", "private", "sh", "-c", inside, self.root, *command]
        with self._kernel():
            return subprocess.run(whole, env=environment, capture_output=True, text=True, timeout=BOUND_S, check=False)

    @contextmanager
    def _kernel(self) -> Iterator[None]:
        """Does what the kernel does when it is told to by sysrq: after `u` nothing is written any more."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.02):
                if "u" in self.sysrq:
                    self.mounted_from(self.number, "ro")
                    return

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@contextmanager
def a_machine(folder: Path, mib: int = 32, breaks_at: int = 0) -> Iterator[Rig]:
    """`breaks_at`: so many bytes of its disk can be written, and not one more."""
    backing = folder / "disk"
    backing.write_bytes(b"the vendor's Linux\n" * 1000)
    os.truncate(backing, mib * MIB)
    limit = ("--sizelimit", str(breaks_at)) if breaks_at else ()
    made = subprocess.run(["losetup", "--find", "--show", *limit, backing], capture_output=True, text=True, check=True)
    disk = Path(made.stdout.strip())
    held = os.open(disk, os.O_RDONLY)
    try:
        subprocess.run(["losetup", "--detach", disk], check=True)  # once it is not in use: also if we are killed
        yield Rig(folder / "machine", backing, disk)
    finally:
        os.close(held)
