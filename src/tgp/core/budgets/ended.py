"""The pods that used most and have ended: kept in the status, because nothing else remembers their names."""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal

from tgp.api.budget import EndedPod
from tgp.core.budgets.account import OpenPod
from tgp.core.budgets.assess import hours_text
from tgp.core.budgets.spans import Sighting

MOST = 10


def ended_pod(name: str, held: OpenPod | None, seen: Sighting) -> EndedPod | None:
    """None: it used nothing. `held`: how the account had it."""
    start = held.start if held is not None and held.start is not None else seen.start
    if seen.end is None or start is None:
        return None
    milli = held.milli if held is not None and held.start is not None else seen.milli
    used = milli * max(seen.end - start, 0) + (held.before if held is not None else 0)
    if not used:
        return None
    return EndedPod(pod=name, gpu_hours=hours_text(used), ended_at=datetime.fromtimestamp(seen.end, UTC))


def largest(rows: Iterable[EndedPod], begin: int) -> tuple[EndedPod, ...]:
    """The most used first; those that ended before `begin` are left out."""
    counted = [row for row in rows if row.ended_at is not None and row.ended_at.timestamp() > begin]
    return tuple(sorted(counted, key=lambda row: (-Decimal(str(row.gpu_hours)), row.pod))[:MOST])
