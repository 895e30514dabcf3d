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
        self._overdue: asyncio.Task[Plan] | None = None  # a plan that did not end in time, and holds a thread
        self._told = ""  # how the last plan failed; empty: it did not

    async def run(self, world: PlanInput) -> Plan:
        """Raises PlanOverdue."""
        if self._overdue is not None and not self._overdue.done():
            return await self._quick(world)
        self._overdue = None
        planning = asyncio.ensure_future(self._compute.run(lambda: self._plan(world)))
        if await _ends(planning, PLANNED_WITHIN):
            try:
                plan = planning.result()
            except Exception as error:  # noqa: BLE001 - a world that breaks it must not stop every pool
                self._failed("", error)
                return await self._quick(world)
            self._told = ""
            return plan
        self._overdue = planning
        planning.add_done_callback(_drop)
        for each in world.pools:
            pool = self._views.pools.get(each.key)
            if pool is not None:
                subject = FactSubject(GPU_NODE_POOL, pool.key, pool.uid_text)
                self._journal.note(PlanCutShort(subject, len(world.pods), PLANNED_WITHIN))
        raise PlanOverdue

    async def _quick(self, world: PlanInput) -> Plan:
        try:
            return await self._off_the_loop(world)
        except Exception as error:  # noqa: BLE001 - as above
            self._failed("", error)
            return await self._by_namespace(world)

    async def _off_the_loop(self, world: PlanInput) -> Plan:
        planning = asyncio.ensure_future(self._compute.run(lambda: self._quick_plan(world)))
        if await _ends(planning, QUICK_WITHIN):
            return planning.result()
        planning.cancel()
        planning.add_done_callback(_drop)
        return self._quick_plan(world)  # what is stuck may hold every thread

    async def _by_namespace(self, world: PlanInput) -> Plan:
        """One after another, with what those before it left of room and limits; some may buy what is sold out."""
        pods: dict[str, list[Pod]] = {}
        for pod in world.pods:
            pods.setdefault(pod.key.namespace, []).append(pod)
        made, pools = Plan(), {each.key: each.pool for each in world.pools}
        for namespace, waiting in sorted(pods.items()):
            try:
                plan = await self._off_the_loop(replace(world, pods=tuple(waiting)))
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(namespace, error)
                plan = _without_plan(waiting, namespace, error)
            world = _after(world, plan, waiting, after_orders(world.limits, plan.orders, pools))
            made = Plan(
                (*made.orders, *plan.orders),
                {**made.placed, **plan.placed},
                (*made.unserved, *plan.unserved),
                made.cost + plan.cost,
            )
        return made

    def _failed(self, namespace: str, error: Exception) -> None:
        """Each kind of failure is told once, until a plan is made again."""
        said = f"{namespace}: {_words(error)}"
        self._journal.note(PlanFailed(namespace, _words(error), new=said not in self._told))
        if said not in self._told:
            self._told += f"{said}\n"


async def _ends(planning: "asyncio.Task[Plan]", within: timedelta) -> bool:
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


def _drop(overdue: "asyncio.Task[Plan]") -> None:
    """Its world is gone, and so is what it says. An error that is not read would be logged as a fault of the loop."""
    if not overdue.cancelled():
        overdue.exception()
