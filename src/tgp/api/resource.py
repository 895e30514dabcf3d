"""Where a kind lives on the API server: group, version, plural; and the paths that follow from it."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    group: str  # empty: the core group
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The collection (of one namespace, or all), or one object, or a part of one."""
        assert self.namespaced or not namespace, f"{self.kind} has no namespace"
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


POD = Resource("", "v1", "pods", "Pod", namespaced=True)
NODE = Resource("", "v1", "nodes", "Node", namespaced=False)
SERVICE = Resource("", "v1", "services", "Service", namespaced=True)
NAMESPACE = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SECRET = Resource("", "v1", "secrets", "Secret", namespaced=True)
CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SERVICE_ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
PERSISTENT_VOLUME = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIM = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
EVENT = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
ROLE = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", namespaced=True)
CLUSTER_ROLE = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
DAEMON_SET = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
JOB = Resource("batch", "v1", "jobs", "Job", namespaced=True)
STORAGE_CLASS = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
POD_DISRUPTION_BUDGET = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
CERTIFICATE_SIGNING_REQUEST = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING = (
    Resource("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False)
    for plural, kind in (
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
    )
)
MUTATING_ADMISSION_POLICY, MUTATING_ADMISSION_POLICY_BINDING = (
    Resource("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False)
    for plural, kind in (
        ("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
        ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
    )
)
CUSTOM_RESOURCE_DEFINITION = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
GPU_NODE_CLASS = Resource("tgp.io", "v1", "gpunodeclasses", "GPUNodeClass", namespaced=False)
GPU_NODE_POOL = Resource("tgp.io", "v1", "gpunodepools", "GPUNodePool", namespaced=True)
GPU_REQUEST = Resource("tgp.io", "v1", "gpurequests", "GPURequest", namespaced=True)
GPU_WORKLOAD_BUDGET = Resource("tgp.io", "v1", "gpuworkloadbudgets", "GPUWorkloadBudget", namespaced=True)
LEGACY_BUDGET = Resource("budget.zxuhan.dev", "v1alpha1", "gpuworkloadbudgets", "GPUWorkloadBudget", namespaced=True)
