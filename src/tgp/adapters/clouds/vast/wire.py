"""Machines and accounts at Vast.ai: values to calls, replies to values. No I/O.

A machine is found again by its `label`, which is our token. Only the list lives under v1; all else stays under v0.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tgp.adapters.clouds.parse import (
    ParseError,
    address,
    answer_of,
    identifier,
    mapping_of,
    moment,
    object_in,
    rows_of,
    shown,
)
from tgp.adapters.clouds.redact import Confidence
from tgp.adapters.clouds.vast.errors import ERRORS, look_failed, or_quota, said_in, says_bad_key, succeeded, told_in
from tgp.adapters.clouds.vast.facts import TITLE
from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.prices import HIGHEST_HOURLY, MICRO, NotAPrice, hourly_microusd
from tgp.ports.cloud import TOKEN_PREFIX, Account
from tgp.ports.http import Call, Reply, json_call

PAGE_ROWS = 25  # the most per page
LONGEST_TOKEN = 4096  # of a page, an opaque text
GONE = ("no_such_instance", "not_found")  # how a delete says that the machine is already gone
FAILED_START = "oci runtime"  # in the status text of a container that was made and will never start

STATES = {
    "created": InstanceState.STARTING,
    "loading": InstanceState.STARTING,
    "rebooting": InstanceState.STARTING,
    "running": InstanceState.RUNNING,
    "stopped": InstanceState.STOPPED,
    "frozen": InstanceState.STOPPED,  # paused with its memory kept
    "exited": InstanceState.BROKEN,  # these three do not come back by themselves
    "unknown": InstanceState.BROKEN,
    "offline": InstanceState.BROKEN,
}


# -- the list ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InstancePage:
    machines: tuple[Instance, ...]
    strange: int  # foreign, unreadable ones: they count, too
    next_token: str  # empty: this was the last
    total: int | None  # total of the account as reported; None: not reported


def list_page(after: str) -> Call:
    """One page by ascending id. The parameters are JSON in text, as the API wants them."""
    query = (("select_filters", "{}"), ("order_by", '[{"col": "id", "dir": "asc"}]'), ("limit", str(PAGE_ROWS)))
    return Call("GET", "/api/v1/instances/", query=(*query, ("after_token", after)) if after else query)


def read_page(reply: Reply, now: datetime, *confidences: Confidence) -> InstancePage:
    if reply.status != 200:
        raise look_failed(reply, "listing machines", now, *confidences)
    body = mapping_of(reply, TITLE)
    if not succeeded(body):
        raise CannotTell(f"{TITLE} listed nothing: {told_in(reply, *confidences).words}")
    machines = [_listed(row) for row in rows_of(body, "instances", TITLE)]
    return InstancePage(
        tuple(machine for machine in machines if machine is not None),
        machines.count(None),
        _next_token(body),
        _total(body),
    )


def _next_token(body: dict[str, Any]) -> str:
    token = body.get("next_token")
    if token is None or token == "":
        return ""
    if not isinstance(token, str) or len(token) > LONGEST_TOKEN:
        raise CannotTell(f"{TITLE} sent a page token in an unknown format")
    return token


def _total(body: dict[str, Any]) -> int | None:
    """The reported total: missing is None, unreadable is an error."""
    total = body.get("total_instances")
    if total is None:
        return None
    try:
        return int(identifier(total, "total_instances"))
    except ValueError as error:  # a ParseError, or not a number
        raise CannotTell(f"{TITLE} sent a total of machines in an unknown format") from error


def _listed(row: Any) -> Instance | None:
    """One row of the list; None: unreadable, and certainly not ours."""
    try:
        return machine(row)
    except ParseError as error:
        label = row.get("label") if isinstance(row, dict) else None
        if isinstance(label, str) and label and not label.startswith(TOKEN_PREFIX):
            return None
        raise CannotTell(f"{TITLE} listed a machine that cannot be parsed and may belong to tgp: {error}") from error


# -- one machine -------------------------------------------------------------------------------------------------------


def status(instance_id: str) -> Call:
    return Call("GET", _path(instance_id), query=(("owner", "me"),))


def read_status(reply: Reply, instance_id: str, now: datetime, *confidences: Confidence) -> Instance | None:
    """None only if Vast says so itself: `instances` is present, and null."""
    if reply.status != 200:
        raise look_failed(reply, f"looking at {instance_id}", now, *confidences)
    body = mapping_of(reply, TITLE)
    if "instances" not in body or not succeeded(body):
        raise CannotTell(f"{TITLE} returned nothing about {instance_id}: {told_in(reply, *confidences).words}")
    row = body["instances"]
    if row is None:
        return None
    try:
        found = machine(row)
    except ParseError as error:
        raise CannotTell(f"{TITLE} described {instance_id} in an unknown format: {error}") from error
    if found.id != instance_id:
        raise CannotTell(f"{TITLE} was asked for {instance_id} and answered with {found.id}")
    return found


def machine(row: Any) -> Instance:
    """One machine of the account. Only its id and its label must be valid; `ParseError` otherwise."""
    if not isinstance(row, dict):
        raise ParseError(f"a machine is {type(row).__name__}, not an object")
    state, interrupted = _state(row)
    spot = row.get("is_bid") is True
    return Instance(
        contract_id(row.get("id")),
        _label(row),
        state,
        said=_said(row),
        place=_words(row.get("geolocation")),
        hourly_microusd=_price(row.get("dph_total")),
        spot=spot,
        interrupted=interrupted and spot,
        created_at=_moment(row.get("start_date"), "start_date"),
        ends_at=_to_the_minute(_moment(row.get("end_date"), "end_date")),
        public_ip=address(row.get("public_ipaddr")),
        private_ip=_first_address(row.get("local_ipaddrs")),
        progress=_words(row.get("status_msg")),
    )


def contract_id(value: Any) -> str:
    """The number of a contract: the machine's id."""
    text = identifier(value)
    if not text.isdigit() or not int(text):
        raise ParseError(f"id is not a number: {shown(value)}")
    return str(int(text))


def _label(row: dict[str, Any]) -> str:
    label = row.get("label")
    if label is None:
        return ""
    if not isinstance(label, str):
        raise ParseError(f"label is {type(label).__name__}, not a string")
    return label.strip()


def _state(row: dict[str, Any]) -> tuple[InstanceState, bool]:
    """Its state, and whether it was stopped without a request of ours.

    We never stop machines. So a contract whose current, intended and next state is stopped was outbid, if it was a bid,
    or the account's credit is used up.
    """
    contract = tuple(row.get(name) for name in ("cur_state", "intended_status", "next_state"))
    if contract == ("stopped", "stopped", "stopped"):
        return InstanceState.STOPPED, True
    if row.get("cur_state") == "unloaded":
        return InstanceState.ENDING, False
    actual = row.get("actual_status")
    if actual is None:
        return InstanceState.STARTING, False
    if actual == "created" and FAILED_START in _words(row.get("status_msg")).lower():
        return InstanceState.BROKEN, False
    return (STATES.get(actual, InstanceState.UNKNOWN) if isinstance(actual, str) else InstanceState.UNKNOWN), False


def _said(row: dict[str, Any]) -> str:
    actual = row.get("actual_status")
    words = (actual if isinstance(actual, str) else "provisioning" if actual is None else "?", row.get("cur_state"))
    return shown(", contract ".join(word for word in words if isinstance(word, str)))


def _words(value: Any) -> str:
    return shown(value) if isinstance(value, str) else ""


def _price(told: Any) -> int | None:
    try:
        return hourly_microusd(told)
    except NotAPrice:
        return None


def _moment(told: Any, name: str) -> datetime | None:
    return moment(told, name) if isinstance(told, int | float) else None


def _to_the_minute(ends: datetime | None) -> datetime | None:
    """As in an offer."""
    return ends.replace(second=0, microsecond=0) if ends is not None else None


def _first_address(told: Any) -> str:
    return address(told.split()[0]) if isinstance(told, str) and told.split() else ""


# -- the end -----------------------------------------------------------------------------------------------------------


def terminate(instance_id: str) -> Call:
    return json_call("DELETE", _path(instance_id), {})


def read_terminate(reply: Reply, instance_id: str, now: datetime, *confidences: Confidence) -> None:
    """Returns if Vast accepted the termination, or has no such machine."""
    body, told = object_in(reply), told_in(reply, *confidences)
    if reply.status == 200 and body.get("success") is True:
        return
    gone = body and any(part in told.text for part in GONE) and not says_bad_key(told)
    if reply.status in (200, 404) and gone:
        return
    error = ERRORS.after_end(reply, said_in(reply, *confidences), f"the destruction of {instance_id}")
    raise or_quota(error, reply, now)


def _path(instance_id: str) -> str:
    try:
        return f"/api/v0/instances/{contract_id(instance_id)}/"
    except ParseError as error:
        raise CannotTell(f"{TITLE} has no such machine: {error}") from error


# -- the account -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AccountBalance:
    account: Account
    balance_microusd: int | None  # None: not told


def account() -> Call:
    """With the slash, as it is documented; the provider's own client asks without one, and follows a redirect."""
    return Call("GET", "/api/v0/users/current/")


def read_account(reply: Reply, now: datetime, *confidences: Confidence) -> AccountBalance:
    if reply.status != 200:
        raise look_failed(reply, "reading the account", now, *confidences)
    body = answer_of(reply, TITLE)
    if not isinstance(body, dict) or not succeeded(body):
        raise CannotTell(f"{TITLE} did not describe the account: {told_in(reply, *confidences).words}")
    try:
        number = contract_id(body.get("id"))
    except ParseError as error:
        raise CannotTell(f"{TITLE} did not name the account: {error}") from error
    return AccountBalance(Account(number, _words(body.get("username"))), _balance(body.get("credit")))


def _balance(told: Any) -> int | None:
    """Prepaid dollars, negative if overdrawn; None: not a valid number."""
    if isinstance(told, bool) or not isinstance(told, int | float):
        return None
    bound = HIGHEST_HOURLY / MICRO * 1_000_000  # a billion dollars: more is an error
    return int(told * MICRO) if -bound < told < bound else None
