"""Walks one GPURequest one step closer to what its spec asks for, or one step closer to gone.

Observe (the lookout), decide (a pure rule), act (each step in its own room). What pays is on paper first: a reservation
is one conditional write, and only what this process wrote in this term of leadership is ever ordered. A turn can be
killed between any two lines: whatever was under way is found again by its token.
"""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, assert_never

from tgp.api.request import GPURequest
from tgp.api.resource import GPU_REQUEST, NODE
from tgp.controllers.accounts import Accounts
from tgp.controllers.giving_back import GivingBack
from tgp.controllers.ledger import Ledger
from tgp.controllers.memory import Memories, Memory
from tgp.controllers.ordering import Ordering
from tgp.controllers.readopting import Readopting
from tgp.controllers.request_sight import Lookout, Views
from tgp.controllers.request_story import Storyteller
from tgp.controllers.reserving import Reserving
from tgp.controllers.rosters import Rosters
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION
from tgp.core.model.key import Key
from tgp.core.model.stand_in import stand_in_for
from tgp.core.model.token import plain_uid
from tgp.core.model.typed import Typed
from tgp.core.rules.lifecycle import ends_at, next_step
from tgp.core.rules.sight import Sight
from tgp.core.rules.steps import (
    Adopt,
    Begin,
    Close,
    Discard,
    Empty,
    Enrol,
    Finish,
    Mend,
    Order,
    Readopt,
    Release,
    RemoveNode,
    Reserve,
    Rest,
    Return,
    Step,
    Withdraw,
)
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterBusy, NotFound, WriteUnknown
from tgp.ports.reconciler import SOON

UNSURE_FOR = 60.0  # seconds after which a write without an answer will not happen any more
# One write, conditional on the version that was seen: of it and one before without an answer only one can happen, and
# nothing is bought or ended for it. To wait would leave a machine without an owner for so much longer.
REPEATABLE = (Readopt,)


class RequestReconciler:
    def __init__(
        self,
        views: Views,
        lookout: Lookout,
        *,
        reserving: Reserving,
        ordering: Ordering,
        readopting: Readopting,
        giving_back: GivingBack,
        story: Storyteller,
        cluster: Cluster,
        rosters: Rosters,
        accounts: Accounts,
        ledger: Ledger,
        clock: Clock,
    ) -> None:
        self._views = views
        self._lookout = lookout
        self._reserving = reserving
        self._ordering = ordering
        self._readopting = readopting
        self._giving_back = giving_back
        self._story = story
        self._cluster = cluster
        self._rosters = rosters
        self._accounts = accounts
        self._ledger = ledger
        self._clock = clock
        self._memories = Memories(clock.boottime)

    def start_over(self) -> None:
        """The API server's history went back: whatever was bought may be missing from what it shows now.

        Reservations that were written before are settled and never ordered; a request without one is as doubtful as
        one whose status was wiped, for as long as an order may be late.
        """
        self._memories.start_over()

    async def reconcile(self, key: Key) -> datetime | None:
        record = self._views.requests.get(key)
        if record is None:
            return None
        if record.object is None:  # of a newer version, say. It owns what it bought, and ends like any other
            record, expires = stand_in_for(record), None
            if not record.deleting and (expires := ends_at(record)) is None:
                return None
            if expires is not None and self._clock.now() < expires:
                return expires
        memory = self._memories.of(plain_uid(record.uid_text))
        sure = await self._be_sure(record, memory)
        await self._accounts.load()
        sight = self._lookout.see(record, memory)
        step = next_step(sight)
        if not sure and not isinstance(step, REPEATABLE):
            raise ClusterBusy(f"a write to {record.key} got no answer and may still happen")
        try:
            return await self._act(sight, step, memory)
        except WriteUnknown:
            memory.unsure_of, memory.unsure_since = record.resource_version, self._clock.boottime()
            raise

    async def _be_sure(self, record: Typed[GPURequest], memory: Memory) -> bool:
        """Decide on nothing older than our own last write, also if nobody told us whether it happened.

        Such a write was conditional on a version: once the object has another, it has happened, or never will. False:
        it has this one still, so that write may yet happen.
        """
        if memory.unsure_of is not None and record.resource_version <= memory.unsure_of:
            fresh = await self._cluster.read(GPU_REQUEST, record.key)
            version = int(fresh["metadata"]["resourceVersion"])
            if version != record.resource_version:
                raise ClusterBusy(f"the view does not show {record.key} at version {version} yet")
            if self._clock.boottime() - memory.unsure_since < UNSURE_FOR:
                return False
        memory.unsure_of = None
        self._ledger.seen(record.uid_text)
        return True

    async def _act(self, sight: Sight, step: Step, memory: Memory) -> datetime | None:
        match step:
            case Rest():
                await self._story.tell(sight, step, memory)
                return _whole(step.until)
            case Enrol():
                await self._enrol(sight, memory)
            case Reserve():
                return await self._reserving.reserve(sight, step, memory)
            case Order():
                return await self._ordering.order(sight, step, memory)
            case Withdraw():
                await self._ordering.withdraw(sight, step, memory)
            case Adopt():
                await self._ordering.adopt(sight, step, memory)
            case Readopt():
                await self._readopting.readopt(sight, step, memory)
            case Mend():
                await self._mend(step)
            case Begin():
                await self._giving_back.begin(sight, step, memory)
            case Empty():
                return await self._giving_back.empty(sight, step, memory)
            case Return():
                return await self._giving_back.give_back(sight, step, memory)
            case RemoveNode():
                await self._giving_back.remove_node(step)
            case Close():
                await self._giving_back.close(sight, step, memory)
            case Finish():
                await self._story.tell(sight, step, memory, finish=step)
            case Release():
                await self._release(sight)
                return None
            case Discard():
                await self._discard(sight.record)
                return None
            case _:
                assert_never(step)
        return self._clock.now() + SOON

    async def _enrol(self, sight: Sight, memory: Memory) -> None:
        record = sight.record
        memory.blank = UID_ANNOTATION not in record.annotations and not sight.attempts
        others = (each for each in record.finalizers if each != FINALIZER)  # ours is on where the annotation was edited
        change = {
            "metadata": {
                "finalizers": [*others, FINALIZER],
                "annotations": {UID_ANNOTATION: record.uid_text},
            }
        }
        await self._patch(record, change)

    async def _mend(self, step: Mend) -> None:
        node = step.node
        await self._cluster.patch(NODE, node.key, step.change, resource_version=str(node.resource_version))
        await self._views.nodes.caught_up(node.key)  # or the next turn would do the same again

    async def _release(self, sight: Sight) -> None:
        record = sight.record
        if not sight.restored:
            for attempt in sight.attempts:
                self._rosters.forget(attempt.token)
        left = [each for each in record.finalizers if each != FINALIZER]
        with suppress(NotFound):  # somebody was quicker
            await self._patch(record, {"metadata": {"finalizers": left}})
        self._memories.forget(plain_uid(record.uid_text))

    async def _discard(self, record: Typed[GPURequest]) -> None:
        await self._cluster.delete(
            GPU_REQUEST, record.key, uid=record.uid_text, resource_version=str(record.resource_version)
        )

    async def _patch(self, record: Typed[GPURequest], change: dict[str, Any]) -> None:
        await self._cluster.patch(
            GPU_REQUEST, record.key, change, resource_version=str(record.resource_version), uid=record.uid_text
        )


def _whole(moment: datetime | None) -> datetime | None:
    """The first whole second from then on: turns see whole seconds, and one within a second would see the last."""
    if moment is None or not moment.microsecond:
        return moment
    return moment.replace(microsecond=0) + timedelta(seconds=1)
