"""What a worker must know to join the cluster: the values of the Secret `tgp-join`. None of it is a CA's key."""

from dataclasses import dataclass, field

from tgp.core.model.secret import Secret

JOIN_SECRET = "tgp-join"  # noqa: S105 - the name of a Secret, not a secret
NEEDED = (
    "machine-token",
    "machine-ca.crt",
    "cluster-ca.crt",
    "cluster-id",
    "cluster-secret",
    "endpoint",
    "cluster-name",
)
OPTIONAL = ("pod-subnets", "service-subnets", "dns-domain")
PUBLIC = frozenset({"machine-ca.crt", "cluster-ca.crt", "endpoint", "cluster-name", *OPTIONAL})  # shown to users


@dataclass(frozen=True, slots=True)
class JoinValues:
    """As they go into a machine config. Certificates are base64 of PEM, on one line, as Talos writes them."""

    machine_token: Secret
    machine_ca: str = field(repr=False)
    cluster_ca: str = field(repr=False)
    cluster_id: Secret
    cluster_secret: Secret
    endpoint: str  # https://host:6443
    cluster_name: str
    pod_subnets: tuple[str, ...] = ("10.244.0.0/16",)  # Talos's own defaults
    service_subnets: tuple[str, ...] = ("10.96.0.0/12",)
    dns_domain: str = "cluster.local"
