"""What a pool does about each of its requests, and when."""

from datetime import timedelta

import msgspec
import pytest

from tests.core.pools.builders import NOW, a_condition, a_node, a_pool, a_request, ago, an_attempt, on_node, written
from tgp.core.pools.orders import slot_of
from tgp.core.pools.upkeep import (
    EMPTY,
    FAILED_KEPT,
    GANG,
    SURPLUS,
    WITHDRAWN_AFTER,
    Disrupt,
    Leave,
    PoolRequest,
    Remove,
    Withdraw,
    care_for,
)

POOL_UID = a_pool().uid_text


def an_idle_machine(*, since=20.0, **status):
    """Ready for an hour, without a pod for some minutes."""
    usual = {
        "phase": "Ready",
        "readyAt": written(ago(hours=1)),
        "idleSince": written(ago(minutes=since)),
        "attempts": [an_attempt(outcome="Launched", launchedAt=written(ago(hours=2)))],
        "nodeName": "n1",
    }
    return a_request(**{**usual, **status})


def cared(record, pool=None, *, node=None, **seen):
    return care_for(PoolRequest(record, pool or a_pool(), NOW, node or a_node(), **seen))


def test_a_machine_without_pods_for_long_enough_is_empty():
    care = cared(an_idle_machine())

    assert isinstance(care, Disrupt)
    assert care.reason == EMPTY


def test_a_machine_is_left_until_consolidate_after_has_passed():
    assert cared(an_idle_machine(since=4)) == Leave(ago(minutes=4) + timedelta(minutes=10))
    assert isinstance(cared(an_idle_machine(since=4), a_pool(disruption={"consolidateAfter": "3m"})), Disrupt)


@pytest.mark.parametrize(
    ("changes", "pool", "seen"),
    [
        ({}, {"disruption": {"consolidationPolicy": "Never"}}, {}),
        ({}, {"disruption": {"consolidateAfter": "Never"}}, {}),
        ({}, {}, {"pods": (on_node(),)}),
        ({}, {}, {"pods": (on_node(gpus=0, unreadable="newer"),)}),
        ({}, {}, {"node": a_node(ready=None)}),
        ({}, {}, {"awaited": True}),
        ({"idleSince": None}, {}, {}),
        ({"readyAt": None}, {}, {}),
        ({}, {}, {"node": a_node(annotations={"tgp.io/do-not-disrupt": "true"})}),
        ({"conditions": [a_condition("Terminating")]}, {}, {}),
    ],
    ids=[
        "policy",
        "after",
        "in use",
        "unreadable",
        "unknown",
        "awaited",
        "no evidence",
        "never ready",
        "protected",
        "ends",
    ],
)
def test_what_is_used_protected_or_unknown_is_left(changes, pool, seen):
    assert cared(an_idle_machine(**changes), a_pool(**pool), **seen) == Leave()


def test_pods_that_use_no_gpu_do_not_keep_a_machine():
    assert isinstance(cared(an_idle_machine(), pods=(on_node(gpus=0),)), Disrupt)


def test_a_pod_that_came_and_went_since_counts():
    """The status noted an earlier moment: a pod may come and go between two looks."""
    worked = on_node(phase="Succeeded", ended_at=ago(minutes=3))

    assert cared(an_idle_machine(), pods=(worked,)) == Leave(ago(minutes=3) + timedelta(minutes=10))


def test_the_scheduler_gets_time_to_bind_what_the_machine_was_bought_for():
    fresh = an_idle_machine(since=1, readyAt=written(ago(minutes=1)))

    assert cared(fresh, a_pool(disruption={"consolidateAfter": "0s"})) == Leave(NOW + timedelta(minutes=1))


def waits(reason="NoOfferFits", since=60.0, **status):
    return a_request(
        phase="Pending", conditions=[a_condition("Launched", "False", reason, ago(seconds=since))], **status
    )


def test_a_request_that_cannot_buy_is_withdrawn():
    assert isinstance(cared(waits()), Withdraw)
    assert cared(waits(since=10)) == Leave(ago(seconds=10) + WITHDRAWN_AFTER)


@pytest.mark.parametrize(
    ("reason", "paused"),
    [("NoOfferFits", False), ("LimitReached", False), ("Suspended", True), ("PurchasesPaused", True)],
)
def test_an_offer_is_not_to_blame_where_purchases_are_paused(reason, paused):
    assert cared(waits(reason)) == Withdraw(f"{reason}: so", paused=paused)


@pytest.mark.parametrize("reason", ["Waiting", "LaunchOutcomePending", "Ordering"])
def test_a_request_that_was_not_decided_on_is_not_withdrawn(reason):
    assert cared(waits(reason)) == Leave()
    assert cared(a_request()) == Leave()


def test_time_counts_from_the_end_of_the_last_attempt():
    tried = waits("BackingOff", attempts=[an_attempt(outcome="SoldOut", endedAt=written(ago(seconds=10)))])

    assert cared(tried) == Leave(ago(seconds=10) + WITHDRAWN_AFTER)


@pytest.mark.parametrize(("minutes", "withdrawn"), [(1, False), (9, False), (10, True)])
def test_a_request_waits_for_the_providers_image_for_some_minutes(minutes, withdrawn):
    """Another offer of the provider needs the same image, and is no better."""
    said = "ImagePreparing: the image factory is building Talos v1.13.0; purchases wait for it"
    tried = an_attempt(outcome="NotOrdered", message=said, endedAt=written(ago(seconds=40)))
    record = msgspec.structs.replace(waits("BackingOff", attempts=[tried]), created_at=ago(minutes=minutes))

    assert isinstance(cared(record), Withdraw if withdrawn else Leave)


def test_a_request_with_an_order_under_way_is_never_withdrawn():
    """It may have a machine."""
    assert cared(waits("LaunchOutcomePending", attempts=[an_attempt()])) == Leave()


def test_what_is_finished_is_removed_and_what_failed_is_remembered_for_an_hour():
    ended = {"conditions": [a_condition("Ended", since=ago(minutes=20))]}
    late = {"conditions": [a_condition("Ended", since=ago(minutes=61))]}

    assert isinstance(cared(a_request(phase="Finished", **ended)), Remove)
    assert cared(a_request(phase="Failed", **ended)) == Leave(ago(minutes=20) + FAILED_KEPT)
    assert isinstance(cared(a_request(phase="Failed", **late)), Remove)
    assert isinstance(cared(a_request(phase="Failed", **ended), oldest_failed=True), Remove)


def test_a_pool_that_is_deleted_takes_everything_along():
    assert isinstance(cared(an_idle_machine(), a_pool(deleting=True), pods=(on_node(),)), Remove)


def test_replicas_stay_whether_or_not_they_are_used_and_no_more_of_them():
    first, third = (an_idle_machine() for _ in range(2))
    pool = a_pool(replicas=2)
    slots = [a_request("x", anchor=slot_of(POOL_UID, number)).annotations for number in (0, 2)]

    assert cared(msgspec.structs.replace(first, annotations=slots[0]), pool) == Leave()
    care = cared(msgspec.structs.replace(third, annotations=slots[1]), pool, pods=(on_node(),))
    assert isinstance(care, Disrupt)
    assert care.reason == SURPLUS


def test_a_machine_whose_gang_was_given_up_goes_unless_a_pod_uses_it():
    why = "gang default/train could not be served whole within 15m"
    care = cared(an_idle_machine(since=1), given_up=why)

    assert care == Disrupt(GANG, "Gang default/train could not be served whole within 15m")
    assert isinstance(cared(an_idle_machine(since=1), given_up=why, pods=(on_node(),)), Leave)
    assert cared(a_request(), given_up=why) == Remove(why), "nothing was ordered yet"
