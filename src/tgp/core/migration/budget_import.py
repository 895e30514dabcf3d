"""Budgets of budget.zxuhan.dev: the same spec under tgp's own kind."""

from tgp.api.resource import GPU_WORKLOAD_BUDGET, LEGACY_BUDGET
from tgp.core.migration.field_notes import FieldOutcome, ManifestDraft


def convert_budget(draft: ManifestDraft) -> None:
    name = draft.find("metadata.name")
    namespace = draft.find("metadata.namespace")
    draft.put("apiVersion", GPU_WORKLOAD_BUDGET.api_version)
    draft.note(
        "apiVersion",
        FieldOutcome.CHANGED,
        f"is now {GPU_WORKLOAD_BUDGET.api_version}. Where the old kind is still served, delete the old object first: "
        f"kubectl delete {LEGACY_BUDGET.plural}.{LEGACY_BUDGET.group} {name} -n {namespace}",
    )
    draft.note(
        "spec.quota",
        FieldOutcome.CHANGED,
        "hours of pods that were deleted stay counted until they leave the window; before, a deleted pod was refunded. "
        "The account begins with the pods that exist when the budget is created.",
    )
    action = draft.find("spec.enforcement.action")
    seconds = draft.find("spec.enforcement.gracePeriodSeconds")
    if action == "Evict":
        draft.note(
            "spec.enforcement.gracePeriodSeconds",
            FieldOutcome.CHANGED,
            "is only the time over quota before pods are evicted. An evicted pod gets its own termination grace; for "
            f"the former behaviour set podGracePeriodSeconds: {seconds if seconds is not None else 30}.",
        )
    if action == "Pause":
        draft.note(
            "spec.enforcement.action",
            FieldOutcome.CHANGED,
            "Pause suspends Jobs and resumes them when hours are left; before, it only wrote an annotation.",
        )
