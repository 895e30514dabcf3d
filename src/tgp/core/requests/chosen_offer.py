"""An offer as an attempt records it in the status, and the offer again, from that record."""

from msgspec import structs

from tgp.api.request import ChosenOffer
from tgp.api.values import usd
from tgp.core.model.costs import read_amount
from tgp.core.model.instance import Instance
from tgp.core.model.offer import ARCHITECTURES, UNKNOWN_REGION, USUAL_ARCH, BootMode, Offer, Trust

# Fields that only a choice among offers reads. Once an offer is chosen, nothing does, so a status has no room for them:
# how certain it was to be there, where its price was from, what else it could do or cost, why it would not have fitted.
NOT_KEPT = (
    "stock",
    "left",
    "priced_on",
    "on_demand_microusd",
    "sized_by_order",
    "no_driver",
    "open_ports",
    "cuda",
    "download_mbps",
)
_BOOT_MODES = frozenset(mode.value for mode in BootMode)


def untrusted(offer: Offer) -> bool:
    """Whether a third party owns the host: its Node gets a taint, and no shared secret."""
    return offer.trust < Trust.DATACENTER


def recorded(offer: Offer) -> ChosenOffer:
    """An offer as an attempt keeps it: `offer_of` reads it back with every field but those in `NOT_KEPT`."""
    return ChosenOffer(
        provider=offer.provider,
        instance_type=offer.instance_type,
        sku=offer.sku if offer.sku != offer.instance_type else None,
        region=offer.region,
        country=offer.country or None,
        place=offer.place or None,
        host=offer.host or None,
        gpu_type=offer.gpu,
        gpu_count=offer.gpu_count,
        gpu_memory_gib=offer.gpu_memory_gib,
        vcpus=offer.vcpus or None,
        memory_gib=offer.memory_gib or None,
        disk_gib=offer.disk_gib or None,
        arch=offer.arch if offer.arch != USUAL_ARCH else None,
        boot_mode=offer.boot.value,
        untrusted=untrusted(offer),
        verified=offer.trust is Trust.VERIFIED,
        until=offer.until,
        spot=offer.spot,
        hourly_price=usd(offer.hourly_microusd),
    )


def sized(written: ChosenOffer, instance: Instance) -> ChosenOffer:
    """With the machine's own vCPUs and memory where the offer had none: from then on they count in limits."""
    vcpus, memory_gib = written.vcpus or instance.vcpus or None, written.memory_gib or instance.memory_gib or None
    return structs.replace(written, vcpus=vcpus, memory_gib=memory_gib)


def offer_of(written: ChosenOffer) -> Offer:
    """An offer again, from its record: what was ordered, not what is on sale now.

    Values that cannot be read (of a newer version, or edited by a user) must not prevent the termination.
    """
    return Offer(
        provider=written.provider,
        sku=written.sku or written.instance_type,
        place=written.place or "",
        region=written.region or UNKNOWN_REGION,
        country=written.country or "",
        host=written.host or "",
        type_name=written.instance_type if written.sku else "",
        gpu=written.gpu_type or "",
        gpu_count=written.gpu_count or 1,
        gpu_memory_gib=written.gpu_memory_gib or 0,
        vcpus=written.vcpus or 0,
        memory_gib=written.memory_gib or 0,
        disk_gib=written.disk_gib or 0,
        arch=written.arch if written.arch in ARCHITECTURES else USUAL_ARCH,
        spot=written.spot,
        hourly_microusd=read_amount(written.hourly_price) or 0,
        boot=BootMode(written.boot_mode) if written.boot_mode in _BOOT_MODES else BootMode.NATIVE,
        trust=_trust(written),
        until=written.until,
    )


def _trust(written: ChosenOffer) -> Trust:
    if not written.untrusted:
        return Trust.DATACENTER
    return Trust.VERIFIED if written.verified else Trust.ANY
