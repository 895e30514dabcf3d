"""The eviction subresource: a delete that asks the pod's disruption budget first."""

from dataclasses import replace

from tgp.sim.apiserver.core import Core, Write
from tgp.sim.apiserver.json_value import Json, copied, list_at, mapping_at
from tgp.sim.apiserver.options import DeleteOptions, WriteOptions, delete_options_from
from tgp.sim.apiserver.selectors import from_label_selector
from tgp.sim.apiserver.status_errors import Cause, Failure, bad_request, forbidden, invalid, not_found
from tgp.sim.apiserver.verbs.delete import delete
from tgp.sim.apiserver.verbs.update import change

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
TOO_MANY = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
MAX_DISRUPTED_PODS = 2000  # unconfirmed evictions a budget remembers
PROCESSING_RETRY_SECONDS = 10
PDB_STORAGE = "poddisruptionbudgets.policy"


def evict(write: Write, sent: Json) -> Json:
    """Evict the pod; returns the Status of the answer (HTTP 201 whatever it says), or raises a refusal."""
    if mapping_at(sent, "metadata").get("name") != write.name:
        raise bad_request("name in URL does not match name in Eviction object")
    wanted = _delete_options(sent, write.options)
    existing = write.existing()
    if existing is None:
        raise not_found("", "pods", write.name)
    pod = existing.obj
    if not may_ignore_budget(pod):
        budgets = budgets_of(write.core, pod)
        if len(budgets) > 1:
            return {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": TOO_MANY,
                "code": 500,
            }
        if budgets and not _is_free(budgets[0], pod):
            _spend(write, budgets[0], dry_run=wanted.dry_run)
    _mark_and_delete(write, pod, wanted)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _delete_options(sent: Json, options: WriteOptions) -> DeleteOptions:
    problems: list[Cause] = []
    asked = sent.get("deleteOptions") or {}
    if not isinstance(asked, dict):
        raise bad_request("json: cannot unmarshal into Go struct field Eviction.deleteOptions of type v1.DeleteOptions")
    wanted = delete_options_from(asked, problems)
    if problems:
        raise invalid("meta.k8s.io", "DeleteOptions", "", problems)
    return replace(wanted, dry_run=wanted.dry_run or options.dry_run)


def may_ignore_budget(pod: Json) -> bool:
    """A pod that has ended, has not begun or is being deleted can be evicted without disruption."""
    phase = mapping_at(pod, "status").get("phase")
    return phase in {"Succeeded", "Failed", "Pending"} or "deletionTimestamp" in pod["metadata"]


def budgets_of(core: Core, pod: Json) -> list[Json]:
    labels = mapping_at(pod, "metadata", "labels")
    return [
        record.obj
        for _, record in core.store.kind_storage(PDB_STORAGE).range(pod["metadata"]["namespace"])
        if from_label_selector(mapping_at(record.obj, "spec").get("selector")).matches(labels)
    ]


def is_ready(pod: Json) -> bool:
    return any(
        row.get("type") == "Ready" and row.get("status") == "True" for row in list_at(pod, "status", "conditions")
    )


def _is_free(budget: Json, pod: Json) -> bool:
    """An unhealthy pod may go without being counted, if its budget reports it or is satisfied without it."""
    if is_ready(pod):
        return False
    if mapping_at(budget, "spec").get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = mapping_at(budget, "status")
    desired = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)


def _spend(write: Write, budget: Json, *, dry_run: bool) -> None:
    """Take one disruption from the budget, or refuse."""
    check_budget_allows(budget)
    if dry_run:
        return
    core = write.core
    served = core.registry.find("policy", "v1", "poddisruptionbudgets")
    assert served is not None, "a built-in kind"
    meta = budget["metadata"]

    def make(live: Json | None) -> Json:
        obj: Json = copied(live)
        status = obj["status"]
        status["disruptionsAllowed"] -= 1
        status.setdefault("disruptedPods", {})[write.name] = core.now_text()
        if status["disruptionsAllowed"] == 0:
            _tell_exhausted(status, meta.get("generation", 0), core.now_text())
        return obj

    change(Write(core, served, write.ask, meta["namespace"], meta["name"], "status"), make)


def _tell_exhausted(status: Json, generation: int, now: str) -> None:
    row: Json = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": generation,
        "lastTransitionTime": now,
    }
    rest = [known for known in status.get("conditions") or [] if known.get("type") != "DisruptionAllowed"]
    status["conditions"] = [*rest, row]


def check_budget_allows(budget: Json) -> None:
    status, meta = mapping_at(budget, "status"), budget["metadata"]
    name = meta["name"]
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        text = f"The disruption budget {name} is still being processed by the server."
        raise _blocked(text, PROCESSING_RETRY_SECONDS)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden("policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("policy", "poddisruptionbudget", name, why)
    if allowed == 0:
        raise _blocked(_why_blocked(name, status), 0)


def _why_blocked(name: str, status: Json) -> str:
    row: Json = next((c for c in list_at(status, "conditions") if c.get("type") == "DisruptionAllowed"), {})
    said = row.get("message", "") if row.get("status") == "False" else ""
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    if said and row.get("reason") == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {said}"
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    if said:
        return f"The disruption budget {name} does not allow evicting pods currently ({row.get('reason')}): {said}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _blocked(text: str, retry_seconds: int) -> Failure:
    details: Json = {"causes": [Cause("DisruptionBudget", text).as_json()]}
    if retry_seconds:
        details["retryAfterSeconds"] = retry_seconds
        return Failure(429, "TooManyRequests", REFUSED, details, (("Retry-After", str(retry_seconds)),))
    return Failure(429, "TooManyRequests", REFUSED, details)


def _mark_and_delete(write: Write, pod: Json, wanted: DeleteOptions) -> None:
    """Leave on the pod why it goes, then delete it under the caller's preconditions."""
    core, served, meta = write.core, write.served, pod["metadata"]
    core.semantics.check_precondition(served, pod, wanted)
    if wanted.dry_run or "deletionTimestamp" in meta:
        delete(core, served, meta["namespace"], meta["name"], wanted)
        return

    def make(live: Json | None) -> Json:
        obj: Json = copied(live)
        status = obj.setdefault("status", {})
        row: Json = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": None,
            "lastTransitionTime": core.now_text(),
        }
        rest = [known for known in status.get("conditions") or [] if known.get("type") != "DisruptionTarget"]
        status["conditions"] = [*rest, row]
        return obj

    marked = change(Write(core, served, write.ask, write.namespace, write.name, "status"), make).record
    version = str(marked.revision) if wanted.resource_version is not None else None
    delete(core, served, meta["namespace"], meta["name"], replace(wanted, resource_version=version))
