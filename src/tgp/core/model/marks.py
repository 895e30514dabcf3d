"""What is held against offers, hosts, providers and accounts at them that failed lately."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tgp.core.model.columns import host_key
from tgp.core.model.offer import Offer

LONGEST_BENCH = timedelta(hours=4)
FORGOTTEN_AFTER = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Mark:
    """What is held against one offer, host, provider or account."""

    failures: int
    failed_at: datetime  # the last time
    until: datetime  # benched up to then, not including
    why: str

    def benches(self, now: datetime) -> bool:
        """A clock that was set back by a day must not bench anything for a day."""
        return now < self.until and self.until - now <= LONGEST_BENCH

    def forgotten(self, now: datetime) -> bool:
        return now - self.failed_at >= FORGOTTEN_AFTER


def account_key(source: str) -> str:
    """A provider under one key: what a source or a till is called, but for its settings, which no key knows of."""
    return source.partition("#")[0]


@dataclass(frozen=True, slots=True)
class Marks:
    """All that is held against anybody. Never changed, only followed by another."""

    offers: Mapping[str, Mark] = field(default_factory=dict)  # by Offer.key
    hosts: Mapping[str, Mark] = field(default_factory=dict)  # by provider and host
    providers: Mapping[str, Mark] = field(default_factory=dict)
    accounts: Mapping[str, Mark] = field(default_factory=dict)  # by account_key

    def against(self, offer: Offer, source: str, now: datetime) -> Mark | None:
        """What benches this offer now, as that source sells it: the mark that lasts longest; None: nothing."""
        held = (
            self.offers.get(offer.key),
            self.hosts.get(host_key(offer.provider, offer.host)) if offer.host else None,
            self.providers.get(offer.provider),
            self.accounts.get(account_key(source)),
        )
        benching = [mark for mark in held if mark is not None and mark.benches(now)]
        return max(benching, key=lambda mark: mark.until, default=None)
