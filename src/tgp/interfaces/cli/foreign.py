"""A request that names a provider which its class does not have: no offer can ever fit it."""

from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequestSpec


def foreign_provider(spec: GPURequestSpec, node_class: GPUNodeClass) -> str:
    """A message that names the providers of the class; empty: the request names none, or one that the class has."""
    wanted = canonical_provider(spec.offer.provider if spec.offer is not None else spec.provider or "")
    enabled = [canonical_provider(each.name) for each in node_class.spec.providers if each.enabled]
    if not wanted or wanted in enabled:
        return ""
    off = any(canonical_provider(each.name) == wanted for each in node_class.spec.providers)
    state = "has disabled" if off else "does not have"
    there = f" (enabled: {', '.join(dict.fromkeys(enabled))})" if enabled else ""
    return f"class {node_class.metadata.name} {state} provider {wanted}{there}"
