"""For minutes: pods come and go, replicas are killed and handed over, the API server is away, all are away."""

import random
import time
from dataclasses import asdict
from pathlib import Path

from bench.budget.report import last_line, write
from bench.budget.stage import Knobs, Snapshot, Stage, share, stage
from tools.controlplane.plane import ControlPlane

RUN = "chaos"
OUTAGE_S = 40.0
AWAY_S = 25.0
BATCH = 10  # pods before each trouble
CHANCE = 7
PATIENCE_S = 120.0


def measure(plane: ControlPlane, knobs: Knobs, folder: Path, out: Path, *, lasts: float, outage: float | None) -> int:
    with stage(plane, knobs, folder, operators=2) as made:
        return _Chaos(made, OUTAGE_S if outage is None else outage).run(out, lasts)


class _Chaos:
    def __init__(self, made: Stage, outage: float) -> None:
        self._made, self._outage = made, outage
        self._chance = random.Random(CHANCE)
        self._happened: list[str] = []
        self._away: Snapshot | None = None  # the first look after all were away

    def run(self, out: Path, lasts: float) -> int:
        made = self._made
        made.create_budget(RUN)
        began = time.time()
        troubles = [self._deletions, self._kill, self._hand_over, self._no_apiserver, self._all_away]
        refund, turns = 0.0, 0
        while time.time() < began + lasts or turns < len(troubles):
            for _ in range(BATCH):
                made.create_pod(RUN, self._chance.uniform(20, 90))
            time.sleep(self._chance.uniform(5, 15))
            trouble = troubles[turns % len(troubles)]
            trouble()
            self._recovered()
            seen = made.look(RUN, began, name=self._happened[-1])
            if trouble == self._deletions:
                refund = max(refund, seen.unexplained, key=abs)
            if trouble == self._all_away and self._away is None:
                self._away = seen
            turns += 1
        return self._report(out, lasts, refund)

    def _report(self, out: Path, lasts: float, refund: float) -> int:
        looks, away = self._made.snapshots, self._away
        assert away is not None, "every trouble came"
        line, good = last_line(
            looks,
            count=looks[-1].shown,
            refund=refund,
            away=away.asof_error,
            bound=share(away.uncertain, away.truth_then),
            scored=looks[-1:],
        )
        many = {name: self._happened.count(name) for name in dict.fromkeys(self._happened)}
        print(f"in {lasts:.0f} s: {', '.join(f'{name} {count} times' for name, count in many.items())}")
        knobs = {**asdict(self._made.knobs), "lasts_s": lasts, "outage_s": self._outage, "happened": many}
        write(out / RUN, "Budgets under kills, hand-overs and outages", knobs, looks, line)
        print(line)
        return 0 if good else 1

    # -- troubles ------------------------------------------------------------------------------------------------------

    def _deletions(self) -> None:
        self._happened.append("half of the ended deleted")
        ended = self._made.truth.ended(RUN)
        for uid in ended[::2]:
            self._made.delete(uid)
        time.sleep(3)

    def _kill(self) -> None:
        self._happened.append("leader killed")
        leader = self._made.leader()
        leader.kill()
        time.sleep(self._chance.uniform(1, 20))
        leader.start()

    def _hand_over(self) -> None:
        self._happened.append("hand-over")
        leader = self._made.leader()
        leader.stop()
        leader.start()

    def _no_apiserver(self) -> None:
        self._happened.append("API server stopped")
        with self._made.plane.without_apiserver():
            time.sleep(self._outage)

    def _all_away(self) -> None:
        self._happened.append("all operators away")
        for one in self._made.operators:
            one.kill()
        for uid in self._made.truth.running(RUN)[::2]:
            self._made.delete(uid)
        time.sleep(AWAY_S)
        for one in self._made.operators:
            one.start()

    def _recovered(self) -> None:
        """A leader has written since."""
        since = time.time()
        self._made.create_pod(RUN, 20)  # something to write
        assert self._made.taken_over(RUN, since, within_s=PATIENCE_S), "no leader"
