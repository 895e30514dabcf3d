"""Whether a machine is in another mesh than its class would put it into now."""

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.core.joining.mesh.selection import mesh_of
from tgp.core.model.mesh import MeshStatus


def drift(
    stand: MeshStatus, node_class: GPUNodeClass | None, provider: str, request: GPURequest | None, default: str
) -> str:
    """Empty: the right mesh, or unknown."""
    if not stand.backend or node_class is None:
        return ""
    now = mesh_of(node_class, provider, request, default).backend.value
    if now == stand.backend:
        return ""
    return f"Machine joined by {stand.backend}, but its class uses {now} now; the machine stays until it is replaced"
