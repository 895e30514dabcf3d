"""Owned machines as offers: hardware and hourly price, from the class's settings.

Without a price the smallest sufficient machine is used first: each GPU then
costs one micro-dollar an hour. That is below every real price, and puts four GPUs before eight.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from tgp.adapters.clouds.webhook.power import Power, Reading
from tgp.api.common import OWNED_PROVIDER
from tgp.api.nodeclass import ProviderSettings
from tgp.api.owned_machine import PowerMachine
from tgp.api.quantity import milli, whole
from tgp.core.model import gpus
from tgp.core.model.offer import UNKNOWN_GPU, BootMode, Offer, Stock, Trust
from tgp.core.model.prices import LONGEST_TEXT, NotAPrice, hourly_microusd

UNPRICED_GPU_MICROUSD = 1
PLACE = "owned"
GIB = 1 << 30
STOCK: Mapping[Power, Stock] = {
    Power.OFF: Stock.CONFIRMED,
    Power.UNKNOWN: Stock.UNKNOWN,
    Power.STARTING: Stock.NONE,  # a machine that is on is not for sale
    Power.ON: Stock.NONE,
    Power.STOPPING: Stock.NONE,
}


def offer_of(machine: PowerMachine, settings: ProviderSettings, seen: Reading | None) -> Offer:
    """`seen` is its last status; None: unknown. Raises NotAPrice or NotAQuantity."""
    gpu = gpus.find(machine.gpu_type, provider=OWNED_PROVIDER) if machine.gpu_type else None
    stock = STOCK[seen.power] if seen is not None else Stock.UNKNOWN
    return Offer(
        provider=OWNED_PROVIDER,
        sku=machine.name,
        place=PLACE,
        gpu=gpu.model if gpu else UNKNOWN_GPU,
        gpu_count=machine.gpu_count,
        gpu_memory_gib=gpu.memory_gib if gpu else 0,
        vcpus=milli(machine.cpu) // 1000 if machine.cpu is not None else 0,
        memory_gib=whole(machine.memory) // GIB if machine.memory is not None else 0,
        disk_gib=0,
        hourly_microusd=price_of(machine, settings),
        stock=stock,
        left=0 if stock is Stock.NONE else 1,
        trust=Trust.DATACENTER,
        boot=BootMode.POWER,
        host=machine.name,
    )


def price_of(machine: PowerMachine, settings: ProviderSettings) -> int:
    """The price in the class, else its electricity, else a micro-dollar per GPU. Raises NotAPrice."""
    least = UNPRICED_GPU_MICROUSD * machine.gpu_count
    if machine.price_per_hour is not None:
        return _dollars(_decimal(machine.price_per_hour), least)
    if machine.watts is not None and settings.electricity_price_per_kwh is not None:
        return _dollars(_decimal(settings.electricity_price_per_kwh) * machine.watts / 1000, least)
    return least


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text[:LONGEST_TEXT])
    except InvalidOperation:
        raise NotAPrice("the price is not a number of dollars") from None


def _dollars(amount: Decimal, least: int) -> int:
    """Zero becomes a micro-dollar: offers must have a price, and free machines are ordered by size."""
    return least if amount == 0 else hourly_microusd(amount)
