"""What an object of ours costs, for a screen: of a request as time passes, of a class as its status says."""

from datetime import datetime
from typing import Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.typed import Typed
from tgp.core.rules.costs import class_spent, hourly_of, read_amount, spent_by
from tgp.surfaces.terminal.scene import Purse


def purse_of(record: Typed[Any], now: datetime) -> Purse | None:
    """None: it is of no kind that costs, or cannot be read."""
    match record.object:
        case GPURequest(status=status) if not copied(record):
            attempts = attempts_of(record)
            attempt = open_attempt(attempts)
            hourly = hourly_of(attempt) if attempt is not None else 0
            return Purse(hourly, spent_by(status, now), status.termination_scheduled_at if hourly else None)
        case GPUNodeClass(status=status):
            return Purse(read_amount(status.hourly_cost) or 0, class_spent(status, now))
        case _:
            return None
