"""What a refusal to end a machine means: it costs on, so it is asked for again, whatever the provider's words."""

from datetime import timedelta

from tgp.core.model.cloud_errors import AccountExhausted, CloudBusy, CloudError, OrderRefused, SoldOut

NOT_NOW_PAUSE = timedelta(minutes=1)  # of a machine that is locked, or too young to be ended
ABOUT_ORDERS = (OrderRefused, SoldOut, AccountExhausted)  # these say that nothing was made, and something was


def not_ended(error: CloudError) -> CloudError:
    """The same words as a reason to ask again; whatever does not speak of an order means the same here."""
    return CloudBusy(str(error), NOT_NOW_PAUSE) if isinstance(error, ABOUT_ORDERS) else error
