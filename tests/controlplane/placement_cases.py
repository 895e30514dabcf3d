"""Random pods and nodes about which three schedulers must agree: pairs, and small clusters.

Cases share one control plane and must not mix: nodes carry the label `case`, pods select it, and every topology key is
the case's own, or is `kubernetes.io/hostname` and looks at the case's own pods.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

Object = dict[str, Any]

CASE = "case"
ANOTHER = "another"  # a node that is not there
PLAIN, GOLD = "judge-plain", "judge-gold"
NAMESPACES: dict[str, dict[str, str]] = {PLAIN: {"tier": "tin"}, GOLD: {"tier": "gold"}}
ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CORDON = "node.kubernetes.io/unschedulable"

KEYS = ("disk", "count", "odd.example.com/Key_1", "absent")
VALUES = ("", "a", "b", "7", "007", "10", "1_0", "1.5", "0x10", "9223372036854775807", "9223372036854775808")
BOUNDS = ("7", "007", "-1", "+5", "1_0", "x", "9223372036854775807", "99999999999999999999", "-9223372036854775809")
TAINT_KEYS = ("k1", "example.com/k2")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
PORTS = (8080, 8081)
ADDRESSES = ("", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::")  # noqa: S104 - written, not bound
CLASSES: tuple[Object, ...] = (
    {"metadata": {"name": "soon"}, "provisioner": "csi.example.com", "volumeBindingMode": "Immediate"},
    {"metadata": {"name": "late"}, "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"},
    {
        "metadata": {"name": "late-in-b"},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [
            {"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}, {"key": REGION, "values": ["r"]}]},
            {"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]},
        ],
    },
    {
        "metadata": {"name": "static"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
)


@dataclass
class Case:
    name: str
    nodes: list[Object] = field(default_factory=list)
    volumes: list[Object] = field(default_factory=list)
    claims: list[Object] = field(default_factory=list)
    residents: list[Object] = field(default_factory=list)  # pods with a nodeName: no scheduler has to place them
    pods: list[Object] = field(default_factory=list)  # one after another


def pairs(seed: str, count: int) -> Iterator[Case]:
    """One node, perhaps with a pod on it, and one pod; they differ in one or two respects, so that those decide."""
    for number in range(count):
        luck = Random(f"{seed} pair {number}")
        case = Case(f"p{number}")
        node, pod = plain_node(case.name, case.name), plain_pod(case.name, case.name)
        case.nodes.append(node)
        case.pods.append(pod)
        for respect in luck.sample(
            (_labelled, _labelled, _tainted, _filled, _filled, _served, _stored), luck.randint(1, 2)
        ):
            respect(luck, case, node, pod)
        yield case


def clusters(seed: str, count: int, prefix: str = "c") -> Iterator[Case]:
    """3 to 6 nodes, and 3 to 8 pods that look at each other. `prefix`: of their names."""
    for number in range(count):
        luck = Random(f"{seed} cluster {number}")
        case = Case(f"{prefix}{number}")
        zone, host = f"zone.{case.name}", luck.choice((HOSTNAME, f"host.{case.name}"))
        for at in range(luck.randint(3, 6)):
            name = f"{case.name}-{at}"
            node = plain_node(name, case.name)
            node["metadata"]["labels"] |= {host: name, zone: luck.choice("abc")}
            if luck.random() < 0.12:
                del node["metadata"]["labels"][zone if host == HOSTNAME else luck.choice((zone, host))]
            if luck.random() < 0.15:
                node["spec"]["taints"] = [{"key": "k1", "value": "v", "effect": luck.choice(EFFECTS)}]
            if luck.random() < 0.3:
                node["metadata"]["labels"][ZONE] = luck.choice("abc")
            case.nodes.append(node)
        total = luck.randint(3, 8)
        for at in range(total):
            pod = _neighbour(luck, f"{case.name}-pod-{at}", case, (zone, host))
            if at == total - 1 and luck.random() < 0.25:
                _add_volume(luck, case, pod)
            case.pods.append(pod)
        yield case


# Nodes


def plain_node(name: str, case: str) -> Object:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {CASE: case}},
        "spec": {},
        "status": {"capacity": dict(room), "allocatable": dict(room)},
    }


# Respects in which a pod and a node may suit each other or not


def _labelled(luck: Random, case: Case, node: Object, pod: Object) -> None:
    for key in KEYS[:-1]:
        if luck.random() < 0.8:
            node["metadata"]["labels"][key] = luck.choice(VALUES)
    if luck.random() < 0.8:
        terms = [_term(luck, case.name) for _ in range(luck.choice((1, 1, 1, 2, 3)))]
        pod["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    else:
        pod["spec"]["nodeSelector"][luck.choice(KEYS)] = luck.choice(VALUES)


def _tainted(luck: Random, case: Case, node: Object, pod: Object) -> None:
    keys = luck.sample(TAINT_KEYS, luck.randint(1, 2))
    node["spec"]["taints"] = [
        {"key": key, "value": luck.choice(("", "v", "w")), "effect": luck.choice(EFFECTS)} for key in keys
    ]
    if luck.random() < 0.2:
        node["spec"]["unschedulable"] = True
    pod["spec"]["tolerations"] = [_toleration(luck) for _ in range(luck.randint(1, 3))]


def _filled(luck: Random, case: Case, node: Object, pod: Object) -> None:
    room = {
        "cpu": luck.choice(("1", "1500m", "2", "0.3", "4")),
        "memory": luck.choice(("1Gi", "1000M", "2Gi", "1073741824500m")),
        "pods": luck.choice(("1", "2", "110", "110")),
    }
    if luck.random() < 0.5:
        room[GPU] = luck.choice(("0", "1", "2"))
    if luck.random() < 0.3:
        room["ephemeral-storage"] = luck.choice(("1Gi", "10Gi"))
    node["status"] = {"capacity": room, "allocatable": room}
    _make_hungry(luck, pod)
    if luck.random() < 0.5:
        _make_hungry(luck, _resident(case))


def _served(luck: Random, case: Case, node: Object, pod: Object) -> None:
    for each in (pod, _resident(case)):
        for at, container in enumerate((*each["spec"]["containers"], *each["spec"].get("initContainers", ()))):
            if at == 0 or luck.random() < 0.5:
                container["ports"] = [_port(luck, 3000 + at)]


def _stored(luck: Random, case: Case, node: Object, pod: Object) -> None:
    for key in (ZONE, OLD_ZONE, REGION):
        if luck.random() < 0.4:
            node["metadata"]["labels"][key] = "r" if key == REGION else luck.choice("ab")
    _add_volume(luck, case, pod)


def _resident(case: Case) -> Object:
    if not case.residents:
        resident = plain_pod(f"{case.name}-resident", case.name)
        resident["spec"] = {"containers": resident["spec"]["containers"], "nodeName": case.name}
        case.residents.append(resident)
    return case.residents[0]


# Pods


def plain_pod(name: str, case: str, namespace: str = PLAIN) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {CASE: case}},
        "spec": {"containers": [{"name": "main", "image": "any"}], "nodeSelector": {CASE: case}},
    }


def _make_hungry(luck: Random, pod: Object) -> None:
    spec = pod["spec"]
    containers = spec["containers"]
    containers[0]["resources"] = _needs(luck)
    if luck.random() < 0.2:
        containers.append({"name": "second", "image": "any", "resources": _needs(luck)})
    if luck.random() < 0.25:
        spec["initContainers"] = [
            {
                "name": f"init-{at}",
                "image": "any",
                "resources": _needs(luck),
                **({"restartPolicy": "Always"} if luck.random() < 0.5 else {}),
            }
            for at in range(luck.randint(1, 3))
        ]
    if luck.random() < 0.1:
        spec["resources"] = {"requests": {"cpu": "2500m", "memory": "3Gi"}}


def _needs(luck: Random) -> Object:
    asked = {}
    if luck.random() < 0.7:
        asked["cpu"] = luck.choice(("0", "100m", "0.3", "500m", "0.0005", "1", "2"))
    if luck.random() < 0.5:
        asked["memory"] = luck.choice(("0", "100Mi", "500M", "1Gi", "1500m", "1e9"))
    if luck.random() < 0.3:
        asked[GPU] = luck.choice(("0", "1", "2"))
    if luck.random() < 0.1:
        asked["ephemeral-storage"] = luck.choice(("500Mi", "5Gi"))
    return {"limits": asked} if GPU in asked or luck.random() < 0.5 else {"requests": asked}


def _port(luck: Random, inside: int) -> Object:
    port: Object = {"containerPort": inside, "hostPort": luck.choice(PORTS), "protocol": luck.choice(("TCP", "UDP"))}
    address = luck.choice(ADDRESSES)
    return {**port, "hostIP": address} if address else port


def _toleration(luck: Random) -> Object:
    operator = luck.choice(("Equal", "Exists", ""))
    toleration: Object = {"operator": operator} if operator else {}
    if operator != "Exists":
        toleration |= {"key": luck.choice(TAINT_KEYS), "value": luck.choice(("", "v", "w"))}
    elif luck.random() < 0.7:
        toleration["key"] = luck.choice((*TAINT_KEYS, CORDON))
    if luck.random() < 0.5:
        toleration["effect"] = luck.choice(EFFECTS)
    return toleration


def _term(luck: Random, node: str) -> Object:
    term: Object = {}
    rows = [_row(luck) for _ in range(luck.choice((0, 1, 1, 1, 2)))]
    if rows:
        term["matchExpressions"] = rows
    if luck.random() < 0.15:
        named = {"key": "metadata.name", "operator": luck.choice(("In", "NotIn"))}
        term["matchFields"] = [{**named, "values": [luck.choice((node, ANOTHER))]}]
    return term


def _row(luck: Random) -> Object:
    operator = luck.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    row: Object = {"key": luck.choice(KEYS), "operator": operator}
    if operator in ("In", "NotIn"):
        row["values"] = luck.sample(VALUES, luck.randint(1, 4))
    elif operator in ("Gt", "Lt"):
        row |= {"key": luck.choice(("count", "count", "disk")), "values": [luck.choice(BOUNDS)]}
    return row


# Volumes


def _add_volume(luck: Random, case: Case, pod: Object) -> None:
    name = pod["metadata"]["name"]
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    kind = luck.choice(
        ("bound", "bound", "bound", "missing", "gone", "half", "soon", "late", "late-in-b", "static", "")
    )
    if kind == "missing":
        return
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": pod["metadata"]["namespace"], "annotations": {}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    case.claims.append(claim)
    if kind not in ("bound", "gone", "half"):
        claim["spec"]["storageClassName"] = kind
        if kind == "late" and luck.random() < 0.3:
            claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = ANOTHER
        return
    claim["spec"] |= {"storageClassName": "soon", "volumeName": name}
    if kind != "half":
        claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
    if kind != "gone":
        case.volumes.append(_volume(luck, name, case.name, pod["metadata"]["namespace"]))


def _volume(luck: Random, name: str, case: str, namespace: str) -> Object:
    rules = [
        {"key": ZONE, "operator": "In", "values": luck.sample("abc", luck.randint(1, 2))},
        {"key": CASE, "operator": "In", "values": [case]},
        {"key": "count", "operator": "Exists"},
    ]
    terms = [{"matchExpressions": luck.sample(rules, luck.randint(1, 2))} for _ in range(luck.randint(1, 2))]
    labels = {}
    if luck.random() < 0.4:
        labels[luck.choice((ZONE, OLD_ZONE))] = luck.choice(("a", "b", "a__b"))
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "soon",
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
            **({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if luck.random() < 0.7 else {}),
        },
    }


# Pods that look at each other


def _neighbour(luck: Random, name: str, case: Case, keys: tuple[str, str]) -> Object:
    pod = plain_pod(name, case.name, luck.choice((PLAIN, PLAIN, GOLD)))
    spec, labels = pod["spec"], pod["metadata"]["labels"]
    labels["app"] = luck.choice("xy")
    if luck.random() < 0.3:
        labels["version"] = luck.choice("12")
    if luck.random() < 0.4:
        host = luck.choice(case.nodes)["metadata"]["name"]
        spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [_named(host)]}}}
    if luck.random() < 0.2:
        spec["tolerations"] = [{"operator": "Exists"}]
    if luck.random() < 0.3:
        spec["containers"][0]["resources"] = {"requests": {"cpu": luck.choice(("1", "2", "3"))}}
    if luck.random() < 0.2:
        spec["containers"][0]["ports"] = [_port(luck, 3000)]
    affinity = spec.setdefault("affinity", {})
    kind = luck.random()
    if kind < 0.4:
        chosen = luck.sample(keys, luck.choice((1, 1, 2)))
        spec["topologySpreadConstraints"] = [_spread(luck, case.name, key) for key in chosen]
    if 0.3 < kind < 0.65:
        affinity["podAffinity"] = {REQUIRED: [_pod_term(luck, case.name, keys) for _ in range(luck.choice((1, 1, 2)))]}
    if kind > 0.6:
        affinity["podAntiAffinity"] = {
            REQUIRED: [_pod_term(luck, case.name, keys) for _ in range(luck.choice((1, 1, 2)))]
        }
    return pod


def _named(host: str) -> Object:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [host]}]}


def _spread(luck: Random, case: str, key: str) -> Object:
    spread: Object = {
        "topologyKey": key,
        "maxSkew": luck.choice((1, 1, 2)),
        "whenUnsatisfiable": luck.choice(("DoNotSchedule", "DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": _selector(luck, case, key),
    }
    if spread["whenUnsatisfiable"] == "DoNotSchedule" and luck.random() < 0.3:
        spread["minDomains"] = luck.randint(1, 4)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if luck.random() < 0.3:
            spread[policy] = luck.choice(("Honor", "Ignore"))
    if key == HOSTNAME:
        spread.pop("nodeAffinityPolicy", None)  # else Nodes of other cases would count
    if spread["labelSelector"] is None:
        del spread["labelSelector"]
    elif luck.random() < 0.3 and "version" not in str(spread["labelSelector"]):  # in both places it is refused
        spread["matchLabelKeys"] = ["version"]
    return spread


def _selector(luck: Random, case: str, key: str) -> Object | None:
    app = luck.choice("xy")
    selector: Object | None = luck.choice(
        (
            {"matchLabels": {"app": app}},
            {"matchLabels": {"app": app}},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]},
            {"matchExpressions": [{"key": "version", "operator": "DoesNotExist"}]},
            {
                "matchLabels": {"app": app},
                "matchExpressions": [{"key": "version", "operator": "NotIn", "values": ["1"]}],
            },
            {},
            None,
        )
    )
    if selector is not None and key == HOSTNAME:
        selector["matchLabels"] = {CASE: case, **selector.get("matchLabels", {})}
    return selector


def _pod_term(luck: Random, case: str, keys: tuple[str, str]) -> Object:
    term: Object = {"topologyKey": luck.choice(keys)}
    selector = _selector(luck, case, term["topologyKey"])
    if selector is not None:
        term["labelSelector"] = selector
        if luck.random() < 0.15 and "version" not in str(selector):
            term[luck.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
    if luck.random() < 0.2:
        term["namespaces"] = [luck.choice((PLAIN, GOLD))]
    if luck.random() < 0.25:
        term["namespaceSelector"] = luck.choice(({}, {"matchLabels": {"tier": "gold"}}))
    return term
