"""Built-in kinds: what the server adds to what a manifest says, and what it will not take."""

from tests.contracts.apiserver.api import Api, Json
from tests.contracts.apiserver.kinds import disruption_budget, pod
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import DAEMON_SET, DEPLOYMENT, JOB, NODE, POD, POD_DISRUPTION_BUDGET, Resource

PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
LABELS = {"app": "one"}
GPU = "nvidia.com/gpu"


def _container(**more: object) -> Json:
    return {"name": "main", "image": "example.org/main:1", **more}


def _workload(pod_spec: Json | None = None, **spec: object) -> Json:
    template: Json = {"metadata": {"labels": LABELS}, "spec": pod_spec or {"containers": [_container()]}}
    return {"metadata": {"name": "one"}, "spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec}}


@case(Area.BUILT_IN)
async def a_pod_that_says_little_is_given_the_rest(api: Api) -> None:
    made = await api.create(POD, pod("p", {"containers": [_container()]}))
    assert made.status == 201
    assert made["spec.restartPolicy"] == "Always"
    assert made["spec.terminationGracePeriodSeconds"] == 30
    assert made["status.phase"] == "Pending"
    assert made["status.qosClass"] == "BestEffort"


@case(Area.BUILT_IN)
async def an_image_without_a_version_is_always_pulled(api: Api) -> None:
    made = await api.create(
        POD, pod("p", {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x:latest"}]})
    )
    assert [one["imagePullPolicy"] for one in made["spec.containers"]] == ["Always", "Always"]


@case(Area.BUILT_IN)
async def a_limit_is_a_request_where_none_is_made(api: Api) -> None:
    container = _container(resources={"limits": {GPU: "1", "cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m"}})
    made = await api.create(POD, pod("p", {"containers": [container]}))
    assert made["spec.containers"][0]["resources"]["requests"] == {GPU: "1", "cpu": "500m", "memory": "1Gi"}
    assert made["status.qosClass"] == "Burstable"


@case(Area.BUILT_IN)
async def quantities_are_written_in_one_form(api: Api) -> None:
    asked = {"cpu": "1000m", "memory": "1024Mi", "ephemeral-storage": 1000000, "example.org/thing": "1e3"}
    made = await api.create(POD, pod("p", {"containers": [_container(resources={"limits": asked})]}))
    assert made["spec.containers"][0]["resources"]["limits"] == {
        "cpu": "1",
        "memory": "1Gi",
        "ephemeral-storage": "1M",
        "example.org/thing": "1e3",
    }


@case(Area.BUILT_IN)
async def a_pod_keeps_where_it_wants_to_go(api: Api) -> None:
    term: Json = {"matchExpressions": [{"key": "tgp.io/gpu-type", "operator": "In", "values": ["H100"]}]}
    required: Json = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec: Json = {
        "nodeSelector": {"a": "b"},
        "affinity": {"nodeAffinity": required},
        "tolerations": [{"key": "tgp.io/ephemeral", "operator": "Exists", "effect": "NoSchedule"}],
        "schedulingGates": [{"name": "contract.tgp.io/wait"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ],
    }
    made = await api.create(POD, pod("p", spec))
    assert made.status == 201
    assert made["status.conditions"][0]["reason"] == "SchedulingGated"


@case(Area.BUILT_IN)
async def label_keys_of_a_term_become_part_of_its_selector(api: Api) -> None:
    """With the pod's own values; keys it does not have change nothing."""
    keys: Json = {"matchLabelKeys": ["version", "absent"], "labelSelector": {"matchLabels": LABELS}}
    apart: Json = {"topologyKey": "zone", "mismatchLabelKeys": ["tenant"], **keys}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    spec: Json = {
        "containers": [_container()],
        "affinity": {
            "podAntiAffinity": {required: [apart], preferred: [{"weight": 1, "podAffinityTerm": apart}]},
            "podAffinity": {required: [{**apart, "matchLabelKeys": []}]},
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": "zone", **keys}
        ],
    }
    manifest = pod("p", spec)
    manifest["metadata"]["labels"] = {"version": "2", "tenant": "x"}
    made = await api.create(POD, manifest)
    own = {"key": "version", "operator": "In", "values": ["2"]}
    others = {"key": "tenant", "operator": "NotIn", "values": ["x"]}
    affinity = made["spec.affinity"]
    assert affinity["podAntiAffinity"][required][0]["labelSelector"]["matchExpressions"] == [own, others]
    assert made["spec.topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"] == [own]


@case(Area.BUILT_IN)
async def a_malformed_pod_is_refused(api: Api) -> None:
    container = _container()
    for number, spec in enumerate(
        (
            {"containers": []},
            {"containers": [container, container]},
            {"containers": [{"name": "main"}]},
            {"containers": [{"name": "UPPER", "image": "x"}]},
            {"containers": [_container(resources={"requests": {GPU: "1"}})]},
            {"containers": [_container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
            {"containers": [container], "restartPolicy": "Sometimes"},
            {"containers": [container], "tolerations": [{"operator": "Equal", "value": "x"}]},
            {"containers": [container], "nodeSelector": {"a b": "c"}},
        )
    ):
        assert (await api.create(POD, pod(f"p{number}", spec))).status == 422, spec
    wrong_quantity = _container(resources={"limits": {"cpu": "lots"}})
    assert (await api.create(POD, pod("q", {"containers": [wrong_quantity]}))).status == 400


@case(Area.BUILT_IN)
async def an_unknown_priority_is_refused_and_a_known_one_is_filled_in(api: Api) -> None:
    name = "case-known-priority"
    assert (await api.create(POD, pod("p", {"priorityClassName": "absent"}))).status == 403
    await api.create(PRIORITY_CLASS, {"metadata": {"name": name}, "value": 1000})

    async def known(quiet: Api) -> bool:
        return (await quiet.create(POD, pod("p", {"priorityClassName": name}), dryRun="All")).status == 201

    await api.eventually(known)  # admission reads classes from a cache
    made = await api.create(POD, pod("p", {"priorityClassName": name}))
    assert made["spec.priority"] == 1000
    assert (await api.patch(PRIORITY_CLASS, name, {"value": 5})).status == 422
    await api.delete(PRIORITY_CLASS, name)


@case(Area.BUILT_IN)
async def a_kubelet_reports_through_the_status(api: Api) -> None:
    await api.quiet.create(POD, pod("p", {"nodeName": "n1"}))
    status: Json = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "startTime": "2001-02-03T04:05:06Z",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2001-02-03T04:05:06Z"}],
        "containerStatuses": [
            {
                "name": "main",
                "image": "example.org/main:1",
                "imageID": "",
                "ready": True,
                "restartCount": 1,
                "state": {"running": {"startedAt": "2001-02-03T04:05:06Z"}},
            }
        ],
    }
    patched = await api.patch(
        POD, "p", {"status": status}, "status", kind="application/strategic-merge-patch+json", fieldManager="kubelet"
    )
    assert patched.status == 200
    more: Json = {"status": {"conditions": [{"type": "ContainersReady", "status": "True"}]}}
    after = await api.patch(POD, "p", more, "status", kind="application/strategic-merge-patch+json")
    assert {one["type"] for one in after["status.conditions"]} == {"Ready", "ContainersReady"}


@case(Area.BUILT_IN)
async def a_node_reports_through_the_status(api: Api) -> None:
    name = "case-node-status"
    made = await api.create(NODE, {"metadata": {"name": name, "labels": {"tgp.io/request": "x"}}})
    assert made.status == 201
    status: Json = {
        "capacity": {"cpu": "8", GPU: "1", "memory": "16Gi"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}],
        "nodeInfo": {"kubeletVersion": "v1.36.3"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    }
    patched = await api.patch(NODE, name, {"status": status, "spec": {"unschedulable": True}}, "status")
    assert patched.status == 200
    assert patched["spec.unschedulable"] is None
    await api.delete(NODE, name)


@case(Area.BUILT_IN)
async def a_new_node_is_not_ready_before_it_says_so(api: Api) -> None:
    name = "case-node-new"
    made = await api.create(NODE, {"metadata": {"name": name}})
    assert [taint["key"] for taint in made["spec.taints"]] == ["node.kubernetes.io/not-ready"]
    await api.delete(NODE, name)


@case(Area.BUILT_IN)
async def a_deployment_is_given_the_rest(api: Api) -> None:
    made = await api.create(DEPLOYMENT, _workload())
    assert made.status == 201
    assert made["spec.replicas"] == 1
    assert made["spec.strategy.type"] == "RollingUpdate"


@case(Area.BUILT_IN)
async def a_deployment_keeps_its_selector(api: Api) -> None:
    await api.create(DEPLOYMENT, _workload())
    other: Json = {"spec": {"selector": {"matchLabels": {"app": "two"}}}}
    assert (await api.patch(DEPLOYMENT, "one", other)).status == 422
    strange: Json = _workload()
    strange["metadata"]["name"] = "two"
    strange["spec"]["selector"]["matchLabels"] = {"app": "other"}
    assert (await api.create(DEPLOYMENT, strange)).status == 422


@case(Area.BUILT_IN)
async def a_daemon_set_is_given_the_rest(api: Api) -> None:
    made = await api.create(DAEMON_SET, _workload())
    assert made.status == 201
    assert made["spec.updateStrategy.type"] == "RollingUpdate"


@case(Area.BUILT_IN)
async def a_job_is_given_the_rest_and_labels_its_pods(api: Api) -> None:
    template: Json = {"spec": {"containers": [_container()], "restartPolicy": "Never"}}
    made = await api.create(JOB, {"metadata": {"name": "one"}, "spec": {"template": template}})
    assert made.status == 201
    assert made["spec.backoffLimit"] == 6
    assert made["spec.template.metadata.labels"]["batch.kubernetes.io/job-name"] == "one"
    always: Json = {"spec": {"containers": [_container()]}}
    assert (await api.create(JOB, {"metadata": {"name": "two"}, "spec": {"template": always}})).status == 422


@case(Area.BUILT_IN)
async def generation_of_built_in_kinds_counts_their_spec(api: Api) -> None:
    assert (await api.create(DEPLOYMENT, _workload())).meta["generation"] == 1
    assert (await api.patch(DEPLOYMENT, "one", {"spec": {"replicas": 3}})).meta["generation"] == 2
    assert (await api.patch(DEPLOYMENT, "one", {"status": {"replicas": 3}}, "status")).meta["generation"] == 2
    assert (await api.patch(DEPLOYMENT, "one", {"metadata": {"labels": {"a": "b"}}})).meta["generation"] == 2


@case(Area.BUILT_IN)
async def a_malformed_disruption_budget_is_refused(api: Api) -> None:
    both = disruption_budget("one", LABELS, maxUnavailable=1)
    assert (await api.create(POD_DISRUPTION_BUDGET, both)).status == 422
    negative = disruption_budget("one", LABELS, minAvailable=-1)
    assert (await api.create(POD_DISRUPTION_BUDGET, negative)).status == 422
    odd = disruption_budget("one", LABELS, minAvailable="half")
    assert (await api.create(POD_DISRUPTION_BUDGET, odd)).status == 422
    made = await api.create(POD_DISRUPTION_BUDGET, disruption_budget("one", LABELS, minAvailable="50%"))
    assert made.status == 201


@case(Area.BUILT_IN)
async def a_deployment_is_scaled_through_its_scale(api: Api) -> None:
    await api.create(DEPLOYMENT, _workload())
    scale = await api.get(DEPLOYMENT, "one", "scale")
    assert scale.body["kind"] == "Scale"
    after = await api.patch(DEPLOYMENT, "one", {"spec": {"replicas": 4}}, "scale")
    assert after["spec.replicas"] == 4
    assert (await api.get(DEPLOYMENT, "one"))["spec.replicas"] == 4
