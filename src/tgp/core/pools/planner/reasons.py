"""Why pods are not served, and why an order is not a cheaper machine: every offer has exactly one reason."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tgp.core.classes.machines_status import cooling_machines
from tgp.core.market.ranking_messages import REASONS_SHOWN, machine, miss_words
from tgp.core.model.arrays import Bools, Codes, Index, np
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.money import about
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer_query import RejectReason
from tgp.core.model.price_book import OfferRow, PriceBook
from tgp.core.model.resources import CPU, MEMORY, amount_text
from tgp.core.model.taints import Taint
from tgp.core.pools.planner.offers import FITS, REASONS, UNAVAILABLE, PoolOffers, may_match
from tgp.core.pools.planner.problem import Limit, Pattern
from tgp.core.pools.planner.rows import DemandRow, own_price, own_price_until, ports_taken
from tgp.core.pools.planner.sources import SourceSet
from tgp.core.pools.planner.volumes import reached_by
from tgp.core.pools.planner.world import NO_POOL, PlannedPool, PoolReason

# Reasons of a pod, after those of the pool: from what can never fit to what nearly does.
SELECTED = "not matched by the pod's node selector or affinity"
TAINTED = "taint not tolerated by the pod"
NOT_TRUSTED = "marketplace host, which the pod's namespace does not allow"
OUT_OF_REACH = "where the pod's volumes cannot be attached"
PORT_TAKEN = "host port already used by a DaemonSet"
TOO_SMALL = "too small"
TOPOLOGY = "excluded by the pod's topology spread or affinity"
OWN_PRICE = "above the pod's own price"
FAILED_BEFORE = "failed for this pod before"
LIMITED = "over a limit"
TAKEN = "taken by other pods"
POD_REASONS = (
    SELECTED,
    TAINTED,
    NOT_TRUSTED,
    OUT_OF_REACH,
    PORT_TAKEN,
    TOO_SMALL,
    OWN_PRICE,
    LIMITED,
    FAILED_BEFORE,
    TOPOLOGY,
    TAKEN,
)
_ALL = (*REASONS, *POD_REASONS)
# Reasons of a pool, the one that came nearest to serving a pod first. One that is not here: the pool buys nothing.
NEARNESS = (
    "LimitReached",
    "OwnPrice",
    "TooSmall",
    "MachinesCoolingDown",
    "NoOfferFits",
    "ProviderUnavailable",
    "TaintNotTolerated",
    "NamespaceNotAllowed",
)
MISMATCH = "NodeSelectorMismatch"  # no machine of the pool can ever have a label that the pod selects


@dataclass(frozen=True, slots=True)
class Explaining:
    """What is known when a plan is made: sources, and what is left of limits."""

    sources: SourceSet
    limits: tuple[Limit, ...]
    left: tuple[float, ...]  # of each limit
    _known: dict[tuple[int, ...], Codes] = field(default_factory=dict)  # by what decides
    _matched: dict[tuple[LabelRequirement, ObjectKey], bool] = field(default_factory=dict)
    _lowest: dict[tuple[int, int], str] = field(default_factory=dict)  # prices in words, by need and mask

    def pool_reasons(self, row: DemandRow, pools: Iterable[PlannedPool]) -> tuple[PoolReason, ...]:
        """One of each pool: what a user can most likely change first, pools that the pod does not select last."""
        return tuple(sorted((self._pool_reason(row, pool) for pool in pools), key=_nearness))

    def _pool_reason(self, row: DemandRow, pool: PlannedPool) -> PoolReason:
        """Why this pool does not serve the pods of a row."""
        offers = next((each for each in self.sources.offers if each.pool is pool), None)
        if lacking := [each for each in _selected(row) if not self._may_match(each, pool, offers)]:
            words = ", ".join(map(str, lacking[:REASONS_SHOWN]))
            return PoolReason(pool.key, MISMATCH, f"machines lack {words} of the pod's node selector or affinity")
        if pool.stopped:
            reason, _, message = pool.stopped.partition(": ")
            return PoolReason(pool.key, reason, message)
        namespace = row.pod.key.namespace
        if namespace not in pool.namespaces:
            why = f"GPUNodeClass {pool.class_name} does not allow namespace {namespace}"
            return PoolReason(pool.key, "NamespaceNotAllowed", why)
        assert offers is not None, "a pool that is not stopped has a table"
        verdicts = self.verdicts(row, offers)
        counts = Counter(verdicts.tolist())
        words = _summary(counts, len(verdicts))
        nearest = _ALL[max(counts)] if counts else ""
        if nearest == LIMITED:
            limit = self._limit_words(row, offers)
            return PoolReason(pool.key, "LimitReached", f"{words}; {limit}", limit)
        if nearest == TAINTED:
            return PoolReason(pool.key, "TaintNotTolerated", f"{words}; {self._taint_words(row, offers)}")
        if nearest == TOO_SMALL:
            return PoolReason(pool.key, "TooSmall", f"{words}; {self._size_words(row, offers)}")
        if nearest == OWN_PRICE:
            return PoolReason(pool.key, "OwnPrice", f"{words}; {self._price_words(row)}")
        if nearest == UNAVAILABLE:
            return PoolReason(pool.key, "ProviderUnavailable", f"{words}; {offers.unavailable}")
        world = self.sources.world
        cooling = cooling_machines(pool.node_class, world.book, world.cooldowns, world.now)
        if cooling:
            return PoolReason(pool.key, "MachinesCoolingDown", "; ".join((words, *cooling[:REASONS_SHOWN])))
        return PoolReason(pool.key, "NoOfferFits", f"{words}{self._nearest_words(verdicts, offers)}")

    def _may_match(self, wanted: LabelRequirement, pool: PlannedPool, offers: PoolOffers | None) -> bool:
        """Asked once of each pool: many pods select the same."""
        key = (wanted, pool.key)
        if key not in self._matched:
            self._matched[key] = may_match(wanted, pool, offers, self.sources.world)
        return self._matched[key]

    def verdicts(self, row: DemandRow, offers: PoolOffers) -> Codes:
        """By row of the book: into the reasons. They add up to all offers. Rows of equal need and masks share them."""
        key = (id(row.need), id(row.mask), id(row.whole), id(offers))
        if key not in self._known:
            self._known[key] = self._judged(row, offers)
        return self._known[key]

    def _judged(self, row: DemandRow, offers: PoolOffers) -> Codes:
        sources = self.sources
        verdicts = offers.codes.copy()
        mine = np.flatnonzero(sources.pool == sources.offers.index(offers))
        rows = sources.row[mine]
        open_to = verdicts[rows] == FITS
        for reason, fails in self._checks(row, mine):
            hit = open_to & fails
            verdicts[rows[hit]] = _ALL.index(reason)
            open_to &= ~fails
        verdicts[rows[open_to]] = _ALL.index(TAKEN)
        return verdicts

    def _checks(self, row: DemandRow, mine: Index) -> list[tuple[str, Bools]]:
        sources, pod = self.sources, row.pod
        table, world = sources.table, sources.world
        price = own_price(pod, world.now)
        untrusted = np.array([pod.key.namespace in each.pool.untrusted_namespaces for each in sources.offers], np.bool_)
        return [
            (SELECTED, ~table.selected_by(pod)[mine]),
            (TAINTED, ~table.tolerated_by(pod)[mine]),
            (NOT_TRUSTED, ~(sources.trusted[mine] | untrusted[sources.pool[mine]])),
            (OUT_OF_REACH, ~reached_by(pod, world, table)[mine]),
            (PORT_TAKEN, ports_taken(pod, sources)[mine]),
            (TOO_SMALL, np.any(sources.capacity[mine] < row.need, axis=1)),
            (OWN_PRICE, sources.per_gpu[mine] > price if price is not None else np.zeros(len(mine), np.bool_)),
            (LIMITED, sources.uncounted[mine] | self._over(mine)),
            (FAILED_BEFORE, ~row.whole[mine]),
            (TOPOLOGY, ~row.mask[mine]),
        ]

    def _over(self, mine: Index) -> Bools:
        over = np.zeros(len(mine), np.bool_)
        for limit, left in zip(self.limits, self.left, strict=True):
            over |= limit.use[mine] > left
        return over

    def _nearest_words(self, verdicts: Codes, offers: PoolOffers) -> str:
        """The cheapest of the offers that came nearest, and by how much it missed: what is easiest to change."""
        if not len(verdicts):
            return ""
        book, world = self.sources.world.book, self.sources.world
        row = int(np.argmax(verdicts))  # the book is in the order of prices
        code = int(verdicts[row])
        if code >= len(RejectReason):
            return f"; nearest: {machine(book.offers[row])}, {_ALL[code]}"
        missed = OfferRow(book.offers[row], *_seen(book, row))
        return f"; nearest: {miss_words(list(RejectReason)[code], missed, offers.query, world.now)}"

    def _limit_words(self, row: DemandRow, offers: PoolOffers) -> str:
        """The limit that keeps most of the offers away that nothing else does."""
        mine = np.flatnonzero(self.sources.pool == self.sources.offers.index(offers))
        mine = mine[self.verdicts(row, offers)[self.sources.row[mine]] == _ALL.index(LIMITED)]
        kept = {
            limit.name: np.count_nonzero(limit.use[mine] > left)
            for limit, left in zip(self.limits, self.left, strict=True)
        }
        most = max(kept, key=lambda name: kept[name], default="")
        return most if most and kept[most] else "a limit counts what the provider does not report"

    def _taint_words(self, row: DemandRow, offers: PoolOffers) -> str:
        missing = _missing(row, offers)
        names = ", ".join(f"{{key: {each.key}, operator: Exists, effect: {each.effect}}}" for each in missing)
        return f"to use them, add to the pod's tolerations: {names}" if missing else "the pod tolerates no such taint"

    def _size_words(self, row: DemandRow, offers: PoolOffers) -> str:
        """The resource that the most machines have too little of, and the most that one has."""
        sources = self.sources
        mine = sources.pool == sources.offers.index(offers)
        if not mine.any():
            return "no machine is large enough"
        short = (sources.capacity[mine] < row.need).sum(axis=0)
        worst = int(np.argmax(short))
        name, most = sources.resources[worst], float(sources.capacity[mine, worst].max())
        wanted = amount_text(name, float(row.need[worst]))
        if not most and name in (CPU, MEMORY):
            return f"the pod requests {wanted}, which no offer reports"
        return f"the pod requests {wanted}, the largest machine has {amount_text(name, most)}"

    def _price_words(self, row: DemandRow) -> str:
        pod = row.pod
        ceiling, until = own_price(pod, self.sources.world.now), own_price_until(pod)
        key = (id(row.need), id(row.mask))
        if key not in self._lowest:
            self._lowest[key] = self._lowest_words(row)
        now = self._lowest[key]
        ends = f"until {until:%Y-%m-%d %H:%M} UTC" if until is not None else "for as long as it waits"
        return f"the pod pays at most {about(ceiling or 0)} per GPU and hour {ends}; {now}".rstrip("; ")

    def _lowest_words(self, row: DemandRow) -> str:
        sources = self.sources
        large = (sources.row >= 0) & (sources.capacity >= row.need).all(axis=1)
        fitting = np.flatnonzero(sources.table.admits(row.pod) & large)
        return f"the lowest price now is {about(int(sources.per_gpu[fitting].min()))}" if len(fitting) else ""

    def compared(self, source: int, pods: Pattern, rows: Sequence[DemandRow]) -> str:
        """The next cheaper machine that the same pool could launch, and why it does not serve these pods.

        Of several pods, the reason of the one that is farthest from it.
        """
        sources = self.sources
        place = int(sources.pool[source])
        book = sources.world.book
        end = int(np.searchsorted(book.columns.price, book.columns.price[sources.row[source]]))  # it is in that order
        if not end:
            return "no offer is cheaper"
        each = [self.verdicts(rows[number], sources.offers[place])[:end] for number, _ in pods]
        verdicts = np.minimum.reduce(each)
        best = int(np.flatnonzero(verdicts == verdicts.max())[-1])
        why = _ALL[int(verdicts[best])]
        if why == TAKEN:
            mine = np.flatnonzero(sources.pool == place)
            others = mine[sources.row[mine] == best]
            bears = np.logical_and.reduce([rows[number].whole[others] for number, _ in pods])
            other = int(others[np.argmax(bears)])  # the one with the least work that is lost
            need = np.sum([rows[number].need * amount for number, amount in pods], axis=0)
            if (sources.capacity[other] < need).any():
                why = f"too small for these {sum(amount for _, amount in pods)} pods together"
            elif sources.charge[other] > sources.charge[source] and sources.spot_loss[other] > 0:
                why = f"{about(int(sources.charge[other]))}/h with the work that is lost with it"
        return f"next cheaper machine: {machine(book.offers[best])}, {why}"


def _seen(book: PriceBook, row: int) -> tuple[str, datetime]:
    """Under which source an offer is listed, and when that was read."""
    state = book.sources[book.source_of[row]]
    return state.source, state.seen_at or datetime.min.replace(tzinfo=UTC)


def everywhere(reason: str, message: str) -> tuple[PoolReason, ...]:
    """One reason that is no pool's."""
    return (PoolReason(NO_POOL, reason, message),)


def _missing(row: DemandRow, offers: PoolOffers) -> list[Taint]:
    """Taints of the pool's machines that the pod does not tolerate: those of the easiest machines."""
    missing: list[list[Taint]] = []
    for place in sorted(set(offers.table.taint_place.tolist())):
        hard = [each for each in offers.table.taints[place] if each.effect != "PreferNoSchedule"]
        missing.append([each for each in hard if not any(one.covers(each) for one in row.pod.tolerations)])
    return min(missing, key=len, default=[])


def _summary(counts: Counter[int], total: int) -> str:
    """The nearest misses first."""
    if not total:
        return "no offers are known"
    nearest = sorted(counts.items(), reverse=True)
    shown = [f"{count} {_ALL[code]}" for code, count in nearest[:REASONS_SHOWN]]
    hidden = dict(nearest[REASONS_SHOWN:])
    if hidden:
        most = _ALL[max(hidden, key=lambda code: (hidden[code], code))]
        shown.append(f"{sum(hidden.values())} others{f', most {most}' if len(hidden) > 1 else f' {most}'}")
    return f"none of {total} offers fits: {', '.join(shown)}"


def _selected(row: DemandRow) -> list[LabelRequirement]:
    """What a pod's Node must match, as far as every alternative of its affinity says so."""
    pod = row.pod
    found = [LabelRequirement(key, "In", (value,)) for key, value in pod.node_selector.items()]
    terms = pod.affinity.node_terms
    return [*found, *terms[0].labels] if terms is not None and len(terms) == 1 else found


def _nearness(reason: PoolReason) -> int:
    if reason.reason == MISMATCH:
        return len(NEARNESS) + 1
    return NEARNESS.index(reason.reason) if reason.reason in NEARNESS else len(NEARNESS)
