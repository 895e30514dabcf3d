"""What a ranking says to people: prices, ages and the distance by which an offer missed."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import assert_never

from tgp.core.model.book import Row, SourceState
from tgp.core.model.offer import CONTAINER_ONLY, UNKNOWN_REGION, Offer
from tgp.core.model.prices import MICRO
from tgp.core.model.wish import PassedOver, Wish

REASONS_SHOWN = 5  # the rest is "others"


def dollars(microusd: int) -> str:
    """To the cent, and further where the cents hide something: $1.29, $0.004."""
    text = f"{microusd / MICRO:.6f}".rstrip("0")
    whole, _, cents = text.partition(".")
    return f"${whole}.{cents:0<2}"


def about(microusd: int) -> str:
    """For a sentence, where further digits would only be in the way: $0.419, $1.29, $23.51; small change in full."""
    if microusd < MICRO // 100:
        return dollars(microusd)
    text = f"{microusd / MICRO:.{3 if microusd < MICRO else 2}f}"
    return f"${text[:-1] if microusd < MICRO and text.endswith('0') else text}"


def distance(microusd: int) -> str:
    """How far above: 9 cents, 42.7 cents, $1.20; below a cent in full, because nothing is left of it otherwise."""
    cent = MICRO // 100
    cents = f"{microusd / cent:.{4 if microusd < cent else 1}f}".rstrip("0").rstrip(".")
    if microusd >= MICRO or cents == "100":
        return about(microusd)
    return f"{cents} cent" if cents == "1" else f"{cents} cents"


def ago(length: timedelta) -> str:
    minutes = int(length.total_seconds()) // 60
    if minutes < 1:
        return "just now"
    return f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"


def machine(offer: Offer) -> str:
    """1x A100-80GB-SXM at $1.29/h from lambdalabs in us-west-1."""
    what = f"{offer.gpu_count}x {offer.gpu}" + (" spot" if offer.spot else "")
    return f"{what} at {about(offer.hourly_microusd)}/h from {offer.provider}{_place(offer)}"


def _place(offer: Offer) -> str:
    name = offer.place.strip(" ,") or (offer.region if offer.region != UNKNOWN_REGION else "")
    return f" in {name}" if name else ""


def summary(best: Row | None, fitting: int, looked_at: int, passed: Mapping[PassedOver, int]) -> str:
    """One line: how many fit, the best of them, and how many fail by what.

    The nearest misses come first, however few they are: somebody can do something about a price, and nobody about the
    hundreds that were never meant.
    """
    if not looked_at:
        return "no offers are known"
    if best is not None:
        return f"{fitting} of {looked_at} offers fit; the best is {machine(best.offer)}"
    nearest = [(reason, passed[reason]) for reason in reversed(PassedOver) if reason in passed]
    shown = [f"{count} {reason}" for reason, count in nearest[:REASONS_SHOWN]]
    if rest := sum(count for _, count in nearest[REASONS_SHOWN:]):
        shown.append(f"{rest} others")
    return f"none of {looked_at} offers fits: {', '.join(shown)}"


def unknown_words(state: SourceState, now: datetime) -> str:
    """A source that errs is not an empty one."""
    when = ago(now - state.failed_at) if state.failed_at is not None else "lately"
    age = state.age(now)
    served = "nothing of it is known" if age is None else f"its offers are from {ago(age)}"
    return f"{state.source} could not be read {when} ({state.why}); {served}"


def miss_words(reason: PassedOver, row: Row, wish: Wish, now: datetime) -> str:
    """Which offer, and by how much it missed."""
    return f"{machine(row.offer)}: {_why(reason, row, wish, now)}"


def _why(reason: PassedOver, row: Row, wish: Wish, now: datetime) -> str:
    offer = row.offer
    match reason:
        case PassedOver.TOO_DEAR:
            return f"{distance(offer.hourly_microusd - (wish.max_hourly_microusd or 0))} above maxHourlyPrice"
        case PassedOver.OVER_LIMIT:
            left = max(wish.headroom_microusd or 0, 0)
            return f"only {about(left)}/h is left of the class's maxHourlyCost"
        case PassedOver.BENCHED:
            mark = wish.marks.against(offer, row.source, now)
            return f"benched, failed {ago(now - mark.failed_at)} ({mark.why})" if mark is not None else str(reason)
        case PassedOver.STALE:
            return f"last seen {ago(now - row.seen_at)}"
        case PassedOver.ENDS_TOO_SOON:
            return f"its owner takes it back at {offer.until:%Y-%m-%d %H:%M} UTC" if offer.until else str(reason)
        case PassedOver.LOW_TRUST:
            return f"its trust is {offer.trust.name.title()}, and minTrust is {wish.min_trust.name.title()}"
        case PassedOver.CANNOT_BOOT:
            return f"cannot boot Talos: it starts as {offer.boot}"
        case PassedOver.FOR_PODS:
            return f"{CONTAINER_ONLY}; bootPolicy Any keeps such offers for pods, once a bridge can run them there"
        case PassedOver.NO_DRIVER:
            return offer.no_driver
        case PassedOver.WRONG_REGION:
            wanted = ", ".join((*wish.regions, *wish.class_regions)) or "the provider's regions of the class"
            return f"it stands in {offer.region}, wanted: {wanted}"
        case PassedOver.LITTLE_MEMORY:
            return _least("GiB of memory", offer.memory_gib, wish.min_memory_gib)
        case PassedOver.FEW_VCPUS:
            return _least("virtual CPUs", offer.vcpus, wish.min_vcpus)
        case PassedOver.LITTLE_GPU_MEMORY:
            return _least("GiB on each GPU", offer.gpu_memory_gib, wish.min_gpu_memory_gib)
        case PassedOver.WRONG_COUNT:
            return f"{wish.gpu_count} GPUs are wanted"
        case PassedOver.WRONG_ARCH:
            return f"its CPUs are {offer.arch}, wanted: {wish.arch}"
        case PassedOver.WRONG_GPU:
            return f"another GPU, wanted: {', '.join(wish.models)}"
        case (
            PassedOver.NOT_IN_CLASS
            | PassedOver.DISABLED
            | PassedOver.ANOTHER_OFFER
            | PassedOver.SPOT_NOT_ALLOWED
            | PassedOver.NOT_SPOT
            | PassedOver.SOLD_OUT
        ):
            return str(reason)
        case _:
            assert_never(reason)


def _least(what: str, told: int, least: int) -> str:
    return f"{told} {what}, at least {least} are wanted" if told else f"its {what} are not told, {least} are wanted"
