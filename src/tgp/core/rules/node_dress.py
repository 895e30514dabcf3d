"""What the Node of a request wears (labels, annotations, taints, its provider id) and the patch that puts it right.

Labels are the contract with schedulers and screens, so they are corrected for life; taints only until the Node counts
as initialised: after that an administrator may lift them. Start-up taints are hung up once, for others to take down.
What we put there is remembered in an annotation, so that a label taken out of the spec leaves the Node too, and a
machine you own can be undressed when its request is over.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from tgp.api.common import REQUIREMENT_KEYS
from tgp.api.common import Taint as WrittenTaint
from tgp.api.nodepool import GPUNodePool
from tgp.api.pattern import matches
from tgp.api.request import Attempt, GPURequest
from tgp.api.rules import LABEL_VALUE_PATTERN, OPEN_DOMAINS, OURS_PATTERN
from tgp.api.values import usd
from tgp.core.model.gpus import resource_name
from tgp.core.model.node import Node
from tgp.core.model.offer import UNKNOWN_REGION, BootMode, Offer
from tgp.core.model.taints import Taint
from tgp.core.model.typed import Typed
from tgp.core.rules.device_plugin import EPHEMERAL, REQUEST, FutureNode
from tgp.core.rules.drain import CORDONED, DISRUPTED, written
from tgp.core.rules.node_state import provider_id_of
from tgp.core.rules.purchase import offer_of, untrusted

REQUEST_UID = "tgp.io/request-uid"
GPU_PRESENT = "nvidia.com/gpu.present"
REGION = "topology.kubernetes.io/region"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
PRICE_LABEL = "eks-node-viewer/instance-price"
PRICE = "tgp.io/hourly-price"
MESH_HOSTNAME = "tgp.io/mesh-hostname"
MESH_ADDRESS = "tgp.io/mesh-address"
UNTRUSTED = Taint("tgp.io/untrusted", "NoSchedule")  # somebody else owns the host, and can read what runs there
REMEMBERED = "tgp.io/labels"  # the names of the labels we put there, sorted, between commas
RAW = "-raw"  # tgp.io/region-raw: what a label would say if label values could

# Ours alone, whether or not this Node has them: nobody joins a pool, or another's request, by a label of their own.
RESERVED = frozenset(key for key in REQUIREMENT_KEYS if not key.startswith(("kubernetes.io/", "topology.")))
CLAIMED = frozenset(name for name in RESERVED if name.startswith("tgp.io/"))
KUBELETS_OWN = frozenset({"kubernetes.io/arch", "kubernetes.io/os"})  # it knows best, and says it once
FOUND_THERE = frozenset({REGION, INSTANCE_TYPE, GPU_PRESENT})  # a machine you own may have them from somebody else
LONGEST_LABEL = 63
FITTING_KEPT = 4096  # texts of which it is remembered whether they fit: a Node's are looked at in every turn
_NO_LABEL = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Dress:
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    provider_id: str = ""  # empty: the machine is owned, and keeps what it has
    first_annotations: Mapping[str, str] = field(
        default_factory=dict
    )  # of the pool's template: put on once, then anybody's
    left_alone: frozenset[str] = frozenset()  # labels that somebody else may have given it already: then theirs stay


def dress_of(record: Typed[GPURequest], attempt: Attempt, pool: GPUNodePool | None = None) -> Dress | None:
    """For the machine of an attempt; None: its record does not say what it is, so it is left as it is."""
    if record.object is None or attempt.offer is None:
        return None
    offer = offer_of(attempt.offer)
    price = attempt.hourly_price or attempt.offer.hourly_price or usd(offer.hourly_microusd)
    identity = "" if offer.boot is BootMode.POWER else provider_id_of(offer.provider, attempt.token)
    return replace(_dress(record, record.object, offer, price, pool), provider_id=identity)


def future_node(record: Typed[GPURequest], offer: Offer, pool: GPUNodePool | None = None) -> FutureNode:
    """What would register if this offer were bought. Start-up taints are left out: whoever waits for them may come."""
    assert record.object is not None, "a request that cannot be read buys nothing"
    dress = _dress(record, record.object, offer, usd(offer.hourly_microusd), pool)
    return FutureNode({"kubernetes.io/os": "linux", "kubernetes.io/arch": offer.arch, **dress.labels}, dress.taints)


def mend(node: Node, dress: Dress, *, initialized: bool) -> dict[str, Any] | None:
    """The merge patch, to be sent under the Node's resourceVersion; None: nothing is to be sent.

    A Node under another provider id is not ours to dress. Not for a machine on its way out: that one is cordoned.
    """
    if node.unreadable or (dress.provider_id and node.provider_id not in ("", dress.provider_id)):
        return None
    dressed = REMEMBERED in node.annotations and node.labels.get(REQUEST_UID) == dress.labels[REQUEST_UID]
    first = not (dressed or initialized)
    metadata = _changes(labels=_label_changes(node, dress), annotations=_annotation_changes(node, dress, first=first))
    spec: dict[str, Any] = {}
    if dress.provider_id and not node.provider_id:
        spec["providerID"] = dress.provider_id
    if not initialized:
        taints = _hung(node.taints, (*dress.taints, *dress.startup_taints) if first else dress.taints)
        if first:  # what ended an earlier request on a machine you own is over
            taints = tuple(taint for taint in taints if taint != DISRUPTED)
            spec |= _freed(node)
        if taints != node.taints:
            spec["taints"] = written(taints)
    elif UNTRUSTED in dress.taints and UNTRUSTED not in node.taints:  # nobody lifts this one
        spec["taints"] = written((*node.taints, UNTRUSTED))
    return _changes(metadata=metadata, spec=spec) or None


def undress(node: Node, request_uid: str, dress: Dress | None) -> dict[str, Any] | None:
    """The merge patch that leaves the Node of a machine you own as it was before its request; None: it is so.

    A Node that wears the next request's labels already is left alone. Without a dress the taints of the request are not
    known, and stay.
    """
    if node.unreadable or node.labels.get(REQUEST_UID, request_uid) != request_uid:
        return None
    ours = {DISRUPTED, *dress.taints, *dress.startup_taints} if dress is not None else {DISRUPTED}
    kept = tuple(taint for taint in node.taints if taint not in ours)
    spec = _freed(node)
    if kept != node.taints:
        spec["taints"] = written(kept)
    metadata = _changes(
        labels=dict.fromkeys(sorted(_remembered(node) & node.labels.keys())),
        annotations=dict.fromkeys(sorted(name for name in node.annotations if _our_annotation(name))),
    )
    return _changes(metadata=metadata, spec=spec) or None


def slug(text: str) -> str:
    """The nearest label value: what cannot stand in one becomes a dash."""
    bare = _NO_LABEL.sub("-", text).strip("-_.")
    return bare[:LONGEST_LABEL].rstrip("-_.")


def exclusive_taint(request: str) -> Taint:
    """Keeps every pod off the machine but those made for this request. A request's name is always a label value."""
    return Taint(REQUEST, "NoSchedule", request)


def pool_name(record: Typed[GPURequest]) -> str:
    """The pool that wrote the request; empty: a person did."""
    return next((owner.name for owner in record.owners if owner.controller and owner.kind == "GPUNodePool"), "")


def _reserved(name: str) -> bool:
    """Also of objects that were written before such keys were refused."""
    return name in RESERVED or matches(name, OURS_PATTERN)


def _dress(record: Typed[GPURequest], request: GPURequest, offer: Offer, price: str, pool: GPUNodePool | None) -> Dress:
    template = pool.spec.template if pool is not None else None
    given = template.metadata if template is not None else None
    owned = offer.boot is BootMode.POWER
    ours, raw = _ours(record, offer, price)
    theirs = {**(given.labels if given is not None else {}), **request.spec.labels}
    taints = _taints((*(template.spec.taints if template is not None else ()), *request.spec.taints))
    ephemeral = template.spec.ephemeral_taint if template is not None else None
    if ephemeral if ephemeral is not None else not owned:
        taints = (EPHEMERAL, *taints)
    if request.spec.exclusive:
        taints = (*taints, exclusive_taint(record.key.name))
    if not owned and untrusted(offer):
        taints = (*taints, UNTRUSTED)
    annotations = {**raw, PRICE: price}
    if request.status.mesh_hostname:
        annotations[MESH_HOSTNAME] = request.status.mesh_hostname
    if request.status.mesh_address:
        annotations[MESH_ADDRESS] = request.status.mesh_address
    first = given.annotations if given is not None else {}
    return Dress(
        labels={name: value for name, value in theirs.items() if not _reserved(name)} | ours,
        annotations=annotations,
        taints=_hung((), taints),
        startup_taints=_taints(template.spec.startup_taints) if template is not None else (),
        first_annotations={name: value for name, value in first.items() if not name.startswith("tgp.io/")},
        left_alone=KUBELETS_OWN | FOUND_THERE if owned else KUBELETS_OWN,
    )


def _ours(record: Typed[GPURequest], offer: Offer, price: str) -> tuple[dict[str, str], dict[str, str]]:
    """Our labels, and beside them in annotations what had to be slugged. What is not told has no label."""
    pool = pool_name(record)
    told = {
        "tgp.io/nodepool": pool,
        "tgp.io/nodepool-namespace": record.key.namespace if pool else "",
        REQUEST: record.key.name,
        REQUEST_UID: record.uid_text,
        "tgp.io/provider": offer.provider,
        "tgp.io/gpu-type": offer.gpu,
        "tgp.io/gpu-count": str(offer.gpu_count),
        "tgp.io/gpu-memory": str(offer.gpu_memory_gib or ""),
        "tgp.io/region": offer.region,
        "tgp.io/spot": "true" if offer.spot else "false",
        "tgp.io/capacity-type": "spot" if offer.spot else "on-demand",
        "tgp.io/provisioned": "true",
        GPU_PRESENT: "true" if resource_name(offer.gpu).startswith("nvidia.com/") else "",
        REGION: offer.region if offer.region != UNKNOWN_REGION else "",
        INSTANCE_TYPE: offer.instance_type,
        PRICE_LABEL: price,
    }
    labels = {name: text if _fits(text) else slug(text) for name, text in told.items()}
    raw = {f"tgp.io/{name.rpartition('/')[2]}{RAW}": text for name, text in told.items() if not _fits(text)}
    return {name: value for name, value in labels.items() if value}, raw


@lru_cache(maxsize=FITTING_KEPT)
def _fits(text: str) -> bool:
    return len(text) <= LONGEST_LABEL and matches(text, LABEL_VALUE_PATTERN)


def _taints(rows: Iterable[WrittenTaint]) -> tuple[Taint, ...]:
    return tuple(Taint(row.key, row.effect, row.value or "") for row in rows)


def _hung(held: Iterable[Taint], wanted: Iterable[Taint]) -> tuple[Taint, ...]:
    """Both together, the wanted one where they differ in value only: a Node has one taint per key and effect."""
    every = {(taint.key, taint.effect): taint for taint in held}
    every.update({(taint.key, taint.effect): taint for taint in wanted})
    return tuple(every.values())


def _label_changes(node: Node, dress: Dress) -> dict[str, str | None]:
    before = _remembered(node)
    wanted = _worn(node, dress)
    # A machine's own kubelet may write labels: what says whose it is stands there by our word or not at all.
    gone = sorted(name for name in node.labels if (name in before or name in CLAIMED) and name not in wanted)
    return dict.fromkeys(gone) | {name: text for name, text in wanted.items() if node.labels.get(name) != text}


def _worn(node: Node, dress: Dress) -> dict[str, str]:
    """Without those that somebody else put there first and that are theirs to give."""
    theirs = dress.left_alone & (node.labels.keys() - _remembered(node))
    return {name: text for name, text in sorted(dress.labels.items()) if name not in theirs}


def _annotation_changes(node: Node, dress: Dress, *, first: bool) -> dict[str, str | None]:
    wanted = {**dress.annotations, REMEMBERED: ",".join(_worn(node, dress))}
    kept = wanted.keys() if first else wanted.keys() | {CORDONED}
    gone = sorted(name for name in node.annotations if _our_annotation(name) and name not in kept)
    changed = {name: text for name, text in wanted.items() if node.annotations.get(name) != text}
    return dict.fromkeys(gone) | ({**dress.first_annotations, **changed} if first else changed)


def _our_annotation(name: str) -> bool:
    return name in (PRICE, MESH_HOSTNAME, MESH_ADDRESS, REMEMBERED, CORDONED) or (
        name.startswith("tgp.io/") and name.endswith(RAW)
    )


def _remembered(node: Node) -> frozenset[str]:
    """Labels we put there before. A kubelet can write its Node's annotations: only what could be ours is believed."""
    return _believed(node.annotations.get(REMEMBERED, ""))


@lru_cache(maxsize=FITTING_KEPT)
def _believed(names: str) -> frozenset[str]:
    every = names.split(",")
    return frozenset(name for name in every if name and (name in RESERVED or OPEN_DOMAINS.holds((name,), None)))


def _freed(node: Node) -> dict[str, Any]:
    return {"unschedulable": None} if node.cordoned and CORDONED in node.annotations else {}


def _changes(**parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(part) for name, part in parts.items() if part}
