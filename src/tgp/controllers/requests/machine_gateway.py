"""Launches and terminates machines: translates an attempt into calls of a provider."""

from datetime import datetime, timedelta

import msgspec

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.market.credentials import credentials_for
from tgp.controllers.requests.leader_guard import LeaderGuard
from tgp.core.market.sources import sources_of
from tgp.core.model.cloud_account import CloudAccount
from tgp.core.model.cloud_errors import CloudError, KeyRefused
from tgp.core.model.costs import read_amount
from tgp.core.model.instance import Instance
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.offer import Offer
from tgp.core.model.source import Source
from tgp.core.model.token import read_token
from tgp.core.requests.chosen_offer import offer_of
from tgp.core.requests.node_metadata import NodeMetadata, pool_name
from tgp.core.requests.node_state import provider_id_of
from tgp.core.requests.purchase import most_to_pay, takes_over
from tgp.ports.boot import Boot, BootRequest
from tgp.ports.cloud import Cloud, HasLeftovers, LaunchOrder
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import ClusterBusy
from tgp.ports.secret_reader import SecretReader


class AccountMoved(CloudError):
    """The key belongs to another account than the one the reservation was made for. Nothing was ordered."""


class LaunchInput(msgspec.Struct, frozen=True):
    """What an order needs beside the attempt."""

    record: KubeObject[GPURequest]
    node_class: GPUNodeClass
    node_name: str
    metadata: NodeMetadata
    expires_at: datetime  # if it has not joined by then, it is terminated


class NotOurs(CloudError):
    """The machine under a recorded id does not carry the attempt's token. Nothing was sent that changes anything."""


class MachineGateway:
    def __init__(
        self, clouds: Clouds, accounts: AccountTable, secret_reader: SecretReader, gate: LeaderGuard, boot: Boot
    ) -> None:
        self._clouds = clouds
        self._accounts = accounts
        self._secret_reader = secret_reader
        self._gate = gate
        self._boot = boot

    async def prepare(self, attempt: Attempt, launch_input: LaunchInput) -> tuple[Cloud, LaunchOrder]:
        """Everything up to the order itself; nothing is paid yet. Raises BootRefused, CloudError, ClusterError."""
        assert attempt.offer is not None, "an ordered attempt has an offer"
        offer = offer_of(attempt.offer)
        account = self._account(attempt)
        cloud = await self._open(_source(launch_input.node_class, account))
        identity = await cloud.identity()
        if not account.includes(identity.id):
            raise AccountMoved(
                f"API key of {account.provider} now belongs to account {identity.id}, not to account {account.identity}"
            )
        boot_payload = await self._boot.pack(self._boot_request(attempt, offer, launch_input))
        return cloud, LaunchOrder(
            offer=offer,
            token=attempt.token,
            max_hourly_microusd=_ceiling(launch_input.record, attempt, offer),
            bid_microusd=offer.hourly_microusd if offer.takes_bids else None,
            tags=tuple(sorted(launch_input.node_class.spec.tags.items())),
            user_data=boot_payload.user_data,
            image=boot_payload.image,
            min_vcpus=launch_input.node_class.spec.instance_requirements.min_vcpu or 0,
            min_memory_gib=launch_input.node_class.spec.instance_requirements.min_memory_gib or 0,
            max_run=_max_run(attempt),
            takes_over=takes_over(launch_input.record),
        )

    async def order(self, cloud: Cloud, order: LaunchOrder) -> Instance:
        return await self._gate.launch(cloud, order)

    async def terminate(self, attempt: Attempt, instance_id: str, *, seen: bool, named: bool) -> None:
        """Request the termination. Raises CloudError: then the machine may still cost.

        `seen`: this process saw the attempt's token on the machine. Otherwise the provider is asked first whose machine
        it is: the id is from a status, which tenants may write, or (`named`) from the answer to our order, which may
        name another machine. Such an answer may also be ahead of what the provider shows.
        """
        cloud = await self._open(self._account(attempt).access.source)
        if not seen:
            found = await cloud.status(instance_id)
            if found is None and not named:
                return
            if found is not None and (found.token != attempt.token or read_token(attempt.token) is None):
                raise NotOurs(
                    f"Machine {instance_id} does not carry the token {attempt.token} and is not touched. If it belongs "
                    "to this request, tag it again or terminate it in the provider's console."
                )
        await self._gate.terminate(cloud, instance_id)

    async def discard(self, attempt: Attempt, *, insist: bool = False) -> None:
        """The machine is gone or never existed: remove what was created for it, here and at its provider.

        `insist`: ClusterBusy where a provider may still keep leftovers: they hold secrets, so try again. With a refused
        key nothing more can be done.
        """
        await self._boot.discard(attempt.token)
        account = self._accounts.of(attempt)
        if account is None or account.owned:
            return
        try:
            cloud = await self._open(account.access.source)
            if isinstance(cloud, HasLeftovers):
                await cloud.cleanup(attempt.token)
        except KeyRefused:
            return
        except CloudError as error:
            if insist:
                raise ClusterBusy(
                    f"Leftovers of {attempt.token} at {account.provider} were not removed: {error}"
                ) from error

    def _account(self, attempt: Attempt) -> CloudAccount:
        account = self._accounts.of(attempt)
        assert account is not None, "machines are launched and terminated in recorded accounts"
        return account

    async def _open(self, source: Source) -> Cloud:
        keys = await credentials_for(source, self._secret_reader)
        if keys.missing:
            raise KeyRefused(keys.missing)
        return self._clouds.open(source, keys.own, keys.others)

    def _boot_request(self, attempt: Attempt, offer: Offer, launch_input: LaunchInput) -> BootRequest:
        record = launch_input.record
        assert record.value is not None, "an unreadable request buys nothing"
        return BootRequest(
            record.key,
            record.value,
            launch_input.node_class,
            offer,
            attempt.token,
            launch_input.node_name,
            provider_id_of(offer.provider, attempt.token),
            launch_input.expires_at,
            pool_name(record),
            launch_input.metadata.labels,
            (*launch_input.metadata.taints, *launch_input.metadata.startup_taints),
        )


def _source(node_class: GPUNodeClass, account: CloudAccount) -> Source:
    """As the class defines it, with everything a purchase needs.

    An owned machine is ordered where it is listed: its client remembers what it switched on.
    """
    access = account.access
    if account.owned:
        return access.source
    for source in sources_of(node_class).values():
        if (source.provider, source.secret, source.key) == (access.provider, access.secret, access.key):
            return source
    return access.source


def _max_run(attempt: Attempt) -> timedelta | None:
    """As reserved: the provider counts it from the start of the machine, which is later than the reservation."""
    if attempt.provider_ends_at is None or attempt.reserved_at is None:
        return None
    return attempt.provider_ends_at - attempt.reserved_at


def _ceiling(record: KubeObject[GPURequest], attempt: Attempt, offer: Offer) -> int:
    """No more than was reserved."""
    assert record.value is not None, "an unreadable request buys nothing"
    agreed, reserved = most_to_pay(record.value.spec, offer.hourly_microusd), read_amount(attempt.max_hourly_price)
    return agreed if reserved is None else min(agreed, reserved)
