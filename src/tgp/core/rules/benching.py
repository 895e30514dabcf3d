"""What failed lately is left alone for a while, and for longer each time; then it is forgiven, and at last forgotten.

An offer that failed is benched, and with it the host it stands on. Two machines of one provider that never joined bench
the whole provider. A key that was refused, or has no credit left, benches what is sold under that key, and nobody
else's. A success wipes the slate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType

from tgp.core.model.columns import host_key
from tgp.core.model.marks import LONGEST_BENCH, Mark, Marks, account_key
from tgp.core.model.offer import BootMode, Offer

FIRST_BENCH = timedelta(minutes=5)
JOINS_FORGIVEN = 1  # of a provider: the second machine that never joins is its pattern, not the machine's
MOST_MARKS = 4_096  # the longest past are forgotten first
LONGEST_WHY = 200
_DOUBLINGS = 16  # beyond it every bench is the longest


def failed(marks: Marks, offer: Offer, why: str, now: datetime, *, never_joined: bool = False) -> Marks:
    """The marks after an offer could not be had, or what it gave was no use."""
    offers = _marked(marks.offers, offer.key, why, now)
    hosts = _marked(marks.hosts, host_key(offer.provider, offer.host), why, now) if offer.host else marks.hosts
    providers = marks.providers
    if never_joined:
        providers = _marked(providers, offer.provider, why, now, forgiven=JOINS_FORGIVEN)
    return replace(marks, offers=offers, hosts=hosts, providers=providers)


def account_failed(marks: Marks, offer: Offer, source: str, why: str, now: datetime) -> Marks:
    """The marks after a provider refused the key, or had no credit for it: every offer would end the same under it.

    `source` may be a till's name as well. Machines of one's own have no key in common: there it is that machine's.
    """
    if offer.boot is BootMode.POWER:
        return failed(marks, offer, why, now)
    return replace(marks, accounts=_marked(marks.accounts, account_key(source), why, now))


def succeeded(marks: Marks, offer: Offer, source: str) -> Marks:
    """The marks after a machine of this offer joined."""
    return Marks(
        _without(marks.offers, offer.key),
        _without(marks.hosts, host_key(offer.provider, offer.host)),
        _without(marks.providers, offer.provider),
        _without(marks.accounts, account_key(source)),
    )


def forgotten(marks: Marks, now: datetime) -> Marks:
    """The marks without those that are older than a day."""
    return Marks(*(_kept(each, now) for each in (marks.offers, marks.hosts, marks.providers, marks.accounts)))


def _marked(marks: Mapping[str, Mark], name: str, why: str, now: datetime, *, forgiven: int = 0) -> Mapping[str, Mark]:
    before = marks.get(name)
    failures = 1 if before is None or before.forgotten(now) else before.failures + 1
    mark = Mark(failures, now, now + _length(failures - forgiven), why[:LONGEST_WHY])
    return _bounded({**_kept(marks, now), name: mark})


def _length(failures: int) -> timedelta:
    if failures < 1:
        return timedelta(0)
    doubled = 1 << min(failures - 1, _DOUBLINGS)
    return min(FIRST_BENCH * doubled, LONGEST_BENCH)


def _kept(marks: Mapping[str, Mark], now: datetime) -> Mapping[str, Mark]:
    return MappingProxyType({name: mark for name, mark in marks.items() if not mark.forgotten(now)})


def _bounded(marks: Mapping[str, Mark]) -> Mapping[str, Mark]:
    if len(marks) <= MOST_MARKS:
        return MappingProxyType(dict(marks))
    newest: Iterable[str] = sorted(marks, key=lambda name: (marks[name].failed_at, name))[-MOST_MARKS:]
    return MappingProxyType({name: marks[name] for name in newest})


def _without(marks: Mapping[str, Mark], name: str) -> Mapping[str, Mark]:
    return MappingProxyType({each: mark for each, mark in marks.items() if each != name})
