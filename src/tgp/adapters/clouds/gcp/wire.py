"""Calls to the Compute API, and its lists and machines read. No I/O.

Every list here is an aggregated one, over all zones: it is used only if every zone answered. Only the fields that are
read are asked for, since a machine's own answer repeats its user data.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tgp.adapters.clouds.gcp.catalogue import catalogue, sku_of
from tgp.adapters.clouds.gcp.errors import WHO, failures_of, is_gone, look_failed
from tgp.adapters.clouds.gcp.names import instance_id, last_of, named, parted
from tgp.adapters.clouds.parse import ParseError, address, mapping_of, moment, shown
from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.instance import Instance, InstanceState
from tgp.ports.http import Call, Reply

PAGE_ROWS = 500  # the most the API gives at once
OPERATIONS_ROWS = 20  # of one machine: it is made once
SCOPES_MAX = 1_000  # zones and regions in one answer; there are some 170
LABELS_READ = 128
NOTHING_HERE = "NO_RESULTS_ON_PAGE"  # the only warning that means: none

MACHINE_FIELDS = (
    "id,name,zone,status,statusMessage,creationTimestamp,machineType,labels,"
    "scheduling/provisioningModel,guestAccelerators,"
    "resourceStatus(scheduling/terminationTimestamp,upcomingMaintenance/windowStartTime),"
    "networkInterfaces(networkIP,accessConfigs/natIP)"
)
TYPE_FIELDS = "name,zone,guestCpus,memoryMb,accelerators,architecture,deprecated/state"
GPU_FIELDS = "name,zone,maximumCardsPerInstance,deprecated/state"

STATES = {
    "PENDING": InstanceState.STARTING,
    "PROVISIONING": InstanceState.STARTING,
    "STAGING": InstanceState.STARTING,
    "RUNNING": InstanceState.RUNNING,
    "PENDING_STOP": InstanceState.ENDING,
    "STOPPING": InstanceState.ENDING,  # before deleted, and before stopped too: the next read shows which
    "DEPROVISIONING": InstanceState.ENDING,
    "SUSPENDING": InstanceState.STOPPED,
    "SUSPENDED": InstanceState.STOPPED,
    "STOPPED": InstanceState.STOPPED,
    "TERMINATED": InstanceState.STOPPED,  # Google's name for stopped: its disk is still billed
    "REPAIRING": InstanceState.BROKEN,
}


@dataclass(frozen=True, slots=True)
class GcpPage:
    """Rows of one page by the scope they were found in, such as `zones/us-central1-a`."""

    rows: tuple[tuple[str, Any], ...]
    next: str  # empty: the last


# -- calls -------------------------------------------------------------------------------------------------------------


def instances(project: str, page: str = "") -> Call:
    return _aggregated(project, "instances", MACHINE_FIELDS, page)


def machine_types(project: str, page: str = "") -> Call:
    return _aggregated(project, "machineTypes", TYPE_FIELDS, page, f'name eq "({catalogue().machine_types})"')


def accelerator_types(project: str, page: str = "") -> Call:
    return _aggregated(project, "acceleratorTypes", GPU_FIELDS, page)


def instance(project: str, machine: str) -> Call:
    return Call("GET", _path_of(project, machine), query=(("fields", MACHINE_FIELDS),))


def terminate(project: str, machine: str) -> Call:
    """Without a request id: a repeated termination must not be deduplicated."""
    return Call("DELETE", _path_of(project, machine))


def operations(project: str, machine: str, page: str = "") -> Call:
    """Recent operations on one machine, including its creation."""
    zone, name = parted(machine)
    query = (
        ("filter", f'targetLink eq ".*/instances/{name}"'),
        ("maxResults", str(OPERATIONS_ROWS)),
        ("returnPartialSuccess", "false"),
        *((("pageToken", page),) if page else ()),
    )
    return Call("GET", f"{root(project)}/zones/{zone}/operations", query=query)


def root(project: str) -> str:
    return f"/compute/v1/projects/{project}"


def _path_of(project: str, machine: str) -> str:
    zone, name = parted(machine)
    return f"{root(project)}/zones/{zone}/instances/{name}"


def _aggregated(project: str, kind: str, fields: str, page: str, wanted: str = "") -> Call:
    mask = f"kind,nextPageToken,unreachables,warning/code,items/*/warning/code,items/*/{kind}({fields})"
    query = (
        ("maxResults", str(PAGE_ROWS)),
        ("returnPartialSuccess", "false"),
        ("fields", mask),
        *((("filter", wanted),) if wanted else ()),
        *((("pageToken", page),) if page else ()),
    )
    return Call("GET", f"{root(project)}/aggregated/{kind}", query=query)


# -- lists -------------------------------------------------------------------------------------------------------------


def read_page(reply: Reply, kind: str, envelope: str) -> GcpPage:
    """One page of an aggregated list. If one zone did not answer, the whole list proves nothing."""
    what = f"the list of {kind}"
    if reply.status != 200:
        raise look_failed(reply, what)
    body = mapping_of(reply, WHO)
    if body.get("kind") != envelope:
        raise CannotTell(f"{WHO} answered {what} with an unexpected body")
    _check_whole(body, what)
    scopes = body.get("items")
    if not isinstance(scopes, dict) or not 0 < len(scopes) <= SCOPES_MAX:
        raise CannotTell(f"{WHO} answered {what} without its zones")
    rows = tuple((scope, row) for scope, found in scopes.items() for row in _rows(scope, found, kind, what))
    if len(rows) > PAGE_ROWS:
        raise CannotTell(f"{WHO} put {len(rows)} rows on a page of {PAGE_ROWS}")
    return GcpPage(rows, _next(body, what))


def _check_whole(body: Mapping[str, Any], what: str) -> None:
    if body.get("unreachables"):
        raise CannotTell(f"{WHO} could not reach every zone for {what}")
    warning = body.get("warning")
    if warning is not None and not _means_nothing(warning):
        raise CannotTell(f"{WHO} returned only a part of {what}")


def _rows(scope: str, found: Any, kind: str, what: str) -> Iterator[Any]:
    """Of one zone: a list, or the warning that there are none."""
    if not isinstance(found, dict):
        raise CannotTell(f"{WHO} answered {what} with a zone that cannot be read")
    warning, rows = found.get("warning"), found.get(kind)
    if warning is not None and not _means_nothing(warning):
        raise CannotTell(f"{WHO} returned only a part of {what} in {shown(scope)}")
    if rows is None and warning is not None:
        return
    if not isinstance(rows, list):
        raise CannotTell(f"{WHO} answered {what} without a list for {shown(scope)}")
    yield from rows


def _means_nothing(warning: Any) -> bool:
    return isinstance(warning, dict) and warning.get("code") == NOTHING_HERE


def _next(body: Mapping[str, Any], what: str) -> str:
    token = body.get("nextPageToken")
    if token is None:
        return ""
    if not isinstance(token, str) or len(token) > 4096:
        raise CannotTell(f"{WHO} sent an invalid page token for {what}")
    return token


# -- machines ----------------------------------------------------------------------------------------------------------


def read_instances(reply: Reply) -> tuple[list[Instance], str]:
    """One page of machines, and where the next begins. An unreadable row may be ours: an error."""
    page = read_page(reply, "instances", "compute#instanceAggregatedList")
    try:
        return [_instance(row) for _, row in page.rows], page.next
    except ParseError as error:
        raise CannotTell(f"{WHO} lists a machine that cannot be read: {error}") from error


def read_instance(reply: Reply, machine: str) -> Instance | None:
    """None: this very machine does not exist."""
    if is_gone(reply, parted(machine)[1]):
        return None
    if reply.status != 200:
        raise look_failed(reply, "a machine")
    try:
        found = _instance(mapping_of(reply, WHO))
    except ParseError as error:
        raise CannotTell(f"{WHO} shows a machine that cannot be read: {error}") from error
    if found.id != machine:
        raise CannotTell(f"{WHO} was asked for {machine} and returned {found.id}")
    return found


def read_making(reply: Reply, machine: str) -> Instance | None:
    """A machine being created and not listed yet; None: none on this page, or its creation failed."""
    if reply.status != 200:
        raise look_failed(reply, "a machine's operations")
    body = mapping_of(reply, WHO)
    if body.get("kind") != "compute#operationList":
        raise CannotTell(f"{WHO} answered a machine's operations in an unknown format")
    _check_whole(body, "a machine's operations")
    rows = [] if body.get("items") is None else body["items"]
    if not isinstance(rows, list) or any(not isinstance(row, dict) for row in rows):
        raise CannotTell(f"{WHO} answered a machine's operations without a list")
    zone, name = parted(machine)
    under_way = [row for row in rows if _makes(row, zone, name) and row.get("status") != "DONE"]
    if not under_way or any(failures_of(row) for row in under_way):
        return None
    said = shown(under_way[0].get("status"))
    return Instance(machine, name, InstanceState.STARTING, said=f"insert {said}", place=zone, progress=said)


def _makes(operation: dict[str, Any], zone: str, name: str) -> bool:
    link = operation.get("targetLink")
    is_it = isinstance(link, str) and link.endswith(f"/zones/{zone}/instances/{name}")
    return is_it and operation.get("operationType") == "insert"


def goes_on(reply: Reply) -> str:
    """The next page of a machine's operations; empty: the last page. Google filters after paging."""
    return _next(mapping_of(reply, WHO), "a machine's operations")


def _instance(row: Any) -> Instance:
    """Strict about the owner, lenient about the rest: a machine with an invalid address is still billed."""
    if not isinstance(row, dict):
        raise ParseError("a machine is not an object")
    name, zone = named(row.get("name"), "name"), last_of(row.get("zone"), "zone")
    tags = _labels(row)
    said = row.get("status")
    state = STATES.get(said, InstanceState.UNKNOWN) if isinstance(said, str) else InstanceState.UNKNOWN
    spot = _is_spot(row)
    note = shown(row.get("statusMessage") or "")
    public, private = _addresses(row)
    return Instance(
        id=instance_id(zone, name),
        token=name,  # by name alone: "create similar" in the console copies labels to a machine that is not ours
        state=state,
        said=f"{shown(said)}: {note}" if note else shown(said),
        sku=_sku(row),
        place=zone,
        spot=spot,
        interrupted=spot and state is InstanceState.STOPPED,
        created_at=_time(row.get("creationTimestamp"), "creationTimestamp"),
        ends_at=_ends(row),
        public_ip=public,
        private_ip=private,
        progress=f"{shown(said)} {note}".strip(),
        tags=tags,
    )


def _time(told: Any, name: str) -> datetime | None:
    try:
        return moment(told, name)
    except ParseError:
        return None


def _ends(row: dict[str, Any]) -> datetime | None:
    """The end of its run, or the maintenance of its host, which terminates it: whichever is first."""
    status = row.get("resourceStatus")
    told = []
    for part, name in (("scheduling", "terminationTimestamp"), ("upcomingMaintenance", "windowStartTime")):
        about = status.get(part) if isinstance(status, dict) else None
        told.append(_time(about.get(name), name) if isinstance(about, dict) else None)
    return min((each for each in told if each is not None), default=None)


def _labels(row: dict[str, Any]) -> dict[str, str]:
    """For display; ownership does not depend on them."""
    labels = row.get("labels")
    if not isinstance(labels, dict) or len(labels) > LABELS_READ:
        return {}
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _is_spot(row: dict[str, Any]) -> bool:
    scheduling = row.get("scheduling")
    return isinstance(scheduling, dict) and scheduling.get("provisioningModel") == "SPOT"


def _sku(row: dict[str, Any]) -> str:
    """As ordered; empty if unreadable."""
    try:
        machine_type = last_of(row.get("machineType"), "machineType")
        attached = row.get("guestAccelerators")
        first = attached[0] if isinstance(attached, list) and attached and isinstance(attached[0], dict) else None
        family = catalogue().family_of(machine_type)
        if first is None or family is None or not family.attaches:
            return machine_type
        gpu = last_of(first.get("acceleratorType"), "acceleratorType")
        count = first.get("acceleratorCount")
        return sku_of(machine_type, gpu, count if isinstance(count, int) else 0, attached=True)
    except ParseError:
        return ""


def _addresses(row: dict[str, Any]) -> tuple[str, str]:
    """Public and private, of the first network."""
    networks = row.get("networkInterfaces")
    first = networks[0] if isinstance(networks, list) and networks else None
    if not isinstance(first, dict):
        return "", ""
    outside = first.get("accessConfigs")
    first_config = outside[0] if isinstance(outside, list) and outside else None
    return address(first_config.get("natIP") if isinstance(first_config, dict) else None), address(
        first.get("networkIP")
    )
