"""Gathers the snapshot: the tgp objects of a cluster, its nodes, pods and Events."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tgp.adapters.kube.event_channel import CacheFeeder
from tgp.adapters.kube.events import CORE_EVENT
from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.records.event import EventReader
from tgp.adapters.kube.records.kinds import nodes, pods, typed
from tgp.adapters.kube.records.projection import Projection
from tgp.adapters.kube.reflector import Reflector, State
from tgp.adapters.kube.store import Store
from tgp.api.budget import GPUWorkloadBudget
from tgp.api.common import OWNED_PROVIDER
from tgp.api.kinds import OUR_KINDS, Kind
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool, LastPlan
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_POOL, GPU_REQUEST, NODE, POD, Resource
from tgp.app.program import program
from tgp.app.view.object_summary import OBSERVING, ObjectObservation, budget_message, object_row_of, pool_message
from tgp.app.view.pod_counts import PodCounts, gpus
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.costs import class_spent, hourly_of, read_amount, spent_by
from tgp.core.model.event import Event
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.requests.node_metadata import PRICE_LABEL
from tgp.core.requests.node_state import read_provider_id
from tgp.interfaces.terminal.snapshot import (
    CostRow,
    EventRow,
    MarketSummary,
    NodeRow,
    ObjectRow,
    PlanSummary,
    ScenarioLine,
    Snapshot,
    WaitingRow,
    label,
)
from tgp.ports.entropy import Entropy
from tgp.ports.http import Http
from tgp.ports.journal import Journal

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"  # finished pods use nothing
OURS_ONLY = "involvedObject.apiVersion=tgp.io/v1"  # a large cluster has many Events about other kinds
SHOWN_EVENTS = 100  # the newest; no screen is longer
NOTES = (  # labels that describe a machine; the first one present is shown
    "tgp.io/gpu-type",
    "nvidia.com/gpu.product",
    "node.kubernetes.io/instance-type",
)
COUNTS = frozenset({"Ready", "QuotaExceeded"})  # states of a budget in which its use says most
ANSWERED = frozenset({State.FORBIDDEN, State.NOT_SERVED})
# Reasons of Events that tell which machine is bought for a pod, and why none is.
TRIGGERED, NOT_TRIGGERED = "TriggeredScaleUp", "NotTriggerScaleUp"
UNSCHEDULED = "FailedScheduling"  # told of pods that wait, which have lines of their own
POOL_LABEL = "tgp.io/nodepool"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


@dataclass(frozen=True, slots=True)
class Frame:
    """What the gatherer does not know itself."""

    title: str
    pace: str
    url: str
    kubectl: str  # with the flags for this cluster
    operator: Mapping[str, str]
    log_rows: Iterable[EventRow] = ()
    troubles: tuple[str, ...] = ()
    market: MarketSummary = field(default_factory=MarketSummary)
    look: str = ""  # the command for another terminal; empty: kubectl get tgp -A
    scenario_lines: tuple[ScenarioLine, ...] = ()  # scenario steps, newest last
    held: str = ""  # why purchases are paused; empty: they are not
    default_hint: str = ""  # if there is no problem; empty: kubectl get tgp
    machine_prices: Mapping[tuple[str, int], int] = field(default_factory=dict)  # of GPU model and number of GPUs


@dataclass(frozen=True)
class Sources:
    http: Http
    now: Callable[[], datetime]  # by the clock that stamped the objects
    entropy: Entropy
    journal: Journal


class Gatherer:
    """Fills its own stores, except for the kinds that `shared` reflectors fill already."""

    def __init__(self, sources: Sources, *, shared: Iterable[CacheFeeder] = (), event_selector: str = "") -> None:
        self._sources = sources
        self._pod_counts = PodCounts()
        self._shared = {reflector.store.resource: reflector for reflector in shared}
        self._ours = tuple(self._kind(kind) for kind in OUR_KINDS)
        self._nodes: Reflector[Node] = self._reflector(ListTarget(nodes()), Store(NODE))
        pod_store: Store[Pod] = Store(POD)
        pod_store.subscribe(self._pod_counts.changed)
        self._pods: Reflector[Pod] = self._reflector(ListTarget(pods(), field_selector=UNFINISHED), pod_store)
        events: Projection[Event] = Projection(CORE_EVENT, EventReader())
        self._events: Reflector[Event] = self._reflector(
            ListTarget(events, field_selector=event_selector), Store(CORE_EVENT), streaming=False
        )
        self._newest = _Newest(self._events.store)

    def _kind(self, kind: Kind) -> CacheFeeder:
        found = self._shared.get(kind.resource)
        if found is not None:
            return found
        return self._reflector(ListTarget(typed(kind.resource, kind.type)), Store(kind.resource))

    def _reflector(self, subject: ListTarget[Any], store: Store[Any], *, streaming: bool = True) -> Reflector[Any]:
        given = self._sources
        return Reflector(given.http, subject, store, given.entropy, given.journal, streaming=streaming)

    @property
    def _every(self) -> tuple[CacheFeeder, ...]:
        return (*self._ours, self._nodes, self._pods, self._events)

    async def run(self) -> None:
        """Until cancelled. What cannot be read is reported in the snapshot; the rest is shown."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._every:
                if self._shared.get(reflector.store.resource) is not reflector:
                    group.create_task(reflector.run(), name=f"view of {reflector.store.resource.plural}")

    @property
    def reached(self) -> bool:
        """The API server has answered, even if only with a refusal."""
        return any(reflector.store.synced or reflector.state in ANSWERED for reflector in self._every)

    def snapshot(self, frame: Frame) -> Snapshot:
        now = self._sources.now()
        objects = self._objects(now)
        paying = [row.cost for row in objects if row.kind == GPU_REQUEST.kind and row.cost is not None]
        return Snapshot(
            title=frame.title,
            now=now,
            pace=frame.pace,
            url=frame.url,
            look=frame.look or f"{frame.kubectl} get tgp -A",
            operator=frame.operator,
            objects=objects,
            machines=self._machines(),
            pods=self._pod_counts.states(),
            events=self._event_rows(frame.log_rows),
            hint=_hint(objects, frame),
            market=frame.market,
            troubles=(*frame.troubles, *self.troubles()),
            objects_known=any(reflector.store.synced for reflector in self._ours),
            machines_known=self._nodes.store.synced,
            rented=sum(cost.hourly_microusd > 0 for cost in paying),
            hourly_microusd=sum(cost.hourly_microusd for cost in paying),
            held=frame.held,
            scenario_lines=frame.scenario_lines,
            waiting=self._waiting(),
            plan=self._plan(frame.machine_prices),
        )

    def _waiting(self) -> tuple[WaitingRow, ...]:
        """Pods that wait for a GPU, each with what its last Event says about pools."""
        told = self._newest.told_of_pools()
        rows = []
        for key, pod in self._pod_counts.waiting.items():
            event = told.get(key)
            ordered = event is not None and event.reason == TRIGGERED
            reason = "" if event is None else event.message.partition("; ")[0] if ordered else event.message
            rows.append(WaitingRow(str(key), pod.created_at or _LONG_AGO, reason, ordered))
        return tuple(sorted(rows, key=lambda row: (row.since, row.name)))

    def _plan(self, prices: Mapping[tuple[str, int], int]) -> PlanSummary | None:
        pools = next(one.store for one in self._ours if one.store.resource == GPU_NODE_POOL)
        plans = [pool.value.status.last_plan for pool in pools.values() if pool.value is not None]
        last = max((plan for plan in plans if plan is not None and plan.at is not None), key=_planned_at, default=None)
        if last is None:
            return None
        paid, alone = self._pool_costs(prices)
        orders = sum(plan.orders for plan in plans if plan is not None and plan.at == last.at)
        unserved = max(plan.unserved for plan in plans if plan is not None and plan.at == last.at)
        gap, together = last.gap or "", sum(alone.values())
        return PlanSummary(_planned_at(last), gap, orders, unserved, paid, together, alone, last.gap_without or "")

    def _pool_costs(self, prices: Mapping[tuple[str, int], int]) -> tuple[int, Mapping[str, int]]:
        """What machines of pools with pods on them cost, and what one machine for each of those pods would, by uid."""
        paid, alone = 0, dict[str, int]()
        for name, there in self._pod_counts.with_gpus.items():
            node = self._nodes.store.get(ObjectKey("", name))
            price = read_amount(node.labels.get(PRICE_LABEL)) if node is not None else None
            if node is None or price is None or POOL_LABEL not in node.labels:
                continue
            paid += price
            model = node.labels.get("tgp.io/gpu-type", "")
            for pod in there.values():
                least = gpus(pod.requests)
                if least >= gpus(node.allocatable):  # it has the machine for itself
                    alone[uid_text(pod.uid)] = price
                    continue
                fitting = (cost for (gpu, count), cost in prices.items() if gpu == model and count >= least)
                alone[uid_text(pod.uid)] = min(fitting, default=price)
        return paid, alone

    def troubles(self) -> tuple[str, ...]:
        """What cannot be read, with the command that changes that."""
        missing = [one.store.resource.kind for one in self._ours if one.state == State.NOT_SERVED]
        said = [f"not installed: {', '.join(missing)}. To install: {program()} crds apply"] if missing else []
        forbidden = [one.store.resource for one in self._every if one.state == State.FORBIDDEN]
        if forbidden:
            said.append(f"you may not read: {', '.join(resource.plural for resource in forbidden)}")
        known = {State.NOT_SERVED, State.FORBIDDEN}
        others = [one for one in self._every if one.why and one.state not in known]
        if others:  # most likely one cause, so it is reported once
            rest = ", ".join(one.store.resource.plural for one in others[1:])
            said.append(
                f"{others[0].store.resource.plural}: {others[0].why}" + (f"; the same for {rest}" if rest else "")
            )
        return tuple(said)

    def _objects(self, now: datetime) -> tuple[ObjectRow, ...]:
        found = []
        for reflector in self._ours:
            resource = reflector.store.resource
            for record in reflector.store.values():
                row = replace(object_row_of(_observation(resource, record), now), cost=cost_row_of(record, now))
                if isinstance(record.value, GPUNodePool) and row.good:
                    row = replace(row, message=pool_message(record.value.status, now, observes=row.state == OBSERVING))
                if isinstance(record.value, GPUWorkloadBudget) and row.state in COUNTS:
                    row = replace(row, message=budget_message(record.value, row.message, now))
                found.append(row)
        return tuple(sorted(found, key=_problems_first))

    def _machines(self) -> tuple[NodeRow, ...]:
        pod_counts = self._pod_counts
        found = [
            NodeRow(
                name=node.name,
                ready=node.ready is True,
                gpus=gpus(node.allocatable),
                gpus_used=pod_counts.gpus_used_on(node.name),
                pods=pod_counts.pods_on(node.name),
                note=node_note(node),
            )
            for node in self._nodes.store.values()
        ]
        return tuple(sorted(found, key=lambda machine: (machine.ready, -machine.gpus, machine.name)))

    def _event_rows(self, log_rows: Iterable[EventRow]) -> tuple[EventRow, ...]:
        both = [*self._newest.rows(), *log_rows]
        both.sort(key=lambda one: one.at)  # of one second: in the order in which they were written
        return tuple(both[-SHOWN_EVENTS:])


class _Newest:
    """The newest Events of a store, computed again only when the store has changed."""

    def __init__(self, store: Store[Event]) -> None:
        self._store = store
        self._stale = True
        self._held: list[EventRow] = []
        self._told: dict[ObjectKey, Event] = {}
        store.subscribe(self._changed)

    def _changed(self, _old: Event | None, _new: Event | None) -> None:
        self._stale = True

    def rows(self) -> list[EventRow]:
        self._refresh()
        return self._held

    def told_of_pools(self) -> Mapping[ObjectKey, Event]:
        """By pod: the last Event that tells which machine is bought for it, or why none is."""
        self._refresh()
        return self._told

    def _refresh(self) -> None:
        if not self._stale:
            return
        self._held = newest(self._store.values())
        reasons = (TRIGGERED, NOT_TRIGGERED)
        told = [event for event in self._store.values() if event.kind == POD.kind and event.reason in reasons]
        told.sort(key=lambda event: (event.at or _LONG_AGO, event.resource_version))
        self._told = {event.about: event for event in told}
        self._stale = False


def newest(events: Iterable[Event]) -> list[EventRow]:
    """The Events to show, oldest first. Of pods only warnings, each once."""
    found: dict[tuple[object, ...], tuple[datetime, Event]] = {}
    for event in sorted(events, key=lambda one: (one.at or _LONG_AGO, one.resource_version, one.key)):
        if event.kind == "Pod":
            if not event.warning or event.reason == UNSCHEDULED:
                continue
            mark: tuple[object, ...] = (event.about, event.reason)
        else:
            mark = (event.key,)
        found.pop(mark, None)
        found[mark] = (event.at or _LONG_AGO, event)
    return [_event_row(at, event) for at, event in list(found.values())[-SHOWN_EVENTS:]]


_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def _event_row(at: datetime, event: Event) -> EventRow:
    text = event.message.partition(". ")[0] if event.kind == "Pod" else event.message
    return EventRow(at, event.warning, label(event.kind, str(event.about)), event.reason, text, event.times)


def _planned_at(plan: LastPlan) -> datetime:
    return plan.at or _LONG_AGO


def _observation(resource: Resource, record: KubeObject[Any]) -> ObjectObservation:
    return ObjectObservation(resource, record.key, record.created_at, record.deleting, record.status_document)


_KIND_ORDER = (GPU_NODE_POOL.kind, GPU_REQUEST.kind)  # then the others
_GOOD_ORDER = {False: 0, None: 1, True: 2}


def _problems_first(row: ObjectRow) -> tuple[int, int, str, str]:
    """Then pools and their machines; finished objects are last."""
    good = len(_GOOD_ORDER) if row.over and row.good else _GOOD_ORDER[row.good]
    place = _KIND_ORDER.index(row.kind) if row.kind in _KIND_ORDER else len(_KIND_ORDER)
    return good, place, row.kind, row.name


def node_note(node: Node) -> str:
    words = [node.labels[name] for name in NOTES if node.labels.get(name)][:1]
    if provider := node.labels.get("tgp.io/provider"):
        rented = provider != OWNED_PROVIDER and read_provider_id(node.provider_id)
        words.append(f"rented from {provider}" if rented else "your own")
    if CONTROL_PLANE in node.labels:
        words.insert(0, "control plane")
    if node.cordoned:
        words.append("cordoned")
    return ", ".join(words)


def _hint(objects: tuple[ObjectRow, ...], frame: Frame) -> str:
    """The command that explains the first problem; else one that lists all objects."""
    for row in objects:
        if row.good is False:
            namespace, _, name = row.name.rpartition("/")
            where = f" -n {namespace}" if namespace else ""
            return f"{frame.kubectl} describe {row.kind.lower()} {name}{where}"
    return frame.default_hint or f"{frame.kubectl} get tgp -A -o wide"


def cost_row_of(record: KubeObject[Any], now: datetime) -> CostRow | None:
    """None: objects of this kind have no cost, or it cannot be read."""
    match record.value:
        case GPURequest(status=status) if not copied(record):
            attempts = attempts_of(record)
            attempt = open_attempt(attempts)
            hourly = hourly_of(attempt) if attempt is not None else 0
            return CostRow(hourly, spent_by(status, now), status.termination_scheduled_at if hourly else None)
        case GPUNodeClass(status=status):
            return CostRow(read_amount(status.hourly_cost) or 0, class_spent(status, now))
        case GPUNodePool(status=status):
            return CostRow(read_amount(status.hourly_cost) or 0, 0)
        case _:
            return None
