"""The demo world: an API server in memory, machines that run pods, a scenario of user actions, and one operator.

It runs on the loop on which it is created: scaled for the demo, virtual for a test. At the start all objects exist
and have no status; the operator uses its ServiceAccount and the shipped RBAC.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from tgp.api.resource import SERVICE_ACCOUNT
from tgp.app.demo.fixtures import ACCOUNT, NAMESPACE, create_fixtures
from tgp.app.demo.machines import MACHINES, OWNED_MACHINES, REBOOTED
from tgp.app.demo.market import EmbeddedMarket
from tgp.app.demo.player import ScenarioPlayer
from tgp.interfaces.health import METRICS
from tgp.interfaces.terminal.snapshot import ScenarioLine
from tgp.ports.clock import Clock
from tgp.ports.entropy import Entropy
from tgp.ports.http import Call, Reply, Streaming
from tgp.sim.apiserver import ApiServer
from tgp.sim.apiserver.identity import ADMIN
from tgp.sim.apiserver.json_value import Json
from tgp.sim.budget_truth import BudgetTruth
from tgp.sim.cluster.control_plane import ControlPlane
from tgp.sim.node_bootstrap import KubeletTimes, NodeBootstrap

SEED = "embedded world"
METRICS_PATH = "/operator/metrics"  # /metrics would be the API server's
TOKEN_BYTES = 24
TOKEN_LASTS = timedelta(days=365)
WATCH_LASTS = 1800  # seconds: --min-request-timeout of the API server
LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]", "::1", ""})
JOBS_RUN_FOR = 120.0  # seconds, for pods of Jobs without the annotation sim.tgp.io/run-for
CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
REVIEWS = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")
INTO_A_CONTAINER = frozenset({"exec", "attach", "portforward"})
NO_CONTAINER = Reply(
    501,
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","code":501,"reason":"NotImplemented","message":'
    b'"the demo runs no real containers; kubectl logs and kubectl describe work"}',
    (("Content-Type", "application/json"),),
)
REMOTE_REFUSED = Reply(
    403, b"the demo world only accepts connections from this machine\n", (("Content-Type", "text/plain"),)
)


class EmbeddedWorld:
    def __init__(self, clock: Clock, entropy: Entropy, *, speed: float = 1.0, seed: int | str = SEED) -> None:
        self.server = ApiServer(clock, entropy)
        self.budget_truth = BudgetTruth(self.server.core, clock.now)
        self.metrics: Callable[[], bytes] = lambda: b""  # the operator's page
        self._entropy = entropy
        self._seed = seed
        self._speed = speed
        self.market = EmbeddedMarket(clock, f"{seed}/market")
        create_fixtures(self.server, self.market)
        self.visitors_token = self.viewer_token()  # used in the kubeconfig
        self._cluster = ControlPlane(
            self.server.core, Random(f"{seed}/machines"), asyncio.get_running_loop(), jobs_run_for=JOBS_RUN_FOR
        )
        self.server.logs = container_log
        self.on_visitors_change: Callable[[], None] = lambda: None
        # GPUs count once the device plugin runs there, as on a real machine.
        self._node_bootstrap = NodeBootstrap(
            self._cluster,
            asyncio.get_running_loop(),
            clock,
            f"{seed}/estate",
            kubelets=KubeletTimes(plugin=True),
            tailnets={"": self.market.tailscale.tailnet},
            owned={machine.name: machine for machine in MACHINES if machine.name in OWNED_MACHINES},
        )
        for simulator in self.market.admin.simulators.values():
            self._node_bootstrap.adopt(simulator)
        self.player = ScenarioPlayer(self.server, self._cluster, self.market, clock)
        for machine in MACHINES:
            if machine.name in OWNED_MACHINES:
                self.market.power.switch_on_by_hand(machine.name, booted=True)
            else:
                self._cluster.power_on(machine)
        self._node_bootstrap.owned = {name: REBOOTED[name] for name in OWNED_MACHINES}

    def operator_token(self) -> str:
        """A token of the operator's ServiceAccount, with exactly the shipped RBAC."""
        account = self.server.local_api.get(SERVICE_ACCOUNT, NAMESPACE, ACCOUNT)
        assert account is not None, "the shipped RBAC makes the account"
        token, _ = self.server.authentication.issue(account, TOKEN_LASTS, ())
        return token

    def viewer_token(self) -> str:
        """For the view on the screen: an administrator whose timeouts follow the simulated clock."""
        token = self._entropy.token(TOKEN_BYTES).hex()
        self.server.authentication.add_token(token, ADMIN)
        return token

    def scenario(self) -> Coroutine[Any, Any, None]:
        """User actions and machine failures, until cancelled."""
        return self.player.play(Random(f"{self._seed}/script"))

    def scenario_lines(self) -> tuple[ScenarioLine, ...]:
        """The last steps of the scenario, oldest first."""
        return tuple(self.player.scenario_lines)

    async def handle(self, call: Call) -> Reply | Streaming:
        """A client without a token is the administrator, as behind `kubectl proxy`; so only local clients are accepted.

        The port is bound to loopback; a browser page whose name resolves to it (DNS rebinding) is refused by its Host.
        """
        host = call.header("Host").rpartition(":")[0] or call.header("Host")
        if host not in LOCAL:
            return REMOTE_REFUSED
        if self.market.serves(call):
            return await self.market.handle(call)
        if call.path == METRICS_PATH:
            return Reply(200, self.metrics(), METRICS)
        if into_a_container(call):
            return NO_CONTAINER
        admitted = self._admitted(call)
        reply = await self.server.handle(stretched(admitted, self._speed))
        if changes(admitted) and isinstance(reply, Reply) and reply.ok:
            self.on_visitors_change()
        return reply

    def _admitted(self, call: Call) -> Call:
        """A client with the kubeconfig's token is the administrator, like one without a token."""
        if call.header("Authorization") != f"Bearer {self.visitors_token}":
            return call
        return replace(call, headers=tuple(pair for pair in call.headers if pair[0].lower() != "authorization"))

    def close(self) -> None:
        self._node_bootstrap.close()
        self._cluster.close()


def into_a_container(call: Call) -> bool:
    """A subresource of a pod, and no pod of that name."""
    *_, kind, _pod, way = ("", "", *call.path.split("/"))
    return kind == "pods" and way in INTO_A_CONTAINER


def changes(call: Call) -> bool:
    """Whether a client without a token sends a change. Reviews and dry runs change nothing."""
    return (
        call.method in CHANGING
        and not call.header("Authorization")
        and not call.path.startswith(REVIEWS)
        and not call.parameter("dryRun")
    )


def container_log(pod: Json, container: str) -> str:
    """The log of a simulated container: when it started and ended, from its status."""
    lines: list[str] = []
    for row in pod.get("status", {}).get("containerStatuses") or ():
        if row["name"] == container:
            for state in (row.get("lastState") or {}, row["state"]):
                lines += _lines(state, row.get("image", ""))
    return "".join(f"{line}\n" for line in lines)


def _lines(state: Json, image: str) -> Iterator[str]:
    if running := state.get("running"):
        yield f"{running['startedAt']} started from {image}; a simulated container that only waits"
    if ended := state.get("terminated"):
        yield f"{ended.get('startedAt', '')} started from {image}; a simulated container that only waits"
        yield f"{ended.get('finishedAt', '')} ended with exit code {ended['exitCode']}"


def stretched(call: Call, speed: float) -> Call:
    """A client's watch lasts as long in real time as the client asked for, or as a real server would allow.

    Clients without a token use real time; clients with a token use the simulated time.
    """
    watching = call.parameter("watch") not in {"", "0", "false"}
    if speed <= 1 or not watching or call.header("Authorization"):
        return call
    asked = call.parameter("timeoutSeconds")
    seconds = int(asked) if asked.isascii() and asked.isdigit() else WATCH_LASTS
    rest = tuple(pair for pair in call.query if pair[0] != "timeoutSeconds")
    return replace(call, query=(*rest, ("timeoutSeconds", str(int(seconds * speed)))))
