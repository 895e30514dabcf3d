"""The objects of a new cluster."""

from tgp.api.resource import NAMESPACE, Resource
from tgp.sim.apiserver.bootstrap_roles import cluster_role_bindings, cluster_roles
from tgp.sim.apiserver.core import Ask, Core, Write
from tgp.sim.apiserver.identity import LOOPBACK
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.options import WriteOptions
from tgp.sim.apiserver.verbs.create import create

NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")
RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLE = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDING = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
CRITICAL: tuple[Json, ...] = (
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2_000_000_000,
        "description": "For pods the cluster cannot do without; they may move to another node.",
    },
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2_000_001_000,
        "description": "For pods a node cannot do without; they may not move.",
    },
)


def stock(core: Core) -> None:
    def put(resource: Resource, manifest: Json) -> None:
        options = WriteOptions(manager="kube-apiserver")
        create(Write(core, core.registry.of(resource), Ask(LOOPBACK), options=options), manifest)

    for name in NAMESPACES:
        put(NAMESPACE, {"metadata": {"name": name}})
    for role in cluster_roles():
        put(CLUSTER_ROLE, role)
    for binding in cluster_role_bindings():
        put(CLUSTER_ROLE_BINDING, binding)
    for priority in CRITICAL:
        put(PRIORITY_CLASS, priority)
