"""Budgets beside the truth, on a real control plane with KWOK: pods end and are deleted, the operator is killed.

The truth is what the containers' own stamps say, read from lists every quarter of a second; errors are signed. Beside
it, from the same lists, the rule of the operator that budgets come from: the sum over the pods the API still shows.
"""

import argparse
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from bench.budget import chaos, large
from bench.budget.operators import ROOT
from bench.budget.report import last_line, write
from bench.budget.stage import Knobs, Snapshot, Stage, share, stage
from tgp.api.values import duration
from tools.controlplane.plane import ControlPlane, Wanted

RESULTS = ROOT / "build" / "bench-results"
AWAY_S = 60.0
MOMENTS = (15.0, 45.0, 120.0)  # seconds after the first pod, of the run with a kill
EVERY_PROGRAM = Wanted(controllers=True, scheduler=True, kwok=True)


def main(options: list[str]) -> int:
    asked = _parser().parse_args(options)
    knobs = Knobs(asked.count, asked.rate, asked.runtime, asked.gpus, asked.observe)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(EVERY_PROGRAM) as plane:
        if asked.large:
            return large.measure(plane, Path(folder), asked.out, pods=asked.pods, outage=asked.outage)
        if asked.chaos:
            return chaos.measure(plane, knobs, Path(folder), asked.out, lasts=asked.chaos, outage=asked.outage)
        with stage(plane, knobs, Path(folder)) as made:
            return measure(made, asked.out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench budget", description=__doc__)
    parser.add_argument("--count", type=int, default=50, help="pods (default: 50)")
    parser.add_argument("--rate", type=float, default=10.0, help="pods created a second (default: 10)")
    parser.add_argument("--runtime", type=float, default=30.0, help="seconds that a pod runs (default: 30)")
    parser.add_argument("--gpus", default="100m", help="units that a pod asks for (default: 100m)")
    parser.add_argument("--observe", type=float, default=80.0, help="seconds of the first run (default: 80)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of results, by date (build/bench-results)")
    parser.add_argument("--large", action="store_true", help="many pods, an outage of the API server and a hand-over")
    parser.add_argument("--pods", type=int, default=5000, help="with --large (default: 5000)")
    parser.add_argument("--outage", type=float, help="seconds without an API server (--large: 600, --chaos: 40)")
    parser.add_argument("--chaos", type=_seconds, metavar="10m", help="kills, hand-overs and outages for that long")
    return parser


def _seconds(text: str) -> float:
    return duration(text, "--chaos").total_seconds()


def measure(made: Stage, out: Path, *, moments: tuple[float, ...] = MOMENTS, away_s: float = AWAY_S) -> int:
    refund = _steady(made)
    killed = _killed(made, moments)
    last = _away(made, moments[0], away_s)
    line, good = last_line(
        made.snapshots,
        count=made.knobs.count,
        refund=refund,
        away=last.asof_error,
        bound=share(last.uncertain, last.truth_then),
        scored=killed,
    )
    write(out, "Budgets beside the truth", asdict(made.knobs), made.snapshots, line)
    print(line)
    return 0 if good else 1


def _steady(made: Stage) -> float:
    """Pods that end; then half of them are deleted. What is left of the hours that were shown, signed."""
    began, observe = made.begin("steady", made.knobs.runtime), made.knobs.observe
    for moment in (observe / 5, observe / 2, observe):
        made.look("steady", began, moment)
    _delete_half(made, "steady")
    last = made.look("steady", began, time.time() - began + 5, name="steady, half deleted")
    return last.asof_error


def _killed(made: Stage, moments: tuple[float, ...]) -> list[Snapshot]:
    began = made.begin("killed", 2 * made.knobs.runtime)
    looks = [made.look("killed", began, moments[0])]
    (operator,) = made.operators
    operator.kill()
    operator.start()
    return [*looks, *(made.look("killed", began, moment) for moment in moments[1:])]


def _away(made: Stage, first: float, away_s: float) -> Snapshot:
    """While no operator runs, half of the running pods are deleted."""
    began = made.begin("away", 2 * made.knobs.runtime + 2 * away_s)
    made.look("away", began, first)
    (operator,) = made.operators
    operator.kill()
    _delete_half(made, "away")
    time.sleep(away_s)
    operator.start()
    back = time.time()
    assert made.taken_over("away", back), f"no operator took over: {operator.log.read_text()[-2000:]}"
    return made.look("away", began, name="away, half deleted")


def _delete_half(made: Stage, run: str) -> None:
    uids = made.truth.ended(run) or made.truth.running(run)
    for uid in uids[: made.knobs.count // 2]:
        made.delete(uid)
