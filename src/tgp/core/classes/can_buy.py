"""Could any offer ever serve a class? A class that can buy nothing must not be Ready.

Only what will not change by itself counts: how a provider starts machines, a GPU without a driver or that the
provider never sells, a region where the provider has no location, trust, sizes. What is sold out, cooling down or
missing from a listing at the moment may come back, and the offers of a provider that has not answered are unknown.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from tgp.api.common import OWNED_PROVIDER
from tgp.core.classes.market_status import ProviderStanding
from tgp.core.market.ranking import Ranking, rank
from tgp.core.market.ranking_messages import machine
from tgp.core.model.conditions import ConditionUpdate, without_amounts
from tgp.core.model.gpus import family_members
from tgp.core.model.money import about
from tgp.core.model.offer import CONTAINER_ONLY, BootMode, Trust
from tgp.core.model.offer_query import TALOS_BOOTS, Kinds, OfferQuery, RejectReason
from tgp.core.model.price_book import PriceBook
from tgp.core.model.regions import atlas, region_fits
from tgp.core.model.sold_gpus import Sold, sold

CANNOT_BUY = "CannotBuy"  # the reason of a class's Ready, and of each request that waits for the class
NOT_ITS_OWN = frozenset({RejectReason.NOT_IN_CLASS, RejectReason.DISABLED})
PASSING = frozenset({RejectReason.ENDS_TOO_SOON, RejectReason.STALE, RejectReason.SOLD_OUT, RejectReason.COOLING_DOWN})
FAR_TOO_EXPENSIVE = 1.25  # times the class's limit: prices do not fall so far by themselves
REASONS_SAID = 3  # of one provider


class Buying(msgspec.Struct, frozen=True):
    """The input of `judge_buying`."""

    query: OfferQuery  # the class's own
    standings: Sequence[ProviderStanding]
    ranking: Ranking  # of the book by that query
    book: PriceBook
    boots: Mapping[str, Collection[BootMode]]  # of the providers in `sold`; needed only where nothing fits
    now: datetime


def judge_buying(buying: Buying) -> ConditionUpdate:
    """CanBuy: False where nothing on sale could ever serve the class, with the reasons counted and a change that would
    help.
    """
    ranking = buying.ranking
    if len(ranking):
        return ConditionUpdate("CanBuy", True, "OffersFit", "Offers of the class's providers match the class.")
    never, unknown, hopeful = {}, [], []
    for standing in buying.standings:
        if why := _never(buying, standing):
            never[f"{standing.name} ({_count(buying, standing)})"] = why
        elif not _answered(standing):
            unknown.append(standing.name)
        else:
            hopeful.append(standing.name)
    if hopeful:
        return ConditionUpdate(
            "CanBuy", True, "NothingNow", f"No offer of {', '.join(hopeful)} can be bought at the moment."
        )
    if unknown:
        return ConditionUpdate("CanBuy", None, "NotKnown", f"Offers of {', '.join(unknown)} are unknown.")
    reasons = "; ".join(f"{name}: {why}" for name, why in never.items()) or "the class has no enabled provider"
    reasons = "; ".join((reasons, *(ranking.unknown_regions if RejectReason.WRONG_REGION in ranking.passed else ())))
    help_with = next(_changes(buying), "")
    would_help = f" To fix: {help_with}." if help_with else ""
    return ConditionUpdate("CanBuy", False, "CannotBuy", f"No offer can ever serve this class: {reasons}.{would_help}")


def cannot_buy(verdict: ConditionUpdate) -> ConditionUpdate | None:
    """The class's Ready condition then; None: the class can buy, or that is unknown."""
    return ConditionUpdate("Ready", False, CANNOT_BUY, verdict.message) if verdict.status is False else None


def steady(verdict: ConditionUpdate, held: ConditionUpdate | None) -> ConditionUpdate:
    """The condition as it is stored, where only numbers changed: prices move all day, and a status must not."""
    if held is None or (held.status, held.reason) != (verdict.status, verdict.reason):
        return verdict
    return held if without_amounts(held.message) == without_amounts(verdict.message) else verdict


def _answered(standing: ProviderStanding) -> bool:
    return standing.heard and standing.listing is not None and not standing.listing.why


# -- why never ---------------------------------------------------------------------------------------------------------


def _never(buying: Buying, standing: ProviderStanding) -> str:
    """Why no offer of this provider will ever match; empty: one may, or that is unknown."""
    query, seller = buying.query, standing.source_status
    boots = seller.boot if seller is not None else ()
    if set(boots) == {BootMode.CONTAINER}:
        return CONTAINER_ONLY
    if boots and not set(boots) & set(query.boots):
        return f"cannot boot Talos under this bootPolicy, their boot mode is {', '.join(boots)}"
    if not _answered(standing):
        return ""
    passed = buying.ranking.passed_of(standing.source.name)
    if not passed or set(passed) & PASSING or _may_come(buying, standing, passed):
        return ""
    nearest = [reason for reason in reversed(RejectReason) if reason in passed]
    if len(nearest) == 1:
        return str(nearest[0])
    return ", ".join(f"{passed[reason]} {reason}" for reason in nearest[:REASONS_SAID])


def _may_come(buying: Buying, standing: ProviderStanding, passed: Mapping[RejectReason, int]) -> bool:
    """Is the provider known to sell what is missing from its listing now?"""
    query, provider = buying.query, standing.source.provider
    wanted = _models(query)
    listed = {offer.gpu for offer in buying.book.of(standing.source.name)}
    if RejectReason.WRONG_GPU in passed and wanted & sold().get(provider, {}).keys() - listed:
        return True
    if RejectReason.WRONG_REGION in passed and _has_place(query, provider, standing.source.name):
        return True
    if RejectReason.OVER_LIMIT in passed:
        cheapest = next(miss for miss in buying.ranking.nearest() if miss.reason is RejectReason.OVER_LIMIT)
        return cheapest.row.offer.hourly_microusd <= (query.headroom_microusd or 0) * FAR_TOO_EXPENSIVE
    return False


def _has_place(query: OfferQuery, provider: str, source: str) -> bool:
    policy = (query.policies or {}).get(source)
    rules = [names for names in (query.class_regions, policy.regions if policy is not None else ()) if names]
    places = ((place, *where) for (seller, place), where in atlas().places.items() if seller == provider)
    return any(
        all(any(region_fits(name, region, place, country) for name in names) for names in rules)
        for place, region, country in places
    )


def _count(buying: Buying, standing: ProviderStanding) -> str:
    count = sum(buying.ranking.passed_of(standing.source.name).values())
    return "1 offer" if count == 1 else f"{count} offers" if count else "all offers"


def _models(query: OfferQuery) -> set[str]:
    return {model for name in query.models for model in (family_members(name) or (name,))}


# -- what would fix it
# ---------------------------------------------------------------------------------------------------


def _changes(buying: Buying) -> Iterator[str]:
    """Changes to the class that would let it buy, the nearest first."""
    for advice, change in _relaxations(buying.query):
        best = rank(buying.book, replace(buying.query, **change), buying.now).best
        if best is not None:
            yield f"{advice}: {machine(best.offer)}"
    yield from _other_providers(buying)
    yield from _other_gpus(buying)


def _relaxations(query: OfferQuery) -> Iterable[tuple[str, dict[str, Any]]]:
    anywhere = {name: replace(policy, regions=()) for name, policy in (query.policies or {}).items()}
    small = {"min_vcpus": 0, "min_memory_gib": 0, "min_gpu_memory_gib": 0}
    return (
        ("raise limits.maxHourlyCost", {"headroom_microusd": None}),
        ("lower the minimum sizes in instanceRequirements", small),
        ("lower instanceRequirements.minTrust", {"min_trust": Trust.ANY}),
        ("set bootPolicy: Takeover", {"boots": TALOS_BOOTS}),
        ("allow more regions", {"class_regions": (), "policies": anywhere}),
        ("set instanceRequirements.spotAllowed", {"kinds": Kinds.EITHER}),
    )


def _other_providers(buying: Buying) -> Iterator[str]:
    """Providers that the class does not have: their current offers if another class lists them, else the known ones.

    Not the machines that another class owns: this one would need its own.
    """
    query = buying.query
    mine = {OWNED_PROVIDER, *(standing.source.provider for standing in buying.standings)}
    elsewhere = replace(query, policies=None)
    best = next((row.offer for row in rank(buying.book, elsewhere, buying.now) if row.offer.provider not in mine), None)
    if best is not None:
        yield f"add provider {best.provider}: {_from(Sold(best.gpu, best.gpu_count, best.hourly_microusd))}"
        return
    found = [
        (each.hourly_microusd, provider, each)
        for provider, models in sold().items()
        if provider not in mine and set(buying.boots.get(provider, ())) & set(query.boots)
        for each in models.values()
        if _serves(each, query, provider)
    ]
    if found:
        _, provider, each = min(found, key=lambda row: row[:2])
        yield f"add provider {provider}: {_from(each)}"


def _other_gpus(buying: Buying) -> Iterator[str]:
    """Offers of the class's own providers that could become a node."""
    best = rank(buying.book, replace(buying.query, models=()), buying.now).best
    if best is not None:
        yield f"add {best.offer.gpu} to instanceRequirements.gpuTypes: {machine(best.offer)}"


def _serves(each: Sold, query: OfferQuery, provider: str) -> bool:
    wanted = _models(query)
    if wanted and each.gpu not in wanted:
        return False
    if query.headroom_microusd is not None and each.hourly_microusd > query.headroom_microusd:
        return False
    return not query.class_regions or _has_place(query, provider, "")


def _from(each: Sold) -> str:
    several = f"{each.gpu_count}x " if each.gpu_count > 1 else ""
    return f"{several}{each.gpu} from {about(each.hourly_microusd)}/h"
