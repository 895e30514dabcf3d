"""What a Node shows of its machine: is it ours, is it complete, is it used?"""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.model.taints import Taint
from tgp.core.model.token import MachineToken, read_token

SCHEME = "tgp://"

# Kubernetes itself adds these while a Node starts; no pod can be scheduled before they are gone.
COMING_UP = (
    Taint("node.kubernetes.io/not-ready", "NoSchedule"),
    Taint("node.kubernetes.io/unreachable", "NoSchedule"),
    Taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
    Taint("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
)


class CheckResult(msgspec.Struct, frozen=True):
    """Yes or no, and why, in text for users."""

    yes: bool
    words: str

    def __bool__(self) -> bool:
        return self.yes


def provider_id_of(provider: str, token: str) -> str:
    """The provider ID of a rented machine's Node: immutable once set."""
    return f"{SCHEME}{provider}/{token}"


def read_provider_id(text: str) -> tuple[str, MachineToken] | None:
    """The provider and the token; None: no machine that tgp rented."""
    provider, slash, mark = text.removeprefix(SCHEME).partition("/")
    token = read_token(mark) if text.startswith(SCHEME) and provider and slash else None
    return None if token is None else (provider, token)


def registered(node: Node | None, name: str, provider_id: str, since: datetime | None = None) -> CheckResult:
    """Whether this is the Node of our machine. `provider_id` is empty for machines you own: they keep what they have.

    `since`: the API server's creation time of the request. A Node without a provider ID that existed before belongs to
    another machine, a control plane perhaps, whatever name the status contains.

    A Node of that name with another provider ID is never adopted, also if an earlier attempt created it.
    An owned machine's Node stays while the machine is off, so it counts as registered only while it is ready.
    """
    if node is None or node.name != name:
        return CheckResult(False, f"Node {name} does not exist yet")
    if node.unreadable:
        return CheckResult(False, f"Node {name} cannot be read: {node.unreadable}")
    if not provider_id:
        return (
            CheckResult(True, f"Node {name} is up")
            if node.ready
            else CheckResult(False, f"Node {name} is not ready yet")
        )
    if not node.provider_id and since is not None and node.created_at is not None and node.created_at < since:
        return CheckResult(False, f"Node {name} belongs to another machine: the Node is older than the request")
    if node.provider_id in ("", provider_id):
        return CheckResult(True, f"Node {name} has joined")
    whose = "an earlier attempt" if _same_request(node.provider_id, provider_id) else "another machine"
    return CheckResult(
        False, f"Node {name} belongs to {whose}: provider ID {node.provider_id[:128]} instead of {provider_id}"
    )


def initialized(node: Node, resource: str, count: int, startup_taints: Iterable[Taint] = ()) -> CheckResult:
    """Ready, with the promised GPUs, and without start-up taints."""
    if node.unreadable:
        return CheckResult(False, f"Node {node.name} cannot be read: {node.unreadable}")
    if node.ready is not True:
        return CheckResult(False, f"Kubelet of Node {node.name} is not ready ({node.ready_reason or 'no report yet'})")
    there = node.allocatable.of(resource)
    gpus = f"Node {node.name} has {there} of {count} {resource} allocatable"
    if there < count:
        return CheckResult(False, gpus)
    for taint in (*startup_taints, *COMING_UP):
        if any((held.key, held.effect) == (taint.key, taint.effect) for held in node.taints):
            return CheckResult(False, f"Node {node.name} still has the taint {taint.key}:{taint.effect}")
    return CheckResult(True, gpus)


def idle(pods: Iterable[Pod], resource: str) -> bool:
    """Whether no pod uses the Node's GPUs. `pods`: those scheduled to the Node."""
    return next(users(pods, resource), None) is None


def users(pods: Iterable[Pod], resource: str) -> Iterator[Pod]:
    """Pods that are scheduled, have not ended, and request a GPU. Missing evidence counts as use.

    Slices and shares of a GPU are other resources of the same vendor (nvidia.com/mig-1g.10gb, nvidia.com/gpu.shared).
    """
    vendor = resource.partition("/")[0] + "/"
    for pod in pods:
        if not pod.finished and _uses(pod, vendor):
            yield pod


def worked_until(pods: Iterable[Pod], resource: str, now: datetime) -> datetime | None:
    """When the last known pod that used a GPU ended: one may have come and gone between two observations."""
    vendor = resource.partition("/")[0] + "/"
    ends = [pod.ended_at for pod in pods if pod.finished and pod.ended_at is not None and _uses(pod, vendor)]
    return min(max(ends), now) if ends else None


def _uses(pod: Pod, vendor: str) -> bool:
    asks = any(amount > 0 and name.startswith(vendor) for name, amount in pod.requests.others)
    return asks or pod.claims_devices or bool(pod.unreadable)


def _same_request(one: str, other: str) -> bool:
    left, right = read_provider_id(one), read_provider_id(other)
    return left is not None and right is not None and left[1].uid == right[1].uid
