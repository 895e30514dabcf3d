"""Deployments, ReplicaSets, DaemonSets, StatefulSets, Jobs and CronJobs: defaults and the rules of their selectors."""

from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.json_value import Json, at, mapping_at, same
from tgp.sim.apiserver.kinds.pod_defaults import default_pod_spec
from tgp.sim.apiserver.kinds.pod_rules import pod_spec_problems
from tgp.sim.apiserver.kinds.strategy import Strategy
from tgp.sim.apiserver.problems import invalid_value, not_supported, required
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.selectors import from_label_selector
from tgp.sim.apiserver.status_errors import Cause

REVISIONS = 10
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
IMMUTABLE = "field is immutable"


def _spec(obj: Json) -> Json:
    found = obj.setdefault("spec", {})
    return found if isinstance(found, dict) else {}


def _default_template(spec: Json) -> None:
    template = spec.get("template")
    if isinstance(template, dict):
        default_pod_spec(template.setdefault("spec", {}))


class WorkloadStrategy(Strategy):
    """Owners of pods by selector."""

    def default(self, served: Served, obj: Json) -> None:
        spec = _spec(obj)
        _default_template(spec)
        match served.kind:
            case "Deployment":
                _default_deployment(spec)
            case "DaemonSet":
                _default_daemon_set(spec)
                obj["metadata"].setdefault("annotations", {}).setdefault(TEMPLATE_GENERATION, "1")
            case "StatefulSet":
                _default_stateful_set(spec)
            case "ReplicaSet":
                spec.setdefault("replicas", 1)

    def prepare_update(self, write: Write, obj: Json, old: Json) -> None:
        if write.served.kind == "DaemonSet" and not write.subresource:
            count = int(mapping_at(old, "metadata", "annotations").get(TEMPLATE_GENERATION, "1"))
            count += not same(at(old, "spec", "template"), at(obj, "spec", "template"))
            obj["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = str(count)

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        return self._spec_problems(obj)

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        if write.subresource:
            return []
        found = self._spec_problems(obj)
        if not same(at(old, "spec", "selector"), at(obj, "spec", "selector")):
            found.append(invalid_value("spec.selector", at(obj, "spec", "selector"), IMMUTABLE))
        return found

    def _spec_problems(self, obj: Json) -> list[Cause]:
        spec = mapping_at(obj, "spec")
        found: list[Cause] = []
        replicas = spec.get("replicas", 0)
        if isinstance(replicas, int) and replicas < 0:
            found.append(invalid_value("spec.replicas", replicas, "must be greater than or equal to 0"))
        selector = spec.get("selector")
        if selector is None:
            found.append(required("spec.selector"))
        elif not selector:
            found.append(invalid_value("spec.selector", selector, "empty selector is invalid for deployment"))
        labels = mapping_at(spec, "template", "metadata", "labels")
        if selector and not from_label_selector(selector).matches(labels):
            why = "`selector` does not match template `labels`"
            found.append(invalid_value("spec.template.metadata.labels", labels, why))
        found += pod_spec_problems(mapping_at(spec, "template", "spec"), "spec.template.spec")
        policy = at(spec, "template", "spec", "restartPolicy")
        if policy in {"OnFailure", "Never"}:
            found.append(not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
        return found


def _default_deployment(spec: Json) -> None:
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", REVISIONS)
    spec.setdefault("progressDeadlineSeconds", 600)


def _default_daemon_set(spec: Json) -> None:
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", REVISIONS)


def _default_stateful_set(spec: Json) -> None:
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("revisionHistoryLimit", REVISIONS)
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})


class JobStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        default_job_spec(_spec(obj))

    def prepare_create(self, write: Write, obj: Json) -> None:
        super().prepare_create(write, obj)
        _give_selector(obj)

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        return job_spec_problems(mapping_at(obj, "spec"), "spec")

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        if write.subresource:
            return []
        found = job_spec_problems(mapping_at(obj, "spec"), "spec")
        for name in ("selector", "completions", "completionMode", "podFailurePolicy"):
            if not same(at(old, "spec", name), at(obj, "spec", name)):
                found.append(invalid_value(f"spec.{name}", at(obj, "spec", name), IMMUTABLE))
        if not same(at(old, "spec", "template"), at(obj, "spec", "template")) and not _may_change_template(old):
            found.append(invalid_value("spec.template", at(obj, "spec", "template"), IMMUTABLE))
        return found


def default_job_spec(spec: Json) -> None:
    _default_template(spec)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")


def job_spec_problems(spec: Json, path: str) -> list[Cause]:
    found = pod_spec_problems(mapping_at(spec, "template", "spec"), f"{path}.template.spec")
    policy = at(spec, "template", "spec", "restartPolicy")
    if policy == "Always":
        found.append(
            Cause(
                "FieldValueRequired",
                'Required value: valid values: "OnFailure", "Never"',
                f"{path}.template.spec.restartPolicy",
            )
        )
    for name in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        value = spec.get(name, 0)
        if isinstance(value, int) and value < 0:
            found.append(invalid_value(f"{path}.{name}", value, "must be greater than or equal to 0"))
    return found


def _may_change_template(old: Json) -> bool:
    return bool(at(old, "spec", "suspend")) and not at(old, "status", "startTime")


def _give_selector(obj: Json) -> None:
    """A job finds its pods by its own uid, so that two jobs of one name never share any."""
    spec, meta = obj["spec"], obj["metadata"]
    if spec.get("manualSelector"):
        return
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    unlabelled = not meta.get("labels")
    for prefix in ("", "batch.kubernetes.io/"):
        labels[f"{prefix}controller-uid"] = meta["uid"]
        labels[f"{prefix}job-name"] = meta.get("name", "")
    if not meta.get("labels"):
        meta["labels"] = dict(labels)
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": meta["uid"]}}
    if unlabelled:
        meta["labels"] = dict(labels)  # the real server fills them in whenever it reads the job


class CronJobStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        spec = _spec(obj)
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        inner = mapping_at(spec, "jobTemplate", "spec")
        if inner:
            _default_template(inner)

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        spec = mapping_at(obj, "spec")
        found = [] if spec.get("schedule") else [required("spec.schedule")]
        return found + job_spec_problems(mapping_at(spec, "jobTemplate", "spec"), "spec.jobTemplate.spec")
