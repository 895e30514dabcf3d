"""Gathers what one turn about a request may look at: views, rosters, the price book, and this process's memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from tgp.api.common import PROVIDERS
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import Attempt, GPURequest
from tgp.api.values import NEVER, span, usd
from tgp.controllers.accounts import Accounts
from tgp.controllers.consistency import Consistency
from tgp.controllers.gate import Gate
from tgp.controllers.ledger import Ledger
from tgp.controllers.market import Market
from tgp.controllers.memory import Memory
from tgp.controllers.request_index import BY_NODE_CLASS
from tgp.controllers.rosters import Rosters
from tgp.controllers.wardrobe import Wardrobe
from tgp.core.model.attempts import attempts_of, exchanged, open_attempt, provider_of
from tgp.core.model.book import Row
from tgp.core.model.cloud_account import TABLE, CloudAccount
from tgp.core.model.gpus import resource_name
from tgp.core.model.hold import hold_of
from tgp.core.model.instance import InstanceState
from tgp.core.model.key import Key
from tgp.core.model.mesh import CONNECTED_WITHOUT, Backend, MeshStand
from tgp.core.model.node import Node
from tgp.core.model.offer import BootMode, Offer
from tgp.core.model.pod import Pod
from tgp.core.model.presence import NO_CLAIMS, Claims, Found, Presence, Trouble, Unknown
from tgp.core.model.spend import INSTANT
from tgp.core.model.till import provider_of as provider_at
from tgp.core.model.till import till_of, tills_of
from tgp.core.model.token import plain_uid, read_token
from tgp.core.model.typed import Typed
from tgp.core.model.workload import DaemonSet, DisruptionBudget, Namespace
from tgp.core.rules.beyond_crd import request_against_class, request_problems
from tgp.core.rules.costs import class_of, hourly_of, reserved_of
from tgp.core.rules.default_class import IMPLICIT, Chosen, Why, class_for
from tgp.core.rules.device_plugin import plugin_for
from tgp.core.rules.drain import Drain, drain
from tgp.core.rules.lifecycle import BELIEVED_AFTER, LAUNCHED, PROGRESS_STEP, SILENT_AT_MOST, price_believed
from tgp.core.rules.limits import headroom_microusd, holding_of, shortage
from tgp.core.rules.mesh.drift import drift
from tgp.core.rules.mesh.inert import inert_words
from tgp.core.rules.node_dress import dress_of, future_node, pool_name, undress
from tgp.core.rules.node_names import node_name_for
from tgp.core.rules.node_state import (
    idle,
    initialized,
    protected,
    provider_id_of,
    read_provider_id,
    registered,
    worked_until,
)
from tgp.core.rules.nodeclass import backend_of, listed
from tgp.core.rules.patience import patience_for
from tgp.core.rules.purchase import ALLOW_UNTRUSTED, Choice, Shop, Stay, choose, offer_of, own_marks, sized
from tgp.core.rules.readoption import reconstructed, unrecorded
from tgp.core.rules.sight import NOT_LOOKED_FOR, NodeSight, Sight, Unrecorded
from tgp.core.rules.sources import lacking, sources_of
from tgp.core.rules.steps import NO_USE, End
from tgp.core.rules.told import recalled
from tgp.ports.clock import Clock
from tgp.ports.cloud import CloudFacts
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import ClusterBusy, View

UNKNOWN_LAG = timedelta(minutes=1)  # of lists of a provider that only a newer version knows …
LONGEST_LAUNCH = timedelta(minutes=1)  # … and of its orders
SETTLE_MARGIN = timedelta(seconds=15)
NEVER_LISTED_FOR = timedelta(minutes=5)  # a machine whose id was told, and that no list ever showed, is given up then
PODS_BY_NODE = "node"
FEW_SILENT = 2  # Nodes may always be given up at once
SHARE_SILENT = 5  # of our Nodes, one in so many
NO_KEY = (Trouble.CREDENTIALS_MISSING, Trouble.CREDENTIALS_REFUSED)
NOTHING_RUNS = (InstanceState.STOPPED, InstanceState.BROKEN)


@dataclass(frozen=True, slots=True)
class Views:
    requests: View[Typed[GPURequest]]
    classes: View[Typed[GPUNodeClass]]
    pools: View[Typed[GPUNodePool]]
    nodes: View[Node]
    pods: View[Pod]
    daemon_sets: View[DaemonSet]
    budgets: View[DisruptionBudget]
    namespaces: View[Namespace]


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator's settings say about requests."""

    namespace: str  # the operator's own
    identity: str  # of this process, where there is no Lease
    lease_duration: timedelta
    allowed_namespaces_required: bool = False
    device_plugin_required: bool = True
    keep_finished: timedelta | None = timedelta(days=7)
    observing: bool = False
    default_backend: str = ""  # the operator's own mesh; empty: it names none


class Lookout:
    def __init__(
        self,
        views: Views,
        policy: Policy,
        *,
        market: Market,
        rosters: Rosters,
        accounts: Accounts,
        ledger: Ledger,
        consistency: Consistency,
        clouds: Clouds,
        gate: Gate,
        clock: Clock,
        stand: Callable[[str, Node | None], MeshStand],
        refuses: Callable[[Offer, GPUNodeClass], str],
    ) -> None:
        self._views = views
        self._policy = policy
        self._market = market
        self._rosters = rosters
        self._accounts = accounts
        self._ledger = ledger
        self._consistency = consistency
        self._clouds = clouds
        self._gate = gate
        self._clock = clock
        self._stand = stand  # of the machine under a token, in its mesh
        self._refuses = refuses  # why a machine of an offer could never be started; empty: it could

    def see(self, record: Typed[GPURequest], memory: Memory) -> Sight:
        now = self._clock.now().replace(microsecond=0)
        uid = plain_uid(record.uid_text)
        attempts = self._recalled(attempts_of(record), memory)
        attempt = open_attempt(attempts)
        bare = Sight(
            record,
            attempts,
            now,
            blank=memory.blank,
            highest=self._rosters.highest_attempt(uid),
            strays=self._strays(uid, attempt),
            keep_finished=self._policy.keep_finished,
        )
        empty = bare.enrolled and not attempts and not memory.blank and not bare.waited
        if empty and not memory.empty:  # whatever was under way then may be late from now on, not from when we came
            memory.since = self._clock.boottime()
        memory.empty = empty
        memory.wiped |= empty
        if attempt is None:
            memory.wardrobe = None
            bare = replace(bare, wiped=memory.wiped and not attempts, unrecorded=self._unrecorded(bare, uid, memory))
            return self._without_machine(bare, memory)
        return self._with_machine(bare, attempt, memory)

    def _recalled(self, attempts: tuple[Attempt, ...], memory: Memory) -> tuple[Attempt, ...]:
        """With the id that was told for the newest one, until that is on paper."""
        if not memory.told or not attempts:
            return attempts
        known = recalled(attempts, memory.told)
        if known is attempts:
            memory.told.clear()  # it is on paper, or over
        return known

    def epoch(self) -> str:
        return self._gate.epoch(self._policy.identity)

    def class_of(self, record: Typed[GPURequest]) -> tuple[str, GPUNodeClass]:
        """By which it buys, for whoever decided to buy just now."""
        chosen = self._class(record)
        if isinstance(chosen, Why):
            raise ClusterBusy("its class went away in this very turn")
        return chosen.name, chosen.object

    def circumstances(self, record: Typed[GPURequest]) -> tuple[object, ...]:
        """What somebody may change so that an order can be made up that could not: its spec, its class."""
        found = self._views.classes.get(Key("", class_of(record)))
        if found is None or found.object is None:
            return (record.generation,)
        turned = (each.last_transition_time for each in found.object.status.conditions if each.type == "Ready")
        return record.generation, found.uid, found.object.spec, next(turned, None)

    # -- nothing rented ----------------------------------------------------------------------------------------------

    def _without_machine(self, sight: Sight, memory: Memory) -> Sight:
        record = sight.record
        if record.deleting or sight.restored or sight.holds("Ended") or not sight.enrolled:
            return replace(sight, settled=self._settled(sight, memory))
        chosen = self._class(record)
        if isinstance(chosen, Why):
            return replace(sight, settled=self._settled(sight, memory), stopped=Stay(chosen.reason, chosen.message))
        stopped = self._stopped() or _invalid(sight.record, chosen)
        choice = NOT_LOOKED_FOR if stopped is not None else self._choose(sight, chosen)
        mended = memory.refused_for not in (None, self.circumstances(record))
        return replace(
            sight,
            settled=self._settled(sight, memory),
            stopped=stopped,
            choice=choice,
            mended=mended,
            inert=self._inert(sight, chosen.object),
        )

    def _unrecorded(self, sight: Sight, uid: str, memory: Memory) -> Unrecorded | None:
        """Rare: its status was wiped or put back, and its machine runs on."""
        if not sight.strays:
            return None
        listed = self._rosters.of_request(uid)
        found = unrecorded(sight.record, (one for _, one in listed), sight.highest)
        where = next((name for name, one in listed if one is found), "")
        if found is None:
            return None
        attempt = reconstructed(sight.record, found, provider_at(where), self._market.book.offers, now=sight.now)
        return Unrecorded(attempt, found, where, settled=self._listed_everywhere(memory, where))

    def _listed_everywhere(self, memory: Memory, where: str) -> bool:
        """Was each provider that answers listed since any order would have shown, and this one for certain?"""
        tills = self._settled_by(memory) | {where: self._settles_at(where, memory)}
        return all(
            self._rosters.listed_since(till, until) or (till != where and self._rosters.trouble(till) is not None)
            for till, until in tills.items()
        )

    def class_at(self, record: Typed[GPURequest], till: str) -> str:
        """By which class a machine there was most likely bought; empty: no class is known that buys there."""
        chosen = self._class(record)
        if isinstance(chosen, Chosen) and till in _tills(chosen.object):
            return chosen.name
        buying = (each.key.name for each in self._views.classes.values() if each.object and till in _tills(each.object))
        return min(buying, default=chosen.name if isinstance(chosen, Chosen) else "")

    def _settled(self, sight: Sight, memory: Memory) -> bool:
        """Our finalizer and no attempts: its status was wiped, unless it was we who enrolled it just now.

        Then every provider has to be listed, for as long as an order may be late, before anything is believed.
        """
        if sight.attempts or memory.blank:
            return True
        return all(
            self._rosters.listed_since(till, until) or (sight.waited and self._keyless(till))
            for till, until in self._disproved_by(sight, memory).items()
        )

    def _disproved_by(self, sight: Sight, memory: Memory) -> dict[str, float]:
        """As below, for what lists do not show: an hour later where they contradict the Nodes, or a Node shows it."""
        settled = self._settled_by(memory)
        if sight.waited:
            return settled
        shown, hour = self._shown_by_a_node(plain_uid(sight.record.uid_text)), BELIEVED_AFTER.total_seconds()
        return {
            till: until + hour if shown or self._consistency.distrust(till) else until
            for till, until in settled.items()
        }

    def _shown_by_a_node(self, uid: str) -> bool:
        """Is a Node Ready that carries a token of this request? Then its machine is there, whatever lists say."""
        marks = (read_provider_id(node.provider_id) for node in self._views.nodes.values() if node.ready is True)
        return any(mark is not None and mark[1].uid == uid for mark in marks)

    def _settled_by(self, memory: Memory) -> dict[str, float]:
        """Till → the moment (Clock.boottime) from which a list of it shows whatever was ordered before."""
        classes = (record.object for record in self._views.classes.values())
        named = {till for node_class in classes if node_class is not None for till in _tills(node_class)}
        used = {each.till.name for each in self._accounts.known() if each.empty_since is None}
        return {till: self._settles_at(till, memory) for till in named | used}

    def _settles_at(self, till: str, memory: Memory) -> float:
        return memory.since + self._window(self._facts(provider_at(till))).total_seconds()

    def _keyless(self, till: str) -> bool:
        """Nobody may have its key for years: what waited, by its own record, does not wait for that as well."""
        trouble = self._rosters.trouble(till)
        return trouble is not None and trouble.trouble in NO_KEY

    def _strays(self, uid: str, attempt: Attempt | None) -> tuple[str, ...]:
        own = attempt.token if attempt is not None else ""
        listed = self._rosters.of_request(uid)
        return tuple(sorted(f"{machine.id} at {till}" for till, machine in listed if machine.token != own))

    def _class(self, record: Typed[GPURequest]) -> Chosen | Why:
        assert record.object is not None, "an unreadable request gets no turn"
        views = self._views
        home = views.namespaces.get(Key("", record.key.namespace))
        if home is None:
            return Why("NamespaceNotSeen", f"namespace {record.key.namespace} is not in view yet: no class allows it")
        return class_for(
            record.object,
            views.classes.values(),
            namespace_labels=home.labels,
            allowed_namespaces_required=self._policy.allowed_namespaces_required,
        )

    def _stopped(self) -> Stay | None:
        if self._policy.observing:
            return Stay("Observing", "the operator only looks: it buys nothing, for anyone")
        home = self._views.namespaces.get(Key("", self._policy.namespace))
        held = hold_of(home.annotations) if home is not None else None
        if held is not None:
            return Stay("Held", f"every purchase is stopped ({held}); to go on: tgp release")
        return None

    def _doubted(self, account: CloudAccount | None) -> Stay | None:
        """What was reserved is not ordered where lists have come to contradict what is seen."""
        why = self._consistency.distrust(account.till.name) if account is not None else ""
        return Stay("ProviderInconsistent", why) if why else None

    def _choose(self, sight: Sight, chosen: Chosen) -> Choice:
        record, market = sight.record, self._market
        uid = plain_uid(record.uid_text)
        held = [each for each in self._ledger.held(chosen.name) if each.uid != uid]
        limits = chosen.object.spec.limits
        return choose(
            Shop(
                sight.spec,
                chosen.name,
                chosen.object,
                market.book,
                own_marks(market.marks, sight.attempts),
                headroom_microusd(limits, held),
                closed=lambda row: self._closed(chosen, row),
                distrusted=lambda row: self._distrusted(chosen, row),
                unfit=lambda offer: self._unfit(record, offer),
                shortage=lambda wanted: shortage(limits, held, wanted),
                uid=uid,
                now=sight.now,
                unlisted=self._unlisted(chosen),
                untrusted_allowed=self._untrusted_allowed(record),
            )
        )

    def _untrusted_allowed(self, record: Typed[GPURequest]) -> bool:
        home = self._views.namespaces.get(Key("", record.key.namespace))
        return home is not None and home.labels.get(ALLOW_UNTRUSTED) == "true"

    def _unlisted(self, chosen: Chosen) -> tuple[str, ...]:
        states = ((name, self._market.book.state(each.name)) for name, each in sources_of(chosen.object).items())
        return tuple(name for name, state in states if state is None)

    def _closed(self, chosen: Chosen, row: Row) -> str:
        """Nothing is bought where nothing can be looked for afterwards."""
        source = next((each for each in sources_of(chosen.object).values() if each.name == row.source), None)
        if source is None:
            return "the class does not buy there"
        if missing := lacking(source) or self._refuses(row.offer, chosen.object):
            return missing
        seller = self._market.sellers.get(row.source)
        if seller is not None and (seller.key.valid is False or seller.key.exhausted):
            return seller.key.why or "the provider refuses the key"
        machine = row.offer.sku if row.offer.boot is BootMode.POWER else ""
        till = till_of(source, machine).name
        if machine and any(self._accounts.requests_at(till)):
            return "another request has it"  # a box that does not tell for whom it is on would look like both
        trouble = self._rosters.trouble(till)
        return trouble.why if trouble is not None else ""

    def _distrusted(self, chosen: Chosen, row: Row) -> str:
        """Nothing is bought where lists contradict what is seen: whatever comes of it could not be counted."""
        source = next((each for each in sources_of(chosen.object).values() if each.name == row.source), None)
        if source is None or row.offer.boot is BootMode.POWER:
            return ""
        return self._consistency.distrust(till_of(source).name)

    def _unfit(self, record: Typed[GPURequest], offer: Offer) -> str:
        if not self._policy.device_plugin_required or offer.boot is BootMode.POWER:
            return ""
        future = future_node(record, offer, self.pool_of(record))
        verdict = plugin_for(future, self._views.daemon_sets.values(), resource_name(offer.gpu))
        return "" if verdict.runs else verdict.message

    # -- a machine, or the doubt whether there is one ----------------------------------------------------------------

    def _with_machine(self, sight: Sight, attempt: Attempt, memory: Memory) -> Sight:
        account = self._accounts.of(attempt)
        presence = self._presence(sight.record, attempt, account)
        if not isinstance(presence, Found) and (listed_in := self._listed_in(sight.record, attempt)) is not None:
            # Its own token is listed elsewhere than its record says: the record was edited, and is put right.
            account, attempt = listed_in, _moved(attempt, listed_in)
            sight = replace(sight, attempts=exchanged(sight.attempts, attempt))
            presence = self._presence(sight.record, attempt, account)
        claims = self._claims(attempt)
        facts = self._facts(account.provider if account is not None else "")
        lag = facts.listing_lag if facts is not None else UNKNOWN_LAG
        unlisted = self._never_listed(sight, attempt)
        ordered_here = attempt == memory.reserved and attempt.epoch == self.epoch()
        sight = replace(
            sight,
            attempts=_brought_up_to_date(replace(sight, claims=claims), attempt, presence, memory),
            presence=presence,
            claims=claims,
            billing_step=facts.billing_step if facts is not None else INSTANT,
            settle_window=self._window(facts),
            distrusted=self._consistency.distrust(account.till.name) if account is not None else "",
            listing_lag=max(self._window(facts), NEVER_LISTED_FOR) if unlisted else lag,
            never_listed=unlisted,
            may_order=ordered_here and account is not None and attempt.token not in memory.sent,
            order_not_before=memory.order_not_before,
            asked_to_end=memory.asked,
            seen_listed=bool(self._rosters.seen_as(attempt.token)),
            end_accepted=memory.end_accepted or attempt.termination_accepted_at is not None,
            ask_again_at=memory.ask_again_at,
            trouble=memory.trouble,
        )
        if attempt.outcome != LAUNCHED:
            chosen = self._class(sight.record)
            stopped = (
                Stay(chosen.reason, chosen.message)
                if isinstance(chosen, Why)
                else self._stopped() or self._doubted(account) or self._over_limit(sight, attempt, chosen)
            )
            return replace(sight, stopped=stopped)
        record = self._views.classes.get(Key("", sight.status.node_class or ""))
        node_class = record.object if record is not None else None
        return self._with_node(
            replace(
                sight,
                patience=patience_for(node_class, attempt.offer),
                overdrawn=self._overdrawn(sight, attempt, node_class),
            ),
            attempt,
            account,
            node_class,
            memory,
        )

    def _never_listed(self, sight: Sight, attempt: Attempt) -> bool:
        """Its provider named it, and neither this process nor its record knows of a list that showed it."""
        named = attempt.outcome == LAUNCHED and sight.status.ready_at is None
        return named and not self._rosters.seen_as(attempt.token)

    def _over_limit(self, sight: Sight, attempt: Attempt, chosen: Chosen) -> Stay | None:
        """Limits may have been lowered, and other machines become dearer, since it was reserved."""
        if not sight.may_order:
            return None
        uid = plain_uid(sight.record.uid_text)
        others = [each for each in self._ledger.held(chosen.name) if each.uid != uid]
        why = shortage(chosen.object.spec.limits, others, holding_of(uid, attempt))
        return Stay("LimitReached", f"class {chosen.name}: {why}") if why else None

    def _overdrawn(self, sight: Sight, attempt: Attempt, node_class: GPUNodeClass | None) -> str:
        """A provider may bill more than was reserved: not at the cost of the class's limit."""
        if node_class is None or not isinstance(sight.presence, Found):
            return ""
        billed = sight.presence.instance.hourly_microusd or 0
        if attempt.offer is None or billed <= offer_of(attempt.offer).hourly_microusd:
            return ""  # no more than was reserved, and counted then
        uid = plain_uid(sight.record.uid_text)
        dearer = next((each for each in sight.attempts if each.number == attempt.number), attempt)
        going = {uid}
        for record in self._views.requests.having(BY_NODE_CLASS, sight.status.node_class or ""):
            other, whose = open_attempt(attempts_of(record)), plain_uid(record.uid_text)
            if other is None or record.object is None or whose == uid:
                continue
            if record.deleting or record.object.status.phase == "Terminating":
                going.add(whose)  # it makes room: whether more have to go is seen when it is gone
            elif _age(other) > _age(attempt) and self._is_dearer(record, other):
                return ""  # of those that overdraw it, only the newest goes
        others = [each for each in self._ledger.held(sight.status.node_class or "") if each.uid not in going]
        return shortage(node_class.spec.limits, others, holding_of(uid, dearer))

    def _is_dearer(self, record: Typed[GPURequest], attempt: Attempt) -> bool:
        """Whether it is believed to cost more than was reserved for it."""
        presence = self._presence(record, attempt, self._accounts.of(attempt))
        told = presence.instance.hourly_microusd if isinstance(presence, Found) else None
        believed = told is not None and price_believed(self._claims(attempt), attempt, told)
        return (told if told is not None and believed else hourly_of(attempt)) > reserved_of(attempt)

    def _many_unseen(self, node: Node | None) -> str:
        """Where more Nodes of ours are silent at once than machines break down, the way to them is broken."""
        if node is not None and node.ready is True:
            return ""
        ours = list(self._served())
        silent = sum(each is None or each.ready is not True for _, each in ours)
        if silent <= max(FEW_SILENT, len(ours) // SHARE_SILENT):
            return ""
        hours = int(SILENT_AT_MOST.total_seconds()) // 3600
        return (
            f"{silent} of {len(ours)} Nodes are unreachable at the same time, which a network outage explains: no "
            f"machine is terminated for it within {hours} h, then one at a time"
        )

    def _served(self) -> Iterator[tuple[Typed[GPURequest], Node | None]]:
        for record in self._views.requests.values():
            if record.object is not None and _serves(record.object) and record.object.status.instance_id:
                yield record, self._views.nodes.get(Key("", record.object.status.node_name or ""))

    def _silence_ends(self, sight: Sight) -> bool:
        """Of machines silent together for too long the one that was silent first, and none while one is on its way."""
        found = []
        for record, node in self._served():
            since = _silent_since(record, node)
            if since is not None and sight.now >= since + SILENT_AT_MOST:
                found.append((since, record.uid_text))
        if not found or min(found)[1] != sight.record.uid_text:
            return False
        return not any(_ends_as(record, End.NODE_LOST) for record in self._views.requests.values())

    def _many_disconnected(self, stand: MeshStand, node: Node | None) -> str:
        """Where the mesh knows so many no more whose Nodes are well, it is asked wrongly, or tells another's list."""
        if stand.ok is not False or node is None or node.ready is not True:
            return ""
        stands = [
            self._stand(attempt.token, self._views.nodes.get(Key("", record.object.status.node_name or "")))
            for record in self._views.requests.values()
            if record.object is not None
            and _serves(record.object)
            and (attempt := open_attempt(attempts_of(record))) is not None
        ]
        lost = sum(each.ok is False for each in stands)
        if lost <= max(FEW_SILENT, len(stands) // SHARE_SILENT):
            return ""
        return f"{lost} of {len(stands)} machines are lost to the mesh at once: its fault, not theirs; nothing is ended"

    def _presence(self, record: Typed[GPURequest], attempt: Attempt, account: CloudAccount | None) -> Presence:
        """Tenants may write statuses: only the request's own token is looked for, in an account of the table."""
        token = read_token(attempt.token)
        foreign = f"attempt {attempt.number} carries a mark that is not this request's"
        if token is not None and token.uid != plain_uid(record.uid_text):
            return Unknown(Trouble.ACCOUNT_UNKNOWN, foreign)
        if account is None:
            return Unknown(Trouble.ACCOUNT_UNKNOWN, _unresolved(attempt, self._policy.namespace))
        presence = self._rosters.presence(
            attempt.token, account.till.name, account.identities, instance_id=attempt.instance_id or ""
        )
        if token is None and isinstance(presence, Found):  # whatever is called so, we did not order it
            return Unknown(Trouble.ACCOUNT_UNKNOWN, foreign)
        return presence

    def _listed_in(self, record: Typed[GPURequest], attempt: Attempt) -> CloudAccount | None:
        """The account in whose list the attempt's token stands, whatever the attempt names; None: in none."""
        tills = [
            till for till, one in self._rosters.of_request(plain_uid(record.uid_text)) if one.token == attempt.token
        ]
        accounts = (each for till in tills for each in self._accounts.at(till))
        return next((each for each in accounts if each.includes(self._rosters.account(each.till.name))), None)

    def _claims(self, attempt: Attempt) -> Claims:
        account = self._accounts.of(attempt)
        return self._consistency.claims(account.till.name, attempt.token) if account is not None else NO_CLAIMS

    def _with_node(
        self,
        sight: Sight,
        attempt: Attempt,
        account: CloudAccount | None,
        node_class: GPUNodeClass | None,
        memory: Memory,
    ) -> Sight:
        name = node_name_for(sight.record.key, attempt.token, account)
        node = self._views.nodes.get(Key("", name))
        power = account is not None and account.owned
        provider = provider_of(attempt)
        provider_id = "" if power else provider_id_of(provider, attempt.token)
        ours = registered(node, name, provider_id, sight.record.created_at)
        wardrobe = self._wardrobe(sight.record, attempt, memory)
        dress = wardrobe.dress
        pods = tuple(self._views.pods.having(PODS_BY_NODE, name)) if name else ()
        seen = NodeSight(leftover=node if ours and not power else None)
        if power and node is not None:
            change = undress(node, sight.record.uid_text, dress)
            seen = replace(seen, leftover=node if change is not None else None, undress=change)
        if ours and node is not None and dress is not None:
            seen = self._dressed(sight, replace(seen, node=node), wardrobe, attempt, pods)
        stand = self._stand(attempt.token, seen.node) if not power else CONNECTED_WITHOUT
        many_unseen = self._many_unseen(node)
        return replace(
            sight,
            node=seen,
            mesh=stand,
            drifted=drift(stand, node_class, provider, sight.record.object, self._policy.default_backend),
            inert=self._inert(sight, node_class, Backend.NONE if power else stand.backend),
            many_unseen=many_unseen or self._many_disconnected(stand, node),
            silence_ends=bool(many_unseen) and self._silence_ends(sight),
            drain=self._drain(sight, node if ours else None, pods),
        )

    def _wardrobe(self, record: Typed[GPURequest], attempt: Attempt, memory: Memory) -> Wardrobe:
        """Most turns come with the record of the last one, and so with what its Node shall wear."""
        pool, held = self.pool_of(record), memory.wardrobe
        if held is None or held.record is not record or held.pool is not pool:
            held = memory.wardrobe = Wardrobe(record, pool, dress_of(record, attempt, pool))
        return held

    def _dressed(
        self, sight: Sight, seen: NodeSight, wardrobe: Wardrobe, attempt: Attempt, pods: tuple[Pod, ...]
    ) -> NodeSight:
        node, offer, dress = seen.node, attempt.offer, wardrobe.dress
        assert node is not None, "a dress is for a Node"
        assert dress is not None, "who has none is left as it is"
        assert offer is not None, "whose dress is known has an offer"
        resource = resource_name(offer.gpu_type or "")
        complete = initialized(node, resource, offer.gpu_count or 1, dress.startup_taints)
        was = sight.holds("Initialized") is not None
        asked = protected(sight.record, node, pods)
        change = wardrobe.mend(node, initialized=was)
        return replace(
            seen,
            initialized=(bool(complete) and change is None) or (was and node.ready is True),
            words=complete.words if change is None or not complete else "its labels and taints are not set yet",
            mend=change,
            idle=idle(pods, resource) if node.ready is True else None,
            worked_until=worked_until(pods, resource, sight.now),
            protected=asked.words if asked else "",
        )

    def _inert(self, sight: Sight, node_class: GPUNodeClass | None, joined_by: str = "") -> str | None:
        """`joined_by`: the mesh of its machine, which may be another one than its class has now."""
        if node_class is None and not joined_by:
            return None
        chosen = backend_of(node_class, self._policy.default_backend) if node_class is not None else ""
        return inert_words(sight.spec.talos_config, joined_by or chosen or Backend.NONE)

    def _drain(self, sight: Sight, node: Node | None, pods: tuple[Pod, ...]) -> Drain | None:
        """None: nothing is to be drained, or nothing runs there that could be."""
        ending = sight.holds("Terminating")
        if ending is None or ending.last_transition_time is None:
            return None
        if ending.reason in NO_USE and sight.status.ready_at is None:  # too dear may be one in use
            return None
        if isinstance(sight.presence, Found) and sight.presence.instance.state in NOTHING_RUNS:
            return None
        grace = span(sight.spec.termination_grace_period, "spec.terminationGracePeriod")
        return drain(
            node,
            pods,
            sight.now,
            ending.last_transition_time,
            None if grace is NEVER else grace,
            budgets=self._views.budgets.values(),
        )

    def pool_of(self, record: Typed[GPURequest]) -> GPUNodePool | None:
        name = pool_name(record)
        found = self._views.pools.get(Key(record.key.namespace, name)) if name else None
        return found.object if found is not None else None

    def _facts(self, provider: str) -> CloudFacts | None:
        """None: a provider that only a newer version knows."""
        return self._clouds.facts(provider) if provider in PROVIDERS else None

    def _window(self, facts: CloudFacts | None) -> timedelta:
        return settle_window(self._policy.lease_duration, facts)


def settle_window(lease: timedelta, facts: CloudFacts | None) -> timedelta:
    """Longer than a Lease, an order and the provider's listing lag together: no order can be later than that."""
    late = facts.launch_timeout + facts.listing_lag if facts is not None else LONGEST_LAUNCH + UNKNOWN_LAG
    return lease + late + SETTLE_MARGIN


def _invalid(record: Typed[GPURequest], chosen: Chosen) -> Stay | None:
    """What the CRD could not refuse."""
    assert record.object is not None, "an unreadable request gets no turn"
    problems = request_problems(record.object)
    if chosen.name != IMPLICIT:  # which nobody wrote: there is no administrator's word to keep within
        problems += request_against_class(record.object, chosen.object)
    return Stay("InvalidSpec", listed(problems)) if problems else None


def _unresolved(attempt: Attempt, namespace: str) -> str:
    """With the next step, for whoever can take it."""
    named = f"account {attempt.account}, which" if attempt.account else "no account: its id"
    return (
        f"attempt {attempt.number} names {named} is not in ConfigMap {namespace}/{TABLE}, so no provider is asked and "
        "nothing is bought again. Put that line back, or the provider into a class; if no machine was rented, delete "
        "the request and remove its finalizer"
    )


def _moved(attempt: Attempt, account: CloudAccount) -> Attempt:
    offer = replace(attempt.offer, provider=account.provider) if attempt.offer is not None else None
    return replace(attempt, account=account.id, offer=offer)


def _brought_up_to_date(sight: Sight, attempt: Attempt, presence: Presence, memory: Memory) -> tuple[Attempt, ...]:
    """What the provider tells of a living machine goes into its attempt, and with the next word onto paper."""
    if not isinstance(presence, Found) or attempt.outcome != LAUNCHED:
        return sight.attempts
    instance = presence.instance
    changes: dict[str, Any] = {}
    billed = instance.hourly_microusd
    if billed is not None and usd(billed) != attempt.hourly_price and price_believed(sight.claims, attempt, billed):
        changes["hourly_price"] = usd(billed)
    if attempt.offer is not None and (told := sized(attempt.offer, instance)) != attempt.offer:
        changes["offer"] = told
    if instance.id != attempt.instance_id:
        changes["instance_id"] = instance.id
    said = f"{instance.state}/{instance.progress}"
    started = sight.status.ready_at is not None  # from then on whatever it says is no progress of a start
    if not started and memory.progress not in (None, said) and _due(attempt.progress_at, sight.now):
        return exchanged(sight.attempts, replace(attempt, progress_at=sight.now, **changes))
    memory.progress = said
    return exchanged(sight.attempts, replace(attempt, **changes)) if changes else sight.attempts


def _tills(node_class: GPUNodeClass) -> set[str]:
    return {till.name for source in sources_of(node_class).values() for till in tills_of(source)}


def _serves(request: GPURequest) -> bool:
    """It was ready, and nobody has decided on its end: whose is, falls silent and is no sign of anything."""
    return request.status.ready_at is not None and request.status.phase != "Terminating"


def _silent_since(record: Typed[GPURequest], node: Node | None) -> datetime | None:
    """As it is on paper, or as the Node says; None: it is not silent, or nobody noted since when."""
    if node is not None:
        return node.ready_since if node.ready is not True else None
    assert record.object is not None, "only what can be read serves"
    noted = next((each for each in record.object.status.conditions if each.type == "Registered"), None)
    return noted.last_transition_time if noted is not None and noted.status == "False" else None


def _ends_as(record: Typed[GPURequest], end: End) -> bool:
    conditions = record.object.status.conditions if record.object is not None else ()
    return any((each.type, each.status, each.reason) == ("Terminating", "True", end) for each in conditions)


def _age(attempt: Attempt) -> tuple[datetime, str]:
    """Of two the greater is newer."""
    return attempt.reserved_at or datetime.min.replace(tzinfo=UTC), attempt.token


def _due(last: datetime | None, now: datetime) -> bool:
    return last is None or now - last >= PROGRESS_STEP
