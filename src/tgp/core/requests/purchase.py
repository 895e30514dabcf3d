"""What would be bought for a request now: one offer, or the reason to wait."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec import structs

from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, ChosenOffer, GPURequestSpec
from tgp.api.values import NEVER, microusd, span, usd
from tgp.core.inventory.limits import Reservation
from tgp.core.market.query import query_for_class
from tgp.core.market.ranking import Ranking, rank
from tgp.core.market.ranking_messages import machine
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.costs import read_amount
from tgp.core.model.gpus import family_members, resource_name
from tgp.core.model.instance import Instance
from tgp.core.model.money import about
from tgp.core.model.offer import BootMode, Offer, Trust
from tgp.core.model.offer_query import Kinds, OfferQuery, RejectReason
from tgp.core.model.price_book import OfferRow, PriceBook
from tgp.core.requests import cooldown
from tgp.core.requests.bids import DEFAULT_MARGIN, bid

ALLOW_UNTRUSTED = "tgp.io/allow-untrusted"  # a label of namespaces whose pods may run on marketplace hosts
CANDIDATES = 40  # checked one by one; if all are unsuitable, more would be, too
USUAL_LIFE = timedelta(hours=24)
RUN_MARGIN_SHARE, RUN_MARGIN = 10, timedelta(hours=1)  # a tenth of the lifetime, at least an hour: see `longest_run`
PRICE_TOLERANCE = 1.25  # times the reserved price: above that the machine is terminated
NO_CEILING = 1 << 62
FAILED = frozenset({"Refused", "SoldOut", "NotCreated", "Failed", "Busy"})  # outcomes that put an offer into cooldown
_BOOT_MODES = frozenset(mode.value for mode in BootMode)


@dataclass(frozen=True, slots=True)
class Purchase:
    """This offer, at this price: what will be reserved and ordered."""

    offer: Offer
    source: str
    hourly_microusd: int  # of a spot machine on a marketplace the bid
    bid_microusd: int | None = None
    most_microusd: int | None = (
        None  # the most that the order allows: counted against limits until billed; None: the price
    )


@dataclass(frozen=True, slots=True)
class NoPurchase:
    """Nothing is bought now. The reason is a condition's."""

    reason: str
    message: str
    look_again: timedelta | None = None  # None: when something changes


PurchaseDecision: TypeAlias = Purchase | NoPurchase


@dataclass(frozen=True, slots=True)
class PurchaseInput:
    """What the decision may use."""

    spec: GPURequestSpec
    name: str  # of the class
    node_class: GPUNodeClass
    book: PriceBook
    cooldowns: Cooldowns
    headroom_microusd: int | None  # what is left of the class's maxHourlyCost
    closed: Callable[[OfferRow], str]  # why nothing may be bought there now; empty: it may
    unfit: Callable[[Offer], str]  # why a machine of this offer would be unusable as a node; empty: usable
    shortage: Callable[[Reservation], str]  # why it does not fit the class's limits; empty: it does
    uid: str
    now: datetime
    untrusted_allowed: bool = True  # may its namespace use marketplace hosts?
    unlisted: tuple[str, ...] = ()  # providers of the class whose offers are not listed yet
    distrusted: Callable[[OfferRow], str] = lambda _row: ""  # why this source's lists are not believed; empty: they are


def decide_purchase(inputs: PurchaseInput) -> PurchaseDecision:
    """The best offer that passes everything; else the reason nearest to a purchase."""
    spec, node_class = inputs.spec, inputs.node_class
    if spec.spot and not node_class.spec.instance_requirements.spot_allowed:
        return NoPurchase("SpotNotAllowed", f"spec.spot: class {inputs.name} does not allow spot machines")
    if spec.gpu_type is not None and not _models(spec, node_class):
        return NoPurchase("NotInClass", f"spec.gpuType: class {inputs.name} does not allow {spec.gpu_type}")
    ranking = rank(inputs.book, query_for_request(inputs), inputs.now)
    refused = ""
    for row in ranking.first(CANDIDATES):
        choice = _consider(inputs, row)
        if isinstance(choice, Purchase):
            return choice
        refused = refused or choice
    if refused:
        reason, _, message = refused.partition(": ")
        return NoPurchase(reason, message)
    if inputs.unlisted:
        return NoPurchase(
            "OffersNotSeen", f"Offers of {', '.join(inputs.unlisted)} are not listed yet; no other offer fits."
        )
    return _nothing_fits(ranking, inputs)


def query_for_request(inputs: PurchaseInput) -> OfferQuery:
    """The class's query, narrowed by the request."""
    spec = inputs.spec
    query = query_for_class(inputs.node_class, inputs.cooldowns)
    pinned = spec.offer
    regions = tuple(dict.fromkeys(each for each in (spec.region, *spec.regions) if each))
    if pinned is not None and pinned.region:
        regions = (pinned.region,)
    provider = canonical_provider(pinned.provider if pinned is not None else spec.provider or "")
    return replace(
        query,
        models=_models(spec, inputs.node_class) if spec.gpu_type is not None else query.models,
        gpu_count=spec.gpu_count if pinned is None else None,
        regions=regions,
        kinds=Kinds.SPOT if spec.spot else Kinds.ON_DEMAND,
        provider=provider,
        instance_type=pinned.instance_type if pinned is not None else "",
        min_trust=query.min_trust if inputs.untrusted_allowed else Trust.DATACENTER,
        max_hourly_microusd=price_cap(spec),
        headroom_microusd=inputs.headroom_microusd,
        lasting=life_of(spec) or USUAL_LIFE,
    )


def untrusted(offer: Offer) -> bool:
    """Whether a third party owns the host: its Node gets a taint, and no shared secret."""
    return offer.trust < Trust.DATACENTER


def price_cap(spec: GPURequestSpec) -> int | None:
    return microusd(spec.max_hourly_price, "spec.maxHourlyPrice") if spec.max_hourly_price else None


def most_to_pay(spec: GPURequestSpec, reserved_microusd: int | None) -> int:
    """Above this price a machine is not ordered, and is terminated if it was."""
    agreed = int(reserved_microusd * PRICE_TOLERANCE) if reserved_microusd is not None else NO_CEILING
    cap = price_cap(spec)
    return agreed if cap is None else min(cap, agreed)


def life_of(spec: GPURequestSpec) -> timedelta | None:
    """How long a machine may live; None: without limit."""
    written = spec.max_lifetime or spec.ttl
    if written is None:
        return USUAL_LIFE
    length = span(written, "spec.maxLifetime")
    return None if length is NEVER else length


def longest_run(spec: GPURequestSpec, provider_limit: timedelta | None) -> timedelta | None:
    """After how long the provider itself terminates the machine, should no operator do it; None: never.

    Long after the operator would have: the lifetime, the drain and a margin, in which a lifetime can still be extended.
    `provider_limit`: the longest that the provider accepts; None: it terminates no machine by itself.
    """
    life, grace = life_of(spec), span(spec.termination_grace_period, "spec.terminationGracePeriod")
    if provider_limit is None or life is None or grace is NEVER:
        return None
    margin = max(life // RUN_MARGIN_SHARE, RUN_MARGIN)
    run = timedelta(seconds=int((life + margin + grace).total_seconds()))
    return run if run <= provider_limit else None


def own_cooldowns(cooldowns: Cooldowns, attempts: tuple[Attempt, ...]) -> Cooldowns:
    """The cooldowns that this request's own failures cause: a new leader knows no others."""
    for attempt in attempts:
        if attempt.outcome in FAILED and attempt.offer is not None and attempt.ended_at is not None:
            offer = offer_of(attempt.offer)
            if offer.key not in cooldowns.offers:
                cooldowns = cooldown.failed(cooldowns, offer, attempt.message or "", attempt.ended_at)
    return cooldowns


def chosen(buy: Purchase) -> ChosenOffer:
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
    """With the machine's own vCPUs and memory where the offer had none: from then on they count in limits."""
    vcpus, memory_gib = written.vcpus or instance.vcpus or None, written.memory_gib or instance.memory_gib or None
    return structs.replace(written, vcpus=vcpus, memory_gib=memory_gib)


def offer_of(written: ChosenOffer) -> Offer:
    """An offer again, from its record: what was ordered, not what is on sale now.

    Values that cannot be read (of a newer version, or edited by a user) must not prevent the termination.
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


def reservation_of(uid: str, buy: Purchase) -> Reservation:
    offer = buy.offer
    most = buy.hourly_microusd if buy.most_microusd is None else buy.most_microusd
    return Reservation(uid, most, offer.gpu_count, resource_name(offer.gpu), offer.vcpus, offer.memory_gib)


def _consider(inputs: PurchaseInput, row: OfferRow) -> "Purchase | str":
    """A purchase, or `Reason: message`."""
    offer = row.offer
    if why := inputs.closed(row):
        return f"ProviderUnavailable: {offer.provider}: {why}"
    if why := inputs.distrusted(row):
        return f"ProviderInconsistent: {why}"
    price, bidding = offer.hourly_microusd, None
    if offer.spot and offer.host:
        margin = _margin(inputs.node_class, offer.provider)
        bidding = bid(offer, margin, _least(price_cap(inputs.spec), inputs.headroom_microusd))
        if bidding is None:
            return f"NoOfferFits: {machine(offer)}: no bid within the limits would win"
        price = bidding
    buy = Purchase(offer, row.source, price, bidding, _most(inputs.spec, offer, price))
    if why := inputs.shortage(reservation_of(inputs.uid, buy)):
        return f"LimitReached: class {inputs.name}: {why}{_if_capped(inputs, buy)}"
    if why := inputs.unfit(offer):
        return f"DevicePluginMissing: {why}"
    return buy


def _most(spec: GPURequestSpec, offer: Offer, price: int) -> int:
    """A price may rise between listing and order. A bid is an upper limit, and the price of electricity is fixed."""
    fixed = (offer.spot and offer.host) or offer.boot is BootMode.POWER
    return price if fixed else most_to_pay(spec, price)


def _if_capped(inputs: PurchaseInput, buy: Purchase) -> str:
    """What helps where only the margin for a rising price exceeds the limit; empty: nothing the user can set."""
    at_most = replace(buy, most_microusd=buy.hourly_microusd)
    if buy.most_microusd == buy.hourly_microusd or inputs.shortage(reservation_of(inputs.uid, at_most)):
        return ""
    return (
        f" (listed at {about(buy.hourly_microusd)}/h; an order may be billed up to {about(buy.most_microusd or 0)}/h, "
        f"unless spec.maxHourlyPrice is lower)"
    )


def _nothing_fits(ranking: Ranking, inputs: PurchaseInput) -> NoPurchase:
    reason = "NoOfferFits"
    if ranking.passed and set(ranking.passed) & {RejectReason.OVER_LIMIT} and not len(ranking):
        nearest = ranking.nearest(1)
        if nearest and nearest[0].reason is RejectReason.OVER_LIMIT:
            reason = "LimitReached"
    words = list(ranking.explain())
    if RejectReason.LOW_TRUST in ranking.passed and not inputs.untrusted_allowed:
        words.append(f"to allow marketplace hosts, label the namespace {ALLOW_UNTRUSTED}=true")
    return NoPurchase(reason, "; ".join(words))


def _models(spec: GPURequestSpec, node_class: GPUNodeClass) -> tuple[str, ...]:
    """What both ask for; an unknown GPU model stands for itself and fits nothing."""
    asked = spec.gpu_type or ""
    allowed = node_class.spec.instance_requirements.gpu_types
    models = family_members(asked) or (asked,)
    if not allowed:
        return models
    within = {model for name in allowed for model in (family_members(name) or (name,))}
    return tuple(model for model in models if model in within)


def _margin(node_class: GPUNodeClass, provider: str) -> float:
    for entry in node_class.spec.providers:
        if canonical_provider(entry.name) == provider and entry.settings is not None and entry.settings.bid_margin:
            return entry.settings.bid_margin
    return DEFAULT_MARGIN


def _least(*ceilings: int | None) -> int | None:
    return min((each for each in ceilings if each is not None), default=None)
