"""Orders what was reserved, and records the outcome: a machine, none, or an unknown outcome."""

import dataclasses
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.api.resource import GPU_REQUEST
from tgp.api.values import usd
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.requests.failure_cooldowns import FailureCooldowns
from tgp.controllers.requests.fresh_read_check import FreshReadCheck
from tgp.controllers.requests.machine_gateway import AccountMoved, LaunchInput, MachineGateway
from tgp.controllers.requests.memo import RequestMemo
from tgp.controllers.requests.observe import RequestObserver
from tgp.controllers.requests.purchase_gatherer import PurchaseGatherer
from tgp.controllers.requests.status import RequestStatusWriter
from tgp.core.model.attempts import LAUNCHED, in_short, provider_of, provider_words
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CloudBusy,
    CloudError,
    KeyRefused,
    NotConfirmed,
    OrderQueued,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.core.model.costs import reserved_of
from tgp.core.model.facts import LaunchFailed, MachineLaunched, MachineOrdered, offer_words, subject_of
from tgp.core.model.instance import Instance
from tgp.core.model.kube_object import KubeObject
from tgp.core.requests.lifecycle import next_step
from tgp.core.requests.node_metadata import desired_metadata
from tgp.core.requests.node_names import node_name_for
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.provider_reports import price_believed
from tgp.core.requests.steps import AbandonAttempt, Adopt, Launch, Wait
from tgp.core.requests.timeouts import startup_timeouts_for
from tgp.core.requests.unwritten_ids import with_unwritten
from tgp.ports.boot import BootRefused
from tgp.ports.clock import Clock
from tgp.ports.cloud import Cloud, LaunchOrder
from tgp.ports.cluster import Cluster, ClusterBusy, ClusterError, Conflict, NotFound, View
from tgp.ports.journal import Journal
from tgp.ports.leadership import NotLeading
from tgp.ports.reconciler import SOON

BUSY_PAUSE, BUSY_LONGEST = timedelta(seconds=20), timedelta(minutes=5)  # where a provider names none, or a long one
LOOK_GOOD_FOR = 3.0  # seconds after the oldest read: within them the order is sent, or it is prepared again
REWRITES_MAX = 8  # of an id that must not be lost, while other clients write the same request
QUEUED_LONGEST = timedelta(minutes=10)  # behind other orders of its account; then it is prepared again
BUSY_MAX = 3  # pauses before one order; then the next offer is tried
UNPACKED_PAUSE = timedelta(minutes=1)  # after an order that could not be prepared
OUTCOMES: dict[type[CloudError], str] = {
    SoldOut: "SoldOut",
    OrderRefused: "Refused",
    KeyRefused: "KeyRefused",
    AccountExhausted: "QuotaOrBalanceExhausted",
}


class Launcher:
    def __init__(
        self,
        requests: View[KubeObject[GPURequest]],
        observer: RequestObserver,
        purchases: PurchaseGatherer,
        *,
        gateway: MachineGateway,
        hold: Callable[[str, Attempt], Awaitable[None]],
        fresh_read_check: FreshReadCheck,
        cluster: Cluster,
        instance_cache: InstanceCache,
        accounts: AccountTable,
        failure_cooldowns: FailureCooldowns,
        request_status: RequestStatusWriter,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._requests = requests
        self._observer = observer
        self._purchases = purchases
        self._gateway = gateway
        self._hold = hold  # protects the credentials while a machine needs them
        self._fresh_read_check = fresh_read_check
        self._cluster = cluster
        self._instance_cache = instance_cache
        self._accounts = accounts
        self._failure_cooldowns = failure_cooldowns
        self._status = request_status
        self._journal = journal
        self._clock = clock

    async def order(self, observation: RequestObservation, step: Launch, memory: RequestMemo) -> datetime | None:
        """Prepare the order, check once more, send it once."""
        record, attempt = observation.record, step.attempt
        name, node_class = self._purchases.class_of(record)
        launch_input = self._launch_input(observation, attempt, node_class)
        memory.refused_for = None
        try:
            await self._hold(name, attempt)
            cloud, order = await self._gateway.prepare(attempt, launch_input)
        except BootRefused as error:
            memory.refused_for = self._purchases.circumstances(record)
            await self.abandon(observation, AbandonAttempt(attempt, "NotOrdered", f"{error.reason}: {error}"), memory)
            return self._clock.now() + UNPACKED_PAUSE
        except (AccountMoved, KeyRefused) as error:
            await self.abandon(observation, AbandonAttempt(attempt, "KeyRefused", str(error)), memory)
            return self._clock.now() + SOON
        except CloudError as error:
            return await self._later(observation, attempt, error, memory)
        except ClusterBusy as error:  # a service that joining needs does not answer: the condition names it
            words = f"Order at {provider_words(attempt)} cannot be prepared yet: {in_short(str(error))}"
            await self._status.write(observation, Wait("Preparing", words), memory)
            raise
        confirm = partial(self._confirm, observation, attempt, node_class, memory)
        return await self._send(observation, attempt, cloud, dataclasses.replace(order, confirm=confirm), memory)

    async def adopt(self, observation: RequestObservation, step: Adopt, memory: RequestMemo) -> None:
        """The machine was found again: it costs since the time the provider reports.

        A price above the agreed one is not recorded for a single list: lists are counted once the machine is recorded.
        """
        found, attempt = step.instance, step.attempt
        believed = price_believed(observation.claims, attempt, found.hourly_microusd or 0)
        found = found if believed else dataclasses.replace(found, hourly_microusd=None)
        await self._launched(observation, attempt, found, memory, since=found.created_at, told_price=believed)

    async def abandon(self, observation: RequestObservation, step: AbandonAttempt, memory: RequestMemo) -> None:
        """Record that there is no machine, and put the offer into cooldown where it was at fault."""
        attempt, outcome, message = step.attempt, step.outcome, in_short(step.message)
        now = self._clock.now().replace(microsecond=0)
        over = replace(attempt, ended_at=now, outcome=outcome, message=message, counts_until=step.counts_until)
        await self._gateway.discard(attempt)
        await self._status.write(replace(observation.with_attempt(over), now=now), Wait(outcome, message), memory)
        self._instance_cache.forget(attempt.token)
        memory.sent.discard(attempt.token)
        self._failure_cooldowns.failed(attempt, outcome, step.message, now)
        if outcome != "NotOrdered":
            self._journal.note(_failed(observation, attempt, outcome, message))

    def _launch_input(self, observation: RequestObservation, attempt: Attempt, node_class: GPUNodeClass) -> LaunchInput:
        record = observation.record
        pool = observation.pool.value if observation.pool is not None else None
        metadata = desired_metadata(record, attempt, pool)
        assert metadata is not None, "an ordered attempt has an offer"
        startup_timeouts = startup_timeouts_for(node_class, attempt.offer, self._observer.facts(provider_of(attempt)))
        expires = self._clock.now() + startup_timeouts.launch + startup_timeouts.join
        name = node_name_for(record.key, attempt.token, self._accounts.of(attempt))
        return LaunchInput(record, node_class, name, metadata, expires)

    async def _confirm(
        self, observation: RequestObservation, attempt: Attempt, node_class: GPUNodeClass, memory: RequestMemo
    ) -> float:
        """The last check: after every wait, immediately before the order is sent. Returns until when it is valid."""
        record, began = observation.record, self._clock.boottime()
        try:
            oldest = await self._fresh_read_check.confirm(record.key, self._purchases.class_of(record)[0])
            unchanged = self._still_to_order(record, node_class, memory)
        except ClusterError as error:
            raise NotConfirmed(str(error)) from error
        if self._clock.boottime() - began > LOOK_GOOD_FOR / 2:
            slow = ClusterBusy(f"API server took too long to confirm GPURequest {record.key}; retrying before launch.")
            raise NotConfirmed(str(slow)) from slow
        if not unchanged:
            raise NotConfirmed(
                f"GPURequest {record.key} or an object it depends on changed while its order was prepared"
            )
        self._note_order(observation, attempt, memory)
        return oldest + LOOK_GOOD_FOR

    def _still_to_order(self, record: KubeObject[GPURequest], node_class: GPUNodeClass, memory: RequestMemo) -> bool:
        """Whether the prepared order still holds: request and class are unchanged, and nothing stops it."""
        newest = self._requests.get(record.key)
        if newest is None or newest.uid != record.uid or newest.value is None:
            return False
        if newest.generation != record.generation or self._purchases.class_of(newest)[1].spec != node_class.spec:
            return False
        return isinstance(next_step(self._observer.observe(newest, memory)), Launch)

    def _note_order(self, observation: RequestObservation, attempt: Attempt, memory: RequestMemo) -> None:
        account = self._accounts.of(attempt)
        assert account is not None, "an order goes to a recorded account"
        memory.sent.add(attempt.token)
        memory.blank = False
        # Whatever the outcome is: absences count from now on only.
        access = account.access.name
        self._instance_cache.watch(attempt.token, access, account.identities, not_before=self._clock.boottime())
        self._journal.note(
            MachineOrdered(
                subject_of(observation.record),
                provider_of(attempt),
                offer_words(attempt.offer),
                reserved_of(attempt),
                attempt.token,
                attempt.number,
                observation.pool is not None,
            )
        )

    async def _send(
        self, observation: RequestObservation, attempt: Attempt, cloud: Cloud, order: LaunchOrder, memory: RequestMemo
    ) -> datetime | None:
        account = self._accounts.of(attempt)
        assert account is not None, "an order goes to a recorded account"
        try:
            instance = await self._gateway.order(cloud, order)
        except NotLeading:
            memory.sent.discard(attempt.token)
            raise
        except NotConfirmed as error:
            if isinstance(error.__cause__, ClusterError):
                raise error.__cause__ from None  # tried again after a growing pause
        except CloudBusy as error:
            memory.sent.discard(attempt.token)
            return await self._later(observation, attempt, error, memory)
        except (SoldOut, OrderRefused, KeyRefused, AccountExhausted) as error:
            await self.abandon(observation, AbandonAttempt(attempt, OUTCOMES[type(error)], str(error)), memory)
        except OutcomeUnknown as error:
            access = account.access.name
            self._instance_cache.watch(attempt.token, access, account.identities, not_before=self._clock.boottime())
            self._instance_cache.ask_soon(access)
            await self._unknown(observation, attempt, error, memory)
        else:
            later = cloud.facts.tells_billed_price
            await self._launched(observation, attempt, instance, memory, told_price=not later)
        return self._clock.now() + SOON

    async def _later(
        self, observation: RequestObservation, attempt: Attempt, error: CloudError, memory: RequestMemo
    ) -> datetime | None:
        """The provider did nothing: retry the same order a few times, then try another offer.

        An order that only waits for other orders of its account is no failure: it keeps its offer.
        """
        memory.order_queued = isinstance(error, OrderQueued)
        if isinstance(error, OrderQueued):
            assert error.retry_after is not None, "a queued order is told when to come back"
            memory.order_not_before = observation.now + min(error.retry_after, QUEUED_LONGEST)
            return memory.order_not_before
        memory.busy += 1
        if memory.busy > BUSY_MAX:
            await self.abandon(observation, AbandonAttempt(attempt, "Busy", str(error)), memory)
            return self._clock.now() + SOON
        asked = error.retry_after if isinstance(error, CloudBusy) else None
        memory.order_not_before = observation.now + min(asked or BUSY_PAUSE, BUSY_LONGEST)
        return memory.order_not_before

    async def _launched(
        self,
        observation: RequestObservation,
        attempt: Attempt,
        instance: Instance,
        memory: RequestMemo,
        *,
        told_price: bool,
        since: datetime | None = None,
    ) -> None:
        """`since` when a machine that was found again may cost; None: since now.

        `told_price`: the provider has reported all it reports about the price; without a price the listed one counts.
        """
        account = self._accounts.of(attempt)
        assert account is not None, "a machine is launched in a recorded account"
        memory.machine_ids.add(instance.id)
        visible = self._clock.boottime() + observation.listing_lag.total_seconds()
        self._instance_cache.watch(attempt.token, account.access.name, account.identities, not_before=visible)
        self._instance_cache.ask_soon(account.access.name)
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
        await self._record(launched, replace(observation, now=now), Wait("", ""), memory)
        self._journal.note(
            MachineLaunched(
                subject_of(observation.record),
                provider_of(attempt),
                offer_words(attempt.offer),
                billed if billed is not None else reserved_of(attempt),
                instance.id,
                attempt.number,
                now - attempt.reserved_at if attempt.reserved_at is not None else timedelta(0),
            )
        )

    async def _unknown(
        self, observation: RequestObservation, attempt: Attempt, error: OutcomeUnknown, memory: RequestMemo
    ) -> None:
        message = in_short(str(error))
        memory.machine_ids |= {error.instance_id} - {""}
        noted = replace(attempt, message=message, instance_id=error.instance_id or attempt.instance_id)
        self._journal.note(_failed(observation, attempt, "Unknown", message))
        words = f"Attempt {attempt.number} at {provider_words(attempt)} has an unknown outcome: {message}"
        await self._record(noted, observation, Wait("LaunchOutcomePending", words), memory)

    async def _record(self, attempt: Attempt, observation: RequestObservation, step: Wait, memory: RequestMemo) -> None:
        """Write the attempt to the status. A known instance id is kept in memory until the write succeeded."""
        if attempt.instance_id:
            memory.unwritten[attempt.token] = attempt
            self._instance_cache.note_id(attempt.token, attempt.instance_id)
        try:
            await self._status.write(observation.with_attempt(attempt), step, memory)
        except Conflict:
            if not attempt.instance_id:
                raise
            await self._write_on_newest(attempt, observation.record)

    async def _write_on_newest(self, attempt: Attempt, record: KubeObject[GPURequest]) -> None:
        """Another client wrote the request meanwhile: add the attempt to the newest status."""
        for _ in range(REWRITES_MAX):
            try:
                fresh = await self._cluster.read(GPU_REQUEST, record.key)
            except NotFound:
                return  # the orphan collector finds its machine
            status, metadata = fresh.get("status") or {}, fresh["metadata"]
            wanted = with_unwritten(status, attempt, before=record.status)
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
        raise ClusterBusy(f"GPURequest {record.key} keeps changing: machine {attempt.instance_id} is not recorded yet")


def _failed(observation: RequestObservation, attempt: Attempt, outcome: str, why: str) -> LaunchFailed:
    return LaunchFailed(subject_of(observation.record), provider_of(attempt), offer_words(attempt.offer), outcome, why)


def _between(earliest: datetime, reported: datetime, latest: datetime) -> datetime:
    """A provider's clock is believed within bounds."""
    return min(max(reported, earliest), latest).replace(microsecond=0)
