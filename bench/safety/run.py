"""`python -m bench safety`: worlds of a few hours, two at a time, each with its own seed."""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache

from bench.safety.demand import market_of
from bench.safety.stage import Stage, people, stage, start
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
class Verdict:
    """What one world showed."""

    seed: int
    hours: float
    launches: int = 0
    handovers: int = 0
    orphan_s: float = 0.0
    paid_s: float = 0.0
    fair_paid_s: float = 0.0  # of the same wishes where nothing breaks
    cpu_s: float = 0.0
    trouble: str = ""  # empty: every promise was kept


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
    if len(worlds) == 1 or workers == 1:
        yield from (run_world(*world) for world in worlds)
        return
    told, done = time.perf_counter(), 0.0
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=fresh) as pool:
        for future in as_completed([pool.submit(run_world, *world) for world in worlds]):
            verdict = future.result()
            done += verdict.hours
            yield verdict
            if time.perf_counter() - told > PROGRESS_EVERY:
                told = time.perf_counter()
                print(f"{done:g} of {sum(hours for _, hours in worlds):g} hours", file=sys.stderr, flush=True)


def run_world(seed: int, hours: float) -> Verdict:
    """One seed: the storm, the calm after it, and the bill beside that of a world where nothing breaks."""
    cpu = time.process_time()
    fair = fair_seconds(market_of(seed), hours)
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
            fair_paid_s=fair,
            cpu_s=time.process_time() - cpu,
            trouble=trouble,
        )


@cache
def fair_seconds(market: int, hours: float) -> float:
    """What the wishes of this market cost in seconds of machines where nothing breaks: once for all storms over it."""
    with stage(market, faulty=False) as here:
        _live(here, market, hours, faulty=False)
        return here.paid_seconds()


def _live(here: Stage, seed: int, hours: float, *, faulty: bool) -> None:
    start(here.world)
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
    fair = sum(one.fair_paid_s for one in good)
    waste = (sum(one.paid_s for one in good) / fair - 1) if fair else 0.0
    orphan = max((one.orphan_s for one in verdicts), default=0.0)
    cpu = sum(one.cpu_s for one in verdicts)
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
