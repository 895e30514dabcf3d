"""Computers on one switch, which is a bridge in a namespace of its own."""

import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.lan.host import Host
from tools.toolbox.debian import SEARCHED

NETWORK = "192.0.2"  # for documentation, so it belongs to no network


class Lan:
    """`with Lan(folder) as lan: a = lan.host("a")`. Each has one cable, `eth0`, and an address."""

    def __init__(self, folder: Path | None = None) -> None:
        self._own = tempfile.TemporaryDirectory(prefix="tgp-lan-") if folder is None else None
        self.folder = folder or Path(self._own.name if self._own else "")
        self.hosts: list[Host] = []

    def __enter__(self) -> Self:
        self._switch = Host("switch", self.folder)
        try:
            self._switch.run("ip", "link", "add", "br0", "type", "bridge")
            self._switch.run("ip", "link", "set", "br0", "up")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def host(self, name: str) -> Host:
        host = Host(name, self.folder)
        self.hosts.append(host)
        number = len(self.hosts)
        plug = f"port{number}"
        # From outside, where process ids mean what we mean by them: only the network is the switch's.
        with self._switch.inside():
            _ip("link", "add", plug, "type", "veth", "peer", "name", "eth0", "netns", str(host.pid))
            _ip("link", "set", plug, "master", "br0", "up")
        host.address = f"{NETWORK}.{number}"
        host.run("ip", "addr", "add", f"{host.address}/24", "dev", "eth0")
        # No address of its own making: it would come a second later, and look like another network to a mesh's client.
        host.run("ip", "link", "set", "eth0", "addrgenmode", "none", "up")
        return host

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in reversed(self.hosts):
            host.stop()
        self._switch.stop()
        if self._own is not None:
            self._own.cleanup()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], env={"PATH": SEARCHED}, check=True, capture_output=True)
