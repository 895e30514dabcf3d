"""The real kube-scheduler judges ours: the planner, and the simulated scheduler.

`TGP_PAIRS=5000 TGP_CLUSTERS=1000 make test T=tests/controlplane/test_scheduler_judge.py` tries more.
"""

import http.client
import json
import ssl
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import local
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

import msgspec
import pytest

from tests.amounts import amount
from tests.controlplane.judged_cases import cases as judged_cases
from tests.controlplane.judged_cases import table as judged_table
from tests.controlplane.placement_cases import ANOTHER, CLASSES, HOSTNAME, NAMESPACES, Case, Object, clusters, pairs
from tgp.adapters.kube.records.kinds import claims, namespaces, nodes, pods, storage_classes, volumes
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
from tgp.core.model.price_book import PriceBook
from tgp.core.model.record import uid_text
from tgp.core.pools.capacity import node_capacity
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.solve import THOROUGH, Effort
from tgp.core.pools.planner.world import PlanInput
from tgp.sim.cluster.component_api import ComponentApi
from tgp.sim.cluster.controller import StoreCommit
from tgp.sim.cluster.scheduler import Scheduler
from tgp.sim.world import World
from tools.controlplane.fixtures import a_control_plane
from tools.controlplane.plane import APISERVER, SCHEDULER, ControlPlane, Wanted
from tools.steps import ROOT

PAIRS = amount(1000, 5000, "TGP_PAIRS")
CLUSTERS = amount(200, 1000, "TGP_CLUSTERS")
PLANNED = CLUSTERS // 2  # of which all pods are in one plan
SEED = "1"
PAIRS_AT_ONCE, CLUSTERS_AT_ONCE, FEWEST_PODS = 1000, 200, 3
ROUND = "round"
VERDICT_BOUND_S = 300.0
IDLE_S = 30.0  # the API server closes connections that are idle for longer than 90 s
POLL_S = 0.2
POLL_PER_POD_S = 0.002  # a list of many costs more, and is complete later
WRITERS = 4
TOGETHER = 50  # pairs in one plan
NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
AT_ONCE = Effort(rounds=0)  # of a plan for one pod: there is nothing to improve
JUDGED = 0.9  # of the cases at least: the rest the API server refuses
SELECTED_NODE = "volume.kubernetes.io/selected-node"
# Node lifecycle does not run: its taint on new Nodes would stay. The scheduler's own limit is 50 calls a second.
FAST = {
    APISERVER: ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition", "--max-requests-inflight=0"),
    SCHEDULER: ("--kube-api-qps=2000", "--kube-api-burst=4000"),
}


Running: TypeAlias = Mapping[str, Sequence[Pod]]  # by Node


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

    def as_created(self, manifests: Iterable[Object]) -> list[Pod]:
        """Pods as the API server would keep them; those that it would refuse are left out."""

        def ask(obj: Object) -> Object | None:
            status, body = self.call("POST", f"{POD.path(obj['metadata']['namespace'])}?dryRun=All", obj)
            return json.loads(body) if status == 201 else None

        kept = [obj for obj in self._writers.map(ask, manifests) if obj is not None]
        for obj in kept:
            obj["metadata"]["resourceVersion"] = "1"
        return records(pods(), json.dumps({"metadata": {"resourceVersion": "1"}, "items": kept}).encode())

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

    def pods_of(self, round_name: str) -> dict[ObjectKey, Pod]:
        found = records(pods(), self.listed(POD, f"labelSelector={quote(f'{ROUND}={round_name}')}"))
        return {each.key: each for each in found}

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


class OurPlanner:
    """The planner itself, on records read from the real API server. No pool: pods go to Nodes, or nowhere."""

    def __init__(self, real: RealScheduler) -> None:
        self._nodes: dict[str, Node] = {each.name: each for each in records(nodes(), real.listed(NODE))}
        self._namespaces = {each.key.name: each.labels for each in records(namespaces(), real.listed(NAMESPACE))}
        listed = records(claims(), real.listed(PERSISTENT_VOLUME_CLAIM))  # later the scheduler writes on them
        self._claims = {each.key: each for each in listed}
        self._volumes = {each.key.name: each for each in records(volumes(), real.listed(PERSISTENT_VOLUME))}
        self._classes = {each.key.name: each for each in records(storage_classes(), real.listed(STORAGE_CLASS))}

    def placed(
        self,
        waiting: Iterable[Pod],
        names: Iterable[str],
        there: Running,
        *,
        only: str = "",
        effort: Effort = AT_ONCE,
    ) -> dict[ObjectKey, str]:
        """Of pods that get room on one of these Nodes, the Node. `there`: what runs on them; `only`: room elsewhere
        does not count.
        """
        pods = tuple(waiting)
        uids = frozenset(uid_text(pod.uid) for pod in pods)
        rooms = (
            node_capacity(self._nodes[name], there.get(name, ()), NOW, uids if only and name != only else frozenset())[
                0
            ]
            for name in sorted(names)
        )
        world = PlanInput(
            NOW,
            pods,
            (),
            PriceBook(),
            capacity=tuple(rooms),
            namespaces=self._namespaces,
            claims=self._claims,
            volumes=self._volumes,
            storage_classes=self._classes,
        )
        placed = plan(world, effort).placed
        return {pod.key: placed[uid_text(pod.uid)] for pod in pods if uid_text(pod.uid) in placed}


def records(projection: Projection[Any], body: bytes) -> list[Any]:
    page = projection.page(body, {})
    assert not page.unreadable
    assert not any(record.unreadable for record in page.records)
    return page.records


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


def node_names(case: Case) -> list[str]:
    return [node["metadata"]["name"] for node in case.nodes]


def objection(planner: OurPlanner, pod: Pod, case: Case, there: Running, seen: tuple[str, Mapping[str, Any]]) -> str:
    """What the planner says otherwise than the scheduler did of one pod; empty: nothing."""
    place, verdicts = seen
    chosen = planner.placed((pod,), node_names(case), there).get(pod.key, "")
    if chosen != place and (not place or verdicts[chosen or place]):
        return f"the planner would place it on {chosen or 'no Node'}, kube-scheduler on {place or 'none'}"
    by_host = any(each.hard and each.topology_key == HOSTNAME for each in pod.spreads)
    if chosen != place and not by_host and not planner.placed((pod,), node_names(case), there, only=place):
        return f"the planner has no room for it on {place}, where kube-scheduler placed it"
    return ""


def test_clusters_of_pods_that_look_at_each_other(real: RealScheduler, simulated: SimulatedScheduler):
    """Spread, affinity and anti-affinity, pod by pod: where the real one goes, ours would let it go.

    Of Nodes the planner chooses one that the scheduler would take. Where it does not know the one that the scheduler
    took, that is a hard spread by hostname, which it keeps in a stricter form.
    """
    found: list[Disagreement] = []
    places: list[str] = []
    for number, cases in in_parts(clusters(SEED, CLUSTERS), CLUSTERS_AT_ONCE):
        taken = build(cases, real, simulated)
        planner, there = OurPlanner(real), defaultdict[str, list[Pod]](list)
        for at in range(max(len(case.pods) for case in taken)):
            name = f"{number}-{at}"
            waiting = [(case, case.pods[at]) for case in taken if at < len(case.pods)]
            created = {_key(pod) for pod in real.create(POD, (in_round(pod, name) for _, pod in waiting))}
            seen, read = real.places(name, len(created)), real.pods_of(name)
            for case, pod in waiting:
                if _key(pod) not in created:
                    continue
                place, verdicts = seen[_key(pod)], simulated.verdicts(pod, case)
                if place not in ({node for node, reasons in verdicts.items() if not reasons} or {""}):
                    said = f"kube-scheduler {place or 'nowhere'}, the simulated scheduler {verdicts}"
                    found.append(Disagreement(pod, case.nodes, said))
                if said := objection(planner, read[_key(pod)], case, there, (place, verdicts)):
                    found.append(Disagreement(pod, case.nodes, f"{said}; beside {there_on(case, there)}"))
                simulated.settle(pod, place)
                places.append(place)
                there[place].append(read[_key(pod)])
            real.forget_unplaced(name)

    assert not found, told(found)
    assert len(places) >= JUDGED * CLUSTERS * FEWEST_PODS
    assert_hard_enough(places)


def test_whole_clusters_go_where_they_are_planned(real: RealScheduler, simulated: SimulatedScheduler):
    """All pods of a cluster in one plan; then the real scheduler, one by one, on the Node that the plan has for each.

    A pod that is pinned by a resource of that Node is judged there and nowhere else; no other rule looks at resources.
    """
    found: list[Disagreement] = []
    left_out = total = 0
    cases = [pinnable(case) for case in clusters(f"{SEED} planned", PLANNED, "planned-")]
    taken = build(cases, real, simulated)
    planner, plans = OurPlanner(real), []
    read = {pod.key: pod for pod in real.as_created(pod for case in taken for pod in case.pods)}
    for case in taken:
        manifests = {_key(pod): pod for pod in case.pods if _key(pod) in read}
        placed = planner.placed((read[key] for key in manifests), node_names(case), {}, effort=THOROUGH)
        left_out, total = left_out + len(manifests) - len(placed), total + len(manifests)
        plans.append((case, {key: pinned(manifests[key], node) for key, node in placed.items()}, placed))
    for at in range(max(len(left) for _, left, _ in plans)):
        name = f"planned-{at}"
        waiting = [
            (case, left.pop(next_of(left, placed, case, simulated)), placed) for case, left, placed in plans if left
        ]
        created = {_key(pod) for pod in real.create(POD, (in_round(pod, name) for _, pod, _ in waiting))}
        seen = real.places(name, len(created))
        for case, pod, placed in waiting:
            place = seen[_key(pod)]
            if place != placed[_key(pod)]:
                found.append(Disagreement(pod, case.nodes, f"planned: {placed}; kube-scheduler refuses this pod there"))
            simulated.verdicts(pod, case)
            simulated.settle(pod, place)
        real.forget_unplaced(name)

    assert not found, told(found)
    assert 0.2 * total < left_out < 0.8 * total, f"{left_out} of {total} are left out"


def pinnable(case: Case) -> Case:
    """Each Node with a resource of its own."""
    for node in case.nodes:
        for amounts in (node["status"]["capacity"], node["status"]["allocatable"]):
            amounts[pin(node["metadata"]["name"])] = "100"
    return case


def pin(node: str) -> str:
    return f"judge.example.com/{node}"


def pinned(pod: Object, node: str) -> Object:
    first, *others = pod["spec"]["containers"]
    resources = first.get("resources", {})
    asked = {each: {**resources.get(each, {}), pin(node): "1"} for each in ("requests", "limits")}
    return {**pod, "spec": {**pod["spec"], "containers": [{**first, "resources": asked}, *others]}}


def next_of(
    left: Mapping[ObjectKey, Object], placed: Mapping[ObjectKey, str], case: Case, simulated: SimulatedScheduler
) -> ObjectKey:
    """A pod that can be bound now, if there is one: those that look for others wait for them."""
    for key, pod in left.items():
        reasons = simulated.verdicts(pod, case)[placed[key]]
        simulated.settle(pod, "")
        if not reasons:
            return key
    return next(iter(left))


def there_on(case: Case, there: Running) -> dict[str, list[str]]:
    return {name: [str(pod.key) for pod in there.get(name, ())] for name in node_names(case)}


def test_pairs_of_a_pod_and_a_node(real: RealScheduler, simulated: SimulatedScheduler):
    """Node affinity, selectors, taints, resources, ports and volumes: three verdicts, one answer."""
    found: list[Disagreement] = []
    places: list[str] = []
    for number, cases in in_parts(pairs(SEED, PAIRS), PAIRS_AT_ONCE):
        name = f"pairs-{number}"
        taken = build(cases, real, simulated)
        planner = OurPlanner(real)  # claims as they are: afterwards the scheduler's verdict stands on them
        created = {_key(pod) for pod in real.create(POD, (in_round(case.pods[0], name) for case in taken))}
        seen = real.places(name, len(created))
        placed = placed_pairs(planner, [case for case in taken if _key(case.pods[0]) in created], real)
        for case in taken:
            pod = case.pods[0]
            if _key(pod) not in created:
                continue
            place, ours = seen[_key(pod)], placed.get(_key(pod), "")
            (reasons,) = simulated.verdicts(pod, case).values()
            if not bool(place) == bool(ours) == (not reasons):
                said = f"kube-scheduler {bool(place)}, the planner {bool(ours)}, the simulated {reasons or True}"
                there = [each["spec"] for each in case.residents]
                found.append(Disagreement(pod, case.nodes, f"{said}; on it: {there}"))
            places.append(place)

    assert not found, told(found)
    assert len(places) >= JUDGED * PAIRS
    assert_hard_enough(places)


def placed_pairs(planner: OurPlanner, cases: Sequence[Case], real: RealScheduler) -> dict[ObjectKey, str]:
    """Some pairs in each plan: pods select the Node of their own."""
    read: dict[ObjectKey, Pod] = {pod.key: pod for pod in records(pods(), real.listed(POD))}
    placed: dict[ObjectKey, str] = {}
    for at in range(0, len(cases), TOGETHER):
        part = cases[at : at + TOGETHER]
        there = {case.nodes[0]["metadata"]["name"]: [read[_key(each)] for each in case.residents] for case in part}
        placed |= planner.placed([read[_key(case.pods[0])] for case in part], there, there)
    return placed


def assert_hard_enough(places: Sequence[str]) -> None:
    placed = sum(map(bool, places))
    assert 0.2 * len(places) < placed < 0.8 * len(places), f"{placed} of {len(places)} were placed: too easy"


def test_each_judged_case_is_decided_as_the_page_about_the_planner_says(
    real: RealScheduler, simulated: SimulatedScheduler
):
    """One rule in each row of the table: kube-scheduler, the planner and the simulated scheduler say the same."""
    rows = list(judged_cases())
    assert len(build([case for _, case in rows], real, simulated)) == len(rows), "the API server takes every row"
    planner = OurPlanner(real)
    created = real.create(POD, (in_round(case.pods[0], "judged") for _, case in rows))
    assert len(created) == len(rows)
    seen = real.places("judged", len(created))
    placed = placed_pairs(planner, [case for _, case in rows], real)

    for row, case in rows:
        key = _key(case.pods[0])
        (reasons,) = simulated.verdicts(case.pods[0], case).values()
        verdicts = {"kube-scheduler": bool(seen[key]), "planner": bool(placed.get(key)), "simulated": not reasons}
        assert verdicts == dict.fromkeys(verdicts, row.goes), f"{row}: {reasons}"


def test_the_page_about_the_planner_has_every_judged_case():
    assert "\n".join(judged_table()) in (ROOT / "docs" / "planner.md").read_text(encoding="utf-8")
