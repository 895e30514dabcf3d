"""The labels of a machine's Node that its offer decides: the same before it is bought and when it has joined."""

import re
from functools import lru_cache

from tgp.api.cel import LABEL_VALUE_PATTERN
from tgp.api.pattern import matches
from tgp.core.model.gpus import resource_name
from tgp.core.model.offer import UNKNOWN_REGION, Offer

GPU_PRESENT = "nvidia.com/gpu.present"
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
LONGEST_LABEL = 63
FITTING_KEPT = 4096  # cached checks of label values: a Node's are checked in every reconcile
_NO_LABEL = re.compile(r"[^A-Za-z0-9_.-]+")


def offer_labels(offer: Offer) -> dict[str, str]:
    """As written, which may be no label value; empty: unknown, so the Node has no such label."""
    region = offer.region if offer.region != UNKNOWN_REGION else ""
    return {
        "tgp.io/provider": offer.provider,
        "tgp.io/gpu-type": offer.gpu,
        "tgp.io/gpu-count": str(offer.gpu_count),
        "tgp.io/gpu-memory": str(offer.gpu_memory_gib or ""),
        "tgp.io/region": offer.region,
        "tgp.io/spot": "true" if offer.spot else "false",
        "tgp.io/capacity-type": "spot" if offer.spot else "on-demand",
        "tgp.io/provisioned": "true",
        GPU_PRESENT: "true" if resource_name(offer.gpu).startswith("nvidia.com/") else "",
        REGION: region,
        ZONE: f"{offer.provider}-{offer.place or region}" if offer.place or region else "",
        INSTANCE_TYPE: offer.instance_type,
    }


def label_value(text: str) -> str:
    """The text itself, or the nearest label value."""
    return text if is_label_value(text) else slug(text)


def slug(text: str) -> str:
    """The nearest label value: invalid characters become a dash."""
    bare = _NO_LABEL.sub("-", text).strip("-_.")
    return bare[:LONGEST_LABEL].rstrip("-_.")


@lru_cache(maxsize=FITTING_KEPT)
def is_label_value(text: str) -> bool:
    return len(text) <= LONGEST_LABEL and matches(text, LABEL_VALUE_PATTERN)
