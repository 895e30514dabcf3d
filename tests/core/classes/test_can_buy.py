"""A class that can buy nothing reports it, with the reasons counted and the nearest change that would help."""

from datetime import timedelta
from typing import Any

import pytest

from tests.core.market.offers import DOLLAR, NOW, AListing, an_offer
from tests.core.market.test_query import a_class
from tgp.adapters.clouds.registry import facts_of
from tgp.core.classes.can_buy import CANNOT_BUY, Buying, cannot_buy, judge_buying
from tgp.core.classes.market_status import ProviderStanding
from tgp.core.market.query import query_for_class
from tgp.core.market.ranking import rank
from tgp.core.market.sources import sources_of
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.offer import CONTAINER_ONLY, BootMode, Offer, Stock, Trust
from tgp.core.model.price_book import PriceBook
from tgp.core.model.sold_gpus import sold
from tgp.core.model.source_status import KeyState, SourceStatus

BOOTS = {provider: facts_of(provider).boot for provider in sold()}


def at(provider: str, sku: str = "a", **said: Any) -> Offer:
    boot = facts_of(provider).boot[0]
    return an_offer(sku, **{"provider": provider, "boot": boot, "gpu": "RTX4090", "gpu_memory_gib": 24, **said})


def judged(
    *offers: Offer, failing: str = "", unheard: tuple[str, ...] = (), others: tuple[Offer, ...] = (), **spec: Any
):
    """By a class of the providers of these offers, or of those that `spec` names; `others`: seen by other classes."""
    names = tuple(dict.fromkeys(offer.provider for offer in offers))
    node_class = a_class(**{"providers": [{"name": name} for name in names], **spec})
    sources = sources_of(node_class)
    book = PriceBook()
    for name, source in sources.items():
        if name not in unheard:
            listed = tuple(offer for offer in offers if offer.provider == source.provider)
            book = book.with_listing(source.name, AListing(listed), NOW)
        if name == failing:
            book = book.with_failure(source.name, "no answer", NOW)
    for offer in others:
        book = book.with_listing(f"{offer.provider}/other/key", AListing((offer,)), NOW)
    query = query_for_class(node_class, Cooldowns())
    ranking = rank(book, query, NOW)
    standings = [
        ProviderStanding(
            name,
            source,
            SourceStatus(name, name, facts_of(source.provider).boot, sells_spot=False, key=KeyState(valid=True)),
            book.state(source.name),
            ranking.by_source.get(source.name, 0),
        )
        for name, source in sources.items()
    ]
    return judge_buying(Buying(query, standings, ranking, book, BOOTS, NOW + timedelta(minutes=1)))


def requires(**asked: Any) -> dict[str, Any]:
    return {"instanceRequirements": asked}


def test_what_fits_can_be_bought():
    verdict = judged(at("vultr", gpu="L40S"))

    assert (verdict.type, verdict.status, verdict.reason) == ("CanBuy", True, "OffersFit")
    assert cannot_buy(verdict) is None


@pytest.mark.parametrize("policy", ["Native", "Takeover", "Any"])
def test_a_provider_of_containers_alone_can_never_serve_whatever_the_policy(policy):
    verdict = judged(at("vast", "1"), at("vast", "2"), bootPolicy=policy, **requires(gpuTypes=["L40S"]))

    assert (verdict.status, verdict.reason) == (False, CANNOT_BUY)
    assert f"vast (2 offers): {CONTAINER_ONLY}" in verdict.message
    assert verdict.message.endswith("To fix: add provider vultr: L40S from $1.67/h.")
    ready = cannot_buy(verdict)
    assert ready is not None
    assert (ready.type, ready.status, ready.reason, ready.message) == ("Ready", False, CANNOT_BUY, verdict.message)


def test_containers_are_known_by_the_provider_before_it_has_listed_anything():
    assert judged(providers=[{"name": "runpod"}], unheard=("runpod",)).status is False


@pytest.mark.parametrize(
    ("offer", "spec", "words"),
    [
        ({"no_driver": "vGPU", "gpu": "A16"}, requires(gpuTypes=["A16"]), "GPU without a driver on Talos"),
        ({"gpu": "L40S"}, requires(gpuTypes=["RTX4090"]), "different GPU model"),
        ({"gpu": "L40S"}, requires(gpuTypes=["L40S"], regions=["AQ"]), "different region"),
        ({"gpu": "L40S"}, requires(minVCPU=4096), "too few virtual CPUs"),
        ({"gpu": "L40S", "trust": Trust.ANY}, {}, "trust too low"),
        ({"gpu": "L40S", "spot": True}, {}, "spot is not allowed"),
        ({"gpu": "L40S"}, {"limits": {"maxHourlyCost": "0.10"}}, "over the class limit"),
    ],
)
def test_each_reason_that_does_not_pass_is_counted(offer, spec, words):
    verdict = judged(at("vultr", **offer), **spec)

    assert verdict.status is False, verdict
    assert f"vultr (1 offer): {words}" in verdict.message


def test_a_region_that_means_nothing_is_named_with_the_nearest():
    verdict = judged(at("vultr", gpu="L40S"), **requires(regions=["us-wset"]))

    assert verdict.status is False
    assert "region us-wset is unknown and has no offers; did you mean us-west" in verdict.message


@pytest.mark.parametrize(
    ("offers", "spec"),
    [
        ([{"gpu": "L40S", "stock": Stock.NONE}], {}),
        ([{"gpu": "L40S", "until": NOW - timedelta(hours=1)}], {}),
        ([], {"providers": [{"name": "vultr"}]}),  # an empty listing is one of this moment
        ([{"gpu": "L40S"}], requires(gpuTypes=["H100"])),  # sold out, and then missing from the list
        ([{"gpu": "L40S"}], requires(gpuTypes=["L40S"], regions=["eu-north"])),  # it has a place there
        ([{"gpu": "L40S"}], {"limits": {"maxHourlyCost": "0.95"}}),  # a price may fall by as much
    ],
)
def test_what_may_come_back_is_not_the_end(offers, spec):
    verdict = judged(*(at("vultr", **each) for each in offers), **spec)

    assert (verdict.status, verdict.reason) == (True, "NothingNow"), verdict


@pytest.mark.parametrize("more", [{"failing": "vultr"}, {"unheard": ("vultr",)}])
def test_of_a_provider_that_has_not_answered_nothing_is_known(more):
    verdict = judged(at("vultr", gpu="T4"), **more, **requires(gpuTypes=["RTX4090"]))

    assert (verdict.status, verdict.reason) == (None, "NotKnown")
    assert cannot_buy(verdict) is None


def test_one_provider_that_may_serve_is_enough():
    offers = at("vast"), at("vultr", gpu="L40S", stock=Stock.NONE)

    assert judged(*offers, **requires(gpuTypes=["L40S"])).status is True


def test_a_machine_that_another_class_owns_is_nothing_to_add():
    """Provider webhook in this class would need a machine of its own."""
    own = at("webhook", gpu="L40S", boot=BootMode.POWER)
    verdict = judged(at("runpod"), others=(own,), **requires(gpuTypes=["L40S"]))

    assert verdict.message.endswith("To fix: add provider vultr: L40S from $1.67/h.")


@pytest.mark.parametrize(
    ("offer", "more", "words"),
    [
        (at("vast"), {"others": (at("lambdalabs"),)}, "add provider lambdalabs: RTX4090 from $1.00/h"),
        (at("vast"), requires(gpuTypes=["A10"]), "add provider lambdalabs: A10 from $0.75/h"),
        (at("vast"), {**requires(gpuTypes=["A10"]), "bootPolicy": "Native"}, ""),
        (
            at("vast"),
            {**requires(gpuTypes=["B200"]), "bootPolicy": "Native"},
            "add provider vultr: 8x B200 from $23.84/h",
        ),
        (at("vultr", gpu="L40S", trust=Trust.ANY), {}, "lower instanceRequirements.minTrust: 1x L40S at $1.00/h"),
        (at("vultr", gpu="L40S", spot=True), {}, "set instanceRequirements.spotAllowed: 1x L40S spot"),
        (at("vultr", gpu="L40S"), requires(regions=["AQ"]), "allow more regions: 1x L40S"),
        (
            at("vultr", gpu="L40S"),
            requires(minMemoryGiB=4096),
            "lower the minimum sizes in instanceRequirements: 1x L40S",
        ),
        (at("vultr", gpu="L40S"), {"limits": {"maxHourlyCost": "0.10"}}, "raise limits.maxHourlyCost: 1x L40S"),
        (at("vultr", gpu="L40S"), requires(gpuTypes=["RTX5090"]), "add L40S to instanceRequirements.gpuTypes: 1x L40S"),
        (
            at("lambdalabs", gpu="A10"),
            {"bootPolicy": "Native"},
            "set bootPolicy: Takeover: 1x A10",
        ),
    ],
)
def test_the_nearest_change_that_would_help_is_named(offer, more, words):
    verdict = judged(offer, **more)

    assert verdict.status is False
    _, _, advice = verdict.message.partition("To fix: ")
    assert advice.startswith(words) if words else not advice


def test_a_provider_that_the_class_has_already_is_not_advised():
    verdict = judged(at("vultr", gpu="A16", no_driver="vGPU"), **requires(gpuTypes=["RTX5090"]))

    assert "add provider vultr" not in verdict.message


def test_the_same_words_for_the_same_world():
    offers = at("vast"), at("vultr", gpu="L40S", hourly_microusd=DOLLAR)

    assert judged(*offers, **requires(gpuTypes=["T4"])) == judged(*offers, **requires(gpuTypes=["T4"]))
