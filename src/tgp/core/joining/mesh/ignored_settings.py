"""Mesh settings of a request for a mesh that its machine does not join."""

from tgp.api.request import RequestTalos
from tgp.core.model.mesh import IN_A_TAILNET, Backend

MESH_CONFIG_IGNORED = "MeshConfigIgnored"


def ignored_message(talos: RequestTalos | None, backend: str) -> str:
    """`backend`: the mesh its machine joins.

    Not refused: early manifests have them, and their machines join the mesh of the class all the same.
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
    return f"{' and '.join(fields)} {has} no effect: the machine {joins}, as set in its class (networking.backend)"
