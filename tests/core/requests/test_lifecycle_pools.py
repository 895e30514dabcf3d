"""Requests that a pool created: its limits hold, and it decides when a machine is no longer needed."""

from dataclasses import replace as with_changes

import pytest
from msgspec.structs import replace

from tests.core.requests.an_observation import (
    OFFER,
    ON_SALE,
    a_class,
    a_condition,
    a_machine,
    a_node,
    ago,
    an_attempt,
    an_observation,
    listed,
    over,
)
from tgp.api.common import Condition, NodeClassRef
from tgp.api.nodepool import GPUNodePool, GPUNodePoolSpec, NodeTemplate, PoolLimits
from tgp.api.request import Attempt
from tgp.core.classes.default_class import Chosen
from tgp.core.inventory.limits import Reservation, usage_of
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef
from tgp.core.requests.lifecycle import next_step
from tgp.core.requests.moments import expires_at, idle_timeout, warned_at
from tgp.core.requests.observation import OwningPool, RequestObservation
from tgp.core.requests.purchase import NoPurchase, decide_purchase
from tgp.core.requests.purchase_stops import CannotBuy, cannot_buy, order_stop
from tgp.core.requests.steps import AbandonAttempt, Launch, Reserve, StartTermination, TerminationReason, Wait

KEY = ObjectKey("default", "train")
OWNER = OwnerRef(kind="GPUNodePool", name="train", uid="p-1", controller=True)
OLD = {"attempts": (), "ready_at": ago(days=3), "idle_since": ago(days=2)}
SERVES = {"presence": listed(), "node": a_node(idle=True)}


def a_pool(**limits: int) -> GPUNodePool:
    return GPUNodePool(
        spec=GPUNodePoolSpec(
            node_class_ref=NodeClassRef(name="rented"),
            template=NodeTemplate(),
            limits=PoolLimits(
                resources={name.replace("gpus", "nvidia.com/gpu"): most for name, most in limits.items()}
            ),
        )
    )


PRESENT = OwningPool(KEY, a_pool())
OBSERVES = OwningPool(KEY, replace(a_pool(), spec=replace(a_pool().spec, mode="Observe")))
GONE, UNREADABLE = OwningPool(KEY), OwningPool(KEY, None, True)
LEAVING = OwningPool(KEY, a_pool(), deleting=True)


def an_old_machine(**rest) -> RequestObservation:
    attempt = a_machine(launched_at=ago(days=3))
    return an_observation(attempt, status={**OLD, "attempts": (attempt,)}, **{**SERVES, **rest})


def test_the_pool_decides_about_idle_and_old_machines_while_it_exists():
    for pool in (PRESENT, LEAVING):
        kept = an_old_machine(pool=pool)
        assert isinstance(next_step(kept), Wait)
        assert (expires_at(kept), warned_at(kept), idle_timeout(kept)) == (None, None, None)


@pytest.mark.parametrize("pool", [None, GONE, UNREADABLE])
def test_without_a_pool_that_can_be_read_its_own_timeouts_hold(pool):
    old, idle = an_old_machine(pool=pool), an_old_machine(pool=pool, spec={"max_lifetime": "Never"})

    steps = [next_step(each) for each in (old, idle)]
    assert [step.end for step in steps if isinstance(step, StartTermination)] == [
        TerminationReason.EXPIRED,
        TerminationReason.IDLE,
    ]


def test_a_deleted_request_says_why_its_pool_deleted_it_and_nothing_of_the_move():
    moved = replace(a_condition("Disrupted", "Empty"), message="No pod has used machine i-1. Move m1 is under way.")
    gone = next_step(an_observation(a_machine(), conditions=(moved,), deleting=True, pool=PRESENT, **SERVES))

    assert gone == StartTermination(
        TerminationReason.DELETED, "GPURequest was deleted (Empty): No pod has used machine i-1."
    )


def test_a_deleted_request_has_the_reason_of_its_pool():
    disrupted = a_condition("Disrupted", "Underutilized")
    step = next_step(an_observation(a_machine(), conditions=(disrupted,), deleting=True, pool=PRESENT, **SERVES))

    assert step == StartTermination(
        TerminationReason.DELETED, "GPURequest was deleted (Underutilized): as it was said."
    )


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        (GONE, "NodePoolNotFound"),
        (UNREADABLE, "NodePoolUnreadable"),
        (LEAVING, "NodePoolDeleting"),
        (OBSERVES, "NodePoolObserving"),
    ],
)
def test_nothing_is_bought_for_a_pool_that_is_gone_or_unreadable_or_observes(pool, reason):
    chosen = Chosen("rented", a_class())
    waits = next_step(an_observation(blank=True, chosen=chosen, purchase=ON_SALE, pool=pool))
    dropped = next_step(an_observation(an_attempt(), chosen=chosen, may_order=True, pool=pool))

    assert isinstance(waits, Wait)
    assert waits.reason == reason
    assert str(KEY) in waits.message
    assert isinstance(dropped, AbandonAttempt)
    assert dropped.outcome == "NotOrdered"


def test_a_pool_that_exists_buys():
    chosen = Chosen("rented", a_class())

    assert isinstance(next_step(an_observation(blank=True, chosen=chosen, purchase=ON_SALE, pool=PRESENT)), Reserve)
    assert isinstance(next_step(an_observation(an_attempt(), chosen=chosen, may_order=True, pool=PRESENT)), Launch)


def test_no_offer_is_chosen_beyond_the_limits_of_the_pool():
    record = replace(ON_SALE.record, owners=(OWNER,))
    inputs = with_changes(ON_SALE, record=record, pool=a_pool(gpus=2))
    used = usage_of([Reservation("one", 1, gpus=2)])

    assert not isinstance(decide_purchase(inputs), NoPurchase)
    refused = decide_purchase(with_changes(inputs, held_of_pool=used))
    why = "Pool default/train: limits.resources[nvidia.com/gpu] is 2, of which 2 is in use: 1 more does not fit"
    assert refused == NoPurchase("LimitReached", why)


def test_a_limit_of_the_pool_that_was_lowered_since_stops_the_order():
    attempt, chosen = an_attempt(offer=OFFER), Chosen("rented", a_class())
    used = usage_of([Reservation("one", 1, gpus=1)])
    observation = an_observation(attempt, chosen=chosen, pool=OwningPool(KEY, a_pool(gpus=1)), held_of_pool=used)

    stop = order_stop(observation, attempt)
    assert stop is not None
    assert stop.message.startswith("Pool default/train: limits.resources[nvidia.com/gpu] is 1")
    assert order_stop(replace(observation, pool=OwningPool(KEY, a_pool(gpus=2))), attempt) is None


def test_since_when_a_request_cannot_buy_is_in_its_status():
    waits = a_condition("Launched", "NoOfferFits", "False", since=ago(minutes=9))

    def found(*attempts: Attempt, conditions: tuple[Condition, ...] = (waits,), **status: str) -> CannotBuy | None:
        seen = an_observation(*attempts, conditions=conditions, status=dict(status))
        return cannot_buy(replace(seen.record, created_at=ago(minutes=10)))

    assert found(conditions=()) == CannotBuy(ago(minutes=10), "", "")
    assert found() == CannotBuy(ago(minutes=9), "NoOfferFits", "as it was said")
    assert found(over(outcome="SoldOut", ended_at=ago(minutes=1))) == CannotBuy(
        ago(minutes=1), "NoOfferFits", "as it was said"
    )
    assert found(an_attempt()) is None, "it may have a machine"
    assert found(a_machine()) is None
    assert found(phase="Failed") is None
