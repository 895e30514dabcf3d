"""Where a pod may run: resources, selectors, affinity, taints. Written apart from the operator's own rules on purpose:
two hands that agree are worth more than one hand twice.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from tgp.api.quantity import milli, whole
from tgp.sim.apiserver.json_value import Json

Amounts = dict[str, int]  # cpu in thousandths, everything else in its own unit
SCHEDULING_EFFECTS = ("NoSchedule", "NoExecute")
INTEGER = re.compile(r"[+-]?[0-9]+\Z")  # as Go reads them: no blanks, no underscores
LEAST = -(2**63)


def amounts(written: Mapping[str, object] | None) -> Amounts:
    return {name: _amount(name, value) for name, value in (written or {}).items()}


def _amount(name: str, value: object) -> int:
    assert isinstance(value, str | int | float), f"{name} is no quantity: {value!r}"
    return milli(value) if name == "cpu" else whole(value)


def requests_of(pod: Json) -> Amounts:
    """What the scheduler sets aside: the sum of the containers, or the largest moment of the init containers."""
    spec = pod["spec"]
    total = _sum(_container_requests(container) for container in spec.get("containers", ()))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers", ()):
        asked = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, asked))
            asked = sidecars
        else:
            asked = _sum((sidecars, asked))
        peak = _larger(peak, asked)
    needed = _larger(_sum((total, sidecars)), peak)
    needed |= _container_requests(spec)  # of the pod as a whole, where it says so
    return {**_sum((needed, amounts(spec.get("overhead")))), "pods": 1}


def _container_requests(container: Json) -> Amounts:
    resources = container.get("resources") or {}
    return {**amounts(resources.get("limits")), **amounts(resources.get("requests"))}  # an absent request is the limit


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def _larger(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in (*one, *(n for n in other if n not in one))}


# Taints.


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in {None, "", taint.get("effect")}:
        return False
    if toleration.get("key") not in {None, "", taint["key"]}:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == (taint.get("value") or "")


def untolerated(tolerations: Iterable[Json], taints: Iterable[Json], effects: Iterable[str]) -> Json | None:
    """The first taint of these effects that keeps the pod away."""
    held = list(tolerations)
    wanted = tuple(effects)
    return next(
        (taint for taint in taints if taint["effect"] in wanted and not any(tolerates(one, taint) for one in held)),
        None,
    )


# Ports of the node itself.

HostPort = tuple[int, str, str]  # port, protocol, address
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared, not bound


def host_ports(pod: Json) -> list[HostPort]:
    sidecars = [each for each in pod["spec"].get("initContainers", ()) if each.get("restartPolicy") == "Always"]
    ports = [port for each in (*pod["spec"]["containers"], *sidecars) for port in each.get("ports") or ()]
    return [
        (port["hostPort"], port.get("protocol") or "TCP", port.get("hostIP") or EVERY_ADDRESS)
        for port in ports
        if port.get("hostPort")
    ]


def collide(some: Iterable[HostPort], others: Iterable[HostPort]) -> bool:
    taken = list(others)
    return any(
        one[:2] == other[:2] and (one[2] == other[2] or EVERY_ADDRESS in (one[2], other[2]))
        for one in some
        for other in taken
    )


# Node selection.


def selects(pod_spec: Json, node: Json) -> bool:
    """Both its nodeSelector and its required node affinity allow the node."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (pod_spec.get("nodeSelector") or {}).items()):
        return False
    affinity = ((pod_spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if affinity is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(term_holds(term, labels, fields) for term in affinity.get("nodeSelectorTerms") or ())


def term_holds(term: Json, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    expressions, on_fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not on_fields:
        return False  # an empty term selects nothing
    return all(_holds(row, labels) for row in expressions) and all(_holds(row, fields) for row in on_fields)


def _holds(row: Json, values: Mapping[str, str]) -> bool:
    value, wanted = values.get(row["key"]), row.get("values") or []
    return _OPERATORS[row["operator"]](value, wanted)


def _compared(value: str | None, wanted: list[str], sign: int) -> bool:
    if value is None or not wanted:
        return False
    numbers = [int(text) for text in (value, wanted[0]) if INTEGER.match(text)]
    if len(numbers) < 2 or not all(LEAST <= number <= -LEAST - 1 for number in numbers):
        return False
    return (numbers[0] - numbers[1]) * sign > 0


_OPERATORS: Mapping[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda value, wanted: value in wanted,
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, wanted: _compared(value, wanted, 1),
    "Lt": lambda value, wanted: _compared(value, wanted, -1),
}
