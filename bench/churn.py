"""A day of pods that never change, at prices that wander: what exchanges save, and how often pods move for that.

The shipped controllers on the lean world. "Any saving counts" is the same operator without the count of one-time costs,
without `minSavings`, without the hour in which a new machine is left alone, and without the time that a saving has to
hold. As shipped nothing is exchanged in the first two hours for that, so that runs of a few hours say little.
"""

import argparse
import math
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from bench.safety.lean import look_at_classes
from bench.safety.replica import Replica, readers
from tgp.adapters.clouds.registry import facts_of
from tgp.api.resource import DEPLOYMENT, GPU_NODE_CLASS, GPU_NODE_POOL, NAMESPACE, POD, Resource
from tgp.controllers.disruption import reconciler
from tgp.core.disruption import candidates, exchange, market_moves
from tgp.core.disruption.restart_cost import START_UP
from tgp.sim.clouds.http_factory import origin_of
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.clouds.registry import pretend
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.fast.cloud import SharedProvider
from tgp.sim.fast.lease import LeanLease
from tgp.sim.fast.objects import FastCommit
from tgp.sim.fast.world import FastWorld
from tgp.sim.node_bootstrap import NodeBootstrap, boot_identity_of
from tgp.sim.process import Host, Main

HOME, POOL, GPU = "tgp-system", "churn", "nvidia.com/gpu"
WANTED_COST, WANTED_MOVES = 0.97, 2.5
HOURS = 24
RULES = SHIPPED, ANY = "as shipped", "any saving counts"
WANDER, STEP = 0.04, timedelta(minutes=10)  # of every price, in that time
STOCK = 12  # of each machine type
LOOKED, SETTLED_WITHIN = timedelta(seconds=20), timedelta(hours=2)
LOOK_PAUSE = 10.0  # seconds between two looks at the pool: 20 times what one takes; in virtual time it takes none
ROOM_WITHIN = 10.0  # seconds after a pod was made, it has a Node: controller and scheduler take two
FLAP = timedelta(hours=1)
NO_COUNT = timedelta(hours=10_000)  # over such a time one-time costs are nothing
DEPLOYMENTS = ((1, 10), (1, 6), (2, 5), (4, 2))  # GPUs of a pod, and pods
# Tolerated. A pod that tolerates every taint would be bound to the machine again that it was asked to leave.
RENTED = [{"key": "tgp.io/ephemeral", "operator": "Exists"}]
PLACE = origin_of(facts_of("simulated").endpoint)


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench churn", description=__doc__)
    parser.add_argument("--hours", type=int, default=HOURS)
    parser.add_argument("--seeds", type=int, default=1)
    shipped = round(candidates.HELD_FOR / timedelta(minutes=1))
    parser.add_argument(
        "--held", type=int, default=shipped, help="minutes that a saving has to hold, of the first rule"
    )
    asked = parser.parse_args(options)
    print(f"{'rule':<24}{'rent $':>9}{'restarts $':>12}{'moves':>7}{'outages':>9}{'flaps':>7}{'seconds':>9}")
    with ProcessPoolExecutor(max_workers=len(RULES)) as processes:
        days = {
            rule: [processes.submit(_day_by, rule, seed, asked.hours, asked.held) for seed in range(asked.seeds)]
            for rule in RULES
        }
        ours, other = (_sum([day.result() for day in days[rule]], rule) for rule in RULES)
    cost, moves = ours.total / other.total, ours.moves / ours.pods * HOURS / asked.hours
    print(f"wanted: cost <= {WANTED_COST}, moves <= {WANTED_MOVES}, outages 0, flaps 0")
    print(f"churn cost={cost:.3f} moves={moves:.2f} outages={ours.outages} flaps={ours.flaps}")
    return 0


def _day_by(rule: str, seed: int, hours: int, held: int) -> "ChurnDay":
    if rule == SHIPPED:
        candidates.HELD_FOR = timedelta(minutes=held)
        return _day(seed, hours)
    with _any_saving_counts():
        return _day(seed, hours, min_savings="0%")


@dataclass
class ChurnDay:
    """What one day cost, and what happened to its pods."""

    pods: int = 0
    rent: float = 0.0  # dollars
    restarts: float = 0.0  # dollars: the share of its machine's price for the time that a pod takes to start again
    moves: int = 0
    outages: int = 0
    flaps: int = 0
    seconds: float = 0.0

    @property
    def total(self) -> float:
        return self.rent + self.restarts


def _sum(days: list[ChurnDay], rule: str) -> ChurnDay:
    found = ChurnDay(**{name: sum(getattr(day, name) for day in days) for name in ChurnDay.__dataclass_fields__})
    print(
        f"{rule:<24}{found.rent:>9.2f}{found.restarts:>12.2f}{found.moves:>7}{found.outages:>9}{found.flaps:>7}"
        f"{found.seconds:>9.0f}",
        flush=True,
    )
    return found


@contextmanager
def _any_saving_counts() -> Iterator[None]:
    """Moves are free, a machine may be exchanged again at once, and every price change is searched."""
    horizon, settled, held = exchange.HORIZON, candidates.SETTLED_FOR, candidates.HELD_FOR
    matters = market_moves.MATTERS
    exchange.HORIZON, candidates.SETTLED_FOR, candidates.HELD_FOR = NO_COUNT, timedelta(0), timedelta(0)
    market_moves.MATTERS = 0.0
    try:
        yield
    finally:
        exchange.HORIZON, candidates.SETTLED_FOR, candidates.HELD_FOR = horizon, settled, held
        market_moves.MATTERS = matters


def _day(seed: int, hours: int, min_savings: str = "5%") -> ChurnDay:
    began = time.perf_counter()
    reconciler.LEAST_PAUSE = LOOK_PAUSE
    with FastWorld(f"churn {seed}") as world:
        world.objects.readers = readers()
        simulator = _simulator(world)
        bootstrap = NodeBootstrap(world.cluster, world.loop, world.clock, f"churn {seed}")
        bootstrap.adopt(simulator)
        _furnish(world, min_savings)
        world.process("operator", _operator(world, simulator))
        watch = ChurnWatch(world, simulator, sum(pods for _, pods in DEPLOYMENTS))
        watch.settle()
        luck = random.Random(f"prices {seed}")
        for _ in range(int(timedelta(hours=hours) / STEP)):
            _wander(simulator, luck)
            world.run(seconds=STEP.total_seconds())
        found = watch.result()
        bootstrap.close()
    found.seconds = time.perf_counter() - began
    return found


def _simulator(world: FastWorld) -> Simulator:
    simulator = pretend("simulated", world.clock, world.seed)
    simulator.fleet.habits = replace(simulator.fleet.habits, moves=False)
    for stand in simulator.fleet.stands.values():
        stand.stock = STOCK
    world.mount(PLACE, simulator.handle)
    return simulator


def _wander(simulator: Simulator, luck: random.Random) -> None:
    """Prices of new machines, those of one type together in all places: machines that run keep theirs."""
    stands = simulator.fleet.stands
    steps = {sku: math.exp(luck.gauss(0, WANDER)) for sku in sorted({each.product.sku for each in stands.values()})}
    for name in sorted(stands):
        simulator.fleet.reprice(name, max(round(stands[name].hourly_microusd * steps[stands[name].product.sku]), 1))
        stands[name].stock = STOCK


def _operator(world: FastWorld, simulator: Simulator) -> Main:
    lease, shared = LeanLease(world), SharedProvider(simulator, PLACE)

    async def main(host: Host) -> None:
        standing = lease.stand(host, host.name)
        await standing.won()
        await Replica(world, host, standing, shared).run()

    return main


def _furnish(world: FastWorld, min_savings: str) -> None:
    stage = world.api.local_api
    for name in ("kube-system", "default", HOME):
        stage.create(NAMESPACE, {"metadata": {"name": name}})
    policy = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "10m",
        "minSavings": min_savings,
        "budgets": [{"nodes": "20%"}],
    }
    _create(world, GPU_NODE_CLASS, {"providers": [{"name": "simulated"}], "networking": {"backend": "none"}})
    _create(world, GPU_NODE_POOL, {"nodeClassRef": {"name": POOL}, "disruption": policy})
    look_at_classes(world)
    for number, (gpus, pods) in enumerate(DEPLOYMENTS):
        stage.create(DEPLOYMENT, _deployment(f"work-{number}", gpus, pods))


def _create(world: FastWorld, resource: Resource, spec: dict[str, Any]) -> None:
    meta = {"name": POOL, **({"namespace": "default"} if resource.namespaced else {})}
    world.api.local_api.create(
        resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}
    )


def _deployment(name: str, gpus: int, pods: int) -> dict[str, Any]:
    labels = {"app": name}
    asked = {"cpu": "1", GPU: str(gpus)}
    work = {"name": "work", "image": "any", "resources": {"requests": asked, "limits": asked}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [work], "tolerations": RENTED}}
    spec = {"replicas": pods, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


@dataclass
class ChurnWatch:
    """Hears of every change of a pod, and counts."""

    world: FastWorld
    simulator: Simulator
    pods: int
    moves: int = 0
    outages: int = 0
    restarts: float = 0.0
    _waits: dict[str, float] = field(default_factory=dict)  # pod uid → when it was made, while it has no Node
    _share: dict[str, float] = field(default_factory=dict)  # uid of a pod with a Node → dollars an hour, its GPUs
    _bill: int = 0

    def settle(self) -> None:
        """Until every pod runs; from then on it counts."""
        for _ in range(int(SETTLED_WITHIN / LOOKED)):
            self.world.run(seconds=LOOKED.total_seconds())
            if self._running() == self.pods:
                break
        else:
            raise SystemExit(f"only {self._running()} of {self.pods} pods run after {SETTLED_WITHIN}")
        self._bill = self._billed()
        for pod in self._all():
            self._note_bound(pod)
        self.world.objects.listen(POD, self._hear)

    def _hear(self, commit: FastCommit) -> None:
        now, pod = self.world.loop.time(), commit.after or commit.before
        assert pod is not None, "a commit is about something"
        uid = pod["metadata"]["uid"]
        if commit.before is None:
            self._waits[uid] = now
        bound = commit.after is not None and pod["spec"].get("nodeName")
        if (commit.after is None or bound) and uid in self._waits:
            self.outages += now - self._waits.pop(uid) > ROOM_WITHIN
        if bound and uid not in self._share:
            self._note_bound(pod)
        elif commit.after is None and uid in self._share:
            self.moves += 1
            self.restarts += self._share.pop(uid) * (START_UP / timedelta(hours=1))

    def _note_bound(self, pod: dict[str, Any]) -> None:
        spec = pod["spec"]
        machine = next((each for each in self.simulator.fleet.living() if _node_of(each) == spec["nodeName"]), None)
        asked = int(spec["containers"][0]["resources"]["limits"][GPU])
        part = machine.charged_microusd / machine.product.gpu_count if machine is not None else 0.0
        self._share[pod["metadata"]["uid"]] = asked * part / 1e6

    def result(self) -> ChurnDay:
        rent = (self._billed() - self._bill) / 1e6
        left = sum(self.world.loop.time() - since > ROOM_WITHIN for since in self._waits.values())
        return ChurnDay(self.pods, rent, self.restarts, self.moves, self.outages + left, self._flaps())

    def _flaps(self) -> int:
        """Machines that ended within an hour of their start, those that were bought at the beginning included."""
        lives = ((each.running_at, each.ended_at) for each in self.simulator.fleet.machines.values())
        return sum(ended - began < FLAP for began, ended in lives if began is not None and ended is not None)

    def _running(self) -> int:
        return sum(pod["status"].get("phase") == "Running" for pod in self._all())

    def _all(self) -> list[dict[str, Any]]:
        return [pod for pod in self.world.api.local_api.objects(POD) if pod["metadata"]["namespace"] == "default"]

    def _billed(self) -> int:
        now = self.world.clock.now()
        return sum(self.simulator.fleet.bill_microusd(each, now) for each in self.simulator.fleet.accounts)


def _node_of(machine: SimulatedMachine) -> str:
    plate = boot_identity_of("simulated", machine)
    return plate.node if plate is not None else ""
