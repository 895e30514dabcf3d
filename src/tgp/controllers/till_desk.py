"""The counter where machines are ordered and given back: an attempt on one side, a provider on the other."""

from dataclasses import dataclass
from datetime import datetime

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.controllers.accounts import Accounts
from tgp.controllers.gate import Gate
from tgp.controllers.keys import keys_for
from tgp.core.model.cloud_account import CloudAccount
from tgp.core.model.cloud_errors import CloudError, KeyRefused
from tgp.core.model.instance import Instance
from tgp.core.model.offer import Offer
from tgp.core.model.source import Source
from tgp.core.model.token import read_token
from tgp.core.model.typed import Typed
from tgp.core.rules.costs import read_amount
from tgp.core.rules.node_dress import Dress, pool_name
from tgp.core.rules.node_state import provider_id_of
from tgp.core.rules.purchase import most_to_pay, offer_of
from tgp.core.rules.sources import sources_of
from tgp.ports.boot import Birth, Boot
from tgp.ports.cloud import Cloud, LaunchOrder, Tidies
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import ClusterBusy
from tgp.ports.vault import Vault


class AccountMoved(CloudError):
    """The key belongs to another account than the one the reservation was made for. Nothing was ordered."""


@dataclass(frozen=True, slots=True)
class Papers:
    """What an order needs beside the attempt."""

    record: Typed[GPURequest]
    node_class: GPUNodeClass
    node_name: str
    dress: Dress
    expires_at: datetime  # the machine is given up then, as things stand


class NotOurs(CloudError):
    """The machine under a recorded id does not carry the attempt's token. Nothing was sent that changes anything."""


class TillDesk:
    def __init__(self, clouds: Clouds, accounts: Accounts, vault: Vault, gate: Gate, boot: Boot) -> None:
        self._clouds = clouds
        self._accounts = accounts
        self._vault = vault
        self._gate = gate
        self._boot = boot

    async def prepare(self, attempt: Attempt, papers: Papers) -> tuple[Cloud, LaunchOrder]:
        """Everything up to the order itself; nothing is paid yet. Raises BootRefused, CloudError, ClusterError."""
        assert attempt.offer is not None, "what is ordered has an offer"
        offer = offer_of(attempt.offer)
        account = self._account(attempt)
        cloud = await self._open(_source(papers.node_class, account))
        told = await cloud.identity()
        if not account.includes(told.id):
            raise AccountMoved(f"the key belongs to account {told.id} now, and not to {account.identity}")
        luggage = await self._boot.pack(self._birth(attempt, offer, papers))
        return cloud, LaunchOrder(
            offer=offer,
            token=attempt.token,
            max_hourly_microusd=_ceiling(papers.record, attempt, offer),
            bid_microusd=offer.hourly_microusd if offer.spot and offer.host else None,
            tags=tuple(sorted(papers.node_class.spec.tags.items())),
            user_data=luggage.user_data,
            image=luggage.image,
            min_vcpus=papers.node_class.spec.instance_requirements.min_vcpu or 0,
            min_memory_gib=papers.node_class.spec.instance_requirements.min_memory_gib or 0,
        )

    async def order(self, cloud: Cloud, order: LaunchOrder) -> Instance:
        return await self._gate.launch(cloud, order)

    async def give_back(self, attempt: Attempt, instance_id: str, *, seen: bool) -> None:
        """Ask for the end. Raises CloudError, and the machine may cost on.

        `seen`: this process saw the attempt's token on the machine, or was told the id by the provider. Otherwise the
        id is only what stands in a status, which tenants may write: the provider is asked first whose machine that is.
        """
        cloud = await self._open(self._account(attempt).till.source)
        if not seen:
            found = await cloud.status(instance_id)
            if found is None:
                return
            if found.token != attempt.token or read_token(attempt.token) is None:
                raise NotOurs(
                    f"machine {instance_id} does not carry the mark {attempt.token} and is left alone: if it is this "
                    "request's, mark it again or terminate it in the provider's console"
                )
        await self._gate.terminate(cloud, instance_id)

    async def discard(self, attempt: Attempt, *, insist: bool = False) -> None:
        """There is no machine any more, or there never was: what was made for it goes, here and at its provider.

        `insist`: ClusterBusy where a provider may still keep something of it: it holds secrets, so ask again. A key
        that is refused asks for nothing any more.
        """
        await self._boot.discard(attempt.token)
        account = self._accounts.of(attempt)
        if account is None or account.owned:
            return
        try:
            cloud = await self._open(account.till.source)
            if isinstance(cloud, Tidies):
                await cloud.tidy(attempt.token)
        except KeyRefused:
            return
        except CloudError as error:
            if insist:
                raise ClusterBusy(
                    f"what {account.provider} keeps of {attempt.token} was not removed: {error}"
                ) from error

    def _account(self, attempt: Attempt) -> CloudAccount:
        account = self._accounts.of(attempt)
        assert account is not None, "what is ordered or terminated is in an account that was written down"
        return account

    async def _open(self, source: Source) -> Cloud:
        keys = await keys_for(source, self._vault)
        if keys.missing:
            raise KeyRefused(keys.missing)
        return self._clouds.open(source, keys.own, keys.others)

    def _birth(self, attempt: Attempt, offer: Offer, papers: Papers) -> Birth:
        record = papers.record
        assert record.object is not None, "an unreadable request buys nothing"
        return Birth(
            record.key,
            record.object,
            papers.node_class,
            offer,
            attempt.token,
            papers.node_name,
            provider_id_of(offer.provider, attempt.token),
            papers.expires_at,
            pool_name(record),
            papers.dress.labels,
            (*papers.dress.taints, *papers.dress.startup_taints),
        )


def _source(node_class: GPUNodeClass, account: CloudAccount) -> Source:
    """As the class has it, with all that buying needs.

    A box of one's own is ordered where it is looked for: its client remembers what it switched on.
    """
    till = account.till
    if account.owned:
        return till.source
    for source in sources_of(node_class).values():
        if (source.provider, source.secret, source.key) == (till.provider, till.secret, till.key):
            return source
    return till.source


def _ceiling(record: Typed[GPURequest], attempt: Attempt, offer: Offer) -> int:
    """No more than was reserved."""
    assert record.object is not None, "an unreadable request buys nothing"
    agreed, reserved = most_to_pay(record.object.spec, offer.hourly_microusd), read_amount(attempt.max_hourly_price)
    return agreed if reserved is None else min(agreed, reserved)
