"""What would be bought for a request now: one offer, or the reason to wait."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import Attempt, GPURequest, GPURequestSpec
from tgp.api.values import NEVER, microusd, span
from tgp.core.classes.semantic_validation import CLASS_SPOT_RULE, beyond_class
from tgp.core.inventory.limits import NOTHING_USED, Reservation, Usage, headroom_microusd, shortage
from tgp.core.joining.mesh.selection import mesh_of
from tgp.core.market.query import query_for_class
from tgp.core.market.ranking import Ranking, rank
from tgp.core.market.ranking_messages import machine
from tgp.core.market.sources import sources_of
from tgp.core.model.attempts import TAKES_OVER
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.gpus import common_models, resource_name
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.mesh import Backend
from tgp.core.model.money import about
from tgp.core.model.offer import BootMode, Offer, Trust
from tgp.core.model.offer_query import Kinds, OfferQuery, RejectReason
from tgp.core.model.price_book import OfferRow, PriceBook
from tgp.core.model.workload import DaemonSet
from tgp.core.requests import cooldown
from tgp.core.requests.bids import DEFAULT_MARGIN, bid
from tgp.core.requests.chosen_offer import offer_of, untrusted
from tgp.core.requests.device_plugin import plugin_for
from tgp.core.requests.node_metadata import future_node, pool_key

ALLOW_UNTRUSTED = "tgp.io/allow-untrusted"  # a label of namespaces whose pods may run on marketplace hosts
CANDIDATES = 40  # checked one by one; if all are unsuitable, more would be, too
USUAL_LIFE = timedelta(hours=24)
RUN_MARGIN_SHARE, RUN_MARGIN = 10, timedelta(hours=1)  # a tenth of the lifetime, at least an hour: see `longest_run`
PRICE_TOLERANCE = 1.25  # times the reserved price: above that the machine is terminated
NO_CEILING = 1 << 62
FAILED = frozenset(
    {"Refused", "SoldOut", "NotCreated", "Failed", "Busy", "Lost"}
)  # outcomes that put an offer into cooldown


@dataclass(frozen=True, slots=True)
class Purchase:
    """This line of the price book, at this price: what will be reserved and ordered."""

    row: OfferRow
    most_microusd: int  # an hour, that the order allows: counted against limits until billed
    bid_microusd: int | None = None  # None: the offer has a price, and takes no bids

    @property
    def offer(self) -> Offer:
        """As it is listed."""
        return self.row.offer

    @property
    def hourly_microusd(self) -> int:
        return self.offer.hourly_microusd if self.bid_microusd is None else self.bid_microusd

    @property
    def ordered(self) -> Offer:
        """At the price that is agreed: the attempt records it, and the order is made from that record."""
        return msgspec.structs.replace(self.offer, hourly_microusd=self.hourly_microusd)


class NoPurchase(msgspec.Struct, frozen=True):
    """Nothing is bought now. The reason is a condition's."""

    reason: str
    message: str


PurchaseDecision: TypeAlias = Purchase | NoPurchase


class SourceObservation(msgspec.Struct, frozen=True):
    """What is known of a source of the class. Nothing is bought where it could not be listed afterwards."""

    missing_setting: str = ""  # without which nothing can be bought there; empty: none is missing
    key_problem: str = ""  # why its API key buys nothing; empty: it does, as far as known
    listing_problem: str = ""  # why its machines cannot be listed; empty: they were
    distrusted: str = ""  # why its lists are not believed; empty: they are
    machines: Mapping[str, str] | None = None  # you own, by name: why it cannot be used; None: not looked at
    on: frozenset[str] = frozenset()  # of these, machines whose Node is Ready: they are not switched on

    def machine_problem(self, name: str, *, takes_over: bool = False) -> str:
        """Why a machine you own cannot be used; empty: it can. One that is on can be taken over, and nothing else."""
        if self.machines is None:
            return ""
        if takes_over != (name in self.on):
            return f"machine {name} is not on" if takes_over else f"machine {name} is on already: its Node is Ready"
        return self.machines.get(name, f"the class does not name machine {name}")


@dataclass(frozen=True, slots=True)
class PurchaseInput:
    """What the decision may use."""

    record: KubeObject[GPURequest]
    class_name: str
    node_class: GPUNodeClass
    book: PriceBook
    sources: Mapping[str, SourceObservation]  # of the class, by name
    now: datetime
    cooldowns: Cooldowns = field(default_factory=Cooldowns)
    attempts: tuple[Attempt, ...] = ()  # of this request, up to now
    held: Usage = NOTHING_USED  # what other machines use of the class's limits
    held_of_pool: Usage = NOTHING_USED  # what other machines of the pool use of its limits
    daemon_sets: tuple[DaemonSet, ...] | None = None  # one has to be a device plugin; None: none is required
    pool: GPUNodePool | None = None  # that created the request
    default_backend: str = ""  # the operator's own mesh
    untrusted_allowed: bool = True  # may its namespace use marketplace hosts?
    unlisted: tuple[str, ...] = ()  # providers of the class whose offers are not listed yet

    @property
    def spec(self) -> GPURequestSpec:
        assert self.record.value is not None, "an unreadable request buys nothing"
        return self.record.value.spec

    @property
    def headroom_microusd(self) -> int | None:
        """What is left of the class's maxHourlyCost; None: it has none."""
        return headroom_microusd(self.node_class.spec.limits, self.held)


def every_source(node_class: GPUNodeClass) -> dict[str, SourceObservation]:
    """The sources of a class, where nothing is known that speaks against them."""
    return {source.name: SourceObservation() for source in sources_of(node_class).values()}


def decide_purchase(inputs: PurchaseInput) -> PurchaseDecision:
    """The best offer that passes everything; else the reason nearest to a purchase."""
    for problem in beyond_class(inputs.spec, inputs.node_class, inputs.class_name):
        if problem.rule == CLASS_SPOT_RULE:
            return NoPurchase("SpotNotAllowed", f"{problem.path}: {problem.detail}")
        return NoPurchase("NotInClass", f"{problem.path}: {problem.detail}")
    if takes_over(inputs.record):
        return _taken_over(inputs)
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
            "OffersNotSeen", f"Offers of {', '.join(inputs.unlisted)} are not listed yet, and no other offer fits."
        )
    return _nothing_fits(ranking, inputs)


def takes_over(record: KubeObject[GPURequest]) -> bool:
    """Whether a pool wrote it for a machine you own that was found on."""
    return TAKES_OVER in record.annotations and pool_key(record) is not None


def _taken_over(inputs: PurchaseInput) -> PurchaseDecision:
    """The machine that it names. Others do not serve, and one that is off meanwhile is not switched on."""
    name = inputs.spec.offer.instance_type if inputs.spec.offer is not None else ""
    for source in sorted(inputs.sources):
        state = inputs.book.state(source)
        for offer in inputs.book.of(source):
            if offer.boot is BootMode.POWER and offer.sku == name and state is not None and state.seen_at is not None:
                choice = _consider(inputs, OfferRow(offer, source, state.seen_at))
                return choice if isinstance(choice, Purchase) else NoPurchase(*choice.split(": ", 1))
    return NoPurchase("NoOfferFits", f"Class {inputs.class_name} does not name machine {name}.")


def query_for_request(inputs: PurchaseInput) -> OfferQuery:
    """The class's query, narrowed by the request."""
    spec = inputs.spec
    query = query_for_class(inputs.node_class, own_cooldowns(inputs.cooldowns, inputs.attempts))
    pinned = spec.offer
    regions = tuple(dict.fromkeys(each for each in (spec.region, *spec.regions) if each))
    if pinned is not None and pinned.region:
        regions = (pinned.region,)
    provider = only_provider(spec)
    return replace(
        query,
        models=query.models if spec.gpu_type is None else common_models(spec.gpu_type, query.models),
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


def only_provider(spec: GPURequestSpec) -> str:
    """The provider that a request may buy from; empty: any. Its spec cannot name another one later."""
    return canonical_provider((spec.offer.provider if spec.offer is not None else spec.provider) or "")


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
    own = Cooldowns()
    for attempt in attempts:
        if attempt.outcome in FAILED and attempt.offer is not None and attempt.ended_at is not None:
            own = cooldown.failed(own, offer_of(attempt.offer), attempt.message or "", attempt.ended_at)
    return cooldowns.with_later(own)


def reservation_of(uid: str, buy: Purchase) -> Reservation:
    offer = buy.offer
    return Reservation(uid, buy.most_microusd, offer.gpu_count, resource_name(offer.gpu), offer.vcpus, offer.memory_gib)


def cannot_boot(offer: Offer, node_class: GPUNodeClass, default_backend: str) -> str:
    """Why machines of this offer can never become Nodes, known before anything is reserved; empty: they can."""
    if offer.no_node:
        return offer.no_node
    backend = mesh_of(node_class, offer.provider, None, default_backend).backend
    if backend is Backend.KUBESPAN and untrusted(offer):
        return (
            "KubeSpan admits every holder of the cluster's secret, and this host does not belong to the provider itself"
        )
    return ""


def _consider(inputs: PurchaseInput, row: OfferRow) -> Purchase | str:
    """A purchase, or `Reason: message`."""
    offer = row.offer
    if why := _unavailable(inputs, row):
        return f"ProviderUnavailable: Provider {offer.provider} cannot be used now: {why}"
    if offer.boot is not BootMode.POWER and (why := inputs.sources[row.source].distrusted):
        return f"ProviderInconsistent: {why}"
    price, bidding = offer.hourly_microusd, None
    if offer.takes_bids:
        margin = _margin(inputs.node_class, offer.provider)
        bidding = bid(offer, margin, _least(price_cap(inputs.spec), inputs.headroom_microusd))
        if bidding is None:
            return f"NoOfferFits: No bid within the limits would win {machine(offer)}."
        price = bidding
    buy = Purchase(row, _most(inputs.spec, offer, price), bidding)
    if why := _shortage(inputs, buy):
        return f"LimitReached: {why}{_if_capped(inputs, buy)}"
    if why := _plugin_missing(inputs, offer):
        return f"DevicePluginMissing: {why}"
    return buy


def _unavailable(inputs: PurchaseInput, row: OfferRow) -> str:
    """Why nothing may be bought there now; empty: it may."""
    source, offer = inputs.sources.get(row.source), row.offer
    if source is None:
        return f"class {inputs.class_name} does not use this provider"
    return (
        source.missing_setting
        or cannot_boot(offer, inputs.node_class, inputs.default_backend)
        or source.key_problem
        or (
            source.machine_problem(offer.sku, takes_over=takes_over(inputs.record))
            if offer.boot is BootMode.POWER
            else source.listing_problem
        )
    )


def _shortage(inputs: PurchaseInput, buy: Purchase) -> str:
    wanted, pool = reservation_of("", buy), inputs.pool
    if why := shortage(inputs.node_class.spec.limits, inputs.held, wanted):
        return f"Class {inputs.class_name}: {why}"
    why = shortage(pool.spec.limits, inputs.held_of_pool, wanted) if pool is not None else ""
    return f"Pool {pool_key(inputs.record)}: {why}" if why else ""


def _plugin_missing(inputs: PurchaseInput, offer: Offer) -> str:
    """Why no GPU of such a Node would be allocatable; empty: a device plugin would run there, or none is required."""
    if inputs.daemon_sets is None or offer.boot is BootMode.POWER:
        return ""
    future = future_node(inputs.record, offer, inputs.pool)
    verdict = plugin_for(future, inputs.daemon_sets, resource_name(offer.gpu))
    return "" if verdict.runs else verdict.message


def _most(spec: GPURequestSpec, offer: Offer, price: int) -> int:
    """A price may rise between listing and order. A bid is an upper limit, and the price of electricity is fixed."""
    fixed = offer.takes_bids or offer.boot is BootMode.POWER
    return price if fixed else most_to_pay(spec, price)


def _if_capped(inputs: PurchaseInput, buy: Purchase) -> str:
    """What helps where only the margin for a rising price exceeds the limit; empty: nothing the user can set."""
    at_most = replace(buy, most_microusd=buy.hourly_microusd)
    if buy.most_microusd == buy.hourly_microusd or _shortage(inputs, at_most):
        return ""
    return (
        f" (listed at {about(buy.hourly_microusd)}/h; an order may be billed up to {about(buy.most_microusd)}/h, "
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


def _margin(node_class: GPUNodeClass, provider: str) -> float:
    for entry in node_class.spec.providers:
        if canonical_provider(entry.name) == provider and entry.settings is not None and entry.settings.bid_margin:
            return entry.settings.bid_margin
    return DEFAULT_MARGIN


def _least(*ceilings: int | None) -> int | None:
    return min((each for each in ceilings if each is not None), default=None)
