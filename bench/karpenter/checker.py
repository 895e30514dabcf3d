"""Is a plan right? Judged from the manifests by the scheduler's rules; nothing of the planner's own code is used."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.karpenter.cases import Answer, Case, Machine, MachineType, Manifest

UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
HOSTNAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class _Placed:
    """A pod on its machine."""

    uid: str
    labels: Mapping[str, str]
    node: Mapping[str, str]  # labels of its machine


def violations(case: Case, answer: Answer) -> list[str]:
    """What is wrong with the plan; empty: nothing, and every pod has a machine."""
    pods = {pod["metadata"]["uid"]: pod for pod in case.pods}
    types = {each.name: each for each in case.types}
    wrong = [f"pod {uid} has no machine: {why}" for uid, why in answer.unserved.items()]
    placed: list[_Placed] = []
    seen: set[str] = set()
    for number, machine in enumerate(answer.machines):
        labels = {**types[machine.type].labels, "topology.kubernetes.io/zone": machine.zone}
        labels[HOSTNAME] = f"machine-{number}"
        mine = [pods[uid] for uid in machine.pods]
        wrong += _machine_problems(case, types[machine.type], machine, mine, labels)
        for pod in mine:
            uid = pod["metadata"]["uid"]
            if uid in seen:
                wrong.append(f"pod {uid} has two machines")
            seen.add(uid)
            placed.append(_Placed(uid, pod["metadata"]["labels"], labels))
    wrong += [f"pod {uid} has no machine" for uid in pods.keys() - seen - answer.unserved.keys()]
    return wrong + _topology_problems(case, pods, placed)


def _machine_problems(
    case: Case, kind: MachineType, machine: Machine, pods: Sequence[Manifest], labels: Mapping[str, str]
) -> list[str]:
    wrong = []
    if machine.zone not in kind.zones:
        wrong.append(f"{kind.name} is not for rent in {machine.zone}")
    if machine.microusd != kind.microusd:
        wrong.append(f"{kind.name} costs {kind.microusd}, not {machine.microusd}")
    used: dict[str, int] = defaultdict(int)
    for pod in pods:
        used["pods"] += 1
        for name, written in pod["spec"]["containers"][0]["resources"]["requests"].items():
            used[name] += _amount(name, written)
        uid = pod["metadata"]["uid"]
        if not _selected(pod["spec"], labels):
            wrong.append(f"pod {uid} may not run on {kind.name} in {machine.zone}")
        if any(not _tolerated(taint, pod["spec"].get("tolerations", ())) for taint in case.taints):
            wrong.append(f"pod {uid} does not tolerate a taint of {kind.name}")
    room = kind.allocatable
    wrong += [f"{kind.name}: {amount} {name} of {room[name]}" for name, amount in used.items() if amount > room[name]]
    return wrong


def _amount(resource: str, written: str) -> int:
    """CPU in milli, anything else in its own unit."""
    if written.endswith("m"):
        return int(written[:-1])
    unit = UNITS.get(written[-2:])
    if unit is not None:
        return int(written[:-2]) * unit
    return int(written) * (1000 if resource == "cpu" else 1)


def _selected(spec: Manifest, labels: Mapping[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    required = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    return required is None or any(
        all(_expressed(each, labels) for each in term["matchExpressions"]) for term in required["nodeSelectorTerms"]
    )


def _expressed(expression: Manifest, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(expression["values"][0])
        case "Lt":
            return value is not None and int(value) < int(expression["values"][0])
    raise AssertionError(f"operator {expression['operator']}")


def _tolerated(taint: Manifest, tolerations: Iterable[Manifest]) -> bool:
    return any(
        each.get("key", taint["key"]) == taint["key"]
        and each.get("effect", taint["effect"]) == taint["effect"]
        and (each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", ""))
        for each in tolerations
    )


def _topology_problems(case: Case, pods: Mapping[str, Manifest], placed: Sequence[_Placed]) -> list[str]:
    wrong: list[str] = []
    zones = {zone for kind in case.types for zone in kind.zones}
    for (kind, key, selector, skew), owners in _owners(pods, placed).items():
        wanted = dict(selector)
        matched = [pod for pod in placed if wanted.items() <= pod.labels.items()]
        judge = _JUDGES[kind]
        domains = zones if key != HOSTNAME else {pod.node[HOSTNAME] for pod in placed}
        wrong += [f"{kind} by {key} {wanted}: {problem}" for problem in judge(key, owners, matched, domains, skew)]
    return wrong


def _owners(pods: Mapping[str, Manifest], placed: Sequence[_Placed]) -> dict[Any, list[_Placed]]:
    """Pods by the rule that they have: what it is, its topology, its labels, and how uneven it may be."""
    owners: dict[Any, list[_Placed]] = defaultdict(list)
    for pod in placed:
        spec = pods[pod.uid]["spec"]
        for spread in spec.get("topologySpreadConstraints", ()):
            if spread["whenUnsatisfiable"] == "DoNotSchedule":
                owners["spread", spread["topologyKey"], _labels(spread), spread["maxSkew"]].append(pod)
        for kind in ("podAffinity", "podAntiAffinity"):
            for term in spec.get("affinity", {}).get(kind, {}).get(REQUIRED, ()):
                owners[kind, term["topologyKey"], _labels(term), 0].append(pod)
    return owners


def _labels(term: Manifest) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(term["labelSelector"]["matchLabels"].items()))


def _by_domain(key: str, pods: Iterable[_Placed]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for pod in pods:
        found[pod.node[key]].add(pod.uid)
    return found


def _anti_affinity(
    key: str, owners: Sequence[_Placed], matched: Sequence[_Placed], _domains: set[str], _skew: int
) -> list[str]:
    there = _by_domain(key, matched)
    return [f"pod {pod.uid} is not alone" for pod in owners if there[pod.node[key]] - {pod.uid}]


def _affinity(
    key: str, owners: Sequence[_Placed], matched: Sequence[_Placed], _domains: set[str], _skew: int
) -> list[str]:
    """Only the first of a group may go where none of its pods is yet."""
    mine = {pod.uid for pod in owners}
    others = _by_domain(key, [pod for pod in matched if pod.uid not in mine])
    lonely = {pod.node[key] for pod in owners} - others.keys()
    allowed = 1 if not others and mine & {pod.uid for pod in matched} else 0
    return [f"pods are in {sorted(lonely)}"] if len(lonely) > allowed else []


def _spread(key: str, owners: Sequence[_Placed], matched: Sequence[_Placed], domains: set[str], skew: int) -> list[str]:
    """Is there an order in which each of them may be bound? Those that are not counted themselves may come first."""
    counted = {pod.uid for pod in matched}
    mine = {pod.uid for pod in owners} & counted
    waiting = _by_domain(key, [pod for pod in matched if pod.uid in mine])
    free = _by_domain(key, [pod for pod in matched if pod.uid not in mine])
    if key == HOSTNAME:  # there may always be a machine with none
        return [f"{len(pods)} pods on one machine" for pods in waiting.values() if len(pods) > skew]
    owed = {domain: len(waiting.get(domain, ())) for domain in sorted(domains)}
    spare = {domain: len(free.get(domain, ())) for domain in owed}
    count = dict.fromkeys(owed, 0)
    while any(owed.values()):
        lowest = min(count.values())
        able = [domain for domain in owed if owed[domain] and count[domain] + 1 - lowest <= skew]
        raised = [domain for domain in owed if count[domain] == lowest and spare[domain]]
        if able:
            chosen = min(able, key=lambda domain: count[domain])
            owed[chosen] -= 1
        elif raised:
            chosen = raised[0]
            spare[chosen] -= 1
        else:
            return [f"{sum(owed.values())} pods cannot be bound in any order"]
        count[chosen] += 1
    return []


_Judge = Callable[[str, Sequence[_Placed], Sequence[_Placed], set[str], int], list[str]]
_JUDGES: Mapping[str, _Judge] = {"spread": _spread, "podAffinity": _affinity, "podAntiAffinity": _anti_affinity}
