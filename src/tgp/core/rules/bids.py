"""What to bid for a machine that others may outbid."""

from decimal import ROUND_CEILING, Decimal

from tgp.core.model.offer import Offer

DEFAULT_MARGIN = 1.25  # times the lowest bid that wins now; a class can say otherwise


def bid(offer: Offer, margin: float, cap_microusd: int | None) -> int | None:
    """For the whole machine and an hour: the lowest winning bid times `margin`, within both ceilings.

    The ceilings are what the owner pays at most (None: no such limit) and the same machine without the risk: nobody
    bids more than it costs to own the hour. None: what is left under them would not win, so there is nothing to bid.
    """
    assert offer.spot, "only spot machines are bid for"
    lowest = offer.hourly_microusd
    wished = int((lowest * Decimal(str(margin))).to_integral_value(rounding=ROUND_CEILING))
    ceilings = [ceiling for ceiling in (cap_microusd, offer.on_demand_microusd) if ceiling is not None]
    most = min([max(wished, lowest), *ceilings])
    return most if most >= lowest else None
