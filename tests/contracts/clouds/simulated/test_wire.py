"""The reference adapter's reading, tried with a line of JSON each: what the shared suite cannot test for all."""

from typing import Any

import msgspec
import pytest

from tgp.adapters.clouds.simulated import wire
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, OrderRefused, OutcomeUnknown
from tgp.core.model.instance import InstanceState
from tgp.core.model.offer import BootMode, Offer, Stock
from tgp.ports.cloud import LaunchOrder
from tgp.ports.http import Reply

TOKEN = "tgp-c0ffee0123-00000000000000000000000000000001-1"
OFFER = Offer(
    provider="simulated",
    sku="h100.1",
    place="us-west-1",
    gpu="H100-SXM",
    gpu_count=1,
    gpu_memory_gib=80,
    vcpus=26,
    memory_gib=225,
    disk_gib=1_024,
    hourly_microusd=2_690_000,
    boot=BootMode.NATIVE,
)
ORDER = LaunchOrder(OFFER, TOKEN, max_hourly_microusd=3_000_000, user_data=b"secret")


def a_reply(status: int, value: Any) -> Reply:
    return Reply(status, msgspec.json.encode(value))


def a_row(**changes: Any) -> dict[str, Any]:
    row = {
        "id": "sim-1",
        "name": TOKEN,
        "tags": {"tgp-token": TOKEN},
        "state": "running",
        "reason": "",
        "interrupted": False,
        "type": "h100.1",
        "place": "us-west-1",
        "market": "on-demand",
        "usd_per_hour": 2.69,
        "created_at": "2026-01-05T09:00:00+00:00",
        "public_ip": "203.0.113.7",
        "private_ip": None,
    }
    return {**row, **changes}


def an_offer(**changes: Any) -> dict[str, Any]:
    row = {
        "type": "h100.1",
        "place": "us-west-1",
        "country": "US",
        "state": "OR",
        "market": "on-demand",
        "gpu": "H100-SXM",
        "gpus": 1,
        "gpu_memory_gib": 80,
        "vcpus": 26,
        "memory_gib": 225,
        "disk_gib": 1_024,
        "usd_per_hour": 2.69,
        "stock": 2,
    }
    return {**row, **changes}


def listed(*rows: dict[str, Any]) -> Any:
    return wire.read_machines(a_reply(200, {"machines": list(rows), "next": None}))[0]


def test_an_offer_is_read_whole() -> None:
    (offer,) = wire.read_offers(a_reply(200, {"offers": [an_offer()]})).offers

    assert (offer.gpu, offer.region, offer.country) == ("H100-SXM", "us-west", "US")
    assert (offer.hourly_microusd, offer.stock, offer.left) == (2_690_000, Stock.CONFIRMED, 2)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"usd_per_hour": "free"}, "bad price"),
        ({"usd_per_hour": True}, "bad price"),
        ({"gpu": "Quantum Abacus"}, "unknown GPU"),
        ({"gpu_memory_gib": 12}, "unknown GPU"),  # no H100 has so little
        ({"gpus": 0}, "bad shape"),
        ({"stock": -1}, "bad shape"),
        ({"type": "../h100"}, "bad shape"),
        ({"market": "grey"}, "bad shape"),
        ({"country": "the moon"}, "bad shape"),
    ],
)
def test_one_bad_row_is_counted_and_spoils_no_list(changes: dict[str, Any], reason: str) -> None:
    good = an_offer(place="eu-north-1", country="SE", state="")
    listing = wire.read_offers(a_reply(200, {"offers": [an_offer(**changes), good]}))

    assert [offer.place for offer in listing.offers] == ["eu-north-1"]
    assert listing.dropped == {reason: 1}


def test_a_row_that_is_listed_twice_is_sold_once() -> None:
    listing = wire.read_offers(a_reply(200, {"offers": [an_offer(), an_offer(usd_per_hour=0.01)]}))

    assert [offer.hourly_microusd for offer in listing.offers] == [2_690_000]
    assert listing.dropped == {"listed twice": 1}


def test_a_renamed_machine_is_known_by_its_tag() -> None:
    (machine,) = listed(a_row(name="prod-7"))

    assert machine.token == TOKEN


def test_a_foreign_machine_has_its_own_name() -> None:
    (machine,) = listed(a_row(name="prod-7", tags={}))

    assert machine.token == "prod-7"


@pytest.mark.parametrize("price", [None, "NaN", -1, "call us", 10**30])
def test_a_machine_with_an_odd_price_is_listed_all_the_same(price: Any) -> None:
    """It is on the bill, whatever its row says."""
    (machine,) = listed(a_row(usd_per_hour=price))

    assert (machine.id, machine.hourly_microusd) == ("sim-1", None)


@pytest.mark.parametrize("changes", [{"id": "a/b"}, {"id": None}, {"name": 7}, {"tags": None}, {"tags": {"a": 1}}])
def test_a_row_that_may_be_ours_is_not_skipped(changes: dict[str, Any]) -> None:
    with pytest.raises(CannotTell):
        listed(a_row(), a_row(**{"id": "sim-2", **changes}))


def test_a_list_that_does_not_say_whether_it_goes_on_proves_nothing() -> None:
    with pytest.raises(CannotTell):
        wire.read_machines(a_reply(200, {"machines": []}))


def test_an_answer_about_another_machine_proves_nothing() -> None:
    with pytest.raises(CannotTell):
        wire.read_machine(a_reply(200, {"machine": a_row(id="sim-2")}), "sim-1")


@pytest.mark.parametrize("state", ["hibernating", None, 7, ["running"]])
def test_an_unheard_of_state_is_unknown(state: Any) -> None:
    (machine,) = listed(a_row(state=state))

    assert machine.state is InstanceState.UNKNOWN


@pytest.mark.parametrize("status", [201, 200, 409, 422, 429, 500])
def test_an_answer_that_names_a_machine_is_never_a_refusal(status: int) -> None:
    """Were it one, the machine would be billed and on no list."""
    body = {"error": {"code": "sold_out", "message": "none left"}, "machine": {"id": "sim-9"}}
    with pytest.raises(OutcomeUnknown) as caught:
        wire.read_launch(a_reply(status, body), ORDER)

    assert caught.value.instance_id == "sim-9"


def test_a_refusal_needs_both_its_status_and_its_code() -> None:
    refused = {"error": {"code": "bad_order", "message": "no"}}
    with pytest.raises(OrderRefused):
        wire.read_launch(a_reply(422, refused), ORDER)
    with pytest.raises(OutcomeUnknown):
        wire.read_launch(a_reply(400, refused), ORDER)
    with pytest.raises(OutcomeUnknown):
        wire.read_launch(a_reply(422, {"error": {"code": "maybe"}}), ORDER)


def test_a_wait_that_was_asked_for_is_passed_on() -> None:
    with pytest.raises(CloudBusy) as caught:
        wire.read_offers(Reply(429, b"slow down", (("Retry-After", "90"),)))

    assert caught.value.retry_after is not None
    assert caught.value.retry_after.total_seconds() == 90


@pytest.mark.parametrize(("microusd", "text"), [(1, "0.000001"), (1_250_000, "1.250000"), (12_000_000, "12.000000")])
def test_a_bid_is_written_exactly(microusd: int, text: str) -> None:
    assert wire.dollars(microusd) == text
