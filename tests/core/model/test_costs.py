"""What an attempt cost: from confirmed times, rounded up, in integers; never guessed, never lost."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.api.request import Attempt, ChosenOffer, GPURequest, GPURequestSpec, GPURequestStatus
from tgp.api.values import usd
from tgp.core.model.costs import MOST_MICROUSD, REPLACED_PRICE, cost_of, divided, entry_of, hourly_of, spent
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef
from tgp.core.model.record import pack_uid

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
UID = "0b5f0a3e-2f5c-4c0e-9e35-3d1a6f0c2b11"
OFFER = ChosenOffer(provider="vast", instance_type="4711", gpu_type="RTX4090", gpu_count=2, hourly_price="0.40")


def an_attempt(**said: Any) -> Attempt:
    fields: dict[str, Any] = {"number": 1, "token": "tgp-x", "offer": OFFER, "launched_at": NOW}
    return Attempt(**fields | said)


def a_record(**said: Any) -> KubeObject[GPURequest]:
    status = said.pop("status", GPURequestStatus(node_class="cheap"))
    request = GPURequest(spec=GPURequestSpec(gpu_type="RTX4090"), status=status)
    fields: dict[str, Any] = {"key": ObjectKey("team-a", "train-7"), "uid": pack_uid(UID), "value": request}
    return KubeObject(**fields | said)


@pytest.mark.parametrize(
    ("attempt", "hours", "microusd"),
    [
        (an_attempt(), 1, 400_000),
        (an_attempt(hourly_price="0.50"), 2, 1_000_000),  # the bill counts, not the order
        (an_attempt(hourly_price="a lot"), 1, 400_000),
        (an_attempt(launched_at=None), 9, 0),  # never confirmed: a failed launch costs nothing
        (an_attempt(offer=None), 9, 0),  # a record without a price
        (an_attempt(), -1, 0),  # the wall clock was set back
        (an_attempt(ended_at=NOW + 2 * HOUR), 9, 800_000),  # what is over costs no more
    ],
)
def test_a_machine_costs_its_price_for_the_time_it_was_confirmed(attempt, hours, microusd):
    assert cost_of(attempt, NOW + hours * HOUR) == microusd


def test_a_begun_step_is_billed_whole():
    """Where a provider counts minutes, 61 seconds are two of them."""
    attempt = an_attempt(hourly_price="0.60")

    assert cost_of(attempt, NOW + timedelta(seconds=61), step=MINUTE) == 20_000
    assert cost_of(attempt, NOW + timedelta(seconds=60), step=MINUTE) == 10_000
    assert cost_of(attempt, NOW, step=MINUTE) == 0


@given(
    price=st.integers(0, 10**9),
    length=st.timedeltas(timedelta(0), timedelta(days=20_000)),
    step=st.sampled_from((timedelta(microseconds=1), timedelta(seconds=1), MINUTE, HOUR)),
)
def test_the_estimate_is_never_below_price_times_time_and_less_than_a_step_above(price, length, step):
    attempt = an_attempt(hourly_price=usd(price))
    cost = cost_of(attempt, NOW + length, step)
    exact = price * (length // timedelta(microseconds=1))
    hour = HOUR // timedelta(microseconds=1)

    assert exact <= cost * hour or cost == MOST_MICROUSD
    assert (cost - 1) * hour < exact + price * (step // timedelta(microseconds=1))


def test_an_absurd_price_for_an_absurd_time_is_bounded():
    attempt = an_attempt(hourly_price="999999999", launched_at=datetime(1970, 1, 1, tzinfo=UTC))

    assert spent((attempt, attempt), NOW) == MOST_MICROUSD
    assert len(usd(MOST_MICROUSD)) <= 24  # what the schema takes


def test_what_was_spent_is_what_is_written_and_what_runs():
    """An attempt that is over keeps the cost it was closed with, whatever its price would say today."""
    over = an_attempt(ended_at=NOW + HOUR, spent="0.37")
    unwritten = an_attempt(number=2, ended_at=NOW + HOUR)
    runs = an_attempt(number=3, launched_at=NOW + HOUR)

    assert spent((over, unwritten, runs), NOW + 2 * HOUR) == 370_000 + 400_000 + 400_000
    assert spent((), NOW) == 0


def test_the_price_of_an_order_counts_until_a_bill_is_told():
    assert (hourly_of(an_attempt()), hourly_of(an_attempt(hourly_price="0.41"))) == (400_000, 410_000)


def test_the_entry_of_a_machine_says_whose_it_was_and_what_it_cost():
    attempt = an_attempt(number=2, instance_id="i-1", ended_at=NOW + HOUR, spent="0.40")
    owner = OwnerRef("GPUNodePool", "trainers")

    entry = entry_of(a_record(owners=(owner,)), attempt)

    assert entry is not None
    assert entry.key == f"{UID}-2"
    assert msgspec.to_builtins(entry) == {
        "uid": UID,
        "attempt": 2,
        "request": "team-a/train-7",
        "pool": "team-a/trainers",
        "class": "cheap",
        "provider": "vast",
        "gpu": "RTX4090",
        "gpus": 2,
        "instance": "i-1",
        "from": "2026-11-16T12:00:00Z",
        "to": "2026-11-16T13:00:00Z",
        "microusd": 400_000,
        "spot": False,
        "lost": False,
        "replaced": None,
    }


def test_a_cheaper_machine_saves_what_those_it_replaced_would_have_cost_since_it_was_ready():
    """While it boots both are paid."""
    attempt = an_attempt(ended_at=NOW + 3 * HOUR, spent="1.20")
    ready = GPURequestStatus(ready_at=NOW + HOUR)

    entry = entry_of(a_record(annotations={REPLACED_PRICE: "0.70"}, status=ready), attempt)
    assert entry is not None
    assert (entry.replaced_microusd, entry.saved_microusd) == (1_400_000, 200_000)

    billed = entry_of(
        a_record(annotations={REPLACED_PRICE: "0.70"}, status=ready),
        an_attempt(ended_at=NOW + 3 * HOUR, hourly_price="0.30"),
    )
    assert billed is not None
    assert billed.saved_microusd == 500_000, "by what is billed, not by the listed price"

    never = entry_of(a_record(annotations={REPLACED_PRICE: "0.70"}), attempt)
    assert never is not None
    assert (never.replaced_microusd, never.saved_microusd) == (0, -1_200_000)

    other = entry_of(a_record(annotations={REPLACED_PRICE: "much"}, status=ready), attempt)
    assert other is not None
    assert (other.replaced_microusd, other.saved_microusd) == (None, 0)


@given(amount=st.integers(0, 10**12), by=st.lists(st.integers(0, 10**9), min_size=1, max_size=9))
def test_what_is_divided_adds_up(amount, by):
    parts = divided(amount, by)
    assert sum(parts) == amount
    assert all(part >= 0 for part in parts)
    if sum(by):
        assert all(abs(part - amount * weight / sum(by)) <= 1.001 for part, weight in zip(parts, by, strict=True))


def test_the_same_record_makes_the_same_entry_whenever_it_is_asked():
    """A turn that is taken again must not write a second, different line."""
    attempt = an_attempt(ended_at=NOW + HOUR)

    assert entry_of(a_record(), attempt) == entry_of(a_record(), attempt)


def test_an_attempt_without_a_machine_is_no_entry():
    assert entry_of(a_record(), an_attempt(launched_at=None, ended_at=NOW)) is None


def test_an_object_of_a_newer_version_still_says_its_class():
    """It cannot be read, and its money is counted all the same."""
    record = a_record(value=None, status_document=b'{"nodeClass": "cheap", "attempts": []}')
    entry = entry_of(record, an_attempt(ended_at=NOW + HOUR))

    assert entry is not None
    assert (entry.node_class, entry.microusd) == ("cheap", 400_000)
