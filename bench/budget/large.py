"""Thousands of pods in one budget: three in ten go and are replaced, the API server is away, another replica leads."""

import time
from pathlib import Path

from bench.budget.operators import TRACKED
from bench.budget.report import WANTED_ERROR, write
from bench.budget.stage import Knobs, Stage, stage
from tools.controlplane.plane import ControlPlane

RUN = "large"
OUTAGE_S = 600.0
CHURN = 0.3
LISTED_EVERY_S = 5.0
PODS_OF_A_NODE = 800
LASTS_S, ENDS_AFTER_S = 36_000.0, 60.0  # seconds that pods run: most, and those that end by themselves
SETTLED_WITHIN_S = 300.0
CONVERGES_WITHIN_S, WRITES_PER_MINUTE = 30.0, 60.0
WRITES = ('resource="gpuworkloadbudgets"', 'subresource="status"', 'verb="PATCH"')


def measure(plane: ControlPlane, folder: Path, out: Path, *, pods: int, outage: float | None) -> int:
    knobs = Knobs(pods, 0, LASTS_S, "100m", 0)
    nodes = -(-pods // PODS_OF_A_NODE) + 1
    with stage(plane, knobs, folder, operators=2, nodes=nodes, listed_every=LISTED_EVERY_S) as made:
        return _Large(made, nodes, OUTAGE_S if outage is None else outage).run(out)


class _Large:
    def __init__(self, made: Stage, nodes: int, outage: float) -> None:
        self._made, self._nodes, self._outage, self._count = made, nodes, outage, made.knobs.count
        self._writes = 0.0  # of API servers that ended
        self._rss = 0.0

    def run(self, out: Path) -> int:
        made, began = self._made, time.time()
        made.create_budget(RUN, gpu_hours=self._count * 10)
        self._create(round(self._count * (1 - CHURN / 2)), LASTS_S)
        self._create(self._count - round(self._count * (1 - CHURN / 2)), ENDS_AFTER_S)
        self._settled()
        made.look(RUN, began, name="all started")
        time.sleep(ENDS_AFTER_S)
        self._settled()
        self._churn()
        self._settled()
        made.look(RUN, began, name="three in ten replaced")
        self._measure_memory()
        back = self._without_apiserver()
        after_outage = self._converged(back)
        made.look(RUN, began, name="after the outage")
        handed = time.time()
        self._hand_over()
        after_hand_over = self._converged(handed)
        last = made.look(RUN, began, name="another replica leads")
        minutes = (time.time() - began - self._outage) / 60
        writes = (self._writes + self._counted()) / minutes
        error = max((each.asof_error for each in made.snapshots), key=abs)
        below = sum(each.below for each in made.snapshots)
        converged = max(after_outage, after_hand_over)
        print(
            f"converged {after_outage:.1f} s after an outage of {self._outage:.0f} s, "
            f"{after_hand_over:.1f} s after the hand-over"
        )
        line = (
            f"budget_large tracked={last.tracked}/{self._count} error={error:+.4f} below_truth={below} "
            f"converged_s={converged:.1f} writes_per_min={writes:.1f} rss_mb={self._rss:.0f}"
        )
        knobs = {"pods": self._count, "churn": CHURN, "outage_s": self._outage}
        write(out / RUN, "Thousands of pods in one budget", knobs, made.snapshots, line)
        print(line)
        exact = last.tracked == self._count and abs(error) <= WANTED_ERROR and not below
        return 0 if exact and converged <= CONVERGES_WITHIN_S and writes <= WRITES_PER_MINUTE else 1

    # -- what happens --------------------------------------------------------------------------------------------------

    def _create(self, many: int, runtime: float) -> None:
        for number in range(many):
            self._made.create_pod(RUN, runtime, node=f"own-{number % self._nodes}")

    def _churn(self) -> None:
        """Those that ended are deleted, and as many that run; new ones come for all of them."""
        ended, running = self._made.truth.ended(RUN), self._made.truth.running(RUN)
        going = [*ended, *running[: len(ended)]]
        for uid in going:
            self._made.delete(uid)
        self._create(len(going), LASTS_S)

    def _without_apiserver(self) -> float:
        """When it was back."""
        self._writes += self._counted()
        with self._made.plane.without_apiserver():
            time.sleep(self._outage)
        return time.time()

    def _hand_over(self) -> None:
        """The leader is stopped as Kubernetes stops it."""
        self._measure_memory()
        leader = self._made.leader()
        leader.stop()
        leader.start()

    def _measure_memory(self) -> None:
        self._rss = max(self._rss, *(one.rss_mb() for one in self._made.operators))

    # -- what is seen --------------------------------------------------------------------------------------------------

    def _settled(self) -> None:
        """All pods have started, and the truth has seen that."""
        give_up_at = time.time() + SETTLED_WITHIN_S
        while self._made.truth.shown(RUN) < self._count:
            assert time.time() < give_up_at, f"{self._made.truth.shown(RUN)} of {self._count} pods run"
            time.sleep(1)
        self._converged(time.time())

    def _converged(self, since: float) -> float:
        """Seconds from then until a leader counts every pod, and the right hours."""
        while True:
            self._made.start_ended()
            tracked, used = self._made.scraped(RUN, TRACKED), self._made.scraped(RUN)
            truth = self._made.truth.hours(RUN, time.time())
            if tracked == self._count and used is not None and abs(used - truth) <= WANTED_ERROR * truth:
                return time.time() - since
            late = time.time() > since + SETTLED_WITHIN_S
            assert not late, f"{tracked} of {self._count} pods are counted, {used} hours of {truth}"
            time.sleep(0.5)

    def _counted(self) -> float:
        return self._made.calls.counted("apiserver_request_total", *WRITES)
