"""Which offers a pool may buy, and why it may not buy the others.

The market's filters judge first, then what a request's own purchase decision would refuse, then the pool's
requirements: every offer of the book has exactly one reason, or fits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tgp.api.nodepool import NodeTemplate
from tgp.api.values import microusd
from tgp.core.market.query import query_for_class
from tgp.core.market.ranking import rank
from tgp.core.market.sources import machines_of
from tgp.core.model.arrays import Bools, Codes, Index, np
from tgp.core.model.columns import BOOT_MODES
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.gpus import resource_name
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.offer import BootMode, Offer, Trust
from tgp.core.model.offer_labels import INSTANCE_TYPE, label_value, offer_labels
from tgp.core.model.offer_query import OfferQuery, RejectReason
from tgp.core.model.price_book import PriceBook
from tgp.core.model.taints import Taint
from tgp.core.pools.nodepool import value_check
from tgp.core.pools.planner.masks import LabelColumn, SourceTable, label_column
from tgp.core.pools.planner.world import PlanInput, PlannedPool
from tgp.core.pools.requirements import Malformed, together
from tgp.core.requests.device_plugin import provides
from tgp.core.requests.node_metadata import labels_with, template_labels, template_taints
from tgp.core.requests.purchase import USUAL_LIFE, SourceObservation, cannot_boot

# Reasons of the pool, after those of the market.
UNAVAILABLE = "provider unavailable"
OUTSIDE_POOL = "outside the pool's requirements"
NO_PLUGIN = "no GPU device plugin would run there"
REASONS: tuple[str, ...] = (*(reason.value for reason in RejectReason), UNAVAILABLE, OUTSIDE_POOL, NO_PLUGIN)
FITS = len(REASONS)
_MARKET_FITS = len(RejectReason)
ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
_POWER = BOOT_MODES.index(BootMode.POWER)


@dataclass(frozen=True, eq=False)
class PoolOffers:
    """The offers that a pool may buy, as a table, and the reason for each of the others."""

    pool: PlannedPool
    rows: Index  # into the book, cheapest first
    table: SourceTable  # of these rows
    codes: Codes  # by row of the book: into REASONS, or FITS
    query: OfferQuery
    unavailable: str = ""  # the first reason for which a provider is unavailable


def offers_of(pool: PlannedPool, world: PlanInput) -> PoolOffers:
    """What the pool may buy now."""
    query = pool_query(pool, world.cooldowns)
    ranking = rank(world.book, query, world.now)
    codes = ranking.reasons.astype(np.int16)
    codes[codes == _MARKET_FITS] = FITS
    rows = np.sort(ranking.fitting)
    rows, why = _without_unavailable(pool, world, rows, codes)
    table = _with_own_labels(_table(pool, world.book, rows), rows, world)
    within = _within_requirements(pool, table)
    codes[rows[~within]] = REASONS.index(OUTSIDE_POOL)
    rows, table = rows[within], table.taken(np.flatnonzero(within))
    if world.device_plugin_required:
        plugged = _plugged(world, rows, table)
        codes[rows[~plugged]] = REASONS.index(NO_PLUGIN)
        rows, table = rows[plugged], table.taken(np.flatnonzero(plugged))
    return PoolOffers(pool, rows, table, codes, query, why)


def pool_query(pool: PlannedPool, cooldowns: Cooldowns) -> OfferQuery:
    """The class's query, narrowed by the pool. What is left of limits is the plan's to divide."""
    if pool.cooldowns:
        cooldowns = replace(cooldowns, providers={**cooldowns.providers, **pool.cooldowns})
    if pool.left_out:
        cooldowns = replace(cooldowns, offers={**cooldowns.offers, **pool.left_out})
    query = query_for_class(pool.node_class, cooldowns)
    ceiling = pool.pool.spec.max_hourly_price
    trusted = pool.key.namespace not in pool.untrusted_namespaces
    return replace(
        query,
        max_hourly_microusd=microusd(ceiling, "spec.maxHourlyPrice") if ceiling is not None else None,
        headroom_microusd=None,
        min_trust=Trust.DATACENTER if trusted else query.min_trust,
        lasting=USUAL_LIFE,  # as its request, which has no end, asks for
    )


def _without_unavailable(pool: PlannedPool, world: PlanInput, rows: Index, codes: Codes) -> tuple[Index, str]:
    """Only rows whose source, machine and boot would let a request buy them; and the first reason of the others."""
    book = world.book
    columns, first = book.columns, ""
    power = columns.boot[rows] == _POWER
    trusted = columns.trust[rows] >= Trust.DATACENTER.value
    kinds = book.source_of[rows].astype(np.int64) * 4 + power * 2 + trusted
    distinct, representative, spread = np.unique(kinds, return_index=True, return_inverse=True)
    verdicts = []
    for place in representative.tolist():
        offer = book.offers[rows[place]]
        source = pool.sources.get(book.sources[book.source_of[rows[place]]].source)
        why = _unavailable(pool, world, source, offer)
        first = first or (f"{offer.provider}: {why}" if why else "")
        verdicts.append(not why)
    keep: Bools = np.array(verdicts, np.bool_)[spread] if len(distinct) else np.zeros(0, np.bool_)
    for place in np.flatnonzero(power & keep).tolist():
        source = pool.sources.get(book.sources[book.source_of[rows[place]]].source)
        why = source.machine_problem(book.offers[rows[place]].sku) if source is not None else ""
        first = first or why
        keep[place] = not why
    codes[rows[~keep]] = REASONS.index(UNAVAILABLE)
    return rows[keep], first


def _unavailable(pool: PlannedPool, world: PlanInput, source: SourceObservation | None, offer: Offer) -> str:
    if source is None:
        return f"GPUNodeClass {pool.class_name} does not use this provider"
    owned = offer.boot is BootMode.POWER
    return (
        source.missing_setting
        or cannot_boot(offer, pool.node_class, world.default_backend)
        or source.key_problem
        or ("" if owned else source.listing_problem or source.distrusted)
    )


def _within_requirements(pool: PlannedPool, table: SourceTable) -> Bools:
    within = np.ones(table.size, np.bool_)
    rows = pool.pool.spec.template.spec.requirements
    try:
        allowed = together(LabelRequirement(row.key, row.operator, row.values) for row in rows)
    except Malformed:  # its Ready condition says so
        return np.zeros(table.size, np.bool_)
    for key, values in allowed.items():
        check: Callable[[str | None], bool] = values.admits
        if values.chosen is not None:
            named = value_check(key, values)
            check = _or_absent(named, absent=values.admits(None))
        within &= table.values(key).admitted(check)
    return within


def _or_absent(named: Callable[[str], bool], *, absent: bool) -> Callable[[str | None], bool]:
    return lambda value: absent if value is None else named(value)


def _plugged(world: PlanInput, rows: Index, table: SourceTable) -> Bools:
    """Where a device plugin for the machine's GPUs would run. Machines you own have theirs already."""
    columns = world.book.columns
    resources = np.array([resource_name(gpu) for gpu in columns.words.gpus], dtype=object)[columns.gpu[rows]]
    plugged: Bools = columns.boot[rows] == _POWER
    for resource in sorted(set(resources.tolist())):
        for plugin in world.daemon_sets:
            if provides(plugin, resource):
                plugged = plugged | (table.admits(plugin) & (resources == resource))
    return plugged


def _table(pool: PlannedPool, book: PriceBook, rows: Index) -> SourceTable:
    template = pool.pool.spec.template
    labels = {key: LabelColumn(column.values, column.place[rows]) for key, column in _book_labels(book).items()}
    whole = np.zeros(len(rows), np.intp)
    labels = {key: LabelColumn((value,), whole) for key, value in _fixed_labels(pool).items()} | labels
    taints, place = _taints(template, book, rows)
    return SourceTable(len(rows), labels, taints, place)


def _fixed_labels(pool: PlannedPool) -> dict[str, str]:
    """That all its machines have."""
    return {
        **template_labels(pool.pool.spec.template),
        "tgp.io/nodepool": pool.key.name,
        "tgp.io/nodepool-namespace": pool.key.namespace,
        OS: "linux",
    }


def may_match(wanted: LabelRequirement, pool: PlannedPool, offers: PoolOffers | None, world: PlanInput) -> bool:
    """Whether a machine of the pool may have such a label, if not now. `offers`: None where it buys nothing now."""
    fixed = _fixed_labels(pool)
    if wanted.key in fixed:
        return wanted.admits(fixed)
    if offers is not None and offers.table.matches_all((wanted,)).any():
        return True
    owned = machines_of(pool.node_class)
    if any(wanted.admits(node.labels) for node in world.owned_nodes.values() if node.name in owned):
        return True
    column = _book_labels(world.book).get(wanted.key)
    if column is None:
        return wanted.admits({})
    return _required(wanted, pool) and bool((column.admitted(_admits(wanted)) & _of_class(pool, world.book)).any())


def _required(wanted: LabelRequirement, pool: PlannedPool) -> bool:
    """Whether the pool's requirements leave one of the values."""
    try:
        rows = pool.pool.spec.template.spec.requirements
        allowed = together(LabelRequirement(row.key, row.operator, row.values) for row in rows).get(wanted.key)
    except Malformed:
        return True
    return allowed is None or wanted.operator != "In" or any(map(value_check(wanted.key, allowed), wanted.values))


def _admits(wanted: LabelRequirement) -> Callable[[str | None], bool]:
    return lambda value: wanted.admits({} if value is None else {wanted.key: value})


def _of_class(pool: PlannedPool, book: PriceBook) -> Bools:
    """Rows of the book whose source the class has."""
    used: Bools = np.array([state.source in pool.sources for state in book.sources], np.bool_)[book.source_of]
    return used


def _with_own_labels(table: SourceTable, rows: Index, world: PlanInput) -> SourceTable:
    """Machines you own have the labels of their Nodes, too."""
    if not world.owned_nodes:
        return table
    found: dict[int, dict[str, str]] = {}
    for place, row in enumerate(rows.tolist()):
        node = world.owned_nodes.get(world.book.offers[row].key)
        if node is not None:
            ours = {key: text for key, column in table.labels.items() if (text := column.at(place)) is not None}
            found[place] = labels_with(node, ours)
    labels = dict(table.labels)
    for key in sorted({key for each in found.values() for key in each}):
        held = labels.get(key)
        values = [held.at(place) if held is not None else None for place in range(table.size)]
        for place, own in found.items():
            values[place] = own.get(key)
        labels[key] = label_column(values)
    return SourceTable(table.size, labels, table.taints, table.taint_place)


def _taints(template: NodeTemplate, book: PriceBook, rows: Index) -> tuple[tuple[tuple[Taint, ...], ...], Index]:
    columns = book.columns
    kinds = (columns.boot[rows] == _POWER) * 2 + (columns.trust[rows] < Trust.DATACENTER.value)
    _, representative, place = np.unique(kinds, return_index=True, return_inverse=True)
    taints = tuple(template_taints(template, book.offers[rows[each]]) for each in representative.tolist())
    return taints or ((),), place.astype(np.intp)


@lru_cache(maxsize=2)
def _book_labels(book: PriceBook) -> Mapping[str, LabelColumn]:
    """Labels that the offers decide, by row of the book. A book never changes, so the last two are kept."""
    kinds: dict[tuple[object, ...], int] = {}
    first: list[Offer] = []
    place = np.empty(len(book), np.intp)
    for number, offer in enumerate(book.offers):
        kind = (offer.provider, offer.gpu, offer.gpu_count, offer.gpu_memory_gib, offer.region, offer.place, offer.spot)
        found = kinds.setdefault(kind, len(first))
        if found == len(first):
            first.append(offer)
        place[number] = found
    written = [offer_labels(offer) for offer in first]
    keys = written[0].keys() if written else ()
    labels = {
        key: _coarser(label_column([label_value(each[key]) or None for each in written]), place)
        for key in keys
        if key != INSTANCE_TYPE
    }
    labels[INSTANCE_TYPE] = label_column([label_value(offer.instance_type) or None for offer in book.offers])
    labels[ARCH] = LabelColumn(book.columns.words.archs or (None,), book.columns.arch.astype(np.intp))
    return labels


def _coarser(column: LabelColumn, place: Index) -> LabelColumn:
    return LabelColumn(column.values, column.place[place])
