"""What to bid for a spot machine."""

from decimal import ROUND_CEILING, Decimal

from tgp.core.model.offer import Offer

DEFAULT_MARGIN = 1.25  # times the lowest bid that wins now; a class can override it


def bid(offer: Offer, margin: float, cap_microusd: int | None) -> int | None:
    """For the whole machine and an hour: the lowest winning bid times `margin`, within both ceilings.

    The ceilings are the price cap (None: no such limit) and the on-demand price of the same machine: a higher bid makes
    no sense. None: no bid within the ceilings would win.
    """
    assert offer.spot, "only spot machines are bid for"
    lowest = offer.hourly_microusd
    target = int((lowest * Decimal(str(margin))).to_integral_value(rounding=ROUND_CEILING))
    ceilings = [ceiling for ceiling in (cap_microusd, offer.on_demand_microusd) if ceiling is not None]
    most = min([max(target, lowest), *ceilings])
    return most if most >= lowest else None
