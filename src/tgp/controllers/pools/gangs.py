"""Finds machines that were bought for a part of a gang, where the rest does not come."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.costs import class_of
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.pools.capacity import living
from tgp.core.pools.gangs import GangMachine, given_up
from tgp.core.pools.orders import bought_for
from tgp.core.pools.planner.classes import gang_name, gang_of
from tgp.core.pools.planner.world import Plan
from tgp.core.pools.runaway import PAUSES
from tgp.core.requests.node_metadata import pool_key, pool_uid
from tgp.core.requests.timeouts import startup_timeouts_for


@dataclass(frozen=True, slots=True)
class Abandoned:
    pools: tuple[ObjectKey, ...] = ()  # that have requests to delete
    until: datetime | None = None  # when the next gang is given up, if nothing changes


class TornGangs:
    def __init__(self, views: Views, memory: PoolMemory) -> None:
        self._views = views
        self._memory = memory

    def give_up(
        self, plan: Plan, waiting: Mapping[str, Pod], paused: Mapping[str, datetime], now: datetime
    ) -> Abandoned:
        """Note which requests are to be deleted, and that their machines did not serve their pods.

        `paused`: pods that nothing is bought for until then. A gang with one whose pause is short is not given up yet.
        """
        unserved = {gang for each in plan.unserved if (gang := gang_of(each.pod))}
        machines = tuple(self._machines(waiting)) if unserved else ()
        soon = {gang_name(waiting[uid]) for uid, until in paused.items() if uid in waiting and until <= now + PAUSES[0]}
        before = {gang for each in machines if each.record.key in self._memory.given_up for gang in each.gangs}
        found = given_up(machines, unserved - (soon - before), now)
        for machine in found.machines:
            self._memory.runaways.learn(machine, now)
        self._memory.given_up = found.requests
        records = (each.record for each in machines if each.record.key in found.requests)
        return Abandoned(tuple(sorted({key for each in records if (key := pool_key(each)) is not None})), found.until)

    def _machines(self, waiting: Mapping[str, Pod]) -> Iterator[GangMachine]:
        for record in sorted(self._views.requests.values(), key=lambda each: each.key):
            pods = [waiting[uid] for uid in bought_for(record) if uid in waiting] if pool_uid(record) else []
            gangs = frozenset(gang_name(pod) for pod in pods)
            if not living(record) or not any(gangs):
                continue
            node_class = self._views.classes.get(ObjectKey("", class_of(record)))
            attempt = open_attempt(attempts_of(record))
            offer = attempt.offer if attempt is not None else None
            limits = startup_timeouts_for(node_class.value if node_class is not None else None, offer, None)
            yield GangMachine(record, gangs, limits.join)
