"""`tgp plan`: what would be bought for pods that wait, or for those of a manifest; it buys and writes nothing."""

import json
import re
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer
from typing import Any, TypeVar

import pytest

from tests.cli.program import Answer, answer
from tests.cli.sample_requests import START, furnish, send
from tests.cli.test_rent import BARE, CLASS, PLUGIN, STATUS
from tests.contracts.kubectl.mounted import Mounted
from tgp.adapters.clouds.webhook.offering import PLACE
from tgp.adapters.kube.list import ListTarget
from tgp.api.field_error import Invalid
from tgp.core.model.hold import Hold
from tgp.core.model.record import ObjectRecord
from tgp.core.pools.machine_types import SHAPES, SeenShape, line_of
from tgp.interfaces.cli.plan_view import proof_words
from tgp.ports.cluster import Forbidden
from tgp.services.cluster_reads import ClusterReads
from tgp.services.manifest_pods import pods_in
from tgp.services.plan_answers import PodPlan
from tgp.services.plan_world import seen_by_user

R = TypeVar("R", bound=ObjectRecord)

POOL: dict[str, Any] = {
    "apiVersion": "tgp.io/v1",
    "kind": "GPUNodePool",
    "metadata": {"name": "pool", "namespace": "ml"},
    "spec": {"nodeClassRef": {"name": "standard"}},
}
TOLERATED = [{"key": "tgp.io/ephemeral", "operator": "Exists", "effect": "NoSchedule"}]
UNPLACED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "lastTransitionTime": "2026-11-16T13:50:00Z",
}


def pod_spec(gpus: int = 1, **more: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": gpus}, "requests": {"cpu": "2"}}
    return {
        "restartPolicy": "Never",
        "tolerations": TOLERATED,
        "containers": [{"name": "gpu", "image": "cuda", "resources": resources}],
        **more,
    }


def a_job(name: str = "train", parallelism: int = 1, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"parallelism": parallelism, "template": {"spec": pod_spec(**spec)}},
    }


def waits(server: Mounted, name: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
    """A pod that the scheduler found no node for."""
    pods = f"{server.url}/api/v1/namespaces/ml/pods"
    send(pods, "POST", {"metadata": {"name": name, "annotations": annotations or {}}, "spec": pod_spec(**spec)})
    send(
        f"{pods}/{name}/status",
        "PATCH",
        {"status": {"phase": "Pending", "conditions": [UNPLACED]}},
        "application/merge-patch+json",
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Mounted]:
    with Mounted(tmp_path) as server:
        furnish(server)
        classes = f"{server.url}/apis/tgp.io/v1/gpunodeclasses"
        send(classes, "POST", CLASS)
        send(f"{classes}/standard/status", "PATCH", {"status": STATUS}, "application/merge-patch+json")
        send(f"{server.url}/apis/apps/v1/namespaces/kube-system/daemonsets", "POST", PLUGIN)
        yield server


def with_pool(server: Mounted, name: str = "pool", **spec: Any) -> None:
    written = {**POOL, "metadata": {"name": name, "namespace": "ml"}, "spec": {**POOL["spec"], **spec}}
    send(f"{server.url}/apis/tgp.io/v1/namespaces/ml/gpunodepools", "POST", written)


def plan(server: Mounted, *words: str) -> Answer:
    return answer("plan", "--kubeconfig", str(server.kubeconfig), *words, **BARE)


def planned(server: Mounted, *words: str) -> dict[str, Any]:
    return json.loads(plan(server, "-o", "json", *words).stdout)


def test_a_class_that_was_just_applied_is_waited_for_until_the_operator_has_checked_it(cluster: Mounted):
    """`kubectl apply` of a class and a pool, then `tgp plan`: it said that nothing would be bought."""
    classes = f"{cluster.url}/apis/tgp.io/v1/gpunodeclasses"
    send(classes, "POST", {**CLASS, "metadata": {"name": "new"}})
    with_pool(cluster, nodeClassRef={"name": "new"})
    waits(cluster, "train-0")
    status = {"status": STATUS}
    checked = Timer(1.5, send, (f"{classes}/new/status", "PATCH", status, "application/merge-patch+json"))
    checked.start()
    ended = plan(cluster)
    checked.join()

    assert "1 pod that waits: would buy 1 machine" in ended.stdout


def test_the_machines_for_pods_that_wait_are_shown_with_price_proof_and_limits(cluster: Mounted):
    with_pool(cluster)
    waits(cluster, "train-0")
    waits(cluster, "big", gpus=8)
    ended = plan(cluster)

    assert ended.returncode == 3
    assert "2 pods that wait: would buy 1 machine for $1.67 an hour; 1 pod is not served" in ended.stdout
    assert "1  ml/pool  vultr     1x L40S  1x L40S  us-east  on-demand      1.67  ml/train-0" in ended.stdout
    assert "best price  within 0.1 % of the best possible price" in ended.stdout
    assert "next cheaper machine: 1x A10 at $0.75/h from lambdalabs in us-west, provider unavailable" in ended.stdout
    assert "limits.maxNodes is 2: 2 machines left now, 1 machine after this plan" in ended.stdout
    assert "limits.maxHourlyCost is $4.0/h: $4.00/h left now, $2.25/h after this plan" in ended.stdout
    assert "not served  ml/big: pool ml/pool: none of 2 offers fits: 1 too small" in ended.stdout
    assert "prices      class standard: from the class's status: vultr" in ended.stdout


@pytest.mark.parametrize(
    ("gap", "without", "words"),
    [
        (None, (), "not proven: a cheaper plan may exist"),
        (0.0004, (), "within 0.1 % of the best possible price"),
        (0.042, (), "within 4.2 % of the best possible price"),
        (0.042, ("zone topology",), "within 4.2 % of the best possible price without zone topology"),
        (
            0.5,
            ("zone topology", "pool weights"),
            "within 50.0 % of the best possible price without zone topology and pool weights",
        ),
    ],
)
def test_the_proof_says_what_it_leaves_out(gap, without, words):
    assert proof_words(PodPlan(datetime(2026, 11, 16, tzinfo=UTC), gap=gap, bound_without=without)) == words


def test_pools_that_would_buy_are_named_and_wide_leaves_no_column_out(cluster: Mounted):
    with_pool(cluster)
    waits(cluster, "train-0")
    named, wide = plan(cluster, "-o", "name"), plan(cluster, "-o", "wide")

    assert named.stdout == "pool/ml/pool\n"
    (heads,) = (line.split() for line in wide.stdout.splitlines() if line.startswith("N "))
    assert heads == ["N", "POOL", "PROVIDER", "TYPE", "GPU", "REGION", "KIND", "$/H", "EACH", "PODS"]


def test_without_pods_that_wait_nothing_would_be_bought(cluster: Mounted):
    with_pool(cluster)
    ended = plan(cluster)

    assert ended.returncode == 0
    assert "no pod waits for a GPU: nothing would be bought" in ended.stdout


def test_without_a_pool_it_says_how_to_make_one(cluster: Mounted):
    waits(cluster, "train-0")
    ended = plan(cluster)

    assert ended.returncode == 3
    assert "there is no GPUNodePool, so no machine is bought for pods" in ended.stdout
    assert f"to make a class and a pool: tgp init --kubeconfig {cluster.kubeconfig}" in ended.stdout


def test_a_manifest_is_planned_alone_unless_asked_and_for_its_hours(cluster: Mounted, tmp_path: Path):
    with_pool(cluster)
    waits(cluster, "other")
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(a_job(parallelism=1)))
    ended = plan(cluster, "-f", str(file), "--hours", "3")

    assert ended.returncode == 0
    assert "1 pod: would buy 1 machine for $1.67 an hour" in ended.stdout
    assert "costs       $1.67 an hour; $5.01 for 3 hours" in ended.stdout
    both = planned(cluster, "-f", str(file), "--with-waiting")
    assert {pod["name"] for machine in both["machines"] for pod in machine["pods"]} == {"train-0", "other"}
    assert both["usdPerHour"] == 3.34
    assert both["limits"][0]["leftAfter"] == 0


def test_a_pod_of_a_manifest_does_not_replace_one_that_is_there(cluster: Mounted, tmp_path: Path):
    with_pool(cluster)
    waits(cluster, "train-0")
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(a_job()))
    found = planned(cluster, "-f", str(file), "--with-waiting")

    names = {pod["name"] for machine in found["machines"] for pod in machine["pods"]}
    assert names == {"train-0", "train-0-planned"}


def test_nothing_is_written(cluster: Mounted, tmp_path: Path):
    with_pool(cluster)
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(a_job()))
    before = everything(cluster)
    plan(cluster, "-f", str(file))

    assert everything(cluster) == before


def everything(server: Mounted) -> list[str]:
    kinds = (
        "api/v1/pods",
        "apis/tgp.io/v1/gpurequests",
        "apis/tgp.io/v1/gpunodepools",
        "apis/tgp.io/v1/gpunodeclasses",
    )
    found = []
    for kind in kinds:
        with urllib.request.urlopen(f"{server.url}/{kind}") as answered:  # noqa: S310 - on loopback
            items = json.load(answered)["items"]
        found += [f"{kind}/{item['metadata']['name']}@{item['metadata']['resourceVersion']}" for item in items]
    return found


def test_what_a_pod_prefers_is_priced_as_if_it_were_required(cluster: Mounted, tmp_path: Path):
    with_pool(cluster)
    term = {"matchExpressions": [{"key": "tgp.io/gpu-type", "operator": "In", "values": ["H100"]}]}
    affinity = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "preference": term}]}
    }
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(a_job(affinity=affinity)))
    ended = plan(cluster, "-f", str(file))

    assert ended.returncode == 0
    assert "if that were required, 1 pod more would not be served" in " ".join(ended.stdout.split())


def test_a_pool_that_observes_and_a_hold_are_said(cluster: Mounted):
    with_pool(cluster, mode="Observe")
    waits(cluster, "train-0")
    hold = {"metadata": {"name": "tgp-system", "annotations": {"tgp.io/hold": "rebuilding"}}}
    send(f"{cluster.url}/api/v1/namespaces", "POST", hold)
    ended = plan(cluster)

    assert "would buy 1 machine for $1.67 an hour if ml/pool did not only observe" in ended.stdout
    assert "pool ml/pool only observes: it reports what it would buy, and buys nothing (spec.mode)" in ended.stdout
    assert "stopped by  all purchases are paused (rebuilding). Resume: tgp release" in ended.stdout


def test_replicas_that_a_pool_misses_are_priced_and_pods_get_their_room(cluster: Mounted):
    """The class allows two machines: both are for replicas, and the pod has room on one of them."""
    with_pool(cluster, replicas=2)
    said = " ".join(plan(cluster).stdout.split())
    assert "no pod waits for a GPU; would buy 2 machines for $3.34 an hour for spec.replicas" in said
    assert "replicas pool ml/pool buys first: 2 times 1x L40S at $1.67/h from vultr" in said
    assert "limits.maxNodes is 2: 2 machines left now, 0 machines after this plan" in said

    waits(cluster, "train-0")
    said = " ".join(plan(cluster).stdout.split())
    assert "1 pod that waits: would buy nothing; 1 pod finds room already; would buy 2 machines for $3.34" in said
    assert "has room ml/train-0 on a machine that pool ml/pool buys for spec.replicas" in said
    found = planned(cluster)
    assert (found["usdPerHour"], found["replicaUsdPerHour"], len(found["replicaMachines"])) == (0, 3.34, 2)


def test_replicas_of_a_pool_that_observes_are_priced_and_their_room_is_its_own(cluster: Mounted):
    with_pool(cluster, replicas=2, mode="Observe")
    waits(cluster, "train-0")
    found = planned(cluster)

    assert (found["usdPerHour"], found["replicaUsdPerHour"], len(found["replicaMachines"])) == (0, 3.34, 2)


def test_replicas_that_cannot_be_bought_are_named_with_the_reason(cluster: Mounted):
    with_pool(cluster, replicas=3)
    said = " ".join(plan(cluster).stdout.split())

    assert "pool ml/pool needs 3 machines more; 1 of them cannot be bought: " in said
    assert "limits.maxNodes is 2" in said


def test_what_pools_that_observe_would_buy_is_told_apart_and_stays_within_limits(cluster: Mounted):
    """Two machines are left of the class: one is bought, and the pool that observes would buy the other."""
    with_pool(cluster, limits={"resources": {"nodes": 1}})
    watching = {
        "metadata": {"name": "look", "namespace": "ml"},
        "spec": {"mode": "Observe", "nodeClassRef": {"name": "standard"}},
    }
    send(
        f"{cluster.url}/apis/tgp.io/v1/namespaces/ml/gpunodepools",
        "POST",
        {"apiVersion": "tgp.io/v1", "kind": "GPUNodePool", **watching},
    )
    for number in range(3):
        waits(cluster, f"train-{number}")
    ended = plan(cluster)
    said = " ".join(ended.stdout.split())

    assert ended.returncode == 3
    bought = "would buy 1 machine for $1.67 an hour; pools that only observe would buy 1 more for $1.67"
    assert f"3 pods that wait: {bought}; 1 pod is not served" in said
    assert "limits.maxNodes is 2: 2 machines left now, 0 machines after this plan" in said
    assert planned(cluster)["observedUsdPerHour"] == 1.67


def test_room_that_a_pod_takes_is_not_promised_again_to_pools_that_observe(cluster: Mounted):
    """One GPU is free on a Node, and two pods wait: one of them has room, and a machine is needed for the other."""
    with_pool(cluster, mode="Observe")
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "1"}
    is_on = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": allocatable}
    nodes = f"{cluster.url}/api/v1/nodes"
    send(nodes, "POST", {"metadata": {"name": "gpu-1"}, "status": is_on})
    send(f"{nodes}/gpu-1", "PATCH", {"spec": {"taints": None}}, "application/merge-patch+json")
    for number in range(2):
        waits(cluster, f"train-{number}")
    found = planned(cluster)

    assert [each["pod"]["name"] for each in found["placed"]] == ["train-0"]
    assert [each["name"] for machine in found["machines"] for each in machine["pods"]] == ["train-1"]


def test_the_heading_adds_up_with_pods_that_no_plan_can_serve(cluster: Mounted):
    with_pool(cluster)
    waits(cluster, "train-0", schedulerName="volcano")
    assert "1 pod that waits: would buy nothing; 1 pod is not served" in " ".join(plan(cluster).stdout.split())

    waits(cluster, "train-1")
    said = " ".join(plan(cluster).stdout.split())
    assert "2 pods that wait: would buy 1 machine for $1.67 an hour; 1 pod is not served" in said
    assert planned(cluster)["pods"] == 2


def test_a_narrow_terminal_shows_the_price_and_the_pods(cluster: Mounted):
    with_pool(cluster)
    waits(cluster, "train-0")
    where = ("plan", "--kubeconfig", str(cluster.kubeconfig))
    lines = answer(*where, **{**BARE, "COLUMNS": "60"}).stdout.splitlines()

    assert any(line.endswith("1.67  ml/train-0") for line in lines)


def test_a_pool_without_its_class_says_so(cluster: Mounted):
    with_pool(cluster, nodeClassRef={"name": "gone"})
    waits(cluster, "train-0")

    assert "pool ml/pool buys nothing now: GPUNodeClass gone does not exist" in plan(cluster).stdout


def test_pools_of_other_namespaces_are_no_news_for_a_namespace_that_is_served(cluster: Mounted):
    with_pool(cluster, mode="Observe")

    assert "pool ml/pool only observes" in plan(cluster).stdout
    assert "only observes" not in plan(cluster, "-n", "team").stdout
    assert "pool ml/pool only observes" in plan(cluster, "-n", "ml").stdout


def test_a_command_in_a_note_is_for_the_same_cluster(cluster: Mounted):
    with_pool(cluster)
    with_pool(cluster, "other", nodeClassRef={"name": "gone"})

    said = " ".join(plan(cluster).stdout.split())
    assert f"pool ml/other buys nothing now: see tgp why --kubeconfig {cluster.kubeconfig} pool/ml/other" in said


def test_a_pool_that_the_operator_refuses_for_its_time_zone_promises_nothing(cluster: Mounted):
    budget = {"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h", "timeZone": "Mars/Olympus"}
    with_pool(cluster, disruption={"budgets": [budget]})
    waits(cluster, "train-0")
    found = planned(cluster)

    assert found["machines"] == []
    assert "is not an IANA time zone" in plan(cluster).stdout


@pytest.mark.parametrize(
    ("reported", "expected"), [({}, ("large", 0.2)), ({"cpu": "8", "memory": "32Gi"}, ("small", 0.1))]
)
def test_machines_you_own_are_planned_with_the_sizes_that_the_class_or_their_node_gives(
    cluster: Mounted, reported: dict[str, str], expected: tuple[str, float]
):
    """One that is off keeps its Node."""
    owned = {"gpuType": "RTX4090", "gpuCount": 2, "pricePerHour": "0.10"}
    urls = {"scaleUpEndpoint": "http://power.internal/on", "scaleDownEndpoint": "http://power.internal/off"}
    machines = [
        {"name": "small", **owned, **urls},
        {"name": "large", **owned, **urls, "cpu": "16", "memory": "64Gi", "pricePerHour": "0.20"},
        {"name": "on", **owned, **urls, "cpu": "16", "memory": "64Gi"},
    ]
    classes = f"{cluster.url}/apis/tgp.io/v1/gpunodeclasses"
    spec = {"providers": [{"name": "webhook", "settings": {"machines": machines}}], "networking": {"backend": "none"}}
    send(classes, "POST", {**CLASS, "metadata": {"name": "cellar"}, "spec": spec})
    ready = {"status": {"conditions": STATUS["conditions"]}}
    send(f"{classes}/cellar/status", "PATCH", ready, "application/merge-patch+json")
    nodes = f"{cluster.url}/api/v1/nodes"
    is_on = {"conditions": [{"type": "Ready", "status": "True"}]}
    send(nodes, "POST", {"metadata": {"name": "on"}, "status": is_on})
    is_off = {"conditions": [{"type": "Ready", "status": "Unknown"}], "allocatable": {**reported, "pods": "110"}}
    send(nodes, "POST", {"metadata": {"name": "small"}, "status": is_off})
    with_pool(cluster, nodeClassRef={"name": "cellar"})
    waits(cluster, "train-0")
    [machine] = planned(cluster)["machines"]

    assert (machine["provider"], machine["instanceType"], machine["usdPerHour"]) == ("webhook", *expected)


def test_what_the_operator_remembers_of_a_machine_counts_more_than_its_class(cluster: Mounted):
    machine = {
        "name": "large",
        "gpuType": "RTX4090",
        "gpuCount": 1,
        "cpu": "16",
        "memory": "64Gi",
        "pricePerHour": "0.20",
    }
    urls = {"scaleUpEndpoint": "http://power.internal/on", "scaleDownEndpoint": "http://power.internal/off"}
    classes = f"{cluster.url}/apis/tgp.io/v1/gpunodeclasses"
    settings = {"machines": [{**machine, **urls}]}
    spec = {"providers": [{"name": "webhook", "settings": settings}], "networking": {"backend": "none"}}
    send(classes, "POST", {**CLASS, "metadata": {"name": "cellar"}, "spec": spec})
    ready = {"status": {"conditions": STATUS["conditions"]}}
    send(f"{classes}/cellar/status", "PATCH", ready, "application/merge-patch+json")
    with_pool(cluster, nodeClassRef={"name": "cellar"})
    waits(cluster, "train-0")
    [planned_before] = planned(cluster)["machines"]
    seen = SeenShape(f"webhook/large/{PLACE}/on-demand", START, cpu_milli=1, memory_bytes=1 << 30)
    table = {"metadata": {"name": SHAPES}, "data": {seen.name: line_of(seen), "other": "malformed"}}
    send(f"{cluster.url}/api/v1/namespaces", "POST", {"metadata": {"name": "tgp-system"}})
    send(f"{cluster.url}/api/v1/namespaces/tgp-system/configmaps", "POST", table)

    assert planned_before["instanceType"] == "large"
    assert planned(cluster)["machines"] == []


def test_without_keys_it_says_what_is_not_known_of_the_offers(cluster: Mounted):
    with_pool(cluster)
    waits(cluster, "train-0")

    assert "class standard: lambda, vultr: no API key in this terminal" in " ".join(plan(cluster).stdout.split())


class LimitedReads(ClusterReads):
    """Of a user who may read only the namespace of the kubeconfig."""

    def __init__(self) -> None:
        self.operator_namespace, self.namespace = "tgp-system", "ml"

    def now(self) -> datetime:
        return START

    async def listed(self, subject: ListTarget[R]) -> list[R]:
        if not subject.namespace:
            raise Forbidden("no")
        return []

    async def hold(self) -> Hold | None:
        return None

    async def shapes(self) -> None:
        return None

    async def unusable(self) -> None:
        return None

    async def recent_spend(self) -> tuple[()]:
        return ()


async def test_what_a_user_may_not_see_is_named_with_what_is_assumed_instead():
    sight = await seen_by_user(LimitedReads())
    said = " ".join(sight.unseen)

    for kind in ("GPUNodePools", "GPURequests", "pods", "DaemonSets", "Namespaces", "PersistentVolumeClaims"):
        assert f"you may not list {kind}" in said
    for name in ("tgp-shapes", "tgp-unusable"):
        assert f"you may not read ConfigMap tgp-system/{name}" in said
    assert not sight.plugins_seen


# -- manifests -------------------------------------------------------------------------------------------------------


def made(*documents: dict[str, Any]) -> list[str]:
    return [str(pod.key) for pod in pods_in(documents, "ml").pods]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"kind": "Pod", "metadata": {"name": "one"}, "spec": pod_spec()}, ["ml/one"]),
        (a_job(parallelism=2), ["ml/train-0", "ml/train-1"]),
        ({**a_job(), "spec": {**a_job()["spec"], "parallelism": 5, "completions": 1}}, ["ml/train-0"]),
        (
            {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": {"spec": pod_spec()}}},
            ["ml/web-0"],
        ),
        (
            {
                "kind": "StatefulSet",
                "metadata": {"name": "db", "namespace": "other"},
                "spec": {"replicas": 2, "template": {"spec": pod_spec()}},
            },
            ["other/db-0", "other/db-1"],
        ),
        (
            {"kind": "CronJob", "metadata": {"name": "nightly"}, "spec": {"jobTemplate": {"spec": a_job()["spec"]}}},
            ["ml/nightly-0"],
        ),
        ({"kind": "List", "items": [a_job("a"), a_job("b")]}, ["ml/a-0", "ml/b-0"]),
        (
            {
                "kind": "JobSet",
                "metadata": {"name": "set"},
                "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": a_job()["spec"]}}]},
            },
            ["ml/set-w-0", "ml/set-w-1"],
        ),
        ({"kind": "Service", "metadata": {"name": "web"}}, []),
    ],
)
def test_each_kind_makes_the_pods_that_its_controller_would(document, names):
    assert made(document) == names


def test_objects_that_make_no_pods_are_named():
    assert pods_in([{"kind": "Service", "metadata": {"name": "web"}}, a_job()], "ml").skipped == ("Service web",)


def test_volumes_that_are_made_with_the_pods_do_not_keep_them_waiting():
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "old", "persistentVolumeClaim": {"claimName": "old"}},
    ]
    [pod] = pods_in([claim, a_job(volumes=volumes)], "ml").pods

    assert pod.volume_claims == ("old",)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([1], "must be an object with apiVersion and kind"),
        ({"metadata": {}}, "kind: Required value"),
        ({"kind": "Job", "metadata": {"name": "a"}}, "Job a: spec: Required value"),
        (a_job(parallelism=-1), "Job train: spec.parallelism: Invalid value: -1"),
        (a_job(containers=[]), "Job train: spec.template.spec.containers: Required value"),
        (a_job(priority="high"), "Job train: spec.template.spec.priority: Invalid value"),
        (
            a_job(containers=[{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "some"}}}]),
            "Job train: spec.template.spec",
        ),
    ],
)
def test_what_is_wrong_in_a_manifest_is_named_by_its_field(document, words):
    with pytest.raises(Invalid, match=re.escape(words)):
        pods_in([document], "ml")


def test_a_file_without_pods_is_a_wrong_use(cluster: Mounted, tmp_path: Path):
    file = tmp_path / "service.yaml"
    file.write_text("kind: Service\nmetadata: {name: web}\n")
    ended = plan(cluster, "-f", str(file))

    assert ended.returncode == 2
    assert "makes no pods (found: Service web)" in ended.stderr
