"""Orders and their answers on Vultr's wire: values to calls, replies to values. No I/O here."""

import base64
import re
from typing import Any
from urllib.parse import quote

from tgp.adapters.clouds.parse import ParseError, identifier, mapping_of, object_in, whatever_came
from tgp.adapters.clouds.redact import Confidence
from tgp.adapters.clouds.vultr.errors import ERRORS, MISSING, said_in
from tgp.adapters.clouds.vultr.facts import FACTS
from tgp.adapters.clouds.vultr.listing import DEDICATED
from tgp.adapters.clouds.vultr.machines import TAG_SEPARATOR, read_machine
from tgp.adapters.clouds.vultr.paging import VultrPages
from tgp.core.model.cloud_errors import CannotTell, OrderRefused
from tgp.core.model.instance import Instance, InstanceState
from tgp.ports.cloud import TOKEN_PREFIX, LaunchOrder
from tgp.ports.http import Call, Reply, json_call

TITLE = FACTS.title
ACCOUNT = Call("GET", "/account")
LONGEST_TAG = 128  # not documented; usual names and labels are shorter
LIKE_A_MACHINE = re.compile(rb"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])")  # ids are UUIDs
TALOS = "talos"
FETCHED = (
    "a snapshot of Talos with the NVIDIA extensions is imported from the image "
    "factory's disk image, once, when the first "
    "machine is needed; set settings.snapshotId to use your own instead"
)
DEEPEST = 8  # levels of an answer that are searched for ids


def plans(kind: str) -> VultrPages:
    return VultrPages("/plans", "plans", (("type", kind),))


def available(region: str) -> Call:
    """The dedicated plans of a region; empty without a key."""
    return Call("GET", f"/regions/{quote(region, safe='')}/availability", query=(("type", DEDICATED),))


def regions() -> VultrPages:
    return VultrPages("/regions", "regions")


def systems() -> VultrPages:
    return VultrPages("/os", "os")


def machines() -> VultrPages:
    """All of the account: a filter on the label would hide a relabelled machine."""
    return VultrPages("/instances", "instances")


def machine(instance_id: str) -> Call:
    return Call("GET", f"/instances/{quote(instance_id, safe='')}")


def terminate(instance_id: str) -> Call:
    return Call("DELETE", f"/instances/{quote(instance_id, safe='')}")


def talos_system(rows: list[Any]) -> int | None:
    """The id of Vultr's own Talos image, the newest if there are several; None: none."""
    found = [row["id"] for row in rows if _is_talos(row)]
    return max(found, default=None)


def _is_talos(row: Any) -> bool:
    if not isinstance(row, dict) or type(row.get("id")) is not int or not isinstance(row.get("name"), str):
        return False
    return TALOS in row["name"].lower()


def no_image() -> OrderRefused:
    return OrderRefused(
        f"{TITLE} offers no Talos image now: set settings.snapshotId of the provider "
        f"{FACTS.provider} to a snapshot made from a Talos image"
    )


def launch(order: LaunchOrder, *, snapshot_id: str = "", os_id: int | None = None) -> Call:
    """The one request that pays. It boots the snapshot where there is one, else the system."""
    assert bool(snapshot_id) != (os_id is not None), "one image, and only one"
    if len(order.user_data) > FACTS.user_data_bytes:
        raise OrderRefused(f"{TITLE} accepts at most {FACTS.user_data_bytes} bytes of user data, the order has more")
    body: dict[str, Any] = {
        "region": order.offer.place,
        "plan": order.offer.sku,
        "label": order.token,
        "tags": tags_of(order),
        "activation_email": False,  # no mail per node
        "backups": "disabled",  # they would add 20% to the price
    }
    body |= {"snapshot_id": snapshot_id} if snapshot_id else {"os_id": os_id}
    if order.user_data:
        body["user_data"] = base64.b64encode(order.user_data).decode()
    return json_call("POST", "/instances", body, not_after=order.not_after)


def tags_of(order: LaunchOrder) -> list[str]:
    """The class's as `key:value`, except any that looks like a token; then the token."""
    tags = [f"{key}{TAG_SEPARATOR}{value}"[:LONGEST_TAG] for key, value in order.tags]
    return [*dict.fromkeys(tag for tag in tags if not tag.startswith(TOKEN_PREFIX)), order.token]


def read_launch(reply: Reply, order: LaunchOrder, snapshot_id: str, *confidences: Confidence) -> Instance:
    """A machine, a definite refusal, or OutcomeUnknown."""
    made = machine_named(reply)
    if reply.ok and made:
        return Instance(
            made,
            order.token,
            InstanceState.STARTING,
            sku=order.offer.sku,
            place=order.offer.place,
            tags=dict(tag.partition(TAG_SEPARATOR)[::2] for tag in tags_of(order)),
        )
    said, what = said_in(reply, *confidences), f"an order of {order.offer.sku}"
    if not made and _hints_at_a_machine(reply, order.token, snapshot_id):
        raise ERRORS.unknown(reply, said, what)
    raise ERRORS.after_order(reply, said, what, made)


def machine_named(reply: Reply) -> str:
    """The id of the machine in an answer, also in an error; empty: none."""
    return _named_in(whatever_came(reply), DEEPEST)


def _named_in(value: Any, deepest: int) -> str:
    if deepest == 0 or not isinstance(value, dict):
        return ""
    instance = value.get("instance")
    for told in (value.get("instance_id"), instance.get("id") if isinstance(instance, dict) else None):
        try:
            return identifier(told)
        except ParseError:
            continue
    return next((found for each in value.values() if (found := _named_in(each, deepest - 1))), "")


def _hints_at_a_machine(reply: Reply, *ours: str) -> bool:
    """True: the text of an error has what could be a machine's id and is not part of our order."""
    content = reply.content.lower()
    for each in ours:
        content = content.replace(each.lower().encode(), b" ") if each else content
    return LIKE_A_MACHINE.search(content) is not None or bool(object_in(reply).get("id"))


def read_status(reply: Reply, instance_id: str, *confidences: Confidence) -> Instance | None:
    """None: Vultr says that there is no such machine. Its 404 has no code, so the caller checks the list, too."""
    if reply.status == MISSING and said_in(reply) is not None:
        return None
    if reply.status != 200:
        raise ERRORS.after_look(reply, said_in(reply, *confidences), "status")
    row = mapping_of(reply, TITLE).get("instance")
    if not isinstance(row, dict) or row.get("id") != instance_id:
        raise CannotTell(f"{TITLE} answered with another machine than {instance_id[:64]}")
    return read_machine(row)


def read_terminate(reply: Reply, *confidences: Confidence) -> None:
    """Returns if Vultr accepted the termination, or has no such machine."""
    if reply.status == 204 or (reply.status == MISSING and said_in(reply) is not None):
        return
    raise ERRORS.after_end(reply, said_in(reply, *confidences), "a termination")
