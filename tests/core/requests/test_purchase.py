"""What would be bought for a request: field by field, from its manifest to one offer or one reason."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.core.market.offers import DOLLAR, NOW, AListing, an_offer
from tests.core.market.test_query import a_class, a_market
from tests.core.requests.an_observation import over
from tgp.api.decoding import decode
from tgp.api.request import GPURequest
from tgp.core.inventory.limits import Reservation, usage_of
from tgp.core.market.sources import sources_of
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode, Offer, Trust
from tgp.core.requests import cooldown
from tgp.core.requests.chosen_offer import recorded
from tgp.core.requests.purchase import (
    NoPurchase,
    Purchase,
    PurchaseInput,
    SourceObservation,
    decide_purchase,
    every_source,
    life_of,
    longest_run,
    reservation_of,
)

CLASS = {"providers": [{"name": "vultr"}, {"name": "vast"}], "bootPolicy": "Any"}


def a_record(**spec: Any) -> KubeObject[GPURequest]:
    manifest = {"apiVersion": "tgp.io/v1", "kind": "GPURequest", "metadata": {"name": "r"}}
    read = decode(GPURequest, {**manifest, "spec": {"gpuType": "A100", **spec}})
    assert isinstance(read, GPURequest)
    return KubeObject(key=ObjectKey("default", "r"), value=read)


def at(provider: str, sku: str = "a", dollars: float = 1.0, **said: Any) -> Offer:
    return an_offer(sku, **{"provider": provider, "hourly_microusd": int(dollars * DOLLAR), **said})


def purchase_inputs(*offers: Offer, node_class: dict[str, Any] | None = None, **spec: Any) -> PurchaseInput:
    bought_by = a_class(**{**CLASS, **(node_class or {})})
    return PurchaseInput(a_record(**spec), "rented", bought_by, a_market(*offers), every_source(bought_by), NOW)


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
    inputs = replace(
        inputs, sources=every_source(inputs.node_class), book=inputs.book.with_listing(name, AListing((SPOT,)), NOW)
    )
    choice = decide_purchase(inputs)

    assert isinstance(choice, Purchase)
    assert choice.bid_microusd == 800_000


def test_a_provider_that_cannot_be_looked_at_afterwards_sells_nothing():
    inputs = purchase_inputs(CHEAP, DEAR)
    failing = SourceObservation(listing_problem="its list fails")
    one = {name: failing if name.startswith("vultr") else row for name, row in inputs.sources.items()}

    assert bought(replace(inputs, sources=one)) == "dear"
    stay = waits(replace(inputs, sources=dict.fromkeys(inputs.sources, failing)))
    assert (stay.reason, stay.message) == ("ProviderUnavailable", "Provider vultr cannot be used now: its list fails")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (SourceObservation(missing_setting="no image"), "ProviderUnavailable"),
        (SourceObservation(key_problem="refused"), "ProviderUnavailable"),
        (SourceObservation(distrusted="its lists contradict the Nodes"), "ProviderInconsistent"),
    ],
)
def test_a_provider_that_cannot_be_relied_on_sells_nothing(source, reason):
    inputs = purchase_inputs(CHEAP)

    assert waits(replace(inputs, sources=dict.fromkeys(inputs.sources, source))).reason == reason


def test_a_provider_that_the_class_does_not_name_sells_nothing():
    stay = waits(replace(purchase_inputs(CHEAP), sources={}))

    assert (stay.reason, stay.message) == (
        "ProviderUnavailable",
        "Provider vultr cannot be used now: class rented does not use this provider",
    )


def test_an_offer_that_cannot_become_a_node_is_not_bought():
    theirs = at("vast", "theirs", trust=Trust.ANY)
    spanned = {"networking": {"backend": "kubespan"}, "instanceRequirements": {"minTrust": "Any"}}
    stay = waits(purchase_inputs(theirs, node_class=spanned))

    assert (stay.reason, "KubeSpan" in stay.message) == ("ProviderUnavailable", True)


@pytest.mark.parametrize(
    ("machines", "reason"),
    [
        ({"mine": ""}, ""),
        ({"mine": "another request uses this machine"}, "ProviderUnavailable"),
        ({}, "ProviderUnavailable"),
    ],
)
def test_a_machine_you_own_serves_one_request_at_a_time(machines, reason):
    """Whatever is wrong with the lists of another machine at the same address."""
    node_class = a_class(providers=[{"name": "webhook"}])
    (name,) = every_source(node_class)
    source = SourceObservation(listing_problem="another machine does not answer", distrusted="so", machines=machines)
    book = a_market().with_listing(name, AListing((at("webhook", "mine", boot=BootMode.POWER),)), NOW)
    choice = decide_purchase(PurchaseInput(a_record(), "own", node_class, book, {name: source}, NOW))

    assert (choice.reason if isinstance(choice, NoPurchase) else "") == reason


def test_a_machine_without_a_device_plugin_is_not_bought():
    stay = waits(replace(purchase_inputs(CHEAP), daemon_sets=()))

    assert (stay.reason, "device plugin" in stay.message) == ("DevicePluginMissing", True)


def test_what_does_not_fit_the_limits_is_passed_over_for_what_does():
    tight, small = {"limits": {"resources": {"cpu": "12"}}}, at("vast", "small", 1.5, vcpus=8)

    assert bought(purchase_inputs(CHEAP, small, node_class=tight)) == "small"
    stay = waits(purchase_inputs(CHEAP, node_class=tight))
    why = "Class rented: limits.resources[cpu] is 12, of which 0 is in use: 16 more does not fit"
    assert (stay.reason, stay.message) == ("LimitReached", why)


def test_what_is_left_of_the_classs_money_is_a_limit_with_its_own_reason():
    inputs = purchase_inputs(CHEAP, node_class={"limits": {"maxHourlyCost": "2.00"}})

    assert bought(inputs) == "cheap"
    assert waits(replace(inputs, held=usage_of([Reservation("u", 3 * DOLLAR // 2)]))).reason == "LimitReached"


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
    read = a_record(**spec).value

    assert read is not None
    assert life_of(read.spec) == life


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
    read = a_record(**spec).value

    assert read is not None
    assert longest_run(read.spec, limit) == run


def test_an_offer_that_ends_before_the_request_does_is_passed_over():
    leaving = at("vultr", "leaving", 0.5, until=NOW + timedelta(hours=3))

    assert bought(purchase_inputs(leaving, CHEAP)) == "cheap"
    assert bought(purchase_inputs(leaving, CHEAP, maxLifetime="2h")) == "leaving"


def test_what_failed_for_this_request_is_left_alone_also_if_it_had_failed_for_another_one_earlier():
    buy = decide_purchase(purchase_inputs(CHEAP))
    assert isinstance(buy, Purchase)
    ended = cooldown.failed(Cooldowns(), buy.offer, "sold out", NOW - timedelta(hours=2))
    failed = over(1, "Failed", offer=recorded(buy.ordered), ended_at=NOW - timedelta(minutes=1))

    assert bought(replace(purchase_inputs(CHEAP, DEAR), attempts=(failed,), cooldowns=ended)) == "dear"


def test_what_failed_for_this_request_is_left_alone_also_by_a_leader_that_remembers_nothing():
    buy = decide_purchase(purchase_inputs(CHEAP))
    assert isinstance(buy, Purchase)
    failed = over(1, "Failed", offer=recorded(buy.ordered), ended_at=NOW - timedelta(minutes=1))

    assert bought(replace(purchase_inputs(CHEAP, DEAR), attempts=(failed,))) == "dear"
