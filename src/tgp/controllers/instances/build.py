"""Machines at the providers: listed, counted against limits, held in use, and terminated where no request owns them."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from tgp.adapters.kube.controller import Controller, WatchSource, only
from tgp.api.request import Attempt
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.instances.accounts import REVIEW, AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.instances.consistency import Consistency
from tgp.controllers.instances.evidence import ServerEvidence
from tgp.controllers.instances.holdings import HoldingsWriter
from tgp.controllers.instances.in_use import ClassInUse, SecretInUse
from tgp.controllers.instances.leftover_nodes import LeftoverNodes
from tgp.controllers.instances.orphan_collector import OrphanCollector
from tgp.controllers.instances.poller import InstancePoller
from tgp.controllers.instances.recorded_claims import RecordedClaims
from tgp.controllers.market.credentials import secrets_of
from tgp.controllers.requests.ledger import Group, Ledger, VanishedRequests
from tgp.controllers.requests.memo import RequestMemos
from tgp.core.classes.default_class import IMPLICIT
from tgp.core.inventory.limits import Reservation
from tgp.core.market.sources import sources_of
from tgp.core.model.account_access import accesses_of
from tgp.core.model.cloud_errors import KeyRefused
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.provider_trust import trusted_at
from tgp.core.model.token import read_token

POLLED_AT_ONCE = 16


class Instances:
    """What other features ask about machines at the providers."""

    def __init__(self, deps: Deps, stores: Stores) -> None:
        self._stores = stores
        self._home = ObjectKey("", deps.settings.namespace)
        self.cache = InstanceCache(deps.clock.boottime, stores.polls.send)
        self.accounts = AccountTable(
            stores.requests,
            deps.cluster,
            deps.clock,
            deps.journal,
            namespace=deps.settings.namespace,
            changed=lambda account: stores.accounts.send(account.id),
        )
        self.claims = RecordedClaims(
            self.cache,
            self.accounts,
            deps.clock,
            classes=stores.all_classes,
            namespaces=stores.namespaces,
            nodes=stores.nodes,
            allowed_namespaces_required=deps.settings.allowed_namespaces_required,
        )
        self.consistency = Consistency(
            self.cache,
            requests=stores.requests,
            accounts=self.accounts,
            nodes=stores.nodes,
            clock=deps.clock,
            trusted_at=self._trusted_at,
            accuses=self.claims.accuses,
        )
        self.collector = OrphanCollector(
            self.cache,
            stores.requests,
            classes=stores.all_classes,
            nodes=stores.nodes,
            evidence=ServerEvidence(deps.cluster, deps.caches, stores.requests),
            gate=deps.leader,
            journal=deps.journal,
            clock=deps.clock,
        )
        self.poller = InstancePoller(
            self.cache,
            consistency=self.consistency,
            collector=self.collector,
            classes=stores.all_classes,
            accounts=self.accounts,
            clouds=deps.clouds,
            secret_reader=deps.secrets,
            clock=deps.clock,
            entropy=deps.entropy,
            cluster=stores.cluster_id,
            announce=stores.accesses.send,
        )
        self._vanished = VanishedRequests(self.cache, self.accounts, deps.clock, self.claims.counts)
        stores.requests.subscribe(self._vanished.notice)
        self.ledger = Ledger(self._without_a_request, counts=self.claims.counts, now=deps.clock.now)
        stores.requests.subscribe(self.ledger.notice)
        self.memos = RequestMemos(deps.clock.boottime)
        self.class_in_use = ClassInUse(stores.classes, stores.requests, deps.cluster, deps.clock)
        self.secret_in_use = SecretInUse(
            stores.requests, self.accounts, deps.cluster, deps.clock, namespace=deps.settings.namespace
        )

    async def hold(self, node_class: str, attempt: Attempt) -> None:
        """Keep the class and its Secrets while the machine needs them. Raises KeyRefused: nothing is bought without."""
        why = await self.class_in_use.ensure(node_class) if node_class != IMPLICIT else None
        account = self.accounts.of(attempt)
        for secret in sorted(secrets_of(account.access.source)) if account is not None else ():
            why = why or await self.secret_in_use.ensure(secret)
        if why is not None:
            raise KeyRefused(why)

    def without_request(self) -> Mapping[str, int | None]:
        """By token: the hourly price of every machine that may cost and that no request records."""
        return {**self._vanished.prices(), **self.collector.without_request()}

    def _without_a_request(self, group: Group) -> Iterable[Reservation]:
        """Machines that no request owns count against every class that buys where they are.

        And against a pool where this process has seen a request of the pool own them: nothing else tells.
        """
        vanished = {each.uid: each for each in self._vanished.of(group)}
        yield from vanished.values()
        if not isinstance(group, str) or not self.collector.any_unrecorded:
            return
        record = self._stores.all_classes.get(ObjectKey("", group))
        if record is None or record.value is None:
            return
        for source in sources_of(record.value).values():
            for access in accesses_of(source):
                for orphan in self.collector.orphans_of(access.name):
                    token = read_token(orphan.instance.token)
                    if token is None or token.uid not in vanished:
                        yield Reservation(orphan.instance.id, orphan.instance.hourly_microusd or 0)
                for machine in self.collector.unrecorded_at(access.name):
                    token = read_token(machine.token)
                    if token is not None and token.uid not in vanished:  # by uid: its record counts instead, once it is
                        yield Reservation(token.uid, machine.hourly_microusd or 0)

    def _trusted_at(self, provider: str) -> datetime | None:
        home = self._stores.namespaces.get(self._home)
        return trusted_at(home.annotations, provider) if home is not None else None


def build(deps: Deps, stores: Stores, instances: Instances) -> list[Controller]:
    leftover_nodes = LeftoverNodes(
        nodes=stores.nodes,
        requests=stores.requests,
        classes=stores.all_classes,
        instance_cache=instances.cache,
        accounts=instances.accounts,
        cluster_id=stores.cluster_id,
        cluster=deps.cluster,
        clock=deps.clock,
    )
    accounts, poller = instances.accounts, instances.poller
    class_in_use, secret_in_use = instances.class_in_use, instances.secret_in_use
    holdings = HoldingsWriter(
        stores.namespaces,
        stores.classes,
        stores.requests,
        deps.cluster,
        deps.clock,
        home=ObjectKey("", deps.settings.namespace),
        without_request=instances.without_request,
        allowed_namespaces_required=deps.settings.allowed_namespaces_required,
    )
    stores.accounts.send(REVIEW)

    def start_over() -> None:
        accounts.start_over()
        instances.claims.start_over()
        stores.accounts.send(REVIEW)

    return [
        Controller(
            "accounts", accounts, sources=(WatchSource(stores.accounts.store, only(REVIEW)),), start_over=start_over
        ),
        Controller(
            "instances",
            poller,
            sources=(
                WatchSource(stores.classes, poller.of_class),
                WatchSource(stores.implicit_class.store, poller.of_class),
                WatchSource(stores.requests, poller.of_request),
                WatchSource(stores.accounts.store, poller.of_account),
                WatchSource(deps.secrets.changes.store, poller.of_secret),
                WatchSource(stores.polls.store),
            ),
            also_reads=(stores.namespaces,),
            workers=POLLED_AT_ONCE,
            start_over=instances.collector.start_over,
        ),
        Controller(
            "leftover-nodes",
            leftover_nodes,
            sources=(
                WatchSource(stores.nodes, leftover_nodes.of_node),
                WatchSource(stores.requests, leftover_nodes.of_request),
            ),
            also_reads=(stores.classes, stores.namespaces),
        ),
        Controller(
            "classes-in-use",
            class_in_use,
            sources=(WatchSource(stores.requests, class_in_use.of_request), WatchSource(stores.classes)),
            writes=(stores.classes,),
        ),
        Controller(
            "secrets-in-use",
            secret_in_use,
            sources=(
                WatchSource(stores.requests, secret_in_use.of_request),
                WatchSource(stores.accounts.store, secret_in_use.of_account),
                WatchSource(deps.secrets.changes.store),
            ),
        ),
        Controller(
            "holdings",
            holdings,
            sources=(
                WatchSource(stores.namespaces, holdings.of_namespace),
                WatchSource(stores.classes, holdings.of_class),
                WatchSource(stores.requests, holdings.of_request),
                WatchSource(stores.accesses.store, holdings.of_account),
            ),
            workers=1,
        ),
    ]
