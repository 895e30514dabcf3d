"""The embedded world: an API server in memory, machines that run pods, people who change things, and one operator.

Runs on whatever loop it is made on: scaled for a person to watch, virtual for a test. It begins with everything in
place and nothing judged yet; the operator is a guest with an account and the shipped rights, like any other.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from tgp.api.resource import SERVICE_ACCOUNT
from tgp.app.embedded.machines import MACHINES
from tgp.app.embedded.market import OWNED, EmbeddedMarket
from tgp.app.embedded.stage import Stage
from tgp.app.embedded.stock import ACCOUNT, NAMESPACE, furnish
from tgp.ports.clock import Clock
from tgp.ports.entropy import Entropy
from tgp.ports.http import Call, Reply, Streaming
from tgp.sim.apiserver import ApiServer
from tgp.sim.apiserver.identity import ADMIN
from tgp.sim.apiserver.json_value import Json
from tgp.sim.cluster.control_plane import ControlPlane
from tgp.sim.estate import Estate, Kubelets
from tgp.surfaces.terminal.scene import Story

SEED = "embedded world"
TOKEN_BYTES = 24
TOKEN_LASTS = timedelta(days=365)
WATCH_LASTS = 1800  # seconds: --min-request-timeout of the API server
LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]", "::1", ""})
JOBS_RUN_FOR = 120.0  # seconds of pods of Jobs that do not say how long (annotation sim.tgp.io/run-for)
CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
REVIEWS = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")
INTO_A_CONTAINER = frozenset({"exec", "attach", "portforward"})
NO_CONTAINER = Reply(
    501,
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","code":501,"reason":"NotImplemented","message":'
    b'"the demo runs no containers, so there is none to go into; kubectl logs and kubectl describe work"}',
    (("Content-Type", "application/json"),),
)
STRANGER = Reply(403, b"only this machine talks to the embedded world\n", (("Content-Type", "text/plain"),))


class EmbeddedWorld:
    def __init__(self, clock: Clock, entropy: Entropy, *, speed: float = 1.0, seed: int | str = SEED) -> None:
        self.server = ApiServer(clock, entropy)
        self._entropy = entropy
        self._seed = seed
        self._speed = speed
        self.market = EmbeddedMarket(clock, f"{seed}/market")
        furnish(self.server, self.market)
        self.visitors_token = self.viewer_token()  # stands in the kubeconfig
        self._cluster = ControlPlane(
            self.server.core, Random(f"{seed}/machines"), asyncio.get_running_loop(), jobs_run_for=JOBS_RUN_FOR
        )
        self.server.logs = said_by
        self.on_visitors_change: Callable[[], None] = lambda: None
        # GPUs count once the device plugin runs there, as on a real machine.
        self._estate = Estate(
            self._cluster,
            asyncio.get_running_loop(),
            clock,
            f"{seed}/estate",
            kubelets=Kubelets(plugin=True),
            tailnets={"": self.market.tailscale.tailnet},
        )
        for provider, simulator in self.market.desk.simulators.items():
            if provider != OWNED:  # the boxes in the cellar are on already
                self._estate.adopt(simulator)
        self._stage = Stage(self.server, self._cluster, self.market, clock)
        for machine in MACHINES:
            self._cluster.power_on(machine)

    def operator_token(self) -> str:
        """A token of the operator's ServiceAccount: all that the shipped RBAC allows, and nothing else."""
        account = self.server.backstage.get(SERVICE_ACCOUNT, NAMESPACE, ACCOUNT)
        assert account is not None, "the shipped RBAC makes the account"
        token, _ = self.server.authentication.issue(account, TOKEN_LASTS, ())
        return token

    def viewer_token(self) -> str:
        """For the view on the screen: it may read everything, and counts by this world's clock."""
        token = self._entropy.token(TOKEN_BYTES).hex()
        self.server.authentication.add_token(token, ADMIN)
        return token

    def life(self) -> Coroutine[Any, Any, None]:
        """What people do and machines suffer, until cancelled."""
        return self._stage.play(Random(f"{self._seed}/script"))

    def stories(self) -> tuple[Story, ...]:
        """The last things that the script did, oldest first."""
        return tuple(self._stage.stories)

    async def handle(self, call: Call) -> Reply | Streaming:
        """Whoever comes without a token is the administrator, as behind `kubectl proxy`; so nobody comes from afar.

        The port is bound to loopback; a page in a browser that had its name resolved to it is told apart by its Host.
        """
        host = call.header("Host").rpartition(":")[0] or call.header("Host")
        if host not in LOCAL:
            return STRANGER
        if self.market.serves(call):
            return await self.market.handle(call)
        if "/pods/" in call.path and call.path.rpartition("/")[2] in INTO_A_CONTAINER:
            return NO_CONTAINER
        admitted = self._admitted(call)
        reply = await self.server.handle(patient(admitted, self._speed))
        if changes(admitted) and isinstance(reply, Reply) and reply.ok:
            self.on_visitors_change()
        return reply

    def _admitted(self, call: Call) -> Call:
        """A visitor with the kubeconfig's token is the administrator, like one without any."""
        if call.header("Authorization") != f"Bearer {self.visitors_token}":
            return call
        return replace(call, headers=tuple(pair for pair in call.headers if pair[0].lower() != "authorization"))

    def close(self) -> None:
        self._estate.close()
        self._cluster.close()


def changes(call: Call) -> bool:
    """Whether a visitor, who shows no token, asks for a change. Reviews and dry runs change nothing."""
    return (
        call.method in CHANGING
        and not call.header("Authorization")
        and not call.path.startswith(REVIEWS)
        and not call.parameter("dryRun")
    )


def said_by(pod: Json, container: str) -> str:
    """What a container of this world has to say: when it began and how it ended, as its status tells."""
    lines: list[str] = []
    for row in pod.get("status", {}).get("containerStatuses") or ():
        if row["name"] == container:
            for state in (row.get("lastState") or {}, row["state"]):
                lines += _lines(state, row.get("image", ""))
    return "".join(f"{line}\n" for line in lines)


def _lines(state: Json, image: str) -> Iterator[str]:
    if running := state.get("running"):
        yield f"{running['startedAt']} started from {image}; a pretend container that only passes its time"
    if ended := state.get("terminated"):
        yield f"{ended.get('startedAt', '')} started from {image}; a pretend container that only passes its time"
        yield f"{ended.get('finishedAt', '')} ended with exit code {ended['exitCode']}"


def patient(call: Call, speed: float) -> Call:
    """A visitor's watch, as long on the wall as was asked for, or as a real server would let it last.

    Visitors count by their own clock; whoever shows a token lives here, and counts by the world's.
    """
    watching = call.parameter("watch") not in {"", "0", "false"}
    if speed <= 1 or not watching or call.header("Authorization"):
        return call
    asked = call.parameter("timeoutSeconds")
    seconds = int(asked) if asked.isascii() and asked.isdigit() else WATCH_LASTS
    rest = tuple(pair for pair in call.query if pair[0] != "timeoutSeconds")
    return replace(call, query=(*rest, ("timeoutSeconds", str(int(seconds * speed)))))
