"""When the pools' loop plans: pods that come together are planned together, and none waits for long."""

from datetime import timedelta

import pytest

from tgp.controllers.pools.planner import LEAST_PAUSE, LONGEST_PAUSE, Batch


def a_batch() -> Batch:
    return Batch(timedelta(seconds=1), timedelta(seconds=10))


def test_a_plan_waits_until_no_pod_has_come_for_a_second():
    batch = a_batch()
    for moment in (0.0, 0.5, 1.2):
        batch.add(moment)
    assert batch.due(1.3) == pytest.approx(2.2)


def test_a_plan_is_made_ten_seconds_after_the_first_pod_however_many_come():
    batch = a_batch()
    for moment in range(30):
        batch.add(moment / 2)
    assert batch.due(14.5) == 10.0


def test_what_is_no_pod_opens_a_batch_too_and_the_next_begins_after_it():
    batch = a_batch()
    assert batch.due(5.0) == 6.0
    batch.close()
    batch.add(20.0)
    assert batch.due(20.0) == 21.0


@pytest.mark.parametrize(("took", "pause"), [(0.0, LEAST_PAUSE), (0.2, 2.0), (9.0, LONGEST_PAUSE)])
def test_there_is_a_second_at_least_between_two_plans_and_more_where_a_plan_takes_long(took: float, pause: float):
    batch = a_batch()
    batch.add(98.0)
    batch.pause(100.0, took)
    assert batch.due(100.0) == 100.0 + pause
