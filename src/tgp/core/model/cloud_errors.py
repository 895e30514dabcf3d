"""What a provider's answer means, named by what to do next. The texts name provider and verb, never a secret."""

from datetime import timedelta


class CloudError(Exception):
    """A call to a provider failed."""


class CloudBusy(CloudError):
    """Nothing happened at the provider: wait, then repeat the call."""

    def __init__(self, why: str, retry_after: timedelta | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


class OrderQueued(CloudBusy):
    """Other orders at the account are sent first. The provider was not asked."""


class NotConfirmed(CloudError):
    """The last check before the order forbade it: nothing was sent. Observe again, decide again."""


class QuotaExhausted(CloudBusy):
    """The provider answers no more calls of this kind until a time that it reports: send none until then."""


class SoldOut(CloudError):
    """This offer is sold out: rank again without it, and remember that for a while."""


class OrderRefused(CloudError):
    """Our order is wrong, and nothing was created: report it in a condition; do not repeat it."""


class KeyRefused(CloudError):
    """The key is wrong, revoked or too weak: `CredentialsValid=False`, and send that account no further calls."""


class AccountExhausted(CloudError):
    """No balance, or no quota left: report it, and buy elsewhere."""


class OutcomeUnknown(CloudError):
    """A change was sent and may have happened: look for the token before ordering again.

    `instance_id` is not empty where the answer, an error perhaps, named a machine: that machine exists.
    """

    def __init__(self, why: str, instance_id: str = "") -> None:
        super().__init__(why)
        self.instance_id = instance_id


class CannotTell(CloudError):
    """The answer proves nothing: HTML, 410, half a list, an unknown shape. It is *unknown*, never *none*.

    Keep what was known, buy nothing there, report it.
    """
