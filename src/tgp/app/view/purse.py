"""What an object of ours costs, for a screen: of a request as time passes, of a class as its status says."""

from datetime import datetime
from typing import Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.problem import Invalid
from tgp.api.request import GPURequest
from tgp.api.values import microusd
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.typed import Typed
from tgp.core.rules.costs import hourly_of, spent
from tgp.surfaces.terminal.scene import Purse


def purse_of(record: Typed[Any], now: datetime) -> Purse | None:
    """None: it is of no kind that costs, or cannot be read."""
    match record.object:
        case GPURequest(status=status) if not copied(record):
            attempts = attempts_of(record)
            attempt = open_attempt(attempts)
            hourly = hourly_of(attempt) if attempt is not None else 0
            return Purse(hourly, spent(attempts, now), status.termination_scheduled_at if hourly else None)
        case GPUNodeClass(status=status):
            return Purse(_amount(status.hourly_cost), _amount(status.total_cost))
        case _:
            return None


def _amount(written: str | None) -> int:
    """What somebody else wrote into a status may be anything."""
    try:
        return microusd(written or "0", "status")
    except Invalid:
        return 0
