"""Which machine is rented: the cheapest that is on sale, on demand, an hour of it below the cap."""

from collections.abc import Iterable

from tgp.core.model.offer import Offer, Stock, Trust


def cheapest(offers: Iterable[Offer], cap_microusd: int) -> Offer | None:
    """None: nothing costs less. One GPU suffices, and a stranger's machine is not given a cluster's words."""
    fitting = [
        offer
        for offer in offers
        if not offer.spot
        and offer.stock is not Stock.NONE
        and not offer.no_node
        and offer.trust >= Trust.VERIFIED
        and offer.hourly_microusd < cap_microusd
    ]
    return min(fitting, key=lambda offer: (offer.hourly_microusd, offer.stock, offer.key), default=None)
