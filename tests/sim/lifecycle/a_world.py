"""Builders for whole simulations: providers whose machines join, an operator or a hand that acts, and a recorder."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any

from tests.sim.an_operator import a_secret, create, furnish
from tests.sim.cluster.manifests import a_job, a_template
from tgp.adapters.clouds.registry import facts_of
from tgp.api.common import DEFAULT_KEYS
from tgp.api.resource import CONFIG_MAP, DAEMON_SET, GPU_NODE_POOL, GPU_REQUEST, JOB, NAMESPACE, NODE, POD
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION
from tgp.core.model.offer import Trust
from tgp.core.model.token import token_for
from tgp.core.requests.purchase import ALLOW_UNTRUSTED
from tgp.sim.checkers.recorder import Recorder
from tgp.sim.checkers.registry import INVARIANTS
from tgp.sim.clouds.http_factory import origin_of
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.registry import pretend
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.node_bootstrap import KubeletTimes, NodeBootstrap
from tgp.sim.process import Host
from tgp.sim.world import World

POWER = "http://power.cellar.internal"
POWER_HOST, POWER_ADDRESS = "power.cellar.internal", ip_address("10.77.0.2")
DAY = 24.0
PLUGIN = "gpu-plugin"


@dataclass
class SimEnv:
    """One world with everything in it."""

    world: World
    node_bootstrap: NodeBootstrap
    recorder: Recorder
    simulators: Mapping[str, Simulator] = field(default_factory=dict)

    # -- what is there -------------------------------------------------------------------------------------------------

    @property
    def simulator(self) -> Simulator:
        """The only provider, or the first."""
        return next(iter(self.simulators.values()))

    def living(self, provider: str = "") -> list[SimulatedMachine]:
        """Billed machines of this cluster."""
        simulators = [self.simulators[provider]] if provider else self.simulators.values()
        return [machine for simulator in simulators for machine in simulator.fleet.living() if not machine.foreign]

    def request(self, name: str = "train", namespace: str = "default") -> dict[str, Any] | None:
        return self.world.api.local_api.get(GPU_REQUEST, namespace, name)

    def phase(self, name: str = "train", namespace: str = "default") -> str:
        found = self.request(name, namespace)
        return (found or {}).get("status", {}).get("phase", "") if found else "gone"

    def condition(self, kind: str, name: str = "train") -> tuple[str, str, str]:
        rows = (self.request(name) or {}).get("status", {}).get("conditions", [])
        return next(((row["status"], row["reason"], row["message"]) for row in rows if row["type"] == kind), ("",) * 3)

    def attempts(self, name: str = "train") -> list[dict[str, Any]]:
        return (self.request(name) or {}).get("status", {}).get("attempts", [])

    def node(self, name: str) -> dict[str, Any] | None:
        return self.world.api.local_api.get(NODE, "", name)

    def nodes(self) -> list[str]:
        """Those of rented machines."""
        return [
            node["metadata"]["name"]
            for node in self.world.api.local_api.objects(NODE)
            if node["spec"].get("providerID", "").startswith("tgp://")
        ]

    def spend_records(self) -> str:
        """Everything in the monthly records, as text."""
        maps = self.world.api.local_api.objects(CONFIG_MAP, "tgp-system")
        return " ".join(str(found.get("data")) for found in maps if "spend" in found["metadata"]["name"])

    # -- what users do ------------------------------------------------------------------------------------------------

    def wants(self, name: str = "train", namespace: str = "default", **spec: Any) -> None:
        """A user applies a GPURequest."""
        create(self.world, GPU_REQUEST, name, namespace, spec={"gpuType": "RTX4090", **spec})

    def pool_wants(self, pool: str, name: str = "train", namespace: str = "default", **spec: Any) -> None:
        """A pool creates a GPURequest."""
        found = self.world.api.local_api.get(GPU_NODE_POOL, namespace, pool)
        assert found is not None, f"there is no pool {pool}"
        owner = {"apiVersion": "tgp.io/v1", "kind": "GPUNodePool", "name": pool, "uid": found["metadata"]["uid"]}
        meta = {"name": name, "namespace": namespace, "ownerReferences": [{**owner, "controller": True}]}
        given = {"gpuType": "RTX4090", "nodeClassRef": found["spec"]["nodeClassRef"], "maxLifetime": "Never", **spec}
        manifest = {"apiVersion": "tgp.io/v1", "kind": "GPURequest", "metadata": meta, "spec": given}
        self.world.api.local_api.create(GPU_REQUEST, manifest)

    def drops(self, name: str = "train", namespace: str = "default") -> None:
        self.world.api.local_api.delete(GPU_REQUEST, namespace, name)

    def works(self, name: str = "job", *, run_for: str = "10m", gpus: int = 1, **spec: Any) -> None:
        """A job that needs GPUs, and tolerates what rented machines carry."""
        tolerations = [{"operator": "Exists"}]
        template = a_template(run_for=run_for, gpus=gpus, restartPolicy="Never", tolerations=tolerations, **spec)
        self.world.api.local_api.create(JOB, a_job(name, template=template))

    def running_pods(self) -> list[str]:
        return [
            pod["metadata"]["name"]
            for pod in self.world.api.local_api.objects(POD)
            if pod["status"].get("phase") == "Running" and "job-name" in pod["metadata"].get("labels", {})
        ]

    def until(self, happened: Any, *, minutes: float = 120, step: float = 5.0) -> None:
        """Let time pass until something is so; it must become so."""

        async def look() -> bool:
            for _ in range(int(minutes * 60 / step)):
                if happened():
                    return True
                await asyncio.sleep(step)
            return bool(happened())

        assert self.world.until(look()), f"not within {minutes} minutes; {self.told()}"

    def told(self) -> str:
        """How the requests stand, for the text of a failure."""
        rows = [_summary(claim.name, claim.obj.get("status", {})) for claim in self.recorder.claims.values()]
        return "\n".join([*rows, *(f"{one}" for one in self.recorder.everything())])


def sold_by_any_host(simulator: Simulator) -> None:
    """Every machine of the simulator belongs to an unchecked owner instead of the provider."""
    for stand in simulator.fleet.stands.values():
        stand.product = replace(stand.product, trust=Trust.ANY)


def _summary(name: str, status: dict[str, Any]) -> str:
    conditions = {row["type"]: (row["status"], row["reason"]) for row in status.get("conditions", [])}
    return f"{name}: {status.get('phase')} {status.get('message', '')} {conditions}"


@contextmanager
def sim_env(
    seed: int | str,
    *providers: str,
    kubelets: KubeletTimes = KubeletTimes(),  # noqa: B008 - frozen
    invariants: Any = INVARIANTS,
    moves: bool = False,
    keys: bool = True,
    untrusted_hosts: bool = True,  # may requests in `default` be served by hosts of marketplaces?
    **options: Any,
) -> Iterator[SimEnv]:
    """A world with these providers (default: `simulated`), a device plugin, and every invariant watched."""
    with World(seed, **options) as world:
        furnish(world)
        if untrusted_hosts:
            labels = {"metadata": {"labels": {ALLOW_UNTRUSTED: "true"}}}
            world.api.local_api.merge_patch(NAMESPACE, "", "default", labels)
        a_device_plugin(world)
        node_bootstrap = NodeBootstrap(world.cluster, world.loop, world.clock, seed, kubelets=kubelets)
        recorder = Recorder(world)
        recorder.call(*invariants)
        simulators = {name: _simulator(world, name, moves=moves) for name in providers or ("simulated",)}
        for name, simulator in simulators.items():
            node_bootstrap.adopt(simulator)
            recorder.adopt(simulator, _place(name))
        if keys:
            give_keys(world, simulators)
        yield SimEnv(world, node_bootstrap, recorder, simulators)


def keys_of(simulators: Mapping[str, Simulator]) -> dict[str, str]:
    return {
        DEFAULT_KEYS[name]: simulator.key_at(_place(name))
        for name, simulator in simulators.items()
        if name in DEFAULT_KEYS
    }


def give_keys(world: World, simulators: Mapping[str, Simulator]) -> None:
    keys = keys_of(simulators)
    if keys:
        a_secret(world, "tgp-operator-secret", **keys)


def _simulator(world: World, provider: str, *, moves: bool) -> Simulator:

    simulator = pretend(provider, world.clock, world.seed)
    simulator.fleet.habits = replace(simulator.fleet.habits, moves=moves)
    for stand in simulator.fleet.stands.values():
        stand.stock = max(stand.stock, 2) if not stand.product.host else stand.stock
    world.mount(_place(provider), simulator.handle)
    if provider == "webhook":
        world.resolver.point(POWER_HOST, POWER_ADDRESS)
    return simulator


def _place(provider: str) -> str:
    return POWER if provider == "webhook" else origin_of(facts_of(provider).endpoint)


def a_device_plugin(world: World) -> None:
    """A DaemonSet that would provide GPUs on any Node; here the kubelets report them by themselves."""
    template = a_template({"app": PLUGIN}, tolerations=[{"operator": "Exists"}])
    template["spec"]["containers"][0]["image"] = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"
    template["spec"]["nodeSelector"] = {"nvidia.com/gpu.present": "true"}
    spec = {"selector": {"matchLabels": {"app": PLUGIN}}, "template": template}
    create(world, DAEMON_SET, PLUGIN, "kube-system", spec=spec)


# -- by hand: what an operator would do, one call at a time ------------------------------------------------------------


def a_hand(world: World, name: str = "hand") -> Host:
    """A process that does nothing by itself; tests send calls as it."""
    found: list[Host] = []

    async def main(host: Host) -> None:
        found.append(host)
        await asyncio.Event().wait()

    world.process(name, main)
    world.run(seconds=0.1)
    return found[-1]


def token_of(env: SimEnv, name: str = "train", attempt: int = 1) -> str:
    found = env.request(name)
    assert found is not None, f"there is no request {name}"
    return token_for(env.recorder.cluster, found["metadata"]["uid"], attempt)


def guard(env: SimEnv, name: str = "train") -> None:
    """The finalizer and its companion."""
    found = env.request(name)
    assert found is not None, f"there is no request {name}"
    meta = {"finalizers": [FINALIZER], "annotations": {UID_ANNOTATION: found["metadata"]["uid"]}}
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, {"metadata": meta})


def write(env: SimEnv, name: str = "train", **status: Any) -> None:
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, {"status": status}, "status")


def an_attempt(env: SimEnv, number: int = 1, name: str = "train", **row: Any) -> dict[str, Any]:
    offer = {"provider": "simulated", "instanceType": "t4.1", "gpuCount": 1, "vcpus": 4, "memoryGiB": 16}
    offer |= {"hourlyPrice": row.pop("price", "0.24")}
    return {"number": number, "token": token_of(env, name, number), "offer": offer, **row}


def reserve(env: SimEnv, name: str = "train", number: int = 1, **row: Any) -> str:
    """On paper first: finalizer, attempt, class."""
    guard(env, name)
    write(env, name, nodeClass="rented", attempts=[an_attempt(env, number, name, **row)])
    return token_of(env, name, number)


def is_up(machine: SimulatedMachine) -> bool:
    return machine.phase is Phase.RUNNING
