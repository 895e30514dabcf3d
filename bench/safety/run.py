"""`python -m bench safety`: worlds of a day, two at a time, each with its own seed."""

import argparse
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from bench.safety.demand import market_of
from bench.safety.environment import SafetyEnv, incidents, lies, people, safety_env
from bench.safety.lean import fast_env
from bench.safety.pools import has_pools, on_now
from tgp.sim.checkers.objects import loose_ends
from tgp.sim.checkers.recorder import Violation
from tgp.sim.world import WentWrong
from tools.toolbox.child_process import end_with

HOURS = 200
PER_WORLD = 25  # hours with faults in one world: long enough for leaders, prices and marks to grow old
WHOLE_PER_WORLD = 10  # the same, of the whole program: it takes fifteen times as long
CALM = 1.0  # hours without faults after it: then nothing may be left
WORKERS = 2
WANTED_ORPHAN_S, WANTED_WASTE = 300.0, 0.03
PROGRESS_EVERY = 15.0  # seconds
DUPLICATES, OVERRUNS = ("I1:", "I6:"), ("I3:", "I4:", "I7:")  # whose accusations count as which
REPLICAS = ("one", "two")


@dataclass(frozen=True, slots=True)
class Plan:
    """One world."""

    seed: int
    hours: float
    whole: bool = False  # the whole program, over the simulated network; else its controllers straight on their ports

    @property
    def market(self) -> "Plan":
        """The same requests without faults: equal for all runs over one market."""
        return replace(self, seed=market_of(self.seed))

    @property
    def command(self) -> str:
        return f"python -m bench safety --hours {self.hours:g} --seed {self.seed}{' --whole' if self.whole else ''}"


@dataclass(frozen=True, slots=True)
class Fair:
    """What the requests of a market cost without faults: simulated once, for all runs over it."""

    paid_s: float
    cpu_s: float


UNKNOWN = Fair(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one world showed."""

    plan: Plan
    launches: int = 0
    handovers: int = 0
    orphan_s: float = 0.0
    paid_s: float = 0.0
    cpu_s: float = 0.0
    fair: Fair = UNKNOWN
    failure: str = ""  # empty: every invariant held


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench safety", description=__doc__)
    parser.add_argument("--hours", type=float, default=HOURS, help=f"with faults, simulated (default: {HOURS})")
    parser.add_argument("--seed", type=int, default=1, help="of the first world; the others count on (default: 1)")
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"processes (default: {WORKERS})")
    parser.add_argument("--whole", action="store_true", help="the whole program over the pretend network; far slower")
    asked = parser.parse_args(options)
    plans = list(_plans(asked.seed, asked.hours, whole=asked.whole))
    progress = _Progress(asked.hours)
    verdicts = []
    for verdict in _verdicts(plans, asked.workers):
        verdicts.append(verdict)
        if verdict.failure:
            print(f"{verdict.failure}\nagain: {verdict.plan.command}", flush=True)
        progress.report(verdict)
    return _report(sorted(verdicts, key=lambda one: one.plan.seed), progress.took)


def _plans(seed: int, hours: float, *, whole: bool) -> Iterator[Plan]:
    most = WHOLE_PER_WORLD if whole else PER_WORLD
    while hours > 0:
        yield Plan(seed, min(hours, most), whole)
        seed, hours = seed + 1, hours - most


def _verdicts(plans: list[Plan], workers: int) -> Iterator[Verdict]:
    """Each run with faults beside its market without."""
    markets = dict.fromkeys(plan.market for plan in plans)
    if workers == 1:  # in this very process, for profilers and debuggers
        lived = {market: fair_world(market) for market in markets}
        for plan in plans:
            yield replace(run_world(plan), fair=lived[plan.market])
        return
    with _pool(min(workers, len(plans) + len(markets))) as pool:
        fair: dict[Plan, Future[Fair]] = {market: pool.submit(fair_world, market) for market in markets}
        for future in as_completed([pool.submit(run_world, plan) for plan in plans]):
            verdict = future.result()
            yield replace(verdict, fair=fair[verdict.plan.market].result())


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with this one, however it ends: an hour of faults that no process reads is no use."""
    fresh = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=fresh, initializer=_obey, initargs=(os.getpid(),))
    try:
        yield pool
    except BaseException:
        for worker in multiprocessing.active_children():
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _obey(parent: int) -> None:
    """Ctrl-C reaches the whole group: only the parent decides what it means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(parent)


class _Progress:
    """A line now and then, on the other channel: how far it is, and what was found."""

    def __init__(self, hours: float) -> None:
        self._hours = hours
        self._began = self._told = time.perf_counter()
        self._done, self._launches, self._failures = 0.0, 0, 0

    @property
    def took(self) -> float:
        return time.perf_counter() - self._began

    def report(self, verdict: Verdict) -> None:
        self._done += verdict.plan.hours
        self._launches += verdict.launches
        self._failures += bool(verdict.failure)
        if time.perf_counter() - self._told > PROGRESS_EVERY:
            self._told = time.perf_counter()
            left = self.took / self._done * (self._hours - self._done)
            said = f"{self._done:g} of {self._hours:g} hours, {self._launches} launches, {self._failures} failures"
            print(f"{said}; about {left:.0f} s to go", file=sys.stderr, flush=True)


def run_world(plan: Plan) -> Verdict:
    """One seed: the hours with faults and the hour without after it."""
    cpu = time.process_time()
    with _env(plan, faulty=True) as here:
        failure = ""
        try:
            _live(here, plan, faulty=True)
        except (Violation, WentWrong, AssertionError) as error:
            failure = str(error) or repr(error)
        return Verdict(
            plan,
            launches=here.orders.orders,
            handovers=here.leader.hand_overs,
            orphan_s=here.orphans.oldest,
            paid_s=here.paid_seconds(),
            cpu_s=time.process_time() - cpu,
            failure=failure,
        )


def fair_world(plan: Plan) -> Fair:
    """The same requests without faults, and one replica: no failover happens."""
    cpu = time.process_time()
    with _env(plan, faulty=False) as here:
        _live(here, plan, faulty=False)
        return Fair(here.paid_seconds(), time.process_time() - cpu)


def _env(plan: Plan, *, faulty: bool) -> AbstractContextManager[SafetyEnv]:
    build = safety_env if plan.whole else fast_env
    return build(plan.seed, faulty=faulty, replicas=REPLICAS if faulty else REPLICAS[:1])


def _live(here: SafetyEnv, plan: Plan, *, faulty: bool) -> None:
    people(here, plan.seed, plan.hours * 3600, meddle=faulty)
    if faulty:
        incidents(here, plan.seed, plan.hours * 3600)
        lies(here, plan.seed, plan.hours * 3600)
    here.world.run(hours=plan.hours)
    here.calm()
    here.world.run(hours=CALM)
    left = [*loose_ends(here.recorder), *(f"{one.name} is still on the bill" for one in here.machines() if one.alive)]
    left += [f"{name} is still on" for name in on_now(here.power)]
    assert not left, "\n".join(left)


def _report(verdicts: list[Verdict], took: float) -> int:
    good = [one for one in verdicts if not one.failure]  # a world that broke off has no bill to compare
    lines = [line for one in verdicts for line in one.failure.splitlines()]
    duplicates = sum(line.startswith(DUPLICATES) for line in lines)
    overruns = sum(line.startswith(OVERRUNS) for line in lines)
    hours = sum(one.plan.hours for one in verdicts)
    fair = sum(one.fair.paid_s for one in good)
    waste = (sum(one.paid_s for one in good) / fair - 1) if fair else 0.0
    orphan = max((one.orphan_s for one in verdicts), default=0.0)
    lived = {one.plan.market: one.fair.cpu_s for one in verdicts}
    cpu = sum(one.cpu_s for one in verdicts) + sum(lived.values())
    with_pools = sum(has_pools(one.plan.seed) for one in verdicts)
    print(f"{len(verdicts)} worlds, {with_pools} of them with pools, {len(verdicts) - len(good)} with failures")
    print(
        f"{took:.0f} s, {cpu:.0f} s of CPU: {hours / took:.2f} simulated hours a second, {hours / cpu:.2f} a CPU second"
    )
    print(
        f"safety hours={hours:g} launches={sum(one.launches for one in verdicts)} "
        f"handovers={sum(one.handovers for one in verdicts)} duplicates={duplicates} overruns={overruns} "
        f"orphan_s={orphan:.0f} waste={waste:.4f}"
    )
    kept = len(good) == len(verdicts) and orphan <= WANTED_ORPHAN_S and waste <= WANTED_WASTE
    return 0 if kept else 1
