"""Whether a machine is in another mesh than its class would put it into now."""

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.core.model.mesh import MeshStand
from tgp.core.rules.mesh.choice import mesh_of


def drift(
    stand: MeshStand, node_class: GPUNodeClass | None, provider: str, request: GPURequest | None, default: str
) -> str:
    """Empty: it is where it should be, or nobody can tell."""
    if not stand.backend or node_class is None:
        return ""
    now = mesh_of(node_class, provider, request, default).backend.value
    if now == stand.backend:
        return ""
    return f"it joined by {stand.backend}, and its class uses {now} now: it stays as it is until it is replaced"
