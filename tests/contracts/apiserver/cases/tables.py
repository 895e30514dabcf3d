"""What `kubectl get` prints: the columns and cells that the server computes for built-in kinds."""

from tests.contracts.apiserver.api import Answer, Api, Json
from tests.contracts.apiserver.kinds import config_map, lease, pod
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import (
    CONFIG_MAP,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
    SECRET,
    Resource,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
OF_TIME = {"Age", "Duration", "Last Seen"}  # cells that depend on when the case ran
LABELS = {"app": "one"}


async def _table(api: Api, resource: Resource, **query: str) -> list[list[object]]:
    """Note the columns and cells of a table, times apart."""
    answer: Answer = await api.quiet.call("GET", api.path(resource), accept=TABLE, **query)
    columns = answer.body["columnDefinitions"]
    timeless = [place for place, column in enumerate(columns) if column["name"] not in OF_TIME]
    rows = [[row["cells"][place] for place in timeless] for row in answer.body["rows"]]
    api.note(
        f"columns of {resource.plural}", [[one["name"], one["type"], one["format"], one["priority"]] for one in columns]
    )
    api.note(f"rows of {resource.plural}", rows)
    return rows


async def _status(api: Api, name: str, **status: object) -> None:
    answer = await api.quiet.patch(POD, name, {"status": status}, "status")
    assert answer.status == 200, answer.body


def _state(ready: bool, state: Json, restarts: int = 0) -> list[Json]:
    shown: Json = {
        "name": "main",
        "image": "x",
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
    }
    return [shown]


@case(Area.TABLE)
async def pods_are_shown_by_what_they_are_doing(api: Api) -> None:
    for name in ("pending", "running", "pulling", "done", "going", "failed"):
        await api.quiet.create(POD, pod(name, {} if name == "pending" else {"nodeName": "n1"}))
    await _status(
        api,
        "running",
        phase="Running",
        podIP="10.0.0.1",
        podIPs=[{"ip": "10.0.0.1"}],
        containerStatuses=_state(True, {"running": {}}),
    )
    await _status(
        api, "pulling", phase="Pending", containerStatuses=_state(False, {"waiting": {"reason": "ImagePullBackOff"}})
    )
    await _status(
        api,
        "done",
        phase="Succeeded",
        containerStatuses=_state(False, {"terminated": {"exitCode": 0, "reason": "Completed"}}),
    )
    await _status(
        api,
        "failed",
        phase="Failed",
        reason="Evicted",
        containerStatuses=_state(False, {"terminated": {"exitCode": 3}}),
    )
    await _status(api, "going", phase="Running", containerStatuses=_state(True, {"running": {}}))
    await api.quiet.delete(POD, "going")
    rows = await _table(api, POD)
    shown = {row[0]: (row[1], row[2]) for row in rows}
    assert shown["pulling"] == ("0/1", "ImagePullBackOff")
    assert shown["going"] == ("1/1", "Terminating")


@case(Area.TABLE)
async def nodes_are_shown_with_their_roles_and_state(api: Api) -> None:
    name = "case-node-table"
    roles = {"node-role.kubernetes.io/worker": "", "case": "node-table"}
    await api.quiet.create(NODE, {"metadata": {"name": name, "labels": roles}, "spec": {"unschedulable": True}})
    status: Json = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "nodeInfo": {
            "kubeletVersion": "v1.36.3",
            "osImage": "Talos",
            "kernelVersion": "6",
            "containerRuntimeVersion": "c",
        },
    }
    await api.quiet.patch(NODE, name, {"status": status}, "status")
    (row,) = await _table(api, NODE, labelSelector="case=node-table")
    assert row[1] == "Ready,SchedulingDisabled"
    await api.quiet.delete(NODE, name)


def _workload() -> Json:
    template: Json = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "x:1"}]}}
    return {"metadata": {"name": "one"}, "spec": {"selector": {"matchLabels": LABELS}, "template": template}}


@case(Area.TABLE)
async def workloads_are_shown_with_their_counts(api: Api) -> None:
    await api.quiet.create(DEPLOYMENT, _workload())
    await api.quiet.patch(
        DEPLOYMENT, "one", {"status": {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1}}, "status"
    )
    await api.quiet.create(DAEMON_SET, _workload())
    template: Json = {"spec": {"containers": [{"name": "main", "image": "x:1"}], "restartPolicy": "Never"}}
    await api.quiet.create(JOB, {"metadata": {"name": "one"}, "spec": {"template": template}})
    (row,) = await _table(api, DEPLOYMENT)
    assert row[1] == "1/1"
    await _table(api, DAEMON_SET)
    jobs = await _table(api, JOB)
    assert jobs[0][2] == "0/1"


@case(Area.TABLE)
async def small_kinds_are_shown(api: Api) -> None:
    await api.quiet.create(CONFIG_MAP, config_map("one", {"a": "1", "b": "2"}))
    await api.quiet.create(SECRET, {"metadata": {"name": "one"}, "stringData": {"a": "b"}})
    await api.quiet.create(LEASE, lease("one", "holder"))
    budget: Json = {"metadata": {"name": "one"}, "spec": {"selector": {}, "maxUnavailable": 1}}
    await api.quiet.create(POD_DISRUPTION_BUDGET, budget)
    assert await _table(api, CONFIG_MAP) == [["one", 2]]
    await _table(api, SECRET)
    await _table(api, LEASE)
    await _table(api, POD_DISRUPTION_BUDGET)
    await _table(api, NAMESPACE, fieldSelector=f"metadata.name={api.namespace}")


@case(Area.TABLE)
async def an_empty_table_has_columns_and_no_rows(api: Api) -> None:
    assert await _table(api, CONFIG_MAP) == []
