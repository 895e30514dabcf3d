"""An order for a machine, checked as the documented API checks it: unknown fields, wrong types, rules."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from tgp.ports.http import NO_JSON, Call
from tgp.sim.clouds.fleet import WantedMachine
from tgp.sim.clouds.gcp import market
from tgp.sim.clouds.gcp.answers import GcpError

NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL = re.compile(r"[a-z0-9_-]{0,63}")
IMAGE = re.compile(r"(projects/[a-z0-9.:-]+/)?global/images/(family/)?[a-z][-a-z0-9]{0,62}")
METADATA_LONGEST = 256 << 10
LABELS_MOST = 64
LONGEST_RUN_S = 120 * 86_400

ACCESS = {"type": str, "name": str, "natIP": str, "networkTier": str, "kind": str}
NETWORK = {
    "network": str, "subnetwork": str, "networkIP": str, "name": str, "nicType": str, "stackType": str,
    "accessConfigs": [ACCESS], "aliasIpRanges": [{"ipCidrRange": str, "subnetworkRangeName": str}],
    "queueCount": int, "kind": str, "fingerprint": str, "networkAttachment": str, "ipv6AccessConfigs": [dict],
}  # fmt: skip
DISK = {
    "boot": bool, "autoDelete": bool, "type": str, "mode": str, "source": str, "deviceName": str, "index": int,
    "interface": str, "diskSizeGb": "int64", "kind": str, "guestOsFeatures": [{"type": str}], "licenses": [str],
    "architecture": str, "forceAttach": bool, "diskEncryptionKey": dict,
    "initializeParams": {
        "sourceImage": str, "diskSizeGb": "int64", "diskType": str, "diskName": str, "labels": dict,
        "description": str, "sourceSnapshot": str, "provisionedIops": "int64", "provisionedThroughput": "int64",
        "resourcePolicies": [str], "architecture": str, "onUpdateAction": str, "licenses": [str],
    },
}  # fmt: skip
DURATION = {"seconds": "int64", "nanos": int}
SCHEDULING = {
    "provisioningModel": ("STANDARD", "SPOT", "FLEX_START", "RESERVATION_BOUND"),
    "instanceTerminationAction": ("DELETE", "STOP"),
    "onHostMaintenance": ("MIGRATE", "TERMINATE"),
    "automaticRestart": bool, "preemptible": bool, "maxRunDuration": DURATION, "terminationTime": str,
    "minNodeCpus": int, "nodeAffinities": [dict], "locationHint": str, "hostErrorTimeoutSeconds": int,
    "onInstanceStopAction": dict, "localSsdRecoveryTimeout": DURATION, "availabilityDomain": int,
    "preemptionNoticeDuration": DURATION, "gracefulShutdown": dict, "skipGuestOsShutdown": bool,
}  # fmt: skip
INSTANCE = {
    "name": str, "machineType": str, "description": str, "hostname": str, "zone": str, "kind": str,
    "labels": dict, "disks": [DISK], "networkInterfaces": [NETWORK], "scheduling": SCHEDULING,
    "metadata": {"items": [{"key": str, "value": str}], "kind": str, "fingerprint": str},
    "guestAccelerators": [{"acceleratorType": str, "acceleratorCount": int}],
    "tags": {"items": [str], "fingerprint": str}, "serviceAccounts": [{"email": str, "scopes": [str]}],
    "canIpForward": bool, "deletionProtection": bool, "minCpuPlatform": str, "shieldedInstanceConfig": dict,
    "reservationAffinity": dict, "resourcePolicies": [str], "advancedMachineFeatures": dict, "params": dict,
    "confidentialInstanceConfig": dict, "displayDevice": dict, "networkPerformanceConfig": dict,
    "keyRevocationActionType": str, "privateIpv6GoogleAccess": str, "sourceMachineImage": str,
    "instanceEncryptionKey": dict, "shieldedInstanceIntegrityPolicy": dict, "labelFingerprint": str,
    "workloadIdentityConfig": dict, "localSsdEncryptionMode": str, "satisfiesPzs": bool,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GcpOrder:
    name: str
    wanted: WantedMachine


def request_id(call: Call) -> str:
    """Empty: none was given."""
    raw = call.parameter("requestId")
    if not raw:
        return ""
    try:
        value = UUID(raw)
    except ValueError:
        value = UUID(int=0)
    if value.int == 0:
        message = f"Invalid value for field 'requestId': '{raw[:64]}'. Must be a valid UUID that is not zero"
        raise GcpError(400, "invalid", message)
    return str(value)


def order_of(call: Call, project: str, zone: str) -> GcpOrder:
    body = _body(call)
    _check(body, INSTANCE, "instance")
    name = body.get("name", "")
    if not NAME.fullmatch(name):
        raise _invalid("name", name, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
    kind = _kind(body, project, zone)
    scheduling = _scheduling(body)
    labels = _labels(body.get("labels", {}))
    disk_gib = _disk(body)
    if not body.get("networkInterfaces"):
        raise GcpError(400, "required", "Required field 'resource.networkInterfaces' not specified")
    wanted = WantedMachine(
        f"{_sku(body, kind, zone)}@{zone}",
        name,
        spot=scheduling.get("provisioningModel") == "SPOT",
        tags=tuple(labels.items()),
        user_data=_user_data(body),
        detail=(("scheduling", scheduling), ("disk_gib", disk_gib)),
        max_run=_max_run(scheduling),
    )
    return GcpOrder(name, wanted)


def new_labels(call: Call) -> dict[str, str]:
    """Those of a request that replaces them."""
    body = _body(call)
    _check(body, {"labels": dict, "labelFingerprint": str}, "instance")
    return _labels(body.get("labels", {}))


def _body(call: Call) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(call.body)
    except NO_JSON:
        raise GcpError(400, "parseError", "Parse Error") from None
    if not isinstance(body, dict):
        raise GcpError(400, "parseError", "Parse Error")
    given: dict[str, Any] = _given(body)
    return given


def _given(value: Any) -> Any:
    """Without its nulls: a field that is null was not given."""
    if isinstance(value, dict):
        return {name: _given(each) for name, each in value.items() if each is not None}
    return [_given(each) for each in value] if isinstance(value, list) else value


def _check(value: Any, shape: Any, path: str) -> None:
    """Whether a value has the shape; unknown fields are refused, not ignored."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise _unreadable(path, value)
        for name, each in value.items():
            if name not in shape:
                message = f"Invalid JSON payload received. Unknown name \"{name}\" at '{path}': Cannot find field."
                raise GcpError(400, "badRequest", message)
            _check(each, shape[name], f"{path}.{name}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise _unreadable(path, value)
        for each in value:
            _check(each, shape[0], path)
    elif isinstance(shape, tuple):
        if value not in shape:
            raise _invalid(path, value, "is not one of the values of this field")
    elif not _is_a(value, shape):
        raise _unreadable(path, value)


def _is_a(value: Any, kind: Any) -> bool:
    if kind == "int64":
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        return isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 20
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _kind(body: Mapping[str, Any], project: str, zone: str) -> market.GcpMachineKind:
    raw = body.get("machineType", "")
    if not raw:
        raise GcpError(400, "required", "Required field 'resource.machineType' not specified")
    where, _, name = raw.rpartition("/machineTypes/")
    if where.rpartition("zones/")[2] != zone or not where.endswith(f"zones/{zone}"):
        raise _invalid("machineType", raw, "The URL is malformed or names another zone.")
    kind = market.kinds_in(zone).get(name)
    if kind is None:
        message = f"Machine type with name '{name}' does not exist in zone '{zone}'."
        raise GcpError(
            404, "notFound", f"Invalid value for field 'resource.machineType': '{raw}'. {message} ({project})"
        )
    return kind


def _sku(body: Mapping[str, Any], kind: market.GcpMachineKind, zone: str) -> str:
    rows = body.get("guestAccelerators", [])
    if not rows:
        return kind.name
    if len(rows) > 1:
        raise _invalid("guestAccelerators", len(rows), "At most one guest accelerator type is allowed")
    gpu, count = rows[0].get("acceleratorType", "").rpartition("/")[2], rows[0].get("acceleratorCount", 0)
    if kind.gpu:
        if (gpu, count) != (kind.gpu, kind.count):
            raise _invalid("guestAccelerators", gpu, f"[{kind.name}] has {kind.count} of {kind.gpu}")
        return kind.name
    card = market.cards_in(zone).get(gpu)
    if card is None:
        raise not_there(f"zones/{zone}/acceleratorTypes/{gpu}")
    largest = card.largest.get(count)
    if not kind.name.startswith("n1-") or largest is None or not card.smallest[count] <= kind.vcpus <= largest:
        message = f"[{kind.name}, {gpu}] features are not compatible for creating instance."
        raise GcpError(400, "badRequest", message)
    return market.sku(kind.name, gpu, count)


def not_there(path: str) -> GcpError:
    return GcpError(404, "notFound", f"The resource '{path}' was not found")


def _scheduling(body: Mapping[str, Any]) -> dict[str, Any]:
    said = {"onHostMaintenance": "MIGRATE", "automaticRestart": True, "provisioningModel": "STANDARD"}
    said |= body.get("scheduling", {})
    spot = said["provisioningModel"] == "SPOT" or said.get("preemptible") is True
    if said["onHostMaintenance"] != "TERMINATE":
        raise GcpError(400, "badRequest", "Instances with guest accelerators do not support live migration.")
    if spot and said["automaticRestart"]:
        raise GcpError(400, "badRequest", "Scheduling must have automaticRestart be false when preemptible is true.")
    timed = "maxRunDuration" in said or "terminationTime" in said
    if "instanceTerminationAction" in said and not spot and not timed:
        message = "Instance termination action needs a Spot VM, a maximum run duration or a termination time."
        raise GcpError(400, "badRequest", message)
    if timed and "instanceTerminationAction" not in said:
        raise GcpError(400, "required", "Required field 'resource.scheduling.instanceTerminationAction' not specified")
    return said


def _max_run(scheduling: Mapping[str, Any]) -> timedelta | None:
    raw = scheduling.get("maxRunDuration")
    if raw is None:
        return None
    seconds = int(raw.get("seconds", 0))
    if not 30 <= seconds <= LONGEST_RUN_S:
        raise _invalid("scheduling.maxRunDuration", seconds, "Must be between 30 seconds and 120 days")
    if "instanceTerminationAction" not in scheduling:
        raise _invalid("scheduling.instanceTerminationAction", "", "Must be specified with a limit of the run time")
    return timedelta(seconds=seconds)


def _labels(labels: dict[str, Any]) -> dict[str, str]:
    for key, value in labels.items():
        if (
            not isinstance(value, str)
            or not LABEL.fullmatch(value)
            or not LABEL.fullmatch(key)
            or not key[:1].isalpha()
        ):
            raise _invalid("labels", key, "Label keys and values must be lower case, digits, '_' and '-', 63 at most.")
    if len(labels) > LABELS_MOST:
        raise _invalid("labels", len(labels), f"At most {LABELS_MOST} labels are allowed.")
    return labels


def _disk(body: Mapping[str, Any]) -> int:
    boot = [disk for disk in body.get("disks", []) if disk.get("boot")]
    if len(boot) != 1:
        raise GcpError(
            400, "invalid", "Invalid value for field 'resource.disks': ''. Must specify exactly one boot disk."
        )
    made = boot[0].get("initializeParams", {})
    image = made.get("sourceImage", "")
    if not image and not boot[0].get("source"):
        raise GcpError(400, "required", "Required field 'resource.disks[0].initializeParams.sourceImage' not specified")
    if image and not IMAGE.fullmatch(image.partition("/compute/v1/")[2] or image):
        raise _invalid("disks[0].initializeParams.sourceImage", image, "The URL is malformed.")
    return int(made.get("diskSizeGb", 10))


def _user_data(body: Mapping[str, Any]) -> bytes:
    items = body.get("metadata", {}).get("items", [])
    keys = [item.get("key", "") for item in items]
    if len(set(keys)) != len(keys):
        raise _invalid("metadata.items", len(keys), "Duplicate metadata keys.")
    for item in items:
        if len(item.get("value", "").encode()) > METADATA_LONGEST:
            raise _invalid("metadata.items", item.get("key"), "Metadata value is too long.")
    return next((item.get("value", "").encode() for item in items if item.get("key") == "user-data"), b"")


def _invalid(field: str, value: Any, why: str) -> GcpError:
    return GcpError(400, "invalid", f"Invalid value for field 'resource.{field}': '{value}'. {why}")


def _unreadable(path: str, value: Any) -> GcpError:
    message = f"Invalid value at '{path}': {type(value).__name__} is not what this field holds"
    return GcpError(400, "badRequest", message)
