"""How much a tailnet carries beside a plain WireGuard tunnel, between the same two computers."""

import argparse
import statistics
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.mesh.wireguard.keys import new_pair
from tools import toolbox
from tools.lan import Host, Lan, missing
from tools.lan.headscale import HeadscaleServer
from tools.lan.tailscale import Programs, TailscaleClient
from tools.lan.wireguard import Peer, WireGuardEnd

WANTED_THROUGHPUT = 0.85
PUMP = Path(__file__).with_name("pump.py")
FIRST_PORT = 9000
WIREGUARD_PORT = 51820
WIREGUARD_MTU = 1420  # as our machine config has it; Tailscale has 1280
BARE, WIREGUARD, TAILSCALE = "no mesh", "wireguard-go", "tailscaled"


@dataclass(slots=True)
class Way:
    """From one computer to the other, and what was measured on it."""

    name: str
    address: str  # of the receiver
    gigabits: list[float] = field(default_factory=list)
    microseconds: list[float] = field(default_factory=list)


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench mesh", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="rounds, each over every way (default: 15)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of traffic per round and way (default: 1.5)")
    parser.add_argument("--throws", type=int, default=1_000, help="there and back, per round and way (default: 1000)")
    asked = parser.parse_args(options)
    if wanted := missing():
        print(f"a mesh cannot be measured here, for want of {wanted}", file=sys.stderr)
        return 1
    with _two_computers() as (meter, ways):
        for turn in range(asked.rounds):
            for way in ways if turn % 2 else reversed(ways):  # whatever else the machine does falls on all alike
                way.gigabits.append(meter.gigabits(way, asked.seconds))
                way.microseconds.append(meter.microseconds(way, asked.throws))
            print(f"round {turn + 1:<2} {'   '.join(_shown(way) for way in ways)}", flush=True)
    _conclude({way.name: way for way in ways})
    return 0


def _shown(way: Way) -> str:
    return f"{way.name} {way.gigabits[-1]:.2f} Gbit/s {way.microseconds[-1]:.0f} µs"


def _conclude(ways: dict[str, Way]) -> None:
    for way in ways.values():
        speed, delay = statistics.median(way.gigabits), statistics.median(way.microseconds)
        print(f"{way.name:<14} {speed:6.2f} Gbit/s   {delay:6.0f} µs there and back   (medians)")
    plain, tailnet = ways[WIREGUARD], ways[TAILSCALE]
    throughput = _ratio(tailnet.gigabits, plain.gigabits)
    latency = _ratio(tailnet.microseconds, plain.microseconds)
    print(f"tailscaled / wireguard-go: median of the rounds' ratios (wanted: throughput {WANTED_THROUGHPUT} at least)")
    print(f"mesh throughput={throughput:.2f} latency={latency:.2f}")


def _ratio(ours: list[float], theirs: list[float]) -> float:
    """Of each round by itself: both were measured within seconds of each other."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


@contextmanager
def _two_computers() -> Iterator[tuple["_Meter", list[Way]]]:
    found = toolbox.find_all(toolbox.MESH)
    programs = Programs(*(found[tool] for tool in (toolbox.CONTAINERBOOT, toolbox.TAILSCALED, toolbox.TAILSCALE_CLI)))
    with Lan() as lan:
        server = HeadscaleServer(lan.host("server"), found[toolbox.HEADSCALE_SERVER])
        sender, receiver = lan.host("sender"), lan.host("receiver")
        # First, for an interface that comes up cuts a client off, and one that is just joining has burned its key then.
        _tunnel(sender, receiver, found[toolbox.WIREGUARD_GO])
        clients = [
            TailscaleClient(host, programs, _environment(server, host), server.authority) for host in (sender, receiver)
        ]
        _, tailnet = (client.joined() for client in clients)
        clients[0].directly(tailnet)
        ways = [Way(BARE, receiver.address), Way(WIREGUARD, "10.8.0.2"), Way(TAILSCALE, tailnet)]
        yield _Meter(sender, receiver, clients[0]), ways


def _environment(server: HeadscaleServer, host: Host) -> dict[str, str]:
    return {
        "TS_AUTHKEY": server.a_key(),
        "TS_HOSTNAME": host.name,
        "TS_AUTH_ONCE": "true",
        "TS_EXTRA_ARGS": f"--login-server={server.url}",
    }


def _tunnel(sender: Host, receiver: Host, program: Path) -> None:
    keys = [new_pair(SystemEntropy()) for _ in range(2)]
    hosts = (sender, receiver)
    for number, host in enumerate(hosts):
        other = 1 - number
        end = WireGuardEnd(host, program)
        peer = Peer(keys[other].public, (f"10.8.0.{other + 1}/32",), f"{hosts[other].address}:{WIREGUARD_PORT}")
        end.configure(keys[number].private.reveal(), listen_port=WIREGUARD_PORT, peers=[peer])
        end.up(f"10.8.0.{number + 1}/24", WIREGUARD_MTU)
        # Or the tailnet would find that way too, and take it: a tunnel in a tunnel.
        host.run("ip", "rule", "add", "pref", "100", "ipproto", "udp", "to", "10.8.0.0/24", "prohibit")


class _Meter:
    def __init__(self, sender: Host, receiver: Host, client: TailscaleClient) -> None:
        self._sender = sender
        self._receiver = receiver
        self._client = client
        self._port = FIRST_PORT

    def gigabits(self, way: Way, seconds: float) -> float:
        return float(self._both("drain", "pour", way, seconds)[0]) / 1e9

    def microseconds(self, way: Way, throws: int) -> float:
        return float(self._both("return", "throw", way, throws)[1])

    def _both(self, there: str, here: str, way: Way, amount: float) -> tuple[str, str]:
        self._port += 1
        told: list[str] = []

        def pump(host: Host, role: str) -> str:
            return host.run(
                sys.executable, "-I", "-S", str(PUMP), role, way.address, str(self._port), str(amount), bound_s=120.0
            )

        far = threading.Thread(target=lambda: told.append(pump(self._receiver, there)), daemon=True)
        far.start()
        near = pump(self._sender, here)
        far.join(30.0)
        assert told, f"{way.name}: the receiver said nothing"
        if way.name == TAILSCALE:
            taken = self._client.way_to(way.address)
            assert taken.startswith(f"{self._receiver.address}:"), (
                f"it went by {taken or 'the relay'}: that says nothing"
            )
        return told[0], near
