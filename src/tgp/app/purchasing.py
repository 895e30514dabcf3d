"""The part of the operator that buys and gives back: requests, the rounds at the providers, what they hold on to."""

from collections.abc import Iterable
from datetime import datetime

from tgp.adapters.kube.board import Board, Filler
from tgp.adapters.kube.controller import Controller, Source
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt
from tgp.api.resource import GPU_REQUEST, NAMESPACE
from tgp.app.purchase_kit import Kit, Shelves
from tgp.app.request_turns import RequestTurns
from tgp.controllers.accounts import REVIEW, Accounts
from tgp.controllers.consistency import Consistency
from tgp.controllers.holds import ClassHolds, SecretHolds
from tgp.controllers.implicit_class import KEY as IMPLICIT_KEY
from tgp.controllers.implicit_class import ImplicitClass
from tgp.controllers.keys import secrets_of
from tgp.controllers.ledger import Ghosts, Ledger
from tgp.controllers.leftover_nodes import LeftoverNodes
from tgp.controllers.rosters import Rosters
from tgp.controllers.rounds import Rounds
from tgp.core.model.cloud_account import CloudAccount
from tgp.core.model.cloud_errors import KeyRefused
from tgp.core.model.identity import cluster_id
from tgp.core.model.key import Key
from tgp.core.model.record import uid_text
from tgp.core.model.till import tills_of
from tgp.core.model.token import plain_uid, read_token
from tgp.core.model.trust import trusted_at
from tgp.core.model.typed import Typed
from tgp.core.model.workload import Metadata
from tgp.core.rules.default_class import IMPLICIT, implicit_record
from tgp.core.rules.limits import Holding
from tgp.core.rules.orphan_evidence import ServerState
from tgp.core.rules.sources import sources_of
from tgp.ports.cluster import ClusterError, NotFound

ROUNDS_AT_ONCE = 16


class Purchasing:
    def __init__(self, shelves: Shelves, kit: Kit) -> None:
        self.shelves = shelves
        self._kit = kit
        self.rosters = Rosters(kit.clock.boottime, self._ask_soon)
        self.accounts = Accounts(
            shelves.requests,
            kit.cluster,
            kit.clock,
            kit.journal,
            namespace=kit.policy.namespace,
            changed=self._account_changed,
        )
        self.ghosts = Ghosts(self.rosters, self.accounts, kit.clock)
        shelves.requests.subscribe(self.ghosts.notice)
        self.ledger = Ledger(shelves.requests, self._strays, now=kit.clock.now)
        shelves.requests.subscribe(self.ledger.notice)
        self.class_holds = ClassHolds(kit.classes, shelves.requests, kit.cluster, kit.clock)
        self.secret_holds = SecretHolds(
            shelves.requests, self.accounts, kit.cluster, kit.clock, namespace=kit.policy.namespace
        )
        self.consistency = Consistency(
            self.rosters,
            requests=shelves.requests,
            accounts=self.accounts,
            nodes=shelves.nodes,
            clock=kit.clock,
            trusted_at=self._trusted_at,
        )
        self.rounds = Rounds(
            self.rosters,
            consistency=self.consistency,
            classes=kit.every_class,
            requests=shelves.requests,
            accounts=self.accounts,
            clouds=kit.clouds,
            vault=kit.vault,
            gate=kit.gate,
            clock=kit.clock,
            entropy=kit.entropy,
            journal=kit.journal,
            cluster=self.cluster_id,
            refresh=self._refresh,
            announce=self._announce,
            there=self._there,
            server=self._server,
        )
        self.leftover_nodes = LeftoverNodes(
            nodes=shelves.nodes,
            requests=shelves.requests,
            classes=kit.every_class,
            rosters=self.rosters,
            accounts=self.accounts,
            cluster_id=self.cluster_id,
            cluster=kit.cluster,
            clock=kit.clock,
        )
        self.requests = RequestTurns(
            shelves,
            kit,
            rosters=self.rosters,
            accounts=self.accounts,
            ledger=self.ledger,
            consistency=self.consistency,
            cluster_id=self.cluster_id,
            hold=self._hold,
            list_pods=self._list_pods,
            till=self.rounds.till,
        )
        self.implicit = ImplicitClass(
            kit.classes,
            shelves.requests,
            kit.vault,
            kit.clock,
            default_backend=kit.default_backend,
            show=self._show_implicit,
        )
        self._reflector: Filler | None = None
        self._of_pods: Filler | None = None

    def watch_by(self, of_requests: Filler, of_pods: Filler) -> None:
        """Who fills these stores: they are asked for a fresh list before anything is ended for want of an owner or
        of use.
        """
        self._reflector, self._of_pods = of_requests, of_pods

    def start_over(self) -> None:
        """The API server's history went back: no conclusion from it stands, and every reservation is settled first."""
        self.requests.start_over()
        self.rounds.start_over()
        self.accounts.start_over()
        _post(self.shelves.accounts, REVIEW.name)

    def cluster_id(self) -> str:
        home = self._kit.namespaces.get(Key("", "kube-system"))
        return cluster_id(uid_text(home.uid)) if home is not None and home.uid else ""

    def controllers(self) -> tuple[Controller, ...]:
        kit, shelves = self._kit, self.shelves
        _post(shelves.accounts, REVIEW.name)
        return (
            Controller("accounts", self.accounts, sources=(Source(shelves.accounts.store, _review),)),
            Controller(
                "rounds",
                self.rounds,
                sources=(
                    Source(kit.classes, self.rounds.of_class),
                    Source(shelves.implicit.store, self.rounds.of_class),
                    Source(shelves.requests, self.rounds.of_request),
                    Source(shelves.accounts.store, self.rounds.of_account),
                    Source(kit.vault.board.store, self.rounds.of_secret),
                    Source(shelves.errands.store),
                ),
                also_reads=(kit.namespaces,),
                workers=ROUNDS_AT_ONCE,
            ),
            self.requests.controller(),
            Controller(
                "leftover-nodes",
                self.leftover_nodes,
                sources=(
                    Source(shelves.nodes, self.leftover_nodes.of_node),
                    Source(shelves.requests, self.leftover_nodes.of_request),
                ),
                also_reads=(kit.classes, kit.namespaces),
            ),
            Controller(
                "class-holds",
                self.class_holds,
                sources=(Source(shelves.requests, self.class_holds.of_request), Source(kit.classes)),
                writes=(kit.classes,),
            ),
            Controller(
                "secret-holds",
                self.secret_holds,
                sources=(
                    Source(shelves.requests, self.secret_holds.of_request),
                    Source(shelves.accounts.store, self.secret_holds.of_account),
                    Source(kit.vault.board.store),
                ),
            ),
            Controller(
                "implicit-class",
                self.implicit,
                sources=(
                    Source(kit.classes, self.implicit.of_class),
                    Source(shelves.requests, self.implicit.of_request),
                    Source(kit.vault.board.store, self.implicit.of_secret),
                ),
                only_looks=True,
            ),
        )

    def _trusted_at(self, provider: str) -> datetime | None:
        home = self._kit.namespaces.get(Key("", self._kit.policy.namespace))
        return trusted_at(home.annotations, provider) if home is not None else None

    async def _hold(self, node_class: str, attempt: Attempt) -> None:
        """The class and its Secrets stay while the machine needs them. Raises KeyRefused: nothing is bought without."""
        why = await self.class_holds.ensure(node_class) if node_class != IMPLICIT else None
        account = self.accounts.of(attempt)
        for secret in sorted(secrets_of(account.till.source)) if account is not None else ():
            why = why or await self.secret_holds.ensure(secret)
        if why is not None:
            raise KeyRefused(why)

    def _strays(self, node_class: str) -> Iterable[Holding]:
        """Machines that no request owns count against every class that buys where they are."""
        ghosts = {ghost.uid: ghost for ghost in self.ghosts.of(node_class)}
        yield from ghosts.values()
        if not self.rounds.any_unrecorded:
            return
        record = self._kit.every_class.get(Key("", node_class))
        if record is None or record.object is None:
            return
        for source in sources_of(record.object).values():
            for till in tills_of(source):
                for orphan in self.rounds.orphans_of(till.name):
                    token = read_token(orphan.instance.token)
                    if token is None or token.uid not in ghosts:
                        yield Holding(orphan.instance.id, orphan.instance.hourly_microusd or 0)
                for machine in self.rounds.unrecorded_at(till.name):
                    token = read_token(machine.token)
                    if token is not None and token.uid not in ghosts:  # by uid: from its record on, that counts instead
                        yield Holding(token.uid, machine.hourly_microusd or 0)

    def _show_implicit(self, made: GPUNodeClass | None) -> None:
        board = self.shelves.implicit
        version = board.next_version()
        if made is None:
            board.store.drop(Typed(key=IMPLICIT_KEY, resource_version=version))
        else:
            board.store.put(implicit_record(made, version))

    def _account_changed(self, account: CloudAccount) -> None:
        _post(self.shelves.accounts, account.id)

    def _announce(self, till: str) -> None:
        _post(self.shelves.tills, till)

    def _ask_soon(self, till: str) -> None:
        _post(self.shelves.errands, till)

    async def _list_pods(self) -> None:
        assert self._of_pods is not None, "somebody fills the pods' store"
        await self._of_pods.listed(self._of_pods.list_again())

    async def _there(self, key: Key, uid: str) -> bool:
        """Whether a request is there, asked by its name; an API server that does not say leaves it possible."""
        try:
            found = await self._kit.cluster.read(GPU_REQUEST, key)
        except NotFound:
            return False
        except ClusterError:
            return True
        return plain_uid(str(found["metadata"]["uid"])) == uid

    async def _server(self) -> ServerState | None:
        """Right after `_refresh`: the revision is that of the fresh list of requests."""
        try:
            home = await self._kit.cluster.read(NAMESPACE, Key("", "kube-system"))
        except ClusterError:
            return None
        return ServerState(str(home["metadata"]["uid"]), self.shelves.requests.version)

    async def _refresh(self) -> None:
        assert self._reflector is not None, "somebody fills the requests' store"
        await self._reflector.listed(self._reflector.list_again())


def _review(old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
    """Once, at the start: from then on the reconciler says itself when to look again."""
    changed = new or old
    assert changed is not None, "a change has a before or an after"
    return (REVIEW,) if changed.key == REVIEW else ()


def _post(board: Board[Metadata], name: str) -> None:
    board.store.put(Metadata(key=Key("", name), resource_version=board.next_version()))
