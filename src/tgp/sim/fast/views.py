"""What one process sees of one kind: lists and news, late, in gaps or not at all for a while, as watches bring them.

It fills a store as a reflector does, and is asked for lists in the same words. News belong to the process: they wait
while it stands still and fall with it.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Protocol

from tgp.api.resource import Resource
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord
from tgp.sim.entropy import stream
from tgp.sim.fast.cluster import NEAR, NO_PROCESS, TIMEOUT
from tgp.sim.fast.objects import FastCommit
from tgp.sim.fast.world import FastWorld
from tgp.sim.faults import OF_CALLS
from tgp.sim.process import Host
from tgp.sim.world import KUBERNETES

AGAIN_AFTER = (0.5, 3.0)  # seconds between a watch that broke, or a list that failed, and the next try
UNNOTICED_FOR = (30.0, 45.0)  # seconds that a half-open watch goes unnoticed, with the shipped times
LATE_BY = (0.5, 20.0)  # seconds that news may be behind …
LATE_FOR = 120.0  # … for so long


@dataclass(frozen=True, slots=True)
class ViewFaults:
    """Counts per hour of one process's view of one kind that changes."""

    silent: float = 0.0  # half-open: nothing is heard until that is noticed; then everything is listed
    broken: float = 0.0  # cut or ended: news wait for the next watch
    gone: float = 0.0  # 410: everything is listed
    late: float = 0.0  # news are behind
    coalesced: float = 0.0  # of several changes only the last is delivered, late

    @property
    def hourly(self) -> float:
        return self.silent + self.broken + self.gone + self.late + self.coalesced


FAIR = ViewFaults()


class FastStore(Protocol):
    """The side of a store that its writer uses."""

    @property
    def resource(self) -> Resource: ...

    def put(self, record: Any) -> None: ...

    def drop(self, record: Any) -> None: ...

    def reached(self, version: int) -> None: ...

    async def replace(self, listed: Mapping[ObjectKey, Any], version: int) -> None: ...


class FastView:
    """Made by the process itself: what it sees is heard in that process's context."""

    def __init__(self, world: FastWorld, host: Host, store: Any, state: Any, faults: ViewFaults = FAIR) -> None:
        self.store = store
        self.state = state  # as the caller describes it
        self.why = ""
        self._world = world
        self._host = host
        self._resource: Resource = store.resource
        self._faults = faults
        self._context = copy_context()
        self._luck = stream(world.seed, f"view/{host.name}/{host.number}/{self._resource.plural}")
        self._dice = world.dice(OF_CALLS)
        self._news: deque[tuple[float, FastCommit]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._silent = False
        self._late_until = 0.0
        self._lag = 0.0
        self._coalesces = False
        self._begun, self._wanted, self._done = 0, 1, 0  # lists
        self._asked: asyncio.Future[None] | None = None
        self._took_over = asyncio.Event()
        world.objects.listen(self._resource, self._hear)
        host.on_cut(self, self._leave)
        self._threaten()

    def silent_for(self) -> float:
        return 0.0

    def list_again(self) -> int:
        self._wanted = self._begun + 1
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)
        return self._wanted

    async def listed(self, number: int) -> None:
        while self._done < number:
            self._took_over.clear()
            await self._took_over.wait()

    async def run(self) -> None:
        while True:
            while self._done < self._wanted:
                self._begun += 1
                await self._list(self._begun)
            self._asked = asyncio.get_running_loop().create_future()
            if self._done >= self._wanted:
                await self._asked
            self._asked = None

    # -- lists ---------------------------------------------------------------------------------------------------------

    async def _list(self, number: int) -> None:
        """Consistent, as the real one asks for it: never older than its own beginning. It may take several tries."""
        while True:
            if self._world.network.is_cut_off(self._host.name, KUBERNETES):
                await asyncio.sleep(TIMEOUT)
                continue
            if self._world.calm_now or self._dice.draw(self._luck) is None:
                break
            await asyncio.sleep(self._luck.uniform(*AGAIN_AFTER))
        objects = self._world.objects
        records, version = objects.records(self._resource), objects.version
        self._silent = False
        self._news = deque(each for each in self._news if each[1].version > version)
        await asyncio.sleep(self._luck.uniform(*NEAR))
        await self.store.replace(records, version)
        self._done = number
        self._took_over.set()

    # -- news ----------------------------------------------------------------------------------------------------------

    def _hear(self, commit: FastCommit) -> None:
        if self._silent:
            return  # it will be listed
        now = self._world.loop.time()
        if self._world.network.is_cut_off(self._host.name, KUBERNETES):
            self._fall_silent()
            return
        due = max(now + self._luck.uniform(*NEAR), self._host.frozen_until)
        if now < self._late_until:
            due = max(due, now + self._lag)
            if self._coalesces:
                self._news = deque(each for each in self._news if each[1].key != commit.key)
        if self._news:
            due = max(due, self._news[-1][0])
        self._news.append((due, commit))
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is None and self._news:
            self._timer = self._world.loop.call_at(self._news[0][0], self._deliver, context=self._context)

    def _deliver(self) -> None:
        self._timer = None
        now = self._world.loop.time()
        while self._news and self._news[0][0] <= now:
            commit = self._news.popleft()[1]
            record: ObjectRecord | None = commit.record
            assert record is not None, "only kinds that are read are watched"
            if commit.after is None:
                self.store.drop(record)
            else:
                self.store.put(record)
        self._set_timer()

    # -- faults -------------------------------------------------------------------------------------------------------

    def _threaten(self) -> None:
        if self._faults.hourly:
            wait = self._luck.expovariate(self._faults.hourly / 3600)
            self._world.loop.call_later(wait, self._strike, context=NO_PROCESS)

    def _strike(self) -> None:
        if self._host.gone or self._world.calm_now:
            return
        faults, dice = self._faults, self._luck.random() * self._faults.hourly
        if dice < faults.silent:
            self._fall_silent()
        elif dice < faults.silent + faults.gone:
            self._world.loop.call_later(self._luck.uniform(*AGAIN_AFTER), self._relist, context=self._context)
        else:
            late = dice < faults.silent + faults.gone + faults.late
            self._coalesces = dice >= faults.hourly - faults.coalesced
            self._lag = self._luck.uniform(*(LATE_BY if late or self._coalesces else AGAIN_AFTER))
            lasts = LATE_FOR if late or self._coalesces else self._lag
            self._late_until = self._world.loop.time() + lasts
        self._threaten()

    def _fall_silent(self) -> None:
        if not self._silent:
            self._silent = True
            self._news.clear()
            wait = self._luck.uniform(*UNNOTICED_FOR)
            self._world.loop.call_later(wait, self._relist, context=self._context)

    def _relist(self) -> None:
        self.list_again()

    def _leave(self) -> None:
        self._world.objects.leave(self._resource, self._hear)
        self._news.clear()
