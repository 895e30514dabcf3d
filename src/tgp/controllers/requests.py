"""Walks one GPURequest one step closer to what its spec asks for, or one step closer to gone.

Observe (the lookout), decide (a pure rule), act (here). What pays is on paper first: a reservation is one conditional
write, and only what this process wrote in this term of leadership is ever ordered. A turn can be killed between any two
lines: whatever was under way is found again by its token.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, assert_never

from msgspec.structs import replace

from tgp.api.common import Condition
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.api.resource import GPU_REQUEST, NODE
from tgp.api.values import usd
from tgp.controllers.last_look import LastLook
from tgp.controllers.ledger import Ledger
from tgp.controllers.market import Market
from tgp.controllers.memory import Memories, Memory
from tgp.controllers.request_index import BY_NODE, BY_NODE_CLASS, BY_TILL, WAITING, YES, by_till
from tgp.controllers.request_sight import Lookout, Views, replace_attempt
from tgp.controllers.rosters import Rosters
from tgp.controllers.spending import Books
from tgp.controllers.till_desk import AccountMoved, Papers, TillDesk, node_name_for
from tgp.controllers.verdicts import Scribe
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CloudBusy,
    CloudError,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.core.model.conditions import shortened
from tgp.core.model.facts import (
    ConditionChanged,
    Fact,
    LaunchFailed,
    LimitHolds,
    MachineEnding,
    MachineLaunched,
    MachineLost,
    MachineOrdered,
    MachineReady,
    MachineReturned,
    MeshJoined,
    NodeInitialized,
    NodeRegistered,
    Subject,
    TerminationFailing,
    offer_words,
)
from tgp.core.model.facts import ExpiresSoon as ExpiresSoonFact
from tgp.core.model.identity import cluster_id
from tgp.core.model.instance import Instance
from tgp.core.model.key import Key
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.till import till_of, till_of_attempt
from tgp.core.model.token import plain_uid, token_for
from tgp.core.model.typed import Typed
from tgp.core.model.workload import Metadata
from tgp.core.rules import benching
from tgp.core.rules.costs import class_of, cost_of, entry_of, pool_of
from tgp.core.rules.drain import Drain
from tgp.core.rules.lifecycle import (
    LAUNCHED,
    LOSSES,
    NO_MACHINE,
    NO_USE,
    Adopt,
    Begin,
    Close,
    Discard,
    Empty,
    End,
    Enrol,
    Finish,
    Mend,
    Order,
    Release,
    RemoveNode,
    Reserve,
    Rest,
    Return,
    Step,
    Withdraw,
    expires_at,
    idle_timeout,
    next_step,
)
from tgp.core.rules.lifecycle_words import Story, spent_words, tell
from tgp.core.rules.mesh.stand import NO_LEASE
from tgp.core.rules.node_dress import dress_of
from tgp.core.rules.patience import patience_for
from tgp.core.rules.purchase import Buy, chosen, holding, life_of, offer_of
from tgp.core.rules.sight import Sight
from tgp.core.rules.sources import sources_of
from tgp.ports.boot import BootRefused
from tgp.ports.clock import Clock
from tgp.ports.cluster import Blocked, Cluster, ClusterBusy, ClusterError, NotFound, WriteUnknown
from tgp.ports.journal import Journal
from tgp.ports.leadership import NotLeading

SOON = timedelta(0)  # at once, as soon as the view shows what was written
BUSY_PAUSE = timedelta(seconds=20)  # where a busy provider names none
BUSY_MAX = 3  # pauses before one order; then the next offer is tried
FIRST_ASK, LONGEST_ASK = timedelta(seconds=20), timedelta(minutes=5)  # between two askings for an end
FAILING_AFTER = 3  # askings, before somebody is told
WORDS_EVERY = 300.0  # seconds between two writes that change nothing but words
REFRESHED_WITHIN = 20.0  # seconds; an API server that takes longer is asked in a later turn
UNSURE_FOR = 60.0  # seconds after which a write without an answer will not happen any more
MESSAGE_KEPT = 512  # characters of what a provider said
UNTOLD = frozenset(
    {"Launched", "Registered", "Initialized", "Connected", "Ready", "Drained", "Terminating", "Ended", "ExpiresSoon"}
)
ON_ITS_WAY = frozenset({"DeviceMissing", "NodeMissing", "NotJoined", "NoAddress", NO_LEASE})  # whoever only waits
NO_NEWS = frozenset({"Ordering", "BackingOff", "Waiting", "Settling", "ProviderBusy", "Undecided"})
TOLD_AS_FAILURE = NO_MACHINE - {"Withdrawn"}  # by another fact, in better words


class RequestReconciler:
    def __init__(
        self,
        views: Views,
        lookout: Lookout,
        *,
        cluster: Cluster,
        scribe: Scribe,
        market: Market,
        rosters: Rosters,
        ledger: Ledger,
        desk: TillDesk,
        books: Books,
        hold: Callable[[str, Attempt], Awaitable[None]],
        last_look: LastLook,
        list_pods: Callable[[], Awaitable[None]],
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._views = views
        self._lookout = lookout
        self._cluster = cluster
        self._scribe = scribe
        self._market = market
        self._rosters = rosters
        self._ledger = ledger
        self._desk = desk
        self._books = books
        self._list_pods = list_pods  # the view of pods, from a list begun after the call
        self._hold = hold  # keeps the credentials from going while a machine needs them
        self._last_look = last_look
        self._journal = journal
        self._clock = clock
        self._memories = Memories(clock.boottime)

    async def reconcile(self, key: Key) -> datetime | None:
        record = self._views.requests.get(key)
        if record is None or record.object is None:
            return None  # gone; or a newer version's: it owns what it bought, and that version looks after it
        memory = self._memories.of(plain_uid(record.uid_text))
        await self._be_sure(record, memory)
        sight = self._lookout.see(record, memory)
        try:
            return await self._act(sight, next_step(sight), memory)
        except WriteUnknown:
            memory.unsure_of, memory.unsure_since = record.resource_version, self._clock.boottime()
            raise

    async def _be_sure(self, record: Typed[GPURequest], memory: Memory) -> None:
        """Decide on nothing older than our own last write, also if nobody told us whether it happened.

        Such a write was conditional on a version: once the object has another, it has happened, or never will.
        """
        if memory.unsure_of is not None and record.resource_version <= memory.unsure_of:
            fresh = await self._cluster.read(GPU_REQUEST, record.key)
            version = int(fresh["metadata"]["resourceVersion"])
            if version != record.resource_version:
                raise ClusterBusy(f"the view does not show {record.key} at version {version} yet")
            if self._clock.boottime() - memory.unsure_since < UNSURE_FOR:
                raise ClusterBusy(f"a write to {record.key} got no answer and may still happen")
        memory.unsure_of = None
        self._ledger.seen(record.uid_text)

    async def _act(self, sight: Sight, step: Step, memory: Memory) -> datetime | None:
        match step:
            case Rest(_, _, until):
                await self._tell(sight, step, memory)
                return _whole(until)
            case Enrol():
                await self._enrol(sight, memory)
            case Reserve(buy, number):
                return await self._reserve(sight, buy, number, memory)
            case Order(attempt):
                return await self._order(sight, attempt, memory)
            case Withdraw(attempt, outcome, message):
                await self._withdraw(sight, attempt, outcome, message, memory)
            case Adopt(attempt, instance):
                await self._launched(sight, attempt, instance, memory, since=instance.created_at)
            case Begin(end, message):
                if end is End.IDLE and not await self._surely_idle(sight, memory):
                    return self._clock.now() + SOON
                if end is End.NODE_LOST:
                    await self._be_sure_of_loss(sight)
                await self._begin(sight, step, end, message, memory)
            case Mend(node, change):
                await self._cluster.patch(NODE, node.key, change, resource_version=str(node.resource_version))
                await self._views.nodes.caught_up(node.key)  # or the next turn would do the same again
            case Empty(drain):
                return await self._drain(sight, step, drain, memory)
            case Return(attempt, instance_id):
                return await self._give_back(sight, attempt, instance_id, memory)
            case RemoveNode(node):
                await self._cluster.delete(NODE, node.key, uid=uid_text(node.uid))
                await self._views.nodes.caught_up(node.key)
            case Close():
                await self._close(sight, step, memory)
            case Finish():
                await self._tell(sight, step, memory, finish=step)
            case Release():
                await self._release(sight)
                return None
            case Discard():
                await self._cluster.delete(
                    GPU_REQUEST,
                    sight.record.key,
                    uid=sight.record.uid_text,
                    resource_version=str(sight.record.resource_version),
                )
                return None
            case _:
                assert_never(step)
        return self._clock.now() + SOON

    # -- paper -------------------------------------------------------------------------------------------------------

    async def _enrol(self, sight: Sight, memory: Memory) -> None:
        record = sight.record
        memory.blank = UID_ANNOTATION not in record.annotations and not sight.attempts
        change = {
            "metadata": {
                "finalizers": [*record.finalizers, FINALIZER],
                "annotations": {UID_ANNOTATION: record.uid_text},
            }
        }
        await self._patch(record, change)

    async def _release(self, sight: Sight) -> None:
        record = sight.record
        if not sight.restored:
            for attempt in sight.attempts:
                self._rosters.forget(attempt.token)
        left = [each for each in record.finalizers if each != FINALIZER]
        with suppress(NotFound):  # somebody was quicker
            await self._patch(record, {"metadata": {"finalizers": left}})
        self._memories.forget(plain_uid(record.uid_text))

    async def _patch(self, record: Typed[GPURequest], change: dict[str, Any]) -> None:
        await self._cluster.patch(
            GPU_REQUEST, record.key, change, resource_version=str(record.resource_version), uid=record.uid_text
        )

    async def _tell(self, sight: Sight, step: Step, memory: Memory, *, finish: Finish | None = None) -> None:
        """Write the story, if it is news; and note what became true."""
        held = sight.record.status
        story = tell(sight, step, finish=finish, held=held)
        changed = {name for name, part in story.parts.items() if held.get(name) != part}
        conditions = [(each.type, each.word, each.reason) for each in story.verdicts]
        stand = [
            (each.get("type"), each.get("status"), each.get("reason"))
            for each in held.get("conditions", ())
            if isinstance(each, dict)
        ]
        only_words = changed <= {"message"} and sorted(conditions) == sorted(stand)
        if only_words and self._clock.boottime() - memory.told_at < WORDS_EVERY:
            return
        parts = {**story.parts, "spent": spent_words(sight)} if changed else None
        await self._scribe.write(sight.record, story.verdicts, parts, held=held)
        memory.told_at = self._clock.boottime()
        for fact in self._news(sight, story):
            self._journal.note(fact)

    def _news(self, sight: Sight, story: Story) -> Iterable[Fact]:
        """What this word tells for the first time."""
        subject, attempt = self._subject(sight.record), sight.attempt
        provider = attempt.offer.provider if attempt is not None and attempt.offer is not None else ""
        for verdict in story.verdicts:
            before = sight.condition(verdict.type)
            if before is not None and (before.status, before.reason) == (verdict.word, verdict.reason):
                continue
            after = _since(attempt, sight.now)
            node = sight.status.node_name or ""
            match (verdict.type, verdict.status):
                case ("Registered", True):
                    yield NodeRegistered(subject, provider, node, after)
                case ("Connected", True):
                    yield MeshJoined(subject, verdict.message, after)
                case ("Connected", False) if verdict.reason not in ON_ITS_WAY:
                    yield ConditionChanged(subject, "Connected", verdict.word, verdict.reason, verdict.message, False)
                case ("Initialized", True):
                    yield NodeInitialized(subject, provider, node, after)
                case ("Ready", True) if sight.status.ready_at is None:
                    self._succeeded(attempt)
                    yield MachineReady(subject, provider, node, after)
                case ("ExpiresSoon", True):
                    expires = expires_at(sight)
                    assert expires is not None, "what expires soon expires"
                    yield ExpiresSoonFact(subject, expires)
                case ("Launched", False | None) if verdict.reason == "LimitReached":
                    yield LimitHolds(subject, class_of(sight.record), verdict.message)
                case ("Launched", False | None) if verdict.reason not in NO_NEWS | TOLD_AS_FAILURE:
                    yield ConditionChanged(subject, "Launched", verdict.word, verdict.reason, verdict.message, False)
                case ("Ended", True) if story.phase == "Failed":
                    yield ConditionChanged(subject, "Ended", "True", verdict.reason, verdict.message, False)
                case _:
                    pass

    # -- buying ------------------------------------------------------------------------------------------------------

    async def _reserve(self, sight: Sight, buy: Buy, number: int, memory: Memory) -> datetime | None:
        """One conditional write. From it on the machine counts against every limit, and may exist."""
        record = sight.record
        node_class = self._class_of(sight)
        source = next((each for each in sources_of(node_class[1]).values() if each.name == buy.source), None)
        assert source is not None, "what was chosen is sold by the class"
        till = till_of(source, buy.offer.sku if buy.offer.boot.value == "power" else "")
        token = token_for(self._cluster_id(), record.uid_text, number)
        attempt = Attempt(
            number=number,
            token=token,
            offer=chosen(buy),
            credentials=till.credentials or None,
            endpoint=till.settings.endpoint,
            settings=till.written_settings or None,
            account=self._rosters.account(till.name) or None,
            epoch=self._lookout.epoch(),
            reserved_at=sight.now,
        )
        uid = plain_uid(record.uid_text)
        why = self._ledger.reserve(node_class[0], node_class[1].spec.limits, holding(uid, buy))
        if why:
            await self._tell(sight, Rest("LimitReached", f"class {node_class[0]}: {why}"), memory)
            return None
        parts = {
            "nodeClass": node_class[0],
            "nodeName": node_name_for(record, token, buy.offer),
            "readyAt": None,
            "idleSince": None,
        }
        reserved = replace(sight, attempts=(*sight.attempts, attempt), parts=parts, presence=None)
        try:
            await self._tell(reserved, Order(attempt), memory)
        except WriteUnknown:
            raise  # it may be on paper: it counts until the view shows what became of it
        except (ClusterError, NotLeading):
            self._ledger.seen(record.uid_text)
            raise
        self._warn_of_no_end(sight)
        memory.blank = False
        memory.busy, memory.order_not_before = 0, None
        memory.asked, memory.ask_again_at, memory.trouble, memory.told_failing = 0, None, "", False
        memory.progress = None
        return self._clock.now() + SOON

    def _warn_of_no_end(self, sight: Sight) -> None:
        """Said when it is bought: nobody shall find out by the bill."""
        if life_of(sight.spec) is None:
            why = "spec.maxLifetime is Never: it costs until it idles out, is lost, or somebody deletes it"
        elif idle_timeout(sight) is None:
            why = "spec.idleTimeout is Never: it is paid for its whole life, used or not"
        else:
            return
        self._journal.note(ConditionChanged(self._subject(sight.record), "Launched", "False", "NoEnd", why, False))

    async def _order(self, sight: Sight, attempt: Attempt, memory: Memory) -> datetime | None:
        record, till = sight.record, till_of_attempt(attempt)
        assert till is not None, "what is ordered has an offer"
        dress = dress_of(record, attempt, self._lookout.pool_of(record))
        assert dress is not None, "what is ordered has an offer"
        subject, what = self._subject(record), _words(attempt)
        node_class = self._class_of(sight)[1]
        patience = patience_for(node_class, attempt.offer)
        expires = self._clock.now() + patience.launch + patience.join
        papers = Papers(record, node_class, sight.status.node_name or "", dress, expires)
        try:
            await self._hold(self._class_of(sight)[0], attempt)
            cloud, order = await self._desk.prepare(attempt, papers)
        except BootRefused as error:
            await self._withdraw(sight, attempt, "Withdrawn", f"{error.reason}: {error}", memory)
            return self._clock.now() + timedelta(minutes=1)
        except (AccountMoved, KeyRefused) as error:
            await self._withdraw(sight, attempt, "KeyRefused", str(error), memory)
            return self._clock.now() + SOON
        except CloudError as error:
            return await self._later(sight, attempt, error, memory)
        except ClusterBusy as error:  # somebody whom joining needs does not answer: nobody shall have to guess who
            await self._tell(sight, Rest("Preparing", f"nothing is ordered yet: {_short(str(error))}"), memory)
            raise
        await self._last_look.confirm(record.key, self._class_of(sight)[0])
        if not self._still_to_order(record, memory):  # all that took a while
            return self._clock.now() + SOON
        memory.sent.add(attempt.token)
        memory.blank = False
        # Whatever comes of it, also something that nobody thought of: absences count from now on only.
        self._rosters.watch(attempt.token, till.name, attempt.account or "", not_before=self._clock.boottime())
        provider = attempt.offer.provider if attempt.offer is not None else ""
        self._journal.note(
            MachineOrdered(subject, provider, what, order.offer.hourly_microusd, attempt.token, attempt.number)
        )
        try:
            instance = await self._desk.order(cloud, order)
        except NotLeading:
            memory.sent.discard(attempt.token)
            raise
        except CloudBusy as error:
            memory.sent.discard(attempt.token)
            return await self._later(sight, attempt, error, memory)
        except (SoldOut, OrderRefused, KeyRefused, AccountExhausted) as error:
            await self._withdraw(sight, attempt, _OUTCOMES[type(error)], str(error), memory)
        except OutcomeUnknown as error:
            self._rosters.watch(attempt.token, till.name, attempt.account or "", not_before=self._clock.boottime())
            self._rosters.ask_soon(till.name)
            await self._unknown(sight, attempt, error, memory)
        else:
            await self._launched(sight, attempt, instance, memory)
        return self._clock.now() + SOON

    def _still_to_order(self, record: Typed[GPURequest], memory: Memory) -> bool:
        newest = self._views.requests.get(record.key)
        if newest is None or newest.uid != record.uid or newest.object is None:
            return False
        return isinstance(next_step(self._lookout.see(newest, memory)), Order)

    async def _later(self, sight: Sight, attempt: Attempt, error: CloudError, memory: Memory) -> datetime | None:
        """Nothing happened over there: the same order again, a few times; then somebody else's."""
        memory.busy += 1
        if memory.busy > BUSY_MAX:
            await self._withdraw(sight, attempt, "Busy", str(error), memory)
            return self._clock.now() + SOON
        asked = error.retry_after if isinstance(error, CloudBusy) else None
        memory.order_not_before = sight.now + min(asked or BUSY_PAUSE, LONGEST_ASK)
        return memory.order_not_before

    async def _launched(
        self, sight: Sight, attempt: Attempt, instance: Instance, memory: Memory, *, since: datetime | None = None
    ) -> None:
        """`since` when it may cost, of one that was found again; None: since now."""
        till = till_of_attempt(attempt)
        assert till is not None, "what was launched was launched somewhere"
        visible = self._clock.boottime() + sight.listing_lag.total_seconds()
        self._rosters.watch(attempt.token, till.name, attempt.account or "", not_before=visible)
        self._rosters.ask_soon(till.name)
        billed = usd(instance.hourly_microusd) if instance.hourly_microusd is not None else None
        now = self._clock.now().replace(microsecond=0)
        launched = replace_attempt(
            attempt,
            outcome=LAUNCHED,
            launched_at=_between(attempt.reserved_at or now, since or now, now),
            instance_id=instance.id,
            hourly_price=billed,
            message=None,
        )
        await self._tell(replace(_with(sight, launched), now=now), Rest("", ""), memory)
        provider = attempt.offer.provider if attempt.offer is not None else ""
        price = instance.hourly_microusd if instance.hourly_microusd is not None else _reserved(attempt)
        after = now - attempt.reserved_at if attempt.reserved_at is not None else timedelta(0)
        self._journal.note(
            MachineLaunched(
                self._subject(sight.record), provider, _words(attempt), price, instance.id, attempt.number, after
            )
        )

    async def _unknown(self, sight: Sight, attempt: Attempt, error: OutcomeUnknown, memory: Memory) -> None:
        noted = replace_attempt(
            attempt, message=_short(str(error)), instance_id=error.instance_id or attempt.instance_id
        )
        provider = attempt.offer.provider if attempt.offer is not None else ""
        self._journal.note(
            LaunchFailed(self._subject(sight.record), provider, _words(attempt), "Unknown", _short(str(error)))
        )
        step = Rest(
            "Settling", f"the outcome of attempt {attempt.number} at {provider} is unknown: {_short(str(error))}"
        )
        await self._tell(_with(sight, noted), step, memory)

    async def _withdraw(self, sight: Sight, attempt: Attempt, outcome: str, message: str, memory: Memory) -> None:
        """There is no machine: on paper, and held against the offer where it was the offer's fault."""
        now = self._clock.now().replace(microsecond=0)
        over = replace_attempt(attempt, ended_at=now, outcome=outcome, message=_short(message))
        await self._desk.discard(attempt)
        await self._tell(replace(_with(sight, over), now=now), Rest(outcome, _short(message)), memory)
        self._rosters.forget(attempt.token)
        memory.sent.discard(attempt.token)
        self._bench(attempt, outcome, message, now)
        provider = attempt.offer.provider if attempt.offer is not None else ""
        if outcome != "Withdrawn":
            self._journal.note(
                LaunchFailed(self._subject(sight.record), provider, _words(attempt), outcome, _short(message))
            )

    def _bench(self, attempt: Attempt, outcome: str, why: str, now: datetime, *, never_joined: bool = False) -> None:
        if attempt.offer is None or outcome == "Withdrawn":
            return
        offer = offer_of(attempt.offer)
        market = self._market
        if outcome in ("KeyRefused", "Exhausted"):
            market.marks = benching.provider_failed(market.marks, offer.provider, why, now)
        else:
            market.marks = benching.failed(market.marks, offer, why, now, never_joined=never_joined)

    def _succeeded(self, attempt: Attempt | None) -> None:
        if attempt is not None and attempt.offer is not None:
            self._market.marks = benching.succeeded(self._market.marks, offer_of(attempt.offer))

    # -- giving back -------------------------------------------------------------------------------------------------

    async def _begin(self, sight: Sight, step: Step, end: End, message: str, memory: Memory) -> None:
        decided = Condition(
            type="Terminating", status="True", reason=end.value, message=message, last_transition_time=sight.now
        )
        await self._tell(replace(sight, decided=decided), step, memory)
        attempt, subject = sight.attempt, self._subject(sight.record)
        provider = attempt.offer.provider if attempt is not None and attempt.offer is not None else ""
        if end in LOSSES:
            self._journal.note(MachineLost(subject, provider, (attempt.instance_id or "") if attempt else "", message))
        else:
            self._journal.note(MachineEnding(subject, provider, end.value, message))

    async def _surely_idle(self, sight: Sight, memory: Memory) -> bool:
        """Pods are listed anew before anybody's work is ended: a watch may have been silent while one came."""
        try:
            async with asyncio.timeout(REFRESHED_WITHIN):
                await self._list_pods()
        except TimeoutError as error:
            raise ClusterBusy("the pods could not be listed before an idle machine is given back") from error
        step = next_step(self._lookout.see(sight.record, memory))
        return isinstance(step, Begin) and step.end is End.IDLE

    async def _be_sure_of_loss(self, sight: Sight) -> None:
        """The Node is asked for by its name before its machine is ended for it: a list may have left it out."""
        key = Key("", sight.status.node_name or "")
        try:
            found = await self._cluster.read(NODE, key)
        except NotFound:
            return
        seen = self._views.nodes.get(key)
        if seen is None or (sight.node.node is not None and _is_ready(found)):
            raise ClusterBusy(f"the view does not show Node {key.name} as it is")

    async def _drain(self, sight: Sight, step: Step, drain: Drain, memory: Memory) -> datetime | None:
        node = sight.node.node
        if node is not None and drain.cordon is not None:
            await self._cluster.patch(NODE, node.key, drain.cordon, resource_version=str(node.resource_version))
        for pod in (*drain.evict, *drain.force):
            try:
                await self._cluster.evict(pod.key, uid=uid_text(pod.uid))
            except Blocked:
                continue  # a budget holds it: asked again
        await self._tell(sight, step, memory)
        return sight.now + drain.next_look if drain.next_look is not None else None

    async def _give_back(self, sight: Sight, attempt: Attempt, instance_id: str, memory: Memory) -> datetime | None:
        till = till_of_attempt(attempt)
        assert till is not None, "what is given back was bought somewhere"
        memory.asked += 1
        pause = min(FIRST_ASK * (1 << min(memory.asked - 1, 6)), LONGEST_ASK)
        memory.ask_again_at = sight.now + pause
        try:
            await self._desk.give_back(attempt, instance_id)
            memory.trouble = ""
        except CloudError as error:
            memory.trouble = _short(str(error))
            if isinstance(error, CloudBusy) and error.retry_after is not None:
                memory.ask_again_at = sight.now + min(max(error.retry_after, FIRST_ASK), LONGEST_ASK)
        if memory.trouble and memory.asked >= FAILING_AFTER and not memory.told_failing:
            memory.told_failing = True
            self._journal.note(
                TerminationFailing(
                    self._subject(sight.record),
                    till.provider,
                    instance_id,
                    memory.asked,
                    memory.trouble,
                    _reserved(attempt),
                )
            )
        self._rosters.ask_soon(till.name)
        return memory.ask_again_at

    async def _close(self, sight: Sight, step: Close, memory: Memory) -> None:
        """The machine is gone: into the books first, then onto the object."""
        attempt, outcome, message, finished = step.attempt, step.outcome, step.message, step.finished
        over = replace_attempt(attempt, ended_at=sight.now, outcome=outcome, message=_short(message))
        over = replace_attempt(over, spent=usd(cost_of(over, sight.now, sight.billing_step)))
        await self._desk.discard(attempt, insist=True)
        if (entry := entry_of(sight.record, over, sight.billing_step)) is not None:
            await self._books.enter(entry)
        ended = _with(sight, over)
        reason = sight.holds("Terminating")
        if finished is None and not sight.record.deleting:
            await self._tell(ended, Rest("BackingOff", message), memory)
        else:
            await self._tell(ended, step, memory, finish=finished or Finish("Finished", "Deleted", message))
        self._rosters.forget(attempt.token)
        why = reason.reason if reason is not None else outcome
        if why in NO_USE:
            joined = why not in (End.NEVER_JOINED, End.NEVER_INITIALIZED)
            self._bench(attempt, outcome, message, sight.now, never_joined=not joined)
        provider = attempt.offer.provider if attempt.offer is not None else ""
        self._journal.note(
            MachineReturned(
                self._subject(sight.record),
                class_of(sight.record),
                pool_of(sight.record),
                provider,
                attempt.instance_id or "",
                cost_of(over, sight.now, sight.billing_step),
                why,
            )
        )

    # -- what wakes it -----------------------------------------------------------------------------------------------

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[Key]:
        node = new or old
        assert node is not None, "a change has a before or an after"
        if new is not None and new.repeats(old):
            return ()
        return [record.key for record in self._views.requests.having(BY_NODE, node.name)]

    def of_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
        names = {pod.node for pod in (old, new) if pod is not None and pod.node}
        return [record.key for name in sorted(names) for record in self._views.requests.having(BY_NODE, name)]

    def of_class(self, old: Typed[GPUNodeClass] | None, new: Typed[GPUNodeClass] | None) -> Iterable[Key]:
        """Its own, and whoever waits without a class of its own.

        What its status counts changes with every machine of it: no news for a machine that is there.
        """
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        if old is not None and new is not None and _means(old) == _means(new):
            return self._waiting()
        own = {record.key for record in self._views.requests.having(BY_NODE_CLASS, changed.key.name)}
        return sorted(own | set(self._waiting()))

    def of_till(self, old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
        """Of whose machine something new was seen there, and whoever waits for a provider that can be asked."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        news = self._rosters.news(changed.key.name)
        there = {
            record.key
            for record in self._views.requests.having(BY_TILL, changed.key.name)
            if news is None or plain_uid(record.uid_text) in news
        }
        return sorted(there | set(self._waiting()))

    def whoever_waits(self, _old: object, _new: object) -> Iterable[Key]:
        return self._waiting()

    def after_a_release(self, old: Typed[GPURequest] | None, new: Typed[GPURequest] | None) -> Iterable[Key]:
        """A machine that went leaves room in its class."""
        had, has = (record is not None and bool(by_till(record)) for record in (old, new))
        return self._waiting() if had and not has else ()

    def _waiting(self) -> list[Key]:
        return [record.key for record in self._views.requests.having(WAITING, YES)]

    # -- small things ------------------------------------------------------------------------------------------------

    def _class_of(self, sight: Sight) -> tuple[str, GPUNodeClass]:
        found = self._lookout.class_of(sight.record)
        if found is None:
            raise ClusterBusy("its class went away in this very turn")
        return found

    def _cluster_id(self) -> str:
        home = self._views.namespaces.get(Key("", "kube-system"))
        if home is None:
            raise ClusterBusy("the kube-system namespace is not seen yet: nothing can be named")
        return cluster_id(uid_text(home.uid))

    def _subject(self, record: Typed[GPURequest]) -> Subject:
        return Subject(GPU_REQUEST, record.key, record.uid_text)


_OUTCOMES: dict[type[CloudError], str] = {
    SoldOut: "SoldOut",
    OrderRefused: "Refused",
    KeyRefused: "KeyRefused",
    AccountExhausted: "Exhausted",
}


def _with(sight: Sight, changed: Attempt) -> Sight:
    attempts = tuple(changed if each.number == changed.number else each for each in sight.attempts)
    return replace(sight, attempts=attempts)


def _means(record: Typed[GPUNodeClass]) -> tuple[object, ...]:
    """All of a class that a request looks at: of its status only whether it is ready."""
    if record.object is None:
        return (record.uid, record.unreadable)
    ready = next((each for each in record.object.status.conditions if each.type == "Ready"), None)
    return record.uid, record.object.spec, ready, record.deleting, record.generation, record.labels, record.annotations


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _since(attempt: Attempt | None, now: datetime) -> timedelta:
    began = attempt.reserved_at if attempt is not None else None
    return max(now - began, timedelta(0)) if began is not None else timedelta(0)


def _whole(moment: datetime | None) -> datetime | None:
    """The first whole second from then on: turns see whole seconds, and one within a second would see the last."""
    if moment is None or not moment.microsecond:
        return moment
    return moment.replace(microsecond=0) + timedelta(seconds=1)


def _between(earliest: datetime, told: datetime, latest: datetime) -> datetime:
    """Another's clock is believed within bounds."""
    return min(max(told, earliest), latest).replace(microsecond=0)


def _reserved(attempt: Attempt) -> int:
    return offer_of(attempt.offer).hourly_microusd if attempt.offer is not None else 0


def _words(attempt: Attempt) -> str:
    return offer_words(attempt.offer) if attempt.offer is not None else "a machine"


def _short(text: str) -> str:
    return shortened(text, MESSAGE_KEPT)
