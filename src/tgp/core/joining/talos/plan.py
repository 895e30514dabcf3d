"""All inputs of one node's machine config, except the cluster's join values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tgp.core.model.mesh import MeshJoin, NoMesh
from tgp.core.model.secret import Secret
from tgp.core.model.taints import Taint
from tgp.core.model.talos import TalosVersion


@dataclass(frozen=True, slots=True)
class NodePlan:
    version: TalosVersion
    node_name: str
    provider_id: str  # tgp://<provider>/<token>
    kubelet_image: str  # at the cluster's version, never newer
    bootstrap_token: Secret  # of this node alone: id.secret
    mesh: MeshJoin = field(default_factory=NoMesh)
    nvidia: bool = True  # the machine has GPUs of that maker: modules are loaded, extensions wanted
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()  # at registration
    installer: str = ""  # the factory's installer image; empty: left out
    pool: str = ""
    index: int = 0  # of the machine in its pool
    shared_secrets: bool = True  # False: an untrusted host; it does not get discovery's cluster-wide secret
