"""What an error answer means, whatever the provider. After a refused termination the machine is still billed: retry.

`words` are the provider's, safe to show; None: the answer is not in the provider's envelope, so a proxy may
have written it.
"""

from collections.abc import Collection
from datetime import timedelta

from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    CloudBusy,
    CloudError,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.ports.http import Reply

NOT_NOW_PAUSE = timedelta(minutes=1)  # of a machine that is locked, or too young to be terminated
ABOUT_ORDERS = (OrderRefused, SoldOut, AccountExhausted)  # these say that nothing was launched, and something was
STRANGE = "not in the provider's error format"


def after_end(reply: Reply, who: str, what: str, words: str | None, refused: Collection[int]) -> CloudError:
    """`refused`: the statuses that mean, in the provider's envelope, that nothing was terminated."""
    match reply.status:
        case 401 | 403 if words is not None:
            return KeyRefused(f"{who} refused the API key for the termination of {what}: {words}")
        case status if words is not None and status in refused:
            return CloudBusy(f"{who} does not terminate {what} yet: {words}", NOT_NOW_PAUSE)
        case status:
            return OutcomeUnknown(f"{who} answered the termination of {what} with {status}: {words or STRANGE}")


def after_look(reply: Reply, who: str, what: str, words: str | None, busy: Collection[int] = ()) -> CloudError:
    """Never means "absent". `busy`: temporary statuses besides 5xx."""
    match reply.status:
        case 401 | 403 if words is not None:
            return KeyRefused(f"{who} refused the API key for {what}: {words}")
        case status if status >= 500 or status in busy:
            return CloudBusy(f"{who} answered {status} to {what}")
        case status:
            return CannotTell(f"{who} answered {status} to {what}: {words or STRANGE}")


def not_ended(error: CloudError) -> CloudError:
    """The same text as a retryable error; errors that are not about an order stay as they are."""
    return CloudBusy(str(error), NOT_NOW_PAUSE) if isinstance(error, ABOUT_ORDERS) else error
