"""One thing goes wrong at one side effect, at every one of them: whatever it is, the end is the same.

For every write to the API server and every changing call to a provider of the reference runs: crash before it, crash
after it, a pause past the Lease, an answer that is lost, an old view. A side effect that says the same of the same kind
of thing as an earlier one teaches nothing new and is left out.

By default all five acts are tried at the calls of the first workload that move money, two in turn at the writes around
them, and one in turn at everything else; of the other workloads one in turn at those that move money and the writes
around them, and at every second of the rest. `TGP_PLANS=each`, as in `make prove`, tries all five at each;
`TGP_PLANS=all` counts repeats, too, but for the renewals of the Lease after the first few. One plan alone:
`TGP_PLANS='pause at tgp-0#42'`.
"""

import os

import pytest

from tests.amounts import PROVING
from tests.sim.lifecycle.forks import Forks
from tests.sim.lifecycle.reference import DELETED, FAMILY, IDLE, POOL, TWO_MACHINES, gist_of, run_workload
from tgp.sim.plans import Act, FaultPlan

SAID = os.environ.get("TGP_PLANS", "each" if PROVING else "")
ALL, EACH = SAID == "all", SAID in ("all", "each")
ACTS = tuple(Act)
MONEY = "machines"
AROUND = ("Provisioning ['None']", "Provisioning ['Launched']", "metadata.finalizers", "configmaps")
OF_POOLS = (
    "POST kubernetes gpurequests",
    "DELETE kubernetes gpurequests",
    "PATCH kubernetes gpunodepools  [] [] ['metadata.finalizers'",
    "PATCH kubernetes gpurequests status  [] ['Disrupted=True",
)
NOMINATED = "PATCH kubernetes pods status"
RENEWALS = 3  # of a Lease, where all the others count
HOUR_EVERY = 16  # effects, one whose plan of the act in turn is followed by an hour of quiet
SHORT = 2.0  # minutes of quiet, beside those before it, after the other acts
_seen: set[str] = set()  # gists of workloads before: the first workload to say a thing stands for all


class Worth:
    """Which acts are tried at a side effect, and what was left out."""

    def __init__(self, *, closely: bool) -> None:
        self._closely = closely
        self.plans = self.effects = self.left_out = 0
        self._renewals = self._turn = 0

    def __call__(self, gist: str) -> tuple[Act, ...]:
        acts = self._acts(gist)
        self.plans += len(acts)
        return acts

    def _acts(self, gist: str) -> tuple[Act, ...]:
        self.effects += 1
        if "leases" in gist:
            self._renewals += 1
            repeated = self._renewals > RENEWALS if ALL else gist in _seen
        else:
            repeated = gist in _seen and not ALL
        _seen.add(gist)
        self.left_out += repeated
        if repeated or (SAID and not EACH):
            return ()
        if EACH or (self._closely and MONEY in gist):
            return ACTS
        self._turn += 1
        matters = any(word in gist for word in (MONEY, *AROUND))
        if not (self._closely or matters) and self._turn % 2:
            return ()
        many = 2 if self._closely and matters else 1
        return tuple(ACTS[(self._turn + 2 * step) % len(ACTS)] for step in range(many))


class WorthOfPools:
    """Only what pools do beside the lives of their requests, each time: some acts at the first, then one in turn."""

    def __init__(self, places: tuple[str, ...], first: tuple[Act, ...]) -> None:
        self._places = places
        self._first = first
        self.plans = self.effects = 0

    def __call__(self, gist: str) -> tuple[Act, ...]:
        if not gist.startswith(self._places) or (SAID and not EACH):
            return ()
        acts = (ACTS[self.effects % len(ACTS)],)
        if gist.startswith(self._places[0]):
            acts, self._first = self._first or acts, ()
        acts = ACTS if EACH else acts
        self.effects += 1
        self.plans += len(acts)
        return acts


def quiet_after(plan: FaultPlan | None) -> float:
    """A whole hour after one plan in many, with the acts in turn; after all of them where all is tried."""
    if EACH or plan is None:
        return 60.0
    turn, rest = divmod(plan.number, HOUR_EVERY)
    return 60.0 if rest == 0 and ACTS[turn % len(ACTS)] is plan.act else SHORT


@pytest.mark.parametrize("workload", [IDLE, DELETED, FAMILY], ids=lambda workload: workload.name)
def test_whatever_fails_at_whichever_side_effect_the_end_is_the_same(workload):
    worth = Worth(closely=workload is IDLE)
    forks = Forks(worth, gist_of)

    reference = forks.finish(lambda: run_workload(workload.name, workload=workload, forks=forks, quiet=quiet_after))

    wrong = wrong_in(forks, reference)
    print(
        f"{workload.name}: covered {len(forks.tried)} of {worth.plans} plans at {worth.effects - worth.left_out} side "
        f"effects of {worth.effects}; {worth.left_out} repeats were left out"
    )
    assert not wrong, f"{len(wrong)} plans failed\n" + "\n".join(wrong[:5])


@pytest.mark.parametrize(
    ("workload", "places", "first", "more"),
    [(POOL, OF_POOLS, ACTS, 0), (TWO_MACHINES, (NOMINATED,), (Act.CRASH_BEFORE, Act.LOST_ANSWER), 1)],
    ids=["pool", "two machines"],
)
def test_whatever_fails_at_what_a_pool_does_the_end_is_the_same(workload, places, first, more):
    """`more`: machines that it may cost. A pod that is not nominated in time can lose its machine to another one."""
    worth = WorthOfPools(places, first)
    forks = Forks(worth, gist_of)

    reference = forks.finish(lambda: run_workload(workload.name, workload=workload, forks=forks, quiet=SHORT))

    wrong = wrong_in(forks, reference, more)
    covered = f"{len(forks.tried)} of {worth.plans} plans at {worth.effects} side effects of pools"
    print(f"{workload.name}: covered {covered}")
    assert not wrong, f"{len(wrong)} plans failed\n" + "\n".join(wrong[:5])


@pytest.mark.skipif(" at " not in SAID, reason="one plan is tried alone only by name")
@pytest.mark.parametrize("workload", [IDLE, DELETED, FAMILY, POOL, TWO_MACHINES], ids=lambda workload: workload.name)
def test_one_plan_alone(workload):
    act, _, place = SAID.partition(" at ")
    process, _, number = place.partition("#")
    plan = FaultPlan(process, int(number), Act(act))
    found = differences(
        run_workload(workload.name, workload=workload), run_workload(workload.name, workload=workload, plan=plan)
    )
    assert not found, found


def wrong_in(forks: Forks, reference, more: int = 0) -> list[str]:
    wrong = [f"{tried.plan} ({tried.gist})\n{tried.failure}" for tried in forks.tried if tried.failure]
    for tried in forks.tried:
        if tried.result is not None:
            wrong += [f"{tried.plan} ({tried.gist}): {line}" for line in differences(reference, tried.result, more)]
    return wrong


def differences(reference, outcome, more: int = 0) -> list[str]:
    """Of two runs that should come to the same: what is there, what came and went, and how much was rented.

    `more`: so many machines more may be rented on the way; what came and went then differs.
    """
    costlier = 0 < outcome.machines - reference.machines <= more
    found = [
        f"{part}: {outcome.end[part]} instead of {reference.end[part]}"
        for part in reference.end
        if outcome.end[part] != reference.end[part] and not (costlier and part == "spent on")
    ]
    if costlier:
        return found
    for what in sorted({*reference.counts, *outcome.counts}):
        times, wanted = outcome.counts.get(what, 0), reference.counts.get(what, 0)
        if times != wanted:
            found.append(f"{what}: {times} times instead of {wanted}")
    if outcome.machines != reference.machines:
        found.append(f"{outcome.machines} machines were rented instead of {reference.machines}")
    return found
