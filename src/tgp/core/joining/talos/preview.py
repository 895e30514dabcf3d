"""The config that a machine would get, without side effects: secrets minted per machine are placeholders.

The bootstrap token and the mesh's key are the two values of a config that do not exist before the purchase.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.core.joining.mesh.selection import hostname_for, mesh_of
from tgp.core.joining.talos.placeholder_values import placeholder_mesh
from tgp.core.joining.talos.plan import NodePlan
from tgp.core.joining.talos.render import render
from tgp.core.model.join import JoinValues
from tgp.core.model.machine_config import Rendered
from tgp.core.model.mesh import Backend, MeshJoin, MeshSettings, TailscaleJoin, TunnelJoin, TunnelSettings
from tgp.core.model.secret import Secret
from tgp.core.model.taints import Taint
from tgp.core.model.talos import TalosVersion

MINTED_TOKEN = "minted.foreachnode00000"  # noqa: S105 - a placeholder, no secret
MINTED_KEY = "minted-for-each-node"
NO_SCHEMATIC = "0" * 64
ANY_NODE = "gpu-0123abcd"


@dataclass(frozen=True, slots=True)
class Materials:
    node_class: GPUNodeClass
    provider: str
    version: TalosVersion
    join: JoinValues
    template: str | None = field(default=None, repr=False)
    kubelet_image: str = ""
    request: GPURequest | None = None
    node_name: str = ANY_NODE
    provider_id: str = ""
    pool: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    nvidia: bool = True
    shared_secrets: bool = True  # False: as for an untrusted host
    schematic: str = NO_SCHEMATIC
    default_backend: str = Backend.TAILSCALE


def preview(materials: Materials) -> Rendered:
    """Raises TemplateRefused."""
    settings = mesh_of(materials.node_class, materials.provider, materials.request, materials.default_backend)
    hostname = hostname_for(materials.node_class, materials.provider, materials.request, materials.node_name)
    version = materials.version
    plan = NodePlan(
        version=version,
        node_name=materials.node_name,
        provider_id=materials.provider_id or f"tgp://{materials.provider}/{materials.node_name}",
        kubelet_image=materials.kubelet_image,
        bootstrap_token=Secret(MINTED_TOKEN),
        mesh=join_of(settings, hostname),
        nvidia=materials.nvidia,
        labels=materials.labels,
        taints=materials.taints,
        installer=f"factory.talos.dev/metal-installer/{materials.schematic}:{version}",
        pool=materials.pool,
        shared_secrets=materials.shared_secrets,
    )
    return render(plan, materials.join, materials.template)


def join_of(settings: MeshSettings, hostname: str) -> MeshJoin:
    """The mesh's part, with a placeholder for each secret and each value from a Secret."""
    inert = placeholder_mesh(settings.backend)
    if isinstance(inert, TailscaleJoin):
        return TailscaleJoin(
            Secret(MINTED_KEY),
            hostname,
            single_use=settings.auth_key is None,
            accept_routes=settings.accept_routes,
            advertise_routes=settings.advertise_routes,
            login_server=settings.login_server or inert.login_server,
        )
    if isinstance(inert, TunnelJoin):
        return _tunnel(settings.tunnel or TunnelSettings(), inert)
    return inert


def _tunnel(tunnel: TunnelSettings, inert: TunnelJoin) -> TunnelJoin:
    address = tunnel.address if isinstance(tunnel.address, str) else inert.address
    return TunnelJoin(
        inert.private_key,
        address if "/" in address else f"{address}/32",
        tunnel.server_key if isinstance(tunnel.server_key, str) else inert.server_key,
        tunnel.server_endpoint if isinstance(tunnel.server_endpoint, str) else inert.server_endpoint,
        (tunnel.allowed_ips if isinstance(tunnel.allowed_ips, tuple) else ()) or inert.allowed_ips,
    )
