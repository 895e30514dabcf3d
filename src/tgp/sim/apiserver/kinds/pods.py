"""Pods."""

from tgp.sim.apiserver.admission.priority import settle_priority
from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.json_value import Json, at, list_at, mapping_at
from tgp.sim.apiserver.kinds.pod_defaults import default_pod, default_pod_spec, quality_of_service
from tgp.sim.apiserver.kinds.pod_rules import pod_change_problems, pod_spec_problems
from tgp.sim.apiserver.kinds.strategy import Strategy
from tgp.sim.apiserver.problems import forbidden_field
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Cause

TOLERATION_SECONDS = 300  # --default-not-ready-toleration-seconds, and the one for unreachable
LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class PodStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        spec = obj.setdefault("spec", {})
        default_pod_spec(spec)
        default_pod(spec)

    def prepare_create(self, write: Write, obj: Json) -> None:
        spec = obj["spec"]
        settle_priority(write.core, obj)
        _tolerate_lost_nodes(spec)
        _merge_label_keys(obj)
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec["serviceAccount"] = "default"
        obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}
        gates = spec.get("schedulingGates")
        if gates:
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastProbeTime": None,
                    "lastTransitionTime": write.core.now_text(),
                }
            ]

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        found = pod_spec_problems(obj.get("spec"), "spec")
        if at(obj, "spec", "schedulingGates") and at(obj, "spec", "nodeName"):
            found.append(forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
        return found

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        if write.subresource:
            return []
        before, after = at(old, "spec", "nodeName"), at(obj, "spec", "nodeName")
        if before != after:
            why = "pod updates may not change fields other than `spec.containers[*].image`"
            return [forbidden_field("spec", why)]
        return pod_change_problems(old, obj) + pod_spec_problems(mapping_at(obj, "spec"), "spec")


def _tolerate_lost_nodes(spec: Json) -> None:
    """Every pod outlives its node's silence for five minutes, unless it says otherwise."""
    tolerations = list(spec.get("tolerations") or [])
    for key in LOST_NODE_TAINTS:
        if not any(_covers(toleration, key) for toleration in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}
            )
    spec["tolerations"] = tolerations


def _merge_label_keys(pod: Json) -> None:
    """Keys of its own labels that a term names become part of the term's selector; one that is null selects nothing."""
    labels = mapping_at(pod, "metadata", "labels")
    affinity = mapping_at(pod, "spec", "affinity")
    kinds = (mapping_at(affinity, "podAffinity"), mapping_at(affinity, "podAntiAffinity"))
    terms = list_at(pod, "spec", "topologySpreadConstraints")
    for kind in kinds:
        preferred = list_at(kind, "preferredDuringSchedulingIgnoredDuringExecution")
        terms = [*terms, *list_at(kind, "requiredDuringSchedulingIgnoredDuringExecution")]
        terms += [mapping_at(each, "podAffinityTerm") for each in preferred]
    for term in terms:
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            rows = [
                {"key": key, "operator": operator, "values": [labels[key]]}
                for key in term.get(field) or ()
                if key in labels
            ]
            if rows and term.get("labelSelector") is not None:
                selector = term["labelSelector"]
                term["labelSelector"] = {**selector, "matchExpressions": [*selector.get("matchExpressions", ()), *rows]}


def _covers(toleration: Json, key: str) -> bool:
    return toleration.get("key") in {None, "", key} and toleration.get("effect") in {None, "", "NoExecute"}
