"""What a key may do and what is left of its project's quotas, learned without spending anything."""

from collections.abc import Iterator, Mapping
from typing import Any

from tgp.adapters.clouds.gcp.errors import QUOTA_OF_ALL, WHO, look_failed
from tgp.adapters.clouds.gcp.wire import root
from tgp.adapters.clouds.parse import mapping_of, object_in, shown
from tgp.core.model.cloud_errors import CannotTell
from tgp.ports.cloud import Account, Right
from tgp.ports.http import Call, Reply, UnreadableReply, json_call

RESOURCE_MANAGER = "https://cloudresourcemanager.googleapis.com"
QUOTAS_READ = 1_000  # of one answer
REGIONS_TOLD = 4  # with the most left

PERMISSIONS = (
    "compute.acceleratorTypes.list",
    "compute.machineTypes.list",
    "compute.projects.get",
    "compute.instances.list",
    "compute.instances.get",
    "compute.instances.create",
    "compute.instances.setMetadata",
    "compute.instances.setLabels",
    "compute.instances.delete",
    "compute.disks.create",
    "compute.images.useReadOnly",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
    "compute.zoneOperations.list",
)


def project(name: str) -> Call:
    return Call("GET", root(name), query=(("fields", "kind,id,name,quotas"),))


def regions(name: str) -> Call:
    return Call("GET", f"{root(name)}/regions", query=(("fields", "kind,items(name,quotas)"), ("maxResults", "500")))


def permissions(name: str) -> Call:
    """Asked of another of Google's APIs; it changes nothing."""
    return json_call("POST", f"/v1/projects/{name}:testIamPermissions", {"permissions": list(PERMISSIONS)})


def read_project(reply: Reply, name: str) -> tuple[Account, str, bool]:
    """The account, its quota for GPUs in words, and whether a GPU could be rented at all."""
    if reply.status != 200:
        raise look_failed(reply, f"the project {name}")
    body = mapping_of(reply, WHO)
    if body.get("kind") != "compute#project" or body.get("name") != name:
        raise CannotTell(f"{WHO} was asked for the project {name} and returned something else")
    for metric, limit, usage in _quotas(body):
        if metric == QUOTA_OF_ALL:
            return Account(name), f"{_number(usage)} of {_number(limit)} GPUs used in all regions", usage < limit
    return Account(name), "", True


def read_permissions(reply: Reply | None) -> tuple[Right, ...]:
    """Which are held; None where the API that tells is switched off, out of reach or silent about it."""
    held = _held(reply)
    if held is not None:
        return tuple(Right(each, held=each in held) for each in PERMISSIONS)
    note = "the Cloud Resource Manager API did not answer; it may be disabled in this project"
    return tuple(Right(each, held=None, note=note) for each in PERMISSIONS)


def _held(reply: Reply | None) -> list[Any] | None:
    """None: not told. An object without the field says that none is held; anything else is not its answer."""
    if reply is None or reply.status != 200:
        return None
    try:
        body = reply.json()
    except UnreadableReply:
        return None
    held = body.get("permissions", []) if isinstance(body, dict) else None
    return held if isinstance(held, list) else None


def read_regions(reply: Reply | None) -> tuple[str, ...]:
    """A note per kind of GPU: where the most of its quota is left. Nothing where it cannot be read: a courtesy."""
    items = object_in(reply).get("items") if reply is not None and reply.status == 200 else None
    left: dict[str, list[tuple[float, str]]] = {}
    for region in items if isinstance(items, list) else ():
        name = region.get("name") if isinstance(region, dict) else None
        if not isinstance(name, str):
            continue
        for metric, limit, usage in _quotas(region):
            if metric.startswith(("NVIDIA_", "PREEMPTIBLE_NVIDIA_")) and limit > usage:
                left.setdefault(metric, []).append((limit - usage, name))
    return tuple(f"{metric}: {_most(places)}" for metric, places in sorted(left.items()))


def _most(places: list[tuple[float, str]]) -> str:
    first = sorted(places, key=lambda place: (-place[0], place[1]))[:REGIONS_TOLD]
    rest = len(places) - len(first)
    told = ", ".join(f"{_number(count)} left in {shown(name)}" for count, name in first)
    return f"{told}, and some in {rest} more regions" if rest else told


def _quotas(body: Mapping[str, Any]) -> Iterator[tuple[str, float, float]]:
    rows = body.get("quotas")
    for row in rows[:QUOTAS_READ] if isinstance(rows, list) else ():
        if not isinstance(row, dict):
            continue
        metric, limit, usage = row.get("metric"), row.get("limit"), row.get("usage")
        if isinstance(metric, str) and _is_count(limit) and _is_count(usage):
            yield shown(metric), float(limit), float(usage)  # type: ignore[arg-type]  # _is_count looked


def _is_count(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _number(value: float) -> str:
    return f"{value:g}"
