"""Indexes of pools by class, and of pods: those that wait for GPUs, and those of a gang."""

from tgp.api.nodepool import GPUNodePool
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.pod import Pod
from tgp.core.pools.demand import asks_for_gpus
from tgp.core.pools.planner.classes import gang_name

BY_CLASS = "class"
WAITING_PODS = "waiting"
GANG_PODS = "gang"
YES = "yes"


def by_class(record: KubeObject[GPUNodePool]) -> tuple[str, ...]:
    """The class that a pool names."""
    return (record.value.spec.node_class_ref.name,) if record.value is not None else ()


def by_waiting(pod: Pod) -> tuple[str, ...]:
    return (YES,) if asks_for_gpus(pod) else ()


def by_gang(pod: Pod) -> tuple[str, ...]:
    gang = gang_name(pod)
    return (gang,) if gang else ()
