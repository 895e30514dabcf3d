"""What a class allows, as a query to rank offers by; pools and requests narrow it."""

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.values import microusd
from tgp.core.market.sources import source_for
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.offer import BootMode, Trust
from tgp.core.model.offer_query import Kinds, OfferQuery, Selection, SourcePolicy

BOOTS = {
    "Native": (BootMode.NATIVE, BootMode.POWER),
    "Takeover": (BootMode.NATIVE, BootMode.TAKEOVER, BootMode.POWER),
    "Any": tuple(BootMode),
}
TRUST = {"Any": Trust.ANY, "Verified": Trust.VERIFIED, "Datacenter": Trust.DATACENTER}


def query_for_class(node_class: GPUNodeClass, cooldowns: Cooldowns) -> OfferQuery:
    """Everything the class itself asks for. A misspelled name matches nothing, rather than everything."""
    spec = node_class.spec
    asked = spec.instance_requirements
    limit = spec.limits.max_hourly_cost if spec.limits is not None else None
    return OfferQuery(
        models=asked.gpu_types,
        min_gpu_memory_gib=asked.min_gpu_memory_gib or 0,
        min_vcpus=asked.min_vcpu or 0,
        min_memory_gib=asked.min_memory_gib or 0,
        class_regions=asked.regions,
        kinds=Kinds.EITHER if asked.spot_allowed else Kinds.ON_DEMAND,
        headroom_microusd=microusd(limit, "spec.limits.maxHourlyCost") if limit else None,
        policies={
            source_for(provider).name: SourcePolicy(provider.priority, provider.regions, provider.enabled)
            for provider in spec.providers
        },
        boots=BOOTS[spec.boot_policy],
        min_trust=TRUST[asked.min_trust],
        cooldowns=cooldowns,
        selection=Selection(spec.selection),
    )
