"""The real kube-scheduler judges ours: the predicates that plans are made with, and the simulated scheduler.

`TGP_PAIRS=5000 TGP_CLUSTERS=1000 make test T=tests/controlplane/test_scheduler_judge.py` tries more.
"""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import local
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
import numpy as np
import pytest

from tests.amounts import amount
from tests.controlplane.placement_cases import ANOTHER, CLASSES, CORDON, NAMESPACES, Case, Object, clusters, pairs
from tgp.adapters.kube.records.kinds import claims, nodes, pods, storage_classes, volumes
from tgp.adapters.kube.records.projection import Projection
from tgp.api.resource import (
    CLUSTER_ROLE,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STORAGE_CLASS,
    Resource,
)
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.resources import Resources
from tgp.core.model.storage import WAIT_FOR_FIRST_CONSUMER
from tgp.core.model.taints import Taint, untolerated
from tgp.core.pools.planner.masks import SourceTable, label_column
from tgp.sim.cluster.component_api import ComponentApi
from tgp.sim.cluster.controller import StoreCommit
from tgp.sim.cluster.scheduler import Scheduler
from tgp.sim.world import World
from tools.controlplane.fixtures import a_control_plane
from tools.controlplane.plane import APISERVER, SCHEDULER, ControlPlane, Wanted

PAIRS = amount(500, 5000, "TGP_PAIRS")
CLUSTERS = amount(100, 1000, "TGP_CLUSTERS")
SEED = "1"
PAIRS_AT_ONCE, CLUSTERS_AT_ONCE, FEWEST_PODS = 1000, 200, 3
ROUND = "round"
VERDICT_BOUND_S = 300.0
IDLE_S = 30.0  # the API server closes connections that are idle for longer than 90 s
POLL_S = 0.2
POLL_PER_POD_S = 0.002  # a list of many costs more, and is complete later
WRITERS = 4
TOGETHER = 32  # nodes in one table of ours
JUDGED = 0.9  # of the cases at least: the rest the API server refuses
SELECTED_NODE = "volume.kubernetes.io/selected-node"
# Node lifecycle does not run: its taint on new Nodes would stay. The scheduler's own limit is 50 calls a second.
FAST = {
    APISERVER: ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition", "--max-requests-inflight=0"),
    SCHEDULER: ("--kube-api-qps=2000", "--kube-api-burst=4000"),
}


class RealScheduler:
    """kube-scheduler, seen through its API server: many objects at once, and one list for all verdicts."""

    def __init__(self, plane: ControlPlane) -> None:
        address = urlsplit(plane.url)
        self._host, self._port = address.hostname or "", address.port or 0
        self._tls = ssl.create_default_context(cafile=str(plane.ca_file))
        self._headers = {"Authorization": f"Bearer {plane.admin_token}", "Content-Type": "application/json"}
        self._here = local()
        self._connections: list[http.client.HTTPSConnection] = []
        self._writers = ThreadPoolExecutor(WRITERS)

    def close(self) -> None:
        self._writers.shutdown()
        for connection in self._connections:
            connection.close()

    def call(self, method: str, path: str, body: Object | None = None) -> tuple[int, bytes]:
        connection: http.client.HTTPSConnection | None = getattr(self._here, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=60, context=self._tls)
            self._here.connection = connection
            self._connections.append(connection)
        elif time.monotonic() > self._here.used + IDLE_S:
            connection.close()  # the server may have closed it, too; the next request opens it again
        self._here.used = time.monotonic()
        connection.request(method, path, json.dumps(body) if body is not None else None, self._headers)
        reply = connection.getresponse()
        return reply.status, reply.read()

    def without_events(self) -> None:
        """The scheduler may write none: they would be a fifth of all writes."""
        path = CLUSTER_ROLE.path(name="system:kube-scheduler")
        role = json.loads(self.call("GET", path)[1])
        role["rules"] = [rule for rule in role["rules"] if "events" not in rule.get("resources", ())]
        status, said = self.call("PUT", path, role)
        assert status == 200, said[:500]

    def create(self, resource: Resource, objects: Iterable[Object]) -> list[Object]:
        """Those that were taken."""
        wanted = list(objects)

        def write(obj: Object) -> int:
            status, said = self.call("POST", resource.path(obj["metadata"].get("namespace", "")), obj)
            assert status in (201, 422), f"{status}: {said[:500]!r}"
            return status

        statuses = self._writers.map(write, wanted)
        return [obj for obj, status in zip(wanted, statuses, strict=True) if status == 201]

    def listed(self, resource: Resource, query: str = "") -> bytes:
        status, body = self.call("GET", f"{resource.path()}?{query}")
        assert status == 200, body[:500]
        return body

    def places(self, round_name: str, expected: int) -> dict[ObjectKey, str]:
        """Of every pod of a round: its node; empty: none would take it."""
        give_up_at = time.monotonic() + VERDICT_BOUND_S
        query = f"resourceVersion=0&labelSelector={quote(f'{ROUND}={round_name}')}"
        while True:
            seen = _PODS.decode(self.listed(POD, query)).items
            selected: dict[ObjectKey, str] = {}
            if any(pod.spec.volumes for pod in seen):
                every = _CLAIMS.decode(self.listed(PERSISTENT_VOLUME_CLAIM, "resourceVersion=0")).items
                selected = {claim.metadata.key: claim.metadata.annotations.get(SELECTED_NODE, "") for claim in every}
            places = {pod.metadata.key: _place(pod, selected) for pod in seen}
            if len(places) >= expected and None not in places.values():
                return {key: place for key, place in places.items() if place is not None}
            assert time.monotonic() < give_up_at, f"pods of {round_name} without a verdict: {places}"
            time.sleep(POLL_S + expected * POLL_PER_POD_S)

    def forget_unplaced(self, round_name: str) -> None:
        """Else they would be tried again in the middle of the next round."""
        query = f"labelSelector={quote(f'{ROUND}={round_name}')}&fieldSelector={quote('spec.nodeName=')}"
        for namespace in NAMESPACES:
            options = {"gracePeriodSeconds": 0}
            status, said = self.call("DELETE", f"{POD.path(namespace)}?{query}", options)
            assert status == 200, said[:500]


def _key(obj: Object) -> ObjectKey:
    return ObjectKey(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


class _Meta(msgspec.Struct):
    name: str
    namespace: str = ""
    annotations: dict[str, str] = {}

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


class _ClaimName(msgspec.Struct, rename="camel"):
    claim_name: str


class _UsedVolume(msgspec.Struct, rename="camel"):
    persistent_volume_claim: _ClaimName


class _PlacedSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    volumes: list[_UsedVolume] = []


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str = ""


class _Conditions(msgspec.Struct):
    conditions: list[_Condition] = []


class _PlacedPod(msgspec.Struct):
    metadata: _Meta
    spec: _PlacedSpec
    status: _Conditions


class _SeenPods(msgspec.Struct):
    items: list[_PlacedPod]


class _SeenClaim(msgspec.Struct):
    metadata: _Meta


class _SeenClaims(msgspec.Struct):
    items: list[_SeenClaim]


_PODS: msgspec.json.Decoder[_SeenPods] = msgspec.json.Decoder(_SeenPods)
_CLAIMS: msgspec.json.Decoder[_SeenClaims] = msgspec.json.Decoder(_SeenClaims)


def _place(pod: _PlacedPod, selected: dict[ObjectKey, str]) -> str | None:
    """None: no verdict yet. A pod whose volume is to be made first waits for it: its node stands on the claim."""
    if pod.spec.node_name:
        return pod.spec.node_name
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            assert condition.reason == "Unschedulable", condition
            return ""
    for volume in pod.spec.volumes:
        chosen = selected.get(ObjectKey(pod.metadata.namespace, volume.persistent_volume_claim.claim_name), "")
        if chosen not in ("", ANOTHER):
            return chosen
    return None


class SimulatedScheduler:
    """Ours, on the simulated API server; nothing in it acts by itself."""

    def __init__(self, world: World) -> None:
        core = world.api.core
        self.api = world.api.local_api
        self._component = ComponentApi(core, "judge")
        self._scheduler = Scheduler(core, world.loop)
        self._watched = {core.registry.of(resource).storage for resource in Scheduler.watched}
        core.hooks.append(self._told)

    def _told(self, served: Any, before: Object | None, after: Object | None) -> None:
        if served.storage in self._watched:
            self._scheduler.notify(StoreCommit(served, before, after))

    def create(self, resource: Resource, obj: Object) -> None:
        self.api.create(resource, obj)
        if resource == NODE:  # without the taint of a Node that is not ready yet
            created = self.api.get(NODE, "", obj["metadata"]["name"])
            assert created is not None
            self._component.beat(NODE, created, spec=obj["spec"])

    def verdicts(self, pod: Object, case: Case) -> dict[str, list[str]]:
        """By node of the case: what keeps the pod away; empty: nothing does. The pod is created by this."""
        created = self.api.create(POD, pod)
        there = [self.api.get(NODE, "", node["metadata"]["name"]) for node in case.nodes]
        verdicts = self._scheduler.verdicts(created, [node for node in there if node is not None])
        return {node["metadata"]["name"]: verdict.reasons for node, verdict in verdicts}

    def settle(self, pod: Object, node: str) -> None:
        """As the real one decided."""
        key = _key(pod)
        if node:
            self.api.bind(key.namespace, key.name, node)
        else:
            self.api.delete(POD, key.namespace, key.name, grace_seconds=0)


class OurPredicates:
    """What plans are made with, on records read from the real API server."""

    def __init__(self, real: RealScheduler, listed_claims: bytes) -> None:
        every: list[Node] = records(nodes(), real.listed(NODE))
        self._nodes = {node.name: node for node in every}
        self._tables: dict[str, tuple[SourceTable, int]] = {}  # by node: the table it is in, and its place there
        for at in range(0, len(every), TOGETHER):
            part = every[at : at + TOGETHER]
            table = _table(part)
            self._tables |= {node.name: (table, place) for place, node in enumerate(part)}
        self._pods: dict[ObjectKey, Pod] = {pod.key: pod for pod in records(pods(), real.listed(POD))}
        self._claims = {each.key: each for each in records(claims(), listed_claims)}
        self._volumes = {each.key.name: each for each in records(volumes(), real.listed(PERSISTENT_VOLUME))}
        self._classes = {each.key.name: each for each in records(storage_classes(), real.listed(STORAGE_CLASS))}

    def admits(self, case: Case) -> bool:
        node = self._nodes[case.nodes[0]["metadata"]["name"]]
        table, place = self._tables[node.name]
        pod = self._pods[_key(case.pods[0])]
        residents = [self._pods[_key(each)] for each in case.residents]
        return (
            bool(table.admits(pod)[place])
            and not (node.cordoned and untolerated((Taint(CORDON, "NoSchedule"),), pod.tolerations))
            and _with_pod(pod).fits_in(_room(node, residents))
            and not any(mine.collides(its) for mine in pod.host_ports for each in residents for its in each.host_ports)
            and all(self._reached(ObjectKey(pod.key.namespace, name), node) for name in pod.volume_claims)
        )

    def _reached(self, key: ObjectKey, node: Node) -> bool:
        claim = self._claims.get(key)
        if claim is None:
            return False
        if claim.volume:
            volume = self._volumes.get(claim.volume)
            return claim.bound and volume is not None and volume.admits(node.labels)
        storage_class = self._classes.get(claim.storage_class or "")
        if storage_class is None or storage_class.binding_mode != WAIT_FOR_FIRST_CONSUMER:
            return False
        if claim.selected_node:
            return claim.selected_node == node.name
        return storage_class.provisions and storage_class.admits(node.labels)


def records(projection: Projection[Any], body: bytes) -> list[Any]:
    page = projection.page(body, {})
    assert not page.unreadable
    assert not any(record.unreadable for record in page.records)
    return page.records


def _table(every: Sequence[Node]) -> SourceTable:
    keys = {key for node in every for key in node.labels}
    taints = tuple(dict.fromkeys(node.taints for node in every))
    return SourceTable(
        len(every),
        {key: label_column([node.labels.get(key) for node in every]) for key in keys},
        taints,
        np.array([taints.index(node.taints) for node in every], np.intp),
        tuple(node.name for node in every),
    )


def _with_pod(pod: Pod) -> Resources:
    return pod.requests + Resources(others=(("pods", 1),))


def _room(node: Node, residents: Sequence[Pod]) -> Resources:
    used = Resources()
    for pod in residents:
        used += _with_pod(pod)
    return Resources(
        node.allocatable.cpu_milli - used.cpu_milli,
        node.allocatable.memory_bytes - used.memory_bytes,
        tuple((name, have - used.of(name)) for name, have in node.allocatable.others),
    )


@dataclass(frozen=True)
class Disagreement:
    pod: Object
    nodes: Sequence[Object]
    verdicts: str

    def __str__(self) -> str:
        shown = [{"labels": each["metadata"]["labels"], **each["spec"], **each["status"]} for each in self.nodes]
        return f"{self.pod['metadata']} {self.pod['spec']}\n    on {shown}\n    {self.verdicts}"


def told(found: Sequence[Disagreement]) -> str:
    return f"{len(found)} disagreements\n" + "\n".join(str(each) for each in found[:10])


@pytest.fixture(scope="module")
def real(pytestconfig: pytest.Config) -> Iterator[RealScheduler]:
    with a_control_plane(pytestconfig, Wanted(scheduler=True, extra=FAST)) as plane:
        judge = RealScheduler(plane)
        judge.create(NAMESPACE, [{"metadata": {"name": name, "labels": NAMESPACES[name]}} for name in NAMESPACES])
        judge.create(STORAGE_CLASS, CLASSES)
        judge.without_events()
        yield judge
        judge.close()


@pytest.fixture
def simulated() -> Iterator[SimulatedScheduler]:
    with World("judge") as world:
        ours = SimulatedScheduler(world)
        for name, labels in NAMESPACES.items():
            ours.api.create(NAMESPACE, {"metadata": {"name": name, "labels": labels}})
        for each in CLASSES:
            ours.api.create(STORAGE_CLASS, each)
        yield ours


KINDS: tuple[tuple[Resource, Callable[[Case], list[Object]]], ...] = (
    (NODE, lambda case: case.nodes),
    (PERSISTENT_VOLUME, lambda case: case.volumes),
    (PERSISTENT_VOLUME_CLAIM, lambda case: case.claims),
    (POD, lambda case: case.residents),
)


def build(cases: Sequence[Case], real: RealScheduler, simulated: SimulatedScheduler) -> list[Case]:
    """Everything but the pods to place, in both. Answers with the cases that the API server takes as they are."""
    taken = list(cases)
    for resource, part in KINDS:
        kept = {_key(obj) for obj in real.create(resource, (obj for case in taken for obj in part(case)))}
        taken = [case for case in taken if all(_key(obj) in kept for obj in part(case))]
    for case in taken:
        for resource, part in KINDS:
            for obj in part(case):
                simulated.create(resource, obj)
    return taken


def in_round(pod: Object, name: str) -> Object:
    meta = pod["metadata"]
    return {**pod, "metadata": {**meta, "labels": {**meta["labels"], ROUND: name}}}


def in_parts(cases: Iterable[Case], size: int) -> Iterator[tuple[int, list[Case]]]:
    """Numbered. The scheduler looks at every node for every pod: a thousand at once is enough."""
    every = list(cases)
    return ((at, every[at : at + size]) for at in range(0, len(every), size))


def test_clusters_of_pods_that_look_at_each_other(real: RealScheduler, simulated: SimulatedScheduler):
    """Spread, affinity and anti-affinity, pod by pod: where the real one goes, ours would let it go."""
    found: list[Disagreement] = []
    places: list[str] = []
    for number, cases in in_parts(clusters(SEED, CLUSTERS), CLUSTERS_AT_ONCE):
        taken = build(cases, real, simulated)
        for at in range(max(len(case.pods) for case in taken)):
            name = f"{number}-{at}"
            waiting = [(case, case.pods[at]) for case in taken if at < len(case.pods)]
            created = {_key(pod) for pod in real.create(POD, (in_round(pod, name) for _, pod in waiting))}
            seen = real.places(name, len(created))
            for case, pod in waiting:
                if _key(pod) not in created:
                    continue
                place, verdicts = seen[_key(pod)], simulated.verdicts(pod, case)
                if place not in ({node for node, reasons in verdicts.items() if not reasons} or {""}):
                    said = f"kube-scheduler {place or 'nowhere'}, the simulated scheduler {verdicts}"
                    found.append(Disagreement(pod, case.nodes, said))
                simulated.settle(pod, place)
                places.append(place)
            real.forget_unplaced(name)

    assert not found, told(found)
    assert len(places) >= JUDGED * CLUSTERS * FEWEST_PODS
    assert_hard_enough(places)


def test_pairs_of_a_pod_and_a_node(real: RealScheduler, simulated: SimulatedScheduler):
    """Node affinity, selectors, taints, resources, ports and volumes: three verdicts, one answer."""
    found: list[Disagreement] = []
    places: list[str] = []
    for number, cases in in_parts(pairs(SEED, PAIRS), PAIRS_AT_ONCE):
        name = f"pairs-{number}"
        taken = build(cases, real, simulated)
        listed_claims = real.listed(PERSISTENT_VOLUME_CLAIM)  # afterwards the scheduler's verdict stands on them
        created = {_key(pod) for pod in real.create(POD, (in_round(case.pods[0], name) for case in taken))}
        seen = real.places(name, len(created))
        predicates = OurPredicates(real, listed_claims)
        for case in taken:
            pod = case.pods[0]
            if _key(pod) not in created:
                continue
            place, ours = seen[_key(pod)], predicates.admits(case)
            (reasons,) = simulated.verdicts(pod, case).values()
            if not bool(place) == ours == (not reasons):
                said = f"kube-scheduler {bool(place)}, our predicates {ours}, the simulated scheduler {reasons or True}"
                there = [each["spec"] for each in case.residents]
                found.append(Disagreement(pod, case.nodes, f"{said}; on it: {there}"))
            places.append(place)

    assert not found, told(found)
    assert len(places) >= JUDGED * PAIRS
    assert_hard_enough(places)


def assert_hard_enough(places: Sequence[str]) -> None:
    placed = sum(map(bool, places))
    assert 0.2 * len(places) < placed < 0.8 * len(places), f"{placed} of {len(places)} were placed: too easy"
