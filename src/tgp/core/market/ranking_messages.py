"""How a ranking is shown to users: prices, ages and by how much an offer missed."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import assert_never

from tgp.core.model.money import about, distance
from tgp.core.model.offer import CONTAINER_ONLY, UNKNOWN_REGION, Offer
from tgp.core.model.offer_query import OfferQuery, RejectReason
from tgp.core.model.price_book import OfferRow, SourceState
from tgp.core.model.regions import known_region, nearest_regions, region_fits

REASONS_SHOWN = 5  # the rest is "others"


def machine(offer: Offer) -> str:
    """1x A100-80GB-SXM at $1.29/h from acme in us-west-1."""
    what = f"{offer.gpu_count}x {offer.gpu}" + (" spot" if offer.spot else "")
    return f"{what} at {about(offer.hourly_microusd)}/h from {offer.provider}{_place(offer)}"


def _place(offer: Offer) -> str:
    name = offer.place.strip(" ,") or (offer.region if offer.region != UNKNOWN_REGION else "")
    return f" in {name}" if name else ""


def summary(best: OfferRow | None, fitting: int, looked_at: int, passed: Mapping[RejectReason, int]) -> str:
    """One line: how many fit, the best of them, and how many fail by what.

    The nearest misses come first, however few they are: a user can raise a price limit, but can do nothing about the
    hundreds of offers that were never meant.
    """
    if not looked_at:
        return "no offers are known"
    if best is not None:
        return f"{fitting} of {looked_at} offers fit; the best is {machine(best.offer)}"
    nearest = [(reason, passed[reason]) for reason in reversed(RejectReason) if reason in passed]
    shown = [f"{count} {reason}" for reason, count in nearest[:REASONS_SHOWN]]
    if rest := sum(count for _, count in nearest[REASONS_SHOWN:]):
        shown.append(f"{rest} others")
    return f"none of {looked_at} offers fits: {', '.join(shown)}"


def unknown_words(state: SourceState, now: datetime) -> str:
    """A source that returns errors is not an empty one."""
    when = _ago(now - state.failed_at) if state.failed_at is not None else "lately"
    age = state.age(now)
    served = "its offers are unknown" if age is None else f"its last offers were read {_ago(age)}"
    return f"{state.source} could not be read {when} ({state.why}); {served}"


def region_hints(names: Iterable[str], sold: Collection[tuple[str, str, str]]) -> list[str]:
    """For each name that is no region, no country and no location: which may be meant.

    `sold`: region, location and country of every offer.
    """
    hints = []
    for name in dict.fromkeys(names):
        if known_region(name) or any(region_fits(name, *each) for each in sold):
            continue
        near = nearest_regions(name, {place for _, place, _ in sold})
        meant = f"; did you mean {', '.join(near)}?" if near else ""
        hints.append(f"region {name} is unknown and has no offers{meant}")
    return hints


def miss_words(reason: RejectReason, row: OfferRow, query: OfferQuery, now: datetime) -> str:
    """Which offer, and by how much it missed."""
    return f"{machine(row.offer)}: {_why(reason, row, query, now)}"


def _why(reason: RejectReason, row: OfferRow, query: OfferQuery, now: datetime) -> str:
    offer = row.offer
    match reason:
        case RejectReason.PRICE_EXCEEDED:
            return f"{distance(offer.hourly_microusd - (query.max_hourly_microusd or 0))} above maxHourlyPrice"
        case RejectReason.OVER_LIMIT:
            left = max(query.headroom_microusd or 0, 0)
            return f"only {about(left)}/h is left of the class's maxHourlyCost"
        case RejectReason.COOLING_DOWN:
            cooldown = query.cooldowns.against(offer, row.source, now)
            return (
                f"cooling down, failed {_ago(now - cooldown.failed_at)} ({cooldown.why})"
                if cooldown is not None
                else str(reason)
            )
        case RejectReason.STALE:
            return f"last seen {_ago(now - row.seen_at)}"
        case RejectReason.ENDS_TOO_SOON:
            return f"available only until {offer.until:%Y-%m-%d %H:%M} UTC" if offer.until else str(reason)
        case RejectReason.LOW_TRUST:
            return f"trust is {offer.trust.name.title()}, minTrust is {query.min_trust.name.title()}"
        case RejectReason.CANNOT_BOOT:
            return f"cannot boot Talos: the machine starts as {offer.boot}"
        case RejectReason.FOR_PODS:
            return f"{CONTAINER_ONLY}; bootPolicy Any keeps such offers for pods, once a bridge can run them there"
        case RejectReason.NO_DRIVER:
            return offer.no_driver
        case RejectReason.WRONG_REGION:
            wanted = ", ".join((*query.regions, *query.class_regions)) or "the provider's regions of the class"
            return f"region is {offer.region}, wanted: {wanted}"
        case RejectReason.LITTLE_MEMORY:
            return _least("GiB of memory", offer.memory_gib, query.min_memory_gib)
        case RejectReason.FEW_VCPUS:
            return _least("virtual CPUs", offer.vcpus, query.min_vcpus)
        case RejectReason.LITTLE_GPU_MEMORY:
            return _least("GiB on each GPU", offer.gpu_memory_gib, query.min_gpu_memory_gib)
        case RejectReason.OTHER_PROVIDER:
            return f"provider is {offer.provider}, wanted: {query.provider}"
        case RejectReason.WRONG_COUNT:
            return f"{query.gpu_count} {'GPU' if query.gpu_count == 1 else 'GPUs'} wanted"
        case RejectReason.WRONG_ARCH:
            return f"CPU architecture is {offer.arch}, wanted: {query.arch}"
        case RejectReason.WRONG_GPU:
            return f"different GPU model, wanted: {', '.join(query.models)}"
        case (
            RejectReason.NOT_IN_CLASS
            | RejectReason.DISABLED
            | RejectReason.ANOTHER_OFFER
            | RejectReason.SPOT_NOT_ALLOWED
            | RejectReason.NOT_SPOT
            | RejectReason.SOLD_OUT
        ):
            return str(reason)
        case _:
            assert_never(reason)


def _least(what: str, known: int, least: int) -> str:
    return f"{known} {what}, at least {least} wanted" if known else f"{what}: unknown, at least {least} wanted"


def _ago(length: timedelta) -> str:
    minutes = int(length.total_seconds()) // 60
    if minutes < 1:
        return "just now"
    return f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"
