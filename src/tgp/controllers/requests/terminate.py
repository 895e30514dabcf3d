"""Terminates a machine: record the decision, drain, request the termination until it is gone, record the cost."""

from contextlib import suppress
from datetime import datetime

from msgspec.structs import replace

from tgp.api.common import Condition
from tgp.api.resource import NODE
from tgp.api.values import usd
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.instances.spend_log import SpendLog
from tgp.controllers.requests.failure_cooldowns import FailureCooldowns
from tgp.controllers.requests.machine_gateway import MachineGateway
from tgp.controllers.requests.memo import RequestMemo
from tgp.controllers.requests.status import RequestStatusWriter
from tgp.controllers.requests.termination_check import TerminationCheck
from tgp.core.model.attempts import in_short, provider_of
from tgp.core.model.backoff import doubled
from tgp.core.model.cloud_errors import CloudBusy, CloudError
from tgp.core.model.costs import class_of, cost_of, entry_of, pool_of, reserved_of
from tgp.core.model.facts import (
    MachineLost,
    MachineTerminated,
    MachineTerminating,
    ReplacementBilled,
    TerminationFailing,
    subject_of,
)
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.presence import Found
from tgp.core.model.record import uid_text
from tgp.core.requests.lifecycle import FIRST_ASK, LONGEST_ASK
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.steps import (
    LOST,
    UNUSABLE,
    CloseAttempt,
    Complete,
    DrainNode,
    RemoveNode,
    StartTermination,
    Terminate,
    TerminationReason,
    Wait,
)
from tgp.ports.cluster import Blocked, Cluster, Forbidden, Refused, View
from tgp.ports.journal import Journal

FAILING_AFTER = 3  # requests, before an Event reports it


class Terminator:
    def __init__(
        self,
        nodes: View[Node],
        cluster: Cluster,
        *,
        termination_check: TerminationCheck,
        gateway: MachineGateway,
        spend_log: SpendLog,
        instance_cache: InstanceCache,
        accounts: AccountTable,
        failure_cooldowns: FailureCooldowns,
        request_status: RequestStatusWriter,
        journal: Journal,
    ) -> None:
        self._nodes = nodes
        self._cluster = cluster
        self._termination_check = termination_check
        self._gateway = gateway
        self._spend_log = spend_log
        self._instance_cache = instance_cache
        self._accounts = accounts
        self._failure_cooldowns = failure_cooldowns
        self._status = request_status
        self._journal = journal

    async def begin(self, observation: RequestObservation, step: StartTermination, memory: RequestMemo) -> None:
        if not await self._termination_check.confirms(observation, step, memory):
            return
        end, message = step.end, step.message
        decided = Condition(
            type="Terminating", status="True", reason=end.value, message=message, last_transition_time=observation.now
        )
        await self._status.write(replace(observation, decided=decided), step, memory)
        attempt, subject = observation.attempt, subject_of(observation.record)
        provider = provider_of(attempt)
        if end in LOST:
            if attempt is not None:  # now: its pods may be planned for before it is gone
                self._failure_cooldowns.failed(attempt, "Lost", message, observation.now)
            self._journal.note(MachineLost(subject, provider, (attempt.instance_id or "") if attempt else "", message))
        else:
            self._journal.note(MachineTerminating(subject, provider, end.value, message))

    async def empty(self, observation: RequestObservation, step: DrainNode, memory: RequestMemo) -> datetime | None:
        node, drain = observation.node.node, step.drain
        if node is not None and drain.cordon is not None:
            with suppress(Refused, Forbidden):  # a policy forbids the change: its pods can be evicted all the same
                await self._cluster.patch(NODE, node.key, drain.cordon, resource_version=str(node.resource_version))
        for pod in (*drain.evict, *drain.force):
            # A budget, a policy or a terminating namespace blocks this one: it is tried again later, the others now.
            with suppress(Blocked, Refused, Forbidden):
                await self._cluster.evict(pod.key, uid=uid_text(pod.uid))
        await self._status.write(observation, step, memory)
        return observation.now + drain.next_look if drain.next_look is not None else None

    async def terminate(self, observation: RequestObservation, step: Terminate, memory: RequestMemo) -> datetime | None:
        """Request the termination, now and again later: only lists show that the machine is gone."""
        attempt, instance_id = step.attempt, step.instance_id
        account = self._accounts.of(attempt)
        assert account is not None, "a terminated machine was bought in a recorded account"
        memory.termination_requests += 1
        pause = doubled(FIRST_ASK, memory.termination_requests, LONGEST_ASK)
        memory.ask_again_at = observation.now + pause
        try:
            seen, named = self._seen(observation, step), instance_id in memory.machine_ids
            await self._gateway.terminate(attempt, instance_id, seen=seen, named=named)
            memory.trouble = ""
            if isinstance(observation.presence, Found):
                memory.termination_accepted = True
                accepted_at = attempt.termination_accepted_at or observation.now
                observation = observation.with_attempt(replace(attempt, termination_accepted_at=accepted_at))
        except CloudError as error:
            memory.trouble = in_short(str(error))
            if isinstance(error, CloudBusy) and error.retry_after is not None:
                memory.ask_again_at = observation.now + min(max(error.retry_after, FIRST_ASK), LONGEST_ASK)
        if memory.trouble and memory.termination_requests >= FAILING_AFTER and not memory.failing_reported:
            memory.failing_reported = True
            self._journal.note(
                TerminationFailing(
                    subject_of(observation.record),
                    account.provider,
                    instance_id,
                    memory.termination_requests,
                    memory.trouble,
                    reserved_of(attempt),
                )
            )
        asked = replace(observation, termination_requests=memory.termination_requests, trouble=memory.trouble)
        await self._status.write(asked, Wait("Returning", memory.trouble), memory)
        self._instance_cache.ask_soon(account.access.name)
        return memory.ask_again_at

    def _seen(self, observation: RequestObservation, step: Terminate) -> bool:
        """Whether a list has shown this process that the id is this attempt's machine, whatever the status says."""
        found = isinstance(observation.presence, Found) and observation.presence.instance.id == step.instance_id
        return found or step.instance_id == self._instance_cache.seen_as(step.attempt.token)

    async def remove_node(self, step: RemoveNode) -> None:
        await self._cluster.delete(NODE, step.node.key, uid=uid_text(step.node.uid))
        await self._nodes.wait_for_own_write(step.node.key)  # or the next reconcile would do the same again

    async def close(self, observation: RequestObservation, step: CloseAttempt, memory: RequestMemo) -> None:
        """The machine is gone: first the spend log, then the status."""
        attempt, outcome, message, finished = step.attempt, step.outcome, step.message, step.finished
        over = replace(
            attempt,
            ended_at=observation.now,
            outcome=outcome,
            message=in_short(message),
            counts_until=step.counts_until,
        )
        cost = cost_of(over, observation.now, observation.billing_step)
        over = replace(over, spent=usd(cost))
        await self._gateway.discard(attempt, insist=True)
        if (entry := entry_of(observation.record, over, observation.billing_step)) is not None:
            try:
                await self._spend_log.enter(entry)
            except (Refused, Forbidden) as error:  # a quota on ConfigMaps, say: the condition names it
                why = in_short(f"Machine {attempt.instance_id} is gone, but its cost cannot be recorded: {error}")
                await self._status.write(replace(observation, trouble=why), Wait("SpendRecordFailed", why), memory)
                raise
        ended = observation.with_attempt(over)
        reason = observation.holds("Terminating")
        if finished is None and not observation.record.deleting:
            await self._status.write(ended, Wait("BackingOff", message), memory)
        else:
            await self._status.write(ended, step, memory, finish=finished or Complete("Finished", "Deleted", message))
        self._instance_cache.forget(attempt.token)
        why = reason.reason if reason is not None else outcome
        if why in UNUSABLE:
            joined = why not in (TerminationReason.NEVER_JOINED, TerminationReason.NEVER_INITIALIZED)
            self._failure_cooldowns.failed(attempt, outcome, message, observation.now, never_joined=not joined)
        if entry is not None and entry.replaced_microusd is not None:
            pool = ObjectKey(*entry.pool.split("/", 1)) if entry.pool else observation.record.key
            self._journal.note(ReplacementBilled(pool, entry.microusd, entry.replaced_microusd))
        self._journal.note(
            MachineTerminated(
                subject_of(observation.record),
                class_of(observation.record),
                pool_of(observation.record),
                provider_of(attempt),
                attempt.instance_id or "",
                cost,
                why,
            )
        )
