"""Reference runs: a workload that users play, with any faults, then time without faults, then an hour without a change.

    outcome = run_workload(seed, faults)                   # a crowd, in a run with faults
    outcome = run_workload("idle", workload=IDLE, plan=plan)  # one thing goes wrong at one side effect

Every invariant is watched from the first second. A workload waits for what it needs, so that whatever goes wrong it
comes to the same end; `Outcome.end` is that end, `Outcome.counts` is what came and went on the way.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from tests.sim.an_operator import a_class, a_pool, create, operator_main
from tests.sim.cluster.manifests import a_template
from tests.sim.lifecycle.a_world import POWER, SimEnv, sim_env
from tests.sim.lifecycle.forks import Forks
from tgp.api.resource import (
    CONFIG_MAP,
    DEPLOYMENT,
    GPU_NODE_CLASS,
    GPU_NODE_POOL,
    GPU_REQUEST,
    JOB,
    NAMESPACE,
    NODE,
)
from tgp.app.settings import Settings
from tgp.core.inventory.orphans import too_many
from tgp.core.model.attempts import FINALIZER
from tgp.core.model.cooldowns import LONGEST_COOLDOWN
from tgp.core.model.token import plain_uid
from tgp.sim.checkers.leadership import OneLeader
from tgp.sim.checkers.money import NoOrphan, OneMachine, OneOrderPerAttempt
from tgp.sim.checkers.objects import OVER, Quiet, loose_ends
from tgp.sim.checkers.registry import INVARIANTS
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import Lie
from tgp.sim.clouds.machine import Phase
from tgp.sim.clouds.webhook import WebhookReceiver, settings_at
from tgp.sim.clouds.webhook.machines import name_of
from tgp.sim.faults import NONE, Faults
from tgp.sim.node_bootstrap import KubeletTimes, NodeFault
from tgp.sim.plans import Effect, FaultPlan

QUICK = KubeletTimes(registers=(5.0, 15.0), ready=(2.0, 5.0), gpus=(2.0, 8.0))
CALM_WITHIN = 240.0  # minutes of time without faults, until nothing happens any more
STILL = 13.0  # minutes without a change: longer than a class waits with its prices, an offer on its first bench
COUNTED = ("gpurequests", "nodes", "configmaps", "jobs")  # what comes and goes as often, whatever went wrong
CLASS = "rented"
FIRST_JOBS = 4  # that find no machine yet
POOL_DEEDS = 0.35  # of the deeds in a crowd with owned machines
SERVICES = 3  # at most
LIES_FOR = (30.0, 600.0)  # seconds


class Workload(Protocol):
    """What users do, and how many replicas look after them."""

    @property
    def name(self) -> str: ...

    @property
    def replicas(self) -> int: ...

    def begin(self, env: SimEnv) -> None:
        """What stands there before the operator comes."""

    def play(self, env: SimEnv) -> None:
        """The part that faults befall."""


@dataclass(frozen=True)
class Outcome:
    """What came of a run. All of its invariants held, and it ended in an hour without a change."""

    seed: int | str
    effects: tuple[Effect, ...] = field(repr=False)
    sent: Mapping[tuple[str, int], str] = field(repr=False)  # of a side effect: what it says, without names
    end: Mapping[str, Any]  # what is there
    counts: Mapping[str, int]  # what was made and removed on the way
    machines: int  # that were ever rented
    orders: int
    hand_overs: int
    duplicates: int
    oldest_orphan: float  # seconds
    paid_microusd: int
    paid_seconds: float  # of machines on the bill
    seconds: float  # of virtual time, in all


@dataclass(frozen=True)
class FaultRates:
    """What goes wrong beside the network and the processes: chances per call, and per machine that comes to run."""

    cloud_faults: Mapping[CloudFault, float] = field(default_factory=dict)
    node_faults: Mapping[NodeFault, float] = field(default_factory=dict)


def run_workload(
    seed: int | str,
    faults: Faults = NONE,
    plan: FaultPlan | None = None,
    *,
    workload: "Workload | None" = None,
    providers: tuple[str, ...] = (),  # default: `simulated`
    rates: FaultRates = FaultRates(),  # noqa: B008 - frozen
    settings: Settings | None = None,
    restarts: bool = False,  # before the quiet hour, so that no process remembers the earlier failures
    quiet: float | Callable[[FaultPlan | None], float] = 60.0,  # minutes
    invariants: tuple[Any, ...] = INVARIANTS,
    forks: Forks | None = None,  # tries plans from the moment each strikes, instead of `plan`
    environments: Callable[..., Any] = sim_env,  # where it runs
    replica: Callable[..., Any] = operator_main,
) -> Outcome:
    """Safety, then liveness, then quiet. Raises what an invariant has to say, with the seed and the plan."""
    chosen = workload or Crowd(seed)
    try:
        with environments(seed, *providers, kubelets=QUICK, invariants=(), faults=faults, plan=plan) as env:
            if forks is not None:
                forks.install(env.world.network)
            length = quiet if callable(quiet) else lambda _plan: quiet
            return _run(
                env,
                chosen,
                rates,
                invariants,
                restarts=restarts,
                quiet=lambda: length(forks.plan if forks is not None else plan),
                main=replica(settings, shipped=faults != NONE),
            )
    except BaseException as error:
        struck = forks.plan if forks is not None else plan
        error.add_note(f"workload {chosen.name!r}, plan {struck or 'none'}")
        raise


def _run(
    env: SimEnv,
    workload: Workload,
    rates: FaultRates,
    invariants: tuple[Any, ...],
    *,
    restarts: bool,
    quiet: Callable[[], float],
    main: Any,
) -> Outcome:
    world = env.world
    checkers = {type(checker): checker for checker in (env.recorder.add(kind(env.recorder)) for kind in invariants)}
    diary = Diary(env)
    for simulator in env.simulators.values():
        simulator.faults.chances.update(rates.cloud_faults)
    env.node_bootstrap.node_faults.chances.update(rates.node_faults)
    workload.begin(env)
    for number in range(workload.replicas):
        world.process(f"tgp-{number}", main)
    world.run(minutes=1)
    workload.play(env)
    without_faults(env)
    if restarts:
        for process in world.processes.values():
            process.crash(restart_after=5)
    env.until(_still(env), minutes=CALM_WITHIN, step=60)
    if rates.cloud_faults:  # what failed again and again is shown as on sale once its cooldown ends
        world.run(minutes=LONGEST_COOLDOWN.total_seconds() / 60)
    loose = loose_ends(env.recorder)
    assert not loose, "\n".join([*loose, env.told()])
    with Quiet(world, env.recorder):
        world.run(minutes=quiet())
    return Outcome(
        world.seed,
        tuple(world.effects),
        diary.sent,
        end_of(env),
        counts_of(env),
        len(env.simulator.fleet.machines),
        _of(checkers, OneOrderPerAttempt, "orders"),
        _of(checkers, OneLeader, "hand_overs"),
        _of(checkers, OneMachine, "duplicates"),
        _of(checkers, NoOrphan, "oldest"),
        sum(machine.cost_microusd(world.clock.now()) for machine in env.simulator.fleet.machines.values()),
        sum(
            ((machine.ended_at or world.clock.now()) - machine.created_at).total_seconds()
            for machine in env.simulator.fleet.machines.values()
        ),
        world.loop.time(),
    )


def _of(checkers: Mapping[Any, Any], kind: type, name: str) -> Any:
    return getattr(checkers[kind], name) if kind in checkers else 0


def without_faults(env: SimEnv) -> None:
    env.world.calm()
    env.node_bootstrap.node_faults.calm()
    for simulator in env.simulators.values():
        simulator.faults.calm()
        simulator.fleet.lie = None


def _still(env: SimEnv) -> Callable[[], bool]:
    """Has nothing been changed for a while?"""
    world = env.world
    seen, since = -1, world.loop.time()

    def look() -> bool:
        nonlocal seen, since
        now = sum("/leases" not in effect.path for effect in world.effects[max(seen, 0) :])
        if now or seen < 0:
            since = world.loop.time()
        seen = len(world.effects)
        return world.loop.time() - since >= STILL * 60

    return look


class Diary:
    """What each side effect said, without names and times: two that say the same are repeats of each other."""

    def __init__(self, env: SimEnv) -> None:
        self.sent: dict[tuple[str, int], str] = {}
        self._env = env
        network = env.world.network
        count = network.count_effect

        def noting(host: Any, endpoint: str, call: Any) -> Any:
            plan = count(host, endpoint, call)
            effect = network.effects[-1]
            self.sent[effect.process, effect.number] = gist_of(endpoint, call)
            return plan

        network.count_effect = noting  # type: ignore[method-assign]  # it only listens


def gist_of(endpoint: str, call: Any) -> str:
    return f"{call.method} {endpoint} {_kind(call.path)} {_said(call.body)}"


def _kind(path: str) -> str:
    """A path without the names in it."""
    parts = path.strip("/").split("/")
    known = (
        "gpurequests",
        "gpunodeclasses",
        "gpunodepools",
        "nodes",
        "configmaps",
        "events",
        "leases",
        "machines",
        "pods",
        "secrets",
    )
    return " ".join(part for part in parts if part in (*known, "status", "eviction", "binding"))


def _said(body: bytes) -> str:
    """Of a write: the conditions and phase it tells, else which fields it touches."""
    try:
        told = _decoded(body)
    except ValueError:
        return ""
    status = told.get("status") if isinstance(told.get("status"), dict) else {}
    rows = sorted(f"{row.get('type')}={row.get('status')}/{row.get('reason')}" for row in status.get("conditions", ()))
    outcomes = [str(row.get("outcome")) for row in status.get("attempts") or ()]
    fields = sorted(f"{part}.{name}" for part in ("metadata", "spec") for name in told.get(part) or ())
    reason = told.get("reason", "") if told.get("kind") == "Event" else ""
    return f"{status.get('phase', '')} {outcomes} {rows} {fields} {reason}"


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        told = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise ValueError("no JSON") from error
    return told if isinstance(told, dict) else {}


# -- the end, in words that two runs can share -------------------------------------------------------------------------


def end_of(env: SimEnv) -> dict[str, Any]:
    """Objects, Nodes and machines, without what may differ: uids, times, prices, which offer it was."""
    api = env.world.api.local_api
    return {
        "requests": {_name(obj): _request(obj) for obj in api.objects(GPU_REQUEST)},
        "classes": {_name(obj): sorted(obj["metadata"].get("finalizers", ())) for obj in api.objects(GPU_NODE_CLASS)},
        "nodes": len(env.nodes()),
        "machines": len(env.living()),
        "spent on": sorted(_spent_on(env)),
    }


def _name(obj: dict[str, Any]) -> str:
    meta = obj["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"


def _request(obj: dict[str, Any]) -> tuple[Any, ...]:
    status = obj.get("status", {})
    conditions = {row["type"]: (row["status"], row["reason"]) for row in status.get("conditions", ())}
    kept = {kind: conditions.get(kind) for kind in ("Launched", "Ready", "Terminating", "Ended")}
    # Whether a machine was lost or never was of use counts; orders that came to nothing do not.
    outcomes = [row.get("outcome") for row in status.get("attempts", ())]
    made = [outcome for outcome in outcomes if outcome not in ("NotCreated", "NotOrdered", "Busy", "SoldOut")]
    return status.get("phase"), tuple(obj["metadata"].get("finalizers", ())), kept, made


def _spent_on(env: SimEnv) -> Iterator[str]:
    maps = env.world.api.local_api.objects(CONFIG_MAP, "tgp-system")
    for found in maps:
        if "spend" in found["metadata"]["name"]:
            for text in (found.get("data") or {}).values():
                yield str(_decoded(text.encode()).get("request"))


def counts_of(env: SimEnv) -> dict[str, int]:
    """How often each object of interest came and went; Nodes by how their names begin."""
    counts: Counter[str] = Counter()
    for what, times in env.world.history.items():
        deed, storage, name = what.split(" ", 2)
        kind = storage.partition(".")[0]
        if kind in COUNTED:
            counts[f"{deed} {kind} {name.rpartition('-')[0] if kind == 'nodes' else name}"] += times
    return dict(counts)


# -- workloads ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneRequest:
    """Apply, Ready, a pod runs; then it idles out and is deleted, or is deleted at work."""

    name: str
    deleted_at_work: bool = False
    replicas: int = 1

    def begin(self, env: SimEnv) -> None:
        a_class(env.world, CLASS)

    def play(self, env: SimEnv) -> None:
        env.wants(idleTimeout="3m" if not self.deleted_at_work else "Never")
        env.until(lambda: env.phase() == "Ready")
        env.works(run_for="30m" if self.deleted_at_work else "1m")
        env.until(lambda: bool(env.running_pods()))
        if not self.deleted_at_work:
            env.until(lambda: env.phase() in OVER)
        env.drops()
        env.until(lambda: env.request() is None)
        env.world.api.local_api.delete(JOB, "default", "job", propagation="Background")


IDLE, DELETED = OneRequest("idle"), OneRequest("deleted", deleted_at_work=True)


def _bought_after_a_loss(outcomes: list[Any]) -> bool:
    """At once, or after a reservation that died with its process: no other process orders it."""
    return outcomes[-1:] == ["Launched"] and [each for each in outcomes if each != "NotCreated"][-2:-1] == ["Lost"]


@dataclass(frozen=True)
class Family:
    """Several requests on a class with limits, each with a fate of its own; two replicas."""

    name: str = "family"
    replicas: int = 2

    def begin(self, env: SimEnv) -> None:
        timeouts = {"launch": "6m", "boot": "1m", "join": "1m", "initialize": "2m"}
        limits = {"maxNodes": 3, "maxHourlyCost": "4"}
        a_class(env.world, CLASS, limits=limits, timeouts=timeouts, instanceRequirements={"spotAllowed": True})
        create(env.world, NAMESPACE, "team")
        env.node_bootstrap.node_faults.named["shy-"] = [NodeFault.NEVER_REGISTERS]

    def play(self, env: SimEnv) -> None:
        simulator = env.simulator
        simulator.faults.aim(CloudFault.SOLD_OUT, CloudVerb.LAUNCH)
        env.wants("old", maxLifetime="20m", idleTimeout="Never")
        env.until(lambda: len(simulator.fleet.machines) == 1)
        env.wants("shy", idleTimeout="4m")
        env.until(lambda: len(simulator.fleet.machines) == 2)
        env.wants("bold", spot=True, restartPolicy="OnLoss", idleTimeout="Never")
        env.until(lambda: len(simulator.fleet.machines) == 3)
        env.wants("team", "team", idleTimeout="Never")  # has to wait: three are allowed
        env.until(lambda: env.phase("bold") == "Ready")
        simulator.fleet.interrupt(next(one for one in simulator.fleet.living() if one.spot), simulator.fleet.advance())
        env.until(lambda: _bought_after_a_loss([row.get("outcome") for row in env.attempts("bold")]))
        env.until(lambda: env.phase("bold") == "Ready")
        env.until(lambda: env.phase("shy") in OVER)
        env.until(lambda: env.phase("old") in OVER)
        env.until(lambda: env.phase("team", "team") == "Ready")
        env.world.api.local_api.delete(NAMESPACE, "", "team")
        env.until(lambda: env.world.api.local_api.get(NAMESPACE, "", "team") is None)
        env.drops("bold")
        env.until(lambda: env.request("bold") is None)


FAMILY = Family()


@dataclass(frozen=True)
class PoolLife:
    """A pool whose first offer is sold out, for one pod; its machine empties, and the pool is deleted."""

    name: str = "pool"
    replicas: int = 2

    def begin(self, env: SimEnv) -> None:
        a_class(env.world, CLASS)
        a_pool(env.world, "team", CLASS, disruption={"consolidateAfter": "1m"})

    def play(self, env: SimEnv) -> None:
        local = env.world.api.local_api
        env.simulator.faults.aim(CloudFault.SOLD_OUT, CloudVerb.LAUNCH)
        env.works(run_for="2m")
        env.until(lambda: _succeeded(env, "job"))
        env.until(lambda: not _requests_of(env))
        local.delete(GPU_NODE_POOL, "default", "team")
        env.until(lambda: local.get(GPU_NODE_POOL, "default", "team") is None)
        local.delete(JOB, "default", "job", propagation="Background")


@dataclass(frozen=True)
class TwoMachines:
    """A pod that runs anywhere and one that needs 80 GB, whose machine is ready first: it is nominated to that."""

    name: str = "two machines"
    replicas: int = 2

    def begin(self, env: SimEnv) -> None:
        a_class(env.world, CLASS, timeouts={"launch": "5m", "boot": "1h", "join": "1h"})
        a_pool(env.world, "team", CLASS, disruption={"consolidateAfter": "1m"})

    def play(self, env: SimEnv) -> None:
        local = env.world.api.local_api
        env.works("any", run_for="3m")
        env.works("large", run_for="3m", nodeSelector={"tgp.io/gpu-memory": "80"})
        env.until(lambda: len(_requests_of(env)) == 2, step=1.0)
        cheap = min(_requests_of(env), key=lambda row: float(row["spec"]["maxHourlyPrice"]))
        env.node_bootstrap.node_faults.named[cheap["metadata"]["name"]] = [NodeFault.REGISTERS_LATE]
        env.until(lambda: _succeeded(env, "any") and _succeeded(env, "large"))
        env.until(lambda: not _requests_of(env))
        for name in ("any", "large"):
            local.delete(JOB, "default", name, propagation="Background")


def _requests_of(env: SimEnv) -> list[dict[str, Any]]:
    return list(env.world.api.local_api.objects(GPU_REQUEST))


def _succeeded(env: SimEnv, job: str) -> bool:
    found = env.world.api.local_api.get(JOB, "default", job)
    return found is not None and found.get("status", {}).get("succeeded") == 1


POOL, TWO_MACHINES = PoolLife(), TwoMachines()


@dataclass(frozen=True)
class Crowd:
    """People who come, change their minds and force things; drawn by the seed."""

    seed: int | str
    minutes: float = 60.0
    replicas: int = 2
    pause: tuple[float, float] = (20.0, 120.0)  # seconds between two deeds
    most: int = 0  # requests at once; 0: drawn
    gpus: tuple[str, ...] = ("RTX4090", "T4", "L4", "RTX3090", "A10")
    pools: bool = False  # two of them buy for jobs, on demand or spot, each within a limit of its own; one moves pods
    owned: tuple[int, ...] = ()  # machines you own, which a third pool switches; people and their power API interfere

    @property
    def name(self) -> str:
        return "crowd"

    def begin(self, env: SimEnv) -> None:
        luck = env.world.luck("crowd/class")
        limits = luck.choice(({}, {"maxNodes": luck.randint(3, 10)}, {"maxHourlyCost": str(luck.randint(2, 6))}))
        timeouts = {"launch": "6m", "boot": "2m", "join": "2m", "initialize": "3m"}
        a_class(env.world, CLASS, limits=limits, timeouts=timeouts, instanceRequirements={"spotAllowed": True})
        if self.pools:
            soon = {"consolidateAfter": "3m"}
            a_pool(env.world, "few", CLASS, limits={"resources": {"nodes": 2}}, disruption=soon)
            gpus = {"resources": {"nvidia.com/gpu": 2}}
            moving = {**soon, "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{"nodes": "50%"}]}
            a_pool(env.world, "cheap", CLASS, limits=gpus, maxHourlyPrice="0.50", disruption=moving)
        if self.owned:
            for number in self.owned:
                create(
                    env.world, NODE, name_of(number), status={"conditions": [{"type": "Ready", "status": "Unknown"}]}
                )
            a_class(env.world, "cellar", providers=[{"name": "webhook", "settings": _settings_of(self.owned)}])
            a_pool(env.world, "cellar", "cellar", disruption={"consolidateAfter": "2m"})

    def play(self, env: SimEnv) -> None:
        env.world.until(_People(env, self).live())


def _settings_of(numbers: tuple[int, ...]) -> dict[str, Any]:
    settings: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(settings_at(POWER, numbers)))
    settings["machines"] = [{**machine, "minOnTime": "2m"} for machine in settings["machines"]]
    return settings


class _People:
    def __init__(self, env: SimEnv, pod_counts: Crowd) -> None:
        self._env = env
        self._pod_counts = pod_counts
        self._luck = env.world.luck("crowd")
        self._most = pod_counts.most or self._luck.randint(5, 20)
        self._number = self._jobs = 0
        self._services: list[str] = []

    async def live(self) -> None:
        loop, luck = self._env.world.loop, self._luck
        until = loop.time() + self._pod_counts.minutes * 60
        for _ in range(self._most // 2):
            self._ask()
        for _ in range(FIRST_JOBS if self._pod_counts.pools else 0):
            self._work()
        while loop.time() < until:
            await asyncio.sleep(luck.uniform(*self._pod_counts.pause))
            self._answer_the_collector()
            self._do_something()
        for name in self._services:
            self._env.world.api.local_api.delete(DEPLOYMENT, "default", name, propagation="Background")
        for obj in self._requests():
            if obj["spec"].get("idleTimeout") != "Never" or luck.random() < 0.5:
                self._drop(obj)

    def _requests(self) -> list[dict[str, Any]]:
        return _requests_of(self._env)

    def _do_something(self) -> None:
        here, luck = self._requests(), self._luck
        if self._pod_counts.owned and luck.random() < POOL_DEEDS:
            luck.choice((self._serve, self._reprice, self._switch_by_hand, self._lie))()
            return
        dice = luck.random()
        live = [obj for obj in here if obj.get("status", {}).get("phase") not in OVER]
        if len(live) < 5 or (dice < 0.45 and len(live) < self._most):
            self._ask()
        elif dice < 0.60:
            self._work()
        elif here and dice < 0.85:
            self._drop(luck.choice(here))
        elif here and dice < 0.95:
            self._change(luck.choice(here))
        elif here:
            self._force(luck.choice(here))

    def _answer_the_collector(self) -> None:
        """More orphans at once than it terminates by itself: it stops and asks, and a person ends them by hand."""
        recorder = self._env.recorder
        there = recorder.everything()
        orphans = [one for one in there if recorder.owner(one) is None]
        if too_many(len(orphans), len(there)):
            for one in orphans:
                self._env.simulators[one.provider].fleet.end(one.machine)

    def _ask(self) -> None:
        self._number += 1
        luck = self._luck
        spec: dict[str, Any] = {
            "gpuType": luck.choice(self._pod_counts.gpus),
            "idleTimeout": luck.choice(("5m", "10m", "20m", "Never")),
            "maxLifetime": luck.choice(("15m", "1h", "24h")),
            "restartPolicy": luck.choice(("Never", "OnLoss")),
            "spot": luck.random() < 0.3,
        }
        if spec["idleTimeout"] == "Never":
            spec["maxLifetime"] = luck.choice(("15m", "Never"))
        if luck.random() < 0.3:
            spec["maxHourlyPrice"] = luck.choice(("0.30", "0.50", "1.00"))
        self._env.wants(f"r{self._number}", **spec)

    def _work(self) -> None:
        self._jobs += 1
        self._env.works(f"job{self._jobs}", run_for=self._luck.choice(("1m", "4m")))

    def _serve(self) -> None:
        """A service whose pods are created again wherever there is room, or one that is not needed any more."""
        local = self._env.world.api.local_api
        if len(self._services) >= SERVICES:
            local.delete(DEPLOYMENT, "default", self._services.pop(0), propagation="Background")
            return
        name, labels = f"service{self._jobs}", {"app": f"service{self._jobs}"}
        self._jobs += 1
        self._services.append(name)
        rented = [{"key": "tgp.io/ephemeral", "operator": "Exists"}]
        template = a_template(labels, gpus=self._luck.choice((1, 1, 2)), tolerations=rented)
        selector, replicas = {"matchLabels": labels}, self._luck.choice((1, 2))
        spec = {"replicas": replicas, "selector": selector, "template": template}
        create(self._env.world, DEPLOYMENT, name, "default", spec=spec)

    def _reprice(self) -> None:
        fleet = self._env.simulator.fleet
        for name in sorted(fleet.stands):
            fleet.reprice(
                name, max(round(fleet.stands[name].product.hourly_microusd * self._luck.uniform(0.5, 1.5)), 1)
            )

    def _switch_by_hand(self) -> None:
        receiver, name = self._receiver(), name_of(self._luck.choice(self._pod_counts.owned))
        if receiver.is_on(name):
            receiver.switch_off_by_hand(name)
        else:
            receiver.switch_on_by_hand(name)

    def _lie(self) -> None:
        """The power API says for a while that every machine is off, or that each of them broke."""
        fleet = self._receiver().fleet
        lie = fleet.lie = self._luck.choice((Lie(denies=True), Lie(phase=Phase.LOST)))

        def end() -> None:
            if fleet.lie is lie:
                fleet.lie = None

        self._env.world.loop.call_later(self._luck.uniform(*LIES_FOR), end)

    def _receiver(self) -> WebhookReceiver:
        receiver = self._env.simulators["webhook"]
        assert isinstance(receiver, WebhookReceiver), "the power API of owned machines"
        return receiver

    def _drop(self, obj: dict[str, Any]) -> None:
        self._env.drops(obj["metadata"]["name"])

    def _change(self, obj: dict[str, Any]) -> None:
        spec = {"idleTimeout": self._luck.choice(("5m", "30m"))}
        self._env.world.api.local_api.merge_patch(GPU_REQUEST, "default", obj["metadata"]["name"], {"spec": spec})

    def _force(self, obj: dict[str, Any]) -> None:
        """`kubectl patch … finalizers: null`, and delete: what impatient users do."""
        left = [name for name in obj["metadata"].get("finalizers", ()) if name != FINALIZER]
        name = obj["metadata"]["name"]
        self._drop(obj)
        if self._env.request(name) is not None:
            self._env.recorder.forced[plain_uid(obj["metadata"]["uid"])] = None
            change = {"metadata": {"finalizers": left or None}}
            self._env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, change)
