"""Parses Vultr's machines. An unreadable row that may be ours makes the whole list unusable: `CannotTell`.

The owner of a machine is in a tag and in its label; the tag wins, since users relabel machines. They add tags, too:
a user's tag that begins like ours is ignored.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from tgp.adapters.clouds.ownership import Owned, read_owned
from tgp.adapters.clouds.parse import ParseError, address, moment, shown
from tgp.adapters.clouds.vultr.facts import FACTS
from tgp.core.model.instance import Instance, InstanceState
from tgp.ports.cloud import TOKEN_PREFIX

A_TOKEN = re.compile(r"tgp-[a-z0-9]+-[0-9a-f]{32}-[0-9]+\Z")  # as the launch protocol writes them
TAG_SEPARATOR = ":"  # between key and value of a class's tag: Vultr's tags are single words
STATES: Mapping[str, InstanceState] = MappingProxyType(
    {
        "pending": InstanceState.STARTING,
        "active": InstanceState.RUNNING,
        "resizing": InstanceState.STARTING,
        "suspended": InstanceState.STOPPED,  # still ours, still billed
        "failed": InstanceState.BROKEN,
    }
)
NOT_UP_YET = frozenset({"none", "locked", "installingbooting"})  # server_status of an active machine that still boots
BEING_WRITTEN = frozenset(
    {"locked", "installingbooting"}
)  # the disk is being changed: the machine may be off meanwhile
HALTED = "stopped"  # power_status of an active machine that a user stopped: still billed


def read_machines(rows: list[Any]) -> tuple[Instance, ...]:
    """Every machine of the account, by id. A page may repeat a row of the one before."""
    found = {machine.id: machine for row in rows if (machine := read_machine(row)) is not None}
    return tuple(found[each] for each in sorted(found))


def read_machine(row: Any) -> Instance | None:
    """None: unreadable, and certainly not ours."""
    owned = read_owned(row, FACTS.title, _tags, _token)
    return None if owned is None else _machine(owned)


def _machine(owned: Owned[list[str]]) -> Instance:
    row = owned.row
    words = [shown(row[name]) for name in ("status", "power_status", "server_status") if row.get(name)]
    return Instance(
        owned.id,
        owned.token,
        _state(row),
        said=shown("/".join(words)),
        sku=shown(_word(row, "plan")),
        place=shown(_word(row, "region")),
        created_at=_created(row),
        public_ip=address(row.get("main_ip")),
        private_ip=address(row.get("internal_ip")),
        progress=shown("/".join(words)),
        tags=dict(tag.partition(TAG_SEPARATOR)[::2] for tag in owned.tags),
    )


def _state(row: dict[str, Any]) -> InstanceState:
    status, power, server = (row.get(name) for name in ("status", "power_status", "server_status"))
    state = STATES.get(status, InstanceState.UNKNOWN) if isinstance(status, str) else InstanceState.UNKNOWN
    if state is not InstanceState.RUNNING:
        return state
    word = server if isinstance(server, str) else ""
    if power == HALTED and word not in BEING_WRITTEN:
        return InstanceState.STOPPED
    return InstanceState.STARTING if word in NOT_UP_YET else state


def _created(row: dict[str, Any]) -> datetime | None:
    try:
        return moment(row.get("date_created"), "date_created")
    except ParseError:
        return None


def _token(row: dict[str, Any], tags: list[str]) -> str:
    label = row.get("label")
    if label is None:
        label = ""
    if not isinstance(label, str):
        raise ParseError(f"label is {type(label).__name__}, not a string")
    like_ours = [tag for tag in tags if tag.startswith(TOKEN_PREFIX)]
    if label in like_ours:
        return label
    return next((tag for tag in like_ours if A_TOKEN.match(tag)), next(iter(like_ours), label))


def _tags(row: dict[str, Any]) -> list[str]:
    tags = row.get("tags")
    if tags is None:
        return []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ParseError("tags is not a list of strings")
    return tags


def _word(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""
