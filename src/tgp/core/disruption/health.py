"""Whether a machine is unhealthy: promised GPUs are gone from its Node, or a condition of its Node says so.

Each sign has a time of its own, from its first bad moment: one that comes or goes changes nothing about another.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tgp.api.field_error import Invalid
from tgp.api.request import GPURequest
from tgp.api.values import duration, is_rfc3339
from tgp.core.model.attempts import attempts_of, gpu_resource, open_attempt
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node, NodeCondition

MISSING_SINCE = "tgp.io/gpus-missing-since"  # annotation of a request, as long as they are
GPUS_MISSING_FOR = timedelta(minutes=10)
USUAL_AFTER = timedelta(minutes=10)  # of a condition without a time of its own
REPAIR_CONDITIONS = ("AcceleratedHardwareReady=False", "KernelDeadlock=True", "ReadonlyFilesystem=True")
STATUSES = ("True", "False", "Unknown")
MOST_UNHEALTHY_PERCENT = 20  # of a pool's nodes: more at once are likely the fault of something that they share
LEAST_UNHEALTHY = 2  # nodes, for a repair to be halted


@dataclass(frozen=True, slots=True)
class RepairRule:
    """A condition of Nodes that makes a machine unhealthy."""

    type: str
    status: str = "True"
    after: timedelta = USUAL_AFTER


@dataclass(frozen=True, slots=True)
class HealthProblem:
    what: str  # in text for users
    due: datetime  # from then on the machine is replaced


def read_repair_rule(text: str) -> RepairRule:
    """`KernelDeadlock`, `StorageReady=False`, `StorageReady=False/30m`; raises ValueError."""
    name, _, rest = text.partition("=")
    status, _, length = rest.partition("/")
    if not name or any(sign.isspace() for sign in text) or (status or "True") not in STATUSES:
        raise ValueError(f"{text!r} is no condition of a Node, such as StorageReady=False/30m")
    try:
        after = duration(length, "") if length else USUAL_AFTER
    except Invalid as error:
        raise ValueError(f"{text!r}: {error.problems[0].body}") from error
    return RepairRule(name, status or "True", after)


def gpus_missing(record: KubeObject[GPURequest], node: Node | None) -> str:
    """How many promised GPUs are not allocatable, in text for users; empty: all are, or it is not known.

    A GPU that was divided since is another resource of the same vendor (nvidia.com/mig-1g.10gb).
    """
    attempt = open_attempt(attempts_of(record))
    was_ready = record.value is not None and record.value.status.ready_at is not None
    if node is None or node.unreadable or not was_ready or attempt is None or attempt.offer is None:
        return ""
    resource, promised = gpu_resource(attempt), attempt.offer.gpu_count or 1
    vendor, there = resource.partition("/")[0] + "/", node.allocatable.of(resource)
    divided = any(name.startswith(vendor) and name != resource and amount for name, amount in node.allocatable.others)
    return "" if there >= promised or divided else f"Node {node.name} has {there} of {promised} {resource} allocatable"


def missing_since(record: KubeObject[GPURequest], now: datetime) -> datetime:
    """As it was noted, so that a new leader goes on counting. A time in the future is not believed."""
    at = record.annotations.get(MISSING_SINCE, "")
    noted = datetime.fromisoformat(at.upper()) if is_rfc3339(at) else now
    return min(noted, now)


def health_problem_of(
    node: Node | None, missing: str, missing_since: datetime | None, rules: Iterable[RepairRule]
) -> HealthProblem | None:
    """The sign that is due first; None: the machine is well. `missing`: as `gpus_missing` says it."""
    signs = list(_conditions(node, rules)) if node is not None else []
    if missing and missing_since is not None:
        signs.append(HealthProblem(f"{missing}, since {missing_since:%H:%M:%S}Z", missing_since + GPUS_MISSING_FOR))
    return min(signs, key=lambda each: (each.due, each.what), default=None)


def repair_halted(unhealthy: int, nodes: int) -> bool:
    return unhealthy >= LEAST_UNHEALTHY and unhealthy * 100 > nodes * MOST_UNHEALTHY_PERCENT


def _conditions(node: Node, rules: Iterable[RepairRule]) -> Iterator[HealthProblem]:
    ready = {True: "True", False: "False", None: "Unknown"}[node.ready]
    for rule in rules:
        for held in (*node.conditions, NodeCondition("Ready", ready, node.ready_since)):
            if (held.type, held.status) == (rule.type, rule.status) and held.since is not None:
                what = f"Node condition {held.type} has been {held.status} since {held.since:%H:%M:%S}Z"
                yield HealthProblem(what, held.since + rule.after)
