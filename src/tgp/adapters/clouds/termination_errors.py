"""What a refused termination means: the machine is still billed, so it is retried, whatever the provider's text."""

from datetime import timedelta

from tgp.core.model.cloud_errors import AccountExhausted, CloudBusy, CloudError, OrderRefused, SoldOut

NOT_NOW_PAUSE = timedelta(minutes=1)  # of a machine that is locked, or too young to be terminated
ABOUT_ORDERS = (OrderRefused, SoldOut, AccountExhausted)  # these say that nothing was launched, and something was


def not_ended(error: CloudError) -> CloudError:
    """The same text as a retryable error; errors that are not about an order stay as they are."""
    return CloudBusy(str(error), NOT_NOW_PAUSE) if isinstance(error, ABOUT_ORDERS) else error
