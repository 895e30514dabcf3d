"""Orders what was reserved, and writes down what came of it: a machine, none, or the doubt whether there is one."""

import dataclasses
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.api.resource import GPU_REQUEST
from tgp.api.values import usd
from tgp.controllers.accounts import Accounts
from tgp.controllers.bench import Bench
from tgp.controllers.last_look import LastLook
from tgp.controllers.memory import Memory
from tgp.controllers.request_sight import Lookout
from tgp.controllers.request_story import Storyteller
from tgp.controllers.rosters import Rosters
from tgp.controllers.till_desk import AccountMoved, Papers, TillDesk
from tgp.core.model.attempts import in_short, provider_of
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CloudBusy,
    CloudError,
    KeyRefused,
    NotConfirmed,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.core.model.facts import LaunchFailed, MachineLaunched, MachineOrdered, offer_words, subject_of
from tgp.core.model.instance import Instance
from tgp.core.model.typed import Typed
from tgp.core.rules.costs import reserved_of
from tgp.core.rules.lifecycle import LAUNCHED, next_step, price_believed
from tgp.core.rules.node_dress import dress_of
from tgp.core.rules.node_names import node_name_for
from tgp.core.rules.patience import patience_for
from tgp.core.rules.sight import Sight
from tgp.core.rules.steps import Adopt, Order, Rest, Withdraw
from tgp.core.rules.told import with_told
from tgp.ports.boot import BootRefused
from tgp.ports.clock import Clock
from tgp.ports.cloud import Cloud, LaunchOrder
from tgp.ports.cluster import Cluster, ClusterBusy, ClusterError, Conflict, NotFound, View
from tgp.ports.journal import Journal
from tgp.ports.leadership import NotLeading
from tgp.ports.reconciler import SOON

BUSY_PAUSE, BUSY_LONGEST = timedelta(seconds=20), timedelta(minutes=5)  # where a provider names none, or a long one
LOOK_GOOD_FOR = 5.0  # seconds: within them the order's bytes leave, or the order is made up again
REWRITES_MAX = 8  # of an id that must not be lost, where others write the same request all the time
BUSY_MAX = 3  # pauses before one order; then the next offer is tried
UNPACKED_PAUSE = timedelta(minutes=1)  # after an order that could not be made up
OUTCOMES: dict[type[CloudError], str] = {
    SoldOut: "SoldOut",
    OrderRefused: "Refused",
    KeyRefused: "KeyRefused",
    AccountExhausted: "Exhausted",
}


class Ordering:
    def __init__(
        self,
        requests: View[Typed[GPURequest]],
        lookout: Lookout,
        *,
        desk: TillDesk,
        hold: Callable[[str, Attempt], Awaitable[None]],
        last_look: LastLook,
        cluster: Cluster,
        rosters: Rosters,
        accounts: Accounts,
        bench: Bench,
        story: Storyteller,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._requests = requests
        self._lookout = lookout
        self._desk = desk
        self._hold = hold  # keeps the credentials from going while a machine needs them
        self._last_look = last_look
        self._cluster = cluster
        self._rosters = rosters
        self._accounts = accounts
        self._bench = bench
        self._story = story
        self._journal = journal
        self._clock = clock

    async def order(self, sight: Sight, step: Order, memory: Memory) -> datetime | None:
        """Make it up, look once more, send it once."""
        record, attempt = sight.record, step.attempt
        name, node_class = self._lookout.class_of(record)
        papers = self._papers(sight, attempt, node_class)
        memory.refused_for = None
        try:
            await self._hold(name, attempt)
            cloud, order = await self._desk.prepare(attempt, papers)
        except BootRefused as error:
            memory.refused_for = self._lookout.circumstances(record)
            await self.withdraw(sight, Withdraw(attempt, "Withdrawn", f"{error.reason}: {error}"), memory)
            return self._clock.now() + UNPACKED_PAUSE
        except (AccountMoved, KeyRefused) as error:
            await self.withdraw(sight, Withdraw(attempt, "KeyRefused", str(error)), memory)
            return self._clock.now() + SOON
        except CloudError as error:
            return await self._later(sight, attempt, error, memory)
        except ClusterBusy as error:  # somebody whom joining needs does not answer: nobody shall have to guess who
            words = f"nothing is ordered yet: {in_short(str(error))}"
            await self._story.tell(sight, Rest("Preparing", words), memory)
            raise
        confirm = partial(self._confirm, sight, attempt, node_class, memory)
        return await self._send(sight, attempt, cloud, dataclasses.replace(order, confirm=confirm), memory)

    async def adopt(self, sight: Sight, step: Adopt, memory: Memory) -> None:
        """It was found again: it costs since the provider says that it does.

        A price above the agreed one is not written down for a single list: lists are counted once it is on record.
        """
        found, attempt = step.instance, step.attempt
        believed = price_believed(sight.claims, attempt, found.hourly_microusd or 0)
        found = found if believed else dataclasses.replace(found, hourly_microusd=None)
        await self._launched(sight, attempt, found, memory, since=found.created_at, told_price=believed)

    async def withdraw(self, sight: Sight, step: Withdraw, memory: Memory) -> None:
        """There is no machine: on paper, and held against the offer where it was the offer's fault."""
        attempt, outcome, message = step.attempt, step.outcome, in_short(step.message)
        now = self._clock.now().replace(microsecond=0)
        over = replace(attempt, ended_at=now, outcome=outcome, message=message)
        await self._desk.discard(attempt)
        await self._story.tell(replace(sight.with_attempt(over), now=now), Rest(outcome, message), memory)
        self._rosters.forget(attempt.token)
        memory.sent.discard(attempt.token)
        self._bench.failed(attempt, outcome, step.message, now)
        if outcome != "Withdrawn":
            self._journal.note(_failed(sight, attempt, outcome, message))

    def _papers(self, sight: Sight, attempt: Attempt, node_class: GPUNodeClass) -> Papers:
        record = sight.record
        dress = dress_of(record, attempt, self._lookout.pool_of(record))
        assert dress is not None, "what is ordered has an offer"
        patience = patience_for(node_class, attempt.offer)
        expires = self._clock.now() + patience.launch + patience.join
        name = node_name_for(record.key, attempt.token, self._accounts.of(attempt))
        return Papers(record, node_class, name, dress, expires)

    async def _confirm(self, sight: Sight, attempt: Attempt, node_class: GPUNodeClass, memory: Memory) -> float:
        """The last look: after every wait, immediately before the order leaves. Until when it is good."""
        record, began = sight.record, self._clock.boottime()
        try:
            await self._last_look.confirm(record.key, self._lookout.class_of(record)[0])
            unchanged = self._still_to_order(record, node_class, memory)
        except ClusterError as error:
            raise NotConfirmed(str(error)) from error
        if self._clock.boottime() - began > LOOK_GOOD_FOR / 2:
            slow = ClusterBusy(f"nothing is ordered yet: the API server took too long to confirm {record.key}")
            raise NotConfirmed(str(slow)) from slow
        if not unchanged:
            raise NotConfirmed(f"{record.key} or what it depends on has changed since its order was made up")
        self._leaves(sight, attempt, memory)
        return began + LOOK_GOOD_FOR

    def _still_to_order(self, record: Typed[GPURequest], node_class: GPUNodeClass, memory: Memory) -> bool:
        """As it was made up: neither the request nor its class asks for anything else, and nothing stops it."""
        newest = self._requests.get(record.key)
        if newest is None or newest.uid != record.uid or newest.object is None:
            return False
        if newest.generation != record.generation or self._lookout.class_of(newest)[1].spec != node_class.spec:
            return False
        return isinstance(next_step(self._lookout.see(newest, memory)), Order)

    def _leaves(self, sight: Sight, attempt: Attempt, memory: Memory) -> None:
        account = self._accounts.of(attempt)
        assert account is not None, "what is ordered is ordered in an account that was written down"
        memory.sent.add(attempt.token)
        memory.blank = False
        # Whatever comes of it, also something that nobody thought of: absences count from now on only.
        till = account.till.name
        self._rosters.watch(attempt.token, till, account.identities, not_before=self._clock.boottime())
        self._journal.note(
            MachineOrdered(
                subject_of(sight.record),
                provider_of(attempt),
                offer_words(attempt.offer),
                reserved_of(attempt),
                attempt.token,
                attempt.number,
            )
        )

    async def _send(
        self, sight: Sight, attempt: Attempt, cloud: Cloud, order: LaunchOrder, memory: Memory
    ) -> datetime | None:
        account = self._accounts.of(attempt)
        assert account is not None, "what is ordered is ordered in an account that was written down"
        try:
            instance = await self._desk.order(cloud, order)
        except NotLeading:
            memory.sent.discard(attempt.token)
            raise
        except NotConfirmed as error:
            if isinstance(error.__cause__, ClusterError):
                raise error.__cause__ from None  # asked again after a pause that grows
        except CloudBusy as error:
            memory.sent.discard(attempt.token)
            return await self._later(sight, attempt, error, memory)
        except (SoldOut, OrderRefused, KeyRefused, AccountExhausted) as error:
            await self.withdraw(sight, Withdraw(attempt, OUTCOMES[type(error)], str(error)), memory)
        except OutcomeUnknown as error:
            till = account.till.name
            self._rosters.watch(attempt.token, till, account.identities, not_before=self._clock.boottime())
            self._rosters.ask_soon(till)
            await self._unknown(sight, attempt, error, memory)
        else:
            later = cloud.facts.tells_billed_price
            await self._launched(sight, attempt, instance, memory, told_price=not later)
        return self._clock.now() + SOON

    async def _later(self, sight: Sight, attempt: Attempt, error: CloudError, memory: Memory) -> datetime | None:
        """Nothing happened over there: the same order again, a few times; then somebody else's."""
        memory.busy += 1
        if memory.busy > BUSY_MAX:
            await self.withdraw(sight, Withdraw(attempt, "Busy", str(error)), memory)
            return self._clock.now() + SOON
        asked = error.retry_after if isinstance(error, CloudBusy) else None
        memory.order_not_before = sight.now + min(asked or BUSY_PAUSE, BUSY_LONGEST)
        return memory.order_not_before

    async def _launched(
        self,
        sight: Sight,
        attempt: Attempt,
        instance: Instance,
        memory: Memory,
        *,
        told_price: bool,
        since: datetime | None = None,
    ) -> None:
        """`since` when it may cost, of one that was found again; None: since now.

        `told_price`: whatever its provider says of its price, it has said; without a word the listed one counts.
        """
        account = self._accounts.of(attempt)
        assert account is not None, "what was launched was launched in an account that was written down"
        memory.machine_ids.add(instance.id)
        visible = self._clock.boottime() + sight.listing_lag.total_seconds()
        self._rosters.watch(attempt.token, account.till.name, account.identities, not_before=visible)
        self._rosters.ask_soon(account.till.name)
        billed = instance.hourly_microusd
        now = self._clock.now().replace(microsecond=0)
        launched = replace(
            attempt,
            outcome=LAUNCHED,
            launched_at=_between(attempt.reserved_at or now, since or now, now),
            instance_id=instance.id,
            hourly_price=usd(billed) if billed is not None else None,
            max_hourly_price=None if told_price or billed is not None else attempt.max_hourly_price,
            message=None,
        )
        await self._tell_of(launched, replace(sight, now=now), Rest("", ""), memory)
        self._journal.note(
            MachineLaunched(
                subject_of(sight.record),
                provider_of(attempt),
                offer_words(attempt.offer),
                billed if billed is not None else reserved_of(attempt),
                instance.id,
                attempt.number,
                now - attempt.reserved_at if attempt.reserved_at is not None else timedelta(0),
            )
        )

    async def _unknown(self, sight: Sight, attempt: Attempt, error: OutcomeUnknown, memory: Memory) -> None:
        said = in_short(str(error))
        memory.machine_ids |= {error.instance_id} - {""}
        noted = replace(attempt, message=said, instance_id=error.instance_id or attempt.instance_id)
        self._journal.note(_failed(sight, attempt, "Unknown", said))
        words = f"the outcome of attempt {attempt.number} at {provider_of(attempt)} is unknown: {said}"
        await self._tell_of(noted, sight, Rest("Settling", words), memory)

    async def _tell_of(self, attempt: Attempt, sight: Sight, step: Rest, memory: Memory) -> None:
        """Onto paper. An id that was told is remembered until it stands there, whatever becomes of the write."""
        if attempt.instance_id:
            memory.told[attempt.token] = attempt
            self._rosters.told(attempt.token, attempt.instance_id)
        try:
            await self._story.tell(sight.with_attempt(attempt), step, memory)
        except Conflict:
            if not attempt.instance_id:
                raise
            await self._write_on_newest(attempt, sight.record)

    async def _write_on_newest(self, attempt: Attempt, record: Typed[GPURequest]) -> None:
        """Somebody else wrote the request meanwhile: what was told goes beside whatever stands there now."""
        for _ in range(REWRITES_MAX):
            try:
                fresh = await self._cluster.read(GPU_REQUEST, record.key)
            except NotFound:
                return  # the collector finds its machine
            status, metadata = fresh.get("status") or {}, fresh["metadata"]
            wanted = with_told(status, attempt, before=record.status)
            if metadata["uid"] != record.uid_text or wanted is None:
                return
            try:
                await self._cluster.write_status(
                    GPU_REQUEST,
                    record.key,
                    uid=record.uid_text,
                    seen=status,
                    status=wanted,
                    resource_version=str(metadata["resourceVersion"]),
                )
            except Conflict:
                continue
            return
        raise ClusterBusy(f"{record.key} is written by others all the time: {attempt.instance_id} is not on paper yet")


def _failed(sight: Sight, attempt: Attempt, outcome: str, why: str) -> LaunchFailed:
    return LaunchFailed(subject_of(sight.record), provider_of(attempt), offer_words(attempt.offer), outcome, why)


def _between(earliest: datetime, told: datetime, latest: datetime) -> datetime:
    """Another's clock is believed within bounds."""
    return min(max(told, earliest), latest).replace(microsecond=0)
