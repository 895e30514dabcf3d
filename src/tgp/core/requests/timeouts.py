"""How long a start may take: as the class sets, else by provider and size. A machine you own has a limit of its own."""

from datetime import timedelta

from tgp.api.nodeclass import GPUNodeClass, Timeouts
from tgp.api.request import ChosenOffer
from tgp.api.values import duration
from tgp.core.market.sources import machines_of
from tgp.core.model.offer import BootMode
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.requests.observation import StartupTimeouts

MANY_GPUS = 8
LAUNCH_USUAL = timedelta(minutes=10)  # at a provider that only a newer version knows
LARGE_TAKES = 2  # times the usual, to start
BOOT = {BootMode.TAKEOVER.value: timedelta(minutes=10), BootMode.POWER.value: timedelta(minutes=10)}
BOOT_USUAL = timedelta(minutes=5)
JOIN_USUAL = timedelta(minutes=10)
INITIALIZE_USUAL = timedelta(minutes=10)


def startup_timeouts_for(
    node_class: GPUNodeClass | None, offer: ChosenOffer | None, facts: CloudFacts | None
) -> StartupTimeouts:
    """`node_class` None: it is gone, so the default times count. `facts` are the offer's provider's; None: unknown."""
    boots_within = _boot_timeout(node_class, offer)
    timeouts = (node_class.spec.timeouts if node_class is not None else None) or Timeouts()
    large = offer is not None and (offer.gpu_count or 0) >= MANY_GPUS
    launch = (facts.start_timeout if facts is not None else LAUNCH_USUAL) * (LARGE_TAKES if large else 1)
    boot = BOOT.get((offer.boot_mode or "") if offer is not None else "", BOOT_USUAL)
    if boots_within is not None:
        initialize = _written(timeouts.initialize, "initialize") or INITIALIZE_USUAL
        return StartupTimeouts(launch=boots_within, join=timedelta(0), initialize=initialize)
    return StartupTimeouts(
        launch=_written(timeouts.launch, "launch") or launch,
        join=(_written(timeouts.boot, "boot") or boot) + (_written(timeouts.join, "join") or JOIN_USUAL),
        initialize=_written(timeouts.initialize, "initialize") or INITIALIZE_USUAL,
    )


def _boot_timeout(node_class: GPUNodeClass | None, offer: ChosenOffer | None) -> timedelta | None:
    """Of a machine you own, as its class sets it; None: of any other, or the class no longer names it."""
    if node_class is None or offer is None or offer.boot_mode != BootMode.POWER.value:
        return None
    machine = machines_of(node_class).get(offer.instance_type or "")
    return duration(machine.boot_timeout, "bootTimeout") if machine is not None else None


def _written(written: str | None, name: str) -> timedelta | None:
    return duration(written, f"spec.timeouts.{name}") if written else None
