"""What a provider's answer means for us, named by the next move. The texts name provider and verb, never a secret."""

from datetime import timedelta


class CloudError(Exception):
    """Some provider did not do as asked."""


class CloudBusy(CloudError):
    """Nothing happened over there: wait, then ask the same again."""

    def __init__(self, why: str, retry_after: timedelta | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


class NotConfirmed(CloudError):
    """The last look before the order forbade it: nothing was sent. Look again, decide again."""


class QuotaExhausted(CloudBusy):
    """The provider answers no more questions of this kind before a moment that it tells: ask nothing until then."""


class SoldOut(CloudError):
    """This offer is empty: rank again without it, and remember that for a while."""


class OrderRefused(CloudError):
    """Our order is wrong, and nothing was made: tell the owner in a condition; do not repeat it."""


class KeyRefused(CloudError):
    """The key is wrong, revoked or too weak: `CredentialsValid=False`, and ask nothing more of that account."""


class AccountExhausted(CloudError):
    """No balance, or no quota left: say so, and buy elsewhere."""


class OutcomeUnknown(CloudError):
    """A change was asked for and may have happened: look for the token before ordering again.

    `instance_id` is not empty where the answer, an error perhaps, named a machine: that machine exists.
    """

    def __init__(self, why: str, instance_id: str = "") -> None:
        super().__init__(why)
        self.instance_id = instance_id


class CannotTell(CloudError):
    """The answer proves nothing: HTML, 410, half a list, a shape nobody knows. It is *unknown*, never *none*.

    Keep what was known, buy nothing there, tell people.
    """
