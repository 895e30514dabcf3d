"""What is done about a request after the operator was away, or after somebody else's hand was in it."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.core.rules.a_sight import (
    NOW,
    a_condition,
    a_machine,
    a_node,
    a_sight,
    ago,
    an_attempt,
    listed,
    over,
)
from tests.core.rules.test_lifecycle import BUY
from tgp.api.request import ATTEMPTS_KEPT
from tgp.core.model.presence import Absent
from tgp.core.rules.lifecycle import next_step
from tgp.core.rules.lifecycle_words import kept
from tgp.core.rules.purchase import Stay
from tgp.core.rules.steps import Adopt, Begin, Close, End, Finish, Reserve, Rest, Return, Withdraw

STRIPPED = {"deleting": True, "finalizers": ("example.com/keeps-it",)}


def test_a_node_that_joined_while_nobody_looked_is_not_too_late():
    """The operator was away past the deadline: the machine came up in time, and pods may run there."""
    sight = a_sight(a_machine(launched_at=ago(hours=3)), presence=listed(), node=a_node())

    assert isinstance(next_step(sight), Rest)


def test_a_node_that_was_completed_while_nobody_looked_is_not_too_late():
    joined = a_condition("Registered", "Registered", since=ago(hours=2))
    sight = a_sight(a_machine(launched_at=ago(hours=3)), conditions=(joined,), presence=listed(), node=a_node())

    assert isinstance(next_step(sight), Rest)


@pytest.mark.parametrize("wrong", [{"initialized": False}, {"ready": False}])
def test_a_node_that_is_seen_to_be_incomplete_past_its_deadline_is_given_back(wrong):
    joined = a_condition("Registered", "Registered", since=ago(hours=2))
    sight = a_sight(a_machine(launched_at=ago(hours=3)), conditions=(joined,), presence=listed(), node=a_node(**wrong))

    step = next_step(sight)

    assert isinstance(step, Begin)
    assert step.end is End.NEVER_INITIALIZED


def test_a_machine_is_given_back_also_where_somebody_stripped_our_finalizer_from_a_deleted_request():
    """Another finalizer keeps the object: ours cannot be put back, and the collector leaves owned machines alone."""
    step = next_step(a_sight(a_machine(), presence=listed(), node=a_node(), **STRIPPED))
    assert isinstance(step, Begin)
    assert step.end is End.DELETED

    ending = a_condition("Terminating", "Deleted", since=ago(minutes=1))
    step = next_step(a_sight(a_machine(), conditions=(ending,), presence=listed(), **STRIPPED))
    assert isinstance(step, Return)

    assert next_step(a_sight(over(), **STRIPPED)) == Rest("Gone", "it is being deleted, and nothing was bought")


def test_the_end_of_a_machine_that_no_list_ever_showed_is_asked_for_by_its_id():
    """Its provider named it: a list that is late must not make it nobody's."""
    ending = a_condition("Terminating", "Broken", since=ago(minutes=1))
    unseen = Absent(9, timedelta(hours=1))

    step = next_step(a_sight(a_machine(), conditions=(ending,), presence=unseen, never_listed=True))
    assert isinstance(step, Return)
    assert step.instance_id == "i-1"

    asked = a_sight(a_machine(), conditions=(ending,), presence=unseen, never_listed=True, asked_to_end=1)
    assert isinstance(next_step(asked), Close)


def test_what_was_reserved_above_a_ceiling_that_was_lowered_since_is_not_ordered():
    sight = a_sight(an_attempt(), spec={"max_hourly_price": "0.01"}, may_order=True)

    step = next_step(sight)

    assert isinstance(step, Withdraw)
    assert (step.outcome, step.message[:19]) == ("Withdrawn", "spec.maxHourlyPrice")


def test_an_attempt_that_was_withdrawn_is_followed_by_a_pause():
    """What a machine boots with may be refused for hours: nothing is reserved anew in every turn of them."""
    withdrawn = over(outcome="Withdrawn", ended_at=NOW)

    step = next_step(a_sight(withdrawn, choice=Stay("NoOfferFits", "nothing")))

    assert isinstance(step, Rest)
    assert step.reason == "BackingOff"
    assert step.until is not None
    assert step.until > NOW


def test_failed_launches_are_remembered_longer_than_sold_out_offers():
    """Five of them end a request, however many offers were sold out between them."""
    attempts = (over(1, "Refused"), *(over(number, "SoldOut") for number in range(2, ATTEMPTS_KEPT + 5)))

    remembered = kept(attempts)

    assert len(remembered) == ATTEMPTS_KEPT
    assert remembered[0].outcome == "Refused"


def test_a_request_ends_before_its_tokens_lose_their_form():
    step = next_step(a_sight(over(9999, "SoldOut")))

    assert isinstance(step, Finish)
    assert step.phase == "Failed"


def test_an_attempt_in_doubt_is_settled_without_our_finalizer_too():
    step = next_step(a_sight(an_attempt(), presence=listed(), **STRIPPED))

    assert isinstance(step, Adopt)


def test_a_wiped_request_never_uses_a_number_twice_whoever_leads():
    """A leader that never saw its machines cannot know how far its numbers went; time tells how far they can have."""
    sight = a_sight(choice=BUY, wiped=True)
    record = replace(sight.record, created_at=NOW - timedelta(minutes=30))
    step = next_step(replace(sight, record=record))

    assert isinstance(step, Reserve)
    assert step.number > 30 * 60 // 5
    assert next_step(replace(sight, record=record, wiped=False)) == Reserve(BUY, 1)
