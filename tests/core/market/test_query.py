"""What a class writes decides which offers of the book are its own: field by field, from manifest to ranking."""

from typing import Any

import pytest

from tests.core.market.offers import NOW, AListing, an_offer
from tgp.api.decoding import decode
from tgp.api.nodeclass import GPUNodeClass
from tgp.core.market.query import query_for_class
from tgp.core.market.ranking import Ranking, rank
from tgp.core.market.sources import sources_of
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.offer import BootMode, Offer, Trust
from tgp.core.model.offer_query import RejectReason
from tgp.core.model.price_book import PriceBook

TWO = [{"name": "vultr"}, {"name": "simulated"}]


def a_class(**spec: Any) -> GPUNodeClass:
    manifest = {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": "c"}}
    read = decode(GPUNodeClass, {**manifest, "spec": {"providers": TWO, **spec}})
    assert isinstance(read, GPUNodeClass)
    return read


def a_market(*offers: Offer) -> PriceBook:
    """Every offer on sale at its own provider, under the keys that a class uses unless it says otherwise."""
    book = PriceBook()
    every_source = sources_of(a_class(providers=[{"name": name} for name in ("vultr", "simulated", "vast")]))
    for name, source in every_source.items():
        book = book.with_listing(source.name, AListing(tuple(each for each in offers if each.provider == name)), NOW)
    return book


def ranked(book: PriceBook, **spec: Any) -> Ranking:
    return rank(book, query_for_class(a_class(**spec), Cooldowns()), NOW)


def at_vultr(sku: str = "a", **said: Any) -> Offer:
    return an_offer(sku, **{"provider": "vultr", **said})


def requires(**fields: Any) -> dict[str, Any]:
    return {"instanceRequirements": fields}


@pytest.mark.parametrize(
    ("spec", "offer", "reason"),
    [
        (requires(gpuTypes=["H100"]), {}, RejectReason.WRONG_GPU),
        (requires(gpuTypes=["A100"]), {}, None),
        (requires(regions=["eu"]), {}, RejectReason.WRONG_REGION),
        (requires(regions=["us"]), {}, None),
        (requires(spotAllowed=False), {"spot": True}, RejectReason.SPOT_NOT_ALLOWED),
        (requires(spotAllowed=True), {"spot": True}, None),
        (requires(minVCPU=17), {}, RejectReason.FEW_VCPUS),
        (requires(minVCPU=16), {}, None),
        (requires(minMemoryGiB=129), {}, RejectReason.LITTLE_MEMORY),
        (requires(minMemoryGiB=128), {}, None),
        (requires(minGPUMemoryGiB=81), {}, RejectReason.LITTLE_GPU_MEMORY),
        (requires(minGPUMemoryGiB=80), {}, None),
        ({}, {"trust": Trust.ANY}, RejectReason.LOW_TRUST),
        (requires(minTrust="Any"), {"trust": Trust.ANY}, None),
        (requires(minTrust="Datacenter"), {"trust": Trust.VERIFIED}, RejectReason.LOW_TRUST),
        ({}, {"boot": BootMode.CONTAINER}, RejectReason.CANNOT_BOOT),
        ({}, {"boot": BootMode.TAKEOVER}, None),
        ({"bootPolicy": "Native"}, {"boot": BootMode.TAKEOVER}, RejectReason.CANNOT_BOOT),
        ({"bootPolicy": "Native"}, {"boot": BootMode.POWER}, None),
        ({"bootPolicy": "Any"}, {"no_driver": "a part of a GPU"}, RejectReason.NO_DRIVER),
        ({"bootPolicy": "Any"}, {"boot": BootMode.CONTAINER}, RejectReason.FOR_PODS),
        ({"providers": [{"name": "vultr", "regions": ["eu-west"]}]}, {}, RejectReason.WRONG_REGION),
        ({"providers": [{"name": "vultr", "regions": ["us-west-1"]}]}, {}, None),
        ({"providers": [{"name": "vultr", "enabled": False}, {"name": "simulated"}]}, {}, RejectReason.DISABLED),
        ({"providers": [{"name": "simulated"}]}, {}, RejectReason.NOT_IN_CLASS),
    ],
)
def test_a_field_of_a_class_decides_what_is_its_own(spec, offer, reason):
    ranking = ranked(a_market(at_vultr(**offer)), **spec)

    assert dict(ranking.passed) == ({} if reason is None else {reason: 1})


def test_a_class_buys_only_under_its_own_key():
    """Two classes with two keys of one provider do not see each other's offers."""
    other = [{"name": "vultr", "credentialsRef": {"name": "team-b", "key": "token"}}]

    assert dict(ranked(a_market(at_vultr()), providers=other).passed) == {RejectReason.NOT_IN_CLASS: 1}
    for changed in ({"name": "team-c", "key": "token"}, {"name": "team-b", "key": "other"}):
        another = [{"name": "vultr", "credentialsRef": changed}]
        assert sources_of(a_class(providers=another)) != sources_of(a_class(providers=other))


def test_price_decides_and_priority_breaks_ties_unless_the_class_turns_it_round():
    dear, cheap = at_vultr("dear", hourly_microusd=3), an_offer("cheap", provider="simulated", hourly_microusd=2)
    preferred = [{"name": "vultr", "priority": 1}, {"name": "simulated", "priority": 2}]

    def first(book: PriceBook, **spec: Any) -> str:
        best = ranked(book, providers=preferred, **spec).best
        assert best is not None
        return best.offer.sku

    assert first(a_market(dear, cheap)) == "cheap"
    assert first(a_market(dear, cheap), selection="Priority") == "dear"
    assert first(a_market(at_vultr("tied", hourly_microusd=2), cheap)) == "tied"
    assert first(a_market(dear, cheap), selection="Price") == "cheap"
