"""Pods on the wire: orders out, instances in. Nothing is sent from here.

The token is the pod's name, which nothing keeps unique and no list filters by, and also a variable of its environment:
users rename pods.
"""

from datetime import datetime
from typing import Any

import msgspec

from tgp.adapters.clouds.parse import ParseError, address, identifier, mapping_of, moment, shown, text, whole
from tgp.adapters.clouds.redact import Confidence
from tgp.adapters.clouds.runpod.catalog import ANYWHERE, parts_of, sku_of
from tgp.adapters.clouds.runpod.errors import ERRORS, made_pod, named_pod, said_in, says_gone
from tgp.adapters.clouds.runpod.facts import FACTS, MIN_CUDA
from tgp.adapters.clouds.runpod.paging import PODS
from tgp.core.model.cloud_errors import CannotTell, CloudError, OrderRefused, OutcomeUnknown
from tgp.core.model.gpus import resource_name
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.prices import NotAPrice, hourly_microusd
from tgp.ports.cloud import TOKEN_PREFIX, Container, LaunchOrder
from tgp.ports.http import NO_JSON, Call, Reply, json_call

TOKEN_VARIABLE = "TGP_TOKEN"  # noqa: S105 - the name of a variable
TAGS_VARIABLE = "TGP_TAGS"
MOST_SHARE = 65_536  # vCPUs, or GiB, of one pod; more is an error
NVIDIA = "nvidia.com/gpu"
DISK_GB = 50  # as in the documentation's example

STATES = {
    "PROVISIONING": InstanceState.STARTING,
    "STARTING": InstanceState.STARTING,
    "RUNNING": InstanceState.RUNNING,
    "EXITED": InstanceState.STOPPED,  # its disk is kept and billed
    "ERROR": InstanceState.BROKEN,
    "TERMINATED": InstanceState.ENDING,  # gone = no longer listed
}


# -- buying ------------------------------------------------------------------------------------------------------------


def launch(order: LaunchOrder) -> Call:
    """The order; `OrderRefused` for what RunPod does not support."""
    gpu_id, count, cloud = parts_of(order.offer.sku)
    if order.container is None or not order.container.image:
        raise OrderRefused("RunPod starts containers, and the order has no container image")
    if order.user_data:
        raise OrderRefused("RunPod starts containers, which accept no user data")
    body: dict[str, Any] = {
        "name": order.token,
        "image": order.container.image,
        "gpu": _gpu(order, gpu_id, count),
        "cloud": cloud,
        "disk": DISK_GB,
        "env": _environment(order, order.container),
    }
    if order.offer.place != ANYWHERE:
        body["dataCenterIds"] = [order.offer.place]
    if order.container.entrypoint:
        body["entrypoint"] = list(order.container.entrypoint)
    if order.container.command:
        body["cmd"] = list(order.container.command)
    return json_call("POST", PODS, body, timeout=FACTS.launch_timeout, not_after=order.not_after)


def _gpu(order: LaunchOrder, gpu_id: str, count: int) -> dict[str, Any]:
    """The GPU, and minimums of the host per GPU, used as placement filters."""
    wanted = {
        "minVcpuCountPerGpu": -(-order.min_vcpus // count),
        "minRamPerGpu": -(-order.min_memory_gib // count),
        "minCudaVersion": MIN_CUDA if resource_name(order.offer.gpu) == NVIDIA else "",
    }
    return {"id": gpu_id, "count": count, **{name: value for name, value in wanted.items() if value}}


def read_launch(reply: Reply, order: LaunchOrder, *confidences: Confidence) -> Instance:
    """The pod of a valid answer; otherwise the matching error."""
    if not reply.ok:
        said, pod = said_in(reply, *confidences, *_variables(order)), named_pod(reply)
        raise ERRORS.after_order(reply, said, f"an order of {order.offer.instance_type}", pod)
    pod, row = made_pod(reply)
    if not pod:
        raise OutcomeUnknown(f"RunPod answered an order for {order.offer.instance_type} without a pod")
    try:
        return _instance(row)
    except ParseError:  # an answer with an id is a pod, whatever else it says
        return Instance(pod, order.token, InstanceState.STARTING, sku=order.offer.sku, place=order.offer.place)


def _environment(order: LaunchOrder, container: Container) -> dict[str, str]:
    """The class's variables and tags, then ours: they win."""
    variables = dict(container.env)
    if order.tags:
        variables[TAGS_VARIABLE] = msgspec.json.encode(dict(order.tags)).decode()
    variables[TOKEN_VARIABLE] = order.token
    return variables


def _variables(order: LaunchOrder) -> tuple[bytes, ...]:
    """Users keep secrets in them."""
    return tuple(value.encode() for _, value in order.container.env) if order.container else ()


# -- looking -----------------------------------------------------------------------------------------------------------


def read_pods(rows: list[Any]) -> tuple[Instance, ...]:
    """Every pod of a complete list, by id. An unreadable row may be ours: an error."""
    try:
        pods = {pod.id: pod for pod in map(_instance, rows)}
    except ParseError as error:
        raise CannotTell(f"RunPod lists a pod that cannot be read: {error}") from error
    return tuple(pods[pod] for pod in sorted(pods))


def get_pod(pod_id: str) -> Call:
    return Call("GET", f"{PODS}/{_in_path(pod_id)}")


def read_pod(reply: Reply, pod_id: str, *confidences: Confidence) -> Instance | None:
    if says_gone(reply):
        return None
    if reply.status != 200:
        raise ERRORS.after_look(reply, said_in(reply, *confidences), f"GET {PODS}/{pod_id}")
    try:
        pod = _instance(mapping_of(reply, FACTS.title))
    except ParseError as error:
        raise CannotTell(f"RunPod shows pod {pod_id} in an unknown format: {error}") from error
    if pod.id != pod_id:
        raise CannotTell(f"RunPod was asked for pod {pod_id} and returned another")
    return pod


# -- ending ------------------------------------------------------------------------------------------------------------


def terminate(pod_id: str) -> Call:
    return Call("DELETE", f"{PODS}/{_in_path(pod_id)}")


def read_terminate(reply: Reply, pod_id: str, *confidences: Confidence) -> CloudError | None:
    """None: accepted, or already gone."""
    if reply.status == 204 or says_gone(reply):
        return None
    return ERRORS.after_end(reply, said_in(reply, *confidences), f"the termination of pod {pod_id}")


def _in_path(pod_id: str) -> str:
    try:
        return identifier(pod_id)
    except ParseError as error:
        raise CannotTell(f"RunPod has no such pod: {error}") from error


# -- one pod -----------------------------------------------------------------------------------------------------------


def _instance(row: Any) -> Instance:
    if not isinstance(row, dict):
        raise ParseError("a pod is not an object")
    pod, name, status = identifier(row.get("id")), text(row, "name", longest=4096), row.get("status")
    variables = row["env"] if isinstance(row.get("env"), dict) else {}
    runtime = row["runtime"] if isinstance(row.get("runtime"), dict) and row["runtime"] else None
    state = STATES.get(status, InstanceState.UNKNOWN) if isinstance(status, str) else InstanceState.UNKNOWN
    said = shown(status) if isinstance(status, str) else ""
    if state is InstanceState.RUNNING and runtime is None:
        state, said = InstanceState.STARTING, "RUNNING, but its container is not up"  # billed, and not usable yet
    return Instance(
        id=pod,
        token=_token(name, variables),
        state=state,
        said=said,
        sku=_sku(row),
        place=_place(row),
        vcpus=_share(row, "vcpuCount"),
        memory_gib=_share(row, "memory"),
        hourly_microusd=_cost(row),
        created_at=_created_at(row),
        public_ip=_public_ip(runtime),
        private_ip=_private_ip(row),
        progress=said if state is InstanceState.STARTING else "",
        tags=_tags(variables),
    )


def _created_at(row: dict[str, Any]) -> datetime | None:
    """A time in an unknown format is ignored: ownership does not depend on it."""
    try:
        return moment(row.get("createdAt"), "createdAt")
    except ParseError:
        return None


def _token(name: str, variables: dict[str, Any]) -> str:
    kept = variables.get(TOKEN_VARIABLE)
    renamed = not name.startswith(TOKEN_PREFIX) and isinstance(kept, str) and kept.startswith(TOKEN_PREFIX)
    return str(kept) if renamed else name


def _sku(row: dict[str, Any]) -> str:
    gpu, cloud = row.get("gpu"), row.get("cloud")
    if not isinstance(gpu, dict) or not isinstance(gpu.get("id"), str) or not isinstance(cloud, str):
        return ""
    count = gpu.get("count", 1)
    return sku_of(shown(gpu["id"]), count, shown(cloud)) if type(count) is int else ""


def _share(row: dict[str, Any], name: str) -> int:
    """The total of the pod, rounded down; 0: unknown."""
    try:
        return whole(row["gpu"], name, least=1, most=MOST_SHARE) if isinstance(row.get("gpu"), dict) else 0
    except ParseError:
        return 0


def _place(row: dict[str, Any]) -> str:
    centre = row.get("dataCenterId")
    return shown(centre) if isinstance(centre, str) and centre else ANYWHERE


def _cost(row: dict[str, Any]) -> int | None:
    """What it costs now. Zero for a stopped pod omits its disk, so it is not a price."""
    try:
        return hourly_microusd(row.get("cost"))
    except NotAPrice:
        return None


def _public_ip(runtime: dict[str, Any] | None) -> str:
    ports = runtime.get("ports") if runtime else None
    found = (address(port.get("ip")) for port in ports if isinstance(port, dict)) if isinstance(ports, list) else ()
    return next((ip for ip in found if ip), "")


def _private_ip(row: dict[str, Any]) -> str:
    network = row.get("globalNetworking")
    return address(network.get("ip")) if isinstance(network, dict) else ""


def _tags(variables: dict[str, Any]) -> dict[str, str]:
    kept = variables.get(TAGS_VARIABLE)
    try:
        return msgspec.json.decode(kept, type=dict[str, str]) if isinstance(kept, str) else {}
    except (*NO_JSON, UnicodeEncodeError):
        return {}
