"""The desired labels, annotations, taints and provider ID of a request's Node, and the patch that applies them.

Labels are the contract with schedulers and screens, so they are corrected at any time; taints only until the Node is
initialised: after that an administrator may remove them. Start-up taints are added once; other controllers remove them.
An annotation records the labels we added, so that a label removed from the spec leaves the Node too, and the Node of a
machine you own can be cleaned up when its request is over. Another does so for the annotations of a pool's template:
they are set again when the template changes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from tgp.api.cel import OPEN_DOMAINS, OURS_PATTERN
from tgp.api.common import REQUIREMENT_KEYS
from tgp.api.common import TaintSpec as WrittenTaint
from tgp.api.nodepool import GPUNodePool, NodeTemplate
from tgp.api.pattern import matches
from tgp.api.request import Attempt, GPURequest
from tgp.api.values import is_rfc3339, rfc3339, usd
from tgp.core.model.costs import POOL_KIND
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import OFF_SINCE, REQUEST_UID, Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode, Offer
from tgp.core.model.offer_labels import (
    FITTING_KEPT,
    GPU_PRESENT,
    INSTANCE_TYPE,
    REGION,
    ZONE,
    is_label_value,
    label_value,
    offer_labels,
)
from tgp.core.model.pod import OwnerRef
from tgp.core.model.taints import Taint
from tgp.core.requests.chosen_offer import offer_of, untrusted
from tgp.core.requests.device_plugin import EPHEMERAL, REQUEST, FutureNode
from tgp.core.requests.drain import CORDONED, DISRUPTED, written
from tgp.core.requests.node_state import provider_id_of

PRICE_LABEL = "eks-node-viewer/instance-price"
PRICE = "tgp.io/hourly-price"
MESH_HOSTNAME = "tgp.io/mesh-hostname"
MESH_ADDRESS = "tgp.io/mesh-address"
UNTRUSTED = Taint("tgp.io/untrusted", "NoSchedule")  # a third party owns the host, and can read what runs there
REMEMBERED = "tgp.io/labels"  # the names of the labels we put there, sorted, between commas
ANNOTATED = "tgp.io/annotations"  # a digest of the template's annotations as they were set, and their names
DIGEST_DIGITS = 16
RAW = "-raw"  # tgp.io/region-raw: the text that is no valid label value

# Ours alone, whether or not this Node has them: no user label may join a pool or another request.
RESERVED = frozenset(key for key in REQUIREMENT_KEYS if not key.startswith(("kubernetes.io/", "topology.")))
CLAIMED = frozenset(name for name in RESERVED if name.startswith("tgp.io/"))
KUBELETS_OWN = frozenset({"kubernetes.io/arch", "kubernetes.io/os"})  # the kubelet knows best, and sets them once
FOUND_THERE = frozenset({REGION, ZONE, INSTANCE_TYPE, GPU_PRESENT})  # a machine you own may have them from another tool


@dataclass(frozen=True, slots=True)
class NodeMetadata:
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    provider_id: str = ""  # empty: the machine is owned, and keeps its own
    template_annotations: Mapping[str, str] = field(default_factory=dict)  # of the pool's template
    left_alone: frozenset[str] = frozenset()  # labels that another tool may have set already: its values stay


def desired_metadata(
    record: KubeObject[GPURequest], attempt: Attempt, pool: GPUNodePool | None = None
) -> NodeMetadata | None:
    """For the machine of an attempt; None: its record does not describe it, so the Node is not changed."""
    if record.value is None or attempt.offer is None:
        return None
    offer = offer_of(attempt.offer)
    price = attempt.hourly_price or attempt.offer.hourly_price or usd(offer.hourly_microusd)
    identity = "" if offer.boot is BootMode.POWER else provider_id_of(offer.provider, attempt.token)
    return replace(_metadata(record, record.value, offer, price, pool), provider_id=identity)


def future_node(record: KubeObject[GPURequest], offer: Offer, pool: GPUNodePool | None = None) -> FutureNode:
    """What would register if this offer were bought. Start-up taints are left out: they are removed later."""
    assert record.value is not None, "a request that cannot be read buys nothing"
    desired = _metadata(record, record.value, offer, usd(offer.hourly_microusd), pool)
    return FutureNode({"kubernetes.io/os": "linux", "kubernetes.io/arch": offer.arch, **desired.labels}, desired.taints)


def template_taints(template: NodeTemplate | None, offer: Offer) -> tuple[Taint, ...]:
    """Taints that a machine of this offer registers with, for a pool's template; None: for no pool."""
    owned = offer.boot is BootMode.POWER
    ephemeral = template.spec.ephemeral_taint if template is not None else None
    return (
        *((EPHEMERAL,) if (ephemeral if ephemeral is not None else not owned) else ()),
        *(_taints(template.spec.taints) if template is not None else ()),
        *((UNTRUSTED,) if not owned and untrusted(offer) else ()),
    )


def startup_taints(template: NodeTemplate | None) -> tuple[Taint, ...]:
    return _taints(template.spec.startup_taints) if template is not None else ()


def template_labels(template: NodeTemplate | None) -> dict[str, str]:
    """Labels of a pool's template that its Nodes get: none of those that are the operator's own."""
    given = template.metadata.labels if template is not None and template.metadata is not None else {}
    return {name: value for name, value in given.items() if not _reserved(name)}


def metadata_patch(node: Node, desired: NodeMetadata, *, initialized: bool) -> dict[str, Any] | None:
    """The merge patch, conditional on the Node's resourceVersion; None: there is nothing to change.

    A Node with another provider ID is not ours to label. Not for a terminating machine: its Node is cordoned.
    """
    if node.unreadable or (desired.provider_id and node.provider_id not in ("", desired.provider_id)):
        return None
    marked = REMEMBERED in node.annotations and node.labels.get(REQUEST_UID) == desired.labels[REQUEST_UID]
    first = not (marked or initialized)
    metadata = _changes(
        labels=_label_changes(node, desired), annotations=_annotation_changes(node, desired, first=first)
    )
    spec: dict[str, Any] = {}
    if desired.provider_id and not node.provider_id:
        spec["providerID"] = desired.provider_id
    if not initialized:
        taints = _merged_taints(node.taints, (*desired.taints, *desired.startup_taints) if first else desired.taints)
        if first:  # the termination of an earlier request on a machine you own is over
            taints = tuple(taint for taint in taints if taint != DISRUPTED)
            spec |= _uncordoned(node)
        if taints != node.taints:
            spec["taints"] = written(taints)
    elif UNTRUSTED in desired.taints and UNTRUSTED not in node.taints:  # this one may not be removed
        spec["taints"] = written((*node.taints, UNTRUSTED))
    return _changes(metadata=metadata, spec=spec) or None


def cleanup_patch(node: Node, request_uid: str, desired: NodeMetadata | None, now: datetime) -> dict[str, Any] | None:
    """The merge patch that restores the Node of a machine you own as before its request; None: nothing to change.

    Since when the machine is off stays on it. A Node that already has the next request's labels is left alone. Without
    `desired` the taints of the request are not known, and stay.
    """
    if node.unreadable or node.labels.get(REQUEST_UID, request_uid) != request_uid:
        return None
    ours = {DISRUPTED, *desired.taints, *desired.startup_taints} if desired is not None else {DISRUPTED}
    kept = tuple(taint for taint in node.taints if taint not in ours)
    spec = _uncordoned(node)
    if kept != node.taints:
        spec["taints"] = written(kept)
    ours_there = {name for name in node.annotations if _our_annotation(name) and name != OFF_SINCE}
    ours_there.update(_annotated_names(node.annotations.get(ANNOTATED, "")))
    annotations: dict[str, str | None] = dict.fromkeys(sorted(ours_there))
    if REMEMBERED in node.annotations:
        annotations[OFF_SINCE] = rfc3339(now)
    labels = dict.fromkeys(sorted(_remembered(node) & node.labels.keys()))
    return _changes(metadata=_changes(labels=labels, annotations=annotations), spec=spec) or None


def labels_with(node: Node, ours: Mapping[str, str]) -> dict[str, str]:
    """Of the Node of a machine you own, once ours are there: what another tool may have set stays."""
    kept = {name: text for name, text in node.labels.items() if not _reserved(name) or name in FOUND_THERE}
    return {**kept, **ours, **{name: kept[name] for name in KUBELETS_OWN | FOUND_THERE if name in kept}}


def off_since(node: Node) -> datetime | None:
    """When the last request of a machine you own was over; None: it never had one, or has one now."""
    written = node.annotations.get(OFF_SINCE, "")
    return datetime.fromisoformat(written.upper()) if is_rfc3339(written) else None


def exclusive_taint(request: str) -> Taint:
    """Keeps every pod off the machine but those made for this request. A request's name is always a label value."""
    return Taint(REQUEST, "NoSchedule", request)


def pool_owner(record: KubeObject[GPURequest]) -> OwnerRef | None:
    """The pool that created the request; None: a user did."""
    return next((owner for owner in record.owners if owner.controller and owner.kind == POOL_KIND), None)


def pool_uid(record: KubeObject[GPURequest]) -> str:
    """Of the pool that created the request; empty: a user did."""
    owner = pool_owner(record)
    return owner.uid if owner is not None else ""


def pool_name(record: KubeObject[GPURequest]) -> str:
    """Of the pool that created the request; empty: a user did."""
    owner = pool_owner(record)
    return owner.name if owner is not None else ""


def pool_key(record: KubeObject[GPURequest]) -> ObjectKey | None:
    """Of the pool that created the request, in the same namespace; None: a user did."""
    name = pool_name(record)
    return ObjectKey(record.key.namespace, name) if name else None


def _reserved(name: str) -> bool:
    """Also in objects that were written before such keys were refused."""
    return name in RESERVED or matches(name, OURS_PATTERN)


def _metadata(
    record: KubeObject[GPURequest], request: GPURequest, offer: Offer, price: str, pool: GPUNodePool | None
) -> NodeMetadata:
    template = pool.spec.template if pool is not None else None
    given = template.metadata if template is not None else None
    owned = offer.boot is BootMode.POWER
    ours, raw = _ours(record, offer, price)
    theirs = {name: value for name, value in request.spec.labels.items() if not _reserved(name)}
    extra = given.annotations if given is not None else {}
    taints = (*template_taints(template, offer), *_taints(request.spec.taints))
    if request.spec.exclusive:
        taints = (*taints, exclusive_taint(record.key.name))
    annotations = {**raw, PRICE: price}
    if request.status.mesh_hostname:
        annotations[MESH_HOSTNAME] = request.status.mesh_hostname
    if request.status.mesh_address:
        annotations[MESH_ADDRESS] = request.status.mesh_address
    return NodeMetadata(
        labels=template_labels(template) | theirs | ours,
        annotations=annotations,
        taints=_merged_taints((), taints),
        startup_taints=startup_taints(template),
        template_annotations={name: value for name, value in extra.items() if not name.startswith("tgp.io/")},
        left_alone=KUBELETS_OWN | FOUND_THERE if owned else KUBELETS_OWN,
    )


def _ours(record: KubeObject[GPURequest], offer: Offer, price: str) -> tuple[dict[str, str], dict[str, str]]:
    """Our labels, and beside them in annotations what had to be slugged. What is unknown has no label."""
    pool = pool_name(record)
    known = {
        "tgp.io/nodepool": pool,
        "tgp.io/nodepool-namespace": record.key.namespace if pool else "",
        REQUEST: record.key.name,
        REQUEST_UID: record.uid_text,
        **offer_labels(offer),
        PRICE_LABEL: price,
    }
    labels = {name: label_value(text) for name, text in known.items()}
    raw = {f"tgp.io/{name.rpartition('/')[2]}{RAW}": text for name, text in known.items() if not is_label_value(text)}
    return {name: value for name, value in labels.items() if value}, raw


def _taints(rows: Iterable[WrittenTaint]) -> tuple[Taint, ...]:
    return tuple(Taint(row.key, row.effect, row.value or "") for row in rows)


def _merged_taints(held: Iterable[Taint], wanted: Iterable[Taint]) -> tuple[Taint, ...]:
    """Both together, the wanted one where they differ in value only: a Node has one taint per key and effect."""
    every = {(taint.key, taint.effect): taint for taint in held}
    every.update({(taint.key, taint.effect): taint for taint in wanted})
    return tuple(every.values())


def _label_changes(node: Node, desired: NodeMetadata) -> dict[str, str | None]:
    before = _remembered(node)
    wanted = _applied_labels(node, desired)
    # The machine's own kubelet may write labels: only we may set those that name its owner.
    gone = sorted(name for name in node.labels if (name in before or name in CLAIMED) and name not in wanted)
    return dict.fromkeys(gone) | {name: text for name, text in wanted.items() if node.labels.get(name) != text}


def _applied_labels(node: Node, desired: NodeMetadata) -> dict[str, str]:
    """Without those that another tool set first and may set."""
    theirs = desired.left_alone & (node.labels.keys() - _remembered(node))
    return {name: text for name, text in sorted(desired.labels.items()) if name not in theirs}


def _annotation_changes(node: Node, desired: NodeMetadata, *, first: bool) -> dict[str, str | None]:
    wanted = {**desired.annotations, REMEMBERED: ",".join(_applied_labels(node, desired))}
    template, held = desired.template_annotations, node.annotations.get(ANNOTATED, "")
    if template:
        wanted[ANNOTATED] = annotated(template)
    kept = wanted.keys() if first else wanted.keys() | {CORDONED}
    gone = sorted(name for name in node.annotations if _our_annotation(name) and name not in kept)
    changed = {name: text for name, text in wanted.items() if node.annotations.get(name) != text}
    if held != wanted.get(ANNOTATED, ""):  # what users edit on the Node stays until the template changes
        gone += [name for name in _annotated_names(held) if name not in template]
        changed |= template
    return dict.fromkeys(gone) | changed


def annotated(template: Mapping[str, str]) -> str:
    """What is remembered of annotations whose values are not read again."""
    text = "\0".join(part for pair in sorted(template.items()) for part in pair)
    return f"{blake2b(text.encode(), digest_size=DIGEST_DIGITS // 2).hexdigest()} {','.join(sorted(template))}"


def _annotated_names(held: str) -> list[str]:
    names = held.partition(" ")[2].split(",")
    return [name for name in names if name and not name.startswith("tgp.io/")]


def _our_annotation(name: str) -> bool:
    return name in (PRICE, MESH_HOSTNAME, MESH_ADDRESS, REMEMBERED, ANNOTATED, CORDONED, OFF_SINCE) or (
        name.startswith("tgp.io/") and name.endswith(RAW)
    )


def _remembered(node: Node) -> frozenset[str]:
    """Labels we added before. A kubelet can write its Node's annotations: only keys that can be ours are believed."""
    return _believed(node.annotations.get(REMEMBERED, ""))


@lru_cache(maxsize=FITTING_KEPT)
def _believed(names: str) -> frozenset[str]:
    every = names.split(",")
    return frozenset(name for name in every if name and (name in RESERVED or OPEN_DOMAINS.holds((name,), None)))


def _uncordoned(node: Node) -> dict[str, Any]:
    return {"unschedulable": None} if node.cordoned and CORDONED in node.annotations else {}


def _changes(**parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(part) for name, part in parts.items() if part}
