"""Start-up scripts: the only way to give a machine user data. They are separate objects and hold join secrets.

A script is named by its machine's token and deleted with it. Leftovers of lost answers are found by name: scripts
of earlier attempts of the same request, and any of our cluster that is a day old (a script runs once, at first boot).
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tgp.adapters.clouds.paperspace.facts import FACTS
from tgp.adapters.clouds.parse import ParseError, identifier, moment, whatever_came
from tgp.core.model.cloud_errors import OrderRefused
from tgp.ports.cloud import LaunchOrder
from tgp.ports.http import Call, Reply, json_call

SCRIPTS = "/v1/startup-scripts"
KEPT_FOR = timedelta(days=1)  # far longer than any machine takes to boot
TOKEN = re.compile(r"(tgp-[0-9a-f]{10}-)([0-9a-f]{32})-([0-9]{1,9})\Z")


@dataclass(frozen=True, slots=True)
class StartupScript:
    id: str
    name: str
    machines: tuple[str, ...]  # that it is assigned to
    created_at: datetime | None


def create(order: LaunchOrder) -> Call:
    """OrderRefused for orders that would be refused: nothing is sent."""
    if len(order.user_data) > FACTS.user_data_bytes:
        raise OrderRefused(f"Paperspace accepts at most {FACTS.user_data_bytes} bytes of user data, the order has more")
    try:
        script = order.user_data.decode()
    except UnicodeDecodeError:
        raise OrderRefused("Paperspace runs user data as a script: it must be text") from None
    body = {"name": order.token, "script": script, "isRunOnce": True}
    return json_call("POST", SCRIPTS, body, not_after=order.not_after)


def read_create(reply: Reply) -> str:
    """The script's id; empty: unknown, and one may exist."""
    body = whatever_came(reply)
    if not reply.ok or not isinstance(body, dict):
        return ""
    inner = body.get("data")
    try:
        return identifier((inner if isinstance(inner, dict) else body).get("id"))
    except ParseError:
        return ""


def delete(script_id: str) -> Call:
    return Call("DELETE", f"{SCRIPTS}/{script_id}")


def read(rows: tuple[Any, ...]) -> tuple[StartupScript, ...]:
    """The readable ones; others are not ours, and deleted ones are skipped."""
    found = []
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("name"), str) or row.get("dtDeleted") is not None:
            continue
        machines = row.get("assignedMachineIds")
        try:
            found.append(
                StartupScript(
                    identifier(row.get("id")),
                    row["name"],
                    tuple(each for each in machines if isinstance(each, str)) if isinstance(machines, list) else (),
                    moment(row.get("dtCreated"), "dtCreated"),
                )
            )
        except ParseError:
            continue
    return tuple(found)


def removable(
    scripts: tuple[StartupScript, ...], now: datetime, *, token: str = "", machine: str = ""
) -> tuple[str, ...]:
    """Ids of the scripts that are unused once the machine of `token` (or that id) is gone.

    Without a token only what was assigned to the machine: its cluster is unknown.
    """
    ours = TOKEN.match(token)
    return tuple(each.id for each in scripts if _spent(each, ours, now) or (machine and _assigned(each, machine)))


def _assigned(script: StartupScript, machine: str) -> bool:
    return machine in script.machines and TOKEN.match(script.name) is not None


def _spent(script: StartupScript, ours: re.Match[str] | None, now: datetime) -> bool:
    its = TOKEN.match(script.name)
    if ours is None or its is None or its[1] != ours[1]:  # of another cluster, or not ours
        return False
    same_request = its[2] == ours[2]
    if same_request and int(its[3]) <= int(ours[3]):  # an attempt starts only when all earlier ones are over
        return True
    return script.created_at is not None and now - script.created_at > KEPT_FOR
