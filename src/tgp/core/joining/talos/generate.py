"""The machine config of a worker, made from the plan of its node and the join values of its cluster.

The classic document, which every release from 1.10 to 1.14 reads, and separate documents where a release needs
them: the host name since 1.12, a tunnel since 1.12, KubeSpan since 1.13. What the decoder reads as disabled
when it is missing (KubePrism, host DNS, discovery) is set explicitly.
"""

from ipaddress import ip_address, ip_network
from typing import Any

from tgp.core.joining.talos import nvidia
from tgp.core.joining.talos.plan import NodePlan
from tgp.core.model.join import JoinValues
from tgp.core.model.mesh import KubeSpanJoin, MeshJoin, TailscaleJoin, TunnelJoin
from tgp.core.model.taints import Taint
from tgp.core.model.talos import TalosVersion

HOSTNAME_KIND_SINCE = 12  # of 1.x
TUNNEL_KIND_SINCE = 12
KUBESPAN_KIND_SINCE = 13
KUBEPRISM_PORT = 7445
TUNNEL = "tgp0"  # the interface of a plain WireGuard tunnel
TAILSCALE_SERVICE = "tailscale"
FLANNEL_ADDRESS = "flannel.alpha.coreos.com/public-ip-overwrite"  # otherwise flannel uses the rented network's address

# Labels in Kubernetes's own domains that a kubelet may give its Node. Any other is refused, and the rest with it.
_OWN_DOMAINS = ("kubernetes.io", "k8s.io")
_ALLOWED_LABELS = frozenset(
    (
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
    )
)
_ALLOWED_NAMESPACES = ("kubelet.kubernetes.io", "node.kubernetes.io")


def generate(plan: NodePlan, join: JoinValues) -> list[dict[str, Any]]:
    """Every document, the classic one first."""
    documents = [
        {"version": "v1alpha1", "machine": _machine(plan, join), "cluster": _cluster(plan, join)},
        *hostname_documents(plan),
        *_mesh_documents(plan),
    ]
    return [_pruned(document) for document in documents]


def kubelet_may_set(label: str) -> bool:
    domain, slash, _ = label.rpartition("/")
    if not slash or not any(domain == own or domain.endswith(f".{own}") for own in _OWN_DOMAINS):
        return True
    if label in _ALLOWED_LABELS:
        return True
    return any(domain == allowed or domain.endswith(f".{allowed}") for allowed in _ALLOWED_NAMESPACES)


def taints_of(taints: tuple[Taint, ...]) -> list[dict[str, str]]:
    """In the format of the kubelet's configuration."""
    return [
        {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}
        for taint in taints
    ]


def environment(mesh: TailscaleJoin) -> dict[str, str]:
    """The environment of the Tailscale extension."""
    said = {"TS_AUTHKEY": mesh.auth_key.reveal(), "TS_HOSTNAME": mesh.hostname}
    if mesh.single_use:
        # otherwise the next start tries the used key again, and the node leaves the tailnet
        said["TS_AUTH_ONCE"] = "true"
    if mesh.advertise_routes:
        said["TS_ROUTES"] = ",".join(mesh.advertise_routes)
    arguments = [f"--login-server={mesh.login_server}"] if mesh.login_server else []
    if mesh.accept_routes:
        arguments.append("--accept-routes")
    if arguments:
        said["TS_EXTRA_ARGS"] = " ".join(arguments)
    return said


def valid_subnets(mesh: MeshJoin, join: JoinValues) -> list[str]:
    """The networks of the node's address: the kubelet waits for one, and so for the mesh. Of the cluster's IP
    families.
    """
    families = {_version(subnet) for subnet in join.pod_subnets}
    suiting = [str(each) for each in mesh.ranges if each.version in families]
    return suiting or [str(each) for each in mesh.ranges]


def hostname_documents(plan: NodePlan) -> list[dict[str, Any]]:
    if plan.version.minor < HOSTNAME_KIND_SINCE:
        return []
    return [{"apiVersion": "v1alpha1", "kind": "HostnameConfig", "hostname": plan.node_name}]


def old_tunnel(version: TalosVersion, mesh: TunnelJoin) -> bool:
    """True: goes into the classic document. The new kind accepts no host name for a peer."""
    return version.minor < TUNNEL_KIND_SINCE or not _is_address(mesh.server_endpoint)


# ---- the classic document


def _machine(plan: NodePlan, join: JoinValues) -> dict[str, Any]:
    modules = [{"name": name} for name in nvidia.MODULES] if plan.nvidia else []
    return {
        "type": "worker",
        "token": join.machine_token.reveal() if plan.shared_secrets else None,
        "ca": {"crt": join.machine_ca},
        "kubelet": _kubelet(plan, join),
        "network": _network(plan),
        "install": {"image": plan.installer or None},
        "sysctls": nvidia.sysctls(plan.version) if plan.nvidia else {},
        "features": {
            "rbac": True,
            "apidCheckExtKeyUsage": True,
            "diskQuotaSupport": True,
            "kubePrism": {"enabled": True, "port": KUBEPRISM_PORT},
            "hostDNS": {"enabled": True, "forwardKubeDNSToHost": True},
        },
        "kernel": {"modules": modules},
        "nodeLabels": {key: value for key, value in sorted(plan.labels.items()) if kubelet_may_set(key)},
        "nodeAnnotations": _annotations(plan),
    }


def _kubelet(plan: NodePlan, join: JoinValues) -> dict[str, Any]:
    return {
        "image": plan.kubelet_image or None,
        "defaultRuntimeSeccompProfileEnabled": True,
        "disableManifestsDirectory": True,
        "nodeIP": {"validSubnets": valid_subnets(plan.mesh, join)},
        "extraConfig": {"providerID": plan.provider_id, "registerWithTaints": taints_of(plan.taints)},
    }


def _annotations(plan: NodePlan) -> dict[str, str]:
    said = dict(plan.annotations)
    if isinstance(plan.mesh, TunnelJoin):
        said.setdefault(FLANNEL_ADDRESS, plan.mesh.address.partition("/")[0])
    return dict(sorted(said.items()))


def _network(plan: NodePlan) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if plan.version.minor < HOSTNAME_KIND_SINCE:
        said["hostname"] = plan.node_name
    if isinstance(plan.mesh, TunnelJoin) and old_tunnel(plan.version, plan.mesh):
        said["interfaces"] = [_old_tunnel(plan.mesh)]
    if isinstance(plan.mesh, KubeSpanJoin) and plan.version.minor < KUBESPAN_KIND_SINCE:
        said["kubespan"] = {"enabled": True}
    return said


def _cluster(plan: NodePlan, join: JoinValues) -> dict[str, Any]:
    shared = plan.shared_secrets
    return {
        "id": join.cluster_id.reveal() if shared else None,
        "secret": join.cluster_secret.reveal() if shared else None,
        "controlPlane": {"endpoint": join.endpoint},
        "clusterName": join.cluster_name,
        "network": {
            "dnsDomain": join.dns_domain,
            "podSubnets": list(join.pod_subnets),
            "serviceSubnets": list(join.service_subnets),
        },
        "token": plan.bootstrap_token.reveal(),
        "ca": {"crt": join.cluster_ca},
        "discovery": {"enabled": shared},
    }


# ---- the mesh


def _mesh_documents(plan: NodePlan) -> list[dict[str, Any]]:
    mesh = plan.mesh
    if isinstance(mesh, TailscaleJoin):
        listed = [f"{name}={value}" for name, value in environment(mesh).items()]
        return [_document("ExtensionServiceConfig", name=TAILSCALE_SERVICE, environment=listed)]
    if isinstance(mesh, TunnelJoin) and not old_tunnel(plan.version, mesh):
        return [_document("WireguardConfig", **_new_tunnel(mesh))]
    if isinstance(mesh, KubeSpanJoin) and plan.version.minor >= KUBESPAN_KIND_SINCE:
        return [_document("KubeSpanConfig", enabled=True)]
    return []


def _document(kind: str, **said: Any) -> dict[str, Any]:
    return {"apiVersion": "v1alpha1", "kind": kind, **said}


def _new_tunnel(mesh: TunnelJoin) -> dict[str, Any]:
    return {
        "name": TUNNEL,
        "privateKey": mesh.private_key.reveal(),
        "peers": [_peer(mesh)],
        "mtu": mesh.mtu,
        "addresses": [{"address": mesh.address}],
        "routes": [{"destination": network} for network in _beyond(mesh)],
    }


def _old_tunnel(mesh: TunnelJoin) -> dict[str, Any]:
    return {
        "interface": TUNNEL,
        "mtu": mesh.mtu,
        "addresses": [mesh.address],
        "routes": [{"network": network} for network in _beyond(mesh)],
        "wireguard": {"privateKey": mesh.private_key.reveal(), "peers": [_peer(mesh)]},
    }


def _peer(mesh: TunnelJoin) -> dict[str, Any]:
    return {
        "publicKey": mesh.server_key,
        "endpoint": mesh.server_endpoint,
        "persistentKeepaliveInterval": f"{mesh.keepalive_seconds}s",
        "allowedIPs": list(mesh.allowed_ips),
    }


def _beyond(mesh: TunnelJoin) -> list[str]:
    """Networks behind the peer that need a route: Talos makes no routes from allowedIPs.

    Never a default route: the tunnel's own packets would use it.
    """
    own = ip_network(mesh.address, strict=False)
    networks = [ip_network(each, strict=False) for each in mesh.allowed_ips]
    return [
        str(network)
        for network in networks
        if network.prefixlen > 0 and not (network.version == own.version and network.subnet_of(own))  # type: ignore[arg-type]  # the versions are equal
    ]


def _is_address(endpoint: str) -> bool:
    try:
        ip_address(endpoint.rpartition(":")[0].strip("[]"))
    except ValueError:
        return False
    return True


def _version(subnet: str) -> int | None:
    try:
        return ip_network(subnet, strict=False).version
    except ValueError:  # the check of the result reports it
        return None


def _pruned(data: dict[str, Any]) -> dict[str, Any]:
    """Without empty maps, empty lists, and None."""
    kept: dict[str, Any] = {}
    for key, value in data.items():
        pruned = _pruned(value) if isinstance(value, dict) else value
        if pruned not in (None, [], {}):
            kept[key] = pruned
    return kept
