"""`python -m bench safety`: worlds of a few hours, two at a time, each with its own seed."""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace

from bench.safety.demand import market_of
from bench.safety.stage import REPLICAS, Stage, people, stage, start
from tgp.sim.checkers.objects import loose_ends
from tgp.sim.checkers.witness import Violation
from tgp.sim.world import WentWrong

HOURS = 200
PER_WORLD = 10  # hours of storm in one world: long enough for leaders, prices and marks to grow old
CALM = 1.0  # hours of fair weather after it: then nothing may be left
WORKERS = 2
WANTED_ORPHAN_S, WANTED_WASTE = 300.0, 0.03
PROGRESS_EVERY = 20.0  # seconds
DUPLICATES, OVERRUNS = ("I1:", "I6:"), ("I3:", "I4:", "I7:")  # whose accusations count as which


@dataclass(frozen=True, slots=True)
class Fair:
    """What the wishes of a market cost where nothing breaks: lived through once, for all storms over it."""

    paid_s: float
    cpu_s: float


UNKNOWN = Fair(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one world showed."""

    seed: int
    hours: float
    launches: int = 0
    handovers: int = 0
    orphan_s: float = 0.0
    paid_s: float = 0.0
    cpu_s: float = 0.0
    fair: Fair = UNKNOWN
    trouble: str = ""  # empty: every promise was kept

    @property
    def market(self) -> tuple[int, float]:
        return market_of(self.seed), self.hours


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench safety", description=__doc__)
    parser.add_argument("--hours", type=float, default=HOURS, help=f"of storm, simulated (default: {HOURS})")
    parser.add_argument("--seed", type=int, default=1, help="of the first world; the others count on (default: 1)")
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"processes (default: {WORKERS})")
    asked = parser.parse_args(options)
    began = time.perf_counter()
    verdicts = []
    for verdict in _verdicts(list(_plan(asked.seed, asked.hours)), asked.workers):
        verdicts.append(verdict)
        if verdict.trouble:
            print(f"{verdict.trouble}\nagain: python -m bench safety --hours {verdict.hours:g} --seed {verdict.seed}")
    return _report(sorted(verdicts, key=lambda one: one.seed), time.perf_counter() - began)


def _plan(seed: int, hours: float) -> Iterator[tuple[int, float]]:
    while hours > 0:
        yield seed, min(hours, PER_WORLD)
        seed, hours = seed + 1, hours - PER_WORLD


def _verdicts(worlds: list[tuple[int, float]], workers: int) -> Iterator[Verdict]:
    """Each storm beside its market in fair weather."""
    markets = dict.fromkeys((market_of(seed), hours) for seed, hours in worlds)
    if workers == 1:  # in this very process, for profilers and debuggers
        lived = {market: fair_world(*market) for market in markets}
        for verdict in (run_world(*world) for world in worlds):
            yield replace(verdict, fair=lived[verdict.market])
        return
    told, done = time.perf_counter(), 0.0
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(worlds) + len(markets)), mp_context=fresh) as pool:
        fair: dict[tuple[int, float], Future[Fair]] = {market: pool.submit(fair_world, *market) for market in markets}
        for future in as_completed([pool.submit(run_world, *world) for world in worlds]):
            verdict = future.result()
            done += verdict.hours
            yield replace(verdict, fair=fair[verdict.market].result())
            if time.perf_counter() - told > PROGRESS_EVERY:
                told = time.perf_counter()
                print(f"{done:g} of {sum(hours for _, hours in worlds):g} hours", file=sys.stderr, flush=True)


def run_world(seed: int, hours: float) -> Verdict:
    """One seed: the storm and the calm after it."""
    cpu = time.process_time()
    with stage(seed, faulty=True) as here:
        trouble = ""
        try:
            _live(here, seed, hours, faulty=True)
        except (Violation, WentWrong, AssertionError) as error:
            trouble = str(error) or repr(error)
        return Verdict(
            seed,
            hours,
            launches=here.orders.orders,
            handovers=here.leader.hand_overs,
            orphan_s=here.orphans.oldest,
            paid_s=here.paid_seconds(),
            cpu_s=time.process_time() - cpu,
            trouble=trouble,
        )


def fair_world(market: int, hours: float) -> Fair:
    """The same wishes in fair weather."""
    cpu = time.process_time()
    with stage(market, faulty=False) as here:
        _live(here, market, hours, faulty=False)
        return Fair(here.paid_seconds(), time.process_time() - cpu)


def _live(here: Stage, seed: int, hours: float, *, faulty: bool) -> None:
    start(here.world, REPLICAS if faulty else REPLICAS[:1])  # where nothing breaks, nobody takes over
    people(here, seed, hours * 3600, meddle=faulty)
    here.world.run(hours=hours)
    here.calm()
    here.world.run(hours=CALM)
    left = [*loose_ends(here.witness), *(f"{one.name} is still on the bill" for one in here.machines() if one.alive)]
    assert not left, "\n".join(left)


def _report(verdicts: list[Verdict], took: float) -> int:
    good = [one for one in verdicts if not one.trouble]  # a world that broke off has no bill to compare
    lines = [line for one in verdicts for line in one.trouble.splitlines()]
    duplicates = sum(line.startswith(DUPLICATES) for line in lines)
    overruns = sum(line.startswith(OVERRUNS) for line in lines)
    hours = sum(one.hours for one in verdicts)
    fair = sum(one.fair.paid_s for one in good)
    waste = (sum(one.paid_s for one in good) / fair - 1) if fair else 0.0
    orphan = max((one.orphan_s for one in verdicts), default=0.0)
    lived = {one.market: one.fair.cpu_s for one in verdicts}
    cpu = sum(one.cpu_s for one in verdicts) + sum(lived.values())
    print(f"{len(verdicts)} worlds, {len(verdicts) - len(good)} of them with troubles")
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
