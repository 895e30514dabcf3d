"""Could anything on sale ever serve a class? A class that can buy nothing must not look well.

Only what will not change by itself counts: how a provider starts machines, a GPU that no driver drives or that the
provider never sells, a region where it has no place, trust, sizes. What is sold out, benched or missing from a listing
at the moment may come back, and of a provider that has not answered nothing is known.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tgp.core.model.book import PriceBook
from tgp.core.model.conditions import Verdict
from tgp.core.model.gpus import members
from tgp.core.model.offer import CONTAINER_ONLY, BootMode, Trust
from tgp.core.model.regions import atlas, region_fits
from tgp.core.model.sold import Sold, sold
from tgp.core.model.wish import TALOS_BOOTS, Kinds, PassedOver, Wish
from tgp.core.rules.class_market import Standing
from tgp.core.rules.ranking import Ranking, rank
from tgp.core.rules.ranking_words import about, machine

NUMBER = re.compile(r"\d+(?:\.\d+)?")
CANNOT_BUY = "CannotBuy"  # the reason of a class's Ready, and of whatever waits for the class
NOT_ITS_OWN = frozenset({PassedOver.NOT_IN_CLASS, PassedOver.DISABLED})
PASSING = frozenset({PassedOver.ENDS_TOO_SOON, PassedOver.STALE, PassedOver.SOLD_OUT, PassedOver.BENCHED})
FAR_TOO_DEAR = 1.25  # times the class's limit: prices do not fall so far by themselves
REASONS_SAID = 3  # of one provider
TAKES_OVER = frozenset({"lambdalabs", "paperspace"})  # of the known sellers; the others boot images


@dataclass(frozen=True, slots=True)
class Buying:
    """What is looked at."""

    wish: Wish  # the class's own
    standings: Sequence[Standing]
    ranking: Ranking  # of the book by that wish
    book: PriceBook
    now: datetime


def judge_buying(buying: Buying) -> Verdict:
    """CanBuy: False where nothing on sale could ever serve the class, with the reasons counted and what would help."""
    ranking = buying.ranking
    if len(ranking):
        return Verdict("CanBuy", True, "OffersFit", "offers of its providers fit the class")
    never, unknown, hopeful = {}, [], []
    for standing in buying.standings:
        if why := _never(buying, standing):
            never[standing.name] = why
        elif not _answered(standing):
            unknown.append(standing.name)
        else:
            hopeful.append(standing.name)
    if hopeful:
        return Verdict("CanBuy", True, "NothingNow", f"nothing of {', '.join(hopeful)} can be bought at the moment")
    if unknown:
        return Verdict("CanBuy", None, "NotKnown", f"the offers of {', '.join(unknown)} are not known")
    said = "; ".join(f"{name}: {why}" for name, why in never.items()) or "the class has no enabled provider"
    help_with = next(_changes(buying), "")
    would_help = f". What would help: {help_with}" if help_with else ""
    return Verdict("CanBuy", False, "CannotBuy", f"no offer can ever serve this class: {said}{would_help}")


def cannot_buy(verdict: Verdict) -> Verdict | None:
    """What a class's Ready says then; None: it can buy, or nobody knows."""
    return Verdict("Ready", False, CANNOT_BUY, verdict.message) if verdict.status is False else None


def steady(verdict: Verdict, held: Verdict | None) -> Verdict:
    """The same as it stands where only its numbers have moved: the market moves all day, and a status must not."""
    if held is None or (held.status, held.reason) != (verdict.status, verdict.reason):
        return verdict
    return held if NUMBER.sub("", held.message) == NUMBER.sub("", verdict.message) else verdict


def _answered(standing: Standing) -> bool:
    return standing.heard and standing.listing is not None and not standing.listing.why


# -- why never ---------------------------------------------------------------------------------------------------------


def _never(buying: Buying, standing: Standing) -> str:
    """Why no offer of this provider will ever fit; empty: one may, or nobody knows."""
    wish, seller = buying.wish, standing.seller
    boots = seller.boot if seller is not None else ()
    if set(boots) == {BootMode.CONTAINER}:
        return f"{_count(buying, standing)}cannot boot Talos: {CONTAINER_ONLY}"
    if boots and not set(boots) & set(wish.boots):
        return f"{_count(buying, standing)}cannot boot Talos as bootPolicy wants: they start by {', '.join(boots)}"
    if not _answered(standing):
        return ""
    passed = buying.ranking.passed_of(standing.source.name)
    if not passed or set(passed) & PASSING or _may_come(buying, standing, passed):
        return ""
    nearest = [reason for reason in reversed(PassedOver) if reason in passed]
    return ", ".join(f"{passed[reason]} {reason}" for reason in nearest[:REASONS_SAID])


def _may_come(buying: Buying, standing: Standing, passed: Mapping[PassedOver, int]) -> bool:
    """Does the provider have what is missing from its listing now, as far as anybody knows?"""
    wish, provider = buying.wish, standing.source.provider
    wanted = _models(wish)
    listed = {offer.gpu for offer in buying.book.of(standing.source.name)}
    if PassedOver.WRONG_GPU in passed and wanted & sold().get(provider, {}).keys() - listed:
        return True
    if PassedOver.WRONG_REGION in passed and _has_place(wish, provider, standing.source.name):
        return True
    if PassedOver.OVER_LIMIT in passed:
        cheapest = next(miss for miss in buying.ranking.nearest() if miss.reason is PassedOver.OVER_LIMIT)
        return cheapest.row.offer.hourly_microusd <= (wish.headroom_microusd or 0) * FAR_TOO_DEAR
    return False


def _has_place(wish: Wish, provider: str, source: str) -> bool:
    door = (wish.doors or {}).get(source)
    rules = [names for names in (wish.class_regions, door.regions if door is not None else ()) if names]
    places = ((place, *where) for (seller, place), where in atlas().places.items() if seller == provider)
    return any(
        all(any(region_fits(name, region, place, country) for name in names) for names in rules)
        for place, region, country in places
    )


def _count(buying: Buying, standing: Standing) -> str:
    count = sum(buying.ranking.passed_of(standing.source.name).values())
    return f"{count} offers " if count else "its offers "


def _models(wish: Wish) -> set[str]:
    return {model for name in wish.models for model in (members(name) or (name,))}


# -- what would help ---------------------------------------------------------------------------------------------------


def _changes(buying: Buying) -> Iterator[str]:
    """One change each that would let the class buy, the nearest first."""
    for words, change in _relaxations(buying.wish):
        best = rank(buying.book, replace(buying.wish, **change), buying.now).best
        if best is not None:
            yield f"{words}: {machine(best.offer)}"
    yield from _other_sellers(buying)
    yield from _other_gpus(buying)


def _relaxations(wish: Wish) -> Iterable[tuple[str, dict[str, Any]]]:
    anywhere = {name: replace(door, regions=()) for name, door in (wish.doors or {}).items()}
    small = {"min_vcpus": 0, "min_memory_gib": 0, "min_gpu_memory_gib": 0}
    return (
        ("raise limits.maxHourlyCost", {"headroom_microusd": None}),
        ("lower the minima of instanceRequirements", small),
        ("lower instanceRequirements.minTrust", {"min_trust": Trust.ANY}),
        ("set bootPolicy: Takeover", {"boots": TALOS_BOOTS}),
        ("allow more regions", {"class_regions": (), "doors": anywhere}),
        ("set instanceRequirements.spotAllowed", {"kinds": Kinds.EITHER}),
    )


def _other_sellers(buying: Buying) -> Iterator[str]:
    """Providers that the class does not have: as another class sees them now, else as they are known."""
    wish = buying.wish
    mine = {standing.source.provider for standing in buying.standings}
    elsewhere = replace(wish, doors=None)
    best = next((row.offer for row in rank(buying.book, elsewhere, buying.now) if row.offer.provider not in mine), None)
    if best is not None:
        yield f"add provider {best.provider}: {_from(Sold(best.gpu, best.gpu_count, best.hourly_microusd))}"
        return
    found = [
        (each.hourly_microusd, provider, each)
        for provider, models in sold().items()
        if provider not in mine and _boots(provider, wish)
        for each in models.values()
        if _serves(each, wish, provider)
    ]
    if found:
        _, provider, each = min(found, key=lambda row: row[:2])
        yield f"add provider {provider}: {_from(each)}"


def _other_gpus(buying: Buying) -> Iterator[str]:
    """What its own providers sell that could be a node."""
    best = rank(buying.book, replace(buying.wish, models=()), buying.now).best
    if best is not None:
        yield f"ask for another GPU: {machine(best.offer)}"


def _boots(provider: str, wish: Wish) -> bool:
    return (BootMode.TAKEOVER if provider in TAKES_OVER else BootMode.NATIVE) in wish.boots


def _serves(each: Sold, wish: Wish, provider: str) -> bool:
    wanted = _models(wish)
    if wanted and each.gpu not in wanted:
        return False
    if wish.headroom_microusd is not None and each.hourly_microusd > wish.headroom_microusd:
        return False
    return not wish.class_regions or _has_place(wish, provider, "")


def _from(each: Sold) -> str:
    several = f"{each.gpu_count}x " if each.gpu_count > 1 else ""
    return f"{several}{each.gpu} from {about(each.hourly_microusd)}/h"
