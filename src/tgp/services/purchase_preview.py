"""What the operator would rent for a request, computed at a terminal by the operator's own rules.

Providers whose API key is set in the terminal are asked. For the others the class's status has the cheapest machine of
each model, as last seen by the operator.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUAvailability, GPUNodeClass, GPUNodeClassSpec, ProviderConfig
from tgp.api.request import GPURequest
from tgp.api.values import microusd
from tgp.core.classes.default_class import IMPLICIT, IMPLICIT_LIMITS, Why
from tgp.core.inventory.limits import NOTHING_USED, Usage
from tgp.core.market.query import BOOTS
from tgp.core.market.ranking import Ranking, rank
from tgp.core.market.ranking_messages import region_hints
from tgp.core.market.sources import source_for
from tgp.core.model.gpus import resource_name
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import UNKNOWN_REGION, BootMode, Offer, Stock
from tgp.core.model.offer_query import RejectReason
from tgp.core.model.price_book import PriceBook, SourceState
from tgp.core.model.source import PLAIN, source_of
from tgp.core.model.taints import Taint
from tgp.core.model.workload import DaemonSet
from tgp.core.requests.device_plugin import EPHEMERAL, plugin_for
from tgp.core.requests.node_metadata import exclusive_taint, future_node
from tgp.core.requests.purchase import (
    NoPurchase,
    Purchase,
    PurchaseDecision,
    PurchaseInput,
    decide_purchase,
    every_source,
    query_for_request,
)
from tgp.services.credentials import ProviderAccess
from tgp.services.market import MarketService
from tgp.services.request_answers import PriceSource, RentPlan

OTHERS_SHOWN = 2
ANOTHER_MACHINE = tuple(RejectReason)[: tuple(RejectReason).index(RejectReason.WRONG_COUNT) + 1]
ONLY_THE_CHEAPEST = (
    "offers are from the class's status, which has only the cheapest machine of each model and provider; to ask the "
    "providers instead, set API keys in this terminal (see tgp check)"
)
IMPLICIT_NOTE = (
    "there is no GPUNodeClass: this plan uses the API keys of this terminal; the operator uses those in its own "
    "Secret, if there are any"
)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What is known of the cluster."""

    request: GPURequest
    class_name: str  # empty: it is unclear which one is meant
    node_class: GPUNodeClass | None
    why: Why | None  # why that class would not buy now
    now: datetime
    held: Usage | None = NOTHING_USED  # what counts against its limits; None: you may not list requests
    hold: str = ""
    daemon_sets: tuple[DaemonSet, ...] | None = None  # None: you may not list them
    default_backend: str = ""  # the operator's own mesh


@dataclass(frozen=True, slots=True)
class _Listing:
    offers: tuple[Offer, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownOffers:
    """The offers of the class's providers, their sources, and which are only from the status."""

    book: PriceBook = field(default_factory=PriceBook)
    sources: tuple[PriceSource, ...] = ()
    stored: frozenset[str] = frozenset()

    def with_live(
        self, entry: ProviderConfig, offers: tuple[Offer, ...], state: SourceState, now: datetime
    ) -> "KnownOffers":
        book = self.book.with_listing(source_for(entry).name, _Listing(offers), now)
        return replace(self, book=book, sources=(*self.sources, PriceSource(entry.name, True, state.seen_at)))

    def with_stored(self, entry: ProviderConfig, node_class: GPUNodeClass, why: str, now: datetime) -> "KnownOffers":
        row = node_class.status.providers.get(entry.name)
        if row is None or row.offers is None:
            source = PriceSource(
                entry.name, False, None, why or "no API key in this terminal, and no offers in the status of the class"
            )
            return replace(self, sources=(*self.sources, source))
        name = canonical_provider(entry.name)
        listed = (each for each in node_class.status.available_gpus if each.provider == entry.name)
        offers = tuple(_offer(node_class, name, each) for each in listed)
        # The age is shown beside it: a status is written when prices change, so an old one is not stale.
        return KnownOffers(
            self.book.with_listing(source_for(entry).name, _Listing(offers), now),
            (*self.sources, PriceSource(entry.name, False, row.last_pricing_update)),
            self.stored | {entry.name},
        )


async def planned(cluster: ClusterState, market: MarketService) -> RentPlan:
    node_class = cluster.node_class or (_of_keys(market) if cluster.class_name == IMPLICIT else None)
    if node_class is None:
        assert cluster.why is not None, "without a class there is a reason"
        none = NoPurchase(cluster.why.reason, cluster.why.message)
        return RentPlan(cluster.request, cluster.now, none, held=cluster.held, hold=cluster.hold)
    known = await known_offers(node_class, market, cluster.now)
    book, stored = known.book, known.stored
    usable = without_regions(node_class, stored)
    asked = PurchaseInput(
        _record(cluster.request),
        cluster.class_name,
        usable,
        book,
        every_source(usable),
        cluster.now,
        held=cluster.held or NOTHING_USED,
        default_backend=cluster.default_backend,
    )
    choice = decide_purchase(asked)
    ranking = rank(book, query_for_request(asked), cluster.now)
    rest = ranking.first(OTHERS_SHOWN + 1)
    taken = choice.offer.key if isinstance(choice, Purchase) else ""
    return RentPlan(
        cluster.request,
        cluster.now,
        choice,
        cluster.class_name,
        node_class,
        tuple(row for row in rest if row.offer.key != taken)[:OTHERS_SHOWN] if taken else (),
        known.sources,
        cluster.held,
        cluster.hold,
        _stops(cluster, choice),
        (*_unknown_regions(cluster, book), *_notes(cluster, choice, stored)),
        taints=_taints(cluster, choice),
        nearest=_nearest(ranking) if isinstance(choice, NoPurchase) else "",
    )


async def known_offers(node_class: GPUNodeClass, market: MarketService, now: datetime) -> KnownOffers:
    """All known offers of the class's providers, which are asked now if their API keys are in this terminal."""
    accesses = _accesses(node_class, market)
    market_service = MarketService(tuple(accesses.values()), market.clouds, market.clock)
    await market_service.refresh()
    return _book(node_class, market_service, accesses, now)


def _record(request: GPURequest) -> KubeObject[GPURequest]:
    """As if it were stored."""
    return KubeObject(key=ObjectKey(request.metadata.namespace, request.metadata.name), value=request)


def _nearest(ranking: Ranking) -> str:
    """Of the wanted model: another one is no measure of its price."""
    nearest = ranking.nearest(1)
    return nearest[0].words if nearest and nearest[0].reason not in ANOTHER_MACHINE else ""


def _stops(cluster: ClusterState, choice: PurchaseDecision) -> str:
    """Why the offer would not be bought although it fits, with the operator's default settings; empty: it would."""
    if cluster.why is not None and (cluster.class_name != IMPLICIT or cluster.why.reason == "NamespaceNotAllowed"):
        return cluster.why.message
    if not isinstance(choice, Purchase) or cluster.daemon_sets is None or choice.offer.boot is BootMode.POWER:
        return ""
    future = future_node(_record(cluster.request), choice.offer)
    verdict = plugin_for(future, cluster.daemon_sets, resource_name(choice.offer.gpu))
    return "" if verdict.runs else f"{verdict.message} (DevicePluginMissing)"


def _taints(cluster: ClusterState, choice: PurchaseDecision) -> tuple[Taint, ...]:
    """Of the future Node; if no offer fits now, those of every rented machine."""
    meta, spec = cluster.request.metadata, cluster.request.spec
    if isinstance(choice, Purchase):
        return future_node(_record(cluster.request), choice.offer).taints
    return (EPHEMERAL, *((exclusive_taint(meta.name),) if spec.exclusive else ()))


def _unknown_regions(cluster: ClusterState, book: PriceBook) -> Iterable[str]:
    spec = cluster.request.spec
    sold = {(offer.region, offer.place, offer.country) for offer in book.offers}
    for hint in region_hints((each for each in (spec.region, *spec.regions) if each), sold):
        yield hint if hint.endswith("?") else f"{hint}."


def _notes(cluster: ClusterState, choice: PurchaseDecision, stored: frozenset[str]) -> Iterable[str]:
    if cluster.class_name == IMPLICIT:
        yield IMPLICIT_NOTE
    if stored and isinstance(choice, NoPurchase):
        yield ONLY_THE_CHEAPEST


def _of_keys(market_service: MarketService) -> GPUNodeClass | None:
    """Like the operator's implicit class, from the API keys in this terminal; None: there are none."""
    names = [access.facts.provider for access in market_service.accesses if not access.keyless]
    if not names:
        return None
    providers = tuple(ProviderConfig(name=name) for name in names)
    return GPUNodeClass(spec=GPUNodeClassSpec(providers=providers, limits=IMPLICIT_LIMITS))


def _accesses(node_class: GPUNodeClass, market_service: MarketService) -> dict[str, ProviderAccess]:
    """By the provider's name in the class: the providers whose API key is in this terminal, with the class's settings.

    A key is never sent to an endpoint that only a class names: such a provider is left to the operator, unless the
    whole market is simulated.
    """
    usable = {access.facts.provider: access for access in market_service.accesses if not access.keyless}
    found = {}
    for entry in node_class.spec.providers:
        access, settings = usable.get(canonical_provider(entry.name)), entry.settings or PLAIN
        address = access.source.settings.endpoint if access is not None else None
        if access is None or not entry.enabled or (settings.endpoint and not address):
            continue
        settings = msgspec.structs.replace(settings, endpoint=address)
        found[entry.name] = replace(access, source=source_of(access.facts.provider, "", "", settings))
    return found


def _book(
    node_class: GPUNodeClass, market_service: MarketService, accesses: Mapping[str, ProviderAccess], now: datetime
) -> KnownOffers:
    known = KnownOffers()
    for entry in node_class.spec.providers:
        if entry.enabled:
            access = accesses.get(entry.name)
            state = market_service.book.state(access.source.name) if access is not None else None
            if access is not None and state is not None and state.known and not state.why:
                known = known.with_live(entry, market_service.book.of(access.source.name), state, now)
            else:
                known = known.with_stored(entry, node_class, state.why if state is not None else "", now)
    return known


def _offer(node_class: GPUNodeClass, provider: str, row: GPUAvailability) -> Offer:
    """An offer from the class's status. It meets the class's requirements: the operator checked that."""
    asked = node_class.spec.instance_requirements
    region = row.region or UNKNOWN_REGION
    return Offer(
        provider=provider,
        sku=f"{row.gpu_count}x {row.gpu_type}",
        place=region if region != UNKNOWN_REGION else "",
        region=region,
        gpu=row.gpu_type,
        gpu_count=max(row.gpu_count, 1),
        gpu_memory_gib=row.memory_gib or asked.min_gpu_memory_gib or 0,
        vcpus=asked.min_vcpu or 0,
        memory_gib=asked.min_memory_gib or 0,
        disk_gib=0,
        spot=row.spot,
        hourly_microusd=microusd(row.price_per_hour, "status.availableGPUs"),
        stock=Stock.UNKNOWN,
        boot=_boot(node_class, row.provider),
    )


def _boot(node_class: GPUNodeClass, provider: str) -> BootMode:
    """The first boot mode that the class allows and the provider's machines have, by the status."""
    allowed = BOOTS[node_class.spec.boot_policy]
    seen = node_class.status.providers.get(provider)
    modes = (seen.boot_mode or "").split(",") if seen is not None else []
    return next((mode for mode in allowed if mode.value in modes), allowed[0])


def without_regions(node_class: GPUNodeClass, stored: frozenset[str]) -> GPUNodeClass:
    """Offers of a status are within the class's regions already, and do not carry the provider's region names."""
    if not stored:
        return node_class
    spec = node_class.spec
    providers = tuple(
        msgspec.structs.replace(entry, regions=()) if entry.name in stored else entry for entry in spec.providers
    )
    asked = spec.instance_requirements
    everywhere = len(stored) == sum(entry.enabled for entry in spec.providers)
    asked = msgspec.structs.replace(asked, regions=()) if everywhere else asked
    return msgspec.structs.replace(
        node_class, spec=msgspec.structs.replace(spec, providers=providers, instance_requirements=asked)
    )
