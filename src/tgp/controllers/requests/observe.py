"""Gathers what one reconcile of a request may use: caches, lists, the price book, and this process's memory.

Nothing is decided here and nothing is changed: pure functions of `core/requests` read what was gathered.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec.structs import replace

from tgp.api.request import Attempt, GPURequest
from tgp.controllers.deps import FeatureSettings
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.instances.consistency import Consistency
from tgp.controllers.market.reconciler import MarketState
from tgp.controllers.requests.indexes import BY_NODE_CLASS, PODS_BY_NODE, own_node
from tgp.controllers.requests.leader_guard import LeaderGuard
from tgp.controllers.requests.memo import RequestMemo
from tgp.controllers.requests.purchase_gatherer import PurchaseGatherer, Views, access_names
from tgp.core.classes.default_class import Chosen, Why
from tgp.core.inventory.limits import NOTHING_USED
from tgp.core.model.account_access import provider_of as provider_at
from tgp.core.model.attempts import LAUNCHED, attempts_of, copied, exchanged, open_attempt, provider_of
from tgp.core.model.cloud_account import CloudAccount
from tgp.core.model.costs import reserved_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.mesh import NO_MESH_NEEDED, Backend, MeshStatus
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.presence import NO_CLAIMS, Claims, Found, Presence
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.spend import INSTANT
from tgp.core.model.token import plain_uid, read_token
from tgp.core.requests.attempt_account import foreign, has_foreign_token, moved, unresolved
from tgp.core.requests.node_names import node_name_for
from tgp.core.requests.node_reading import NodeInput, read_node
from tgp.core.requests.node_state import provider_id_of, read_provider_id, registered
from tgp.core.requests.observation import (
    AccessObservation,
    ClassMember,
    MachinesInUse,
    NodeObservation,
    RequestObservation,
)
from tgp.core.requests.outage import serves
from tgp.core.requests.provider_reports import listed_price, with_reports
from tgp.core.requests.purchase import only_provider
from tgp.core.requests.steps import TerminationReason
from tgp.core.requests.timeouts import startup_timeouts_for
from tgp.core.requests.unwritten_ids import recalled
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds, known_facts

UNKNOWN_LAG = timedelta(minutes=1)  # of lists of a provider that only a newer version knows …
LONGEST_LAUNCH = timedelta(minutes=1)  # … and of its orders
SETTLE_MARGIN = timedelta(seconds=15)
NEVER_LISTED_FOR = timedelta(minutes=5)  # a machine whose id is known, and that no list ever showed, is given up then
MeshStatusOf: TypeAlias = Callable[[str, Node | None], MeshStatus]  # of the machine under this token


class RequestObserver:
    def __init__(
        self,
        views: Views,
        policy: FeatureSettings,
        *,
        purchases: PurchaseGatherer,
        market: MarketState,
        instance_cache: InstanceCache,
        accounts: AccountTable,
        consistency: Consistency,
        clouds: Clouds,
        gate: LeaderGuard,
        clock: Clock,
        mesh_status: MeshStatusOf,
    ) -> None:
        self._views = views
        self._policy = policy
        self._purchases = purchases
        self._market = market
        self._instance_cache = instance_cache
        self._accounts = accounts
        self._consistency = consistency
        self._clouds = clouds
        self._gate = gate
        self._clock = clock
        self._mesh_status = mesh_status
        self._nodes_at: datetime | None = None
        self._nodes_in_use = MachinesInUse()
        self._mesh_at: datetime | None = None
        self._mesh_in_use = MachinesInUse()

    def observe(self, record: KubeObject[GPURequest], memory: RequestMemo) -> RequestObservation:
        uid = plain_uid(record.uid_text)
        observation = RequestObservation(
            record,
            recalled(attempts_of(record), memory.unwritten),
            self._clock.now().replace(microsecond=0),
            keep_finished=self._policy.keep_finished,
            pool=self._purchases.pool_of(record),
            since=memory.since,
            blank=memory.blank,
            progress=memory.progress,
            listed=tuple(self._instance_cache.of_request(uid)),
            highest=self._instance_cache.highest_attempt(uid),
        )
        attempt = observation.attempt
        if attempt is None:
            return self._without_attempt(observation, memory)
        observation = self._with_attempt(observation, attempt, memory)
        return self._with_machine(observation) if attempt.outcome == LAUNCHED else self._before_order(observation)

    def epoch(self) -> str:
        return self._gate.epoch(self._policy.identity)

    # -- nothing rented ------------------------------------------------------------------------------------------------

    def _without_attempt(self, observation: RequestObservation, memory: RequestMemo) -> RequestObservation:
        record, erased = observation.record, observation.erased
        observation = replace(
            observation,
            # An order under way when the status was erased may be late, counted from now on.
            since=self._clock.boottime() if erased and not memory.erased else memory.since,
            wiped=(memory.wiped or erased) and not observation.attempts,
        )
        if observation.listed or not (observation.attempts or observation.blank):
            observation = self._with_accesses(observation)
        if record.deleting or observation.restored or observation.holds("Ended") or not observation.enrolled:
            return observation
        chosen = self._purchases.class_for(record)
        if isinstance(chosen, Why):
            return replace(observation, chosen=chosen)
        return replace(
            observation,
            chosen=chosen,
            observing=self._policy.observing,
            hold=self._purchases.hold(),
            inputs_changed=memory.refused_for not in (None, self._purchases.circumstances(record)),
            purchase=self._purchases.inputs(observation, chosen),
            node_class=chosen.value,
            default_backend=self._policy.default_backend,
        )

    def _with_accesses(self, observation: RequestObservation) -> RequestObservation:
        """Wherever a machine may be that is not recorded. A request that names its provider has bought nowhere else."""
        classes = (record.value for record in self._views.classes.values())
        named = {access for node_class in classes if node_class is not None for access in access_names(node_class)}
        used = {each.access.name for each in self._accounts.known() if each.empty_since is None}
        listed = {access for access, _ in observation.listed}
        only = only_provider(observation.spec)
        possible = listed | {access for access in named | used if not only or provider_at(access) == only}
        return replace(
            observation,
            accesses={access: self._access(access, observation.since) for access in possible},
            shown_by_node=not observation.waited and self._shown_by_node(plain_uid(observation.record.uid_text)),
            offers=self._market.book.offers,
        )

    def _access(self, access: str, since: float) -> AccessObservation:
        trouble = self._instance_cache.trouble(access)
        return AccessObservation(
            self._instance_cache.listed_at(access),
            since + self._settle_window(self.facts(provider_at(access))).total_seconds(),
            trouble.trouble if trouble is not None else None,
            bool(self._consistency.distrust(access)),
            never_used=self._accounts.ready and not self._accounts.at(access),
        )

    def _shown_by_node(self, uid: str) -> bool:
        """Is a Node Ready that carries a token of this request? Then its machine exists, even if no list shows it."""
        marks = (read_provider_id(node.provider_id) for node in self._views.nodes.values() if node.ready is True)
        return any(mark is not None and mark[1].uid == uid for mark in marks)

    # -- a machine, or the doubt whether there is one ------------------------------------------------------------------

    def _with_attempt(
        self, observation: RequestObservation, attempt: Attempt, memory: RequestMemo
    ) -> RequestObservation:
        record, account = observation.record, self._accounts.of(attempt)
        presence = self._presence(record, attempt, account)
        if not isinstance(presence, Found) and (listed_in := self._listed_in(observation, attempt)) is not None:
            account, attempt = listed_in, moved(attempt, listed_in)
            presence = self._presence(record, attempt, account)
        facts = self.facts(account.provider if account is not None else "")
        window = self._settle_window(facts)
        lag = facts.listing_lag if facts is not None else UNKNOWN_LAG
        seen = bool(self._instance_cache.seen_as(attempt.token))
        unlisted = attempt.outcome == LAUNCHED and observation.status.ready_at is None and not seen
        ordered_here = attempt == memory.reserved and attempt.epoch == self.epoch()
        return replace(
            observation,
            attempts=exchanged(observation.attempts, attempt),
            account=account,
            presence=presence,
            claims=self._claims(attempt),
            distrusted=self._consistency.distrust(account.access.name) if account is not None else "",
            settle_window=window,
            listing_lag=max(window, NEVER_LISTED_FOR) if unlisted else lag,
            seen_listed=seen,
            never_listed=unlisted,
            billing_step=facts.billing_step if facts is not None else INSTANT,
            may_order=ordered_here and account is not None and attempt.token not in memory.sent,
            order_not_before=memory.order_not_before,
            order_queued=memory.order_queued,
            termination_requests=memory.termination_requests,
            termination_accepted=memory.termination_accepted or attempt.termination_accepted_at is not None,
            ask_again_at=memory.ask_again_at,
            trouble=memory.trouble,
        )

    def _before_order(self, observation: RequestObservation) -> RequestObservation:
        record, pool = observation.record, observation.pool
        chosen = self._purchases.class_for(record)
        observation = replace(observation, chosen=chosen, observing=self._policy.observing, hold=self._purchases.hold())
        if not observation.may_order:
            return replace(observation, node=self._node_in_doubt(observation))
        if not isinstance(chosen, Chosen):
            return observation
        return replace(
            observation,
            held=self._purchases.held_by_others(record, chosen.name),
            held_of_pool=self._purchases.held_by_others(record, pool.key) if pool is not None else NOTHING_USED,
        )

    def _node_in_doubt(self, observation: RequestObservation) -> NodeObservation:
        """A rented machine that became a Node exists, whatever became of its order. One you own always has its Node."""
        record, attempt, account = observation.record, observation.attempt, observation.account
        if attempt is None or account is None or account.owned:
            return NodeObservation()
        name = node_name_for(record.key, attempt.token, account)
        node = self._views.nodes.get(ObjectKey("", name))
        ours = registered(node, name, provider_id_of(provider_of(attempt), attempt.token), record.created_at)
        return NodeObservation(registered=node if ours else None)

    def _presence(self, record: KubeObject[GPURequest], attempt: Attempt, account: CloudAccount | None) -> Presence:
        """Tenants may write statuses: only the request's own token is looked for, in an account of the table."""
        if has_foreign_token(record, attempt):
            return foreign(attempt)
        if account is None:
            return unresolved(attempt, self._policy.namespace)
        presence = self._instance_cache.presence(
            attempt.token, account.access.name, account.identities, instance_id=attempt.instance_id or ""
        )
        ordered_by_us = read_token(attempt.token) is not None
        return presence if ordered_by_us or not isinstance(presence, Found) else foreign(attempt)

    def _listed_in(self, observation: RequestObservation, attempt: Attempt) -> CloudAccount | None:
        """The account that lists the attempt's token, whichever account the attempt names; None: none does."""
        accesses = [access for access, one in observation.listed if one.token == attempt.token]
        accounts = (each for access in accesses for each in self._accounts.at(access))
        return next((each for each in accounts if each.includes(self._instance_cache.account(each.access.name))), None)

    def _claims(self, attempt: Attempt) -> Claims:
        account = self._accounts.of(attempt)
        return self._consistency.claims(account.access.name, attempt.token) if account is not None else NO_CLAIMS

    def _with_machine(self, observation: RequestObservation) -> RequestObservation:
        record, attempt, account = observation.record, observation.attempt, observation.account
        assert attempt is not None, "a machine belongs to an open attempt"
        name = observation.status.node_class or ""
        found = self._views.classes.get(ObjectKey("", name))
        node_class = found.value if found is not None else None
        node_name = node_name_for(record.key, attempt.token, account)
        node = self._views.nodes.get(ObjectKey("", node_name))
        pods = tuple(self._views.pods.by_index(PODS_BY_NODE, node_name)) if node_name else ()
        owned = account is not None and account.owned
        pool = observation.pool.value if observation.pool is not None else None
        seen = read_node(observation, attempt, NodeInput(node_name, node, pods, pool, owned))
        mesh = NO_MESH_NEEDED if owned else self._mesh_status(attempt.token, seen.node)
        costs_more = node_class is not None and listed_price(observation) > reserved_of(attempt)
        observation = replace(
            observation,
            held=self._purchases.held_by_others(record, name) if costs_more else NOTHING_USED,
            same_class=tuple(self._same_class(record, name)) if costs_more else (),
            node_class=node_class,
            default_backend=self._policy.default_backend,
            node=seen,
            mesh=mesh,
            joined_by=Backend.NONE if owned else mesh.backend,
            startup_timeouts=startup_timeouts_for(node_class, attempt.offer, self.facts(provider_of(attempt))),
            in_use=self._in_use(node, mesh, observation.now),
            budgets=tuple(self._views.budgets.values()) if observation.holds("Terminating") else (),
        )
        return with_reports(observation, attempt)

    def _same_class(self, own: KubeObject[GPURequest], node_class: str) -> Iterator[ClassMember]:
        for record in self._views.requests.by_index(BY_NODE_CLASS, node_class):
            attempt = open_attempt(attempts_of(record))
            if attempt is not None and record.value is not None and record.uid != own.uid and not copied(record):
                leaving = record.deleting or record.value.status.phase == "Terminating"
                presence = self._presence(record, attempt, self._accounts.of(attempt))
                yield ClassMember(plain_uid(record.uid_text), attempt, leaving, presence, self._claims(attempt))

    def _in_use(self, node: Node | None, mesh: MeshStatus, now: datetime) -> MachinesInUse:
        """Gathered once a second for all requests: in an outage each of them asks, and outages last minutes."""
        if node is None or node.ready is not True:
            if self._nodes_at != now:
                self._nodes_at, self._nodes_in_use = now, self._seen_by_nodes()
            return self._nodes_in_use
        if mesh.ok is False:
            if self._mesh_at != now:
                self._mesh_at, self._mesh_in_use = now, self._seen_by_mesh()
            return self._mesh_in_use
        return MachinesInUse()

    def _seen_by_nodes(self) -> MachinesInUse:
        proven = tuple(self._proven())
        served = [(record, seen) for record, asks, seen in proven if serves(asks) and asks.status.instance_id]
        unreachable = tuple((record, seen) for record, seen in served if seen is None or seen.ready is not True)
        return MachinesInUse(len(served), unreachable, any(_loses_node(asks) for _, asks, _ in proven))

    def _seen_by_mesh(self) -> MachinesInUse:
        statuses = (
            self._mesh_status(attempt.token, seen).ok
            for record, request, seen in self._proven()
            if serves(request) and (attempt := open_attempt(attempts_of(record))) is not None
        )
        return MachinesInUse(in_mesh=tuple(statuses))

    def _proven(self) -> Iterator[tuple[KubeObject[GPURequest], GPURequest, Node | None]]:
        """Requests with a machine that its own Node or its provider shows: a status alone stops no termination."""
        for record in self._views.requests.values():
            node = own_node(self._views.nodes, record)
            if record.value is not None and (node is not None or self._is_listed(record)):
                yield record, record.value, node

    def _is_listed(self, record: KubeObject[GPURequest]) -> bool:
        attempt = open_attempt(attempts_of(record))
        listed = self._instance_cache.of_request(plain_uid(record.uid_text))
        return attempt is not None and any(one.token == attempt.token for _, one in listed)

    def facts(self, provider: str) -> CloudFacts | None:
        return known_facts(self._clouds, provider)

    def _settle_window(self, facts: CloudFacts | None) -> timedelta:
        return settle_window(self._policy.lease_duration, facts)


def settle_window(lease: timedelta, facts: CloudFacts | None) -> timedelta:
    """Longer than a Lease, an order and the provider's listing lag together: no order can be later than that."""
    late = facts.launch_timeout + facts.listing_lag if facts is not None else LONGEST_LAUNCH + UNKNOWN_LAG
    return lease + late + SETTLE_MARGIN


def _loses_node(request: GPURequest) -> bool:
    lost = ("Terminating", "True", TerminationReason.NODE_LOST)
    return any((each.type, each.status, each.reason) == lost for each in request.status.conditions)
