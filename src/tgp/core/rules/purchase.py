"""What would be bought for a request now: one offer, or the reason for which it has to wait."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec import structs

from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, ChosenOffer, GPURequestSpec
from tgp.api.values import NEVER, microusd, span, usd
from tgp.core.model.book import PriceBook, Row
from tgp.core.model.gpus import members, resource_name
from tgp.core.model.instance import Instance
from tgp.core.model.marks import Marks
from tgp.core.model.offer import BootMode, Offer, Trust
from tgp.core.model.wish import Kinds, PassedOver, Wish
from tgp.core.rules import benching
from tgp.core.rules.bids import DEFAULT_MARGIN, bid
from tgp.core.rules.costs import read_amount
from tgp.core.rules.limits import Holding
from tgp.core.rules.ranking import Ranking, rank
from tgp.core.rules.ranking_words import about, machine
from tgp.core.rules.wishes import class_wish

ALLOW_UNTRUSTED = "tgp.io/allow-untrusted"  # a label of namespaces whose pods may run on hosts that anybody may own
CANDIDATES = 40  # looked at one by one; all of them unsuitable means a pattern, not bad luck
USUAL_LIFE = timedelta(hours=24)
LITTLE_DEARER = 1.25  # times the reserved price: more than that is another machine's price
NO_CEILING = 1 << 62
FAILED = frozenset({"Refused", "SoldOut", "Absent", "Failed", "Busy"})  # outcomes that are held against an offer
_BOOT_MODES = frozenset(mode.value for mode in BootMode)


@dataclass(frozen=True, slots=True)
class Buy:
    """This offer, at this price: what will be reserved and ordered."""

    offer: Offer
    source: str
    hourly_microusd: int  # of a spot machine on a marketplace the bid
    bid_microusd: int | None = None
    most_microusd: int | None = None  # what the order allows: limits count it until the bill is known; None: the price


@dataclass(frozen=True, slots=True)
class Stay:
    """Nothing is bought now. The reason is a condition's."""

    reason: str
    message: str
    look_again: timedelta | None = None  # None: when something changes


Choice: TypeAlias = Buy | Stay


@dataclass(frozen=True, slots=True)
class Shop:
    """What a choice may look at."""

    spec: GPURequestSpec
    name: str  # of the class
    node_class: GPUNodeClass
    book: PriceBook
    marks: Marks
    headroom_microusd: int | None  # what is left of the class's maxHourlyCost
    closed: Callable[[Row], str]  # why nothing may be bought there now; empty: it may
    unfit: Callable[[Offer], str]  # why a machine of this offer would be no use as a node; empty: it would be
    shortage: Callable[[Holding], str]  # why it does not fit the class's limits; empty: it does
    uid: str
    now: datetime
    untrusted_allowed: bool = True  # may its namespace use hosts that anybody may own?
    unlisted: tuple[str, ...] = ()  # providers of the class that have not told their offers yet
    distrusted: Callable[[Row], str] = lambda _row: ""  # why what is said there is not believed; empty: it is


def choose(shop: Shop) -> Choice:
    """The best offer that passes everything; else the reason nearest to a purchase."""
    spec, node_class = shop.spec, shop.node_class
    if spec.spot and not node_class.spec.instance_requirements.spot_allowed:
        return Stay("SpotNotAllowed", f"spec.spot: class {shop.name} does not allow spot machines")
    if spec.gpu_type is not None and not _models(spec, node_class):
        return Stay("NotInClass", f"spec.gpuType: class {shop.name} does not rent {spec.gpu_type}")
    ranking = rank(shop.book, request_wish(shop), shop.now)
    refused = ""
    for row in ranking.first(CANDIDATES):
        choice = _consider(shop, row)
        if isinstance(choice, Buy):
            return choice
        refused = refused or choice
    if refused:
        reason, _, message = refused.partition(": ")
        return Stay(reason, message)
    if shop.unlisted:
        return Stay("OffersNotSeen", f"{', '.join(shop.unlisted)}: offers are not listed yet; nothing else fits")
    return _nothing_fits(ranking, shop)


def request_wish(shop: Shop) -> Wish:
    """The class's wish, narrowed by the request."""
    spec = shop.spec
    wish = class_wish(shop.node_class, shop.marks)
    pinned = spec.offer
    regions = tuple(dict.fromkeys(each for each in (spec.region, *spec.regions) if each))
    if pinned is not None and pinned.region:
        regions = (pinned.region,)
    provider = canonical_provider(pinned.provider if pinned is not None else spec.provider or "")
    return replace(
        wish,
        models=_models(spec, shop.node_class) if spec.gpu_type is not None else wish.models,
        gpu_count=spec.gpu_count if pinned is None else None,
        regions=regions,
        kinds=Kinds.SPOT if spec.spot else Kinds.ON_DEMAND,
        provider=provider,
        instance_type=pinned.instance_type if pinned is not None else "",
        min_trust=wish.min_trust if shop.untrusted_allowed else Trust.DATACENTER,
        max_hourly_microusd=price_cap(spec),
        headroom_microusd=shop.headroom_microusd,
        lasting=life_of(spec) or USUAL_LIFE,
    )


def untrusted(offer: Offer) -> bool:
    """Whether somebody else than the provider owns the host: it gets a taint, and no secret that others share."""
    return offer.trust < Trust.DATACENTER


def price_cap(spec: GPURequestSpec) -> int | None:
    return microusd(spec.max_hourly_price, "spec.maxHourlyPrice") if spec.max_hourly_price else None


def most_to_pay(spec: GPURequestSpec, reserved_microusd: int | None) -> int:
    """Beyond it a machine is not the one that was agreed on: it is given back, so it is not ordered, either."""
    agreed = int(reserved_microusd * LITTLE_DEARER) if reserved_microusd is not None else NO_CEILING
    cap = price_cap(spec)
    return agreed if cap is None else min(cap, agreed)


def life_of(spec: GPURequestSpec) -> timedelta | None:
    """How long a machine may live; None: for ever."""
    written = spec.max_lifetime or spec.ttl
    if written is None:
        return USUAL_LIFE
    length = span(written, "spec.maxLifetime")
    return None if length is NEVER else length


def own_marks(marks: Marks, attempts: tuple[Attempt, ...]) -> Marks:
    """What this request's own failures hold against offers: a new leader remembers no others."""
    for attempt in attempts:
        if attempt.outcome in FAILED and attempt.offer is not None and attempt.ended_at is not None:
            offer = offer_of(attempt.offer)
            if offer.key not in marks.offers:
                marks = benching.failed(marks, offer, attempt.message or "", attempt.ended_at)
    return marks


def chosen(buy: Buy) -> ChosenOffer:
    """For the record."""
    return recorded(buy.offer, buy.hourly_microusd)


def recorded(offer: Offer, hourly_microusd: int) -> ChosenOffer:
    """An offer as an attempt keeps it, at the price that limits count."""
    return ChosenOffer(
        provider=offer.provider,
        instance_type=offer.instance_type,
        sku=offer.sku if offer.sku != offer.instance_type else None,
        region=offer.region,
        place=offer.place or None,
        host=offer.host or None,
        gpu_type=offer.gpu,
        gpu_count=offer.gpu_count,
        gpu_memory_gib=offer.gpu_memory_gib,
        vcpus=offer.vcpus or None,
        memory_gib=offer.memory_gib or None,
        boot_mode=offer.boot.value,
        untrusted=untrusted(offer),
        spot=offer.spot,
        hourly_price=usd(hourly_microusd),
    )


def sized(written: ChosenOffer, instance: Instance) -> ChosenOffer:
    """With the machine's own vCPUs and memory where the offer did not tell them: from then on they count in limits."""
    vcpus, memory_gib = written.vcpus or instance.vcpus or None, written.memory_gib or instance.memory_gib or None
    return structs.replace(written, vcpus=vcpus, memory_gib=memory_gib)


def offer_of(written: ChosenOffer) -> Offer:
    """An offer again, from its record: what was ordered, not what is on sale now.

    What cannot be read there (a newer version's word, or a person's) must not keep anybody from ending the machine.
    """
    return Offer(
        provider=written.provider,
        sku=written.sku or written.instance_type,
        place=written.place or "",
        region=written.region or "unknown",
        host=written.host or "",
        type_name=written.instance_type if written.sku else "",
        gpu=written.gpu_type or "",
        gpu_count=written.gpu_count or 1,
        gpu_memory_gib=written.gpu_memory_gib or 0,
        vcpus=written.vcpus or 0,
        memory_gib=written.memory_gib or 0,
        disk_gib=0,
        spot=written.spot,
        hourly_microusd=read_amount(written.hourly_price) or 0,
        boot=BootMode(written.boot_mode) if written.boot_mode in _BOOT_MODES else BootMode.NATIVE,
        trust=Trust.ANY if written.untrusted else Trust.DATACENTER,
    )


def holding(uid: str, buy: Buy) -> Holding:
    offer = buy.offer
    most = buy.hourly_microusd if buy.most_microusd is None else buy.most_microusd
    return Holding(uid, most, offer.gpu_count, resource_name(offer.gpu), offer.vcpus, offer.memory_gib)


def _consider(shop: Shop, row: Row) -> "Buy | str":
    """A purchase, or `Reason: words`."""
    offer = row.offer
    if why := shop.closed(row):
        return f"ProviderClosed: {offer.provider}: {why}"
    if why := shop.distrusted(row):
        return f"ProviderInconsistent: {why}"
    price, bidding = offer.hourly_microusd, None
    if offer.spot and offer.host:
        margin = _margin(shop.node_class, offer.provider)
        bidding = bid(offer, margin, _least(price_cap(shop.spec), shop.headroom_microusd))
        if bidding is None:
            return f"NoOfferFits: {machine(offer)}: no bid within the limits would win"
        price = bidding
    buy = Buy(offer, row.source, price, bidding, _most(shop.spec, offer, price))
    if why := shop.shortage(holding(shop.uid, buy)):
        return f"LimitReached: class {shop.name}: {why}{_if_capped(shop, buy)}"
    if why := shop.unfit(offer):
        return f"DevicePluginMissing: {why}"
    return buy


def _most(spec: GPURequestSpec, offer: Offer, price: int) -> int:
    """A price may rise between listing and order. A bid is paid at most, and electricity costs what it costs."""
    fixed = (offer.spot and offer.host) or offer.boot is BootMode.POWER
    return price if fixed else most_to_pay(spec, price)


def _if_capped(shop: Shop, buy: Buy) -> str:
    """What would help where only the room for a price that rises is missing; empty: nothing the owner can write."""
    at_most = replace(buy, most_microusd=buy.hourly_microusd)
    if buy.most_microusd == buy.hourly_microusd or shop.shortage(holding(shop.uid, at_most)):
        return ""
    return (
        f" (listed at {about(buy.hourly_microusd)}/h; an order may be billed up to {about(buy.most_microusd or 0)}/h, "
        f"unless spec.maxHourlyPrice is lower)"
    )


def _nothing_fits(ranking: Ranking, shop: Shop) -> Stay:
    reason = "NoOfferFits"
    if ranking.passed and set(ranking.passed) & {PassedOver.OVER_LIMIT} and not len(ranking):
        nearest = ranking.nearest(1)
        if nearest and nearest[0].reason is PassedOver.OVER_LIMIT:
            reason = "LimitReached"
    words = list(ranking.explain())
    if PassedOver.LOW_TRUST in ranking.passed and not shop.untrusted_allowed:
        words.append(f"for hosts of marketplaces label its namespace {ALLOW_UNTRUSTED}=true")
    return Stay(reason, "; ".join(words))


def _models(spec: GPURequestSpec, node_class: GPUNodeClass) -> tuple[str, ...]:
    """What both ask for; a name that no table knows stands for itself and fits nothing."""
    asked = spec.gpu_type or ""
    allowed = node_class.spec.instance_requirements.gpu_types
    models = members(asked) or (asked,)
    if not allowed:
        return models
    within = {model for name in allowed for model in (members(name) or (name,))}
    return tuple(model for model in models if model in within)


def _margin(node_class: GPUNodeClass, provider: str) -> float:
    for entry in node_class.spec.providers:
        if canonical_provider(entry.name) == provider and entry.settings is not None and entry.settings.bid_margin:
            return entry.settings.bid_margin
    return DEFAULT_MARGIN


def _least(*ceilings: int | None) -> int | None:
    return min((each for each in ceilings if each is not None), default=None)
