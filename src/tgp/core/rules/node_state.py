"""What a Node shows of the machine behind it: is it ours, is it complete, is it used, may it be disturbed?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from tgp.api.request import GPURequest
from tgp.core.model.node import Node
from tgp.core.model.pod import DO_NOT_DISRUPT, Pod
from tgp.core.model.taints import Taint
from tgp.core.model.token import Token, read_token
from tgp.core.model.typed import Typed

SCHEME = "tgp://"

# Put there by Kubernetes itself while a Node comes up; nothing can be scheduled before they are gone.
COMING_UP = (
    Taint("node.kubernetes.io/not-ready", "NoSchedule"),
    Taint("node.kubernetes.io/unreachable", "NoSchedule"),
    Taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
    Taint("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """Yes or no, and why, for people."""

    yes: bool
    words: str

    def __bool__(self) -> bool:
        return self.yes


def provider_id_of(provider: str, token: str) -> str:
    """What the Node of a rented machine carries for life: it is immutable once set."""
    return f"{SCHEME}{provider}/{token}"


def read_provider_id(text: str) -> tuple[str, Token] | None:
    """The provider and the token; None: no machine that anybody of us rented."""
    provider, slash, mark = text.removeprefix(SCHEME).partition("/")
    token = read_token(mark) if text.startswith(SCHEME) and provider and slash else None
    return None if token is None else (provider, token)


def registered(node: Node | None, name: str, provider_id: str, since: datetime | None = None) -> Answer:
    """Whether this is the Node of our machine. `provider_id` is empty for machines you own: they keep what they have.

    `since` when there can be one: the API server's own moment at which the request was written. A Node without any
    provider id that was there before is somebody's, a control plane's perhaps, whatever name stands in a status.

    A Node of that name under another provider id is somebody else's, also if it is an earlier attempt's: never adopted.
    An owned machine's Node outlasts its sleep, so it counts as registered only while it is ready.
    """
    if node is None or node.name != name:
        return Answer(False, f"there is no Node {name} yet")
    if node.unreadable:
        return Answer(False, f"Node {name} cannot be read: {node.unreadable}")
    if not provider_id:
        return Answer(True, f"Node {name} is up") if node.ready else Answer(False, f"Node {name} is not ready yet")
    if not node.provider_id and since is not None and node.created_at is not None and node.created_at < since:
        return Answer(False, f"Node {name} is somebody else's: it was there before the request")
    if node.provider_id in ("", provider_id):
        return Answer(True, f"Node {name} has joined")
    whose = "an earlier attempt's" if _same_request(node.provider_id, provider_id) else "somebody else's"
    return Answer(False, f"Node {name} is {whose}: its provider id is {node.provider_id[:128]}, not {provider_id}")


def initialized(node: Node, resource: str, count: int, startup_taints: Iterable[Taint] = ()) -> Answer:
    """Ready, with the GPUs that were promised, and nothing left that keeps pods off while a Node comes up."""
    if node.unreadable:
        return Answer(False, f"Node {node.name} cannot be read: {node.unreadable}")
    if node.ready is not True:
        return Answer(False, f"its kubelet is not ready ({node.ready_reason or 'it has not reported yet'})")
    there = node.allocatable.of(resource)
    if there < count:
        return Answer(False, f"{there} of {count} {resource} allocatable")
    for taint in (*startup_taints, *COMING_UP):
        if any((held.key, held.effect) == (taint.key, taint.effect) for held in node.taints):
            return Answer(False, f"the taint {taint.key}:{taint.effect} has not been removed yet")
    return Answer(True, f"{there} of {count} {resource} allocatable")


def idle(pods: Iterable[Pod], resource: str) -> bool:
    """Whether nobody on the Node uses its GPUs. `pods` are those that were placed there."""
    return next(users(pods, resource), None) is None


def users(pods: Iterable[Pod], resource: str) -> Iterator[Pod]:
    """Who was placed and has not ended, and requests a GPU. Missing evidence counts as use.

    Slices and shares of a GPU go by other names of the same maker (nvidia.com/mig-1g.10gb, nvidia.com/gpu.shared).
    """
    maker = resource.partition("/")[0] + "/"
    for pod in pods:
        if not pod.finished and _uses(pod, maker):
            yield pod


def worked_until(pods: Iterable[Pod], resource: str, now: datetime) -> datetime | None:
    """When the last of its users that are still on record ended: one may have come and gone without our seeing it."""
    maker = resource.partition("/")[0] + "/"
    ends = [pod.ended_at for pod in pods if pod.finished and pod.ended_at is not None and _uses(pod, maker)]
    return min(max(ends), now) if ends else None


def _uses(pod: Pod, maker: str) -> bool:
    asks = any(amount > 0 and name.startswith(maker) for name, amount in pod.requests.others)
    return asks or pod.claims_devices or bool(pod.unreadable)


def protected(record: Typed[GPURequest], node: Node | None, pods: Iterable[Pod]) -> Answer:
    """Whether somebody asked not to be disturbed without need: on the request, its Node, or a pod that runs there."""
    if record.annotations.get(DO_NOT_DISRUPT) == "true":
        return Answer(True, f"the request carries {DO_NOT_DISRUPT}")
    if node is not None and node.annotations.get(DO_NOT_DISRUPT) == "true":
        return Answer(True, f"Node {node.name} carries {DO_NOT_DISRUPT}")
    asking = sorted(pod.key for pod in pods if pod.do_not_disrupt and not (pod.finished or pod.deleting))
    if asking:
        return Answer(True, f"pod {asking[0]} carries {DO_NOT_DISRUPT}")
    return Answer(False, "nobody asked not to be disturbed")


def _same_request(one: str, other: str) -> bool:
    left, right = read_provider_id(one), read_provider_id(other)
    return left is not None and right is not None and left[1].uid == right[1].uid
