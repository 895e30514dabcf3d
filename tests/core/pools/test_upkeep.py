"""What a pool does about each of its requests, and when."""

import msgspec
import pytest

from tests.core.pools.builders import NOW, a_condition, a_pool, a_request, ago, an_attempt, written
from tgp.core.pools.upkeep import (
    FAILED_KEPT,
    REPLANNED_AFTER,
    Leave,
    PoolRequest,
    Remove,
    Replan,
    care_for,
)

POOL_UID = a_pool().uid_text


def cared(record, pool=None, **seen):
    return care_for(PoolRequest(record, pool or a_pool(), NOW, **seen))


def a_machine():
    attempts = [an_attempt(outcome="Launched", launchedAt=written(ago(hours=2)))]
    return a_request(phase="Ready", readyAt=written(ago(hours=1)), attempts=attempts, nodeName="n1")


def waits(reason="NoOfferFits", since=60.0, **status):
    return a_request(
        phase="Pending", conditions=[a_condition("Launched", "False", reason, ago(seconds=since))], **status
    )


def test_a_request_that_cannot_buy_is_deleted_to_plan_again():
    assert isinstance(cared(waits()), Replan)
    assert cared(waits(since=10)) == Leave(ago(seconds=10) + REPLANNED_AFTER)


@pytest.mark.parametrize(
    ("reason", "spared", "market"),
    [
        ("NoOfferFits", False, True),
        ("LimitReached", True, False),
        ("DevicePluginMissing", False, False),
        ("Suspended", True, False),
        ("PurchasesPaused", True, False),
    ],
)
def test_an_offer_is_to_blame_for_the_market_alone(reason, spared, market):
    assert cared(waits(reason)) == Replan(f"{reason}: so", spared, market)


@pytest.mark.parametrize("reason", ["Waiting", "LaunchOutcomePending", "Ordering"])
def test_a_request_that_was_not_decided_on_is_not_deleted(reason):
    assert cared(waits(reason)) == Leave()
    assert cared(a_request()) == Leave()


def test_time_counts_from_the_end_of_the_last_attempt():
    tried = waits("BackingOff", attempts=[an_attempt(outcome="SoldOut", endedAt=written(ago(seconds=10)))])

    assert cared(tried) == Leave(ago(seconds=10) + REPLANNED_AFTER)


@pytest.mark.parametrize(("minutes", "replanned"), [(1, False), (9, False), (10, True)])
def test_a_request_waits_for_the_providers_image_for_some_minutes(minutes, replanned):
    """Another offer of the provider needs the same image, and is no better."""
    said = "ImagePreparing: the image factory is building Talos v1.13.0; purchases wait for it"
    tried = an_attempt(outcome="NotOrdered", message=said, endedAt=written(ago(seconds=40)))
    record = msgspec.structs.replace(waits("BackingOff", attempts=[tried]), created_at=ago(minutes=minutes))

    assert isinstance(cared(record), Replan if replanned else Leave)


def test_a_request_with_an_order_under_way_is_never_deleted():
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
    assert isinstance(cared(a_machine(), a_pool(deleting=True)), Remove)


def test_a_machine_that_works_is_left_to_disruption():
    assert cared(a_machine()) == Leave()


def test_a_request_whose_gang_was_given_up_is_removed_before_it_has_ordered():
    why = "gang default/train could not be served whole within 15m"

    assert cared(a_request(), given_up=why) == Remove(why)
    assert cared(a_machine(), given_up=why) == Leave()


def test_a_deleted_pool_that_cannot_be_read_terminates_its_machines():
    unreadable = msgspec.structs.replace(a_pool(deleting=True), value=None)
    assert isinstance(cared(a_machine(), unreadable), Remove)
    assert cared(a_machine(), msgspec.structs.replace(a_pool(), value=None)) == Leave()


def test_a_pool_that_is_deleted_without_its_requests_leaves_them():
    orphaning = msgspec.structs.replace(a_pool(deleting=True), finalizers=("tgp.io/machines", "orphan"))
    assert cared(a_machine(), orphaning) == Leave()
    assert cared(waits(), orphaning) == Leave()
