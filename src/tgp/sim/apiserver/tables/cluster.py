"""Rows of everything that is no controller of pods: Nodes, Events, Secrets, Services, access, certificates."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tgp.sim.apiserver.tables.column import Printer, TableColumnSpec, columns
from tgp.sim.apiserver.tables.pods import pod_cells
from tgp.sim.apiserver.tables.text import NONE, UNKNOWN, age, at, born, count, human_duration, name

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def _node(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    info = at(obj, "status", "nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name(obj),
        _node_state(obj),
        ",".join(_roles(obj["metadata"].get("labels") or {})) or NONE,
        born(obj, now),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_state(obj: Mapping[str, Any]) -> str:
    ready = [c for c in at(obj, "status", "conditions") or () if c.get("type") == "Ready"]
    word = "Unknown" if not ready else "Ready" if ready[-1].get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if at(obj, "spec", "unschedulable") else word


def _roles(labels: Mapping[str, str]) -> list[str]:
    named = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return sorted(role for role in {*named, labels.get(_ROLE_LABEL, "")} if role)


def _address(obj: Mapping[str, Any], kind: str) -> str:
    found = (entry.get("address") for entry in at(obj, "status", "addresses") or () if entry.get("type") == kind)
    return next(found, None) or NONE


def _event(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    """Either group's form: events.k8s.io renamed the fields of the core group and kept the old ones as deprecated."""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    first_at = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last_at = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first_at
    times = count(obj, "count") or count(obj, "deprecatedCount") or 1
    if series := obj.get("series"):
        last_at, times = series.get("lastObservedTime"), count(series, "count")
    kind = str(about.get("kind", "")).lower()
    who = [
        source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or "",
        source.get("host") or obj.get("reportingInstance") or "",
    ]
    return [
        age(last_at, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        ", ".join(who) if who[1] else who[0],
        str(obj.get("message") or obj.get("note") or "").strip(),
        age(first_at, now),
        times,
        name(obj),
    ]


def _namespace(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    return [name(obj), at(obj, "status", "phase") or "", born(obj, now)]


def _secret(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    return [name(obj), obj.get("type", ""), len(obj.get("data") or {}), born(obj, now)]


def _config_map(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    return [name(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), born(obj, now)]


def _name_and_age(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    return [name(obj), born(obj, now)]


def _lease(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    return [name(obj), at(obj, "spec", "holderIdentity") or "", born(obj, now)]


def _binding(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    role = obj.get("roleRef") or {}
    subjects = obj.get("subjects") or ()
    users = [s.get("name", "") for s in subjects if s.get("kind") == "User"]
    groups = [s.get("name", "") for s in subjects if s.get("kind") == "Group"]
    accounts = [f"{s.get('namespace', '')}/{s.get('name', '')}" for s in subjects if s.get("kind") == "ServiceAccount"]
    cells = [name(obj), f"{role.get('kind', '')}/{role.get('name', '')}", born(obj, now)]
    return [*cells, ", ".join(users), ", ".join(groups), ", ".join(accounts)]


def _signing_request(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    seconds = spec.get("expirationSeconds")
    length = NONE if seconds is None else human_duration(timedelta(seconds=seconds))
    cells = [name(obj), born(obj, now), spec.get("signerName") or NONE, spec.get("username", "")]
    return [*cells, length, _signing_state(obj.get("status") or {})]


def _signing_state(status: Mapping[str, Any]) -> str:
    types = {condition.get("type") for condition in status.get("conditions") or ()}
    word = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    return word + (",Failed" if "Failed" in types else "") + (",Issued" if status.get("certificate") else "")


def _priority_class(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    cells = [name(obj), count(obj, "value"), bool(obj.get("globalDefault")), born(obj, now)]
    return [*cells, obj.get("preemptionPolicy") or ""]


def _runtime_class(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    return [name(obj), obj.get("handler", ""), born(obj, now)]


def _webhooks(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    return [name(obj), len(obj.get("webhooks") or ()), born(obj, now)]


def _revision(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    owner = next((o for o in obj["metadata"].get("ownerReferences") or () if o.get("controller")), None)
    group = str(owner["apiVersion"]).rpartition("/")[0] if owner else ""
    text = f"{owner['kind'].lower()}{'.' if group else ''}{group}/{owner['name']}" if owner else NONE
    return [name(obj), text, count(obj, "revision"), born(obj, now)]


def _quota(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    hard, used = at(obj, "status", "hard") or {}, at(obj, "status", "used") or {}
    lines = [(resource, f"{resource}: {used.get(resource, '0')}/{hard[resource]}") for resource in sorted(hard)]
    requests = ", ".join(text for resource, text in lines if not resource.startswith("limits."))
    limits = ", ".join(text for resource, text in lines if resource.startswith("limits."))
    return [name(obj), requests, limits, born(obj, now)]


def _api_service(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    service = at(obj, "spec", "service")
    where = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    conditions = at(obj, "status", "conditions") or ()
    found: Mapping[str, Any] = next((c for c in conditions if c.get("type") == "Available"), {})
    word = found.get("status", "Unknown")
    if word != "True" and found.get("reason"):
        word = f"{word} ({found['reason']})"
    return [name(obj), where, word, born(obj, now)]


_EVENT_COLUMNS = (
    *columns("Last Seen|Type|Reason|Object"),
    *columns("", "Subobject|Source"),
    TableColumnSpec("Message"),
    *columns("", "First Seen|Count|Name"),
)
_BINDING_COLUMNS = columns("Name|Role|Age", "Users|Groups|ServiceAccounts")

CLUSTER = {
    ("", "Pod"): Printer(
        columns("Name|Ready|Status|Restarts|Age", "IP|Node|Nominated Node|Readiness Gates"), pod_cells
    ),
    ("", "Node"): Printer(
        columns("Name|Status|Roles|Age|Version", "Internal-IP|External-IP|OS-Image|Kernel-Version|Container-Runtime"),
        _node,
    ),
    ("", "Event"): Printer(_EVENT_COLUMNS, _event),
    ("events.k8s.io", "Event"): Printer(_EVENT_COLUMNS, _event),
    ("", "Namespace"): Printer(columns("Name|Status|Age"), _namespace),
    ("", "Secret"): Printer(columns("Name|Type|Data|Age"), _secret),
    ("", "ConfigMap"): Printer(columns("Name|Data|Age"), _config_map),
    ("", "ServiceAccount"): Printer(columns("Name|Age"), _name_and_age),
    ("coordination.k8s.io", "Lease"): Printer(columns("Name|Holder|Age"), _lease),
    ("rbac.authorization.k8s.io", "RoleBinding"): Printer(_BINDING_COLUMNS, _binding),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): Printer(_BINDING_COLUMNS, _binding),
    ("certificates.k8s.io", "CertificateSigningRequest"): Printer(
        columns("Name|Age|SignerName|Requestor|RequestedDuration|Condition"), _signing_request
    ),
    ("scheduling.k8s.io", "PriorityClass"): Printer(
        columns("Name|Value:i|Global-Default:b|Age|PreemptionPolicy"), _priority_class
    ),
    ("node.k8s.io", "RuntimeClass"): Printer(columns("Name|Handler|Age"), _runtime_class),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): Printer(
        columns("Name|Webhooks:i|Age"), _webhooks
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): Printer(
        columns("Name|Webhooks:i|Age"), _webhooks
    ),
    ("apps", "ControllerRevision"): Printer(columns("Name|Controller|Revision|Age"), _revision),
    ("", "ResourceQuota"): Printer(columns("Name|Request|Limit|Age"), _quota),
    ("apiregistration.k8s.io", "APIService"): Printer(columns("Name|Service|Available|Age"), _api_service),
}
