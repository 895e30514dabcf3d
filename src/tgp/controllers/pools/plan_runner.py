"""Makes a plan off the event loop, and an answer also where the planner does not end, or fails.

The effort of a plan is counted in steps, so it ends. Should it not end in time all the same, pools are told, and quick
plans serve the pods until it has ended. Should it raise, a quick plan is tried, then one for each namespace: the pods
of one tenant do not keep those of all others waiting.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias

from tgp.api.resource import GPU_NODE_POOL
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.model.conditions import shortened
from tgp.core.model.facts import FactSubject, PlanCutShort, PlanFailed
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.capacity import with_pods
from tgp.core.pools.limits import after_orders
from tgp.core.pools.planner.world import NO_POOL, LimitRoom, Plan, PlanInput, PoolReason, Unserved
from tgp.ports.compute import Compute
from tgp.ports.journal import Journal

PLANNED_WITHIN = timedelta(seconds=30)  # ten thousand pods take one; the outer net, and no part of a plan's effort
QUICK_WITHIN = timedelta(seconds=5)  # while another plan holds a thread; after that the event loop makes it
MOST_TOLD = 1_000  # kinds of failures; with more, they are told again
LONGEST_ERROR = 200  # characters of it that pods are told

Planner: TypeAlias = Callable[[PlanInput], Plan]


class PlanOverdue(Exception):
    """The world that it was made for is out of date: look again, and plan quickly."""


class PlanRunner:
    def __init__(self, views: Views, *, plan: Planner, quick_plan: Planner, compute: Compute, journal: Journal) -> None:
        self._views = views
        self._plan = plan
        self._quick_plan = quick_plan
        self._compute = compute
        self._journal = journal
        self._overdue: asyncio.Task[Plan | Exception] | None = (
            None  # a plan that did not end in time, and holds a thread
        )
        self._told: set[tuple[str, str]] = set()  # namespace and kind of failures

    async def run(self, world: PlanInput) -> Plan:
        """Raises PlanOverdue."""
        if self._overdue is not None and not self._overdue.done():
            return await self._quick(world)
        self._overdue = None
        planning = asyncio.ensure_future(self._compute.run(lambda: _made(self._plan, world)))
        if await _ends(planning, PLANNED_WITHIN):
            plan = planning.result()
            if isinstance(plan, Plan):
                return plan
            self._failed("", plan)
            return await self._quick(world)
        self._overdue = planning
        planning.add_done_callback(_drop)
        for each in world.pools:
            pool = self._views.pools.get(each.key)
            if pool is not None:
                subject = FactSubject(GPU_NODE_POOL, pool.key, pool.uid_text)
                self._journal.note(PlanCutShort(subject, len(world.pods), PLANNED_WITHIN))
        raise PlanOverdue

    async def _quick(self, world: PlanInput) -> Plan:
        plan = await self._off_the_loop(world)
        if isinstance(plan, Plan):
            return plan
        self._failed("", plan)
        return await self._by_namespace(world)

    async def _off_the_loop(self, world: PlanInput) -> Plan | Exception:
        planning = asyncio.ensure_future(self._compute.run(lambda: _made(self._quick_plan, world)))
        if await _ends(planning, QUICK_WITHIN):
            return planning.result()
        planning.cancel()
        planning.add_done_callback(_drop)
        return _made(self._quick_plan, world)  # what is stuck may hold every thread

    async def _by_namespace(self, world: PlanInput) -> Plan:
        """One after another, with what those before it left of room and limits; some may buy what is sold out."""
        pods: dict[str, list[Pod]] = {}
        for pod in world.pods:
            pods.setdefault(pod.key.namespace, []).append(pod)
        made, pools = Plan(), {each.key: each.pool for each in world.pools}
        for namespace, waiting in sorted(pods.items()):
            plan = await self._off_the_loop(replace(world, pods=tuple(waiting)))
            if not isinstance(plan, Plan):
                self._failed(namespace, plan)
                plan = _without_plan(waiting, namespace, plan)
            world = _after(world, plan, waiting, after_orders(world.limits, plan.orders, pools))
            made = Plan(
                (*made.orders, *plan.orders),
                {**made.placed, **plan.placed},
                (*made.unserved, *plan.unserved),
                made.cost + plan.cost,
            )
        return made

    def _failed(self, namespace: str, error: Exception) -> None:
        """Each kind of failure is told once."""
        kind = (namespace, type(error).__name__)
        self._journal.note(PlanFailed(namespace, _words(error), new=kind not in self._told))
        if len(self._told) < MOST_TOLD:
            self._told.add(kind)


def _made(plan: Planner, world: PlanInput) -> Plan | Exception:
    """A world that breaks the planner must not stop every pool."""
    try:
        return plan(world)
    except Exception as error:  # noqa: BLE001 - whatever it raises is counted, told, and answered by a simpler plan
        return error


async def _ends(planning: "asyncio.Task[Plan | Exception]", within: timedelta) -> bool:
    try:
        await asyncio.wait((planning,), timeout=within.total_seconds())
    except asyncio.CancelledError:
        planning.cancel()
        raise
    return planning.done()


def _without_plan(pods: list[Pod], namespace: str, error: Exception) -> Plan:
    why = f"the planner failed on the pods of namespace {namespace}, please report it: {_words(error)}"
    return Plan(unserved=tuple(Unserved(pod, (PoolReason(NO_POOL, "PlanFailed", why),)) for pod in pods))


def _after(world: PlanInput, plan: Plan, pods: list[Pod], limits: tuple[LimitRoom, ...]) -> PlanInput:
    at: dict[str, list[Pod]] = {}
    for pod in pods:
        if (name := plan.placed.get(uid_text(pod.uid))) is not None:
            at.setdefault(name, []).append(pod)
    capacity = tuple(with_pods(each, at.get(each.name, ())) for each in world.capacity)
    return replace(world, capacity=capacity, limits=limits)


def _words(error: Exception) -> str:
    return shortened(f"{type(error).__name__}: {error}", LONGEST_ERROR)


def _drop(overdue: "asyncio.Task[Plan | Exception]") -> None:
    """Its world is gone, and so is what it says. An error that is not read would be logged as a fault of the loop."""
    if not overdue.cancelled():
        overdue.exception()
