"""`HttpFactory` over the simulated network.

An endpoint is mounted under its origin; the path of a base URL goes before every path asked there, as on real sockets.
"""

from dataclasses import replace
from urllib.parse import urlsplit

from tgp.ports.clock import Clock
from tgp.ports.http import Call, Http, WrappedHttp
from tgp.sim.process import Host
from tgp.sim.router import Network


def origin_of(url: str) -> str:
    """What a server is mounted under: scheme, host and port."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


class Dialler:
    """The ways of one process (no host: a visitor's) to every endpoint."""

    def __init__(self, network: Network, clock: Clock, host: Host | None = None) -> None:
        self._network = network
        self._clock = clock
        self._host = host

    def __call__(self, base_url: str, *, address: str = "") -> Http:  # noqa: ARG002 - a mounted name is its address
        way = self._network.http(self._host, origin_of(base_url), self._clock)
        prefix = urlsplit(base_url).path.rstrip("/")
        return _Below(way, prefix) if prefix else way


class _Below(WrappedHttp):
    """An `Http` whose paths begin with a prefix."""

    def __init__(self, inner: Http, prefix: str) -> None:
        super().__init__(inner)
        self._prefix = prefix

    def _changed(self, call: Call) -> Call:
        return replace(call, path=self._prefix + call.path)
