"""Pods that wait behind the gate of budgets: how many, and which budgets may hold them."""

from collections.abc import Iterable, Iterator

from tgp.adapters.kube.store import Store
from tgp.api.budget import GPUWorkloadBudget, GPUWorkloadBudgetSpec
from tgp.core.budgets.admission import GATE, GATES, LABEL, LABEL_OF_SEVERAL, OFF, meets, spans
from tgp.core.budgets.quota import spec_problem
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.workload import Namespace

GATED_PODS = "gated"


def by_gate(pod: Pod) -> tuple[str, ...]:
    """The namespaces of pods that wait behind our gate."""
    return (pod.key.namespace,) if GATE in pod.gates and not pod.deleting else ()


class GatedPods:
    """Pods behind our gate, as the view shows them."""

    def __init__(
        self,
        pods: Store[Pod],
        budgets: Store[KubeObject[GPUWorkloadBudget]],
        namespaces: Store[Namespace],
        home: str,  # the operator's namespace
    ) -> None:
        self._pods = pods
        self._budgets = budgets
        self._namespaces = namespaces
        self._home = home

    def of(self, namespace: str) -> list[Pod]:
        return list(self._pods.by_index(GATED_PODS, namespace))

    def of_budget(self, key: ObjectKey, spec: GPUWorkloadBudgetSpec) -> list[Pod]:
        """Those that belong to a budget, and are held by it: also by one that turned to Deny after they were gated."""
        if spec.enforcement.admission == OFF:
            return []
        where = [namespace for namespace in self._pods.filed(GATED_PODS) if self.covers(key, spec, namespace)]
        return [pod for namespace in where for pod in self.of(namespace) if asks(spec, pod)]

    def covers(self, key: ObjectKey, spec: GPUWorkloadBudgetSpec, namespace: str) -> bool:
        """A budget that cannot count covers none: its time zone is unknown, or a tenant would hold pods of others."""
        if spec_problem(spec, key.namespace, self._home) is not None:
            return False
        found = self._namespaces.get(ObjectKey("", namespace))
        return spans(key, spec, namespace, found.labels if found is not None else None)

    def namespaces_of(self, _old: Pod | None, new: Pod | None) -> Iterable[ObjectKey]:
        """Where a pod came that waits."""
        return [ObjectKey("", namespace) for namespace in by_gate(new)] if new is not None else ()

    def budgets_of(self, old: Pod | None, new: Pod | None) -> Iterable[ObjectKey]:
        """Those that have one gated pod more, or one less."""
        before, after = by_gate(old) if old else (), by_gate(new) if new else ()
        if before == after:
            return ()
        (namespace,) = before or after
        return [key for key, spec in self.holders(namespace)]

    def of_changed_budget(
        self, old: KubeObject[GPUWorkloadBudget] | None, new: KubeObject[GPUWorkloadBudget] | None
    ) -> Iterable[ObjectKey]:
        """The namespaces of pods that it may hold, or held until now."""
        several = any(each is not None and _over_several(each) for each in (old, new))
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        where = (*self._pods.filed(GATED_PODS),) if several else (changed.key.namespace,)
        return [ObjectKey("", namespace) for namespace in where]

    def unreadable(self, namespace: str) -> bool:
        """Whether a budget that only a newer version can read gates pods there: its label says so, and not which."""
        return any(
            record.labels.get(label, "").startswith(GATES)
            for record in self._budgets.values()
            for label in ((LABEL, LABEL_OF_SEVERAL) if record.key.namespace == namespace else (LABEL_OF_SEVERAL,))
            if record.value is None
        )

    def holders(self, namespace: str) -> Iterator[tuple[ObjectKey, GPUWorkloadBudgetSpec]]:
        """The budgets that may hold pods of this namespace behind a gate."""
        for record in self._budgets.values():
            if record.value is None or record.deleting or record.value.spec.enforcement.admission == OFF:
                continue
            if self.covers(record.key, record.value.spec, namespace):
                yield record.key, record.value.spec


def asks(spec: GPUWorkloadBudgetSpec, pod: Pod) -> bool:
    """Whether a pod of a namespace that the budget covers belongs to it."""
    return meets(spec, pod.labels, pod.requests.milli)


def _over_several(record: KubeObject[GPUWorkloadBudget]) -> bool:
    return record.value is None or record.value.spec.namespace_selector is not None
