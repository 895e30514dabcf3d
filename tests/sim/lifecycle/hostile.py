"""A world with a hostile tenant in it: two victims who work, the tenant's forgeries, and who was touched by them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.sim.an_operator import NAMESPACE_NAME, a_class, a_pool, a_secret, create, operator_main
from tests.sim.cluster.manifests import a_pod
from tests.sim.forging import AIMS, Knowledge, aimed_status, forged_spec, forged_status, idle_status
from tests.sim.lifecycle.a_world import SimEnv
from tgp.api.resource import CONFIG_MAP, GPU_NODE_POOL, GPU_REQUEST, LEASE, NAMESPACE, POD
from tgp.api.values import rfc3339
from tgp.core.model.cloud_account import TABLE
from tgp.core.model.token import plain_uid, read_token
from tgp.ports.http import Call, Reply
from tgp.sim.apiserver.status_errors import Failure
from tgp.sim.cluster.machines import Hardware
from tgp.sim.world import KUBERNETES

HOME = "hostile"
ENDPOINT = "https://waits-for-keys.example"
VICTIMS = ("train", "serve")
OWN = ("h0", "h1", "h2")
POOL = "theirs"  # of the tenant
CONTROL_PLANE = "control-1"
CLAIMED = {"gpuType": "RTX4090", "nodeClassRef": {"name": "closed"}, "idleTimeout": "Never"}
NAMED = frozenset({"tgp-operator-secret"})  # the Secrets that classes name
CROWN = "crown-jewels"  # a Secret that no class names


class Hostile:
    """Everything that a forgery must not bring about is noted as it happens."""

    def __init__(self, env: SimEnv) -> None:
        self.env = env
        self.called: list[str] = []  # at the tenant's own address
        self.read: set[str] = set()  # Secrets
        world = env.world
        world.mount(ENDPOINT, self._answer)
        inner = world.api.handle

        async def handle(call: Call) -> Any:
            if call.method == "GET" and f"/namespaces/{NAMESPACE_NAME}/secrets/" in call.path:
                self.read.add(call.path.rpartition("/")[2].partition("?")[0])
            return await inner(call)

        world.mount(KUBERNETES, handle)
        a_secret(world, CROWN, token="the-crown")
        create(world, NAMESPACE, HOME)
        allowed = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
        a_class(world, "rented", limits={"maxNodes": 5}, allowedNamespaces=allowed)
        closed = {"matchLabels": {"team": "ours"}}
        a_class(world, "closed", providers=[{"name": "vultr"}, {"name": "simulated"}], allowedNamespaces=closed)
        for simulator in env.simulators.values():
            simulator.fleet.add_foreign(next(iter(simulator.fleet.accounts)), 2)
        world.process("operator", operator_main())
        world.run(minutes=2)
        for name in VICTIMS:
            env.wants(name, nodeClassRef={"name": "rented"}, idleTimeout="Never", maxLifetime="Never")
        env.until(lambda: all(env.phase(name) == "Ready" for name in VICTIMS), minutes=30)  # before stock runs out
        for name in OWN:
            env.wants(name, HOME, nodeClassRef={"name": "rented"}, idleTimeout="Never", maxLifetime="Never")
        world.cluster.power_on(Hardware(CONTROL_PLANE, registers_after=1.0, ready_after=1.0))
        a_pool(world, POOL, "rented", HOME, disruption={"consolidateAfter": "1m"})
        world.run(minutes=1)
        self.machines = {machine.name: machine.id for machine in self._others()}
        self.nodes = {name: env.node(name) for name in env.nodes() if name.startswith((*VICTIMS, CONTROL_PLANE))}
        for name in self.nodes:
            anywhere = [{"operator": "Exists"}]
            world.api.local_api.create(POD, a_pod(f"on-{name}", run_for="1000h", nodeName=name, tolerations=anywhere))

    async def _answer(self, call: Call) -> Reply:
        self.called.append(f"{call.method} {call.path}")
        return Reply(200, b"[]")

    def forge(self, count: int, *, pause: float = 20.0) -> None:
        luck = self.env.world.luck("hostile")
        for name, aim in zip(OWN, AIMS, strict=True):
            aimed = aimed_status(luck, self.knows(name, VICTIMS), aim)
            self._try(lambda name=name, aimed=aimed: self._patch(name, aimed))  # type: ignore[misc]
        self.env.world.run(minutes=5)
        for number in range(count):
            name = luck.choice(OWN)
            self._try(lambda name=name: self._patch(name, forged_status(luck, self.knows(name))))  # type: ignore[misc]
            if number % 5 == 0:
                spec = forged_spec(luck, self.knows(name))
                self._try(lambda number=number, spec=spec: self._create(f"s{number}", spec))  # type: ignore[misc]
            if number % 6 == 0:
                node = luck.choice(sorted(self.nodes))
                self._try(lambda number=number, node=node: self._forge_of_pool(f"p{number}", node))  # type: ignore[misc]
            if number % 7 == 0:
                self._try(lambda name=name: self._delete(name))  # type: ignore[misc]
            self.env.world.run(seconds=pause * (8 if number % 4 == 0 else 1))  # long enough to be believed absent

    def claim_machines(self, count: int) -> None:
        """Requests that say they have been Ready for long, on Nodes and in an account that do not exist.

        One says that it is terminated because its Node is lost.
        """
        since = rfc3339(self.env.world.clock.now() - timedelta(hours=5))
        for number in range(count):
            name = f"c{number}"
            self._try(lambda name=name: self._create(name, CLAIMED))  # type: ignore[misc]
            status = idle_status(self.knows(name), f"gone-{number}", since)
            loses = {"type": "Terminating", "status": "True", "reason": "NodeLost", "lastTransitionTime": since}
            status["attempts"][0]["account"] = "simulated-000000000000"
            status["conditions"] += [loses] if number == 0 else []
            self._try(lambda name=name, status=status: self._patch(name, {**status, "instanceId": "i-1"}))  # type: ignore[misc]

    def knows(self, name: str, whose: tuple[str, ...] = ()) -> Knowledge:
        """`whose`: only the machines of these requests; none: every machine there is."""
        env, api = self.env, self.env.world.api.local_api
        own = env.request(name, HOME) or {"metadata": {"uid": "0" * 32}}
        table = api.get(CONFIG_MAP, NAMESPACE_NAME, TABLE) or {}
        lease = api.get(LEASE, NAMESPACE_NAME, "tgp-operator") or {"metadata": {"uid": ""}, "spec": {}}
        machines = [one for simulator in env.simulators.values() for one in simulator.fleet.living()]
        attempts = [row for victim in VICTIMS for row in env.attempts(victim)]
        return Knowledge(
            uid=plain_uid(own["metadata"]["uid"]),
            cluster=env.recorder.cluster,
            endpoint=ENDPOINT,
            tokens=tuple(row["token"] for row in attempts),
            instances=tuple(row["instanceId"] for each in whose for row in env.attempts(each) if row.get("instanceId"))
            or tuple(one.id for one in machines),
            names=tuple(one.name for one in machines if one.foreign),
            accounts=tuple(table.get("data") or ()),
            secrets=(f"{CROWN}/token", "tgp-operator-secret/VULTR_API_KEY"),
            nodes=tuple(sorted(self.nodes)) if hasattr(self, "nodes") else ("node",),
            classes=("rented", "closed"),
            epochs=(*{row.get("epoch", "") for row in attempts}, str(lease["metadata"]["uid"])),
            skus=tuple((name, stand.product.sku, stand.product.place) for name, stand in self._dear()),
        )

    # -- what must not have happened -----------------------------------------------------------------------------------

    def judge(self) -> None:
        env = self.env
        assert not self.called, f"a status was believed: it named the address that was called: {self.called[:3]}"
        assert self.read <= NAMED, f"a Secret was read that no class names: {sorted(self.read - NAMED)}"
        left = {machine.name: machine.id for machine in self._others()}
        assert left == self.machines, f"a machine of others was touched: {set(self.machines) ^ set(left)}"
        for name in VICTIMS:
            assert env.phase(name) == "Ready", f"a request of others was touched: {env.told()}"
        for name, before in self.nodes.items():
            assert _looks(env.node(name)) == _looks(before), f"a Node of others was touched: {name}"
            pod = env.world.api.local_api.get(POD, "default", f"on-{name}")
            stays = pod is not None and not pod["metadata"].get("deletionTimestamp")
            assert stays, f"a pod of others was evicted from Node {name}"
        ordered = [machine for simulator in env.simulators.values() for machine in simulator.fleet.machines.values()]
        strange = [one.product.sku for one in ordered if not one.foreign and one.product.gpu != "RTX4090"]
        assert not strange, f"a machine was ordered by what a status says: {strange}"
        assert not [one for one in env.simulators["vultr"].fleet.machines.values() if not one.foreign], (
            "a class was opened to a namespace that it does not allow"
        )
        for line in (env.world.api.local_api.get(CONFIG_MAP, NAMESPACE_NAME, TABLE) or {}).get("data", {}).values():
            assert ENDPOINT not in line, "the table of accounts was written from a status"

    def _others(self) -> list[Any]:
        """Machines that no forgery may touch: the victims', and those that no operator ordered."""
        found = (self.env.request(name) for name in VICTIMS)
        uids = {plain_uid(request["metadata"]["uid"]) for request in found if request is not None}
        living = [one for simulator in self.env.simulators.values() for one in simulator.fleet.living()]
        marks = [(one, read_token(one.name)) for one in living]
        return [one for one, token in marks if one.foreign or (token is not None and token.uid in uids)]

    def _dear(self) -> list[tuple[str, Any]]:
        simulators = self.env.simulators.items()
        stands = [(name, stand) for name, simulator in simulators for stand in simulator.fleet.stands.values()]
        return [(name, stand) for name, stand in stands if stand.product.gpu != "RTX4090"]

    # -- writing -------------------------------------------------------------------------------------------------------

    def _try(self, deed: Callable[[], Any]) -> None:
        """The API server may refuse it: so much the better."""
        try:
            deed()
        except Failure:
            return

    def _patch(self, name: str, status: dict[str, Any]) -> None:
        if self.env.request(name, HOME) is None:
            self._create(name, {"gpuType": "RTX4090", "nodeClassRef": {"name": "rented"}, "idleTimeout": "Never"})
        self.env.world.api.local_api.merge_patch(GPU_REQUEST, HOME, name, {"status": status}, "status")

    def _forge_of_pool(self, name: str, node: str) -> None:
        """A request that looks as if the tenant's pool had written it, for a machine that is this Node."""
        api = self.env.world.api.local_api
        pool = api.get(GPU_NODE_POOL, HOME, POOL)
        assert pool is not None, "the tenant keeps the pool"
        owner = {"apiVersion": "tgp.io/v1", "kind": "GPUNodePool", "name": POOL, "uid": pool["metadata"]["uid"]}
        meta = {"name": name, "namespace": HOME, "ownerReferences": [{**owner, "controller": True}]}
        spec = {"gpuType": "RTX4090", "nodeClassRef": {"name": "rented"}, "idleTimeout": "Never"}
        row = {"apiVersion": GPU_REQUEST.api_version, "kind": GPU_REQUEST.kind, "metadata": meta, "spec": spec}
        api.create(GPU_REQUEST, row)
        since = rfc3339(self.env.world.clock.now() - timedelta(hours=1))
        api.merge_patch(GPU_REQUEST, HOME, name, {"status": idle_status(self.knows(name), node, since)}, "status")

    def _create(self, name: str, spec: dict[str, Any]) -> None:
        create(self.env.world, GPU_REQUEST, name, HOME, spec=spec)

    def _delete(self, name: str) -> None:
        self.env.world.api.local_api.delete(GPU_REQUEST, HOME, name)


def _looks(node: dict[str, Any] | None) -> tuple[Any, ...]:
    if node is None:
        return ()
    labels = {key: value for key, value in node["metadata"].get("labels", {}).items() if key.startswith("tgp.io/")}
    return labels, node["spec"].get("unschedulable"), node["spec"].get("taints"), node["metadata"]["uid"]
