"""The chance to lose a spot machine: an assumption at first, then what was seen, within bounds."""

from datetime import timedelta

import pytest

from tests.core.model.test_spend import an_entry
from tests.core.pools.builders import NOW, a_request, ago, an_attempt, written
from tgp.core.pools.planner.world import ASSUMED_SPOT_LOSS
from tgp.core.pools.spot_risk import LEAST_LOSS, MOST_LOSS, SpotUse, SpotUses, spot_loss

KIND = ("vast", "RTX4090")


def seen(hours: float, losses: int) -> float:
    uses = [SpotUse(KIND, hours, lost=False), *(SpotUse(KIND, 0.0, lost=True) for _ in range(losses))]
    return spot_loss(uses)[KIND]


def test_where_nothing_was_seen_nothing_is_said():
    assert spot_loss(()) == {}
    assert seen(0.0, 0) == ASSUMED_SPOT_LOSS


def test_what_was_seen_moves_it_and_much_of_it_decides():
    assert seen(20.0, 0) == pytest.approx(ASSUMED_SPOT_LOSS / 2)
    assert seen(10.0, 3) == pytest.approx(4 / 30)
    assert seen(10_000.0, 1_000) == pytest.approx(0.1, rel=0.01)


def test_it_stays_within_bounds():
    assert seen(1e9, 0) == LEAST_LOSS
    assert seen(0.0, 10_000) == MOST_LOSS


def test_kinds_are_apart():
    uses = (SpotUse(KIND, 1.0, lost=True), SpotUse(("acme", "H100"), 100.0, lost=False))
    found = spot_loss(uses)
    assert found[KIND] > ASSUMED_SPOT_LOSS > found["acme", "H100"]


def test_a_machine_counts_once_and_only_if_it_was_spot():
    lost = an_entry(gpu="RTX4090", spot=True, lost=True)
    uses = SpotUses()
    uses.restore((lost, lost, an_entry(attempt=2, gpu="RTX4090", ended=NOW + timedelta(days=9))))
    assert uses.loss((), NOW) == {KIND: pytest.approx(2 / 21)}


def test_a_request_tells_what_was_lost_and_what_still_runs():
    offer = {"provider": "vast", "gpuType": "RTX4090", "gpuCount": 1, "spot": True, "instanceType": "m-1"}
    began = written(ago(hours=10))
    gone = an_attempt(offer=offer, launchedAt=began, endedAt=written(ago(hours=5)), outcome="Lost", token="a")
    runs = an_attempt(offer=offer, launchedAt=written(ago(hours=5)), token="b", number=2)
    record = a_request("train", attempts=[gone, runs])
    uses = SpotUses()
    uses.learn(record)
    uses.learn(record)
    assert uses.loss((record,), NOW) == {KIND: pytest.approx(2 / 30)}
