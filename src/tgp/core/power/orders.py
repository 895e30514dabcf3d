"""Machines you own that a pool wants without a pod that asks: those found on, and those of an open `keepOn` window.

One that is on and has no request is taken over, without a power call: from then on it idles, is drained and is switched
off like any other. What cannot be told for certain changes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tgp.api.common import OWNED_PROVIDER, canonical_provider
from tgp.api.nodepool import GPUNodePool
from tgp.api.owned_machine import PowerMachine
from tgp.api.request import GPURequest
from tgp.api.values import microusd
from tgp.core.disruption.drift import unmet_requirement
from tgp.core.model.attempts import TAKES_OVER, attempts_of, open_attempt
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode, Offer, Stock
from tgp.core.model.offer_labels import offer_labels
from tgp.core.model.pod import Pod
from tgp.core.model.taints import untolerated
from tgp.core.pools.orders import AnchoredOrder
from tgp.core.pools.planner.world import Order
from tgp.core.power.times import keep_on, stays_off_until
from tgp.core.requests.node_metadata import pool_uid, startup_taints, template_labels, template_taints

ANCHOR = "machine-"  # how the anchor of such a request begins, before the machine's name


@dataclass(frozen=True, slots=True)
class OwnedMachine:
    """One machine of a class, with all that the decision may use."""

    machine: PowerMachine
    node: Node | None = None  # of its name; None: there is none
    offer: Offer | None = None  # as it was listed last; None: it was not
    source: str = ""  # of the price book
    pods: tuple[Pod, ...] = ()  # that run there
    requested: bool = False  # a request for it lives
    problem: str = ""  # why it cannot be used now; empty: it can
    cools_down_until: datetime | None = None  # after a failure; None: it may be tried now

    @property
    def on(self) -> bool:
        return self.node is not None and self.node.ready is True


@dataclass(frozen=True, slots=True)
class PowerObservation:
    key: ObjectKey  # of the pool
    pool: GPUNodePool
    now: datetime
    machines: tuple[OwnedMachine, ...] = ()


def machine_named_by(record: KubeObject[GPURequest]) -> str:
    """The machine you own that a request has reserved, or that its pool ordered; empty: none.

    What a user's request only asks for keeps no machine: it may never buy.
    """
    if record.value is None:
        return ""
    attempt, pin = open_attempt(attempts_of(record)), record.value.spec.offer
    if attempt is not None and attempt.offer is not None:
        return attempt.offer.instance_type if attempt.offer.boot_mode == BootMode.POWER.value else ""
    ordered = pin is not None and pool_uid(record) and canonical_provider(pin.provider) == OWNED_PROVIDER
    return pin.instance_type if pin is not None and ordered else ""


def may_be_wanted(owned: OwnedMachine, now: datetime) -> bool:
    """Whether it is worth a closer look."""
    return not owned.requested and (owned.on or keep_on(owned.machine, now).open)


def next_orders(seen: PowerObservation) -> Iterator[AnchoredOrder]:
    """Requests to create, in the order of the machines' names."""
    for owned in sorted(seen.machines, key=lambda each: each.machine.name):
        offer = owned.offer
        if offer is None or not may_be_wanted(owned, seen.now) or not _usable(owned, offer, seen):
            continue
        if owned.on and offer.stock is Stock.CONFIRMED:
            continue  # its status says off, its Node says on: nothing is concluded
        if owned.on and _would_evict(owned, offer, seen.pool):
            continue
        marks = {TAKES_OVER: owned.machine.name} if owned.on else {}
        order = Order(seen.key, offer, owned.source, offer.hourly_microusd, ())
        yield AnchoredOrder(order, f"{ANCHOR}{owned.machine.name}", marks)


def look_again_at(seen: PowerObservation) -> datetime | None:
    """When the answer changes by itself."""
    moments = [keep_on(each.machine, seen.now).until for each in seen.machines]
    moments += [stays_off_until(each.machine, each.node, seen.now) for each in seen.machines]
    moments += [each.cools_down_until for each in seen.machines]
    return min((each for each in moments if each is not None and each > seen.now), default=None)


def _would_evict(owned: OwnedMachine, offer: Offer, pool: GPUNodePool) -> bool:
    """Whether taints of the pool would take pods off it that run there now."""
    added = (*template_taints(pool.spec.template, offer), *startup_taints(pool.spec.template))
    evicting = [taint for taint in added if taint.effect == "NoExecute"]
    return any(untolerated(evicting, pod.tolerations) is not None for pod in owned.pods if not pod.finished)


def _usable(owned: OwnedMachine, offer: Offer, seen: PowerObservation) -> bool:
    if owned.problem or owned.cools_down_until is not None:
        return False
    if stays_off_until(owned.machine, owned.node, seen.now) is not None:
        return False  # its Node may be the last to notice that it is off
    ceiling = seen.pool.spec.max_hourly_price
    if ceiling is not None and offer.hourly_microusd > microusd(ceiling, "spec.maxHourlyPrice"):
        return False
    there = owned.node.labels if owned.node is not None else {}
    labels = {**there, **template_labels(seen.pool.spec.template), **offer_labels(offer)}
    return not unmet_requirement(seen.pool, labels)
