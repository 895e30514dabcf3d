"""`GET /v2/pods` by pages since September 2026: newest first, `?limit=&cursor=`, `{nextCursor, hasNextPage}` beside."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tgp.ports.http import Call
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.machine import SimulatedMachine

MOST_ROWS = 1000
FIRST = datetime.max.replace(tzinfo=UTC)  # every pod comes after it
USUAL_ROWS = 100  # where no limit is asked for: not published


@dataclass(frozen=True, slots=True)
class PageRequest:
    rows: int
    cursor: str = ""
    after: tuple[datetime, str] | None = None  # made at, id: of the last pod of the page before


@dataclass(frozen=True, slots=True)
class PodPage:
    machines: tuple[SimulatedMachine, ...]
    cursor: str  # of the next page; empty: this is the last


def page_request_of(call: Call, tenant: Tenant) -> PageRequest | str:
    """What a call asks for, or what is wrong with it: a limit out of bounds, a cursor that this account never got."""
    limit, cursor = call.parameter("limit") or str(USUAL_ROWS), call.parameter("cursor") or ""
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit) <= MOST_ROWS):
        return f"$.limit: value must be from 1 to {MOST_ROWS}"
    if not cursor:
        return PageRequest(int(limit))
    after = _read(cursor, tenant)
    return "$.cursor: invalid cursor" if after is None else PageRequest(int(limit), cursor, after)


def cut(machines: Sequence[SimulatedMachine], query: PageRequest, tenant: Tenant) -> PodPage:
    newest = sorted(machines, key=_place, reverse=True)
    left = [machine for machine in newest if query.after is None or _place(machine) < query.after]
    rows = left[: query.rows]
    return PodPage(tuple(rows), cursor_of(tenant, rows[-1]) if len(left) > len(rows) else "")


def cursor_of(tenant: Tenant, machine: SimulatedMachine | None) -> str:
    """Of the page that follows this machine; None: of the page that follows nothing."""
    made, name = _place(machine) if machine else (FIRST, "")
    return base64.urlsafe_b64encode(f"{tenant.id}|{made.isoformat()}|{name}".encode()).decode()


def _read(cursor: str, tenant: Tenant) -> tuple[datetime, str] | None:
    try:
        account, made, name = base64.b64decode(cursor.encode(), b"-_", validate=True).decode().split("|")
        return (datetime.fromisoformat(made), name) if account == tenant.id else None
    except (ValueError, binascii.Error):
        return None


def _place(machine: SimulatedMachine) -> tuple[datetime, str]:
    return machine.created_at, machine.id
