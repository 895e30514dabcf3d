"""A Tailscale client on one computer, started by containerboot as Talos's extension starts it."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.lan.host import Host, LanFailed, Program, wait_for
from tools.toolbox.debian import SEARCHED

JOIN_BOUND_S = 180.0
STOP_BOUND_S = 60.0
REFUSED_BOUND_S = 180.0  # containerboot itself gives up after a minute
DEVICE = "tailscale0"
SOCKET = "/run/tailscale/tailscaled.sock"


@dataclass(frozen=True, slots=True)
class Programs:
    containerboot: Path
    tailscaled: Path
    tailscale: Path


class TailscaleClient:
    """`environment` is what the extension's config carries; what the service says of itself comes on top."""

    def __init__(self, host: Host, programs: Programs, environment: Mapping[str, str], authority: Path) -> None:
        """`authority`: who signs for the control server; on Talos it would be a TrustedRootsConfig."""
        self.host = host
        self._programs = programs
        folders = {str(path.parent) for path in (programs.tailscaled, programs.tailscale)}
        own = {
            "TS_USERSPACE": "false",
            "TS_STATE_DIR": str(host.folder / "state"),
            "TS_SOCKET": SOCKET,
            "SSL_CERT_FILE": str(authority),
            "PATH": os.pathsep.join([*sorted(folders), SEARCHED]),
        }
        host.run("mkdir", "-p", os.path.dirname(SOCKET))  # noqa: PTH120 - a path over there
        self.program: Program = host.start("containerboot", [str(programs.containerboot)], {**environment, **own})

    def joined(self) -> str:
        """Its address, once it has one."""
        wait_for(self._is_running, JOIN_BOUND_S, lambda: f"{self.host.name} did not join. {self.program.tail()}")
        addresses: list[str] = self.status()["Self"]["TailscaleIPs"]
        return addresses[0]

    def refused(self) -> str:
        """What it was told instead: it gives up, and so does containerboot."""
        wait_for(
            lambda: not self.program.alive,
            REFUSED_BOUND_S,
            lambda: f"{self.host.name} was not refused. {self.program.tail()}",
        )
        words = [line.partition("backend error: ")[2] for line in self.program.said_since_start()]
        return next((each for each in reversed(words) if each), "nothing")

    def status(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._ask("status", "--json"))
        return told

    def directly(self, address: str) -> str:
        """The other end's endpoint, once a way was found that needs no relay."""
        wait_for(lambda: self._pinged(address), JOIN_BOUND_S, lambda: f"no way to {address}. {self.program.tail()}")
        return self.way_to(address)

    def way_to(self, address: str) -> str:
        """The other end's endpoint; empty: by the relay, or not at all."""
        peers = self.status()["Peer"] or {}
        found: str = next(peer["CurAddr"] for peer in peers.values() if address in peer["TailscaleIPs"])
        return found

    def stop(self) -> None:
        """Until its network device is gone: the next client on this host could not make it again."""
        self.program.stop()
        wait_for(
            lambda: DEVICE not in self.host.run("ip", "-brief", "link"),
            STOP_BOUND_S,
            lambda: f"{self.host.name} still has {DEVICE}. {self.program.tail()}",
        )

    def _pinged(self, address: str) -> bool:
        """A new device is not known to all others yet."""
        try:
            self._ask("ping", "--until-direct", "--timeout=2s", "-c", "5", address)
        except LanFailed:
            return False
        return True

    def _is_running(self) -> bool:
        self.program.must_live()
        try:
            return bool(self.status()["BackendState"] == "Running")
        except LanFailed:
            return False

    def _ask(self, *question: str) -> str:
        return self.host.run(str(self._programs.tailscale), f"--socket={SOCKET}", *question)
