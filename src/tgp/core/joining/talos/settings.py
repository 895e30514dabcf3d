"""The Talos settings of a class for one provider: the provider's own override the class's, field by field."""

import msgspec

from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.talos import TalosConfig

# Two ways to set one thing: setting one unsets the other.
_EITHER = (("extensions", "schematic"), ("machine_config_template", "machine_config_secret_ref"))


def talos_of(node_class: GPUNodeClass, provider: str) -> TalosConfig:
    base = node_class.spec.talos_config or TalosConfig()
    own = next(
        (
            each.talos_config
            for each in node_class.spec.providers
            if canonical_provider(each.name) == provider and each.talos_config is not None
        ),
        None,
    )
    if own is None:
        return base
    said = {name: value for name in TalosConfig.__struct_fields__ if (value := getattr(own, name)) not in (None, ())}
    for pair in _EITHER:
        if any(name in said for name in pair):
            said |= {name: getattr(own, name) for name in pair}
    return msgspec.structs.replace(base, **said)
