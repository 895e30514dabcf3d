"""The roles and bindings every cluster starts with, as far as the simulation needs them."""

from tgp.sim.apiserver.json_value import Json

READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]
DISCOVERY_PATHS = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/"]
HEALTH_PATHS = ["/healthz", "/livez", "/readyz"]

VIEWABLE: tuple[tuple[str, list[str]], ...] = (
    (
        "",
        [
            "configmaps",
            "endpoints",
            "events",
            "limitranges",
            "namespaces",
            "persistentvolumeclaims",
            "pods",
            "pods/log",
            "pods/status",
            "replicationcontrollers",
            "resourcequotas",
            "serviceaccounts",
            "services",
        ],
    ),
    (
        "apps",
        [
            "controllerrevisions",
            "daemonsets",
            "deployments",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    ("autoscaling", ["horizontalpodautoscalers"]),
    ("batch", ["cronjobs", "jobs"]),
    ("discovery.k8s.io", ["endpointslices"]),
    ("events.k8s.io", ["events"]),
    ("networking.k8s.io", ["ingresses", "networkpolicies"]),
    ("policy", ["poddisruptionbudgets"]),
)
EDITABLE: tuple[tuple[str, list[str]], ...] = (
    (
        "",
        [
            "configmaps",
            "endpoints",
            "events",
            "persistentvolumeclaims",
            "pods",
            "pods/eviction",
            "replicationcontrollers",
            "secrets",
            "serviceaccounts",
            "services",
        ],
    ),
    *((group, resources) for group, resources in VIEWABLE if group not in {"", "discovery.k8s.io"}),
    ("coordination.k8s.io", ["leases"]),
)


def _rule(group: str, resources: list[str], verbs: list[str]) -> Json:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _paths(paths: list[str]) -> Json:
    return {"nonResourceURLs": paths, "verbs": ["get"]}


EVERYTHING: list[Json] = [_rule("*", ["*"], ["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]}]
VIEW = [_rule(group, resources, READ) for group, resources in VIEWABLE]
EDIT = [
    *VIEW,
    _rule("", ["secrets"], READ),
    _rule("coordination.k8s.io", ["leases"], READ),
    *(_rule(group, resources, WRITE) for group, resources in EDITABLE),
]
ADMIN_RULES = [
    *EDIT,
    _rule("rbac.authorization.k8s.io", ["roles", "rolebindings"], [*READ, *WRITE]),
    _rule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
]
SELF_REVIEWS = [
    _rule("authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]),
    _rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"]),
]
DELEGATION = [
    _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
    _rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
]
BOOTSTRAPPING = [_rule("certificates.k8s.io", ["certificatesigningrequests"], ["create", *READ])]
NODE_CLIENT = [_rule("certificates.k8s.io", ["certificatesigningrequests/nodeclient"], ["create"])]
AGGREGATED = ("admin", "edit", "view")

CLUSTER_ROLES: dict[str, list[Json]] = {
    "cluster-admin": EVERYTHING,
    "admin": ADMIN_RULES,
    "edit": EDIT,
    "view": VIEW,
    "system:basic-user": SELF_REVIEWS,
    "system:discovery": [_paths([*DISCOVERY_PATHS, *HEALTH_PATHS])],
    "system:public-info-viewer": [_paths([*HEALTH_PATHS, "/version", "/version/"])],
    "system:auth-delegator": DELEGATION,
    "system:node-bootstrapper": BOOTSTRAPPING,
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": NODE_CLIENT,
}
BINDINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("cluster-admin", ("system:masters",)),
    ("system:basic-user", ("system:authenticated",)),
    ("system:discovery", ("system:authenticated",)),
    ("system:public-info-viewer", ("system:authenticated", "system:unauthenticated")),
)
MARK = {"kubernetes.io/bootstrapping": "rbac-defaults"}


def cluster_roles() -> list[Json]:
    found = []
    for name, rules in CLUSTER_ROLES.items():
        role: Json = {"metadata": {"name": name, "labels": dict(MARK)}, "rules": rules}
        if name in AGGREGATED:
            label = f"rbac.authorization.k8s.io/aggregate-to-{name}"
            role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}
        found.append(role)
    return found


def cluster_role_bindings() -> list[Json]:
    group = "rbac.authorization.k8s.io"
    return [
        {
            "metadata": {"name": name, "labels": dict(MARK)},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "Group", "name": subject} for subject in subjects],
        }
        for name, subjects in BINDINGS
    ]
