"""Parses Lambda's machines. An unreadable row that may be ours makes the whole list unusable: `CannotTell`.

The owner of a machine is in its tag and in its name; the tag wins, since users rename machines.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from tgp.adapters.clouds.lambdalabs.facts import FACTS
from tgp.adapters.clouds.ownership import Owned, read_owned
from tgp.adapters.clouds.parse import ParseError, address, moment, shown
from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.prices import NotAPrice, hourly_microusd
from tgp.ports.cloud import TOKEN_PREFIX

TOKEN_TAG = "tgp-token"  # noqa: S105 - the key of a tag
CREATED_TAG = "tgp-created"
MOST_MACHINES = 10_000  # of one account
CENTS = 100
TERMINATED = "terminated"  # gone: Lambda has no stopped machines, and this one is no longer billed
STATES: Mapping[str, InstanceState] = MappingProxyType(
    {
        "booting": InstanceState.STARTING,
        "active": InstanceState.RUNNING,
        "unhealthy": InstanceState.BROKEN,
        "preempted": InstanceState.BROKEN,  # not documented; treated as lost, until it is terminated
        "terminating": InstanceState.ENDING,
    }
)


def read_machines(data: Any) -> tuple[Instance, ...]:
    """Every machine of the account that may be billed, by id."""
    if not isinstance(data, list):
        raise CannotTell(f"{FACTS.title} answered without a list of machines")
    if len(data) > MOST_MACHINES:
        raise CannotTell(f"{FACTS.title} lists {len(data)} machines; more than {MOST_MACHINES} are not read")
    found = {machine.id: machine for row in data if (machine := read_machine(row)) is not None}
    return tuple(found[each] for each in sorted(found))


def read_machine(row: Any) -> Instance | None:
    """None: terminated, or unreadable and certainly not ours."""
    owned = read_owned(row, FACTS.title, _tags, _token)
    return None if owned is None or owned.row.get("status") == TERMINATED else _machine(owned)


def _machine(owned: Owned[dict[str, str]]) -> Instance:
    row, tags = owned.row, owned.tags
    said = row.get("status")
    kind = row.get("instance_type")
    place = row.get("region")
    return Instance(
        owned.id,
        owned.token,
        STATES.get(said, InstanceState.UNKNOWN) if isinstance(said, str) else InstanceState.UNKNOWN,
        said=shown(said) if said is not None else "",
        sku=shown(_word(kind, "name")),
        place=shown(_word(place, "name")),
        hourly_microusd=_price(kind),
        interrupted=said == "preempted",
        created_at=_created(tags),
        public_ip=address(row.get("ip")),
        private_ip=address(row.get("private_ip")),
        progress=shown(said) if isinstance(said, str) else "",
        tags=tags,
    )


def _token(row: dict[str, Any], tags: dict[str, str]) -> str:
    name = row.get("name")
    if name is None:
        name = ""
    if not isinstance(name, str):
        raise ParseError(f"name is {type(name).__name__}, not a string")
    tagged = tags.get(TOKEN_TAG, "")
    return tagged if tagged.startswith(TOKEN_PREFIX) else name


def _tags(row: dict[str, Any]) -> dict[str, str]:
    rows = row.get("tags")
    if rows is None:
        return {}
    if not isinstance(rows, list):
        raise ParseError(f"tags is {type(rows).__name__}, not a list")
    tags: dict[str, str] = {}
    for each in rows:
        if not isinstance(each, dict) or not isinstance(key := each.get("key"), str):
            raise ParseError("a tag has no key")
        if isinstance(value := each.get("value"), str):
            tags[key] = value
        elif key == TOKEN_TAG:  # other tags say nothing about the owner
            raise ParseError("the tag of the machine's owner has no value")
    return tags


def _price(kind: Any) -> int | None:
    try:
        return hourly_microusd(kind.get("price_cents_per_hour"), per_dollar=CENTS) if isinstance(kind, dict) else None
    except NotAPrice:
        return None


def _created(tags: dict[str, str]) -> datetime | None:
    return moment(tags.get(CREATED_TAG), CREATED_TAG)


def _word(row: Any, name: str) -> str:
    value = row.get(name) if isinstance(row, dict) else None
    return value if isinstance(value, str) else ""
