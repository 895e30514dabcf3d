"""Cooldowns of offers, hosts, providers and accounts that failed recently."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from tgp.core.model.columns import host_key
from tgp.core.model.offer import Offer

LONGEST_COOLDOWN = timedelta(hours=4)
FORGOTTEN_AFTER = timedelta(hours=24)


class Cooldown(msgspec.Struct, frozen=True):
    """The cooldown of one offer, host, provider or account."""

    failures: int
    failed_at: datetime  # the last time
    until: datetime  # cooling down up to then, not including
    why: str

    def cools_down(self, now: datetime) -> bool:
        """A clock that was set back by a day must not extend a cooldown by a day."""
        return now < self.until and self.until - now <= LONGEST_COOLDOWN

    def forgotten(self, now: datetime) -> bool:
        return now - self.failed_at >= FORGOTTEN_AFTER


def account_key(source: str) -> str:
    """A provider under one key: the name of a source or an account access without its settings."""
    return source.partition("#")[0]


@dataclass(frozen=True, slots=True)
class Cooldowns:
    """All cooldowns. Immutable: a change makes a new one."""

    offers: Mapping[str, Cooldown] = field(default_factory=dict)  # by Offer.key
    hosts: Mapping[str, Cooldown] = field(default_factory=dict)  # by provider and host
    providers: Mapping[str, Cooldown] = field(default_factory=dict)
    accounts: Mapping[str, Cooldown] = field(default_factory=dict)  # by account_key

    def with_later(self, other: "Cooldowns") -> "Cooldowns":
        """Of each, the one that ends later: what has ended says nothing against one that lasts."""
        pairs = (
            (self.offers, other.offers),
            (self.hosts, other.hosts),
            (self.providers, other.providers),
            (self.accounts, other.accounts),
        )
        return Cooldowns(*(_later(mine, theirs) for mine, theirs in pairs))

    def against(self, offer: Offer, source: str, now: datetime) -> Cooldown | None:
        """The cooldown of this offer from that source now: the one that lasts longest; None: none."""
        held = (
            self.offers.get(offer.key),
            self.hosts.get(host_key(offer.provider, offer.host)) if offer.host else None,
            self.providers.get(offer.provider),
            self.accounts.get(account_key(source)),
        )
        benching = [cooldown for cooldown in held if cooldown is not None and cooldown.cools_down(now)]
        return max(benching, key=lambda cooldown: cooldown.until, default=None)


def _later(mine: Mapping[str, Cooldown], theirs: Mapping[str, Cooldown]) -> Mapping[str, Cooldown]:
    later = {name: each for name, each in theirs.items() if name not in mine or mine[name].until < each.until}
    return {**mine, **later} if later else mine
