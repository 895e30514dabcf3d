"""What the operator would rent for a request, reckoned at a terminal: its own rule, on prices that can be had here.

Providers whose key is at hand are asked. Of the others the class's status tells the cheapest machine of each model, as
the operator last saw it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUAvailability, GPUNodeClass, GPUNodeClassSpec, ProviderConfig
from tgp.api.request import GPURequest
from tgp.api.values import microusd
from tgp.app.counters import Counter
from tgp.app.shop import Shop
from tgp.core.model.book import PriceBook, SourceState
from tgp.core.model.gpus import resource_name
from tgp.core.model.key import Key
from tgp.core.model.marks import Marks
from tgp.core.model.offer import UNKNOWN_REGION, BootMode, Offer, Stock
from tgp.core.model.regions import known_region, nearest_regions, region_fits
from tgp.core.model.source import PLAIN, source_of
from tgp.core.model.taints import Taint
from tgp.core.model.typed import Typed
from tgp.core.model.workload import DaemonSet
from tgp.core.rules import purchase
from tgp.core.rules.default_class import IMPLICIT, IMPLICIT_LIMITS, Why
from tgp.core.rules.device_plugin import EPHEMERAL, plugin_for
from tgp.core.rules.limits import Holding, headroom_microusd, shortage
from tgp.core.rules.node_dress import exclusive_taint, future_node
from tgp.core.rules.purchase import Buy, Choice, Stay, choose, request_wish
from tgp.core.rules.ranking import rank
from tgp.core.rules.sources import source_for
from tgp.core.rules.wishes import BOOTS
from tgp.surfaces.cli.rent_view import Plan, Told

OTHERS_SHOWN = 2
ONLY_THE_CHEAPEST = (
    "a class's status tells only the cheapest machine of each model and provider; with keys in this terminal "
    "(see tgp check) the providers themselves are asked"
)
IMPLICIT_NOTE = (
    "there is no GPUNodeClass: this is reckoned with the keys of this terminal; the operator rents with those in its "
    "own Secret, if there are any"
)


@dataclass(frozen=True, slots=True)
class Stall:
    """What is known of the cluster."""

    request: GPURequest
    class_name: str  # empty: nobody can tell which is meant
    node_class: GPUNodeClass | None
    why: Why | None  # nothing would be bought by that class now
    now: datetime
    held: tuple[Holding, ...] | None = ()  # what counts against its limits; None: it may not be listed
    hold: str = ""
    daemon_sets: tuple[DaemonSet, ...] | None = None  # None: they may not be listed


@dataclass(frozen=True, slots=True)
class _Listing:
    offers: tuple[Offer, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """What the class's providers sell, who told it, and whose offers are only the status's."""

    book: PriceBook = field(default_factory=PriceBook)
    told: tuple[Told, ...] = ()
    stored: frozenset[str] = frozenset()

    def with_live(self, entry: ProviderConfig, offers: tuple[Offer, ...], state: SourceState, now: datetime) -> "Known":
        book = self.book.with_listing(source_for(entry).name, _Listing(offers), now)
        return replace(self, book=book, told=(*self.told, Told(entry.name, True, state.seen_at)))

    def with_stored(self, entry: ProviderConfig, node_class: GPUNodeClass, why: str, now: datetime) -> "Known":
        row = node_class.status.providers.get(entry.name)
        if row is None or row.offers is None:
            told = Told(entry.name, False, None, why or "no key in this terminal, and the class tells nothing")
            return replace(self, told=(*self.told, told))
        name = canonical_provider(entry.name)
        listed = (each for each in node_class.status.available_gpus if each.provider == entry.name)
        offers = tuple(_offer(node_class, name, each) for each in listed)
        # How old it is stands beside it: a status is written when prices move, so an old one is no stale one.
        return Known(
            self.book.with_listing(source_for(entry).name, _Listing(offers), now),
            (*self.told, Told(entry.name, False, row.last_pricing_update)),
            self.stored | {entry.name},
        )


async def planned(stall: Stall, market: Shop) -> Plan:
    node_class = stall.node_class or (_of_keys(market) if stall.class_name == IMPLICIT else None)
    if node_class is None:
        assert stall.why is not None, "without a class there is a reason"
        none = Stay(stall.why.reason, stall.why.message)
        return Plan(stall.request, stall.now, none, held=stall.held, hold=stall.hold)
    counters = _counters(node_class, market)
    shop = Shop(tuple(counters.values()), market.clouds, market.clock)
    await shop.refresh()
    known = _book(node_class, shop, counters, stall.now)
    book, told, stored = known.book, known.told, known.stored
    usable = _without_regions(node_class, stored)
    held = stall.held or ()
    limits = usable.spec.limits
    asked = purchase.Shop(
        spec=stall.request.spec,
        name=stall.class_name,
        node_class=usable,
        book=book,
        marks=Marks(),
        headroom_microusd=headroom_microusd(limits, held),
        closed=lambda _row: "",
        unfit=lambda _offer: "",
        shortage=lambda wanted: shortage(limits, held, wanted),
        uid="",
        now=stall.now,
    )
    choice = choose(asked)
    rest = rank(book, request_wish(asked), stall.now).first(OTHERS_SHOWN + 1)
    taken = choice.offer.key if isinstance(choice, Buy) else ""
    return Plan(
        stall.request,
        stall.now,
        choice,
        stall.class_name,
        node_class,
        tuple(row for row in rest if row.offer.key != taken)[:OTHERS_SHOWN] if taken else (),
        told,
        stall.held,
        stall.hold,
        _stops(stall, choice),
        (*_unknown_regions(stall, book), *_notes(stall, choice, stored)),
        taints=_taints(stall, choice),
    )


def _stops(stall: Stall, choice: Choice) -> str:
    """Why it would not be bought although it fits, as the operator judges with its usual settings; empty: it would."""
    if stall.why is not None and stall.class_name != IMPLICIT:
        return stall.why.message
    if not isinstance(choice, Buy) or stall.daemon_sets is None or choice.offer.boot is BootMode.POWER:
        return ""
    meta = stall.request.metadata
    record: Typed[GPURequest] = Typed(key=Key(meta.namespace, meta.name), object=stall.request)
    verdict = plugin_for(future_node(record, choice.offer), stall.daemon_sets, resource_name(choice.offer.gpu))
    return "" if verdict.runs else f"{verdict.message} (DevicePluginMissing)"


def _taints(stall: Stall, choice: Choice) -> tuple[Taint, ...]:
    """Of the Node that would come of it; where nothing fits now, those that every rented machine has."""
    meta, spec = stall.request.metadata, stall.request.spec
    if isinstance(choice, Buy):
        record: Typed[GPURequest] = Typed(key=Key(meta.namespace, meta.name), object=stall.request)
        return future_node(record, choice.offer).taints
    return (EPHEMERAL, *((exclusive_taint(meta.name),) if spec.exclusive else ()))


def _unknown_regions(stall: Stall, book: PriceBook) -> Iterable[str]:
    spec = stall.request.spec
    for region in dict.fromkeys(each for each in (spec.region, *spec.regions) if each):
        sold = any(region_fits(region, offer.region, offer.place, offer.country) for offer in book.offers)
        if not sold and not known_region(region):
            near = nearest_regions(region, {offer.place for offer in book.offers})
            hint = f"; did you mean {', '.join(near)}?" if near else "."
            yield f"no table knows the region {region}, and no offer is there{hint}"


def _notes(stall: Stall, choice: Choice, stored: frozenset[str]) -> Iterable[str]:
    if stall.class_name == IMPLICIT:
        yield IMPLICIT_NOTE
    if stored and isinstance(choice, Stay):
        yield ONLY_THE_CHEAPEST


def _of_keys(shop: Shop) -> GPUNodeClass | None:
    """As the operator's implicit class, of the keys in this terminal; None: there are none."""
    names = [counter.facts.provider for counter in shop.counters if not counter.keyless]
    if not names:
        return None
    providers = tuple(ProviderConfig(name=name) for name in names)
    return GPUNodeClass(spec=GPUNodeClassSpec(providers=providers, limits=IMPLICIT_LIMITS))


def _counters(node_class: GPUNodeClass, shop: Shop) -> dict[str, Counter]:
    """By the provider's name in the class: where this terminal's keys open, asked as the class would ask.

    A key is never sent where only a class says it should go: what a class reaches through an address of its own is
    left to the operator, unless the whole market is a pretend one.
    """
    at_hand = {counter.facts.provider: counter for counter in shop.counters if not counter.keyless}
    found = {}
    for entry in node_class.spec.providers:
        counter, settings = at_hand.get(canonical_provider(entry.name)), entry.settings or PLAIN
        address = counter.source.settings.endpoint if counter is not None else None
        if counter is None or not entry.enabled or (settings.endpoint and not address):
            continue
        settings = msgspec.structs.replace(settings, endpoint=address)
        found[entry.name] = replace(counter, source=source_of(counter.facts.provider, "", "", settings))
    return found


def _book(node_class: GPUNodeClass, shop: Shop, counters: Mapping[str, Counter], now: datetime) -> Known:
    """All that is known of what the class's providers sell."""
    known = Known()
    for entry in node_class.spec.providers:
        if entry.enabled:
            counter = counters.get(entry.name)
            state = shop.book.state(counter.source.name) if counter is not None else None
            if counter is not None and state is not None and state.known and not state.why:
                known = known.with_live(entry, shop.book.of(counter.source.name), state, now)
            else:
                known = known.with_stored(entry, node_class, state.why if state is not None else "", now)
    return known


def _offer(node_class: GPUNodeClass, provider: str, row: GPUAvailability) -> Offer:
    """As much of an offer as a status tells. What the class asks for it has: the operator judged that."""
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
    """The first of the ways the class allows that the provider's machines have, as the status says."""
    allowed = BOOTS[node_class.spec.boot_policy]
    seen = node_class.status.providers.get(provider)
    told = (seen.boot_mode or "").split(",") if seen is not None else []
    return next((mode for mode in allowed if mode.value in told), allowed[0])


def _without_regions(node_class: GPUNodeClass, stored: frozenset[str]) -> GPUNodeClass:
    """What a status tells stands within the class's regions already, and no longer says so in a provider's words."""
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
