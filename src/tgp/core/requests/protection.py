"""What asks that a machine is not disrupted, and until when.

`tgp.io/do-not-disrupt` and `karpenter.sh/do-not-disrupt` are "true", or a duration: on a pod from its start, on a Node
or a request from its creation. `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"` on a pod means "true". What
cannot be read counts as absent, and the object gets an Event.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tgp.api.field_error import Invalid
from tgp.api.request import GPURequest
from tgp.api.values import duration
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod

DO_NOT_DISRUPT = ("tgp.io/do-not-disrupt", "karpenter.sh/do-not-disrupt")
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
FOR_EVER = datetime.max.replace(tzinfo=UTC)  # only to compare
SHOWN = 64  # characters of a value that cannot be read


@dataclass(frozen=True, slots=True)
class Protection:
    by: str  # what protects, in text for users
    until: datetime | None  # None: for as long as it is annotated

    @property
    def text(self) -> str:
        return self.by if self.until is None else f"{self.by}, until {self.until:%Y-%m-%d %H:%M:%S}Z"


def protection_of(
    record: KubeObject[GPURequest], node: Node | None, pods: Iterable[Pod], now: datetime
) -> Protection | None:
    """The longest of those of the request, its Node and the pods that run there; None: nothing protects it."""
    found = [*_of(f"GPURequest {record.key} is annotated", record.annotations, record.created_at, now)]
    if node is not None:
        found += _of(f"Node {node.name} is annotated", node.annotations, node.created_at, now)
    for pod in sorted(pods, key=lambda each: each.key):
        if (own := pod_protection(pod, now)) is not None:
            found.append(own)
    return _longest(found)


def pod_protection(pod: Pod, now: datetime) -> Protection | None:
    """None: it may be evicted. A duration begins when a kubelet accepts the pod; until then it protects."""
    if pod.finished or pod.deleting or not pod.annotations:
        return None
    found = [*_of(f"Pod {pod.key} is annotated", pod.annotations, pod.accepted_at, now)]
    if pod.annotations.get(SAFE_TO_EVICT) == "false":
        found.append(Protection(f'Pod {pod.key} is annotated {SAFE_TO_EVICT}: "false"', None))
    return _longest(found)


def unreadable(annotations: Mapping[str, str]) -> Iterator[str]:
    """What is ignored, and why, in text for users."""
    for name in DO_NOT_DISRUPT:
        text = annotations.get(name, "false")
        if text not in ("true", "false") and not _is_duration(text):
            yield f'Annotation {name} is ignored: {text[:SHOWN]!r} is neither "true" nor a duration, such as 2h'


def _of(who: str, annotations: Mapping[str, str], since: datetime | None, now: datetime) -> Iterator[Protection]:
    for name in DO_NOT_DISRUPT:
        text = annotations.get(name)
        if text == "true":
            yield Protection(f"{who} {name}", None)
        elif text is not None and _is_duration(text):
            until = None if since is None else _later(since, text)
            if until is None or now < until:
                yield Protection(f"{who} {name}: {text}", until)


def _is_duration(text: str) -> bool:
    try:
        duration(text, "")
    except (Invalid, OverflowError):
        return False
    return True


def _later(since: datetime, text: str) -> datetime | None:
    """None: after the end of the calendar."""
    try:
        return since + duration(text, "")
    except OverflowError:
        return None


def _longest(found: Iterable[Protection]) -> Protection | None:
    return max(found, key=lambda each: each.until or FOR_EVER, default=None)
