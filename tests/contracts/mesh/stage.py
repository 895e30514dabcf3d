"""What a promise is played on: one control server's simulator and its adapter, joined by a network in memory.

Everything is in virtual time and from one seed. Every secret is a canary: it is looked for in all that is printed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

from tgp.adapters.mesh.headscale import HeadscaleMesh
from tgp.adapters.mesh.tailscale import TailscaleMesh
from tgp.core.model.mesh import Backend, Device, DeviceRef, MeshSettings, Ref, TailscaleJoin
from tgp.core.model.secret import Secret
from tgp.ports.clock import Clock
from tgp.ports.http import Call, HttpFactory, Reply
from tgp.ports.mesh import Enrollment, JoinRequest, Mesh, MeshError
from tgp.sim.clock import WorldClock
from tgp.sim.clouds.http_factory import Dialler
from tgp.sim.loop import VirtualLoop, close
from tgp.sim.mesh.headscale import HeadscaleSimulator
from tgp.sim.mesh.mesh_faults import MeshFault, MeshVerb
from tgp.sim.mesh.v2 import OAuthClient, TailscaleSimulator, V2Server
from tgp.sim.router import NO_LATENCY, Network
from tgp.sim.trace import RunTrace as Tracing

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)
URL = "http://control.test"
TAG = "tag:tgp-gpu"
CLIENT_ID, CLIENT_SECRET = Ref("tgp-operator-secret", "client-id"), Ref("tgp-operator-secret", "client-secret")
API_KEY, AUTH_KEY = Ref("headscale", "api-key"), Ref("fixed", "auth-key")


@dataclass(frozen=True)
class Kind:
    """One adapter against one server."""

    name: str
    server: Callable[[Clock, int | str], V2Server]
    backend: Backend
    by_oauth: bool
    tells_keys: bool = False  # of a device, by which key it joined

    def settings(self, **changes: Any) -> MeshSettings:
        base = MeshSettings(
            self.backend,
            login_server=URL if self.backend is Backend.HEADSCALE else "",
            tags=(TAG,),
            client_id=CLIENT_ID if self.by_oauth else None,
            client_secret=CLIENT_SECRET if self.by_oauth else None,
            api_key=None if self.by_oauth else API_KEY,
        )
        return replace(base, **changes)

    def build(self, settings: MeshSettings, secrets: dict[Ref, Secret], dial: HttpFactory, clock: Clock) -> Mesh:
        if self.backend is Backend.HEADSCALE:
            return HeadscaleMesh(settings, secrets, dial, clock)
        return TailscaleMesh(settings, secrets, dial, clock, base_url=URL)


def _headscale(minor: int, *, without_v2: bool = False) -> Callable[[Clock, int | str], V2Server]:
    return lambda clock, seed: HeadscaleSimulator(clock, seed, minor=minor, without_v2=without_v2)


KINDS = (
    Kind("tailscale", TailscaleSimulator, Backend.TAILSCALE, by_oauth=True),
    Kind("headscale-0.29", _headscale(29), Backend.HEADSCALE, by_oauth=False, tells_keys=True),
    Kind("headscale-0.30", _headscale(30), Backend.HEADSCALE, by_oauth=False),
    Kind("headscale-0.30-oauth", _headscale(30), Backend.HEADSCALE, by_oauth=True),
    Kind("headscale-0.30-v1", _headscale(30, without_v2=True), Backend.HEADSCALE, by_oauth=False, tells_keys=True),
)


class Stage:
    def __init__(self, kind: Kind, seed: int | str, loop: VirtualLoop) -> None:
        self.kind = kind
        self.clock = WorldClock(loop)
        self.server = kind.server(self.clock, seed)
        self.tailnet = self.server.tailnet
        self.network = Network(loop, Tracing(loop.time), seed)
        self.dial = Dialler(self.network, self.clock)
        self.calls: list[tuple[MeshVerb, Call]] = []
        self.instead: list[tuple[MeshVerb, Reply]] = []  # answers from somewhere between
        self.retell: Callable[[Reply], Reply] | None = None  # how answers are changed on their way back
        self.client = self._client()
        self.secrets = self._secrets()
        self.plug_in()
        self.mesh = self.mesh_with()

    def plug_in(self) -> None:
        self.network.mount(URL, self._answer, NO_LATENCY)

    def unplug(self) -> None:
        self.network.unmount(URL)

    def mesh_with(self, secrets: dict[Ref, Secret] | None = None, **changes: Any) -> Mesh:
        chosen = self.secrets if secrets is None else secrets
        return self.kind.build(self.kind.settings(**changes), chosen, self.dial, self.clock)

    def _client(self) -> OAuthClient:
        if isinstance(self.server, TailscaleSimulator):
            return self.server.client
        return self.server.open(OAuthClient("kSimulated", "hskey-client-canary0123456789abcdef"))

    def _secrets(self) -> dict[Ref, Secret]:
        if self.kind.by_oauth:
            return {CLIENT_ID: Secret(self.client.id), CLIENT_SECRET: Secret(self.client.secret)}
        assert isinstance(self.server, HeadscaleSimulator)
        return {API_KEY: Secret(self.server.api_key)}

    async def _answer(self, call: Call) -> Reply:
        verb = self.server.verb_of(call)
        self.calls.append((verb, call))
        for place, (wanted, reply) in enumerate(self.instead):
            if wanted is verb:
                del self.instead[place]
                return reply
        reply = await self.server.handle(call)
        return self.retell(reply) if self.retell is not None else reply

    # -- what a promise says -------------------------------------------------------------------------------------------

    def aim(self, mesh_fault: MeshFault, verb: MeshVerb, times: int = 1) -> None:
        self.server.faults.aim(mesh_fault, verb, times)

    def join_request(self, name: str = "tgp-train-3f2a91bc", lasts: timedelta = timedelta(minutes=30)) -> JoinRequest:
        token = f"tgp-c0ffee0123-{1:032x}-1"
        return JoinRequest(hostname=name, node_name=name, token=token, expires_at=self.clock.now() + lasts)

    def trace(self, name: str = "tgp-train-3f2a91bc", **changes: Any) -> DeviceRef:
        return replace(DeviceRef(name, self.clock.now()), **changes)

    async def enrolled(self, name: str = "tgp-train-3f2a91bc") -> tuple[Enrollment, DeviceRef]:
        trace = self.trace(name)
        made = await self.mesh.enroll(self.join_request(name))
        return made, replace(trace, key_id=made.key_id)

    async def joined(self, name: str = "tgp-train-3f2a91bc") -> tuple[Device, DeviceRef]:
        made, trace = await self.enrolled(name)
        return self.tailnet.join(key_of(made), name), trace

    def count(self, *verbs: MeshVerb) -> int:
        return sum(verb in verbs for verb, _ in self.calls)

    @property
    def canaries(self) -> list[str]:
        """Everything that must never be seen."""
        given = [secret.reveal() for ref, secret in self.secrets.items() if ref != CLIENT_ID]
        return [*given, *(key.secret for key in self.tailnet.keys.values()), *self.server.given_out]

    def leaks(self, text: str) -> list[str]:
        return [canary for canary in self.canaries if canary in text or canary[-16:] in text]

    async def raises(self, kind: type[E], doing: Awaitable[Any]) -> E:
        """The error, which must be one of `kind` and tell no secret, nor may what it came from."""
        try:
            result = await doing
        except kind as error:
            found = error
        except MeshError as error:
            raise AssertionError(f"expected {kind.__name__}, got {type(error).__name__}: {error}") from error
        else:
            raise AssertionError(f"expected {kind.__name__}, got {result!r}")
        assert self.leaks(everything_said(found)) == []
        return found


def key_of(made: Enrollment) -> str:
    assert isinstance(made.join, TailscaleJoin)
    return made.join.auth_key.reveal()


def everything_said(error: BaseException) -> str:
    """The error and what it came from, as a traceback would print them."""
    said: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(said) < 8:
        said.append(f"{cause!r} {cause}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n".join(said)


def play(kind: Kind, script: Callable[[Stage], Awaitable[T]], seed: int | str = 1) -> T:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_begin(kind, script, seed, loop))
    finally:
        close(loop)


async def _begin(kind: Kind, script: Callable[[Stage], Awaitable[T]], seed: int | str, loop: VirtualLoop) -> T:
    return await script(Stage(kind, seed, loop))
