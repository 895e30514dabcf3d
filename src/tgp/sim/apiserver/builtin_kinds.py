"""The built-in resources: what Kubernetes 1.36 serves in these groups, as far as this world needs it.

Traits are those of the real strategies: who counts generations, who takes a PUT without a resourceVersion, who
creates on PUT, who answers a DELETE with the object.
"""

from dataclasses import replace

from tgp.api.resource import Resource
from tgp.sim.apiserver.events import as_core_event, as_new_event
from tgp.sim.apiserver.registry import CREATE_ONLY, KindTraits, Served, Subresource
from tgp.sim.apiserver.status_errors import qualified

STATUS_VERBS = ("get", "patch", "update")
ORDINARY = KindTraits()
SPEC = KindTraits(counts_generations=True)
RBAC_TRAITS = KindTraits(create_on_update=True, names="segment")


def _served(
    group: str,
    version: str,
    plural: str,
    kind: str,
    *short_names: str,
    cluster: bool = False,
    status: bool = False,
    traits: KindTraits = ORDINARY,
    categories: tuple[str, ...] = (),
    subresources: tuple[Subresource, ...] = (),
    verbs: tuple[str, ...] | None = None,
    singular: str = "",
) -> Served:
    own = (Subresource("status", kind, STATUS_VERBS),) if status else ()
    served = Served(
        Resource(group, version, plural, kind, namespaced=not cluster),
        singular or kind.lower(),
        subresources=subresources + own,
        short_names=short_names,
        categories=categories,
        storage=qualified(group, plural),
        traits=replace(traits, split_status=status),
        list_kind=f"{kind}List",
    )
    return served if verbs is None else replace(served, verbs=verbs)


SCALE = Subresource("scale", "Scale", STATUS_VERBS, "autoscaling", "v1")
ALL = ("all",)

CORE = (
    _served("", "v1", "bindings", "Binding", verbs=CREATE_ONLY),
    _served("", "v1", "configmaps", "ConfigMap", "cm"),
    _served("", "v1", "endpoints", "Endpoints", "ep", traits=KindTraits(create_on_update=True), singular="endpoints"),
    _served("", "v1", "events", "Event", "ev", traits=KindTraits(create_on_update=True)),
    _served("", "v1", "limitranges", "LimitRange", "limits", traits=KindTraits(create_on_update=True)),
    _served(
        "",
        "v1",
        "namespaces",
        "Namespace",
        "ns",
        cluster=True,
        status=True,
        traits=KindTraits(returns_deleted=True, names="label"),
        subresources=(Subresource("finalize", "Namespace", ("update",)),),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    ),
    _served("", "v1", "nodes", "Node", "no", cluster=True, status=True),
    _served(
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        "pvc",
        status=True,
        traits=KindTraits(returns_deleted=True),
    ),
    _served(
        "",
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        "pv",
        cluster=True,
        status=True,
        traits=KindTraits(returns_deleted=True),
    ),
    _served(
        "",
        "v1",
        "pods",
        "Pod",
        "po",
        status=True,
        traits=KindTraits(returns_deleted=True, counts_generations=True),
        categories=ALL,
        subresources=(
            Subresource("binding", "Binding", CREATE_ONLY),
            Subresource("eviction", "Eviction", CREATE_ONLY, "policy", "v1"),
            Subresource("log", "Pod", ("get",)),
        ),
    ),
    _served("", "v1", "podtemplates", "PodTemplate", traits=KindTraits(counts_generations=True, returns_deleted=True)),
    _served(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        "rc",
        status=True,
        traits=KindTraits(counts_generations=True, orphans_by_default=True),
        categories=ALL,
        subresources=(SCALE,),
    ),
    _served("", "v1", "resourcequotas", "ResourceQuota", "quota", status=True, traits=KindTraits(returns_deleted=True)),
    _served("", "v1", "secrets", "Secret"),
    _served(
        "",
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        "sa",
        traits=KindTraits(returns_deleted=True),
        subresources=(Subresource("token", "TokenRequest", CREATE_ONLY, "authentication.k8s.io", "v1"),),
    ),
    _served(
        "",
        "v1",
        "services",
        "Service",
        "svc",
        status=True,
        categories=ALL,
        traits=KindTraits(returns_deleted=True, create_on_update=True, names="label1035"),
    ),
)

APPS = (
    _served("apps", "v1", "controllerrevisions", "ControllerRevision"),
    _served("apps", "v1", "daemonsets", "DaemonSet", "ds", status=True, traits=SPEC, categories=ALL),
    _served(
        "apps",
        "v1",
        "deployments",
        "Deployment",
        "deploy",
        status=True,
        traits=SPEC,
        categories=ALL,
        subresources=(SCALE,),
    ),
    _served(
        "apps", "v1", "replicasets", "ReplicaSet", "rs", status=True, traits=SPEC, categories=ALL, subresources=(SCALE,)
    ),
    _served(
        "apps",
        "v1",
        "statefulsets",
        "StatefulSet",
        "sts",
        status=True,
        traits=SPEC,
        categories=ALL,
        subresources=(SCALE,),
    ),
)

BATCH = (
    _served("batch", "v1", "cronjobs", "CronJob", "cj", status=True, traits=SPEC, categories=ALL),
    _served(
        "batch",
        "v1",
        "jobs",
        "Job",
        status=True,
        traits=KindTraits(counts_generations=True, orphans_by_default=True),
        categories=ALL,
    ),
)

REVIEWS = (
    _served("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", cluster=True, verbs=CREATE_ONLY),
    _served("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", cluster=True, verbs=CREATE_ONLY),
    _served("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=CREATE_ONLY),
    _served(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        cluster=True,
        verbs=CREATE_ONLY,
    ),
    _served(
        "authorization.k8s.io",
        "v1",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        cluster=True,
        verbs=CREATE_ONLY,
    ),
    _served(
        "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", cluster=True, verbs=CREATE_ONLY
    ),
)

POLICY = (
    _served(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "pdb",
        status=True,
        traits=KindTraits(counts_generations=True, unconditional_update=False),
    ),
    _served(
        "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", cluster=True, traits=RBAC_TRAITS
    ),
    _served("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", cluster=True, traits=RBAC_TRAITS),
    _served("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", traits=RBAC_TRAITS),
    _served("rbac.authorization.k8s.io", "v1", "roles", "Role", traits=RBAC_TRAITS),
    _served(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        "csr",
        cluster=True,
        status=True,
        subresources=(Subresource("approval", "CertificateSigningRequest", STATUS_VERBS),),
    ),
)

CLUSTER = (
    _served(
        "coordination.k8s.io",
        "v1",
        "leases",
        "Lease",
        traits=KindTraits(unconditional_update=False, create_on_update=True),
    ),
    _served("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "pc", cluster=True, traits=SPEC),
    _served(
        "node.k8s.io",
        "v1",
        "runtimeclasses",
        "RuntimeClass",
        cluster=True,
        traits=KindTraits(create_on_update=True, unconditional_update=False),
    ),
    _served(
        "storage.k8s.io",
        "v1",
        "csidrivers",
        "CSIDriver",
        cluster=True,
        traits=KindTraits(returns_deleted=True, unconditional_update=False),
    ),
    _served(
        "storage.k8s.io",
        "v1",
        "csinodes",
        "CSINode",
        cluster=True,
        traits=KindTraits(returns_deleted=True, unconditional_update=False),
    ),
    _served(
        "storage.k8s.io",
        "v1",
        "storageclasses",
        "StorageClass",
        "sc",
        cluster=True,
        traits=KindTraits(returns_deleted=True),
    ),
    _served(
        "storage.k8s.io",
        "v1",
        "volumeattachments",
        "VolumeAttachment",
        cluster=True,
        status=True,
        traits=KindTraits(returns_deleted=True, unconditional_update=False),
    ),
    _served("networking.k8s.io", "v1", "ingressclasses", "IngressClass", cluster=True, traits=SPEC),
    _served("networking.k8s.io", "v1", "ingresses", "Ingress", "ing", status=True, traits=SPEC),
    _served("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", "netpol", traits=SPEC),
    _served("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", traits=SPEC),
    _served(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        "hpa",
        status=True,
        categories=ALL,
    ),
    _served(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd",
        "crds",
        cluster=True,
        status=True,
        categories=("api-extensions",),
        traits=KindTraits(counts_generations=True, unconditional_update=False),
    ),
    _served(
        "apiregistration.k8s.io",
        "v1",
        "apiservices",
        "APIService",
        cluster=True,
        status=True,
        categories=("api-extensions",),
        traits=KindTraits(unconditional_update=False),
    ),
    _served(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        cluster=True,
        categories=("api-extensions",),
        traits=KindTraits(counts_generations=True, unconditional_update=False),
    ),
    _served(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        cluster=True,
        categories=("api-extensions",),
        traits=KindTraits(counts_generations=True, unconditional_update=False),
    ),
    *(
        _served(
            "admissionregistration.k8s.io",
            "v1",
            plural,
            kind,
            cluster=True,
            status=kind == "ValidatingAdmissionPolicy",
            categories=("api-extensions",),
            traits=KindTraits(counts_generations=True, unconditional_update=False),
        )
        for plural, kind in (
            ("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
            ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
            ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
            ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
        )
    ),
)

EVENTS = (
    replace(
        _served("events.k8s.io", "v1", "events", "Event", "ev", traits=KindTraits(create_on_update=True)),
        storage="events",  # the same kind_storage as core/v1: one event, two views
        view=as_new_event,
        unview=as_core_event,
    ),
)

BUILTIN: tuple[Served, ...] = (*CORE, *APPS, *EVENTS, *REVIEWS, *BATCH, *POLICY, *CLUSTER)
