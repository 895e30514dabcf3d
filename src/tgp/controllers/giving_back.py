"""The way out: decided on paper first, then drained, asked for until it is gone, and entered into the books."""

from contextlib import suppress
from datetime import datetime, timedelta

from msgspec.structs import replace

from tgp.api.common import Condition
from tgp.api.resource import NODE
from tgp.api.values import usd
from tgp.controllers.accounts import Accounts
from tgp.controllers.bench import Bench
from tgp.controllers.memory import Memory
from tgp.controllers.request_story import Storyteller
from tgp.controllers.rosters import Rosters
from tgp.controllers.second_look import SecondLook
from tgp.controllers.spending import Books
from tgp.controllers.till_desk import TillDesk
from tgp.core.model.attempts import in_short, provider_of
from tgp.core.model.cloud_errors import CloudBusy, CloudError
from tgp.core.model.facts import MachineEnding, MachineLost, MachineReturned, TerminationFailing, subject_of
from tgp.core.model.node import Node
from tgp.core.model.presence import Found
from tgp.core.model.record import uid_text
from tgp.core.rules.costs import class_of, cost_of, entry_of, pool_of, reserved_of
from tgp.core.rules.sight import Sight
from tgp.core.rules.steps import LOSSES, NO_USE, Begin, Close, Empty, End, Finish, RemoveNode, Rest, Return
from tgp.ports.cluster import Blocked, Cluster, Forbidden, Refused, View
from tgp.ports.journal import Journal

FIRST_ASK, LONGEST_ASK = timedelta(seconds=20), timedelta(minutes=5)  # between two askings for an end
FAILING_AFTER = 3  # askings, before somebody is told


class GivingBack:
    def __init__(
        self,
        nodes: View[Node],
        cluster: Cluster,
        *,
        second_look: SecondLook,
        desk: TillDesk,
        books: Books,
        rosters: Rosters,
        accounts: Accounts,
        bench: Bench,
        story: Storyteller,
        journal: Journal,
    ) -> None:
        self._nodes = nodes
        self._cluster = cluster
        self._second_look = second_look
        self._desk = desk
        self._books = books
        self._rosters = rosters
        self._accounts = accounts
        self._bench = bench
        self._story = story
        self._journal = journal

    async def begin(self, sight: Sight, step: Begin, memory: Memory) -> None:
        if not await self._second_look.confirms(sight, step, memory):
            return
        end, message = step.end, step.message
        decided = Condition(
            type="Terminating", status="True", reason=end.value, message=message, last_transition_time=sight.now
        )
        await self._story.tell(replace(sight, decided=decided), step, memory)
        attempt, subject = sight.attempt, subject_of(sight.record)
        provider = provider_of(attempt)
        if end in LOSSES:
            self._journal.note(MachineLost(subject, provider, (attempt.instance_id or "") if attempt else "", message))
        else:
            self._journal.note(MachineEnding(subject, provider, end.value, message))

    async def empty(self, sight: Sight, step: Empty, memory: Memory) -> datetime | None:
        node, drain = sight.node.node, step.drain
        if node is not None and drain.cordon is not None:
            with suppress(Refused, Forbidden):  # a policy keeps the Node as it is: its pods can be asked all the same
                await self._cluster.patch(NODE, node.key, drain.cordon, resource_version=str(node.resource_version))
        for pod in (*drain.evict, *drain.force):
            # A budget, a policy or a namespace on its way out holds this one: it is asked again, and the others now.
            with suppress(Blocked, Refused, Forbidden):
                await self._cluster.evict(pod.key, uid=uid_text(pod.uid))
        await self._story.tell(sight, step, memory)
        return sight.now + drain.next_look if drain.next_look is not None else None

    async def give_back(self, sight: Sight, step: Return, memory: Memory) -> datetime | None:
        """Ask for the end, once more, and later again: only what is listed shows that it came."""
        attempt, instance_id = step.attempt, step.instance_id
        account = self._accounts.of(attempt)
        assert account is not None, "what is given back was bought in an account that was written down"
        memory.asked += 1
        pause = min(FIRST_ASK * (1 << min(memory.asked - 1, 6)), LONGEST_ASK)
        memory.ask_again_at = sight.now + pause
        try:
            await self._desk.give_back(attempt, instance_id, seen=self._seen(sight, step, memory))
            memory.trouble = ""
            if isinstance(sight.presence, Found):
                memory.end_accepted = True
                accepted_at = attempt.termination_accepted_at or sight.now
                sight = sight.with_attempt(replace(attempt, termination_accepted_at=accepted_at))
        except CloudError as error:
            memory.trouble = in_short(str(error))
            if isinstance(error, CloudBusy) and error.retry_after is not None:
                memory.ask_again_at = sight.now + min(max(error.retry_after, FIRST_ASK), LONGEST_ASK)
        if memory.trouble and memory.asked >= FAILING_AFTER and not memory.told_failing:
            memory.told_failing = True
            self._journal.note(
                TerminationFailing(
                    subject_of(sight.record),
                    account.provider,
                    instance_id,
                    memory.asked,
                    memory.trouble,
                    reserved_of(attempt),
                )
            )
        asked = replace(sight, asked_to_end=memory.asked, trouble=memory.trouble)
        await self._story.tell(asked, Rest("Returning", memory.trouble), memory)
        self._rosters.ask_soon(account.till.name)
        return memory.ask_again_at

    def _seen(self, sight: Sight, step: Return, memory: Memory) -> bool:
        """Whether this process itself knows the id to be this attempt's machine, whatever its status says."""
        found = isinstance(sight.presence, Found) and sight.presence.instance.id == step.instance_id
        known = {*memory.machine_ids, self._rosters.seen_as(step.attempt.token)}
        return found or step.instance_id in known

    async def remove_node(self, step: RemoveNode) -> None:
        await self._cluster.delete(NODE, step.node.key, uid=uid_text(step.node.uid))
        await self._nodes.caught_up(step.node.key)  # or the next turn would do the same again

    async def close(self, sight: Sight, step: Close, memory: Memory) -> None:
        """The machine is gone: into the books first, then onto the object."""
        attempt, outcome, message, finished = step.attempt, step.outcome, step.message, step.finished
        over = replace(
            attempt,
            ended_at=sight.now,
            outcome=outcome,
            message=in_short(message),
            counts_until=step.counts_until,
        )
        cost = cost_of(over, sight.now, sight.billing_step)
        over = replace(over, spent=usd(cost))
        await self._desk.discard(attempt, insist=True)
        if (entry := entry_of(sight.record, over, sight.billing_step)) is not None:
            try:
                await self._books.enter(entry)
            except (Refused, Forbidden) as error:  # a quota on ConfigMaps, say: somebody has to know why it stays
                why = in_short(f"the machine is gone, but what it cost cannot be entered: {error}")
                await self._story.tell(replace(sight, trouble=why), Rest("NotEntered", why), memory)
                raise
        ended = sight.with_attempt(over)
        reason = sight.holds("Terminating")
        if finished is None and not sight.record.deleting:
            await self._story.tell(ended, Rest("BackingOff", message), memory)
        else:
            await self._story.tell(ended, step, memory, finish=finished or Finish("Finished", "Deleted", message))
        self._rosters.forget(attempt.token)
        why = reason.reason if reason is not None else outcome
        if why in NO_USE:
            joined = why not in (End.NEVER_JOINED, End.NEVER_INITIALIZED)
            self._bench.failed(attempt, outcome, message, sight.now, never_joined=not joined)
        self._journal.note(
            MachineReturned(
                subject_of(sight.record),
                class_of(sight.record),
                pool_of(sight.record),
                provider_of(attempt),
                attempt.instance_id or "",
                cost,
                why,
            )
        )
