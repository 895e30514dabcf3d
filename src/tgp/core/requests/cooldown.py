"""What failed lately is not used for a while, and for longer each time; after the cooldown it may be tried again.

A failed offer cools down, and so does its host. Two machines of one provider that never joined put the whole provider
into cooldown; machines you own cool down one by one. A refused or exhausted API key puts the offers under that key into
cooldown, and no others. A success ends the cooldown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType

from tgp.core.model.backoff import doubled
from tgp.core.model.columns import host_key
from tgp.core.model.cooldowns import LONGEST_COOLDOWN, Cooldown, Cooldowns, account_key
from tgp.core.model.offer import BootMode, Offer

FIRST_COOLDOWN = timedelta(minutes=5)
JOINS_FORGIVEN = 1  # of a provider: the second machine that never joins is the provider's fault
MOST_COOLDOWNS = 4_096  # the oldest are forgotten first
LONGEST_WHY = 200


def failed(cooldowns: Cooldowns, offer: Offer, why: str, now: datetime, *, never_joined: bool = False) -> Cooldowns:
    """The cooldowns after an offer failed, or its machine was unusable."""
    offers = _with_failure(cooldowns.offers, offer.key, why, now)
    hosts = (
        _with_failure(cooldowns.hosts, host_key(offer.provider, offer.host), why, now)
        if offer.host
        else cooldowns.hosts
    )
    providers = cooldowns.providers
    if never_joined and offer.boot is not BootMode.POWER:
        providers = _with_failure(providers, offer.provider, why, now, forgiven=JOINS_FORGIVEN)
    return replace(cooldowns, offers=offers, hosts=hosts, providers=providers)


def account_failed(cooldowns: Cooldowns, offer: Offer, source: str, why: str, now: datetime) -> Cooldowns:
    """The cooldowns after a provider refused the API key, or its credit: every offer under that key would fail, too.

    `source` may be the name of an account access as well. Owned machines share no key: there it is that machine's.
    """
    if offer.boot is BootMode.POWER:
        return failed(cooldowns, offer, why, now)
    return replace(cooldowns, accounts=_with_failure(cooldowns.accounts, account_key(source), why, now))


def succeeded(cooldowns: Cooldowns, offer: Offer, source: str) -> Cooldowns:
    """The cooldowns after a machine of this offer joined."""
    return Cooldowns(
        _without(cooldowns.offers, offer.key),
        _without(cooldowns.hosts, host_key(offer.provider, offer.host)),
        _without(cooldowns.providers, offer.provider),
        _without(cooldowns.accounts, account_key(source)),
    )


def forgotten(cooldowns: Cooldowns, now: datetime) -> Cooldowns:
    """The cooldowns without those that are older than a day."""
    return Cooldowns(
        *(_kept(each, now) for each in (cooldowns.offers, cooldowns.hosts, cooldowns.providers, cooldowns.accounts))
    )


def _with_failure(
    cooldowns: Mapping[str, Cooldown], name: str, why: str, now: datetime, *, forgiven: int = 0
) -> Mapping[str, Cooldown]:
    before = cooldowns.get(name)
    failures = 1 if before is None or before.forgotten(now) else before.failures + 1
    cooldown = Cooldown(failures, now, now + _length(failures - forgiven), why[:LONGEST_WHY])
    return _bounded({**_kept(cooldowns, now), name: cooldown})


def _length(failures: int) -> timedelta:
    if failures < 1:
        return timedelta(0)
    return doubled(FIRST_COOLDOWN, failures, LONGEST_COOLDOWN)


def _kept(cooldowns: Mapping[str, Cooldown], now: datetime) -> Mapping[str, Cooldown]:
    return MappingProxyType({name: cooldown for name, cooldown in cooldowns.items() if not cooldown.forgotten(now)})


def _bounded(cooldowns: Mapping[str, Cooldown]) -> Mapping[str, Cooldown]:
    if len(cooldowns) <= MOST_COOLDOWNS:
        return MappingProxyType(dict(cooldowns))
    newest: Iterable[str] = sorted(cooldowns, key=lambda name: (cooldowns[name].failed_at, name))[-MOST_COOLDOWNS:]
    return MappingProxyType({name: cooldowns[name] for name in newest})


def _without(cooldowns: Mapping[str, Cooldown], name: str) -> Mapping[str, Cooldown]:
    return MappingProxyType({each: cooldown for each, cooldown in cooldowns.items() if each != name})
