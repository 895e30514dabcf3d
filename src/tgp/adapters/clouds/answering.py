"""What an answer that is no success means, for providers whose refusals come in an envelope of their own.

`words` are the provider's, fit to be shown; None: the answer is not in its envelope, so something in front of it may
have written it.
"""

from collections.abc import Collection

from tgp.adapters.clouds.ending import NOT_NOW_PAUSE
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, CloudError, KeyRefused, OutcomeUnknown
from tgp.ports.http import Reply

STRANGE = "not in its own words"


def after_end(reply: Reply, who: str, what: str, words: str | None, refused: Collection[int]) -> CloudError:
    """`refused`: the statuses that mean, in its own words, that nothing was ended."""
    match reply.status:
        case 401 | 403 if words is not None:
            return KeyRefused(f"{who}'s key may not end {what}: {words}")
        case status if words is not None and status in refused:
            return CloudBusy(f"{who} does not end {what}: {words}", NOT_NOW_PAUSE)
        case status:
            return OutcomeUnknown(f"{who} answered the end of {what} with {status}: {words or STRANGE}")


def after_look(reply: Reply, who: str, what: str, words: str | None, busy: Collection[int] = ()) -> CloudError:
    """That nothing is there is never what it means. `busy`: statuses besides 5xx that will pass."""
    match reply.status:
        case 401 | 403 if words is not None:
            return KeyRefused(f"{who} does not accept the key for {what}: {words}")
        case status if status >= 500 or status in busy:
            return CloudBusy(f"{who} answered {status} to {what}")
        case status:
            return CannotTell(f"{who} answered {status} to {what}: {words or STRANGE}")
