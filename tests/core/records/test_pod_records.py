"""From what the API server sends to the record we decide on: nothing that matters is lost, nothing else is kept."""

import contextlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tgp.adapters.kube.interning import FEW
from tgp.adapters.kube.records.kinds import pods
from tgp.adapters.kube.records.pod import PodReader
from tgp.adapters.kube.records.projection import ADDED, BOOKMARK, DELETED, ERROR, Projection
from tgp.api.resource import POD
from tgp.core.model.labels import NOTHING_AT_ALL, LabelRequirement, Selector, selector
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import (
    Affinity,
    HostPort,
    NodeTerm,
    PodTerm,
    PreferredNodes,
    PreferredPods,
    SpreadConstraint,
)
from tgp.core.model.pod import OwnerRef, Pod
from tgp.core.model.record import uid_text
from tgp.core.model.resources import Resources
from tgp.core.model.taints import Toleration
from tgp.ports.http import UnreadableReply

UID = "0f8fad5b-d9cb-469f-a165-70867728950e"
T0, T1, T2 = (datetime(2026, 1, 1, 10, minute, tzinfo=UTC) for minute in (0, 1, 2))


def at(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def a_manifest(meta=None, spec=None, status=None) -> dict:
    return {
        "kind": "Pod",
        "metadata": {"name": "train-7", "namespace": "team", "uid": UID, "resourceVersion": "42", **(meta or {})},
        "spec": {"containers": [], **(spec or {})},
        "status": {"phase": "Pending", **(status or {})},
    }


def read(meta=None, spec=None, status=None) -> Pod:
    line = json.dumps({"type": "ADDED", "object": a_manifest(meta, spec, status)}).encode()
    verb, record = pods().line(line, {})
    assert verb == ADDED
    assert isinstance(record, Pod)
    return record


def a_container(requests=None, limits=None, **more) -> dict:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def test_a_bare_pod_reads_as_its_defaults():
    pod = read()

    assert pod.key == ObjectKey("team", "train-7")
    assert uid_text(pod.uid) == UID
    assert pod.resource_version == 42
    assert (pod.node, pod.phase, pod.scheduler, pod.grace_seconds) == ("", "Pending", "default-scheduler", 30)
    assert (pod.restart_policy, pod.runs_to_completion) == ("Always", False)
    assert not pod.deleting
    assert not pod.unschedulable
    assert pod.unreadable == ""


def test_what_a_pod_wants_and_whose_it_is():
    pod = read(
        meta={
            "labels": {"team": "x"},
            "annotations": {"tgp.io/do-not-disrupt": "true", "checksum": "0" * 64},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}],
            "finalizers": ["tgp.io/counted"],
            "deletionTimestamp": at(T1),
            "creationTimestamp": at(T0),
        },
        spec={
            "nodeName": "gpu-1",
            "priority": 1000,
            "schedulerName": "volcano",
            "terminationGracePeriodSeconds": 0,
            "restartPolicy": "OnFailure",
            "nodeSelector": {"tgp.io/gpu-type": "A100"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "schedulingGates": [{"name": "tgp.io/budget"}],
            "resourceClaims": [{"name": "gpu"}],
            "topologySpreadConstraints": [
                {
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "maxSkew": 2,
                    "minDomains": 3,
                    "labelSelector": {"matchLabels": {"app": "x"}},
                    "matchLabelKeys": ["pod-template-hash"],
                    "nodeAffinityPolicy": "Ignore",
                    "nodeTaintsPolicy": "Honor",
                },
                {"topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 1},
            ],
        },
    )

    assert pod.labels == {"team": "x"}
    assert pod.annotations == {"tgp.io/do-not-disrupt": "true"}, "only what is read"
    assert pod.controller == OwnerRef(kind="Job", name="j", uid="u", api_version="batch/v1", controller=True)
    assert pod.finalizers == ("tgp.io/counted",)
    assert (pod.created_at, pod.deletion_requested_at) == (T0, T1)
    assert (pod.node, pod.priority, pod.scheduler, pod.grace_seconds) == ("gpu-1", 1000, "volcano", 0)
    assert (pod.restart_policy, pod.runs_to_completion) == ("OnFailure", True)
    assert pod.node_selector == {"tgp.io/gpu-type": "A100"}
    assert pod.tolerations == (Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule"),)
    assert pod.gates == ("tgp.io/budget",)
    assert pod.spreads == (
        SpreadConstraint("zone", selector({"app": "x"}), 2, 3, True, ("pod-template-hash",), False, True),
        SpreadConstraint("rack", NOTHING_AT_ALL, hard=False),
    )
    assert pod.claims_devices


def test_ports_of_the_host_are_kept_and_others_are_not():
    pod = read(
        spec={
            "containers": [
                {"ports": [{"containerPort": 80}, {"containerPort": 9, "hostPort": 9, "protocol": "UDP"}]},
                {"ports": [{"containerPort": 8, "hostPort": 8, "hostIP": "0.0.0.0"}]},  # noqa: S104 - read, not bound
                {"ports": [{"containerPort": 6, "hostPort": 6, "hostIP": "::"}]},  # to the scheduler not every address
            ],
            "initContainers": [
                {"restartPolicy": "Always", "ports": [{"containerPort": 7, "hostPort": 7, "hostIP": "127.0.0.1"}]},
                {"ports": [{"containerPort": 6, "hostPort": 6}]},
            ],
        }
    )

    assert pod.host_ports == (
        HostPort(6, "TCP", "::"),
        HostPort(7, "TCP", "127.0.0.1"),
        HostPort(8),
        HostPort(9, "UDP"),
    )
    assert HostPort(7, "TCP", "127.0.0.1").collides(HostPort(7))
    assert not HostPort(7, "TCP", "127.0.0.1").collides(HostPort(7, "TCP", "10.0.0.1"))
    assert not HostPort(7, "UDP").collides(HostPort(7))


def test_claims_are_kept_by_name():
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "models"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "kube-api-access-abcde", "projected": {"sources": []}},
    ]
    pod = read({"name": "train"}, {"volumes": volumes})

    assert pod.volume_claims == ("models", "train-scratch")


def test_affinity_is_kept_with_its_preferences():
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    pod = read(
        spec={
            "affinity": {
                "nodeAffinity": {
                    required: {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                        ]
                    },
                    preferred: [
                        {"weight": 7, "preference": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}
                    ],
                },
                "podAntiAffinity": {
                    required: [{"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}}}],
                    preferred: [
                        {
                            "weight": 9,
                            "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}},
                        }
                    ],
                },
            }
        }
    )

    apart = PodTerm("host", Selector((LabelRequirement("app", "In", ("x",)),)))
    terms = (
        NodeTerm((LabelRequirement("zone", "In", ("a",)),)),
        NodeTerm((), (LabelRequirement("metadata.name", "In", ("n1",)),)),
    )
    wished = (PreferredNodes(7, NodeTerm((LabelRequirement("gpu", "Exists"),))),)
    assert pod.affinity == Affinity(terms, (), (apart,), wished, (PreferredPods(-9, PodTerm("zone", apart.selector)),))
    assert pod.affinity.admits_node("n2", {"zone": "a"})
    assert pod.affinity.admits_node("n1", {})
    assert not pod.affinity.admits_node("n2", {"zone": "b"})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {
                "containers": [
                    a_container({"cpu": "500m", "memory": "1Gi"}),
                    a_container({"cpu": "1", "nvidia.com/gpu": 2}),
                ]
            },
            Resources(1500, 1 << 30, (("nvidia.com/gpu", 2),)),
            id="containers add up",
        ),
        pytest.param(
            {"containers": [a_container({"cpu": "1"}, {"cpu": "4", "nvidia.com/gpu": "1"})]},
            Resources(1000, 0, (("nvidia.com/gpu", 1),)),
            id="a limit stands in for a request that is missing",
        ),
        pytest.param(
            {
                "containers": [a_container({"cpu": "1"})],
                "initContainers": [a_container({"cpu": "3"}), a_container({"memory": "5Gi"})],
            },
            Resources(3000, 5 << 30),
            id="init containers run one after another",
        ),
        pytest.param(
            {
                "containers": [a_container({"cpu": "1"})],
                "initContainers": [
                    a_container({"cpu": "2"}),
                    a_container({"cpu": "1"}, restartPolicy="Always"),
                    a_container({"cpu": "3"}),
                ],
            },
            Resources(4000),
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            {
                "containers": [a_container({"cpu": "1"})],
                "initContainers": [a_container({"cpu": "2"}, restartPolicy="Always")],
            },
            Resources(3000),
            id="a sidecar goes on beside the containers",
        ),
        pytest.param(
            {"containers": [a_container({"cpu": "1"})], "overhead": {"cpu": "250m", "memory": "100Mi"}},
            Resources(1250, 100 << 20),
            id="overhead comes on top",
        ),
        pytest.param(
            {
                "containers": [a_container({"cpu": "1", "nvidia.com/gpu": "1"})],
                "resources": {"requests": {"cpu": "8"}},
            },
            Resources(8000, 0, (("nvidia.com/gpu", 1),)),
            id="a request of the pod as a whole replaces the sum",
        ),
        pytest.param({"containers": [{"name": "c"}]}, Resources(), id="nothing asked, nothing taken"),
        pytest.param({"containers": [{"name": "c", "resources": None}]}, Resources(), id="null is nothing"),
    ],
)
def test_requests_follow_the_schedulers_rule(spec, expected):
    assert read(spec=spec).requests == expected


@pytest.mark.parametrize(
    ("told", "cpu"),
    [
        ({}, 500),
        ({"allocatedResources": {"cpu": "4"}}, 4000),
        ({"allocatedResources": {"cpu": "100m"}, "resources": {"requests": {"cpu": "2"}}}, 2000),
        ({"allocatedResources": None, "resources": None}, 500),
    ],
)
@pytest.mark.parametrize("init", [False, True])
def test_until_a_resize_is_done_the_larger_amount_is_held(told, cpu, init):
    """A request that is made smaller, and that the kubelet has not followed, frees nothing."""
    sidecar = (
        {"initContainers": [{**a_container({"cpu": "1"}), "name": "side", "restartPolicy": "Always"}]} if init else {}
    )
    spec = {"containers": [a_container({"cpu": "500m"})], "nodeName": "node-1", **sidecar}
    waits = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
    status = {"phase": "Running", "containerStatuses": [{"name": "c", **told}]}
    assert read(spec=spec, status={**status, "conditions": waits}).requests.milli("cpu") == cpu + 1000 * init
    assert read(spec=spec, status=status).requests.milli("cpu") == 500 + 1000 * init, "no resize is under way"


@pytest.mark.parametrize(("created", "placed", "told"), [(T0, T2, T2), (T0, T1, None), (None, T2, None)])
def test_a_pod_that_waited_says_when_it_got_its_node(created, placed, told):
    meta = {} if created is None else {"creationTimestamp": at(created)}
    row = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(placed)}
    assert read(meta, {"nodeName": "node-1"}, {"conditions": [row]}).placed_at == told
    assert read(meta, {"nodeName": "node-1"}, {"conditions": None}).placed_at is None


def a_state(**state) -> dict:
    return {"name": "c", "state": state}


def test_an_unschedulable_pod_says_since_when_and_why():
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": at(T1)}
    pod = read(status={"conditions": [condition]})

    assert pod.unschedulable
    assert (pod.unplaced_since, pod.unplaced_reason) == (T1, "Unschedulable")
    gated = read(status={"conditions": [{**condition, "reason": "SchedulingGated"}]})
    assert not gated.unschedulable
    assert gated.unplaced_reason == "SchedulingGated"


def test_a_running_pod_began_with_its_first_container_also_after_a_restart():
    restarted = {"state": {"running": {"startedAt": at(T2)}}, "lastState": {"terminated": {"startedAt": at(T1)}}}
    pod = read(status={"phase": "Running", "startTime": at(T0), "containerStatuses": [restarted]})

    assert (pod.accepted_at, pod.started_at, pod.ended_at) == (T0, T1, None)


def test_a_finished_pod_ended_with_its_last_container():
    ends = [a_state(terminated={"startedAt": at(T0), "finishedAt": at(end)}) for end in (T2, T1)]
    pod = read(status={"phase": "Succeeded", "containerStatuses": ends})

    assert pod.finished
    assert pod.ended_at == T2


def test_a_pod_evicted_before_it_told_of_its_containers_ended_when_it_stopped_being_ready():
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": at(T1)}
    pod = read(spec={"nodeName": "n"}, status={"phase": "Failed", "reason": "Evicted", "conditions": [ready]})

    assert pod.ended_at == T1


def test_one_container_that_ended_does_not_end_the_pod():
    ended = a_state(terminated={"startedAt": at(T0), "finishedAt": at(T1)})
    pod = read(status={"phase": "Running", "containerStatuses": [ended, a_state(running={"startedAt": at(T0)})]})

    assert pod.ended_at is None


@pytest.mark.parametrize(
    "broken",
    [
        {"spec": {"nodeName": 7}},
        {"spec": {"containers": "none"}},
        {"spec": {"containers": [a_container({"cpu": "lots"})]}},
        {"spec": {"tolerations": {"not": "a list"}}},
        {"spec": {"affinity": []}},
        {"status": {"startTime": "yesterday"}},
        {"status": "odd"},
        {"meta": {"creationTimestamp": "long ago"}},
        {"meta": {"labels": ["a"]}},
        {"meta": {"ownerReferences": [7]}},
        {"meta": {"finalizers": {"a": 1}}},
    ],
    ids=str,
)
def test_a_malformed_field_never_loses_the_object(broken):
    manifest = a_manifest(broken.get("meta"), broken.get("spec"))
    if "status" in broken:
        manifest["status"] = broken["status"]
    for verb in ("ADDED", "DELETED"):
        said, record = pods().line(json.dumps({"type": verb, "object": manifest}).encode(), {})

        assert said == verb
        assert record.key == ObjectKey("team", "train-7")
        assert (uid_text(record.uid), record.resource_version) == (UID, 42)
        assert record.unreadable
    page = {"metadata": {"resourceVersion": "50"}, "items": [a_manifest({"name": "fine"}), manifest]}
    read_page = pods().page(json.dumps(page).encode(), {})
    assert [record.key.name for record in read_page.records] == ["fine", "train-7"]
    assert [bool(record.unreadable) for record in read_page.records] == [False, True]


def test_unknown_fields_and_phases_are_passed_over():
    pod = read(meta={"selfLink": "/x"}, spec={"invention": {"a": 1}}, status={"phase": "Dreaming", "mood": 3})

    assert pod.unreadable == ""
    assert pod.phase == "Unknown"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{",
        b'{"type":"ADDED"}',
        b'{"type":"ADDED","object":{}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"x"}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"","resourceVersion":"1"}}}',
        b'{"type":"BOOKMARK","object":{"metadata":{}}}',
        b'{"type":"NEW","object":{"metadata":{"name":"a","resourceVersion":"1"}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"\xff","resourceVersion":"1"}}}',
    ],
)
def test_a_line_without_a_name_plate_is_unreadable_and_nothing_worse(line):
    with pytest.raises(UnreadableReply):
        pods().line(line, {})


def test_a_page_for_people_is_told_from_broken_json():
    with pytest.raises(UnreadableReply, match="not a list of pods: this is HTML, as a proxy or a login page sends"):
        pods().page(b"\n<!DOCTYPE html><title>Sign in</title>", {})


FUZZED = json.dumps(
    {
        "type": "MODIFIED",
        "object": a_manifest(
            {"labels": {"a": "b"}, "annotations": {"tgp.io/x": "y"}, "creationTimestamp": at(T0)},
            {"containers": [a_container({"cpu": "1", "memory": "2Gi"})], "tolerations": [{"operator": "Exists"}]},
            {"conditions": [{"type": "PodScheduled", "status": "False"}], "containerStatuses": [a_state(running={})]},
        ),
    }
).encode()


@settings(max_examples=400, deadline=None)
@given(
    cuts=st.lists(
        st.tuples(
            st.integers(0, len(FUZZED)),
            st.integers(0, 12),
            st.sampled_from([b"", b"\xff", b"9" * 30, b"[", b'"', b"null"]),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_no_garbled_line_raises_anything_but_unreadable(cuts):
    """What a reader does not expect it must not die of."""
    line = FUZZED
    for start, length, instead in cuts:
        line = line[:start] + instead + line[start + length :]
    with contextlib.suppress(UnreadableReply):
        pods().line(line, {})


@pytest.mark.parametrize("depth", [1_000, 200_000])
def test_a_line_nested_without_end_is_unreadable(depth):
    with pytest.raises(UnreadableReply):
        pods().line(b'{"type":"ADDED","object":' + b"[" * depth + b"]" * depth + b"}", {})


def test_bookmarks_and_errors_are_told_apart_from_objects():
    projection = pods()
    end = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}
    error = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "metadata": {}}

    assert projection.line(json.dumps({"type": "BOOKMARK", "object": end}).encode(), {}) == (BOOKMARK, (9, True))
    verb, status = projection.line(json.dumps({"type": "ERROR", "object": error}).encode(), {})
    assert (verb, status.code, status.reason) == (ERROR, 410, "Expired")
    verb, _ = projection.line(json.dumps({"type": "DELETED", "object": a_manifest()}).encode(), {})
    assert verb == DELETED


def test_replicas_share_what_they_have_in_common():
    projection = pods()
    spec = {
        "containers": [a_container({"cpu": "1"}, env=[{"name": "X", "value": "differs"}])],
        "nodeName": "n1",
        "tolerations": [{"key": "a", "operator": "Exists"}],
    }

    def replica(name: str) -> Pod:
        spec["containers"][0]["env"][0]["value"] = name
        manifest = a_manifest({"name": name, "labels": {"app": "x"}, "annotations": {"ip": name}}, spec)
        return projection.line(json.dumps({"type": "ADDED", "object": manifest}).encode(), {})[1]

    one, two = replica("one"), replica("two")

    for field in ("labels", "requests", "tolerations", "node", "annotations", "affinity"):
        assert getattr(one, field) is getattr(two, field), field
    assert one.key.namespace is two.key.namespace


def test_what_pods_that_have_gone_had_in_common_goes_too():
    """A cluster that runs a million jobs a day must not remember them all."""
    reader = PodReader()
    projection = Projection(POD, reader, pools=reader.pools)

    def job(number: int) -> Pod:
        spec = {"containers": [a_container({"memory": f"{number}Ki"})], "nodeName": f"node-{number}"}
        meta = {"name": f"job-{number}", "labels": {"job": str(number)}, "annotations": {"tgp.io/x": str(number)}}
        line = json.dumps({"type": "ADDED", "object": a_manifest(meta, spec)}).encode()
        return projection.line(line, {})[1]

    held = [job(number) for number in range(3000)]
    assert max(len(pool) for pool in reader.pools) >= 3000
    held.clear()
    for _ in range(3):
        projection.tend()

    assert max(len(pool) for pool in reader.pools) <= FEW


def test_a_changed_pod_keeps_the_key_that_the_store_holds():
    """Otherwise every change would leave a second copy of its name in memory."""
    projection = pods()
    line = json.dumps({"type": "MODIFIED", "object": a_manifest()}).encode()
    held = projection.line(line, {})[1]
    again = projection.line(line, {held.key: held})[1]

    assert again.key is held.key


def _ran(name: str, start: datetime | None, end: datetime | None = None) -> dict:
    times = {"startedAt": at(start) if start else None}
    state = {"running": times} if end is None else {"terminated": {**times, "finishedAt": at(end)}}
    return {"name": name, "state": state}


def test_each_resource_starts_with_the_first_container_that_asks_for_it():
    spec = {
        "containers": [
            a_container({"cpu": "1"}) | {"name": "log"},
            a_container(limits={"nvidia.com/gpu": "1"}) | {"name": "train"},
        ]
    }
    pod = read(spec=spec, status={"phase": "Running", "containerStatuses": [_ran("log", T0)]})
    assert (pod.started("cpu"), pod.started("nvidia.com/gpu")) == (T0, None)
    pod = read(spec=spec, status={"phase": "Running", "containerStatuses": [_ran("log", T0), _ran("train", T1)]})
    assert (pod.started("cpu"), pod.started("nvidia.com/gpu")) == (T0, T1)


def test_an_init_container_that_asks_for_devices_starts_its_pod():
    spec = {
        "initContainers": [a_container(limits={"nvidia.com/gpu": "1"}) | {"name": "warm"}],
        "containers": [a_container(limits={"nvidia.com/gpu": "1"}) | {"name": "train"}],
    }
    pod = read(spec=spec, status={"phase": "Pending", "initContainerStatuses": [_ran("warm", T0)]})
    assert pod.started("nvidia.com/gpu") == T0
    assert pod.started_at is None


def test_what_only_an_init_container_asks_for_is_held_as_long_as_the_pod_is_there():
    spec = {
        "initContainers": [a_container(limits={"nvidia.com/gpu": "1"}) | {"name": "train"}],
        "containers": [{"name": "sleep"}],
    }
    ran, runs = _ran("train", T0, T1), _ran("sleep", T1)
    pod = read(spec=spec, status={"phase": "Running", "initContainerStatuses": [ran], "containerStatuses": [runs]})
    assert (pod.requests.others, pod.started("nvidia.com/gpu")) == ((("nvidia.com/gpu", 1),), T0)
    assert not pod.finished


def test_a_container_for_debugging_changes_neither_what_a_pod_asks_for_nor_when_it_started():
    spec = {"containers": [a_container(limits={"nvidia.com/gpu": "1"})]}
    added = {"ephemeralContainers": [{"name": "debug", "image": "i", "targetContainerName": "c"}]}
    status = {"phase": "Running", "containerStatuses": [_ran("c", T1)]}
    pod = read(spec=spec, status=status)
    debugged = read(spec={**spec, **added}, status={**status, "ephemeralContainerStatuses": [_ran("debug", T0)]})
    assert (debugged.requests, debugged.started("nvidia.com/gpu")) == (pod.requests, T1)


def test_what_the_whole_pod_asks_for_starts_with_any_container():
    spec = {
        "resources": {"requests": {"cpu": "4"}},
        "containers": [{"name": "one"}, {"name": "two"}],
    }
    pod = read(spec=spec, status={"phase": "Running", "containerStatuses": [_ran("two", T1), _ran("one", T2)]})
    assert pod.started("cpu") == T1


def test_what_only_its_runtime_takes_starts_with_any_container():
    spec = {"overhead": {"cpu": "250m"}, "containers": [{"name": "one"}, {"name": "two"}]}
    pod = read(spec=spec, status={"phase": "Running", "containerStatuses": [_ran("two", T1), _ran("one", T2)]})
    assert (pod.requests.cpu_milli, pod.started("cpu")) == (250, T1)


def test_a_lost_container_may_have_started_when_the_kubelet_accepted_the_pod():
    lost = {"name": "c", "state": {"terminated": {"reason": "ContainerStatusUnknown", "startedAt": None}}}
    pod = read(
        spec={"containers": [a_container()]},
        status={"phase": "Failed", "startTime": at(T0), "containerStatuses": [lost]},
    )
    assert pod.started("cpu") == T0


def test_a_pod_without_container_ends_ended_when_it_was_told_to_go_or_was_no_longer_ready():
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": at(T2)}
    told = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": at(T1)}
    assert read(status={"phase": "Failed", "conditions": [ready, told]}).ended_at == T1
    assert read(status={"phase": "Failed", "conditions": [ready]}).ended_at == T2
    assert read(status={"phase": "Failed"}).ended_at is None


@pytest.mark.parametrize(
    ("said", "ready"), [((), False), ((True,), True), ((True, False), False), ((True, True), True)]
)
def test_a_pod_is_ready_if_all_of_its_containers_are(said, ready):
    rows = [{"name": f"c{number}", "ready": each} for number, each in enumerate(said)]

    assert read(status={"phase": "Running", "containerStatuses": rows}).ready is ready
