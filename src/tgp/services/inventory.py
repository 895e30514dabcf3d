"""Asks the providers which machines of this cluster they list, with the API keys from the cluster's Secrets.

Unlike the operator's poller it runs once, with the user's own rights, and remembers nothing. It can terminate a machine
that the user confirmed, and it cannot launch one.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tgp.api.common import DEFAULT_KEYS, OWNED_PROVIDER, PROVIDERS, canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt
from tgp.controllers.market.credentials import credentials_for
from tgp.core.market.sources import source_for
from tgp.core.model.account_access import AccountAccess, access_of
from tgp.core.model.class_secrets import OPERATOR_SECRET
from tgp.core.model.cloud_account import CloudAccount, resolved
from tgp.core.model.cloud_errors import CannotTell, CloudError, KeyRefused
from tgp.core.model.cluster_inventory import AccountInventory, MissingCredential
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.presence import AccountProblem
from tgp.core.model.source import Source
from tgp.core.model.token import cluster_prefix, read_token
from tgp.ports.cloud import Cloud
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import ClusterError, Forbidden
from tgp.ports.http import HttpError
from tgp.ports.secret_reader import SecretReader
from tgp.services.confirmed import Confirmed

ASK_WITHIN = 60.0  # seconds for one account, waiting for its rate limit included
AT_ONCE = 16  # accounts asked at the same time


class NotAgreed(Exception):
    """The user did not confirm the termination of this machine. Nothing was sent."""


@dataclass(frozen=True, slots=True)
class AccountToAsk:
    """An account to ask, and why."""

    access: AccountAccess
    attempts: tuple[Attempt, ...] = ()  # that may have a machine there
    named: bool = True  # by an enabled entry of a class


class InventoryService:
    def __init__(self, cluster: str, clouds: Clouds, secret_reader: SecretReader) -> None:
        self._cluster = cluster
        self._clouds = clouds
        self._secret_reader = secret_reader
        self._accesses: dict[str, AccountAccess] = {}  # seen so far, by name

    async def inspect(
        self, classes: Iterable[GPUNodeClass], attempts: Iterable[Attempt], accounts: Mapping[str, CloudAccount]
    ) -> tuple[AccountInventory, ...]:
        """Every account that a class names, that has attempts, or whose API key is in the operator's Secret."""
        wanted = await self._wanted(classes, attempts, accounts)
        self._accesses |= {one.access.name: one.access for one in wanted}
        limit = asyncio.Semaphore(AT_ONCE)

        async def asked(one: AccountToAsk) -> AccountInventory:
            async with limit:
                return await self._ask(one)

        return tuple(await asyncio.gather(*map(asked, wanted)))

    async def end(self, access: str, instance: Instance, agreed: Confirmed) -> None:
        """Terminate one machine: only of this cluster, and only if the user confirmed it."""
        token = read_token(instance.token)
        if token is None or token.cluster != self._cluster or agreed.cluster != self._cluster:
            raise NotAgreed(f"machine {instance.id} does not carry this cluster's token")
        if (access, instance.id) not in agreed.machines:
            raise NotAgreed(f"the termination of machine {instance.id} was not confirmed")
        cloud = await self._open(self._accesses[access])
        async with asyncio.timeout(ASK_WITHIN):
            await cloud.terminate(instance.id)

    # -- which accounts -----------------------------------------------------------------------------------------------

    async def _wanted(
        self, classes: Iterable[GPUNodeClass], attempts: Iterable[Attempt], accounts: Mapping[str, CloudAccount]
    ) -> list[AccountToAsk]:
        found: dict[str, AccountToAsk] = {}
        for node_class in classes:
            for provider in node_class.spec.providers:
                if canonical_provider(provider.name) in PROVIDERS:
                    for access in _accesses_of(source_for(provider)):
                        _add(found, AccountToAsk(access, named=provider.enabled))
        for account in accounts.values():
            if account.provider in PROVIDERS:  # `named` only while it may have a machine
                _add(found, AccountToAsk(account.access, named=account.empty_since is None))
        for attempt in attempts:
            place = resolved(accounts, attempt)
            if place is not None and place.provider in PROVIDERS:
                _add(found, AccountToAsk(place.access, (attempt,)))
        for name, key in DEFAULT_KEYS.items():  # a deleted class may have bought there
            if await self._has(OPERATOR_SECRET, key):
                _add(found, AccountToAsk(AccountAccess(name, OPERATOR_SECRET, key), named=False))
        return [found[name] for name in sorted(found)]

    # -- asking ------------------------------------------------------------------------------------------------------

    async def _ask(self, wanted: AccountToAsk) -> AccountInventory:
        access = wanted.access
        facts = self._clouds.facts(access.provider)
        blank = AccountInventory(
            access,
            facts.title,
            facts.listing_lag,
            wanted=wanted.named or bool(wanted.attempts),
            owned=access.provider == OWNED_PROVIDER,
        )
        try:
            async with asyncio.timeout(ASK_WITHIN):
                if facts.key_variable and (missing := await self._missing_credential(access)) is not None:
                    return replace(
                        blank,
                        trouble=AccountProblem.CREDENTIALS_MISSING,
                        why=_missing_text(access, missing),
                        missing=missing,
                    )
                cloud = await self._open(access)
                machines = await self._machines(cloud, wanted)
                account = (await cloud.identity()).id  # after the list, so that it names the account of the list
        except KeyRefused as error:
            return replace(blank, trouble=AccountProblem.CREDENTIALS_REFUSED, why=str(error))
        except Forbidden as error:
            why = f"you may not read its API key: {error}"
            return replace(blank, trouble=AccountProblem.CREDENTIALS_MISSING, why=why, missing=MissingCredential.RIGHT)
        except TimeoutError:
            return replace(blank, trouble=AccountProblem.UNREACHABLE, why=f"no answer within {ASK_WITHIN:.0f} s")
        except (CloudError, ClusterError, HttpError) as error:
            return replace(blank, trouble=AccountProblem.UNREACHABLE, why=str(error))
        return replace(blank, machines=machines, account=account)

    async def _machines(self, cloud: Cloud, wanted: AccountToAsk) -> tuple[Instance, ...]:
        try:
            return await cloud.owned(cluster_prefix(self._cluster))
        except CannotTell:
            if wanted.access.provider != OWNED_PROVIDER or not wanted.attempts:
                raise
        # An owned machine need not report its token; whether it is on may be known.
        seen = [await cloud.status(attempt.instance_id) for attempt in wanted.attempts if attempt.instance_id]
        if any(one is not None and one.state is InstanceState.UNKNOWN for one in seen):
            raise CannotTell("the status endpoint does not report whether the machine is on; see its Node")
        return tuple(one for one in seen if one is not None)

    async def _open(self, access: AccountAccess) -> Cloud:
        keys = await credentials_for(access.source, self._secret_reader)
        return self._clouds.open(access.source, keys.own, keys.others)

    async def _missing_credential(self, access: AccountAccess) -> MissingCredential | None:
        values = await self._secret_reader.read(access.secret)
        if values is None:
            return MissingCredential.SECRET
        return MissingCredential.KEY if values.get(access.key) is None else None

    async def _has(self, secret: str, key: str) -> bool:
        try:
            values = await self._secret_reader.read(secret)
        except Forbidden:
            return False
        return values is not None and values.get(key) is not None


def _add(found: dict[str, AccountToAsk], more: AccountToAsk) -> None:
    known = found.get(more.access.name)
    if known is not None:
        more = AccountToAsk(known.access, (*known.attempts, *more.attempts), known.named or more.named)
    found[more.access.name] = more


def _accesses_of(source: Source) -> list[AccountAccess]:
    """Each owned machine is its own account: one that is silent says nothing about another."""
    if source.provider == OWNED_PROVIDER:
        return [access_of(source, machine.name) for machine in source.settings.machines]
    return [access_of(source)]


def _missing_text(access: AccountAccess, missing: MissingCredential) -> str:
    absent = (
        f"there is no Secret {access.secret}"
        if missing is MissingCredential.SECRET
        else f"Secret {access.secret} has no key {access.key}"
    )
    return f"{absent}, so the provider cannot be asked"
