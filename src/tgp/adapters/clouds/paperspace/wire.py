"""Machines on the wire: orders out, instances in. Nothing is sent from here.

The token is the machine's name; there are no tags and no user data. A machine has no state for failure: that shows in
its events, often late.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from tgp.adapters.clouds.paperspace.errors import ERRORS, named_machine, said_in, speaks_of_a_machine
from tgp.adapters.clouds.paperspace.facts import FACTS
from tgp.adapters.clouds.paperspace.prices import PaperspaceType
from tgp.adapters.clouds.parse import (
    ParseError,
    address,
    answer_of,
    identifier,
    mapping_of,
    moment,
    shown,
    text,
    whatever_came,
)
from tgp.adapters.clouds.redact import Confidence, quoted
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, CloudError, KeyRefused, OutcomeUnknown
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.offer import BootMode, Offer, Stock
from tgp.core.model.prices import NotAPrice, hourly_microusd
from tgp.core.model.regions import country_of, region_of
from tgp.ports.cloud import TOKEN_PREFIX, Account, LaunchOrder
from tgp.ports.http import Call, Reply, json_call

MACHINES = "/v1/machines"
EVENTS = "/v1/machine-events"
SESSION = "/v1/auth/session"
STANDING = "/v1/billing/account-standing"
DISK_GB = 100  # the smallest of 100, 250, 500, 1000 and 2000, which can be ordered
STOPPING_PAUSE = timedelta(seconds=20)  # until a machine that is being stopped may be off
GOOD_STANDING = "isInGoodStanding"
STARTS = ("create", "start", "restart")  # events that should leave a machine running
LONG_AGO = datetime.min.replace(tzinfo=UTC)

STATES = {
    "off": InstanceState.STOPPED,  # its disk and a static address are still billed
    "stopping": InstanceState.STOPPED,
    "starting": InstanceState.STARTING,
    "restarting": InstanceState.STARTING,
    "provisioning": InstanceState.STARTING,
    "upgrading": InstanceState.STARTING,
    "serviceready": InstanceState.RUNNING,
    "ready": InstanceState.RUNNING,
}


# -- selling -----------------------------------------------------------------------------------------------------------


def offers_of(machine: PaperspaceType) -> list[Offer]:
    """One per region. The stock is unknown."""
    return [
        Offer(
            provider=FACTS.provider,
            sku=machine.name,
            place=place,
            region=region_of(FACTS.provider, place),
            country=country_of(FACTS.provider, place),
            gpu=machine.gpu.model,
            gpu_count=machine.gpus,
            gpu_memory_gib=machine.gpu.memory_gib,
            vcpus=machine.vcpus,
            memory_gib=machine.memory_gib,
            disk_gib=0,
            hourly_microusd=machine.hourly_microusd,
            priced_on=machine.priced_on,
            stock=Stock.UNKNOWN,
            boot=BootMode.TAKEOVER,
            type_name=machine.name.replace("+", "-plus"),  # a label's value has no plus
        )
        for place in machine.places
    ]


# -- buying ------------------------------------------------------------------------------------------------------------


def launch(order: LaunchOrder, template: str, script: str, *, nvlink: bool) -> Call:
    body: dict[str, Any] = {
        "name": order.token,
        "machineType": order.offer.sku,
        "templateId": template,
        "region": order.offer.place,
        "diskSize": DISK_GB,
        "publicIpType": "dynamic",
        "startOnCreate": True,
        "emailPassword": False,  # otherwise a password is mailed to the account's owner
        "autoShutdownEnabled": False,  # a machine that stops itself is still billed and unusable
        "autoSnapshotEnabled": False,
        "restorePointEnabled": False,
        "takeInitialSnapshot": False,
    }
    if nvlink:
        body["enableNvlink"] = True
    if script:
        body["startupScriptId"] = script
    return json_call("POST", MACHINES, body, timeout=FACTS.launch_timeout, not_after=order.not_after)


def read_launch(reply: Reply, order: LaunchOrder, *confidences: Confidence) -> Instance:
    """The machine of a valid answer; otherwise the matching error."""
    if not reply.ok:
        if speaks_of_a_machine(reply, order.image):
            raise OutcomeUnknown(f"Paperspace answered an order with {reply.status} and mentions a machine")
        said, machine = said_in(reply, *confidences, order.user_data), named_machine(reply)
        raise ERRORS.after_order(reply, said, f"an order of {order.offer.instance_type}", machine)
    body = whatever_came(reply)
    row = body.get("data") if isinstance(body, dict) else None
    try:
        return _instance(row)
    except ParseError:
        machine = named_machine(reply)
    if not machine:
        raise OutcomeUnknown(f"Paperspace answered an order for {order.offer.instance_type} without a machine")
    # An answer with an id is a machine, whatever else it says.
    return Instance(machine, order.token, InstanceState.STARTING, sku=order.offer.sku, place=order.offer.place)


# -- looking -----------------------------------------------------------------------------------------------------------


def read_machines(rows: list[Any]) -> tuple[Instance, ...]:
    """Every machine of all pages, by id. An unreadable row that may be ours is an error."""
    machines = {machine.id: machine for row in rows if (machine := _listed(row)) is not None}
    return tuple(machines[machine] for machine in sorted(machines))


def _listed(row: Any) -> Instance | None:
    """None: unreadable, and certainly not ours."""
    try:
        return _instance(row)
    except ParseError as error:
        name = row.get("name") if isinstance(row, dict) else None
        if isinstance(name, str) and name and not name.startswith(TOKEN_PREFIX):
            return None
        raise CannotTell(f"Paperspace lists a machine that cannot be parsed and may belong to tgp: {error}") from error


def get_machine(machine_id: str) -> Call:
    return Call("GET", f"{MACHINES}/{_in_path(machine_id)}")


def read_machine(reply: Reply, machine_id: str, *confidences: Confidence) -> Instance | None:
    """None: not found by its id, which the list must confirm: the body of this 404 is not documented."""
    if reply.status == 404 and said_in(reply):
        return None
    if reply.status != 200:
        raise ERRORS.after_look(reply, said_in(reply, *confidences), f"GET {MACHINES}/{machine_id}")
    try:
        machine = _instance(mapping_of(reply, FACTS.title))
    except ParseError as error:
        raise CannotTell(f"Paperspace shows machine {machine_id} in an unknown format: {error}") from error
    if machine.id != machine_id:
        raise CannotTell(f"Paperspace was asked for machine {machine_id} and returned another")
    return machine


def failed_start(rows: tuple[Any, ...], machine_id: str, *confidences: Confidence) -> str:
    """The failure of a machine's last start from its events; empty: none. Missing capacity shows here, late."""
    starts = [row for row in rows if isinstance(row, dict) and row.get("name") in STARTS]
    its = [row for row in starts if row.get("machineId") in (None, machine_id)]
    last: dict[str, Any] = max(its, key=_moment_of, default={})  # of equals the first: lists begin with the newest
    if last.get("state") != "error":
        return ""
    return quoted(last["error"], *confidences) if isinstance(last.get("error"), str) else "the machine failed to start"


def _moment_of(event: dict[str, Any]) -> datetime:
    try:
        return moment(event.get("dtCreated"), "dtCreated") or LONG_AGO
    except ParseError:
        return LONG_AGO


# -- ending ------------------------------------------------------------------------------------------------------------


def terminate(machine_id: str) -> Call:
    return Call("DELETE", f"{MACHINES}/{_in_path(machine_id)}")


def must_stop_first(reply: Reply) -> bool:
    """Documented for the console: a machine is stopped before it is deleted. Whether the API requires it is unknown."""
    return reply.status in (409, 412)


def stop(machine_id: str) -> Call:
    return Call("PATCH", f"{MACHINES}/{_in_path(machine_id)}/stop")


def stopping(machine_id: str) -> CloudBusy:
    return CloudBusy(f"Paperspace stops machine {machine_id} before its deletion; retrying", STOPPING_PAUSE)


def read_terminate(reply: Reply, machine_id: str, *confidences: Confidence) -> CloudError | None:
    """None: accepted, or already gone."""
    if reply.status == 404 and said_in(reply):
        return None
    if reply.status == 200 and named_machine(reply) == machine_id:
        return None
    return ERRORS.after_end(reply, said_in(reply, *confidences), f"the termination of {machine_id}")


def name_in(reply: Reply) -> str:
    """The name of the machine in an answer, which is its token; empty: none."""
    body = whatever_came(reply)
    row = body.get("data") if isinstance(body, dict) else None
    name = row.get("name") if isinstance(row, dict) else None
    return name if isinstance(name, str) else ""


def _in_path(machine_id: str) -> str:
    try:
        return identifier(machine_id)
    except ParseError as error:
        raise CannotTell(f"Paperspace has no such machine: {error}") from error


# -- the account -------------------------------------------------------------------------------------------------------


def read_session(reply: Reply, *confidences: Confidence) -> Account:
    """The account of a key: the team that pays."""
    if reply.status != 200:
        raise ERRORS.after_look(reply, said_in(reply, *confidences), f"GET {SESSION}")
    body = answer_of(reply, FACTS.title)
    if body is None:  # documented: not logged in
        raise KeyRefused("Paperspace does not know this API key")
    team = body.get("team") if isinstance(body, dict) else None
    if not isinstance(team, dict):
        raise CannotTell("Paperspace did not return the account of the API key")
    try:
        return Account(f"team:{identifier(team.get('id'))}", shown(text(team, "handle", default="")))
    except ParseError as error:
        raise CannotTell(f"Paperspace did not return the account of the API key: {error}") from error


def read_standing(reply: Reply, *confidences: Confidence) -> str:
    """Why the account cannot launch, in the vendor's words; empty: it can, or unknown."""
    body = whatever_came(reply)
    if reply.status != 200 or not isinstance(body, dict) or body.get(GOOD_STANDING) is not False:
        return ""
    told = body.get("messages")
    words = [each for each in told if isinstance(each, str)] if isinstance(told, list) else []
    return quoted(words[0], *confidences) if words else GOOD_STANDING


# -- one machine -------------------------------------------------------------------------------------------------------


def _instance(row: Any) -> Instance:
    if not isinstance(row, dict):
        raise ParseError("a machine is not an object")
    machine, name, told = identifier(row.get("id")), text(row, "name", longest=4096), row.get("state")
    state = STATES.get(told, InstanceState.UNKNOWN) if isinstance(told, str) else InstanceState.UNKNOWN
    said = shown(told) if isinstance(told, str) else ""
    if row.get("dtDeleted") is not None:  # gone = no longer listed
        state, said = InstanceState.ENDING, "deleted"
    return Instance(
        id=machine,
        token=name,
        state=state,
        said=said,
        sku=_short(row, "machineType"),
        place=_short(row, "region"),
        hourly_microusd=_usage_rate(row, state),
        created_at=moment(row.get("dtCreated"), "dtCreated"),
        public_ip=address(row.get("publicIp")),
        private_ip=address(row.get("privateIp")),
        progress=said if state is InstanceState.STARTING else "",
    )


def _short(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return shown(value) if isinstance(value, str) else ""


def _usage_rate(row: dict[str, Any], state: InstanceState) -> int | None:
    """Dollars an hour while it runs; the cost of a stopped machine comes as a storage rate of unknown unit."""
    if state is InstanceState.STOPPED:
        return None
    try:
        return hourly_microusd(row.get("usageRate"))
    except NotAPrice:
        return None
