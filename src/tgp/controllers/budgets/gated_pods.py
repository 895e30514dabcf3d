"""Pods that wait behind the gate of budgets: how many, and which budgets may hold them."""

from collections.abc import Iterable, Iterator

from tgp.adapters.kube.store import Store
from tgp.api.budget import GPUWorkloadBudget, GPUWorkloadBudgetSpec
from tgp.core.budgets.admission import GATE, GATES, meets
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod

GATED_PODS = "gated"


def by_gate(pod: Pod) -> tuple[str, ...]:
    """The namespaces of pods that wait behind our gate."""
    return (pod.key.namespace,) if GATE in pod.gates and not pod.deleting else ()


class GatedPods:
    """Pods behind our gate, as the view shows them."""

    def __init__(self, pods: Store[Pod], budgets: Store[KubeObject[GPUWorkloadBudget]]) -> None:
        self._pods = pods
        self._budgets = budgets

    def of(self, namespace: str) -> list[Pod]:
        return list(self._pods.by_index(GATED_PODS, namespace))

    def count(self, namespace: str, spec: GPUWorkloadBudgetSpec) -> int:
        """How many of them belong to a budget."""
        if spec.enforcement.admission != GATES:
            return 0
        return sum(belongs(spec, pod) for pod in self.of(namespace))

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

    def unreadable(self, namespace: str) -> bool:
        """Whether a budget there was written by a newer version: which pods it holds is not known."""
        return any(record.value is None for record in self._budgets.values() if record.key.namespace == namespace)

    def holders(self, namespace: str) -> Iterator[tuple[ObjectKey, GPUWorkloadBudgetSpec]]:
        """The budgets that may hold pods behind a gate."""
        for record in self._budgets.values():
            if record.key.namespace != namespace or record.value is None or record.deleting:
                continue
            if record.value.spec.enforcement.admission == GATES:
                yield record.key, record.value.spec


def belongs(spec: GPUWorkloadBudgetSpec, pod: Pod) -> bool:
    return meets(spec, pod.labels, pod.requests.milli(spec.gpu_resource_name))
