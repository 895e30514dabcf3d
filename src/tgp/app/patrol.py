"""Asks the providers themselves what they hold of this cluster, with the keys that the cluster's Secrets hold.

Unlike the operator's rounds it is one person's look: with that person's own rights, at one moment, remembering nothing.
It can end a machine that somebody agreed to end, and it cannot order one.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tgp.api.common import PROVIDERS, canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt
from tgp.controllers.keys import keys_for
from tgp.core.model.cloud_account import CloudAccount, resolved
from tgp.core.model.cloud_errors import CannotTell, CloudError, KeyRefused
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.presence import Trouble
from tgp.core.model.source import Source
from tgp.core.model.survey import Inspection, Lack
from tgp.core.model.till import Till, till_of
from tgp.core.model.token import cluster_prefix, read_token
from tgp.core.rules.secrets import DEFAULT_KEYS, OPERATOR_SECRET
from tgp.core.rules.sources import source_for
from tgp.ports.cloud import Cloud
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import ClusterError, Forbidden
from tgp.ports.http import HttpError
from tgp.ports.vault import Vault
from tgp.surfaces.cli.confirming import Confirmed

OWNED = "webhook"
ASK_WITHIN = 60.0  # seconds for one till, waiting for its rate limit included
AT_ONCE = 16  # tills asked at the same time


class NotAgreed(Exception):
    """A machine that nobody agreed to end. Nothing was sent."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A till to ask, and why."""

    till: Till
    attempts: tuple[Attempt, ...] = ()  # that may have a machine there
    named: bool = True  # by an enabled entry of a class


class Patrol:
    def __init__(self, cluster: str, clouds: Clouds, vault: Vault) -> None:
        self._cluster = cluster
        self._clouds = clouds
        self._vault = vault
        self._tills: dict[str, Till] = {}  # met so far, by name

    async def inspect(
        self, classes: Iterable[GPUNodeClass], attempts: Iterable[Attempt], accounts: Mapping[str, CloudAccount]
    ) -> tuple[Inspection, ...]:
        """Every till that a class names, that was ever ordered from, or that the operator's own Secret has a key of."""
        wanted = await self._wanted(classes, attempts, accounts)
        self._tills |= {one.till.name: one.till for one in wanted}
        turnstile = asyncio.Semaphore(AT_ONCE)

        async def asked(one: Wanted) -> Inspection:
            async with turnstile:
                return await self._ask(one)

        return tuple(await asyncio.gather(*map(asked, wanted)))

    async def end(self, till: str, instance: Instance, agreed: Confirmed) -> None:
        """The small gate of the command line: this cluster's machines only, and only those that were agreed to."""
        token = read_token(instance.token)
        if token is None or token.cluster != self._cluster or agreed.cluster != self._cluster:
            raise NotAgreed(f"{instance.id} does not carry this cluster's mark")
        if (till, instance.id) not in agreed.machines:
            raise NotAgreed(f"nobody agreed to the end of {instance.id}")
        cloud = await self._open(self._tills[till])
        async with asyncio.timeout(ASK_WITHIN):
            await cloud.terminate(instance.id)

    # -- whom to ask -------------------------------------------------------------------------------------------------

    async def _wanted(
        self, classes: Iterable[GPUNodeClass], attempts: Iterable[Attempt], accounts: Mapping[str, CloudAccount]
    ) -> list[Wanted]:
        found: dict[str, Wanted] = {}
        for node_class in classes:
            for provider in node_class.spec.providers:
                if canonical_provider(provider.name) in PROVIDERS:
                    for till in _tills_of(source_for(provider)):
                        _add(found, Wanted(till, named=provider.enabled))
        for account in accounts.values():
            if account.provider in PROVIDERS:  # named only while it may hold a machine
                _add(found, Wanted(account.till, named=account.empty_since is None))
        for attempt in attempts:
            place = resolved(accounts, attempt)
            if place is not None and place.provider in PROVIDERS:
                _add(found, Wanted(place.till, (attempt,)))
        for name, key in DEFAULT_KEYS.items():  # a class that is gone may have bought there
            if await self._has(OPERATOR_SECRET, key):
                _add(found, Wanted(Till(name, OPERATOR_SECRET, key), named=False))
        return [found[name] for name in sorted(found)]

    # -- asking ------------------------------------------------------------------------------------------------------

    async def _ask(self, wanted: Wanted) -> Inspection:
        till = wanted.till
        facts = self._clouds.facts(till.provider)
        blank = Inspection(
            till,
            facts.title,
            facts.listing_lag,
            wanted=wanted.named or bool(wanted.attempts),
            owned=till.provider == OWNED,
        )
        try:
            async with asyncio.timeout(ASK_WITHIN):
                if facts.key_variable and (lack := await self._lack(till)) is not None:
                    return replace(blank, trouble=Trouble.CREDENTIALS_MISSING, why=_missing(till, lack), lack=lack)
                cloud = await self._open(till)
                machines = await self._machines(cloud, wanted)
                account = (await cloud.identity()).id  # after the list that it vouches for
        except KeyRefused as error:
            return replace(blank, trouble=Trouble.CREDENTIALS_REFUSED, why=str(error))
        except Forbidden as error:
            why = f"you may not read its key: {error}"
            return replace(blank, trouble=Trouble.CREDENTIALS_MISSING, why=why, lack=Lack.RIGHT)
        except TimeoutError:
            return replace(blank, trouble=Trouble.UNREACHABLE, why=f"no answer within {ASK_WITHIN:.0f} s")
        except (CloudError, ClusterError, HttpError) as error:
            return replace(blank, trouble=Trouble.UNREACHABLE, why=str(error))
        return replace(blank, machines=machines, account=account)

    async def _machines(self, cloud: Cloud, wanted: Wanted) -> tuple[Instance, ...]:
        try:
            return await cloud.owned(cluster_prefix(self._cluster))
        except CannotTell:
            if wanted.till.provider != OWNED or not wanted.attempts:
                raise
        # A machine of one's own need not say for whom it is on; whether it is on at all may be known.
        seen = [await cloud.status(attempt.instance_id) for attempt in wanted.attempts if attempt.instance_id]
        if any(one is not None and one.state is InstanceState.UNKNOWN for one in seen):
            raise CannotTell("it does not say whether it is on: its Node tells")
        return tuple(one for one in seen if one is not None)

    async def _open(self, till: Till) -> Cloud:
        keys = await keys_for(till.source, self._vault)
        return self._clouds.open(till.source, keys.own, keys.others)

    async def _lack(self, till: Till) -> Lack | None:
        values = await self._vault.read(till.secret)
        if values is None:
            return Lack.SECRET
        return Lack.KEY if values.get(till.key) is None else None

    async def _has(self, secret: str, key: str) -> bool:
        try:
            values = await self._vault.read(secret)
        except Forbidden:
            return False
        return values is not None and values.get(key) is not None


def _add(found: dict[str, Wanted], more: Wanted) -> None:
    known = found.get(more.till.name)
    if known is not None:
        more = Wanted(known.till, (*known.attempts, *more.attempts), known.named or more.named)
    found[more.till.name] = more


def _tills_of(source: Source) -> list[Till]:
    """Of machines you own each is a till: one that is silent says nothing of another."""
    if source.provider == OWNED:
        return [till_of(source, machine.name) for machine in source.settings.machines]
    return [till_of(source)]


def _missing(till: Till, lack: Lack) -> str:
    absent = (
        f"there is no Secret {till.secret}" if lack is Lack.SECRET else f"Secret {till.secret} has no key {till.key}"
    )
    return f"{absent}, so nobody can be asked there"
