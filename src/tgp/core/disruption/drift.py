"""Whether a machine is still what its pool and class ask for.

Settings that a machine gets once, when it boots, are compared by a hash that is stamped on its request. Requirements
are compared with the machine itself: a change drifts only machines that no longer meet them. Labels are corrected on
the Node in place, and drift nothing.
"""

from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.core.joining.mesh.selection import backend_of
from tgp.core.joining.talos.settings import talos_of
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.offer import BootMode, Offer
from tgp.core.pools.nodepool import value_check
from tgp.core.pools.requirements import Malformed, together

STAMP = "tgp.io/drift-hash"  # annotation of a pool's request
VERSION = "1"  # of the hash: requests with another version get the new hash, and nothing drifts
DIGITS = 16
OF_TALOS = (
    "image",
    "extensions",
    "schematic",
    "machine_config_template",
    "machine_config_secret_ref",
    "kubelet_image",
)


def stamp_of(pool: GPUNodePool, node_class: GPUNodeClass, offer: Offer, default_backend: str) -> str:
    """Of a machine that would be ordered now. `default_backend`: the operator's own mesh.

    Empty for a machine you own: it is installed and configured without us, so that it would come back unchanged.
    """
    if offer.boot is BootMode.POWER:
        return ""
    talos, template = talos_of(node_class, offer.provider), pool.spec.template.spec
    looked_at = {
        "talos": {name: msgspec.to_builtins(getattr(talos, name)) for name in OF_TALOS},
        "taints": sorted((taint.key, taint.effect, taint.value or "") for taint in template.taints),
        "ephemeralTaint": template.ephemeral_taint,
        "backend": backend_of(node_class, default_backend),
    }
    digest = blake2b(msgspec.json.encode(looked_at, order="sorted"), digest_size=DIGITS // 2)
    return f"{VERSION}-{digest.hexdigest()}"


def to_stamp(held: str, now: str) -> bool:
    """Whether a request gets the stamp of now: it has none, or one of another version."""
    return bool(now) and held.partition("-")[0] != now.partition("-")[0]


def has_drifted(held: str, now: str) -> bool:
    return bool(now) and held != now and not to_stamp(held, now)


def unmet_requirement(pool: GPUNodePool, labels: Mapping[str, str]) -> str:
    """The label of the first requirement that a machine with these labels does not meet; empty: it meets them all."""
    rows = pool.spec.template.spec.requirements
    try:
        allowed = together(LabelRequirement(row.key, row.operator, row.values) for row in rows)
    except Malformed:  # the pool's Ready condition says so
        return ""
    for key, values in allowed.items():
        value = labels.get(key)
        if not (values.admits(None) if value is None else value_check(key, values)(value)):
            return key
    return ""
