"""One order at Vast.ai, and what its answer means. No I/O.

The create is a PUT on an ask. There is no idempotency key, and an error may come with the number of a
machine that was launched nevertheless (`new_contract`): such an answer is never a refusal.
"""

import re
from datetime import datetime
from typing import Any

from tgp.adapters.clouds.parse import ParseError, object_in, whatever_came
from tgp.adapters.clouds.redact import Confidence
from tgp.adapters.clouds.vast.errors import ERRORS, or_quota, said_of_order, told_in
from tgp.adapters.clouds.vast.facts import TITLE, USER_DATA_CHARACTERS
from tgp.adapters.clouds.vast.wire import contract_id
from tgp.adapters.clouds.vast.wire_offers import DISK_GIB, VM_SUFFIX
from tgp.core.model.cloud_errors import OrderRefused, OutcomeUnknown
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.prices import MICRO
from tgp.ports.cloud import LaunchOrder
from tgp.ports.http import Call, Reply, json_call

VM_IMAGE = "docker.io/vastai/kvm:@vastai-automatic-tag"  # VMs boot only images of this repository
VM_REPOSITORY = "docker.io/vastai/kvm"
LOWEST_BID, HIGHEST_BID = 1_000, 128 * MICRO  # micro-dollars; what `price` may be
LONGEST_ENV, LONGEST_ENV_ENTRY = 32_768, 256  # characters
MACHINE_FIELDS = ("new_contract", "instance_id", "contract_id")  # fields that may name a machine in an answer
NAME_DEPTH, NAME_ROWS = 3, 100  # nesting depth and list rows that are searched for it


def ask_of(order: LaunchOrder) -> str:
    """The number of the ask an offer was made from."""
    number = order.offer.sku.removesuffix(VM_SUFFIX)
    try:
        return contract_id(number)
    except ParseError as error:
        raise OrderRefused(f"{TITLE} has no offer {order.offer.sku}: an offer id is a number") from error


def launch(order: LaunchOrder, price_microusd: int | None) -> Call:
    """The one call that pays. `price_microusd`, without the disk, makes it a bid; None buys on demand."""
    body: dict[str, Any] = {
        "client_id": "me",
        "label": order.token,
        "disk": DISK_GIB,
        "cancel_unavail": True,  # otherwise a bid that cannot start leaves a stopped machine that is billed
        "target_state": "running",
        **(_vm(order) if order.offer.sku.endswith(VM_SUFFIX) else _container(order)),
    }
    if price_microusd is not None:
        if not LOWEST_BID <= price_microusd <= HIGHEST_BID:
            raise OrderRefused(f"{TITLE} accepts bids from $0.001 to $128 per hour, not {price_microusd / MICRO:.6f}")
        body["price"] = price_microusd / MICRO
    return json_call("PUT", f"/api/v0/asks/{ask_of(order)}/", body, not_after=order.not_after)


def _container(order: LaunchOrder) -> dict[str, Any]:
    container = order.container
    image = container.image if container is not None else order.image
    if not image:
        raise OrderRefused(f"{TITLE} needs a container image, and the order has none")
    start = _start(order)
    entrypoint, *given = container.entrypoint if container is not None and container.entrypoint else ("",)
    args = [*given, *(container.command if container is not None else ())]
    if start and (entrypoint or args):
        raise OrderRefused(f"{TITLE} accepts either a command or user data for a container, not both")
    if len(entrypoint) + sum(map(len, args)) > USER_DATA_CHARACTERS:
        raise OrderRefused(f"{TITLE} accepts commands of up to {USER_DATA_CHARACTERS} characters")
    body: dict[str, Any] = {"image": image, "env": _env(order)}
    if start:
        return {**body, "runtype": "ssh", "onstart": start}
    # `args` leaves the image's entrypoint as it is, unless `onstart` names another; every other way replaces it.
    named = {"onstart": entrypoint} if entrypoint else {}
    return {**body, "runtype": "args", **named, "args": args}


def _vm(order: LaunchOrder) -> dict[str, Any]:
    image = order.container.image if order.container is not None else order.image
    if image and re.split("[:@]", image)[0] != VM_REPOSITORY:
        raise OrderRefused(f"{TITLE} boots virtual machines from images of {VM_REPOSITORY} only")
    if order.container is not None and (order.container.entrypoint or order.container.command):
        raise OrderRefused(f"{TITLE} boots a virtual machine from an image: it accepts user data, but no command")
    body: dict[str, Any] = {"image": image or VM_IMAGE, "env": _env(order), "runtype": "ssh", "vm": True}
    if start := _start(order):
        body["onstart"] = start
    return body


def _start(order: LaunchOrder) -> str:
    try:
        start = order.user_data.decode()
    except UnicodeDecodeError:
        raise OrderRefused(f"{TITLE} accepts user data as text only") from None
    if len(start) > USER_DATA_CHARACTERS:
        raise OrderRefused(
            f"{TITLE} accepts user data of up to {USER_DATA_CHARACTERS} characters; this has {len(start)}"
        )
    return start


def _env(order: LaunchOrder) -> dict[str, str]:
    env = dict(order.container.env) if order.container is not None else {}
    lengths = [len(name) + len(value) for name, value in env.items()]
    if sum(lengths) > LONGEST_ENV or any(length > LONGEST_ENV_ENTRY for length in lengths):
        raise OrderRefused(
            f"{TITLE} accepts environments of up to {LONGEST_ENV} characters, "
            f"and up to {LONGEST_ENV_ENTRY} for each entry"
        )
    return env


# -- the answer --------------------------------------------------------------------------------------------------------


def read_launch(reply: Reply, order: LaunchOrder, now: datetime, *confidences: Confidence) -> Instance:
    env = order.container.env if order.container is not None else ()
    secrets = (*confidences, order.user_data, *(value.encode() for _, value in env))
    made, named = _machine_named(whatever_came(reply))
    if made and reply.status == 200 and object_in(reply).get("success") is True:
        return Instance(
            made,
            order.token,
            InstanceState.STARTING,
            sku=order.offer.sku,
            place=order.offer.place,
            spot=order.offer.spot,
        )
    if named:
        which = made or "in an unknown format"
        words = told_in(reply, *secrets).words
        raise OutcomeUnknown(f"{TITLE} answered {reply.status} ({words}) and named machine {which}", made)
    error = ERRORS.after_order(reply, said_of_order(reply, *secrets), f"an order of offer {order.offer.sku}")
    raise or_quota(error, reply, now)


def _machine_named(value: Any, depth: int = NAME_DEPTH) -> tuple[str, bool]:
    """The number of a machine anywhere in an answer, and whether one is named at all, readable or not."""
    if isinstance(value, list):
        inner = value[:NAME_ROWS]
    elif isinstance(value, dict):
        named = [told for name in MACHINE_FIELDS if (told := value.get(name))]
        for told in named:
            try:
                return contract_id(told), True
            except ParseError:
                continue
        if named:
            return "", True
        inner = list(value.values())
    else:
        return "", False
    found = [_machine_named(each, depth - 1) for each in inner] if depth else []
    return next((each for each in found if each[1]), ("", False))
