"""Instance ids that a provider named and the status does not show yet: they are believed, and written to the status."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tgp.api.request import Attempt
from tgp.core.model.attempts import exchanged


def recalled(attempts: tuple[Attempt, ...], unwritten: Mapping[str, Attempt]) -> tuple[Attempt, ...]:
    """The attempts, the newest with the instance id the provider named, where its record has none."""
    newest = attempts[-1] if attempts else None
    named = unwritten.get(newest.token) if newest is not None else None
    if newest is None or named is None or newest.ended_at is not None or newest.instance_id:
        return attempts
    return exchanged(attempts, named)


def with_unwritten(status: Mapping[str, Any], attempt: Attempt, *, before: Mapping[str, Any]) -> dict[str, Any] | None:
    """A status as another client wrote it, plus this attempt as its provider named it. None: nothing to add.

    An attempt that is missing there is added again, with the names that were reserved with it (`before`).
    """
    rows = [row for row in status.get("attempts") or () if isinstance(row, dict)]
    held = next((row for row in rows if row.get("token") == attempt.token), None)
    if held is not None and (held.get("endedAt") or held.get("instanceId") == attempt.instance_id):
        return None
    written = msgspec.to_builtins(attempt)
    if held is not None:
        return {**status, "attempts": [{**row, **written} if row is held else row for row in rows]}
    if any(row.get("number", 0) >= attempt.number for row in rows):
        return None  # its number was used again: the orphan collector terminates this machine
    reserved = {name: before[name] for name in ("nodeClass", "nodeName") if name in before}
    return {**reserved, **status, "attempts": [*rows, written]}
