"""The counter where machines are ordered and given back: an attempt on one side, a provider on the other."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.controllers.gate import Gate
from tgp.controllers.keys import keys_for
from tgp.core.model.cloud_errors import CloudError, KeyRefused
from tgp.core.model.instance import Instance
from tgp.core.model.offer import BootMode, Offer
from tgp.core.model.source import Source
from tgp.core.model.till import till_of_attempt
from tgp.core.model.typed import Typed
from tgp.core.rules.node_dress import Dress, pool_name
from tgp.core.rules.node_state import provider_id_of
from tgp.core.rules.purchase import most_to_pay, offer_of
from tgp.core.rules.sources import sources_of
from tgp.ports.boot import Birth, Boot
from tgp.ports.cloud import Cloud, LaunchOrder, Tidies
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import ClusterBusy
from tgp.ports.vault import Vault

NAME_KEPT = 54  # characters of a request's name in its Node's
SUFFIX_BYTES = 4


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


class TillDesk:
    def __init__(self, clouds: Clouds, vault: Vault, gate: Gate, boot: Boot) -> None:
        self._clouds = clouds
        self._vault = vault
        self._gate = gate
        self._boot = boot

    async def prepare(self, attempt: Attempt, papers: Papers) -> tuple[Cloud, LaunchOrder]:
        """Everything up to the order itself; nothing is paid yet. Raises BootRefused, CloudError, ClusterError."""
        assert attempt.offer is not None, "what is ordered has an offer"
        offer = offer_of(attempt.offer)
        cloud = await self._open(_source(papers.node_class, attempt))
        account = await cloud.identity()
        if attempt.account and account.id != attempt.account:
            raise AccountMoved(f"the key belongs to account {account.id} now, and not to {attempt.account}")
        luggage = await self._boot.pack(self._birth(attempt, offer, papers))
        return cloud, LaunchOrder(
            offer=offer,
            token=attempt.token,
            max_hourly_microusd=_ceiling(papers.record, offer),
            bid_microusd=offer.hourly_microusd if offer.spot and offer.host else None,
            tags=tuple(sorted(papers.node_class.spec.tags.items())),
            user_data=luggage.user_data,
            image=luggage.image,
        )

    async def order(self, cloud: Cloud, order: LaunchOrder) -> Instance:
        return await self._gate.launch(cloud, order)

    async def give_back(self, attempt: Attempt, instance_id: str) -> None:
        """Ask for the end. Raises CloudError, and the machine may cost on."""
        till = till_of_attempt(attempt)
        assert till is not None, "what is given back was bought somewhere"
        await self._gate.terminate(await self._open(till.source), instance_id)

    async def discard(self, attempt: Attempt, *, insist: bool = False) -> None:
        """There is no machine any more, or there never was: what was made for it goes, here and at its provider.

        `insist`: ClusterBusy where a provider may still keep something of it: it holds secrets, so ask again. A key
        that is refused asks for nothing any more.
        """
        await self._boot.discard(attempt.token)
        till = till_of_attempt(attempt)
        if till is None or till.settings.machines:
            return
        try:
            cloud = await self._open(till.source)
            if isinstance(cloud, Tidies):
                await cloud.tidy(attempt.token)
        except KeyRefused:
            return
        except CloudError as error:
            if insist:
                raise ClusterBusy(f"what {till.provider} keeps of {attempt.token} was not removed: {error}") from error

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


def node_name_for(record: Typed[GPURequest], token: str, offer: Offer) -> str:
    """Reserved before anything is bought: of a machine you own its own name, else one that no other attempt has.

    Without dots: Talos takes what stands before the first for the host's name, and registers that.
    """
    if offer.boot is BootMode.POWER:
        return offer.sku
    suffix = blake2b(token.encode(), digest_size=SUFFIX_BYTES).hexdigest()
    return f"{record.key.name.replace('.', '-')[:NAME_KEPT].rstrip('-')}-{suffix}"


def _source(node_class: GPUNodeClass, attempt: Attempt) -> Source:
    """As the class has it, with all that buying needs.

    A box of one's own is ordered where it is looked for: its client remembers what it switched on.
    """
    till = till_of_attempt(attempt)
    assert till is not None, "what is ordered has an offer"
    if till.settings.machines:
        return till.source
    for source in sources_of(node_class).values():
        if (source.provider, source.secret, source.key) == (till.provider, till.secret, till.key):
            return source
    return till.source


def _ceiling(record: Typed[GPURequest], offer: Offer) -> int:
    assert record.object is not None, "an unreadable request buys nothing"
    return most_to_pay(record.object.spec, offer.hourly_microusd)
