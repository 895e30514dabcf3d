"""What a provider reports of a machine: how often it has to be repeated before it is believed."""

from datetime import timedelta

from tgp.api.request import Attempt
from tgp.core.model.costs import most_believed
from tgp.core.model.presence import Claims

CONFIRMED_AFTER = timedelta(seconds=30)  # between two lists that both report a machine as stopped or more expensive
SEVERAL = 2  # machines of one account reported so at once: then the account is more likely wrong …
DOUBTED_FOR = timedelta(minutes=10)  # … and machines that never joined are terminated for it after this long,
BELIEVED_AFTER = timedelta(hours=1)  # those that serve after this long, one at a time
PROGRESS_STEP = timedelta(minutes=1)  # progress is written to the status at most this often


def price_believed(claims: Claims, attempt: Attempt, billed: int) -> bool:
    """Whether to believe the listed price: it is no higher than known, or was repeated later, and for few machines."""
    said = claims.price
    if said is None:  # nothing was counted yet: that list may have been read before the machine was recorded
        return billed <= most_believed(attempt)
    if claims.together >= SEVERAL:
        return said.span >= BELIEVED_AFTER and claims.turn
    return said.shown(CONFIRMED_AFTER)
