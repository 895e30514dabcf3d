"""The cost of an object: for a request estimated as time passes, for a class from its status."""

from datetime import datetime
from typing import Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.costs import class_spent, hourly_of, read_amount, spent_by
from tgp.core.model.kube_object import KubeObject
from tgp.interfaces.terminal.snapshot import CostRow


def cost_row_of(record: KubeObject[Any], now: datetime) -> CostRow | None:
    """None: objects of this kind have no cost, or it cannot be read."""
    match record.value:
        case GPURequest(status=status) if not copied(record):
            attempts = attempts_of(record)
            attempt = open_attempt(attempts)
            hourly = hourly_of(attempt) if attempt is not None else 0
            return CostRow(hourly, spent_by(status, now), status.termination_scheduled_at if hourly else None)
        case GPUNodeClass(status=status):
            return CostRow(read_amount(status.hourly_cost) or 0, class_spent(status, now))
        case GPUNodePool(status=status):
            return CostRow(read_amount(status.hourly_cost) or 0, 0)
        case _:
            return None
