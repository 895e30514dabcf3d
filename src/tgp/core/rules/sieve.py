"""The rules a wish sets, each over many offers at once: which of these rows does it turn away?

One function per reason. Rows are numbers of lines in the book; the answer says of each whether it fails.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tgp.core.model.book import PriceBook
from tgp.core.model.columns import BOOT_MODES, Columns, checksum, seconds
from tgp.core.model.gpus import members
from tgp.core.model.marks import account_key
from tgp.core.model.offer import BootMode, Offer, Stock
from tgp.core.model.regions import region_fits
from tgp.core.model.wish import Door, Kinds, PassedOver, Wish

Rows: TypeAlias = npt.NDArray[np.intp]
Fails: TypeAlias = npt.NDArray[np.bool_]
NO_DOOR = Door()
_CONTAINER = BOOT_MODES.index(BootMode.CONTAINER)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the book, and when."""

    book: PriceBook
    wish: Wish
    now: datetime

    @property
    def columns(self) -> Columns:
        return self.book.columns

    def per_source(self, verdict: Callable[[str], bool], rows: Rows) -> Fails:
        """A verdict on each source, spread over its rows."""
        verdicts = np.array([verdict(state.source) for state in self.book.sources], np.bool_)
        spread: Fails = verdicts[self.book.source_of[rows]]
        return spread

    def door(self, source: str) -> Door | None:
        """None: the class does not use it."""
        doors = self.wish.doors
        return NO_DOOR if doors is None else doors.get(source)


Rule: TypeAlias = Callable[[Question, Rows], Fails]


def _nobody(rows: Rows) -> Fails:
    return np.zeros(len(rows), np.bool_)


def _not_in_class(asked: Question, rows: Rows) -> Fails:
    return asked.per_source(lambda source: asked.door(source) is None, rows)


def _disabled(asked: Question, rows: Rows) -> Fails:
    return asked.per_source(lambda source: not (asked.door(source) or NO_DOOR).enabled, rows)


def _another_offer(asked: Question, rows: Rows) -> Fails:
    wish, columns = asked.wish, asked.columns
    fails = _nobody(rows)
    if wish.provider:
        meant = np.array([provider == wish.provider for provider in columns.words.providers], np.bool_)
        fails |= ~meant[columns.provider[rows]]
    if wish.instance_type:
        alike = columns.type_sum[rows] == checksum(wish.instance_type)
        fails |= ~_truly(asked, rows, alike, lambda offer: offer.instance_type == wish.instance_type)
    return fails


def _wrong_gpu(asked: Question, rows: Rows) -> Fails:
    """An offer told by a family alone fits whoever takes every member of it."""
    wish, columns = asked.wish, asked.columns
    if not wish.models:
        return _nobody(rows)
    wanted = frozenset(model for name in wish.models for model in (members(name) or (name,)))
    fits = np.array([wanted.issuperset(members(gpu) or (gpu,)) for gpu in columns.words.gpus], np.bool_)
    fails: Fails = ~fits[columns.gpu[rows]]
    return fails


def _wrong_count(asked: Question, rows: Rows) -> Fails:
    count = asked.wish.gpu_count
    return _nobody(rows) if count is None else asked.columns.gpu_count[rows] != count


def _little_gpu_memory(asked: Question, rows: Rows) -> Fails:
    return asked.columns.gpu_memory[rows] < asked.wish.min_gpu_memory_gib


def _wrong_arch(asked: Question, rows: Rows) -> Fails:
    arch, columns = asked.wish.arch, asked.columns
    if not arch:
        return _nobody(rows)
    fails: Fails = np.array([word != arch for word in columns.words.archs], np.bool_)[columns.arch[rows]]
    return fails


def _few_vcpus(asked: Question, rows: Rows) -> Fails:
    return asked.columns.vcpus[rows] < asked.wish.min_vcpus


def _little_memory(asked: Question, rows: Rows) -> Fails:
    return asked.columns.memory[rows] < asked.wish.min_memory_gib


def _spot_not_allowed(asked: Question, rows: Rows) -> Fails:
    return asked.columns.spot[rows] if asked.wish.kinds is Kinds.ON_DEMAND else _nobody(rows)


def _not_spot(asked: Question, rows: Rows) -> Fails:
    return ~asked.columns.spot[rows] if asked.wish.kinds is Kinds.SPOT else _nobody(rows)


def _wrong_region(asked: Question, rows: Rows) -> Fails:
    """Judged once for each place and source that is left, not once for each offer."""
    wish, book, where = asked.wish, asked.book, asked.columns.where
    doors = [(asked.door(state.source) or NO_DOOR).regions for state in book.sources]
    if not (wish.regions or wish.class_regions or any(doors)):
        return _nobody(rows)
    pairs = book.source_of[rows].astype(np.int64) * len(asked.columns.words.wheres) + where[rows]
    distinct, spread = np.unique(pairs, return_inverse=True)
    verdicts = []
    for pair in distinct.tolist():
        source, place = divmod(pair, len(asked.columns.words.wheres))
        stands = asked.columns.words.wheres[place]
        rules = (wish.regions, wish.class_regions, doors[source])
        verdicts.append(not all(_stands_in(names, *stands) for names in rules))
    fails: Fails = np.array(verdicts, np.bool_)[spread]
    return fails


def _stands_in(names: Iterable[str], region: str, place: str, country: str) -> bool:
    asked = tuple(names)
    return not asked or any(region_fits(name, region, place, country) for name in asked)


def _cannot_boot(asked: Question, rows: Rows) -> Fails:
    fails: Fails = np.array([mode not in asked.wish.boots for mode in BOOT_MODES], np.bool_)[asked.columns.boot[rows]]
    return fails


def _for_pods(asked: Question, rows: Rows) -> Fails:
    """A container is never bought to boot Talos: a policy that allows it means pods, once a bridge runs them there."""
    fails: Fails = (asked.columns.boot[rows] == _CONTAINER) & asked.wish.as_node
    return fails


def _no_driver(asked: Question, rows: Rows) -> Fails:
    return ~asked.columns.driven[rows] & asked.wish.as_node


def _low_trust(asked: Question, rows: Rows) -> Fails:
    return asked.columns.trust[rows] < asked.wish.min_trust


def _ends_too_soon(asked: Question, rows: Rows) -> Fails:
    last = seconds(asked.now) + int(asked.wish.lasting.total_seconds())  # the sum of moments ends in the year 9999
    return asked.columns.until[rows] < last


def _stale(asked: Question, rows: Rows) -> Fails:
    ages = {state.source: state.age(asked.now) for state in asked.book.sources}

    def too_old(source: str) -> bool:
        age = ages[source]
        return age is None or age > asked.wish.stale_after

    return asked.per_source(too_old, rows)


def _sold_out(asked: Question, rows: Rows) -> Fails:
    fails: Fails = asked.columns.stock[rows] == Stock.NONE.value
    return fails


def _benched(asked: Question, rows: Rows) -> Fails:
    marks, columns = asked.wish.marks, asked.columns
    if not (marks.offers or marks.hosts or marks.providers or marks.accounts):
        return _nobody(rows)
    whole = {provider for provider, mark in marks.providers.items() if mark.benches(asked.now)}
    fails: Fails = np.array([each in whole for each in columns.words.providers], np.bool_)[columns.provider[rows]]
    barred = {account for account, mark in marks.accounts.items() if mark.benches(asked.now)}
    fails |= asked.per_source(lambda source: account_key(source) in barred, rows)
    suspects = np.isin(columns.key_sum[rows], _sums(marks.offers))
    suspects |= np.isin(columns.host_sum[rows], _sums(marks.hosts))
    return fails | _truly(asked, rows, suspects & ~fails, lambda offer: marks.against(offer, "", asked.now) is not None)


def _too_dear(asked: Question, rows: Rows) -> Fails:
    most = asked.wish.max_hourly_microusd
    return _nobody(rows) if most is None else asked.columns.price[rows] > most


def _over_limit(asked: Question, rows: Rows) -> Fails:
    most = asked.wish.headroom_microusd
    return _nobody(rows) if most is None else asked.columns.price[rows] > most


def _sums(names: Iterable[str]) -> npt.NDArray[np.uint32]:
    return np.array([checksum(name) for name in names], np.uint32)


def _truly(asked: Question, rows: Rows, suspects: Fails, really: Callable[[Offer], bool]) -> Fails:
    """Of those that look alike, the ones that are: checksums can collide."""
    found = _nobody(rows)
    for place in np.flatnonzero(suspects).tolist():
        found[place] = really(asked.book.offers[rows[place]])
    return found


RULES: Mapping[PassedOver, Rule] = {
    PassedOver.NOT_IN_CLASS: _not_in_class,
    PassedOver.DISABLED: _disabled,
    PassedOver.ANOTHER_OFFER: _another_offer,
    PassedOver.WRONG_GPU: _wrong_gpu,
    PassedOver.WRONG_COUNT: _wrong_count,
    PassedOver.LITTLE_GPU_MEMORY: _little_gpu_memory,
    PassedOver.WRONG_ARCH: _wrong_arch,
    PassedOver.FEW_VCPUS: _few_vcpus,
    PassedOver.LITTLE_MEMORY: _little_memory,
    PassedOver.SPOT_NOT_ALLOWED: _spot_not_allowed,
    PassedOver.NOT_SPOT: _not_spot,
    PassedOver.WRONG_REGION: _wrong_region,
    PassedOver.CANNOT_BOOT: _cannot_boot,
    PassedOver.FOR_PODS: _for_pods,
    PassedOver.NO_DRIVER: _no_driver,
    PassedOver.LOW_TRUST: _low_trust,
    PassedOver.ENDS_TOO_SOON: _ends_too_soon,
    PassedOver.STALE: _stale,
    PassedOver.SOLD_OUT: _sold_out,
    PassedOver.BENCHED: _benched,
    PassedOver.TOO_DEAR: _too_dear,
    PassedOver.OVER_LIMIT: _over_limit,
}
assert tuple(RULES) == tuple(PassedOver), "every reason has its rule, in the order of the reasons"
