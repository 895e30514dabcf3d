"""What would be bought for a request: field by field, from its manifest to one offer or one reason."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.core.market.offers import DOLLAR, NOW, AListing, an_offer
from tests.core.market.test_query import a_class, a_market
from tests.core.requests.an_observation import over
from tgp.api.decoding import decode
from tgp.api.request import ChosenOffer, GPURequest
from tgp.core.inventory.limits import Reservation
from tgp.core.market.sources import sources_of
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.offer import Offer
from tgp.core.requests.purchase import (
    NoPurchase,
    Purchase,
    PurchaseInput,
    chosen,
    decide_purchase,
    life_of,
    longest_run,
    offer_of,
    own_cooldowns,
    reservation_of,
    sized,
)

CLASS = {"providers": [{"name": "vultr"}, {"name": "vast"}], "bootPolicy": "Any"}


def a_spec(**spec: Any):
    manifest = {"apiVersion": "tgp.io/v1", "kind": "GPURequest", "metadata": {"name": "r"}}
    read = decode(GPURequest, {**manifest, "spec": {"gpuType": "A100", **spec}})
    assert isinstance(read, GPURequest)
    return read.spec


def at(provider: str, sku: str = "a", dollars: float = 1.0, **said: Any) -> Offer:
    return an_offer(sku, **{"provider": provider, "hourly_microusd": int(dollars * DOLLAR), **said})


def purchase_inputs(*offers: Offer, node_class: dict[str, Any] | None = None, **spec: Any) -> PurchaseInput:
    return PurchaseInput(
        a_spec(**spec),
        "rented",
        a_class(**{**CLASS, **(node_class or {})}),
        a_market(*offers),
        Cooldowns(),
        None,
        closed=lambda _row: "",
        unfit=lambda _offer: "",
        shortage=lambda _wanted: "",
        uid="u",
        now=NOW,
    )


CHEAP, DEAR = at("vultr", "cheap", 1.0), at("vast", "dear", 1.2)


def bought(inputs: PurchaseInput) -> str:
    choice = decide_purchase(inputs)
    assert isinstance(choice, Purchase), choice
    return choice.offer.sku


def waits(inputs: PurchaseInput) -> NoPurchase:
    choice = decide_purchase(inputs)
    assert isinstance(choice, NoPurchase), choice
    return choice


def test_the_cheapest_that_fits_is_bought():
    assert bought(purchase_inputs(DEAR, CHEAP)) == "cheap"


@pytest.mark.parametrize(
    ("spec", "sku"),
    [
        ({"provider": "vast"}, "dear"),
        ({"provider": "vast.ai"}, "dear"),
        ({"provider": ""}, "cheap"),
        ({"gpuType": "A100-80GB-SXM"}, "cheap"),
        ({"region": "us-west"}, "cheap"),
        ({"regions": ["us-west"]}, "cheap"),
        ({"maxHourlyPrice": "1.00"}, "cheap"),
        ({"offer": {"provider": "vast", "instanceType": "dear"}}, "dear"),
        ({"offer": {"provider": "vast", "instanceType": "dear", "region": "us-west"}, "gpuCount": 1}, "dear"),
    ],
)
def test_a_request_narrows_its_class(spec, sku):
    assert bought(purchase_inputs(DEAR, CHEAP, **spec)) == sku


@pytest.mark.parametrize(
    "spec",
    [
        {"provider": "gcp"},
        {"gpuType": "H100"},
        {"gpuCount": 2},
        {"region": "eu-west"},
        {"regions": ["eu-west", "eu-north"]},
        {"maxHourlyPrice": "0.99"},
        {"offer": {"provider": "vast", "instanceType": "other"}},
        {"offer": {"provider": "vast", "instanceType": "dear", "region": "eu-west"}},
    ],
)
def test_nothing_is_silently_substituted(spec):
    stay = waits(purchase_inputs(DEAR, CHEAP, **spec))

    assert stay.reason == "NoOfferFits"
    assert stay.message


def test_a_gpu_that_the_class_does_not_rent_is_said_so():
    stay = waits(purchase_inputs(CHEAP, node_class={"instanceRequirements": {"gpuTypes": ["H100"]}}))

    assert (stay.reason, stay.message) == ("NotInClass", "spec.gpuType: class rented does not allow A100")


def test_a_family_is_narrowed_by_the_class_to_the_members_both_know():
    inputs = purchase_inputs(CHEAP, node_class={"instanceRequirements": {"gpuTypes": ["A100-80GB-SXM", "H100"]}})

    assert bought(inputs) == "cheap"


SPOT = at("vast", "spot", 0.4, spot=True, host="h1", on_demand_microusd=DOLLAR)
ALLOWED = {"instanceRequirements": {"spotAllowed": True}}


def test_spot_has_to_be_allowed_and_asked_for():
    assert waits(purchase_inputs(SPOT, CHEAP, spot=True)).reason == "SpotNotAllowed"
    assert bought(purchase_inputs(SPOT, CHEAP, node_class=ALLOWED)) == "cheap"
    assert bought(purchase_inputs(SPOT, CHEAP, node_class=ALLOWED, spot=True)) == "spot"


def test_a_marketplace_is_bid_and_the_bid_is_what_limits_count():
    choice = decide_purchase(purchase_inputs(SPOT, node_class=ALLOWED, spot=True))

    assert isinstance(choice, Purchase)
    assert choice.bid_microusd == choice.hourly_microusd == 500_000
    assert reservation_of("u", choice).microusd == 500_000


@pytest.mark.parametrize(("cap", "bid"), [("0.45", 450_000), ("0.90", 500_000)])
def test_a_bid_stays_within_the_owners_price(cap, bid):
    choice = decide_purchase(purchase_inputs(SPOT, node_class=ALLOWED, spot=True, maxHourlyPrice=cap))

    assert isinstance(choice, Purchase)
    assert choice.bid_microusd == bid


def test_the_class_says_how_far_above_the_lowest_bid_to_go():
    providers = [{"name": "vast", "settings": {"bidMargin": 2}}]
    inputs = purchase_inputs(node_class={**ALLOWED, "providers": providers}, spot=True)
    name = sources_of(inputs.node_class)["vast"].name
    inputs = replace(inputs, book=inputs.book.with_listing(name, AListing((SPOT,)), NOW))
    choice = decide_purchase(inputs)

    assert isinstance(choice, Purchase)
    assert choice.bid_microusd == 800_000


def test_a_provider_that_cannot_be_looked_at_afterwards_sells_nothing():
    inputs = replace(
        purchase_inputs(CHEAP, DEAR), closed=lambda row: "its list fails" if row.source.startswith("vultr") else ""
    )

    assert bought(inputs) == "dear"
    assert waits(replace(inputs, closed=lambda _row: "its list fails")).reason == "ProviderUnavailable"


def test_a_machine_without_a_device_plugin_is_not_bought():
    stay = waits(replace(purchase_inputs(CHEAP), unfit=lambda _offer: "install one"))

    assert (stay.reason, stay.message) == ("DevicePluginMissing", "install one")


def test_what_does_not_fit_the_limits_is_passed_over_for_what_does():
    def tight(wanted: Reservation) -> str:
        return "too large" if wanted.vcpus > 8 else ""

    small = at("vast", "small", 1.5, vcpus=8)

    assert bought(replace(purchase_inputs(CHEAP, small), shortage=tight)) == "small"
    stay = waits(replace(purchase_inputs(CHEAP), shortage=tight))
    assert (stay.reason, stay.message) == ("LimitReached", "class rented: too large")


def test_what_is_left_of_the_classs_money_is_a_limit_with_its_own_reason():
    assert waits(replace(purchase_inputs(CHEAP), headroom_microusd=DOLLAR // 2)).reason == "LimitReached"


@pytest.mark.parametrize(
    ("spec", "life"),
    [
        ({}, timedelta(hours=24)),
        ({"maxLifetime": "2h"}, timedelta(hours=2)),
        ({"ttl": "3h"}, timedelta(hours=3)),
        ({"maxLifetime": "Never"}, None),
    ],
)
def test_how_long_a_machine_may_live(spec, life):
    assert life_of(a_spec(**spec)) == life


LIMIT = timedelta(days=120)


@pytest.mark.parametrize(
    ("spec", "limit", "run"),
    [
        ({}, LIMIT, timedelta(hours=24 + 2.4 + 1)),  # the usual life, a tenth of it, the usual drain
        ({"maxLifetime": "2h"}, LIMIT, timedelta(hours=2 + 1 + 1)),
        ({"maxLifetime": "2h", "terminationGracePeriod": "10m"}, LIMIT, timedelta(hours=3, minutes=10)),
        ({"maxLifetime": "2h"}, None, None),
        ({"maxLifetime": "Never"}, LIMIT, None),
        ({"terminationGracePeriod": "Never"}, LIMIT, None),
        ({"maxLifetime": "2640h"}, LIMIT, None),  # 110 days: with the margin more than the provider accepts
    ],
)
def test_a_provider_that_can_ends_the_machine_long_after_the_operator_would_have(spec, limit, run):
    """Never within the lifetime and its drain: rather no end by the provider than one that is too early."""
    assert longest_run(a_spec(**spec), limit) == run


def test_an_offer_that_ends_before_the_request_does_is_passed_over():
    leaving = at("vultr", "leaving", 0.5, until=NOW + timedelta(hours=3))

    assert bought(purchase_inputs(leaving, CHEAP)) == "cheap"
    assert bought(purchase_inputs(leaving, CHEAP, maxLifetime="2h")) == "leaving"


def test_a_record_reports_the_offer_again():
    buy = decide_purchase(purchase_inputs(CHEAP))
    assert isinstance(buy, Purchase)
    again = offer_of(chosen(buy))

    assert again.key == CHEAP.key
    assert (again.gpu, again.gpu_count, again.vcpus, again.memory_gib) == (CHEAP.gpu, 1, 16, 128)
    assert again.hourly_microusd == CHEAP.hourly_microusd


def test_what_failed_for_this_request_is_left_alone_also_by_a_leader_that_remembers_nothing():
    buy = decide_purchase(purchase_inputs(CHEAP))
    assert isinstance(buy, Purchase)
    failed = over(1, "Failed", offer=chosen(buy), ended_at=NOW - timedelta(minutes=1))
    inputs = purchase_inputs(CHEAP, DEAR)

    assert bought(replace(inputs, cooldowns=own_cooldowns(inputs.cooldowns, (failed,)))) == "dear"


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
