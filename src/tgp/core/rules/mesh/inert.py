"""What a request says about a mesh that its machine does not join by."""

from tgp.api.request import RequestTalos
from tgp.core.model.mesh import IN_A_TAILNET, Backend

MESH_CONFIG_INERT = "MeshConfigInert"


def inert_words(talos: RequestTalos | None, backend: str) -> str:
    """`backend`: the mesh its machine joins by.

    Not refused: manifests of early days have it, and their machines join as well by the mesh of the class.
    """
    fields = []
    if talos is not None and talos.wire_guard_config is not None and backend != Backend.WIREGUARD:
        fields.append("spec.talosConfig.wireGuardConfig")
    if talos is not None and talos.tailscale_config is not None and backend not in IN_A_TAILNET:
        fields.append("spec.talosConfig.tailscaleConfig")
    if not fields:
        return ""
    joins = "joins no mesh" if backend == Backend.NONE else f"joins by {backend}"
    has = "has" if len(fields) == 1 else "have"
    return f"{' and '.join(fields)} {has} no effect: its machine {joins}, as its class says (networking.backend)"
