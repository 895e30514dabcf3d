"""Gathers what one turn about a request may look at: views, rosters, the price book, and this process's memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from msgspec.structs import replace

from tgp.api.common import PROVIDERS
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import Attempt, GPURequest
from tgp.api.values import NEVER, span, usd
from tgp.controllers.deps import FeatureSettings
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.instances.consistency import Consistency
from tgp.controllers.market.reconciler import MarketState
from tgp.controllers.requests.indexes import BY_NODE_CLASS, PODS_BY_NODE
from tgp.controllers.requests.leader_guard import LeaderGuard
from tgp.controllers.requests.ledger import Ledger
from tgp.controllers.requests.memo import RequestMemo
from tgp.controllers.requests.node_patch_cache import NodePatchCache
from tgp.core.classes.default_class import IMPLICIT, Chosen, Why, class_for
from tgp.core.classes.nodeclass import listed
from tgp.core.classes.semantic_validation import request_against_class, request_problems
from tgp.core.inventory.limits import Reservation, reservation_of, shortage
from tgp.core.joining.mesh.drift import drift
from tgp.core.joining.mesh.ignored_settings import ignored_message
from tgp.core.joining.mesh.selection import backend_of
from tgp.core.market.sources import lacking, sources_of
from tgp.core.model.account_access import access_of, accesses_of
from tgp.core.model.account_access import provider_of as provider_at
from tgp.core.model.attempts import LAUNCHED, attempts_of, exchanged, open_attempt, provider_of
from tgp.core.model.cloud_account import TABLE, CloudAccount
from tgp.core.model.costs import class_of, hourly_of, reserved_of
from tgp.core.model.gpus import resource_name
from tgp.core.model.hold import hold_of
from tgp.core.model.instance import InstanceState
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.mesh import NO_MESH_NEEDED, Backend, MeshStatus
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.presence import NO_CLAIMS, AccountProblem, Claims, Found, Presence, Unknown
from tgp.core.model.source import Source
from tgp.core.model.spend import INSTANT
from tgp.core.model.token import plain_uid, read_token
from tgp.core.model.workload import DaemonSet, Namespace, PodDisruptionBudget
from tgp.core.requests.chosen_offer import offer_of, sized
from tgp.core.requests.drain import Drain, drain
from tgp.core.requests.known_ids import recalled
from tgp.core.requests.lifecycle import SILENT_AT_MOST
from tgp.core.requests.node_metadata import cleanup_patch, desired_metadata, pool_name
from tgp.core.requests.node_names import node_name_for
from tgp.core.requests.node_state import (
    idle,
    initialized,
    protected,
    provider_id_of,
    read_provider_id,
    registered,
    worked_until,
)
from tgp.core.requests.observation import NodeObservation, RequestObservation, Unrecorded
from tgp.core.requests.provider_reports import BELIEVED_AFTER, PROGRESS_STEP, price_believed
from tgp.core.requests.purchase import (
    ALLOW_UNTRUSTED,
    NoPurchase,
    PurchaseInput,
    SourceObservation,
)
from tgp.core.requests.readoption import reconstructed, unrecorded
from tgp.core.requests.steps import UNUSABLE, TerminationReason
from tgp.core.requests.timeouts import startup_timeouts_for
from tgp.ports.clock import Clock
from tgp.ports.cloud import CloudFacts
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import ClusterBusy, View

UNKNOWN_LAG = timedelta(minutes=1)  # of lists of a provider that only a newer version knows …
LONGEST_LAUNCH = timedelta(minutes=1)  # … and of its orders
SETTLE_MARGIN = timedelta(seconds=15)
NEVER_LISTED_FOR = timedelta(minutes=5)  # a machine whose id was told, and that no list ever showed, is given up then
FEW_SILENT = 2  # Nodes may always be given up at once
SHARE_SILENT = 5  # of our Nodes, one in so many
MeshStatusOf: TypeAlias = Callable[[str, Node | None], MeshStatus]  # of the machine under this token
NO_KEY = (AccountProblem.CREDENTIALS_MISSING, AccountProblem.CREDENTIALS_REFUSED)
NOTHING_RUNS = (InstanceState.STOPPED, InstanceState.BROKEN)


@dataclass(frozen=True, slots=True)
class Views:
    requests: View[KubeObject[GPURequest]]
    classes: View[KubeObject[GPUNodeClass]]
    pools: View[KubeObject[GPUNodePool]]
    nodes: View[Node]
    pods: View[Pod]
    daemon_sets: View[DaemonSet]
    budgets: View[PodDisruptionBudget]
    namespaces: View[Namespace]


class RequestObserver:
    def __init__(
        self,
        views: Views,
        policy: FeatureSettings,
        *,
        market: MarketState,
        instance_cache: InstanceCache,
        accounts: AccountTable,
        ledger: Ledger,
        consistency: Consistency,
        clouds: Clouds,
        gate: LeaderGuard,
        clock: Clock,
        stand: MeshStatusOf,
    ) -> None:
        self.views = views
        self._policy = policy
        self._market = market
        self._instance_cache = instance_cache
        self._accounts = accounts
        self._ledger = ledger
        self._consistency = consistency
        self._clouds = clouds
        self._gate = gate
        self._clock = clock
        self._stand = stand  # of the machine under a token, in its mesh

    def observe(self, record: KubeObject[GPURequest], memory: RequestMemo) -> RequestObservation:
        now = self._clock.now().replace(microsecond=0)
        uid = plain_uid(record.uid_text)
        attempts = self._recalled(attempts_of(record), memory)
        attempt = open_attempt(attempts)
        bare = RequestObservation(
            record,
            attempts,
            now,
            blank=memory.blank,
            highest=self._instance_cache.highest_attempt(uid),
            strays=self._strays(uid, attempt),
            keep_finished=self._policy.keep_finished,
        )
        empty = bare.enrolled and not attempts and not memory.blank and not bare.waited
        if empty and not memory.empty:  # an order under way then may be late, counted from now on
            memory.since = self._clock.boottime()
        memory.empty = empty
        memory.wiped |= empty
        if attempt is None:
            memory.node_patches = None
            bare = replace(bare, wiped=memory.wiped and not attempts, unrecorded=self._unrecorded(bare, uid, memory))
            return self._without_machine(bare, memory)
        return self._with_machine(bare, attempt, memory)

    def _recalled(self, attempts: tuple[Attempt, ...], memory: RequestMemo) -> tuple[Attempt, ...]:
        """With the id that the provider answered for the newest attempt, until the status has it."""
        if not memory.told or not attempts:
            return attempts
        known = recalled(attempts, memory.told)
        if known is attempts:
            memory.told.clear()  # the status has it, or the attempt is over
        return known

    def epoch(self) -> str:
        return self._gate.epoch(self._policy.identity)

    def class_of(self, record: KubeObject[GPURequest]) -> tuple[str, GPUNodeClass]:
        """The class by which the request buys, for a purchase that was decided just now."""
        chosen = self._class(record)
        if isinstance(chosen, Why):
            raise ClusterBusy(f"class of GPURequest {record.key} was deleted during this reconcile; trying again")
        return chosen.name, chosen.object

    def circumstances(self, record: KubeObject[GPURequest]) -> tuple[object, ...]:
        """What a user may change so that an order can be prepared that could not: the spec, the class."""
        found = self.views.classes.get(ObjectKey("", class_of(record)))
        if found is None or found.object is None:
            return (record.generation,)
        turned = (each.last_transition_time for each in found.object.status.conditions if each.type == "Ready")
        return record.generation, found.uid, found.object.spec, next(turned, None)

    # -- nothing rented ----------------------------------------------------------------------------------------------

    def _without_machine(self, observation: RequestObservation, memory: RequestMemo) -> RequestObservation:
        record = observation.record
        if record.deleting or observation.restored or observation.holds("Ended") or not observation.enrolled:
            return replace(observation, settled=self._settled(observation, memory))
        chosen = self._class(record)
        if isinstance(chosen, Why):
            return replace(
                observation,
                settled=self._settled(observation, memory),
                stopped=NoPurchase(chosen.reason, chosen.message),
            )
        stopped = self._stopped() or _invalid(observation.record, chosen)
        purchase = None if stopped is not None else self._purchase(observation, chosen)
        mended = memory.refused_for not in (None, self.circumstances(record))
        return replace(
            observation,
            settled=self._settled(observation, memory),
            stopped=stopped,
            purchase=purchase,
            mended=mended,
            inert=self._inert(observation, chosen.object),
        )

    def _unrecorded(self, observation: RequestObservation, uid: str, memory: RequestMemo) -> Unrecorded | None:
        """Rare: the status was erased or restored, and its machine still runs."""
        if not observation.strays:
            return None
        listed = self._instance_cache.of_request(uid)
        found = unrecorded(observation.record, (one for _, one in listed), observation.highest)
        where = next((name for name, one in listed if one is found), "")
        if found is None:
            return None
        attempt = reconstructed(
            observation.record, found, provider_at(where), self._market.book.offers, now=observation.now
        )
        return Unrecorded(attempt, found, where, settled=self._listed_everywhere(memory, where))

    def _listed_everywhere(self, memory: RequestMemo, where: str) -> bool:
        """Was each provider that answers listed since the time any order would show, and this one for certain?"""
        accesses = self._settled_by(memory) | {where: self._settles_at(where, memory)}
        return all(
            self._instance_cache.listed_since(access, until)
            or (access != where and self._instance_cache.trouble(access) is not None)
            for access, until in accesses.items()
        )

    def class_at(self, record: KubeObject[GPURequest], access: str) -> str:
        """The class that most likely bought a machine there; empty: no class is known that buys there."""
        chosen = self._class(record)
        if isinstance(chosen, Chosen) and access in _accesses(chosen.object):
            return chosen.name
        buying = (
            each.key.name for each in self.views.classes.values() if each.object and access in _accesses(each.object)
        )
        return min(buying, default=chosen.name if isinstance(chosen, Chosen) else "")

    def _settled(self, observation: RequestObservation, memory: RequestMemo) -> bool:
        """Our finalizer and no attempts: the status was erased, unless we added the finalizer just now.

        Then every provider has to be listed, for as long as an order may be late, before anything is decided.
        """
        if observation.attempts or memory.blank:
            return True
        return all(
            self._instance_cache.listed_since(access, until) or (observation.waited and self._keyless(access))
            for access, until in self._disproved_by(observation, memory).items()
        )

    def _disproved_by(self, observation: RequestObservation, memory: RequestMemo) -> dict[str, float]:
        """As below, for machines that lists do not show: an hour later where lists contradict the Nodes."""
        settled = self._settled_by(memory)
        if observation.waited:
            return settled
        shown, hour = self._shown_by_a_node(plain_uid(observation.record.uid_text)), BELIEVED_AFTER.total_seconds()
        return {
            access: until + hour if shown or self._consistency.distrust(access) else until
            for access, until in settled.items()
        }

    def _shown_by_a_node(self, uid: str) -> bool:
        """Is a Node Ready that carries a token of this request? Then its machine exists, even if no list shows it."""
        marks = (read_provider_id(node.provider_id) for node in self.views.nodes.values() if node.ready is True)
        return any(mark is not None and mark[1].uid == uid for mark in marks)

    def _settled_by(self, memory: RequestMemo) -> dict[str, float]:
        """Access → the moment (Clock.boottime) from which a list of it shows everything that was ordered before."""
        classes = (record.object for record in self.views.classes.values())
        named = {access for node_class in classes if node_class is not None for access in _accesses(node_class)}
        used = {each.access.name for each in self._accounts.known() if each.empty_since is None}
        return {access: self._settles_at(access, memory) for access in named | used}

    def _settles_at(self, access: str, memory: RequestMemo) -> float:
        return memory.since + self._window(self._facts(provider_at(access))).total_seconds()

    def _keyless(self, access: str) -> bool:
        """The key may be missing for good: a request that only waited so far does not wait for that as well."""
        trouble = self._instance_cache.trouble(access)
        return trouble is not None and trouble.trouble in NO_KEY

    def _strays(self, uid: str, attempt: Attempt | None) -> tuple[str, ...]:
        own = attempt.token if attempt is not None else ""
        listed = self._instance_cache.of_request(uid)
        return tuple(sorted(f"{machine.id} at {access}" for access, machine in listed if machine.token != own))

    def _class(self, record: KubeObject[GPURequest]) -> Chosen | Why:
        assert record.object is not None, "an unreadable request is not reconciled"
        views = self.views
        home = views.namespaces.get(ObjectKey("", record.key.namespace))
        if home is None:
            why = f"Namespace {record.key.namespace} is not in the cache yet; waiting for it before a class is chosen."
            return Why("NamespaceNotSeen", why)
        return class_for(
            record.object,
            views.classes.values(),
            namespace_labels=home.labels,
            allowed_namespaces_required=self._policy.allowed_namespaces_required,
        )

    def _stopped(self) -> NoPurchase | None:
        if self._policy.observing:
            return NoPurchase("Observing", "Operator runs with --observe and does not buy.")
        home = self.views.namespaces.get(ObjectKey("", self._policy.namespace))
        held = hold_of(home.annotations) if home is not None else None
        if held is not None:
            return NoPurchase("PurchasesPaused", f"All purchases are paused ({held}). To resume: tgp release")
        return None

    def _doubted(self, account: CloudAccount | None) -> NoPurchase | None:
        """A reservation is not ordered where lists contradict the Nodes."""
        why = self._consistency.distrust(account.access.name) if account is not None else ""
        return NoPurchase("ProviderInconsistent", why) if why else None

    def _purchase(self, observation: RequestObservation, chosen: Chosen) -> PurchaseInput:
        record, market = observation.record, self._market
        return PurchaseInput(
            record,
            chosen.name,
            chosen.object,
            market.book,
            {each.name: self._source(each) for each in sources_of(chosen.object).values()},
            observation.now,
            cooldowns=market.cooldowns,
            attempts=observation.attempts,
            held=self._held_by_others(record, chosen.name),
            daemon_sets=tuple(self.views.daemon_sets.values()) if self._policy.device_plugin_required else None,
            pool=self.pool_of(record),
            default_backend=self._policy.default_backend,
            unlisted=self._unlisted(chosen),
            untrusted_allowed=self._untrusted_allowed(record),
        )

    def _held_by_others(self, record: KubeObject[GPURequest], node_class: str) -> tuple[Reservation, ...]:
        uid = plain_uid(record.uid_text)
        return tuple(each for each in self._ledger.held(node_class) if each.uid != uid)

    def _untrusted_allowed(self, record: KubeObject[GPURequest]) -> bool:
        home = self.views.namespaces.get(ObjectKey("", record.key.namespace))
        return home is not None and home.labels.get(ALLOW_UNTRUSTED) == "true"

    def _unlisted(self, chosen: Chosen) -> tuple[str, ...]:
        states = ((name, self._market.book.state(each.name)) for name, each in sources_of(chosen.object).items())
        return tuple(name for name, state in states if state is None)

    def _source(self, source: Source) -> SourceObservation:
        status = self._market.source_statuses.get(source.name)
        refused = status is not None and (status.key.valid is False or status.key.exhausted)
        access = access_of(source).name
        return SourceObservation(
            lacking(source),
            (status.key.why or "the provider refused the API key") if status is not None and refused else "",
            self._listing_problem(access),
            self._consistency.distrust(access),
            {each.name: self._machine_problem(source, each.name) for each in source.settings.machines},
        )

    def _machine_problem(self, source: Source, machine: str) -> str:
        access = access_of(source, machine).name
        if any(self._accounts.requests_at(access)):
            # A machine that does not say for which request it is on would look like the machine of both.
            return "another request uses this machine"
        return self._listing_problem(access)

    def _listing_problem(self, access: str) -> str:
        trouble = self._instance_cache.trouble(access)
        return trouble.why if trouble is not None else ""

    # -- a machine, or the doubt whether there is one ----------------------------------------------------------------

    def _with_machine(
        self, observation: RequestObservation, attempt: Attempt, memory: RequestMemo
    ) -> RequestObservation:
        account = self._accounts.of(attempt)
        presence = self._presence(observation.record, attempt, account)
        if not isinstance(presence, Found) and (listed_in := self._listed_in(observation.record, attempt)) is not None:
            # Its own token is listed in another account than its record says: the record was edited, and is corrected.
            account, attempt = listed_in, _moved(attempt, listed_in)
            observation = replace(observation, attempts=exchanged(observation.attempts, attempt))
            presence = self._presence(observation.record, attempt, account)
        claims = self._claims(attempt)
        facts = self._facts(account.provider if account is not None else "")
        lag = facts.listing_lag if facts is not None else UNKNOWN_LAG
        unlisted = self._never_listed(observation, attempt)
        ordered_here = attempt == memory.reserved and attempt.epoch == self.epoch()
        observation = replace(
            observation,
            attempts=_brought_up_to_date(replace(observation, claims=claims), attempt, presence, memory),
            presence=presence,
            claims=claims,
            billing_step=facts.billing_step if facts is not None else INSTANT,
            settle_window=self._window(facts),
            distrusted=self._consistency.distrust(account.access.name) if account is not None else "",
            listing_lag=max(self._window(facts), NEVER_LISTED_FOR) if unlisted else lag,
            never_listed=unlisted,
            may_order=ordered_here and account is not None and attempt.token not in memory.sent,
            order_not_before=memory.order_not_before,
            asked_to_end=memory.asked,
            seen_listed=bool(self._instance_cache.seen_as(attempt.token)),
            end_accepted=memory.end_accepted or attempt.termination_accepted_at is not None,
            ask_again_at=memory.ask_again_at,
            trouble=memory.trouble,
        )
        if attempt.outcome != LAUNCHED:
            chosen = self._class(observation.record)
            stopped = (
                NoPurchase(chosen.reason, chosen.message)
                if isinstance(chosen, Why)
                else self._stopped() or self._doubted(account) or self._over_limit(observation, attempt, chosen)
            )
            return replace(observation, stopped=stopped)
        record = self.views.classes.get(ObjectKey("", observation.status.node_class or ""))
        node_class = record.object if record is not None else None
        return self._with_node(
            replace(
                observation,
                startup_timeouts=startup_timeouts_for(node_class, attempt.offer),
                overdrawn=self._overdrawn(observation, attempt, node_class),
            ),
            attempt,
            account,
            node_class,
            memory,
        )

    def _never_listed(self, observation: RequestObservation, attempt: Attempt) -> bool:
        """Its provider answered with an id, and neither this process nor the status knows a list that showed it."""
        named = attempt.outcome == LAUNCHED and observation.status.ready_at is None
        return named and not self._instance_cache.seen_as(attempt.token)

    def _over_limit(self, observation: RequestObservation, attempt: Attempt, chosen: Chosen) -> NoPurchase | None:
        """Limits may have been lowered, and other machines become more expensive, since it was reserved."""
        if not observation.may_order:
            return None
        uid = plain_uid(observation.record.uid_text)
        others = [each for each in self._ledger.held(chosen.name) if each.uid != uid]
        why = shortage(chosen.object.spec.limits, others, reservation_of(uid, attempt))
        return NoPurchase("LimitReached", f"class {chosen.name}: {why}") if why else None

    def _overdrawn(self, observation: RequestObservation, attempt: Attempt, node_class: GPUNodeClass | None) -> str:
        """A provider may bill more than was reserved, but not beyond the class's limit."""
        if node_class is None or not isinstance(observation.presence, Found):
            return ""
        billed = observation.presence.instance.hourly_microusd or 0
        if attempt.offer is None or billed <= offer_of(attempt.offer).hourly_microusd:
            return ""  # no more than was reserved, and counted then
        uid = plain_uid(observation.record.uid_text)
        dearer = next((each for each in observation.attempts if each.number == attempt.number), attempt)
        going = {uid}
        for record in self.views.requests.by_index(BY_NODE_CLASS, observation.status.node_class or ""):
            other, whose = open_attempt(attempts_of(record)), plain_uid(record.uid_text)
            if other is None or record.object is None or whose == uid:
                continue
            if record.deleting or record.object.status.phase == "Terminating":
                going.add(whose)  # it makes room: whether more must be terminated is decided when it is gone
            elif _age(other) > _age(attempt) and self._is_dearer(record, other):
                return ""  # of those that overdraw the limit, only the newest is terminated
        others = [each for each in self._ledger.held(observation.status.node_class or "") if each.uid not in going]
        return shortage(node_class.spec.limits, others, reservation_of(uid, dearer))

    def _is_dearer(self, record: KubeObject[GPURequest], attempt: Attempt) -> bool:
        """Whether it is believed to cost more than was reserved for it."""
        presence = self._presence(record, attempt, self._accounts.of(attempt))
        told = presence.instance.hourly_microusd if isinstance(presence, Found) else None
        believed = told is not None and price_believed(self._claims(attempt), attempt, told)
        return (told if told is not None and believed else hourly_of(attempt)) > reserved_of(attempt)

    def _many_unseen(self, node: Node | None) -> str:
        """More Nodes are silent at once than machines fail at once: then the network is at fault."""
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

    def _served(self) -> Iterator[tuple[KubeObject[GPURequest], Node | None]]:
        for record in self.views.requests.values():
            if record.object is not None and _serves(record.object) and record.object.status.instance_id:
                yield record, self.views.nodes.get(ObjectKey("", record.object.status.node_name or ""))

    def _silence_ends(self, observation: RequestObservation) -> bool:
        """Of machines silent together for too long the one silent longest, and none while another is terminated."""
        found = []
        for record, node in self._served():
            since = _silent_since(record, node)
            if since is not None and observation.now >= since + SILENT_AT_MOST:
                found.append((since, record.uid_text))
        if not found or min(found)[1] != observation.record.uid_text:
            return False
        return not any(_ends_as(record, TerminationReason.NODE_LOST) for record in self.views.requests.values())

    def _many_disconnected(self, stand: MeshStatus, node: Node | None) -> str:
        """The mesh does not list many devices whose Nodes are Ready: then its answer is wrong, not the machines."""
        if stand.ok is not False or node is None or node.ready is not True:
            return ""
        stands = [
            self._stand(attempt.token, self.views.nodes.get(ObjectKey("", record.object.status.node_name or "")))
            for record in self.views.requests.values()
            if record.object is not None
            and _serves(record.object)
            and (attempt := open_attempt(attempts_of(record))) is not None
        ]
        lost = sum(each.ok is False for each in stands)
        if lost <= max(FEW_SILENT, len(stands) // SHARE_SILENT):
            return ""
        return (
            f"The mesh does not list {lost} of {len(stands)} machines at the same time; assuming a fault of the mesh, "
            "so no machine is terminated."
        )

    def _presence(self, record: KubeObject[GPURequest], attempt: Attempt, account: CloudAccount | None) -> Presence:
        """Tenants may write statuses: only the request's own token is looked for, in an account of the table."""
        token = read_token(attempt.token)
        foreign = f"Attempt {attempt.number} carries the token of another request."
        if token is not None and token.uid != plain_uid(record.uid_text):
            return Unknown(AccountProblem.ACCOUNT_UNKNOWN, foreign)
        if account is None:
            return Unknown(AccountProblem.ACCOUNT_UNKNOWN, _unresolved(attempt, self._policy.namespace))
        presence = self._instance_cache.presence(
            attempt.token, account.access.name, account.identities, instance_id=attempt.instance_id or ""
        )
        if token is None and isinstance(presence, Found):  # a machine of that name was not ordered by us
            return Unknown(AccountProblem.ACCOUNT_UNKNOWN, foreign)
        return presence

    def _listed_in(self, record: KubeObject[GPURequest], attempt: Attempt) -> CloudAccount | None:
        """The account that lists the attempt's token, whichever account the attempt names; None: none does."""
        accesses = [
            access
            for access, one in self._instance_cache.of_request(plain_uid(record.uid_text))
            if one.token == attempt.token
        ]
        accounts = (each for access in accesses for each in self._accounts.at(access))
        return next((each for each in accounts if each.includes(self._instance_cache.account(each.access.name))), None)

    def _claims(self, attempt: Attempt) -> Claims:
        account = self._accounts.of(attempt)
        return self._consistency.claims(account.access.name, attempt.token) if account is not None else NO_CLAIMS

    def _with_node(
        self,
        observation: RequestObservation,
        attempt: Attempt,
        account: CloudAccount | None,
        node_class: GPUNodeClass | None,
        memory: RequestMemo,
    ) -> RequestObservation:
        name = node_name_for(observation.record.key, attempt.token, account)
        node = self.views.nodes.get(ObjectKey("", name))
        power = account is not None and account.owned
        provider = provider_of(attempt)
        provider_id = "" if power else provider_id_of(provider, attempt.token)
        ours = registered(node, name, provider_id, observation.record.created_at)
        node_patches = self._node_patches(observation.record, attempt, memory)
        metadata = node_patches.metadata
        pods = tuple(self.views.pods.by_index(PODS_BY_NODE, name)) if name else ()
        seen = NodeObservation(leftover=node if ours and not power else None)
        if power and node is not None:
            change = cleanup_patch(node, observation.record.uid_text, metadata)
            seen = replace(seen, leftover=node if change is not None else None, undress=change)
        if ours and node is not None and metadata is not None:
            seen = self._with_metadata(observation, replace(seen, node=node), node_patches, attempt, pods)
        stand = self._stand(attempt.token, seen.node) if not power else NO_MESH_NEEDED
        many_unseen = self._many_unseen(node)
        return replace(
            observation,
            node=seen,
            mesh=stand,
            drifted=drift(stand, node_class, provider, observation.record.object, self._policy.default_backend),
            inert=self._inert(observation, node_class, Backend.NONE if power else stand.backend),
            many_unseen=many_unseen or self._many_disconnected(stand, node),
            silence_ends=bool(many_unseen) and self._silence_ends(observation),
            drain=self._drain(observation, node if ours else None, pods),
        )

    def _node_patches(self, record: KubeObject[GPURequest], attempt: Attempt, memory: RequestMemo) -> NodePatchCache:
        """Most reconciles see the same record as the last one, and so the same metadata for its Node."""
        pool, held = self.pool_of(record), memory.node_patches
        if held is None or held.record is not record or held.pool is not pool:
            held = memory.node_patches = NodePatchCache(record, pool, desired_metadata(record, attempt, pool))
        return held

    def _with_metadata(
        self,
        observation: RequestObservation,
        seen: NodeObservation,
        node_patches: NodePatchCache,
        attempt: Attempt,
        pods: tuple[Pod, ...],
    ) -> NodeObservation:
        node, offer, metadata = seen.node, attempt.offer, node_patches.metadata
        assert node is not None, "metadata is computed for a Node"
        assert metadata is not None, "a Node without desired metadata is left as it is"
        assert offer is not None, "an attempt with metadata has an offer"
        resource = resource_name(offer.gpu_type or "")
        complete = initialized(node, resource, offer.gpu_count or 1, metadata.startup_taints)
        was = observation.holds("Initialized") is not None
        asked = protected(observation.record, node, pods)
        change = node_patches.patch_for(node, initialized=was)
        return replace(
            seen,
            initialized=(bool(complete) and change is None) or (was and node.ready is True),
            words=complete.words if change is None or not complete else "its labels and taints are not set yet",
            mend=change,
            idle=idle(pods, resource) if node.ready is True else None,
            worked_until=worked_until(pods, resource, observation.now),
            protected=asked.words if asked else "",
        )

    def _inert(
        self, observation: RequestObservation, node_class: GPUNodeClass | None, joined_by: str = ""
    ) -> str | None:
        """`joined_by`: the mesh of the machine, which may differ from the one its class has now."""
        if node_class is None and not joined_by:
            return None
        chosen = backend_of(node_class, self._policy.default_backend) if node_class is not None else ""
        return ignored_message(observation.spec.talos_config, joined_by or chosen or Backend.NONE)

    def _drain(self, observation: RequestObservation, node: Node | None, pods: tuple[Pod, ...]) -> Drain | None:
        """None: nothing is to be drained, or nothing runs there that could be."""
        ending = observation.holds("Terminating")
        if ending is None or ending.last_transition_time is None:
            return None
        if ending.reason in UNUSABLE and observation.status.ready_at is None:  # PriceExceeded may be a machine in use
            return None
        if isinstance(observation.presence, Found) and observation.presence.instance.state in NOTHING_RUNS:
            return None
        grace = span(observation.spec.termination_grace_period, "spec.terminationGracePeriod")
        return drain(
            node,
            pods,
            observation.now,
            ending.last_transition_time,
            None if grace is NEVER else grace,
            budgets=self.views.budgets.values(),
        )

    def pool_of(self, record: KubeObject[GPURequest]) -> GPUNodePool | None:
        name = pool_name(record)
        found = self.views.pools.get(ObjectKey(record.key.namespace, name)) if name else None
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


def _invalid(record: KubeObject[GPURequest], chosen: Chosen) -> NoPurchase | None:
    """What the CRD could not refuse."""
    assert record.object is not None, "an unreadable request is not reconciled"
    problems = request_problems(record.object)
    if chosen.name != IMPLICIT:  # made by the operator: there are no rules of an administrator
        problems += request_against_class(record.object, chosen.object)
    return NoPurchase("InvalidSpec", listed(problems)) if problems else None


def _unresolved(attempt: Attempt, namespace: str) -> str:
    """With the next step for an administrator."""
    named = f"account {attempt.account}, which" if attempt.account else "no account: its id"
    return (
        f"Attempt {attempt.number} names {named} is not in ConfigMap {namespace}/{TABLE}. No provider is asked and "
        "nothing is bought again. Restore that line, or add the provider to a class. If no machine was launched, "
        "delete the request and remove its finalizer."
    )


def _moved(attempt: Attempt, account: CloudAccount) -> Attempt:
    offer = replace(attempt.offer, provider=account.provider) if attempt.offer is not None else None
    return replace(attempt, account=account.id, offer=offer)


def _brought_up_to_date(
    observation: RequestObservation, attempt: Attempt, presence: Presence, memory: RequestMemo
) -> tuple[Attempt, ...]:
    """What the provider says of a running machine goes into its attempt, and is written with the next status."""
    if not isinstance(presence, Found) or attempt.outcome != LAUNCHED:
        return observation.attempts
    instance = presence.instance
    changes: dict[str, Any] = {}
    billed = instance.hourly_microusd
    if (
        billed is not None
        and usd(billed) != attempt.hourly_price
        and price_believed(observation.claims, attempt, billed)
    ):
        changes["hourly_price"] = usd(billed)
    if attempt.offer is not None and (told := sized(attempt.offer, instance)) != attempt.offer:
        changes["offer"] = told
    if instance.id != attempt.instance_id:
        changes["instance_id"] = instance.id
    said = f"{instance.state}/{instance.progress}"
    started = observation.status.ready_at is not None  # from then on nothing counts as progress of a start
    if not started and memory.progress not in (None, said) and _due(attempt.progress_at, observation.now):
        return exchanged(observation.attempts, replace(attempt, progress_at=observation.now, **changes))
    memory.progress = said
    return exchanged(observation.attempts, replace(attempt, **changes)) if changes else observation.attempts


def _accesses(node_class: GPUNodeClass) -> set[str]:
    return {access.name for source in sources_of(node_class).values() for access in accesses_of(source)}


def _serves(request: GPURequest) -> bool:
    """It was ready, and its termination is not decided: a machine on its way out goes silent anyway."""
    return request.status.ready_at is not None and request.status.phase != "Terminating"


def _silent_since(record: KubeObject[GPURequest], node: Node | None) -> datetime | None:
    """By the status, or by the Node; None: it is not silent, or the start of the silence is not recorded."""
    if node is not None:
        return node.ready_since if node.ready is not True else None
    assert record.object is not None, "only what can be read serves"
    noted = next((each for each in record.object.status.conditions if each.type == "Registered"), None)
    return noted.last_transition_time if noted is not None and noted.status == "False" else None


def _ends_as(record: KubeObject[GPURequest], end: TerminationReason) -> bool:
    conditions = record.object.status.conditions if record.object is not None else ()
    return any((each.type, each.status, each.reason) == ("Terminating", "True", end) for each in conditions)


def _age(attempt: Attempt) -> tuple[datetime, str]:
    """Of two the greater is newer."""
    return attempt.reserved_at or datetime.min.replace(tzinfo=UTC), attempt.token


def _due(last: datetime | None, now: datetime) -> bool:
    return last is None or now - last >= PROGRESS_STEP
