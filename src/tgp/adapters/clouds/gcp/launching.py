"""The order for one machine, and what Google's answer to it means."""

import re
from typing import Any

from tgp.adapters.clouds.gcp.catalogue import catalogue, parts_of
from tgp.adapters.clouds.gcp.errors import ERRORS, WHO, error_of_operation, failures_of, refusal_of, said_in
from tgp.adapters.clouds.gcp.facts import FACTS
from tgp.adapters.clouds.gcp.names import instance_id, labels, orderable, request_id
from tgp.adapters.clouds.gcp.wire import root
from tgp.adapters.clouds.parse import object_in, shown
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.cloud_errors import OrderRefused, OutcomeUnknown
from tgp.core.model.instance import Instance, InstanceState
from tgp.ports.cloud import LaunchOrder
from tgp.ports.http import Call, Reply, json_call

DISK_TYPE = "pd-balanced"  # the one that every family here can boot from
_PATH = re.compile(r"[a-z0-9][-a-z0-9._:]*(?:/[-a-z0-9._]+)*\Z", re.IGNORECASE)
_UNDER_WAY = frozenset({"PENDING", "RUNNING", "DONE"})


def launch(order: LaunchOrder, project: str, settings: ProviderSettings) -> Call:
    """One request, with an id made from the token: sent again it makes no second machine."""
    zone, name = orderable(order.offer.place, "the zone"), orderable(order.token, "the token")
    return json_call(
        "POST",
        f"{root(project)}/zones/{zone}/instances",
        body_of(order, project, settings, zone, name),
        query=(("requestId", request_id(order.token)),),
        not_after=order.not_after,
    )


def body_of(order: LaunchOrder, project: str, settings: ProviderSettings, zone: str, name: str) -> dict[str, Any]:
    machine_type, gpu, count = parts_of(order.offer.sku)
    body: dict[str, Any] = {
        "name": name,
        "machineType": f"zones/{zone}/machineTypes/{orderable(machine_type, 'the machine type')}",
        "labels": labels(order.tags, order.token),
        "disks": [_boot_disk(order, project, settings, zone)],
        "networkInterfaces": [_network(settings, zone)],
        "metadata": {"items": _metadata(order)},
        "scheduling": _scheduling(order),
    }
    if gpu:
        kind = f"zones/{zone}/acceleratorTypes/{orderable(gpu, 'the GPU')}"
        body["guestAccelerators"] = [{"acceleratorType": kind, "acceleratorCount": count}]
    return body


def _boot_disk(order: LaunchOrder, project: str, settings: ProviderSettings, zone: str) -> dict[str, Any]:
    return {
        "boot": True,
        "autoDelete": True,  # a disk that outlives its machine would be billed unnoticed
        "initializeParams": {
            "sourceImage": _image(order.image or settings.image or "", project),
            "diskSizeGb": str(catalogue().boot_disk_gib),
            "diskType": f"zones/{zone}/diskTypes/{DISK_TYPE}",
        },
    }


def _image(told: str, project: str) -> str:
    """A bare name is an image of our own project; anything with a slash is taken as it is."""
    if not told:
        raise OrderRefused(f"{WHO} needs an image: upload a Talos image and set settings.image of the class")
    path = told.removeprefix("https://www.googleapis.com/compute/v1/").removeprefix(f"{FACTS.endpoint}/compute/v1/")
    if not _PATH.match(path):
        raise OrderRefused(f"settings.image {shown(told)} is not the name of an image at {WHO}")
    return path if "/" in path else f"projects/{project}/global/images/{path}"


def _network(settings: ProviderSettings, zone: str) -> dict[str, Any]:
    """A bare name is a network of the project; a path may name a subnetwork. Talos needs internet access to
    reach its mesh.
    """
    told = settings.network or "default"
    if not _PATH.match(told):
        raise OrderRefused(f"settings.network {shown(told)} is not the name of a network at {WHO}")
    if "subnetworks/" in told:
        region = zone.rpartition("-")[0]
        where = {"subnetwork": told if told.startswith("projects/") else f"regions/{region}/{_from(told)}"}
    else:
        where = {"network": told if "/" in told else f"global/networks/{told}"}
    return where | {"accessConfigs": [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]}


def _from(told: str) -> str:
    return "subnetworks/" + told.rpartition("subnetworks/")[2]


def _metadata(order: LaunchOrder) -> list[dict[str, str]]:
    if not order.user_data:
        return []
    if len(order.user_data) > FACTS.user_data_bytes:
        raise OrderRefused(
            f"the machine config has {len(order.user_data)} bytes; {WHO} accepts {FACTS.user_data_bytes}"
        )
    try:
        return [{"key": "user-data", "value": order.user_data.decode()}]
    except UnicodeDecodeError:
        raise OrderRefused(f"the machine config is not text, and {WHO} accepts only text") from None


def _scheduling(order: LaunchOrder) -> dict[str, Any]:
    """No automatic restart, and a stopped machine is deleted: it would still be billed."""
    said: dict[str, Any] = {
        "provisioningModel": "SPOT" if order.offer.spot else "STANDARD",
        "onHostMaintenance": "TERMINATE",  # machines with GPUs cannot be moved
        "automaticRestart": False,
    }
    if order.offer.spot or order.max_run is not None:
        said["instanceTerminationAction"] = "DELETE"
    if order.max_run is not None:
        said["maxRunDuration"] = {"seconds": str(int(order.max_run.total_seconds()))}
    return said


# -- the answer --------------------------------------------------------------------------------------------------------


def read_launch(reply: Reply, order: LaunchOrder) -> Instance:
    what = f"the order of {order.offer.sku} in {order.offer.place}"
    machine = instance_id(order.offer.place, order.token)
    body = object_in(reply)
    if reply.status == 200 and body.get("kind") == "compute#operation":
        return _read_operation(body, order, what, machine)
    named = machine if _names_it(reply, order.token) else ""
    if reply.status == 409 and refusal_of(reply).reason == "alreadyExists":
        # Names are unique and our tokens are used once: an existing one was made by an earlier order of ours.
        raise OutcomeUnknown(f"{WHO} already has a machine of this name", machine)
    raise ERRORS.after_order(reply, said_in(reply, order.user_data), what, named)


def _read_operation(operation: dict[str, Any], order: LaunchOrder, what: str, machine: str) -> Instance:
    """An operation in progress, or done: the machine is being created. It may still fail; `status` notices that."""
    status = str(operation.get("status"))
    failures = failures_of(operation)
    if failures:
        known = error_of_operation(operation, what, order.user_data) if status == "DONE" else None
        if known is not None:
            raise known
        reason = failures[0].reason or "no reason given"
        raise OutcomeUnknown(f"{WHO} reports that {what} failed, but a machine may exist: {reason}", machine)
    if status not in _UNDER_WAY or not _is_for(operation, order):
        raise OutcomeUnknown(f"{WHO} answered {what} with an operation of another order", machine)
    return Instance(
        machine,
        order.token,
        InstanceState.STARTING,
        said=f"insert {status}",
        sku=order.offer.sku,
        place=order.offer.place,
        spot=order.offer.spot,
        progress=shown(status),
        tags=labels(order.tags, order.token),
    )


def _is_for(operation: dict[str, Any], order: LaunchOrder) -> bool:
    link = operation.get("targetLink")
    wanted = f"/zones/{order.offer.place}/instances/{order.token}"
    return operation.get("operationType") == "insert" and isinstance(link, str) and link.endswith(wanted)


def _names_it(reply: Reply, token: str) -> bool:
    return f"/instances/{token}".encode() in reply.content
