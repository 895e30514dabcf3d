"""Which strategy a kind has."""

from tgp.sim.apiserver.kinds.access import RBAC_GROUP, BindingStrategy, RoleStrategy
from tgp.sim.apiserver.kinds.cluster import (
    DisruptionBudgetStrategy,
    EventStrategy,
    LeaseStrategy,
    NamespaceStrategy,
    NodeStrategy,
    PriorityClassStrategy,
)
from tgp.sim.apiserver.kinds.configuration import ConfigMapStrategy, SecretStrategy
from tgp.sim.apiserver.kinds.custom import CustomStrategy
from tgp.sim.apiserver.kinds.definition_rules import DefinitionStrategy
from tgp.sim.apiserver.kinds.pods import PodStrategy
from tgp.sim.apiserver.kinds.services import ClaimStrategy, LimitRangeStrategy, ServiceStrategy, StorageClassStrategy
from tgp.sim.apiserver.kinds.signing import SigningStrategy
from tgp.sim.apiserver.kinds.strategy import Strategy
from tgp.sim.apiserver.kinds.workloads import CronJobStrategy, JobStrategy, WorkloadStrategy
from tgp.sim.apiserver.registry import Served

ORDINARY = Strategy()
CUSTOM = CustomStrategy()
WORKLOAD = WorkloadStrategy()
EVENT = EventStrategy()
ROLE = RoleStrategy()
BINDING = BindingStrategy()

STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("", "ConfigMap"): ConfigMapStrategy(),
    ("", "Event"): EVENT,
    ("events.k8s.io", "Event"): EVENT,
    ("", "LimitRange"): LimitRangeStrategy(),
    ("", "Namespace"): NamespaceStrategy(),
    ("", "Node"): NodeStrategy(),
    ("", "Pod"): PodStrategy(),
    ("", "PersistentVolumeClaim"): ClaimStrategy(),
    ("", "Secret"): SecretStrategy(),
    ("", "Service"): ServiceStrategy(),
    ("apps", "DaemonSet"): WORKLOAD,
    ("apps", "Deployment"): WORKLOAD,
    ("apps", "ReplicaSet"): WORKLOAD,
    ("apps", "StatefulSet"): WORKLOAD,
    ("batch", "CronJob"): CronJobStrategy(),
    ("batch", "Job"): JobStrategy(),
    ("coordination.k8s.io", "Lease"): LeaseStrategy(),
    ("policy", "PodDisruptionBudget"): DisruptionBudgetStrategy(),
    ("scheduling.k8s.io", "PriorityClass"): PriorityClassStrategy(),
    ("storage.k8s.io", "StorageClass"): StorageClassStrategy(),
    ("certificates.k8s.io", "CertificateSigningRequest"): SigningStrategy(),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): DefinitionStrategy(),
    (RBAC_GROUP, "ClusterRole"): ROLE,
    (RBAC_GROUP, "Role"): ROLE,
    (RBAC_GROUP, "ClusterRoleBinding"): BINDING,
    (RBAC_GROUP, "RoleBinding"): BINDING,
}


def strategy_for(served: Served) -> Strategy:
    return CUSTOM if served.custom else STRATEGIES.get((served.group, served.kind), ORDINARY)
