"""An offer that was chosen is the same offer again when it is read from the status."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.controllers.account_access import HandClock
from tests.core.controllers.accounts import MemoryConfigMap, accounts_on
from tests.core.joining.test_mesh_selection import msgspec_class
from tests.core.market.offers import NOW, an_offer, offers_of
from tests.core.requests.test_node_metadata import a_request
from tests.core.requests.test_purchase import at, purchase_inputs
from tgp.adapters.kube.store import Store
from tgp.api.request import Attempt, ChosenOffer
from tgp.api.resource import GPU_REQUEST
from tgp.controllers.requests.leader_guard import LeaderGuard
from tgp.controllers.requests.machine_gateway import LaunchInput, MachineGateway
from tgp.core.model.account_access import AccountAccess
from tgp.core.model.cloud_account import account_of
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.offer import BootMode, Offer, Trust
from tgp.core.model.secret import Secret
from tgp.core.requests.chosen_offer import NOT_KEPT, offer_of, recorded, sized
from tgp.core.requests.node_metadata import desired_metadata, future_node
from tgp.core.requests.purchase import Purchase, decide_purchase
from tgp.ports.boot import BootPayload, BootRequest
from tgp.ports.cloud import Account, LaunchOrder

KEPT = tuple(name for name in Offer.__struct_fields__ if name not in NOT_KEPT)
USUAL = an_offer()
CHANGED: Mapping[str, Any] = {
    "provider": "vast",
    "sku": "b",
    "place": "Oslo, NO",
    "region": "eu-north",
    "country": "NO",
    "gpu": "GH200",
    "gpu_count": 8,
    "gpu_memory_gib": 96,
    "vcpus": 3,
    "memory_gib": 7,
    "disk_gib": 0,
    "arch": "arm64",
    "spot": True,
    "hourly_microusd": 1_234_567,
    "trust": Trust.VERIFIED,
    "boot": BootMode.TAKEOVER,
    "host": "h-1",
    "until": datetime(2027, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
    "type_name": "8x-GH200",
}
TOKEN = "tgp-0123456789-" + "a" * 32 + "-1"


def read_back(offer: Offer) -> Offer:
    """By way of the JSON that the API server keeps."""
    return offer_of(msgspec.json.decode(msgspec.json.encode(recorded(offer)), type=ChosenOffer))


def without_choice(offer: Offer) -> Offer:
    """The offer with the usual values in those fields that only a choice reads."""
    return msgspec.structs.replace(offer, **{name: getattr(USUAL_RECORDED, name) for name in NOT_KEPT})


USUAL_RECORDED = read_back(USUAL)


@given(offer=offers_of("vast"), disk=st.integers(0, 9), price=st.integers(0, 10**12), name=st.sampled_from(("", "8x")))
def test_an_offer_is_read_back_as_it_was_recorded(offer: Offer, disk: int, price: int, name: str):
    offer = msgspec.structs.replace(offer, disk_gib=disk, hourly_microusd=price, type_name=name)

    assert read_back(offer) == without_choice(offer)


def test_every_field_of_an_offer_is_kept_or_named_as_not_kept():
    assert set(CHANGED) == set(KEPT)


@pytest.mark.parametrize("name", KEPT)
def test_a_field_that_is_kept_comes_back(name: str):
    changed = msgspec.structs.replace(USUAL, **{name: CHANGED[name]})

    assert getattr(read_back(changed), name) == CHANGED[name]


@given(offer=offers_of("vast"))
def test_a_node_of_the_recorded_offer_is_that_of_the_listed_one(offer: Offer):
    record = a_request()

    assert future_node(record, read_back(offer)) == future_node(record, offer)
    recorded_there = Attempt(number=1, token=TOKEN, offer=recorded(read_back(offer)))
    assert desired_metadata(record, recorded_there) == desired_metadata(
        record, msgspec.structs.replace(recorded_there, offer=recorded(offer))
    )


@pytest.mark.parametrize(
    ("trust", "untrusted", "verified"),
    [(Trust.DATACENTER, False, False), (Trust.VERIFIED, True, True), (Trust.ANY, True, False)],
)
def test_a_record_says_how_far_the_owner_of_the_host_is_known(trust: Trust, untrusted: bool, verified: bool):
    written = recorded(an_offer(trust=trust))

    assert (written.untrusted, written.verified) == (untrusted, verified)
    assert offer_of(written).trust is trust


def test_a_record_of_an_earlier_version_is_read_with_the_usual_values():
    offer = offer_of(ChosenOffer(provider="vast", instance_type="4711", untrusted=True))

    assert (offer.arch, offer.country, offer.disk_gib, offer.until) == ("amd64", "", 0, None)
    assert offer.trust is Trust.ANY


def test_what_cannot_be_read_has_the_usual_value():
    offer = offer_of(
        ChosenOffer(provider="vast", instance_type="x", arch="abacus", boot_mode="steam", hourly_price="?")
    )

    assert (offer.arch, offer.boot, offer.hourly_microusd) == ("amd64", BootMode.NATIVE, 0)


def test_the_usual_values_take_no_room_in_a_status():
    plain = an_offer(country="", disk_gib=0, vcpus=0, memory_gib=0, place="")

    assert sorted(msgspec.to_builtins(recorded(plain))) == [
        "bootMode",
        "gpuCount",
        "gpuMemoryGiB",
        "gpuType",
        "hourlyPrice",
        "instanceType",
        "provider",
        "region",
    ]


def test_a_bid_is_the_price_of_what_is_ordered():
    spot = at("vast", "spot", 0.4, spot=True, host="h1", on_demand_microusd=2_000_000)
    buy = decide_purchase(purchase_inputs(spot, node_class={"instanceRequirements": {"spotAllowed": True}}, spot=True))

    assert isinstance(buy, Purchase)
    assert buy.offer == spot
    assert buy.bid_microusd == buy.hourly_microusd == buy.ordered.hourly_microusd == 500_000


class Cloud:
    """As far as an order is prepared there."""

    def open(self, *_asked: Any) -> "Cloud":
        return self

    async def identity(self) -> Account:
        return Account("acme")


class Keys:
    async def read(self, _name: str) -> Mapping[str, Secret]:
        return {"VAST_API_KEY": Secret("a key")}


class Booted:
    def __init__(self) -> None:
        self.asked: list[BootRequest] = []

    async def pack(self, boot_request: BootRequest) -> BootPayload:
        self.asked.append(boot_request)
        return BootPayload(b"")


def prepared(offer: Offer) -> tuple[BootRequest, LaunchOrder]:
    """What a machine of this offer boots with, and its order."""
    account = account_of(AccountAccess("vast", "keys", "VAST_API_KEY"), "acme")
    accounts = accounts_on(MemoryConfigMap(account), Store(GPU_REQUEST), HandClock())
    boot, record = Booted(), a_request()
    gateway = MachineGateway(Cloud(), accounts, Keys(), LeaderGuard(None), boot)  # type: ignore[arg-type] - as far as it is looked at
    attempt = Attempt(number=1, token=TOKEN, offer=recorded(offer), account=account.id)
    metadata = desired_metadata(record, attempt)
    assert metadata is not None
    launch_input = LaunchInput(record, msgspec_class({"providers": [{"name": "vast"}]}), "gpu-1", metadata, NOW)
    _, order = asyncio.run(gateway.prepare(attempt, launch_input))
    return boot.asked[0], order


@given(offer=offers_of("vast"))
def test_an_order_is_about_the_offer_that_was_chosen(offer: Offer):
    """In every field that anything reads from then on, the architecture of the image among them."""
    asked, order = prepared(offer)

    assert asked.offer == order.offer == without_choice(offer)
    assert order.bid_microusd == (offer.hourly_microusd if offer.spot and offer.host else None)


@pytest.mark.parametrize(
    ("offered", "seen", "written"),
    [
        ((None, None), (12, 82), (12, 82)),
        ((None, None), (0, 0), (None, None)),
        ((16, 64), (12, 82), (16, 64)),
        ((None, 64), (12, 82), (12, 64)),
    ],
)
def test_a_machine_reports_the_size_that_its_offer_did_not(offered, seen, written):
    """From then on it counts against `limits.resources`."""
    offer = ChosenOffer(provider="runpod", instance_type="x", vcpus=offered[0], memory_gib=offered[1])
    told = sized(offer, Instance("i-1", "t", InstanceState.RUNNING, vcpus=seen[0], memory_gib=seen[1]))

    assert (told.vcpus, told.memory_gib) == written
