"""Everything machines may come from, in one table: what is there already first, then the offers of each pool."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tgp.api.common import canonical_provider
from tgp.api.field_error import Invalid
from tgp.api.values import duration
from tgp.core.inventory.limits import GIB, NODES, USD
from tgp.core.market.offer_filters import NO_POLICY
from tgp.core.model.arrays import Bools, Floats, Index, Ints, Small, np
from tgp.core.model.columns import AS_MANY_AS_ASKED, BOOT_MODES
from tgp.core.model.gpus import GPU_RESOURCES, resource_name
from tgp.core.model.offer import BootMode, Offer, Stock, Trust
from tgp.core.model.offer_query import Selection
from tgp.core.model.pod import Pod
from tgp.core.model.resources import CPU, MEMORY, Resources
from tgp.core.model.taints import Taint
from tgp.core.pools.planner.classes import CHECKPOINT_EVERY
from tgp.core.pools.planner.masks import SourceTable, label_column, stacked
from tgp.core.pools.planner.offers import PoolOffers
from tgp.core.pools.planner.problem import Limit
from tgp.core.pools.planner.world import (
    ASSUMED_SPOT_LOSS,
    PRICE_MARGIN,
    Capacity,
    LimitRoom,
    PlanInput,
    PlannedPool,
)
from tgp.core.requests.bids import DEFAULT_MARGIN, bid

PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS_PER_NODE = 110  # the kubelet's default
KERNEL_SHARE = 0.075  # of a machine's memory, for the kernel and the kubelet, until a machine of the type was seen
SYSTEM_CPU_MILLI = 200  # the same of its CPU
ASSUMED_LEFT = {Stock.CONFIRMED: 16, Stock.LIKELY: 4, Stock.UNKNOWN: 2}  # where the provider does not tell
MOST_LEFT = 10_000
MOST_WEIGHT = 100  # of a pool
RESTART_HOURS = 1 / 3  # ten minutes of work lost and ten minutes to boot again, where a pod says nothing
BOOT_HOURS = 1 / 6  # of these, the ten minutes to boot
MOST_LOST_HOURS = 720.0  # of work, by the loss of one machine
MOST_KINDS = 4  # of how much work is lost, in one plan, beside the usual: others count as the next longer one
WOKEN_FOR_HOURS = 4.0  # over which the time that a machine you own takes to wake is spread
UNKNOWN_USE = float("inf")


@dataclass(frozen=True, eq=False)
class SourceSet:
    """Arrays are by source."""

    world: PlanInput
    offers: tuple[PoolOffers, ...]
    resources: tuple[str, ...]
    table: SourceTable
    capacity: Floats  # by resource, too
    price: Floats  # micro-dollars an hour, as listed or bid; 0: there already
    stock: Ints
    pool: Index  # into `offers`; -1: there already
    row: Index  # of the book; -1: there already
    lost_hours: Floats  # what the loss of a machine costs: pods that would lose more do not go there

    @property
    def size(self) -> int:
        return len(self.price)

    @property
    def there(self) -> int:
        """So many of them are there already, or on their way; they stand first."""
        return len(self.world.capacity)

    @cached_property
    def charge(self) -> Floats:
        """The price, for spot machines what their loss is expected to cost, for machines you own what it is to wake."""
        charge: Floats = self.price * (1 + self.spot_loss * self.lost_hours + self._boot_hours / WOKEN_FOR_HOURS)
        return charge

    @cached_property
    def _boot_hours(self) -> Floats:
        """How long a machine you own took to wake, as measured; 0: not measured, or another machine."""
        hours = np.zeros(self.size)
        book = self.world.book
        bought = np.flatnonzero(self.row >= 0) if self.world.shapes else np.zeros(0, np.intp)
        for source in bought[book.columns.boot[self.row[bought]] == _POWER].tolist():
            shape = self.world.shapes.get(book.offers[self.row[source]].key)
            hours[source] = shape.boot_seconds / 3600 if shape is not None else 0.0
        return hours

    @cached_property
    def spot_loss(self) -> Floats:
        """The chance that a spot machine is lost within an hour; 0 for all others."""
        loss = np.zeros(self.size)
        book = self.world.book
        bought = np.flatnonzero(self.row >= 0)
        for source in bought[book.columns.spot[self.row[bought]].astype(np.bool_)].tolist():
            offer = book.offers[self.row[source]]
            loss[source] = self.world.spot_loss.get((offer.provider, offer.gpu), ASSUMED_SPOT_LOSS)
        return loss

    def bears(self, pod: Pod) -> Bools:
        """Sources whose charge counts what their loss costs this pod: all that are never lost, and some of the others.

        A spot offer is several sources, one for each amount of work. So a machine is charged for that of its pods that
        loses most, whatever else is on it.
        """
        bears: Bools = (self.spot_loss == 0) | (
            self.lost_hours >= min(lost_hours(pod), self.lost_hours.max(initial=0.0))
        )
        return bears

    @cached_property
    def trusted(self) -> Bools:
        trusted = np.ones(self.size, np.bool_)
        bought = self.row >= 0
        trusted[bought] = self.world.book.columns.trust[self.row[bought]] >= Trust.DATACENTER.value
        return trusted

    @cached_property
    def per_gpu(self) -> Floats:
        """Micro-dollars an hour of one GPU."""
        gpus = np.ones(self.size)
        bought = self.row >= 0
        gpus[bought] = self.world.book.columns.gpu_count[self.row[bought]]
        per_gpu: Floats = np.ceil(self.price / gpus)
        return per_gpu

    @cached_property
    def tier(self) -> Ints:
        """0: there already; then in the order in which pools and, where a class selects so, providers are asked."""
        weight = np.array([-1, *(MOST_WEIGHT - each.pool.pool.spec.weight for each in self.offers)])[self.pool + 1]
        priority = np.zeros(self.size, np.int64)
        for place, each in enumerate(self.offers):
            if each.query.selection is Selection.PRIORITY:
                mine = np.flatnonzero(self.pool == place)
                priority[mine] = self._priorities(each)[self.world.book.source_of[self.row[mine]]]
        _, tier = np.unique(np.stack([weight, priority]), axis=1, return_inverse=True)
        return tier.reshape(-1).astype(np.int64) + (0 if self.there else 1)

    def _priorities(self, offers: PoolOffers) -> Ints:
        """By source of the book."""
        policies = offers.query.policies or {}
        named = [policies.get(state.source, NO_POLICY).priority for state in self.world.book.sources]
        return np.array(named, np.int64)

    @cached_property
    def shelf(self) -> Index | None:
        """Pools that may buy the same offer draw on one stock. None: no two may."""
        bought = self.row >= 0
        _, shelf = np.unique(self.row[bought], return_inverse=True)
        if len(shelf) == int(shelf.max(initial=-1)) + 1:
            return None
        return np.concatenate([np.arange(self.there), self.there + shelf.reshape(-1)]).astype(np.intp)

    def offer(self, source: int) -> Offer:
        return self.world.book.offers[int(self.row[source])]

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        return tuple(
            Limit(room.name, np.where(np.isinf(use), 0.0, use), float(max(room.left, 0)))
            for room, use in zip(self.world.limits, self._uses, strict=True)
        )

    @cached_property
    def uncounted(self) -> Bools:
        """Whether a limit counts something that the provider does not tell: such a machine is not bought."""
        uncounted = np.zeros(self.size, np.bool_)
        for use in self._uses:
            uncounted |= np.isinf(use)
        return uncounted

    @cached_property
    def _uses(self) -> tuple[Floats, ...]:
        return tuple(self._use(room) for room in self.world.limits)

    def _use(self, room: LimitRoom) -> Floats:
        """What one machine takes of a limit. Where a provider does not tell, it takes more than there is."""
        use = np.zeros(self.size)
        counted = np.array([each.pool.key in room.pools for each in self.offers], np.bool_)
        sources = np.flatnonzero(self.row >= 0)
        sources = sources[counted[self.pool[sources]]] if len(counted) else sources[:0]
        columns, rows = self.world.book.columns, self.row[sources]
        match room.resource:
            case "usd":
                use[sources] = self._most_billed(sources)
            case "nodes":
                use[sources] = 1.0
            case "cpu":
                use[sources] = _or_unknown(columns.vcpus[rows], 1000.0)
            case "memory":
                use[sources] = _or_unknown(columns.memory[rows], float(GIB))
            case resource if resource not in GPU_RESOURCES:  # nothing counts it
                use[sources] = UNKNOWN_USE
            case resource:
                named = np.array([resource_name(gpu) == resource for gpu in columns.words.gpus], np.bool_)
                use[sources] = np.where(named[columns.gpu[rows]], columns.gpu_count[rows], 0)
        return use

    def _most_billed(self, sources: Index) -> Floats:
        """What counts against a limit until the machine is billed: the most that its request may pay."""
        columns, rows = self.world.book.columns, self.row[sources]
        ceilings = np.array(
            [
                each.query.max_hourly_microusd if each.query.max_hourly_microusd is not None else np.inf
                for each in self.offers
            ]
        )[self.pool[sources]]
        fixed = (columns.boot[rows] == _POWER) | (columns.spot[rows] & (columns.host_sum[rows] != 0))
        most = np.minimum(self.price[sources] + np.ceil(self.price[sources] / PRICE_MARGIN), ceilings)
        return np.where(fixed, self.price[sources], most)


assert (USD, NODES, CPU, MEMORY) == ("usd", "nodes", "cpu", "memory"), "the cases of SourceSet._use"
_POWER = BOOT_MODES.index(BootMode.POWER)


def sources_of(world: PlanInput, offers: Sequence[PoolOffers], resources: tuple[str, ...]) -> SourceSet:
    there = _table_of(world.capacity)
    kinds = _lost_hours(world.pods)
    places, lost = zip(*(_by_loss(world, each, kinds) for each in offers), strict=True) if offers else ((), ())
    table = stacked([there, *(each.table.taken(place) for each, place in zip(offers, places, strict=True))])
    bought = [each.rows[place] for each, place in zip(offers, places, strict=True)]
    rows = np.concatenate([np.full(there.size, -1), *bought]).astype(np.intp)
    pool = np.repeat(np.arange(-1, len(offers)), [there.size, *map(len, bought)]).astype(np.intp)
    capacity = np.zeros((table.size, len(resources)))
    if there.size:
        capacity[: there.size] = [_amounts(each.free, resources) for each in world.capacity]
    capacity[there.size :] = _offered(world, rows[there.size :], resources)
    _subtract_daemon_sets(world, table, capacity, resources)
    price = np.zeros(table.size)
    price[there.size :] = _prices(world, offers, rows[there.size :], pool[there.size :])
    stock = np.ones(table.size, np.int64)
    stock[there.size :] = _stock(world, rows[there.size :])
    hours = np.concatenate([np.full(there.size, RESTART_HOURS), *lost])
    return SourceSet(world, tuple(offers), resources, table, np.maximum(capacity, 0), price, stock, pool, rows, hours)


def lost_hours(pod: Pod) -> float:
    """What the loss of its machine costs a pod: half of the time between two checkpoints, and the time to boot again.

    Of a pod that does not say how often it writes one nothing is known before it runs.
    """
    written = pod.annotations.get(CHECKPOINT_EVERY) if pod.annotations else None
    return RESTART_HOURS if written is None else _read_lost_hours(written)


@lru_cache(maxsize=256)
def _read_lost_hours(written: str) -> float:
    try:
        work = duration(written, CHECKPOINT_EVERY).total_seconds() / 3600 / 2
    except (Invalid, OverflowError):
        return RESTART_HOURS
    return min(max(work + BOOT_HOURS, RESTART_HOURS), MOST_LOST_HOURS)


def _lost_hours(pods: Iterable[Pod]) -> tuple[float, ...]:
    """The amounts of work that are told apart, beside the usual one: the longest is always among them."""
    annotated = {id(pod.annotations): pod for pod in pods if pod.annotations}
    found = sorted({lost_hours(pod) for pod in annotated.values()} - {RESTART_HOURS})
    few = -(-len(found) // MOST_KINDS) if found else 1
    return tuple(found[::-1][::few][::-1])


def _by_loss(world: PlanInput, offers: PoolOffers, kinds: Sequence[float]) -> tuple[Index, Floats]:
    """Places of a pool's offers, in order, those of spot machines once for each amount of work; and these amounts."""
    places = np.arange(len(offers.rows), dtype=np.intp)
    spot = places[world.book.columns.spot[offers.rows].astype(np.bool_)] if kinds else places[:0]
    every = np.concatenate([places, *(spot for _ in kinds)])
    hours = np.concatenate([np.full(len(places), RESTART_HOURS), *(np.full(len(spot), kind) for kind in kinds)])
    order = np.argsort(every, kind="stable")
    return every[order].astype(np.intp), hours[order]


def _table_of(capacity: Sequence[Capacity]) -> SourceTable:
    keys = dict.fromkeys(key for each in capacity for key in each.labels)
    taints: dict[tuple[Taint, ...], int] = {}
    place = np.array([taints.setdefault(each.taints, len(taints)) for each in capacity], np.intp)
    return SourceTable(
        len(capacity),
        {key: label_column([each.labels.get(key) for each in capacity]) for key in keys},
        tuple(taints),
        place,
        tuple(each.name for each in capacity),
    )


def _amounts(resources: Resources, names: Iterable[str]) -> list[float]:
    return [float(resources.of(name)) for name in names]


def _offered(world: PlanInput, rows: Index, resources: tuple[str, ...]) -> Floats:
    """What pods may use of one machine of each row: what such a machine had before, or an estimate."""
    columns = world.book.columns
    amounts = np.zeros((len(rows), len(resources)))
    for place, name in enumerate(resources):
        match name:
            case "cpu":
                amounts[:, place] = _known(columns.vcpus[rows]) * 1000.0 - SYSTEM_CPU_MILLI
            case "memory":
                amounts[:, place] = np.floor(_known(columns.memory[rows]) * float(GIB) * (1 - KERNEL_SHARE))
            case "pods":
                amounts[:, place] = PODS_PER_NODE
            case "ephemeral-storage":
                disks = np.array([world.book.offers[row].disk_gib for row in rows.tolist()], np.float64)
                amounts[:, place] = np.floor(disks * float(GIB) * (1 - KERNEL_SHARE))
            case _:
                named = np.array([resource_name(gpu) == name for gpu in columns.words.gpus], np.bool_)
                if len(named):
                    amounts[:, place] = np.where(named[columns.gpu[rows]], columns.gpu_count[rows], 0)
    if world.shapes:
        for number, row in enumerate(rows.tolist()):
            shape = world.shapes.get(world.book.offers[row].key)
            if shape is not None:
                amounts[number] = _amounts(shape.allocatable, resources)
    return amounts


def _known(column: Small) -> Floats:
    """0 where a provider leaves the amount to the order, or does not tell it."""
    return np.where(column == AS_MANY_AS_ASKED, 0, column).astype(np.float64)


def _or_unknown(column: Small, unit: float) -> Floats:
    known = _known(column)
    return np.where(known > 0, known * unit, UNKNOWN_USE)


def _subtract_daemon_sets(world: PlanInput, table: SourceTable, capacity: Floats, resources: tuple[str, ...]) -> None:
    """From machines that have not joined yet: on the others these pods run already."""
    new = not_joined(world, table.size)
    if not new.any():
        return
    for daemon_set in world.daemon_sets:
        needs = np.array([1.0 if name == PODS else float(daemon_set.requests.of(name)) for name in resources])
        capacity[table.admits(daemon_set) & new] -= needs


def not_joined(world: PlanInput, sources: int) -> Bools:
    """By source: whether its machines have no pods of DaemonSets yet."""
    new = np.ones(sources, np.bool_)
    new[: len(world.capacity)] = [each.coming is not None for each in world.capacity]
    return new


def _prices(world: PlanInput, offers: Sequence[PoolOffers], rows: Index, pool: Index) -> Floats:
    """As listed. For a spot machine on a marketplace: what a request would bid."""
    columns = world.book.columns
    prices = columns.price[rows].astype(np.float64)
    for place in np.flatnonzero(columns.spot[rows] & (columns.host_sum[rows] != 0)).tolist():
        offered = offers[int(pool[place])]
        offer = world.book.offers[int(rows[place])]
        bidding = bid(offer, _margin(offered.pool, offer.provider), offered.query.max_hourly_microusd)
        prices[place] = bidding if bidding is not None else prices[place]
    return prices


def _margin(pool: PlannedPool, provider: str) -> float:
    for entry in pool.node_class.spec.providers:
        if canonical_provider(entry.name) == provider and entry.settings is not None and entry.settings.bid_margin:
            return entry.settings.bid_margin
    return DEFAULT_MARGIN


def _stock(world: PlanInput, rows: Index) -> Ints:
    """As the provider tells, or a few; twice as many after each launch that succeeded."""
    stock = np.empty(len(rows), np.int64)
    for place, row in enumerate(rows.tolist()):
        offer = world.book.offers[row]
        if offer.boot is BootMode.POWER:
            stock[place] = 1
        elif offer.left is not None:
            stock[place] = min(offer.left, MOST_LEFT)
        else:
            doubled = min(world.successes.get(offer.key, 0), 10) if world.successes else 0
            stock[place] = min(ASSUMED_LEFT.get(offer.stock, 0) << doubled, MOST_LEFT)
        if world.taken:
            stock[place] = max(stock[place] - world.taken.get(offer.key, 0), 0)
    return stock
