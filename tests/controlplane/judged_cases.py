"""One pod, one Node, one verdict: a row for each rule that decides where a pod may go.

`python -m tests.controlplane.judged_cases` prints the table of docs/planner.md.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.controlplane.placement_cases import (
    CASE,
    GPU,
    HOSTNAME,
    REQUIRED,
    ZONE,
    Case,
    Object,
    plain_node,
    plain_pod,
)

HEAD = ("| the pod | the Node | beside | goes there |", "|---|---|---|---|")
PLAIN_WORD = r'"([A-Za-z][\w./-]*)"'  # needs no quotes in YAML
NODE_NAME = "this-node"  # in a row: the name of its Node


@dataclass(frozen=True)
class Row:
    pod: Object  # of its spec
    node: Object  # labels, taints, unschedulable, and allocatable resources
    goes: bool
    resident: Object = field(default_factory=dict)  # of the spec of a pod on that Node
    claim: Object = field(default_factory=dict)  # of the spec of the pod's claim `data`
    volume: Object = field(default_factory=dict)  # of the spec of the volume that it is bound to


def requests(**amounts: str) -> Object:
    return {"containers": [container(**amounts)]}


def container(name: str = "main", **amounts: str) -> Object:
    asked = {GPU if key == "gpu" else key: amount for key, amount in amounts.items()}
    return {"name": name, "resources": {"limits": asked}}


def port(number: int, address: str = "", protocol: str = "TCP") -> Object:
    opened: Object = {"hostPort": number, "containerPort": number, "protocol": protocol}
    return {"containers": [{"name": "main", "ports": [opened | ({"hostIP": address} if address else {})]}]}


def wants(*expressions: Object) -> Object:
    return terms({"matchExpressions": list(expressions)})


def terms(*each: Object) -> Object:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(each)}}}}


def near(kind: str, **labels: str) -> Object:
    looked_for = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {kind: {REQUIRED: [looked_for]}}}


def spread(key: str) -> Object:
    rule = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [rule | {"labelSelector": {"matchLabels": {"app": "web"}}}]}


def tainted(effect: str, value: str = "") -> Object:
    return {"taints": [{"key": "team", "effect": effect} | ({"value": value} if value else {})]}


USES = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
IN_A, IN_B = {"labels": {ZONE: "a"}}, {"labels": {ZONE: "b"}}
BOUND = {"storageClassName": "soon", "volumeName": "data"}
ONLY_IN_B = {
    "nodeAffinity": {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}]}
    }
}
ROWS = (
    Row(requests(gpu="1"), {GPU: "2"}, True),
    Row(requests(gpu="2"), {GPU: "1"}, False),
    Row(requests(gpu="1"), {GPU: "1"}, False, resident=requests(gpu="1")),
    Row(requests(cpu="1.5"), {"cpu": "1500m"}, True),
    Row(requests(memory="1Gi"), {"memory": "1000M"}, False),
    Row({"initContainers": [container("first", cpu="3")]} | requests(cpu="1"), {"cpu": "2"}, False),
    Row(
        {"initContainers": [container("beside", cpu="1") | {"restartPolicy": "Always"}]} | requests(cpu="1"),
        {"cpu": "1500m"},
        False,
    ),
    Row(requests(), {"pods": "1"}, False, resident=requests()),
    Row({"nodeSelector": {"disk": "ssd"}}, {"labels": {"disk": "ssd"}}, True),
    Row({"nodeSelector": {"disk": "ssd"}}, {"labels": {"disk": "hdd"}}, False),
    Row(wants({"key": "disk", "operator": "NotIn", "values": ["hdd"]}), {}, True),
    Row(wants({"key": "count", "operator": "Gt", "values": ["7"]}), {"labels": {"count": "10"}}, True),
    Row(wants({"key": "count", "operator": "Gt", "values": ["7"]}), {"labels": {"count": "1_0"}}, False),
    Row(terms({}), {}, False),
    Row(terms({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE_NAME]}]}), {}, True),
    Row(terms({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [NODE_NAME]}]}), {}, False),
    Row({}, tainted("NoSchedule"), False),
    Row({}, tainted("PreferNoSchedule"), True),
    Row({"tolerations": [{"operator": "Exists"}]}, tainted("NoExecute"), True),
    Row({"tolerations": [{"key": "team", "value": "a"}]}, tainted("NoSchedule", "b"), False),
    Row({"tolerations": [{"key": "team", "effect": "NoExecute"}]}, tainted("NoSchedule"), False),
    Row({}, {"unschedulable": True}, False),
    Row(
        {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]},
        {"unschedulable": True},
        True,
    ),
    Row(port(8080, "127.0.0.1"), {}, False, resident=port(8080)),
    Row(port(8080, "127.0.0.1"), {}, True, resident=port(8080, "10.0.0.1")),
    Row(port(8080, protocol="UDP"), {}, True, resident=port(8080)),
    Row(near("podAntiAffinity", app="web"), {}, False, resident=requests()),
    Row(requests(), {}, False, resident=near("podAntiAffinity", app="web")),
    Row(near("podAffinity", app="web"), {}, True, resident=requests()),
    Row(near("podAffinity", app="other"), {}, False, resident=requests()),
    Row(near("podAffinity", app="web"), {}, True),
    Row(spread("rack"), {}, False),
    Row(spread("rack"), {"labels": {"rack": "r1"}}, True),
    Row(USES, {}, False),
    Row(USES, IN_B, True, claim=BOUND, volume=ONLY_IN_B),
    Row(USES, IN_A, False, claim=BOUND, volume=ONLY_IN_B),
    Row(USES, IN_A, True, claim={"storageClassName": "late"}),
    Row(USES, IN_A, False, claim={"storageClassName": "late-in-b"}),
    Row(USES, {}, False, claim={"storageClassName": "soon"}),
)


def cases() -> Iterator[tuple[Row, Case]]:
    for number, row in enumerate(ROWS):
        yield row, _case(row, f"row-{number}")


def _case(row: Row, name: str) -> Case:
    case = Case(name)
    node, pod = plain_node(name, name), _pod(row.pod, name, name)
    labels = {HOSTNAME: name, **row.node.get("labels", {})}
    node["metadata"]["labels"] |= labels
    room = {key: amount for key, amount in row.node.items() if key in (GPU, "cpu", "memory", "pods")}
    node["status"] = {each: amounts | room for each, amounts in node["status"].items()}
    node["spec"] |= {key: row.node[key] for key in ("taints", "unschedulable") if key in row.node}
    case.nodes.append(node)
    if row.resident:
        resident = _pod(row.resident, f"{name}-resident", name)
        del resident["spec"]["nodeSelector"]
        resident["spec"]["nodeName"] = name
        case.residents.append(resident)
    if row.claim:
        case.claims.append(_claim(row.claim, name, pod["metadata"]["namespace"]))
    if row.volume:
        case.volumes.append(_volume(row.volume, name, pod["metadata"]["namespace"]))
    case.pods.append(pod)
    return case


def _pod(spec: Object, name: str, case: str) -> Object:
    pod = plain_pod(name, case)
    pod["metadata"]["labels"]["app"] = "web"
    written = json.loads(
        json.dumps(spec).replace(NODE_NAME, case).replace('"claimName": "data"', f'"claimName": "{name}"')
    )
    selector = pod["spec"]["nodeSelector"] | written.pop("nodeSelector", {})
    pod["spec"] |= written | {"nodeSelector": selector}
    for each in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        each["image"] = "any"
    for kind in ("podAffinity", "podAntiAffinity"):
        for term in pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, ()):
            term["labelSelector"]["matchLabels"][CASE] = case
    for rule in pod["spec"].get("topologySpreadConstraints", ()):
        rule["labelSelector"]["matchLabels"][CASE] = case
    return pod


def _claim(spec: Object, name: str, namespace: str) -> Object:
    bound = {"volumeName": name} if "volumeName" in spec else {}
    done = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": name, "namespace": namespace, "annotations": done}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": asked | spec | bound,
    }


def _volume(spec: Object, name: str, namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "soon",
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
            **spec,
        },
    }


# The table


def table() -> Iterator[str]:
    yield from HEAD
    for row in ROWS:
        beside = [f"a pod: {_text(row.resident)}"] if row.resident else []
        beside += [f"claim: {_text(row.claim)}"] if row.claim else []
        beside += [f"volume: {_text(row.volume)}"] if row.volume else []
        verdict = "yes" if row.goes else "no"
        yield f"| {_text(row.pod)} | {_text(row.node)} | {'<br>'.join(beside)} | {verdict} |"


def _text(part: Object) -> str:
    """As YAML on one line; without what is the same in every row."""
    if not part:
        return ""
    short = json.dumps(part).replace(REQUIRED, "required").replace(f'"{HOSTNAME}"', '"hostname"')
    for same in ('"name": "main", ', '"name": "first", ', '"name": "beside", ', ', "containerPort": 8080'):
        short = short.replace(same, "")
    short = short.replace('[{"resources": {"limits": {}}}]', '"any"')
    return "`" + re.sub(PLAIN_WORD, r"\1", short) + "`"


if __name__ == "__main__":
    print("\n".join(table()))
