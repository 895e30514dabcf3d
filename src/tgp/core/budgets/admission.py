"""What budgets say about a pod that is being created: the same as the chart's policies let the API server say.

A budget speaks at admission only while the operator has set a label on it: every labelled budget costs the creation of
every pod of its namespace some time.
"""

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from tgp.api.budget import GPUWorkloadBudget, GPUWorkloadBudgetSpec
from tgp.api.values import rfc3339
from tgp.core.budgets.belonging import covers, selector_of
from tgp.core.budgets.weights import weights_of
from tgp.core.classes.rights import APPLY_RIGHTS
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text

LABEL = "tgp.io/admission"  # on a budget: what it has to say now about pods of its namespace
LABEL_OF_SEVERAL = "tgp.io/admission-of-namespaces"  # the same, where spec.namespaceSelector says of which
GATE = "tgp.io/budget"  # the scheduling gate behind which pods wait
OFF, GATES, DENIES, EXACT = "Off", "Gate", "Deny", "Exact"
STOPPING = ("Evict", "Pause")  # actions that stop pods
EXCEEDED = "QuotaExceeded"
NO_HOURS = "no GPU-hours become available while its pods run"

# The policies that make it so, each with a binding of the same name, and one for budgets over several namespaces.
DENY_POLICY, GATE_POLICY, EXACT_POLICY = "tgp-budgets-deny", "tgp-budgets-gate", "tgp-budgets-exact"
OF_SEVERAL = "-namespaces"


class NewPod(msgspec.Struct, frozen=True):
    """A pod that is being created, after defaults."""

    namespace: str
    labels: Mapping[str, str]
    milli: Mapping[str, int]  # by resource: what it requests, at least where that is more than nothing
    namespace_labels: Mapping[str, str] = {}
    placed: bool = False  # its manifest names a Node: the scheduler will not look at it, so no gate can hold it


class Admission(msgspec.Struct, frozen=True):
    refusals: tuple[str, ...] = ()  # one for each budget that denies it
    gated: bool = False
    counted: bool = False


def label_of(spec: GPUWorkloadBudgetSpec, *, exceeded: bool, exact: bool) -> str | None:
    """The value of the label; None: the budget has nothing to say. `exact`: finished pods are held until counted."""
    said = [spec.enforcement.admission] if exceeded and spec.enforcement.admission != OFF else []
    if exact:
        said.append(EXACT)
    return "-".join(said) or None


def label_key(spec: GPUWorkloadBudgetSpec) -> str:
    return LABEL if spec.namespace_selector is None else LABEL_OF_SEVERAL


def binding_of(policy: str, *, several: bool) -> str:
    """`several`: of budgets over several namespaces."""
    return policy + OF_SEVERAL if several else policy


def meets(spec: GPUWorkloadBudgetSpec, labels: Mapping[str, str], milli: Callable[[str], int]) -> bool:
    """Whether a pod belongs to a budget that covers its namespace. `milli`: what it requests of a resource."""
    asks = any(milli(resource) > 0 for resource in weights_of(spec).resources)
    return asks and selector_of(spec.selector).selects(labels)


def spans(key: ObjectKey, spec: GPUWorkloadBudgetSpec, namespace: str, labels: Mapping[str, str] | None) -> bool:
    """Whether a budget covers pods of this namespace."""
    several = selector_of(spec.namespace_selector) if spec.namespace_selector is not None else None
    return covers(key.namespace, several, namespace, labels)


def closed(budget: GPUWorkloadBudget) -> bool:
    """As its status says: used up, until enough of the window has passed."""
    return any(each.type == EXCEEDED and each.status == "True" for each in budget.status.conditions)


def counts(budget: GPUWorkloadBudget) -> bool:
    """As its status says: False where its spec cannot be counted by, and what it said before holds no longer."""
    return not any(each.type == "Ready" and each.status == "False" for each in budget.status.conditions)


def stops_pods(budget: GPUWorkloadBudget) -> bool:
    """Whether pods of it would be stopped, or not start: it is used up, and does more than to report that."""
    rules = budget.spec.enforcement
    return closed(budget) and counts(budget) and (rules.action in STOPPING or rules.admission != OFF)


def bought_nothing_for(
    pods: Iterable[Pod],
    budgets: Iterable[tuple[ObjectKey, GPUWorkloadBudget]],
    namespaces: Mapping[str, Mapping[str, str]],
) -> dict[str, str]:
    """By uid: why no machine is bought for a pod that waits. What is bought now would be evicted as it starts.

    `namespaces`: their labels, by name.
    """
    stopping = [(key, budget) for key, budget in budgets if stops_pods(budget)]
    found: dict[str, str] = {}
    for pod in pods if stopping else ():
        for key, budget in stopping:
            labels = namespaces.get(pod.key.namespace)
            covered = spans(key, budget.spec, pod.key.namespace, labels)
            if covered and meets(budget.spec, pod.labels, pod.requests.milli):
                why = f"budget {used_up(key, budget)}. No machine is bought for the pod until hours are back"
                found.setdefault(uid_text(pod.uid), why)
    return found


def admit(pod: NewPod, budgets: Iterable[tuple[ObjectKey, GPUWorkloadBudget]]) -> Admission:
    """`budgets`: those of the pod's namespace and of the operator's. Only those with the label have a say."""
    refusals, gated, counted = [], False, False
    for key, budget in budgets:
        spec = budget.spec
        if not spans(key, spec, pod.namespace, pod.namespace_labels):
            continue
        if not meets(spec, pod.labels, lambda resource: pod.milli.get(resource, 0)):
            continue
        said = budget.metadata.labels.get(label_key(spec), "").split("-")
        if DENIES in said and spec.enforcement.admission == DENIES and closed(budget):
            refusals.append(refusal(key, budget))
        if GATES in said and spec.enforcement.admission == GATES and closed(budget):
            gated = gated or not pod.placed
        counted = counted or (EXACT in said and spec.accounting == EXACT)
    return Admission(tuple(refusals), gated, counted)


def refusal(key: ObjectKey, budget: GPUWorkloadBudget) -> str:
    return f"budget {used_up(key, budget)}. Next: tgp why budget/{key}"


def used_up(key: ObjectKey, budget: GPUWorkloadBudget) -> str:
    status, quota = budget.status, budget.spec.quota
    hours = quota.gpu_hours if status.quota_gpu_hours is None else status.quota_gpu_hours  # with those on top
    dollars = f", ${status.consumed_usd} of ${quota.usd}" if None not in (status.consumed_usd, quota.usd) else ""
    used = f" ({status.consumed_gpu_hours} of {hours} GPU-hours{dollars})"
    back = (
        f"GPU-hours become available at {rfc3339(status.next_change_at)}"
        if status.next_change_at is not None
        else NO_HOURS
    )
    return f"{key} is used up{used if status.consumed_gpu_hours is not None else ''}: {back}"


def waits_for(holders: Iterable[tuple[ObjectKey, GPUWorkloadBudget]]) -> str:
    """What a pod behind the gate waits for. `holders`: the budgets with admission Gate that it belongs to."""
    told = [
        used_up(key, budget) if closed(budget) else f"{key} has hours left: waiting pods start one by one"
        for key, budget in holders
    ]
    if not told:
        return f"the operator to remove gate {GATE}; no budget blocks the pod now"
    return f"hours of its budget: {'; '.join(told)}. Until then no machine is bought for the pod"


# -- where it cannot work ----------------------------------------------------------------------------------------------

NEEDS = {DENIES: (1, 30), GATES: (1, 36)}
APPLY = "kubectl apply -f deploy/policies.yaml"


class PolicyState(msgspec.Struct, frozen=True):
    """What the API server answered when asked for the policies of an admission. All empty: they are there."""

    missing: str = ""  # the first that is not there, as "kind name"
    version: str = ""  # of the API server, where one is missing
    forbidden: str = ""  # the first that we may not read


def unavailable(admission: str, state: PolicyState) -> str:
    """Why new pods are not refused or gated, and what to do; empty: they are."""
    if state.forbidden:
        return f"The operator may not read {state.forbidden}. Next: {APPLY_RIGHTS}"
    if not state.missing:
        return ""
    effect = "refused" if admission == DENIES else "gated"
    major, minor = NEEDS[admission]
    if minor_of(state.version) < (major, minor):
        instead = " Next: use admission Deny, or Off." if admission == GATES else " Next: use admission Off."
        if minor_of(state.version) < NEEDS[DENIES]:
            instead = " Next: use admission Off."
        return (
            f"New pods are not {effect}: admission {admission} needs Kubernetes {major}.{minor}; this cluster runs "
            f"{state.version}. Pods are still counted and enforced.{instead}"
        )
    return (
        f"New pods are not {effect}: {state.missing} is not installed. Pods are still counted and enforced. "
        f"Next: {APPLY}"
    )


def minor_of(version: str) -> tuple[int, int]:
    """Of v1.36.3: 1 and 36. What cannot be read is new enough."""
    found = _VERSION.match(version)
    return (int(found[1]), int(found[2])) if found is not None else (1, 1000)


_VERSION = re.compile(r"v?(\d+)\.(\d+)")
