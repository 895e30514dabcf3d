"""Disrupts the machines of pools: one look at the pools of a class, the next steps, and the steps taken.

Pools of one class in one namespace are looked at together, so that their machines can be exchanged together. Those of
different classes are looked at one after another, so that two of them never give the same room to their pods. Before a
request is deleted pods are listed once more, and everything is decided again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeGuard, assert_never

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_REQUEST, NODE
from tgp.api.values import rfc3339, usd
from tgp.controllers.disruption.observe import SEARCHED_EVERY, DisruptionObserver, PlannedLook
from tgp.controllers.pools.indexes import BY_CLASS
from tgp.controllers.pools.memory import SAID_AGAIN_AFTER
from tgp.controllers.pools.planner import PoolPlanner
from tgp.controllers.requests.indexes import BY_NODE
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.controllers.status_writer import StatusWriter
from tgp.core.disruption.causes import Machine
from tgp.core.disruption.drift import STAMP
from tgp.core.disruption.health import MISSING_SINCE, repair_halted
from tgp.core.disruption.machine_state import (
    CONDITION,
    HALTED,
    RECEIVED,
    REPLACED_BY,
    RETRY,
    UNCONSOLIDATABLE,
    UNPROVEN,
    budgets_left,
    disrupted,
    halt_text,
    nodes_and_unhealthy,
    pods_to_move,
    received_at,
)
from tgp.core.disruption.move_steps import (
    Delete,
    EvictFirst,
    NoteDrain,
    NoteMissing,
    NoteReplacements,
    OrderReplacements,
    PoolMachines,
    Say,
    SetTaint,
    Step,
    TakeBack,
    Unsay,
    WriteDown,
    WriteStamp,
)
from tgp.core.disruption.moves import look_again_at, next_moves
from tgp.core.model.conditions import ConditionUpdate, condition_in
from tgp.core.model.costs import REPLACED_PRICE, divided
from tgp.core.model.facts import (
    DisruptionCounted,
    DisruptionNoted,
    FactSubject,
    MoveEnded,
    PodsMoved,
    SavingsPromised,
    subject_of,
)
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import ObjectRecord, uid_text
from tgp.core.model.taints import Taint
from tgp.core.pools.orders import MOVE, REPLACES, AnchoredOrder, anchor_of, slot_number
from tgp.core.requests.drain import BEGAN, DISRUPTED, written
from tgp.core.requests.node_metadata import pool_key
from tgp.ports.clock import Clock
from tgp.ports.cluster import Blocked, Cluster, ClusterBusy, Conflict, Forbidden, NotFound, Refused
from tgp.ports.journal import Journal
from tgp.ports.reconciler import SOON

REFRESHED_WITHIN = 20.0  # seconds; a slower API server is asked in a later reconcile
LEAST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds between two looks at the same pools
PAUSE_BY_LOOK = 20.0  # times the time that the last look took, within these: other work needs the event loop, too
# Nearly every cluster has pods, those of its own components at least: a view without any may show nothing.
BLIND_FOR = timedelta(minutes=1)  # until it is looked at again
NOTED_FOR = timedelta(minutes=5)  # that pods are moved to a machine is written again after so long
BELIEVED_AFTER = timedelta(hours=1)  # without any pod: machines that no pod uses are not paid for ever
# Reasons of Events
LAUNCHING, WAITING = "DisruptionLaunching", "DisruptionWaitingReadiness"
TERMINATING, BLOCKED = "DisruptionTerminating", "DisruptionBlocked"
Leaves: TypeAlias = EvictFirst | Delete | TakeBack  # what a look at stale pods must not decide
ANCHOR = "request-"  # how the anchor of a replacement begins, unless it has its candidate's slot


class DisruptionReconciler:
    """A reconciler whose keys are the namespace and the class of pools."""

    def __init__(
        self,
        views: Views,
        *,
        observer: DisruptionObserver,
        planner: PoolPlanner,
        status_writer: StatusWriter,
        pool_status_writer: StatusWriter,
        list_pods: Callable[[], Awaitable[None]],
        cluster: Cluster,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._views = views
        self._observer = observer
        self._planner = planner
        self._status_writer = status_writer  # of the condition Disrupted
        self._pool_status_writer = pool_status_writer  # of the condition RepairHalted
        self._list_pods = list_pods  # the view of pods, from a list begun after the call
        self._cluster = cluster
        self._journal = journal
        self._clock = clock
        self._not_before: dict[ObjectKey, float] = {}  # Clock.boottime of the next look
        self._none_since: float | None = None  # Clock.boottime since when no pod is shown
        self._said: dict[tuple[str, str], datetime] = {}  # by uid of a request and reason: the last Event
        self._counted: dict[ObjectKey, DisruptionCounted] = {}  # by pool: what was last said of it

    # -- what wakes it -------------------------------------------------------------------------------------------------

    def of_pool(self, old: KubeObject[GPUNodePool] | None, new: KubeObject[GPUNodePool] | None) -> Iterable[ObjectKey]:
        """Also where it was before."""
        found = (_group(record) for record in (old, new) if record is not None)
        return tuple(dict.fromkeys(key for key in found if key is not None))

    def of_plan(self, old: ObjectRecord | None, new: ObjectRecord | None) -> Iterable[ObjectKey]:
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return self._groups((changed.key,))

    def of_request(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        """Those of the pool that wrote it, and of that of the machine that it replaces."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return self._groups(self._pools_of(changed))

    def of_pod(self, old: Pod | None, new: Pod | None) -> Iterable[ObjectKey]:
        names = {pod.node for pod in (old, new) if pod is not None and pod.node}
        return sorted({key for name in names for key in self._on(name)})

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[ObjectKey]:
        node = new or old
        assert node is not None, "a change has a before or an after"
        return () if new is not None and new.repeats(old) else self._on(node.name)

    def of_class(self, old: KubeObject[Any] | None, new: KubeObject[Any] | None) -> Iterable[ObjectKey]:
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        if old is not None and new is not None and old.generation == new.generation:
            return ()
        found = {record.key.namespace for record in self._views.pools.by_index(BY_CLASS, changed.key.name)}
        return [ObjectKey(namespace, changed.key.name) for namespace in sorted(found)]

    def _on(self, node: str) -> tuple[ObjectKey, ...]:
        found = self._views.requests.by_index(BY_NODE, node)
        return self._groups(key for record in found for key in self._pools_of(record))

    def _groups(self, pools: Iterable[ObjectKey]) -> tuple[ObjectKey, ...]:
        records = (self._views.pools.get(key) for key in pools)
        found = (_group(record) for record in records if record is not None)
        return tuple(dict.fromkeys(key for key in found if key is not None))

    def _pools_of(self, record: KubeObject[GPURequest]) -> tuple[ObjectKey, ...]:
        replaced = self._views.requests.get(ObjectKey(record.key.namespace, record.annotations.get(REPLACES, "")))
        keys = (pool_key(each) for each in (record, replaced) if each is not None)
        return tuple(dict.fromkeys(key for key in keys if key is not None))

    # -- one reconcile -------------------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        self._forget_pools()
        if not self._pools(key):
            self._not_before.pop(key, None)
            self._observer.forget(key)
            return None
        if not self._pods_shown():
            return self._clock.now() + min(BLIND_FOR, BELIEVED_AFTER)
        tick = self._clock.boottime()
        if (wait := self._not_before.get(key, tick) - tick) > 0:
            return self._clock.now() + timedelta(seconds=wait)
        self._not_before[key] = tick + LEAST_PAUSE
        look = await self._look(key)
        edges = [await self._note(each, look.seen.now) for each in look.seen.pools]
        steps = next_moves(look.seen)
        pause = min(PAUSE_BY_LOOK * (self._clock.boottime() - tick), LONGEST_PAUSE)
        self._not_before[key] = tick + max(LEAST_PAUSE, pause)
        for step in steps:
            if not _ends_machines(step):
                await self._act(step, look)
        await self._leave(key, [step for step in steps if _ends_machines(step)])
        if any(not isinstance(step, EvictFirst) for step in steps):
            return self._clock.now() + SOON
        searched = self._clock.now() + SEARCHED_EVERY if look.seen.standing else None  # prices change without an event
        moments = (look_again_at(look.seen), searched, *edges)
        return min((each for each in moments if each is not None), default=None)

    def _pods_shown(self) -> bool:
        """Whether the view of pods can be relied on: it has some, or has had none for long."""
        tick = self._clock.boottime()
        if len(self._views.pods):
            self._none_since = None
            return True
        self._none_since = tick if self._none_since is None else self._none_since
        return tick - self._none_since >= BELIEVED_AFTER.total_seconds()

    def _pools(self, key: ObjectKey) -> list[KubeObject[GPUNodePool]]:
        found = self._views.pools.by_index(BY_CLASS, key.name)
        here = (each for each in found if each.key.namespace == key.namespace and not each.deleting)
        return sorted(here, key=lambda each: each.key)

    def _forget_pools(self) -> None:
        """That are gone, or cannot be read any more."""
        for key in list(self._counted):
            pool = self._views.pools.get(key)
            if pool is None or pool.deleting or pool.value is None:
                left = self._counted.pop(key).left
                self._journal.note(DisruptionCounted(key, left=dict.fromkeys(left, 0)))

    async def _look(self, key: ObjectKey) -> PlannedLook:
        return await self._observer.look(key, self._pools(key), self._clock.now().replace(microsecond=0))

    async def _act(self, step: Step, look: PlannedLook) -> bool:
        """A change that comes between is looked at in the next reconcile: False."""
        try:
            await self._take(step, look)
        except (Conflict, NotFound):
            return False
        return True

    async def _take(self, step: Step, look: PlannedLook) -> None:
        match step:
            case WriteStamp():
                await self._annotate(step.machine, {STAMP: step.machine.stamp})
            case NoteMissing():
                await self._annotate(step.machine, {MISSING_SINCE: rfc3339(step.since) if step.since else None})
            case WriteDown():
                await self._annotate(step.machine, {MOVE: step.move, REPLACED_BY: None, REPLACES: None, BEGAN: None})
                exchange = step.machine.exchange
                if exchange is not None and exchange.candidates[0] == step.machine.record.key:
                    pool = pool_key(step.machine.record)
                    assert pool is not None, "machines of pools are exchanged"
                    self._journal.note(SavingsPromised(pool, exchange.saving_microusd))
            case Say():
                before = condition_in(step.machine.record.status, CONDITION)
                await self._status_writer.write(step.machine.record, (step.update,))
                news = before is None or before.reason != step.update.reason
                if step.update.status is False and news and self._is_due(step, look.seen.now):
                    event = UNCONSOLIDATABLE if step.update.reason == UNCONSOLIDATABLE else BLOCKED
                    self._tell(step.machine, event, step.update.message)
            case Unsay():
                await self._status_writer.write(step.machine.record, ())
            case SetTaint():
                await self._note_received(step.rooms, look.seen.now)
                await self._taint(step.node, step.effect)
            case OrderReplacements():
                await self._order(step, look)
                message = f"Move {step.move}: {_counted(len(step.orders))} ordered to replace it"
                self._tell(step.machine, LAUNCHING, message)
            case NoteReplacements():
                names = ", ".join(step.names)
                await self._annotate(step.machine, {REPLACED_BY: ",".join(step.names)})
                self._tell(step.machine, WAITING, f"Pods stay until {names} is ready")
            case TakeBack():
                await self._take_back(step)
            case NoteDrain():
                await self._annotate(step.machine, {BEGAN: rfc3339(look.seen.now)})
            case EvictFirst():
                await self._evict_first(step)
            case Delete():
                await self._note_received(step.rooms, look.seen.now)
                await self._delete(step.machine)
                self._tell(step.machine, TERMINATING, f"{step.cause.reason}: {step.cause.message}")
                self._journal.note(MoveEnded(subject_of(step.machine.record), step.cause.reason, "Terminating"))
                self._count_moved(step.machine, step.cause.reason, len(pods_to_move(step.machine.pods)))
            case _:
                assert_never(step)
        await self._views.requests.wait_for_own_write(step.machine.record.key)

    async def _order(self, step: OrderReplacements, look: PlannedLook) -> None:
        assert look.world is not None, "what is ordered was planned"
        record = step.machine.record
        slot = anchor_of(record) if slot_number(anchor_of(record)) is not None else ""
        marks = {MOVE: step.move, REPLACES: record.key.name}
        replaced = divided(step.replaced_microusd or 0, [order.hourly_microusd for order in step.orders])
        for number, order in enumerate(step.orders):
            anchor = slot or f"{ANCHOR}{number}.{record.uid_text}"
            if step.replaced_microusd is not None:
                marks = {**marks, REPLACED_PRICE: usd(replaced[number])}
            await self._planner.create(AnchoredOrder(order, anchor, marks), look.world, look.seen.now)

    async def _take_back(self, step: TakeBack) -> None:
        """The record of the move goes last: what is left after a crash is found by it."""
        for unused in step.unused:
            await self._delete(unused)
        record, node = step.machine.record, step.machine.node
        tainted = node is not None and any(taint.key == DISRUPTED.key for taint in node.taints)
        if node is not None and tainted:
            await self._taint(node, "")
        await self._status_writer.write(record, (step.update,) if step.update is not None else ())
        await self._views.requests.wait_for_own_write(record.key)
        fresh = self._views.requests.get(record.key)
        if fresh is not None and fresh.uid == record.uid:
            machine = Machine(fresh)
            await self._annotate(machine, {MOVE: None, REPLACED_BY: None, RETRY: step.retry or None, BEGAN: None})
        held = condition_in(record.status, CONDITION)
        outcome = step.update.reason if step.update is not None else "CauseGone"
        self._journal.note(MoveEnded(subject_of(record), held.reason if held is not None else "", outcome))
        if step.update is not None:
            self._tell(step.machine, BLOCKED, step.update.message)
        elif node is not None and tainted:
            self._tell(step.machine, BLOCKED, f"Node {node.name} stays, and its taint is removed: {step.why}.")

    async def _evict_first(self, step: EvictFirst) -> None:
        evicted = 0
        for pod in step.pods:
            with suppress(Blocked, Refused, Forbidden):  # by a budget or a policy: the next look tries again
                await self._cluster.evict(pod.key, uid=uid_text(pod.uid))
                evicted += 1
        held = condition_in(step.machine.record.status, CONDITION)
        self._count_moved(step.machine, held.reason if held is not None else "", evicted)

    def _count_moved(self, machine: Machine, reason: str, pods: int) -> None:
        if pods:
            self._journal.note(PodsMoved(subject_of(machine.record), reason, pods))

    # -- what is said --------------------------------------------------------------------------------------------------

    def _is_due(self, step: Say, now: datetime) -> bool:
        """Whether an Event says it, too: what comes and goes with prices is said once an hour."""
        if step.update.reason == UNPROVEN:
            return False
        self._said = {key: at for key, at in self._said.items() if now < at + SAID_AGAIN_AFTER}
        key = (step.machine.record.uid_text, step.update.reason)
        due = key not in self._said
        self._said.setdefault(key, now)
        return due

    def _tell(self, machine: Machine, step: str, message: str) -> None:
        """On the request and on its Node."""
        self._journal.note(DisruptionNoted(subject_of(machine.record), step, message))
        if machine.node is not None:
            self._journal.note(DisruptionNoted(_node(machine.node), step, message))

    async def _note(self, seen: PoolMachines, now: datetime) -> datetime | None:
        """What is told of the pool; when the numbers change by themselves."""
        (nodes, unhealthy), (left, edge) = nodes_and_unhealthy(seen), budgets_left(seen, now)
        halted = repair_halted(unhealthy, nodes)
        going = sum(disrupted(each) for each in seen.machines)
        counted = DisruptionCounted(seen.pool.key, going, unhealthy, halted, left)
        if self._counted.get(seen.pool.key) != counted:
            self._counted[seen.pool.key] = counted
            self._journal.note(counted)
        text = halt_text(unhealthy, nodes)
        updates = (ConditionUpdate(HALTED, True, "TooManyUnhealthyNodes", text),) if halted else ()
        await self._pool_status_writer.write(seen.pool, updates)
        return edge

    # -- writes --------------------------------------------------------------------------------------------------------

    async def _annotate(self, machine: Machine, annotations: dict[str, str | None]) -> None:
        record = machine.record
        await self._cluster.patch(
            GPU_REQUEST,
            record.key,
            {"metadata": {"annotations": annotations}},
            resource_version=str(record.resource_version),
            uid=record.uid_text,
        )

    async def _note_received(self, nodes: Iterable[str], now: datetime) -> None:
        """On the requests of pools' machines that pods are moved to, before that: a restart must not forget it."""
        for record in (each for name in nodes for each in self._views.requests.by_index(BY_NODE, name)):
            noted = received_at(record)
            if pool_key(record) is not None and (noted is None or now >= noted + NOTED_FOR):
                await self._annotate(Machine(record), {RECEIVED: rfc3339(now)})
                await self._views.requests.wait_for_own_write(record.key)

    async def _taint(self, node: Node, effect: str) -> None:
        others = [taint for taint in node.taints if taint.key != DISRUPTED.key]
        taints = [*others, Taint(DISRUPTED.key, effect)] if effect else others
        version = str(node.resource_version)
        await self._cluster.patch(NODE, node.key, {"spec": {"taints": written(taints)}}, resource_version=version)
        await self._views.nodes.wait_for_own_write(node.key)

    async def _leave(self, key: ObjectKey, steps: list[Leaves]) -> None:
        """Those whose turn it still is when pods were listed once more, and the rest was looked at again."""
        if not steps:
            return
        await self._refresh_pods()
        if not self._pods_shown():
            return
        look = await self._look(key)
        before = {step.machine.record.key: step.machine.record.resource_version for step in steps}
        deleted = set[ObjectKey]()  # by an earlier step of this look: candidates of one move name the same replacements
        for step in next_moves(look.seen):
            record = step.machine.record
            if not _ends_machines(step) or before.get(record.key) != record.resource_version:
                continue
            if not isinstance(step, TakeBack):
                await self._act(step, look)
                continue
            left = tuple(each for each in step.unused if each.record.key not in deleted)
            if await self._act(replace(step, unused=left), look):
                deleted |= {each.record.key for each in left}

    async def _refresh_pods(self) -> None:
        """A silent watch may have missed a pod that was bound there."""
        try:
            async with asyncio.timeout(REFRESHED_WITHIN):
                await self._list_pods()
        except TimeoutError as error:
            raise ClusterBusy("Pods could not be listed before a machine is disrupted; retrying.") from error

    async def _delete(self, machine: Machine) -> None:
        """Only as it was seen: a request that has changed meanwhile is looked at again."""
        record = machine.record
        await self._cluster.delete(
            GPU_REQUEST, record.key, uid=record.uid_text, resource_version=str(record.resource_version)
        )


def _ends_machines(step: Step) -> TypeGuard[Leaves]:
    """Whether pods have to leave for it. What is taken back deletes the replacements that no pod uses."""
    return isinstance(step, EvictFirst | Delete) or (isinstance(step, TakeBack) and bool(step.unused))


def _group(pool: KubeObject[GPUNodePool]) -> ObjectKey | None:
    """The namespace and the class of a pool; None: it cannot be read."""
    return ObjectKey(pool.key.namespace, pool.value.spec.node_class_ref.name) if pool.value is not None else None


def _node(node: Node) -> FactSubject:
    return FactSubject(NODE, node.key, uid_text(node.uid))


def _counted(machines: int) -> str:
    return "1 machine is" if machines == 1 else f"{machines} machines are"
