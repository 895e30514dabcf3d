"""An order that cannot be prepared until the cause is fixed: attempts are numbered, and numbers run out."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.core.requests.an_observation import NOW, ON_SALE, an_observation, over
from tgp.core.model.token import MOST_ATTEMPTS
from tgp.core.requests.lifecycle import FIRST_PAUSE, LONGEST_PAUSE, LONGEST_REFUSED, next_step
from tgp.core.requests.status import kept
from tgp.core.requests.steps import Reserve, Wait

DAY = timedelta(days=1)


@dataclass
class Broken:
    """A request whose every order is refused before it is made, second by second."""

    attempts: tuple = ()
    now: datetime = NOW

    def step(self, **said):
        return next_step(replace(an_observation(*self.attempts, purchase=ON_SALE, **said), now=self.now))

    def refuse(self) -> timedelta:
        """One more attempt; how long the next one has to wait."""
        step = self.step()
        assert isinstance(step, Reserve)
        last = over(step.number, "NotOrdered", reserved_at=self.now, ended_at=self.now, message="TemplateRefused: no")
        self.attempts = kept((*self.attempts, last))
        rest = self.step()
        assert isinstance(rest, Wait)
        assert rest.until is not None
        pause, self.now = rest.until - self.now, rest.until
        return pause


def test_a_broken_template_that_is_left_alone_for_a_year_does_not_use_up_the_attempts():
    broken = Broken()
    pauses = []
    while broken.now < NOW + 365 * DAY:
        pauses.append(broken.refuse())

    assert broken.attempts[-1].number < MOST_ATTEMPTS / 10
    assert max(pauses) == LONGEST_REFUSED
    assert pauses == sorted(pauses)


def test_after_a_day_there_are_hours_in_which_nothing_is_written():
    broken = Broken()
    while broken.now < NOW + DAY:
        pause = broken.refuse()

    assert pause > timedelta(hours=4)


@pytest.mark.parametrize(("broken_for", "longest"), [(20, 5), (60, 15), (240, 60)])
def test_what_is_fixed_within_minutes_is_noticed_within_minutes(broken_for, longest):
    """A fixed Secret causes no event: the order is tried again after a quarter of the time at most."""
    broken = Broken()
    while broken.now < NOW + timedelta(minutes=broken_for):
        pause = broken.refuse()

    assert pause <= max(LONGEST_PAUSE, timedelta(minutes=longest) * 1.25)


def test_a_change_of_the_request_or_its_class_is_tried_at_once():
    broken = Broken()
    while broken.now < NOW + DAY:
        broken.refuse()
    broken.now = broken.attempts[-1].ended_at + FIRST_PAUSE

    assert isinstance(broken.step(), Wait)
    assert isinstance(broken.step(inputs_changed=True), Reserve)


def test_room_is_found_for_the_refusals_beside_machines_that_were_lost():
    """What cost something is kept longest; the pauses grow all the same."""
    lost = tuple(over(number, "Lost", reserved_at=NOW - DAY) for number in range(1, 16))
    broken = Broken((*lost, *(over(number, "Failed", reserved_at=NOW - DAY) for number in range(16, 20))))
    for _ in range(80):
        pause = broken.refuse()

    assert pause == LONGEST_REFUSED
