"""The rules of a query, each over many offers at once: which of these rows does the rule reject?

One function per reason. Rows are numbers of lines in the book; the answer says of each whether it fails.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TypeAlias

import msgspec

from tgp.core.model.arrays import Bools, Index, Sums, np
from tgp.core.model.columns import BOOT_MODES, Columns, checksum, seconds
from tgp.core.model.cooldowns import account_key
from tgp.core.model.gpus import family_members
from tgp.core.model.offer import BootMode, Offer, Stock
from tgp.core.model.offer_query import Kinds, OfferQuery, RejectReason, SourcePolicy
from tgp.core.model.price_book import PriceBook
from tgp.core.model.regions import region_fits

NO_POLICY = SourcePolicy()
_CONTAINER = BOOT_MODES.index(BootMode.CONTAINER)


class FilterInput(msgspec.Struct, frozen=True):
    """What is asked of the book, and when."""

    book: PriceBook
    query: OfferQuery
    now: datetime

    @property
    def columns(self) -> Columns:
        return self.book.columns

    def per_source(self, verdict: Callable[[str], bool], rows: Index) -> Bools:
        """A result for each source, spread over its rows."""
        verdicts = np.array([verdict(state.source) for state in self.book.sources], np.bool_)
        spread: Bools = verdicts[self.book.source_of[rows]]
        return spread

    def policy(self, source: str) -> SourcePolicy | None:
        """None: the class does not use it."""
        policies = self.query.policies
        return NO_POLICY if policies is None else policies.get(source)


Rule: TypeAlias = Callable[[FilterInput, Index], Bools]


def _none(rows: Index) -> Bools:
    return np.zeros(len(rows), np.bool_)


def _not_in_class(asked: FilterInput, rows: Index) -> Bools:
    return asked.per_source(lambda source: asked.policy(source) is None, rows)


def _disabled(asked: FilterInput, rows: Index) -> Bools:
    return asked.per_source(lambda source: not (asked.policy(source) or NO_POLICY).enabled, rows)


def _other_provider(asked: FilterInput, rows: Index) -> Bools:
    query, columns = asked.query, asked.columns
    if not query.provider:
        return _none(rows)
    meant = np.array([provider == query.provider for provider in columns.words.providers], np.bool_)
    return ~meant[columns.provider[rows]]


def _another_offer(asked: FilterInput, rows: Index) -> Bools:
    query, columns = asked.query, asked.columns
    if not query.instance_type:
        return _none(rows)
    alike = columns.type_sum[rows] == checksum(query.instance_type)
    return ~_truly(asked, rows, alike, lambda offer: offer.instance_type == query.instance_type)


def _wrong_gpu(asked: FilterInput, rows: Index) -> Bools:
    """An offer that names only a GPU family matches a query that accepts every member of the family."""
    query, columns = asked.query, asked.columns
    if not query.models:
        return _none(rows)
    wanted = frozenset(model for name in query.models for model in (family_members(name) or (name,)))
    fits = np.array([wanted.issuperset(family_members(gpu) or (gpu,)) for gpu in columns.words.gpus], np.bool_)
    fails: Bools = ~fits[columns.gpu[rows]]
    return fails


def _wrong_count(asked: FilterInput, rows: Index) -> Bools:
    count = asked.query.gpu_count
    return _none(rows) if count is None else asked.columns.gpu_count[rows] != count


def _little_gpu_memory(asked: FilterInput, rows: Index) -> Bools:
    return asked.columns.gpu_memory[rows] < asked.query.min_gpu_memory_gib


def _wrong_arch(asked: FilterInput, rows: Index) -> Bools:
    arch, columns = asked.query.arch, asked.columns
    if not arch:
        return _none(rows)
    fails: Bools = np.array([word != arch for word in columns.words.archs], np.bool_)[columns.arch[rows]]
    return fails


def _few_vcpus(asked: FilterInput, rows: Index) -> Bools:
    return asked.columns.vcpus[rows] < asked.query.min_vcpus


def _little_memory(asked: FilterInput, rows: Index) -> Bools:
    return asked.columns.memory[rows] < asked.query.min_memory_gib


def _spot_not_allowed(asked: FilterInput, rows: Index) -> Bools:
    return asked.columns.spot[rows] if asked.query.kinds is Kinds.ON_DEMAND else _none(rows)


def _not_spot(asked: FilterInput, rows: Index) -> Bools:
    return ~asked.columns.spot[rows] if asked.query.kinds is Kinds.SPOT else _none(rows)


def _wrong_region(asked: FilterInput, rows: Index) -> Bools:
    """Judged once for each place and source that is left, not once for each offer."""
    query, book, where = asked.query, asked.book, asked.columns.where
    policies = [(asked.policy(state.source) or NO_POLICY).regions for state in book.sources]
    if not (query.regions or query.class_regions or any(policies)):
        return _none(rows)
    pairs = book.source_of[rows].astype(np.int64) * len(asked.columns.words.wheres) + where[rows]
    distinct, spread = np.unique(pairs, return_inverse=True)
    verdicts = []
    for pair in distinct.tolist():
        source, place = divmod(pair, len(asked.columns.words.wheres))
        stands = asked.columns.words.wheres[place]
        rules = (query.regions, query.class_regions, policies[source])
        verdicts.append(not all(_stands_in(names, *stands) for names in rules))
    fails: Bools = np.array(verdicts, np.bool_)[spread]
    return fails


def _stands_in(names: Iterable[str], region: str, place: str, country: str) -> bool:
    asked = tuple(names)
    return not asked or any(region_fits(name, region, place, country) for name in asked)


def _cannot_boot(asked: FilterInput, rows: Index) -> Bools:
    fails: Bools = np.array([mode not in asked.query.boots for mode in BOOT_MODES], np.bool_)[asked.columns.boot[rows]]
    return fails


def _for_pods(asked: FilterInput, rows: Index) -> Bools:
    """A container never boots Talos: a policy that allows containers means pods, once a bridge runs them there."""
    fails: Bools = (asked.columns.boot[rows] == _CONTAINER) & asked.query.as_node
    return fails


def _no_driver(asked: FilterInput, rows: Index) -> Bools:
    return ~asked.columns.driven[rows] & asked.query.as_node


def _low_trust(asked: FilterInput, rows: Index) -> Bools:
    return asked.columns.trust[rows] < asked.query.min_trust


def _ends_too_soon(asked: FilterInput, rows: Index) -> Bools:
    last = seconds(asked.now) + int(asked.query.lasting.total_seconds())  # datetime arithmetic ends in the year 9999
    return asked.columns.until[rows] < last


def _stale(asked: FilterInput, rows: Index) -> Bools:
    ages = {state.source: state.age(asked.now) for state in asked.book.sources}

    def too_old(source: str) -> bool:
        age = ages[source]
        return age is None or age > asked.query.stale_after

    return asked.per_source(too_old, rows)


def _sold_out(asked: FilterInput, rows: Index) -> Bools:
    fails: Bools = asked.columns.stock[rows] == Stock.NONE.value
    return fails


def _cooling_down(asked: FilterInput, rows: Index) -> Bools:
    cooldowns, columns = asked.query.cooldowns, asked.columns
    if not (cooldowns.offers or cooldowns.hosts or cooldowns.providers or cooldowns.accounts):
        return _none(rows)
    whole = {provider for provider, mark in cooldowns.providers.items() if mark.cools_down(asked.now)}
    fails: Bools = np.array([each in whole for each in columns.words.providers], np.bool_)[columns.provider[rows]]
    barred = {account for account, mark in cooldowns.accounts.items() if mark.cools_down(asked.now)}
    fails |= asked.per_source(lambda source: account_key(source) in barred, rows)
    suspects = np.isin(columns.key_sum[rows], _sums(cooldowns.offers))
    suspects |= np.isin(columns.host_sum[rows], _sums(cooldowns.hosts))
    return fails | _truly(
        asked, rows, suspects & ~fails, lambda offer: cooldowns.against(offer, "", asked.now) is not None
    )


def _price_exceeded(asked: FilterInput, rows: Index) -> Bools:
    most = asked.query.max_hourly_microusd
    return _none(rows) if most is None else asked.columns.price[rows] > most


def _over_limit(asked: FilterInput, rows: Index) -> Bools:
    most = asked.query.headroom_microusd
    return _none(rows) if most is None else asked.columns.price[rows] > most


def _sums(names: Iterable[str]) -> Sums:
    return np.array([checksum(name) for name in names], np.uint32)


def _truly(asked: FilterInput, rows: Index, suspects: Bools, really: Callable[[Offer], bool]) -> Bools:
    """Of rows with equal checksums, the ones that are equal: checksums can collide."""
    found = _none(rows)
    for place in np.flatnonzero(suspects).tolist():
        found[place] = really(asked.book.offers[rows[place]])
    return found


RULES: Mapping[RejectReason, Rule] = {
    RejectReason.NOT_IN_CLASS: _not_in_class,
    RejectReason.DISABLED: _disabled,
    RejectReason.OTHER_PROVIDER: _other_provider,
    RejectReason.ANOTHER_OFFER: _another_offer,
    RejectReason.WRONG_GPU: _wrong_gpu,
    RejectReason.WRONG_COUNT: _wrong_count,
    RejectReason.LITTLE_GPU_MEMORY: _little_gpu_memory,
    RejectReason.WRONG_ARCH: _wrong_arch,
    RejectReason.FEW_VCPUS: _few_vcpus,
    RejectReason.LITTLE_MEMORY: _little_memory,
    RejectReason.SPOT_NOT_ALLOWED: _spot_not_allowed,
    RejectReason.NOT_SPOT: _not_spot,
    RejectReason.WRONG_REGION: _wrong_region,
    RejectReason.CANNOT_BOOT: _cannot_boot,
    RejectReason.FOR_PODS: _for_pods,
    RejectReason.NO_DRIVER: _no_driver,
    RejectReason.LOW_TRUST: _low_trust,
    RejectReason.ENDS_TOO_SOON: _ends_too_soon,
    RejectReason.STALE: _stale,
    RejectReason.SOLD_OUT: _sold_out,
    RejectReason.COOLING_DOWN: _cooling_down,
    RejectReason.PRICE_EXCEEDED: _price_exceeded,
    RejectReason.OVER_LIMIT: _over_limit,
}
assert tuple(RULES) == tuple(RejectReason), "every reason has its rule, in the order of the reasons"
