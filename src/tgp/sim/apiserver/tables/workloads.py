"""Rows of the controllers of pods: Deployments, ReplicaSets, DaemonSets, StatefulSets, Jobs, CronJobs, budgets."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tgp.sim.apiserver.tables.column import Printer, columns
from tgp.sim.apiserver.tables.text import (
    NONE,
    age,
    at,
    born,
    containers,
    count,
    has_true,
    human_duration,
    name,
    pairs,
    parse_time,
    selector_text,
)

_POD_TEMPLATE = "Containers|Images|Selector"
_JOB_STATES_BEFORE_DELETION = ("Complete", "Failed")
_JOB_STATES_AFTER_DELETION = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _template(obj: Mapping[str, Any]) -> list[str]:
    return containers(at(obj, "spec", "template", "spec") or {})


def _selector(obj: Mapping[str, Any]) -> str:
    return selector_text(at(obj, "spec", "selector")) or NONE


def _deployment(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    ready = f"{count(obj, 'status', 'readyReplicas')}/{count(obj, 'spec', 'replicas')}"
    updated, available = count(obj, "status", "updatedReplicas"), count(obj, "status", "availableReplicas")
    selector = selector_text(at(obj, "spec", "selector"))
    return [name(obj), ready, updated, available, born(obj, now), *_template(obj), selector]


def _replica_set(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    numbers = [count(obj, "spec", "replicas"), count(obj, "status", "replicas"), count(obj, "status", "readyReplicas")]
    return [name(obj), *numbers, born(obj, now), *_template(obj), _selector(obj)]


def _replication_controller(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    return [*_replica_set(obj, now)[:-1], pairs(at(obj, "spec", "selector"))]


def _daemon_set(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    fields = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    numbers = [count(obj, "status", field) for field in fields]
    nodes = pairs(at(obj, "spec", "template", "spec", "nodeSelector"))
    return [name(obj), *numbers, nodes, born(obj, now), *_template(obj), _selector(obj)]


def _stateful_set(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    ready = f"{count(obj, 'status', 'readyReplicas')}/{count(obj, 'spec', 'replicas')}"
    return [name(obj), ready, born(obj, now), *_template(obj)]


def _job(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    cells = [name(obj), _job_state(obj), _completions(obj), _job_length(obj, now), born(obj, now)]
    return [*cells, *_template(obj), _selector(obj)]


def _job_state(obj: Mapping[str, Any]) -> str:
    conditions = at(obj, "status", "conditions")
    for state in _JOB_STATES_BEFORE_DELETION:
        if has_true(conditions, state):
            return state
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((state for state in _JOB_STATES_AFTER_DELETION if has_true(conditions, state)), "Running")


def _completions(obj: Mapping[str, Any]) -> str:
    done, wanted = count(obj, "status", "succeeded"), at(obj, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallelism = count(obj, "spec", "parallelism")
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_length(obj: Mapping[str, Any], now: datetime) -> str:
    started = parse_time(at(obj, "status", "startTime"))
    if started is None:
        return ""
    ended = parse_time(at(obj, "status", "completionTime"))
    return human_duration((ended or now) - started)


def _cron_job(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    last = at(obj, "status", "lastScheduleTime")
    job = at(obj, "spec", "jobTemplate", "spec") or {}
    return [
        name(obj),
        at(obj, "spec", "schedule") or "",
        at(obj, "spec", "timeZone") or NONE,
        {True: "True", False: "False"}.get(at(obj, "spec", "suspend"), "<unset>"),
        len(at(obj, "status", "active") or ()),
        age(last, now) if last else NONE,
        born(obj, now),
        *containers(at(job, "template", "spec") or {}),
        selector_text(job.get("selector")) or NONE,
    ]


def _disruption_budget(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    limits = [at(obj, "spec", field) for field in ("minAvailable", "maxUnavailable")]
    words = ["N/A" if limit is None else str(limit) for limit in limits]
    return [name(obj), *words, count(obj, "status", "disruptionsAllowed"), born(obj, now)]


def _scale(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    return [name(obj), count(obj, "spec", "replicas"), count(obj, "status", "replicas"), born(obj, now)]


WORKLOADS = {
    ("autoscaling", "Scale"): Printer(columns("Name|Desired:i|Available:i|Age"), _scale),
    ("apps", "Deployment"): Printer(columns("Name|Ready|Up-to-date|Available|Age", _POD_TEMPLATE), _deployment),
    ("apps", "ReplicaSet"): Printer(columns("Name|Desired:i|Current:i|Ready:i|Age", _POD_TEMPLATE), _replica_set),
    ("", "ReplicationController"): Printer(
        columns("Name|Desired:i|Current:i|Ready:i|Age", _POD_TEMPLATE), _replication_controller
    ),
    ("apps", "DaemonSet"): Printer(
        columns("Name|Desired:i|Current:i|Ready:i|Up-to-date:i|Available:i|Node Selector|Age", _POD_TEMPLATE),
        _daemon_set,
    ),
    ("apps", "StatefulSet"): Printer(columns("Name|Ready|Age", "Containers|Images"), _stateful_set),
    ("batch", "Job"): Printer(columns("Name|Status|Completions|Duration|Age", _POD_TEMPLATE), _job),
    ("batch", "CronJob"): Printer(
        columns("Name|Schedule|Timezone|Suspend:b|Active:i|Last Schedule|Age", _POD_TEMPLATE), _cron_job
    ),
    ("policy", "PodDisruptionBudget"): Printer(
        columns("Name|Min Available|Max Unavailable|Allowed Disruptions:i|Age"), _disruption_budget
    ),
}
