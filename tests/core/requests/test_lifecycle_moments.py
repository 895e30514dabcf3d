"""When a machine will be terminated: what the status says of its lifetime and its idle time."""

from datetime import datetime, timedelta

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from tests.core.pools.builders import a_pool
from tests.core.requests.an_observation import NOW, a_condition, a_machine, a_node, ago, an_observation, listed
from tgp.api.values import rfc3339
from tgp.core.model.instance import InstanceState
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.presence import NO_CLAIMS, AccountProblem, Claims, Repeated, Unknown
from tgp.core.requests.lifecycle import next_step
from tgp.core.requests.moments import drain_began, drain_grace, drained_for_provider_at
from tgp.core.requests.observation import OwningPool
from tgp.core.requests.protection import Protection
from tgp.core.requests.provider_reports import with_reports
from tgp.core.requests.status import compute_status
from tgp.core.requests.steps import StartTermination, TerminationReason, Wait

LIFE_ENDS = ago(minutes=4) + timedelta(hours=24)  # a day after it was launched
IDLE_ENDS = NOW + timedelta(minutes=30)
FOR_HALF_AN_HOUR = {"ready_at": ago(minutes=35), "idle_since": ago(minutes=25)}


def scheduled(machine=None, **rest) -> str:
    observation = an_observation(machine or a_machine(), presence=listed(), **rest)
    return compute_status(observation, Wait("", "")).parts["terminationScheduledAt"]


@pytest.mark.parametrize(
    ("seen", "ends"),
    [
        ({}, LIFE_ENDS),
        ({"node": a_node(ready=False, idle=None)}, LIFE_ENDS),
        ({"node": a_node(idle=True)}, IDLE_ENDS),
        ({"node": a_node(idle=False)}, LIFE_ENDS),
        ({"node": a_node(idle=True, protection=Protection("a pod", None))}, LIFE_ENDS),
        ({"node": a_node(idle=True), "status": FOR_HALF_AN_HOUR}, NOW + timedelta(minutes=5)),
        ({"node": a_node(idle=False), "status": FOR_HALF_AN_HOUR}, LIFE_ENDS),
        ({"node": a_node(idle=True), "spec": {"idle_timeout": "Never"}}, LIFE_ENDS),
        ({"node": a_node(idle=True), "spec": {"max_lifetime": "10m"}}, ago(minutes=4) + timedelta(minutes=10)),
    ],
    ids=["boots", "joins", "ready", "taken-at-once", "protected", "idle", "used-again", "never-idle", "short-life"],
)
def test_idle_time_counts_from_the_moment_it_is_ready_and_only_while_no_pod_uses_it(seen: dict, ends: datetime):
    """The status that says Ready says it: it never shows a day where half an hour is left."""
    assert scheduled(**seen) == rfc3339(ends)


# -- a provider that ends the machine by itself ------------------------------------------------------------------------

PROVIDER_ENDS = ago(minutes=5) + timedelta(hours=27)  # ordered with a life of 24h: a margin and a drain of 1h more
DRAINED_FOR_IT = PROVIDER_ENDS - timedelta(hours=1, minutes=30)


def ordered_for_a_day():
    return a_machine(provider_ends_at=PROVIDER_ENDS)


@pytest.mark.parametrize(
    ("life", "ends"),
    [("24h", LIFE_ENDS), ("25h", LIFE_ENDS + timedelta(hours=1)), ("48h", DRAINED_FOR_IT), ("Never", DRAINED_FOR_IT)],
)
def test_an_extended_lifetime_ends_before_the_provider_ends_the_machine(life: str, ends: datetime):
    assert scheduled(ordered_for_a_day(), spec={"max_lifetime": life}) == rfc3339(ends)


def test_a_lifetime_that_the_provider_will_cut_is_told_at_once():
    observation = an_observation(ordered_for_a_day(), presence=listed(), node=a_node(), spec={"max_lifetime": "48h"})
    updates = {update.type: update for update in compute_status(observation, Wait("", "")).updates}

    assert updates["ExpiresSoon"].reason == "ProviderEndsMachine"
    assert rfc3339(DRAINED_FOR_IT) in updates["ExpiresSoon"].message
    assert "spec.maxLifetime was extended beyond that" in updates["ExpiresSoon"].message


def test_a_pools_machine_is_drained_before_its_provider_takes_it_back_and_a_users_lives_as_long_as_it_may():
    """For a user only machines are bought that last for maxLifetime."""
    end = NOW + timedelta(hours=1, minutes=29)
    machine = a_machine()
    machine = replace(machine, offer=replace(machine.offer, until=end))
    pool = OwningPool(ObjectKey("default", "pool"), a_pool().value)
    step = next_step(an_observation(machine, presence=listed(), node=a_node(), pool=pool))

    assert isinstance(step, StartTermination)
    said = f"Provider vast ends machine i-1 at {end:%Y-%m-%d %H:%M:%S}Z."
    assert (step.end, step.message) == (TerminationReason.EXPIRED, said)
    over = replace(machine, offer=replace(machine.offer, until=ago(minutes=1)))
    late = next_step(an_observation(over, presence=listed(), node=a_node(), pool=pool))
    assert isinstance(late, StartTermination)
    assert late.message == f"Provider vast ended machine i-1 at {ago(minutes=1):%Y-%m-%d %H:%M:%S}Z."
    assert isinstance(next_step(an_observation(machine, presence=listed(), node=a_node())), Wait)
    observation = an_observation(machine, presence=listed(), node=a_node(), pool=pool)
    assert "ExpiresSoon" not in {each.type for each in compute_status(observation, Wait("", "")).updates}


@pytest.mark.parametrize(
    ("lead", "drained_after"),
    [
        (timedelta(hours=4), timedelta(hours=2, minutes=30)),  # the whole grace of 1h, and half an hour more
        (timedelta(minutes=40), timedelta(minutes=20)),  # late: half of the time is for a replacement
        (timedelta(minutes=9), timedelta(0)),  # no machine boots in half of that
        (timedelta(seconds=30), timedelta(0)),
    ],
)
def test_an_announced_end_leaves_time_for_a_replacement_and_for_a_drain_as_far_as_it_goes(lead, drained_after):
    told, end = ago(minutes=0), NOW + lead
    machine = a_machine(announced_end=end, announced_at=told)
    pool = OwningPool(ObjectKey("default", "pool"), a_pool().value)
    observation = an_observation(machine, presence=listed(ends_at=end), node=a_node(), pool=pool)

    assert drained_for_provider_at(observation) == told + drained_after
    assert drain_grace(observation, told + drained_after) == min(lead - drained_after, timedelta(hours=1))
    assert drained_for_provider_at(replace(observation, pool=None)) is None


@pytest.mark.parametrize(
    ("reason", "since", "began", "counted"),
    [
        ("Empty", ago(minutes=40), ago(minutes=30), ago(minutes=30)),
        ("Empty", ago(minutes=20), ago(minutes=30), ago(minutes=5)),  # a user wrote it: before the move began
        ("Empty", ago(minutes=40), NOW, ago(minutes=5)),  # … or after its end
        ("Drifted", ago(minutes=40), ago(minutes=30), ago(minutes=5)),
    ],
)
def test_a_drain_counts_from_the_first_eviction_by_the_pool(reason, since, began, counted):
    """A pod had as long to leave as its machine says, and not that long twice."""
    observation = an_observation(a_machine(), conditions=(a_condition("Disrupted", reason, since=since),))
    noted = replace(observation.record, annotations={"tgp.io/drain-began": rfc3339(began)})

    assert drain_began(replace(observation, record=noted), ago(minutes=5)) == counted


TWICE = Claims(end=Repeated(2, timedelta(seconds=5)))


@pytest.mark.parametrize(
    ("ends_at", "claims", "known", "recorded"),
    [
        (NOW + timedelta(hours=1), TWICE, None, NOW + timedelta(hours=1)),
        (NOW + timedelta(hours=1), Claims(end=Repeated(1, timedelta(0))), None, None),  # one list is no proof
        (NOW + timedelta(hours=1), NO_CLAIMS, None, None),
        (NOW, TWICE, None, None),  # and one that is over, while the machine runs, is none at all
        (NOW + timedelta(hours=1), TWICE, NOW + timedelta(hours=2), NOW + timedelta(hours=1)),  # moved
        (NOW + timedelta(hours=1), NO_CLAIMS, NOW + timedelta(hours=2), NOW + timedelta(hours=2)),
        (None, NO_CLAIMS, NOW + timedelta(hours=2), None),  # abandoned
        (PROVIDER_ENDS, TWICE, None, None),  # as ordered
    ],
)
def test_an_announced_end_is_recorded_when_two_lists_have_shown_it(ends_at, claims, known, recorded):
    machine = a_machine(announced_end=known, announced_at=NOW if known else None, provider_ends_at=PROVIDER_ENDS)
    pool = OwningPool(ObjectKey("default", "pool"), a_pool().value)
    given = an_observation(machine, presence=listed(ends_at=ends_at), node=a_node(), pool=pool, claims=claims)

    after = with_reports(given, machine).attempt
    assert after is not None
    assert after.announced_end == recorded
    assert (after.announced_at is None) == (recorded is None)
    held = {"attempts": [{**to_builtins(machine), "addedLater": "kept"}]}
    (row,) = compute_status(with_reports(given, machine), Wait("", ""), held=held).parts["attempts"]
    assert row.get("announcedEnd") == (rfc3339(recorded) if recorded else None)
    assert row["addedLater"] == "kept"
    users = with_reports(replace(given, pool=None), machine).attempt
    assert users is not None
    assert users.announced_end == known


def test_a_machine_is_drained_before_its_provider_ends_it():
    machine = a_machine(provider_ends_at=NOW + timedelta(hours=1, minutes=29))
    step = next_step(an_observation(machine, presence=listed(), node=a_node(), spec={"max_lifetime": "Never"}))

    assert isinstance(step, StartTermination)
    assert (step.end, "set at launch" in step.message) == (TerminationReason.EXPIRED, True)


def test_the_deadline_of_a_start_says_what_has_to_happen_by_then():
    """A machine may take longer to join than to start: before it is listed as starting, the later moment is told."""
    seen = (
        Unknown(AccountProblem.NOT_ASKED_YET, "not listed yet"),
        listed(InstanceState.STARTING),
        listed(InstanceState.RUNNING),
    )
    told = []
    for presence in seen:
        observation = an_observation(a_machine(), presence=presence)
        updates = {update.type: update for update in compute_status(observation, Wait("", "")).updates}
        told.append(updates["Registered"].message.partition(" until ")[::2])
    assert [what.split()[2] for what, _ in told] == ["Node", "provider", "Node"]
    assert told[0] == told[2]
    assert told[1][1] < told[0][1]


@pytest.mark.parametrize(("billed", "shown"), [("0.428241", "0.43"), ("1.20", "1.20"), ("0.001", "0.01")])
def test_the_price_that_people_read_is_rounded_up_to_the_cent_and_the_attempt_is_exact(billed, shown):
    parts = compute_status(an_observation(a_machine(hourly_price=billed), presence=listed()), Wait("", "")).parts

    assert parts["hourlyPrice"] == shown
    assert parts["attempts"][-1]["hourlyPrice"] == billed
