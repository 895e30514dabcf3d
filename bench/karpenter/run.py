"""Both sides plan the same pods on the same machines; one checker, which shares no code with either, judges both."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.karpenter.cases import MICRO, Answer, Case, gpu_market, karpenters_mix, two_gpu_pods
from bench.karpenter.checker import violations
from bench.karpenter.ours import our_plan
from bench.karpenter.theirs import SolverFailed, solver, their_plan
from tools.toolbox.trouble import ToolboxError

SMALL_MIX, MIXES, LARGE_MIX = 1_000, (5_000, 10_000), 20_000
MARKET_PODS = 1_000
MARKETS = ((1, 50), (2, 50), (3, 200))  # seed and classes
SHOWN = 5  # violations
HEADER = (
    f"{'':<44}{'pods/s':>10}{'theirs':>9}{'times':>8}{'$/h':>11}{'theirs':>11}{'share':>8}{'nodes':>7}{'theirs':>8}"
)


@dataclass(frozen=True)
class Compared:
    case: Case
    ours: Answer
    theirs: Answer

    @property
    def speed(self) -> float:
        return self.theirs.seconds / self.ours.seconds

    @property
    def cost(self) -> float:
        return self.ours.microusd / self.theirs.microusd


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench karpenter", description=__doc__)
    parser.add_argument("--full", action="store_true", help="also 20,000 pods")
    parser.add_argument("--quick", action="store_true", help="1,000 pods of the mix, one GPU market, and two pods")
    asked = parser.parse_args(options)
    try:
        return _measure(solver(_say), full=asked.full, quick=asked.quick)
    except (ToolboxError, SolverFailed) as error:
        print(error, file=sys.stderr)
        return 1


def _measure(program: Path, *, full: bool, quick: bool) -> int:
    our_plan(two_gpu_pods(), rounds=1)  # what is loaded once is not measured
    print(HEADER)
    wrong = 0
    found: dict[str, list[Compared]] = {}
    for group, case in _cases(full=full, quick=quick):
        compared = Compared(case, our_plan(case), their_plan(program, case))
        found.setdefault(group, []).append(compared)
        wrong += _report(compared)
    mixes = [*found.get("mix", ()), *found["small"]] if quick else found["mix"]
    print(
        f"karpenter speed={min(each.speed for each in mixes):.1f} speed_1k={found['small'][0].speed:.1f}"
        f" cost={max(each.cost for each in (*mixes, *found['small'])):.3f}"
        f" gpu_cost={max(each.cost for each in found['market']):.3f}"
    )
    return 1 if wrong else 0


def _cases(*, full: bool, quick: bool) -> Iterator[tuple[str, Case]]:
    yield "pair", two_gpu_pods()
    yield "small", karpenters_mix(SMALL_MIX)
    for seed, classes in MARKETS[: 1 if quick else None]:
        yield "market", gpu_market(MARKET_PODS, classes, seed)
    if not quick:
        for count in (*MIXES, *((LARGE_MIX,) if full else ())):
            yield "mix", karpenters_mix(count)


def _report(compared: Compared) -> int:
    """Print a line, and what is wrong. How much is?"""
    case, ours, theirs = compared.case, compared.ours, compared.theirs
    pods = len(case.pods)
    print(
        f"{case.name:<44}{pods / ours.seconds:>10.0f}{pods / theirs.seconds:>9.0f}{compared.speed:>8.1f}"
        f"{ours.microusd / MICRO:>11.2f}{theirs.microusd / MICRO:>11.2f}{compared.cost:>8.3f}"
        f"{len(ours.machines):>7}{len(theirs.machines):>8}",
        flush=True,
    )
    wrong = violations(case, ours)
    if ours.microusd > theirs.microusd:
        wrong.append("our plan is more expensive")
    for problem in wrong[:SHOWN]:
        print(f"    ours: {problem}")
    for problem in violations(case, theirs)[:SHOWN]:
        print(f"    theirs: {problem}")
    return len(wrong)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
