"""wireguard-go on one computer, spoken to by its own control socket: the `wg` tool is not needed."""

import socket
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.lan.host import Host, LanFailed, wait_for

ANSWER_BOUND_S = 10.0
START_BOUND_S = 20.0


@dataclass(frozen=True, slots=True)
class Peer:
    public_key: str
    allowed_ips: tuple[str, ...]
    endpoint: str = ""
    keepalive_seconds: int = 0


class WireGuardEnd:
    """One interface. It lives as long as its program."""

    def __init__(self, host: Host, program: Path, interface: str = "wg0") -> None:
        self.host = host
        self.interface = interface
        self._socket = host.path(f"/run/wireguard/{interface}.sock")
        self._program = host.start(f"wireguard-{interface}", [str(program), "-f", interface])
        wait_for(self._is_up, START_BOUND_S, lambda: f"{self._program.name} did not come up. {self._program.tail()}")

    def configure(self, private_key: str, *, listen_port: int = 0, peers: Iterable[Peer] = ()) -> None:
        """What stands in an [Interface] section, and peers beside it."""
        said = [("private_key", _hex(private_key))]
        if listen_port:
            said.append(("listen_port", str(listen_port)))
        self._set(said + [line for peer in peers for line in _lines(peer)])

    def sync(self, conf: str) -> None:
        """As `wg syncconf` does: a peer that is not in the text is removed, and the others are not disturbed."""
        wanted = peers_of(conf)
        gone = self.peers() - {peer.public_key for peer in wanted}
        said = [line for key in sorted(gone) for line in (("public_key", _hex(key)), ("remove", "true"))]
        self._set(said + [line for peer in wanted for line in _lines(peer)])

    def peers(self) -> frozenset[str]:
        """Their public keys."""
        answer = self._ask("get=1\n\n")
        return frozenset(_base64(line[11:]) for line in answer.splitlines() if line.startswith("public_key="))

    def up(self, address: str, mtu: int = 1420, routes: Iterable[str] = ()) -> None:
        self.host.run("ip", "addr", "add", address, "dev", self.interface)
        self.host.run("ip", "link", "set", self.interface, "mtu", str(mtu), "addrgenmode", "none", "up")
        for route in routes:
            self.host.run("ip", "route", "add", route, "dev", self.interface)

    def _is_up(self) -> bool:
        self._program.must_live()
        return self._socket.exists()

    def _set(self, lines: Iterable[tuple[str, str]]) -> None:
        self._ask("set=1\n" + "".join(f"{name}={value}\n" for name, value in lines) + "\n")

    def _ask(self, question: str) -> str:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ANSWER_BOUND_S)
            line.connect(str(self._socket))
            line.sendall(question.encode())
            answer = b""
            while not answer.endswith(b"\n\n"):
                piece = line.recv(65536)
                if not piece:
                    break
                answer += piece
        if "errno=0\n" not in answer.decode():
            raise LanFailed(f"{self._program.name} refused its settings: {answer.decode().strip()}")
        return answer.decode()


def peers_of(conf: str) -> list[Peer]:
    """Of a text as `wg` reads it. Anything that it would not read is refused."""
    found: list[dict[str, str]] = []
    for number, raw in enumerate(conf.splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        if line == "[Peer]":
            found.append({})
        elif line:
            name, equals, value = (part.strip() for part in line.partition("="))
            if not equals or not found or name not in {"PublicKey", "AllowedIPs"} or name in found[-1]:
                raise LanFailed(f"line {number} is not one of a peer: {raw!r}")
            found[-1][name] = value
    return [_peer(each) for each in found]


def _peer(said: Mapping[str, str]) -> Peer:
    return Peer(said["PublicKey"], tuple(each.strip() for each in said["AllowedIPs"].split(",")))


def _lines(peer: Peer) -> list[tuple[str, str]]:
    said = [("public_key", _hex(peer.public_key)), ("replace_allowed_ips", "true")]
    if peer.endpoint:
        said.append(("endpoint", peer.endpoint))
    if peer.keepalive_seconds:
        said.append(("persistent_keepalive_interval", str(peer.keepalive_seconds)))
    return said + [("allowed_ip", network) for network in peer.allowed_ips]


def _hex(key: str) -> str:
    return b64decode(key, validate=True).hex()


def _base64(digits: str) -> str:
    return b64encode(bytes.fromhex(digits)).decode()
