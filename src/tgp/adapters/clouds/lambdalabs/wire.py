"""Orders and their answers on Lambda's wire: values to calls, replies to values. No I/O here."""

import re
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tgp.adapters.clouds.error_answers import STRANGE
from tgp.adapters.clouds.lambdalabs.errors import ERRORS, is_missing, said_in
from tgp.adapters.clouds.lambdalabs.facts import FACTS
from tgp.adapters.clouds.lambdalabs.machines import CREATED_TAG, TOKEN_TAG, read_machine
from tgp.adapters.clouds.parse import ParseError, identifier, mapping_of, on_one_page, whatever_came
from tgp.adapters.clouds.redact import Confidence
from tgp.core.model.cloud_errors import CannotTell, OrderRefused, OutcomeUnknown
from tgp.core.model.instance import Instance, InstanceState
from tgp.ports.cloud import LaunchOrder
from tgp.ports.http import Call, Reply, UnreadableReply, json_call

TITLE = FACTS.title
TYPES = Call("GET", "/instance-types")
MACHINES = Call("GET", "/instances")
SSH_KEYS = Call("GET", "/ssh-keys")

NAME_CHARACTERS = 64
TAG_KEY_CHARACTERS = 55
TAG_VALUE_CHARACTERS = 128
NOT_IN_TAG_KEYS = re.compile(r"[^a-z0-9:-]")
IMAGE_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\Z")  # else it is the name of a family
LIKE_A_MACHINE = re.compile(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")  # ids are 32 hex digits
DEEPEST = 8  # levels of an answer that are searched for ids


def machine(instance_id: str) -> Call:
    return Call("GET", f"/instances/{quote(instance_id, safe='')}")


def terminate(instance_id: str) -> Call:
    """One id a call: it is unknown whether one bad id fails a whole batch."""
    return json_call("POST", "/instance-operations/terminate", {"instance_ids": [instance_id]})


def launch(order: LaunchOrder, ssh_key_name: str | None, now: datetime) -> Call:
    """The one request that pays. Raises OrderRefused for orders that would be refused: nothing is sent."""
    if not ssh_key_name:
        raise OrderRefused(
            f"{TITLE} requires an SSH key: set settings.sshKeyName of the provider "
            f"{FACTS.provider} to the name of a key in the account"
        )
    if len(order.token) > NAME_CHARACTERS:
        raise OrderRefused(f"{TITLE} accepts names of at most {NAME_CHARACTERS} characters, the token has more")
    body: dict[str, Any] = {
        "region_name": order.offer.place,
        "instance_type_name": order.offer.sku,
        "ssh_key_names": [ssh_key_name],
        "name": order.token,
        "tags": tags_of(order, now),
    }
    if order.user_data:
        body["user_data"] = _user_data(order)
    if order.image:
        body["image"] = {"id" if IMAGE_ID.match(order.image) else "family": order.image}
    return json_call("POST", "/instance-operations/launch", body, not_after=order.not_after)


def tags_of(order: LaunchOrder, now: datetime) -> list[dict[str, str]]:
    """The class's tags, with keys made valid for Lambda; then ours, which win."""
    tags = {_tag_key(key): value[:TAG_VALUE_CHARACTERS] for key, value in order.tags}
    tags |= {TOKEN_TAG: order.token, CREATED_TAG: now.isoformat(timespec="seconds")}
    return [{"key": key, "value": value} for key, value in tags.items()]


def _tag_key(key: str) -> str:
    """A lower-case letter, then at least one more character."""
    bent = NOT_IN_TAG_KEYS.sub("-", key.lower())
    if len(bent) < 2 or not bent[0].isalpha():
        bent = f"x-{bent}"
    return bent[:TAG_KEY_CHARACTERS]


def _user_data(order: LaunchOrder) -> str:
    if len(order.user_data) > FACTS.user_data_bytes:
        raise OrderRefused(f"{TITLE} accepts at most {FACTS.user_data_bytes} bytes of user data, the order has more")
    try:
        return order.user_data.decode()
    except UnicodeDecodeError:
        raise OrderRefused(f"{TITLE} accepts user data as text only, and the order's is not text") from None


def read_launch(reply: Reply, order: LaunchOrder, now: datetime, *confidences: Confidence) -> Instance:
    """A machine, a definite refusal, or OutcomeUnknown."""
    named = ids_named(reply)
    if reply.ok and named:
        return Instance(
            named[0],
            order.token,
            InstanceState.STARTING,
            sku=order.offer.sku,
            place=order.offer.place,
            created_at=now,
            tags={tag["key"]: tag["value"] for tag in tags_of(order, now)},
        )
    said, what = said_in(reply, *confidences), f"an order of {order.offer.sku}"
    if not named and _hints_at_a_machine(reply, order):
        raise ERRORS.unknown(reply, said, what)
    raise ERRORS.after_order(reply, said, what, next(iter(named), ""))


def ids_named(reply: Reply) -> list[str]:
    """Every machine anywhere in an answer, also in an error."""
    return _ids_in(whatever_came(reply), DEEPEST)


def _ids_in(value: Any, deepest: int, *, of_machines: bool = False) -> list[str]:
    """`of_machines`: the value is where machines are described, so that their plain `id` counts."""
    if deepest == 0:
        return []
    if isinstance(value, list):
        return [found for each in value for found in _ids_in(each, deepest - 1, of_machines=of_machines)]
    if not isinstance(value, dict):
        return []
    found: list[str] = []
    for key, each in value.items():
        if key in ("instance_ids", "instance_id") or (of_machines and key == "id"):
            found += _ids(each)
        else:
            found += _ids_in(each, deepest - 1, of_machines=key in ("instances", "instance"))
    return found


def _ids(value: Any) -> list[str]:
    found = []
    for each in value if isinstance(value, list) else [value]:
        try:
            found.append(identifier(each))
        except ParseError:
            continue
    return found


def _hints_at_a_machine(reply: Reply, order: LaunchOrder) -> bool:
    """True: the text of an error has what could be a machine's id and is not part of our order."""
    content = reply.content.lower()
    for ours in (order.token, order.image):
        content = content.replace(ours.lower().encode(), b" ") if ours else content
    return LIKE_A_MACHINE.search(content) is not None


def read_data(reply: Reply, verb: str, *confidences: Confidence) -> Any:
    """The data of an answer to a read; without its envelope an answer proves nothing."""
    if reply.status != 200:
        raise ERRORS.after_look(reply, said_in(reply, *confidences), verb)
    body = mapping_of(reply, TITLE)
    if body.get("error") is not None:
        said = said_in(reply, *confidences)
        raise CannotTell(f"{TITLE} answered {verb} with an error beside its data: {said.words if said else STRANGE}")
    if body.get("data") is None:
        raise CannotTell(f"{TITLE} answered {verb} without `data`")
    on_one_page(body, TITLE)
    return body["data"]


def read_status(reply: Reply, instance_id: str, *confidences: Confidence) -> Instance | None:
    """None only if Lambda's code says that there is no such machine, or that it is terminated."""
    if is_missing(reply):
        return None
    row = read_data(reply, "status", *confidences)
    if not isinstance(row, dict) or row.get("id") != instance_id:
        raise CannotTell(f"{TITLE} answered with another machine than {instance_id[:64]}")
    return read_machine(row)


def read_terminate(reply: Reply, instance_id: str, *confidences: Confidence) -> None:
    """Returns if Lambda accepted the termination, or has no such machine."""
    if is_missing(reply):
        return
    if not reply.ok:
        raise ERRORS.after_end(reply, said_in(reply, *confidences), "a termination")
    try:
        body = reply.json()
        ending = [row.get("id") for row in body["data"]["terminated_instances"]]
    except (UnreadableReply, KeyError, TypeError, AttributeError):
        ending = []
    if instance_id not in ending:
        raise OutcomeUnknown(f"{TITLE} answered terminate without confirming that {instance_id[:64]} terminates")
