"""Indexes of pools by class, of pods that wait for GPUs, and of requests by pool."""

from tgp.api.nodepool import GPUNodePool
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.pod import Pod
from tgp.core.pools.demand import asks_for_gpus

BY_CLASS = "class"
WAITING_PODS = "waiting"
YES = "yes"


def by_class(record: KubeObject[GPUNodePool]) -> tuple[str, ...]:
    """The class that a pool names."""
    return (record.value.spec.node_class_ref.name,) if record.value is not None else ()


def by_waiting(pod: Pod) -> tuple[str, ...]:
    return (YES,) if asks_for_gpus(pod) else ()
