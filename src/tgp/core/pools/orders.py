"""From the orders of a plan to GPURequests: one request per machine, at most one living request per anchor.

The anchor of a machine is a pod (or a slot of a pool with `replicas`) that it was bought for. Names are made from it,
so that an operator that repeats itself creates nothing twice, and machines on their way never outnumber waiting pods.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import Any

import msgspec

from tgp.api.nodepool import GPUNodePool
from tgp.api.pattern import matches
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_POOL, GPU_REQUEST
from tgp.api.values import microusd, usd
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION, pool_mark
from tgp.core.model.costs import POOL_KIND
from tgp.core.model.gpus import known
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import UNKNOWN_REGION, Offer
from tgp.core.model.pod import OwnerRef, Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.planner.classes import gang_of
from tgp.core.pools.planner.world import PRICE_MARGIN, Order

# Annotations of a pool's request: its anchor, the pods that it was bought for, and the plan that ordered it.
FOR, PODS, PLAN = "tgp.io/for", "tgp.io/pods", "tgp.io/plan"
MOVE, REPLACES = "tgp.io/move", "tgp.io/replaces"  # of a machine that takes the place of another: which, in which move
NOT_IN_BACKUPS = "velero.io/exclude-from-backup"  # a restored copy would be a request that buys
DIGITS = 10
LONGEST_NAME = 63
MOST_ORDINALS = 200  # requests that one anchor may have had and that still exist
BACKSTOP = "30m"  # the idle timeout once no pool looks after the machine (kubectl delete --cascade=orphan)
SLOT = "slot-"  # how the anchor of a pool with `replicas` begins
MOST_PODS, LONGEST_UID = 256, 128  # of pods that a machine was bought for, as far as they are read: as below
FAMILIES_KEPT = 4_096  # whose digest is not made again
SLOT_DIGITS = 6  # of a number: a user may edit the annotation
_REGION = r"^[!-~]{1,63}$"
_PODS = msgspec.json.Decoder(dict[str, list[str]])


@dataclass(frozen=True, slots=True)
class AnchoredOrder:
    order: Order
    anchor: str
    marks: Mapping[str, str] = field(default_factory=dict)  # further annotations


def slot_of(pool_uid: str, number: int) -> str:
    return f"{SLOT}{number}.{pool_uid}"


def slot_number(anchor: str) -> int | None:
    """None: the anchor is a pod."""
    number, dot, _ = anchor.removeprefix(SLOT).partition(".")
    read = number.isascii() and number.isdigit() and len(number) <= SLOT_DIGITS
    return int(number) if anchor.startswith(SLOT) and dot and read else None


def anchor_of(record: KubeObject[GPURequest]) -> str:
    return record.annotations.get(FOR, "")


def family(pod: Pod) -> str:
    """Pods of one namespace that the scheduler treats alike, whatever creates them.

    What a machine could not do for one of them it cannot do for the next: the run of a CronJob, the ReplicaSet of a
    rollout and a pod of the same manifest are new each time.
    """
    placed_by = (pod.requests, tuple(sorted(pod.node_selector.items())), pod.affinity, pod.tolerations)
    return f"{pod.key.namespace}/{_digest((*placed_by, pod.spreads, pod.host_ports, pod.scheduler, pod.priority))}"


@lru_cache(maxsize=FAMILIES_KEPT)
def _digest(template: tuple[object, ...]) -> str:
    return blake2b(repr(template).encode(), digest_size=DIGITS // 2).hexdigest()


def bought_for(record: KubeObject[GPURequest]) -> Mapping[str, str]:
    """Uids of the pods that a pool bought it for, each with its family; of a request that says none, its anchor."""
    try:
        families = _PODS.decode(record.annotations.get(PODS, "{}"))
    except msgspec.DecodeError:
        families = {}
    anchor = anchor_of(record)
    every = ((uid, name) for name, uids in sorted(families.items()) for uid in uids)
    found = dict(islice((each for each in every if max(map(len, each)) <= LONGEST_UID), MOST_PODS))
    return found or ({anchor: anchor} if anchor else {})


def _pods_text(pods: Iterable[Pod]) -> str:
    families: dict[str, list[str]] = {}
    for pod in pods:
        families.setdefault(family(pod), []).append(uid_text(pod.uid))
    return msgspec.json.encode(families, order="sorted").decode()


def anchored(
    orders: Iterable[Order], taken: Collection[str], instead: Mapping[str, Collection[str]] | None = None
) -> Iterator[AnchoredOrder]:
    """Each order with the smallest uid among its pods that anchors nothing yet; an order without one is left out.

    A pod may anchor a machine on its way that the plan gives to others (`instead`: anchor → these pods). One of them
    then anchors the new machine: it would have none without it.
    """
    anchors = set(taken)
    for order in orders:
        anchor = _free_anchor((uid_text(pod.uid) for pod in order.pods), anchors, instead or {})
        if anchor is not None:
            anchors.add(anchor)
            yield AnchoredOrder(order, anchor)


def _free_anchor(uids: Iterable[str], taken: Collection[str], instead: Mapping[str, Collection[str]]) -> str | None:
    """The pods themselves first, then those that get their machines, and so on."""
    near, seen = sorted(uids), set[str]()
    while near:
        if free := [uid for uid in near if uid not in taken]:
            return free[0]
        seen.update(near)
        near = sorted({each for uid in near for each in instead.get(uid, ())} - seen)
    return None


def one_for_each(orders: Iterable[Order], on_trial: Mapping[str, str]) -> Iterator[Order]:
    """Of orders for pods of a family on trial only the first, or those for its gang. `on_trial`: uid → family."""
    first: dict[str, frozenset[str]] = {}  # by family: the gangs of the first order
    for order in orders:
        families = {on_trial[uid] for pod in order.pods if (uid := uid_text(pod.uid)) in on_trial}
        gangs = frozenset(gang for pod in order.pods if (gang := gang_of(pod)))
        if all(name not in first or gangs & first[name] for name in families):
            first |= {name: gangs for name in families if name not in first}
            yield order


def request_name(pool: str, pool_uid: str, anchor: str, ordinal: int) -> str:
    digest = blake2b("\0".join((pool_uid, anchor, str(ordinal))).encode(), digest_size=DIGITS // 2).hexdigest()
    return f"{pool[: LONGEST_NAME - DIGITS - 1].rstrip('-.')}-{digest}"


def free_names(pool: KubeObject[GPUNodePool], anchor: str, taken: Callable[[ObjectKey], bool]) -> Iterator[ObjectKey]:
    """Names for one more request of the anchor, in the order of their ordinals, without those that are known taken."""
    for ordinal in range(MOST_ORDINALS):
        key = ObjectKey(pool.key.namespace, request_name(pool.key.name, pool.uid_text, anchor, ordinal))
        if not taken(key):
            yield key


def manifest_of(
    key: ObjectKey, anchored_order: AnchoredOrder, pool: KubeObject[GPUNodePool], class_name: str, plan: str
) -> dict[str, Any]:
    assert pool.value is not None, "a pool that cannot be read orders nothing"
    order, spec = anchored_order.order, pool.value.spec
    return {
        "apiVersion": GPU_REQUEST.api_version,
        "kind": GPU_REQUEST.kind,
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "finalizers": [FINALIZER],
            "annotations": {
                **anchored_order.marks,
                UID_ANNOTATION: pool_mark(pool.uid_text, key.name),
                FOR: anchored_order.anchor,
                PODS: _pods_text(order.pods),
                PLAN: plan,
                NOT_IN_BACKUPS: "true",
            },
            "ownerReferences": [
                {
                    "apiVersion": GPU_NODE_POOL.api_version,
                    "kind": POOL_KIND,
                    "name": pool.key.name,
                    "uid": pool.uid_text,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "nodeClassRef": {"name": class_name},
            "offer": pinned(order.offer),
            **({"gpuType": order.offer.gpu} if known(order.offer.gpu) else {}),
            "gpuCount": max(order.offer.gpu_count, 1),
            "spot": order.offer.spot,
            "maxHourlyPrice": usd(most_microusd(order, pool.value)),
            "maxLifetime": "Never",
            "idleTimeout": BACKSTOP,
            "terminationGracePeriod": spec.template.spec.termination_grace_period,
        },
    }


def pinned(offer: Offer) -> dict[str, str]:
    """A place that is no valid field value is left out: provider, type and price still bind."""
    region = offer.place if matches(offer.place, _REGION) else offer.region
    where = {} if region in ("", UNKNOWN_REGION) else {"region": region}
    return {"provider": offer.provider, "instanceType": offer.instance_type, **where}


def most_microusd(order: Order, pool: GPUNodePool) -> int:
    """The lowest of the pool's ceiling, the planned price with a margin, and what the machine is wanted for."""
    most = order.hourly_microusd + -(-order.hourly_microusd // PRICE_MARGIN)
    most = most if order.most_microusd is None else min(most, order.most_microusd)
    ceiling = pool.spec.max_hourly_price
    return most if ceiling is None else min(most, microusd(ceiling, "spec.maxHourlyPrice"))


def record_of(manifest: Mapping[str, Any], pool: KubeObject[GPUNodePool]) -> KubeObject[GPURequest]:
    """The request as the view will show it: until then it stands in for it."""
    meta = manifest["metadata"]
    return KubeObject(
        key=ObjectKey(meta["namespace"], meta["name"]),
        annotations=meta["annotations"],
        finalizers=tuple(meta["finalizers"]),
        owners=(OwnerRef(POOL_KIND, pool.key.name, pool.uid_text, GPU_NODE_POOL.api_version, controller=True),),
        value=msgspec.convert({**manifest, "metadata": {}}, GPURequest),
    )


def is_ours(found: Mapping[str, Any], pool: KubeObject[GPUNodePool], anchor: str) -> bool:
    """Whether an object that has the name already is the request that was to be created, and lives."""
    meta = found.get("metadata", {})
    owned = any(each.get("uid") == pool.uid_text and each.get("controller") for each in meta.get("ownerReferences", ()))
    ended = found.get("status", {}).get("phase") in ("Finished", "Failed")
    same = (meta.get("annotations") or {}).get(FOR) == anchor
    return owned and same and not ended and "deletionTimestamp" not in meta
