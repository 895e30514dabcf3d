"""Why a machine of a pool may be disrupted, and when."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.core.disruption.machines import a_machine
from tests.core.pools.builders import NOW, POOL_UID, a_condition, a_pool, ago, an_attempt, on_node, written
from tgp.core.disruption.causes import EMPTY, ILL, LEAVING, SURPLUS, DisruptionCause, NoCause, cause_of
from tgp.core.disruption.health import HealthProblem
from tgp.core.pools.orders import slot_of


def caused(machine, **spec):
    return cause_of(machine, a_pool(**spec).value, NOW)


def reason_of(machine, **spec):
    answer = caused(machine, **spec)
    return answer.reason if isinstance(answer, DisruptionCause) else ""


def test_a_machine_without_pods_for_long_enough_is_empty():
    assert reason_of(a_machine()) == EMPTY


def test_a_machine_is_left_until_consolidate_after_has_passed():
    assert caused(a_machine(idle=4)) == NoCause(ago(minutes=4) + timedelta(minutes=10))
    assert reason_of(a_machine(idle=4), disruption={"consolidateAfter": "3m"}) == EMPTY


@pytest.mark.parametrize(
    ("machine", "spec"),
    [
        (a_machine(), {"disruption": {"consolidationPolicy": "Never"}}),
        (a_machine(), {"disruption": {"consolidateAfter": "Never"}}),
        (a_machine(pods=(on_node(),)), {}),
        (a_machine(pods=(on_node(gpus=0, unreadable="newer"),)), {}),
        (a_machine(node={"ready": None}), {}),
        (a_machine(awaited=True), {}),
        (a_machine(keeps_place=True), {}),
        (a_machine(idle=None), {}),
        (a_machine(readyAt=None), {}),
        (a_machine(deleting=True), {}),
        (a_machine(conditions=[a_condition("Terminating")]), {}),
    ],
    ids=[
        "policy",
        "after",
        "in use",
        "unreadable",
        "unknown",
        "awaited",
        "replacement",
        "no evidence",
        "never ready",
        "deleted",
        "ends",
    ],
)
def test_what_is_used_or_unknown_is_left(machine, spec):
    assert caused(machine, **spec) == NoCause()


def test_pods_that_use_no_gpu_do_not_keep_a_machine():
    assert reason_of(a_machine(pods=(on_node(gpus=0),))) == EMPTY


def test_a_pod_that_came_and_went_since_counts():
    """The status noted an earlier moment: a pod may come and go between two looks."""
    worked = on_node(phase="Succeeded", ended_at=ago(minutes=3))

    assert caused(a_machine(pods=(worked,))) == NoCause(ago(minutes=3) + timedelta(minutes=10))


def test_the_scheduler_gets_time_to_bind_what_the_machine_was_bought_for():
    fresh = a_machine(idle=1, readyAt=written(ago(minutes=1)))

    assert caused(fresh, disruption={"consolidateAfter": "0s"}) == NoCause(NOW + timedelta(minutes=1))


SOON = HealthProblem("Node condition Ready has been False", NOW + timedelta(minutes=2))
DUE, LATER = HealthProblem("Node condition Ready has been False", ago(minutes=1)), NOW + timedelta(minutes=7)


def an_offer_of(**offer):
    return an_attempt(outcome="Launched", offer={**an_attempt()["offer"], **offer})


ENDS = an_offer_of(until=written(NOW + timedelta(minutes=20)))
OWNED = an_offer_of(provider="webhook", bootMode="power")


@pytest.mark.parametrize(
    ("machine", "fields", "reason"),
    [
        pytest.param(
            a_machine(node={"ready": False}), {"health_problem": DUE}, ILL, id="not Ready is a health problem"
        ),
        pytest.param(a_machine(node={"ready": None}), {"health_problem": DUE}, ILL, id="nor is unknown"),
        pytest.param(a_machine(), {"health_problem": DUE, "stays_until": LATER}, ILL, id="unhealthy within minOnTime"),
        pytest.param(a_machine(attempts=[ENDS]), {"stays_until": LATER}, LEAVING, id="leaving within keepOn"),
        pytest.param(a_machine(readyAt=None), {"health_problem": DUE}, "", id="it never worked"),
        pytest.param(a_machine(attempts=[OWNED]), {}, EMPTY, id="an owned machine that is idle"),
        pytest.param(
            a_machine(attempts=[OWNED], conditions=[a_condition("ProviderReachable", "False")]),
            {"health_problem": DUE},
            "",
            id="an owned machine whose status errs is not switched",
        ),
        pytest.param(
            a_machine(attempts=[OWNED], conditions=[a_condition("ProviderInconsistent")]),
            {},
            "",
            id="nor one whose status contradicts its Node",
        ),
        pytest.param(
            a_machine(conditions=[a_condition("ProviderReachable", "False")]), {}, EMPTY, id="a rented machine costs"
        ),
    ],
)
def test_what_waits_for_nothing_and_what_does(machine, fields, reason):
    assert reason_of(replace(machine, **fields)) == reason


@pytest.mark.parametrize(
    ("machine", "fields", "until"),
    [
        pytest.param(a_machine(), {"stays_until": LATER}, LATER, id="minOnTime"),
        pytest.param(
            a_machine(),
            {"stays_until": NOW + timedelta(hours=1), "health_problem": SOON},
            SOON.due,
            id="unhealthy first",
        ),
        pytest.param(
            a_machine(node={"ready": False}), {"health_problem": SOON}, SOON.due, id="not Ready, and unhealthy later"
        ),
    ],
)
def test_when_to_look_again(machine, fields, until):
    assert cause_of(replace(machine, **fields), a_pool().value, NOW) == NoCause(until)


def test_replicas_stay_whether_or_not_they_are_used_and_no_more_of_them():
    first, third = (a_machine(anchor=slot_of(POOL_UID, number), pods=(on_node(),)) for number in (0, 2))

    assert caused(first, replicas=2) == NoCause()
    assert caused(a_machine(anchor=slot_of(POOL_UID, 0)), replicas=2) == NoCause()
    assert reason_of(third, replicas=2) == SURPLUS
