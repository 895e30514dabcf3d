"""The part of the operator that buys and gives back: requests, the rounds at the providers, what they hold on to."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tgp.adapters.kube.board import Board, Filler
from tgp.adapters.kube.controller import Controller, Source
from tgp.adapters.kube.store import Store
from tgp.adapters.kube.vault import KubeVault
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import Attempt, GPURequest
from tgp.api.resource import DAEMON_SET, GPU_REQUEST, NODE, POD, POD_DISRUPTION_BUDGET, Resource
from tgp.controllers.gate import Gate
from tgp.controllers.holds import BY_SECRET, ClassHolds, SecretHolds, by_secret
from tgp.controllers.implicit_class import KEY as IMPLICIT_KEY
from tgp.controllers.implicit_class import EveryClass, ImplicitClass
from tgp.controllers.last_look import LastLook
from tgp.controllers.ledger import Ghosts, Ledger
from tgp.controllers.leftover_nodes import LeftoverNodes
from tgp.controllers.market import Market
from tgp.controllers.request_index import INDEXES
from tgp.controllers.request_sight import PODS_BY_NODE, Lookout, Policy, Views
from tgp.controllers.requests import UNTOLD, RequestReconciler
from tgp.controllers.rosters import Rosters
from tgp.controllers.rounds import Rounds
from tgp.controllers.spending import Books
from tgp.controllers.till_desk import TillDesk
from tgp.controllers.verdicts import Scribe
from tgp.core.model.cloud_errors import KeyRefused
from tgp.core.model.identity import cluster_id
from tgp.core.model.key import Key
from tgp.core.model.mesh import CONNECTED_WITHOUT, MeshStand
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.till import tills_of
from tgp.core.model.token import plain_uid, read_token
from tgp.core.model.typed import Typed
from tgp.core.model.workload import DaemonSet, DisruptionBudget, Metadata, Namespace
from tgp.core.rules.default_class import IMPLICIT, implicit_record
from tgp.core.rules.holds import secrets_of
from tgp.core.rules.lifecycle_words import OWNED
from tgp.core.rules.limits import Holding
from tgp.core.rules.sources import sources_of
from tgp.ports.boot import Boot
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import Cluster, ClusterError, NotFound
from tgp.ports.entropy import Entropy
from tgp.ports.journal import Journal

TILL = Resource("tgp.io", "v1", "tills", "Till", namespaced=False)  # never served: a board of our own
ERRAND = Resource("tgp.io", "v1", "errands", "Errand", namespaced=False)  # neither
UNWRITTEN = Resource("tgp.io", "v1", "unwrittenclasses", "UnwrittenClass", namespaced=False)  # nor this
IN_MESH = Resource("tgp.io", "v1", "inmesh", "InMesh", namespaced=True)  # nor this
FEWEST_WORKERS = 16  # a turn may wait half a minute for a provider's answer
ROUNDS_AT_ONCE = 16


def _on_node(pod: Pod) -> tuple[str, ...]:
    return (pod.node,) if pod.node else ()


class Shelves:
    """The stores that only purchases need."""

    def __init__(self) -> None:
        self.requests: Store[Typed[GPURequest]] = Store(GPU_REQUEST, {**INDEXES, BY_SECRET: by_secret})
        self.nodes: Store[Node] = Store(NODE)
        self.pods: Store[Pod] = Store(POD, {PODS_BY_NODE: _on_node})
        self.daemon_sets: Store[DaemonSet] = Store(DAEMON_SET)
        self.budgets: Store[DisruptionBudget] = Store(POD_DISRUPTION_BUDGET)
        self.tills: Board[Metadata] = Board(TILL)  # what was seen at each
        self.implicit: Board[Typed[GPUNodeClass]] = Board(UNWRITTEN)  # the class that nobody wrote
        self.in_mesh: Board[Metadata] = Board(IN_MESH)  # requests of whose machine something new was seen there
        self.errands: Board[Metadata] = Board(ERRAND)  # tills that somebody wants looked at now


@dataclass(frozen=True)
class Kit:
    """What purchases are given by the rest of the operator."""

    classes: Store[Typed[GPUNodeClass]]
    every_class: EveryClass
    pools: Store[Typed[GPUNodePool]]
    namespaces: Store[Namespace]
    sources: Board[Metadata]
    market: Market
    clouds: Clouds
    vault: KubeVault
    boot: Boot
    gate: Gate
    cluster: Cluster
    journal: Journal
    clock: Clock
    entropy: Entropy
    policy: Policy
    default_backend: str
    workers: int
    stand: Callable[[str, Node | None], MeshStand] = lambda _token, _node: CONNECTED_WITHOUT  # in its mesh


class Purchasing:
    def __init__(self, shelves: Shelves, kit: Kit) -> None:
        self.shelves = shelves
        self._kit = kit
        self.rosters = Rosters(kit.clock.boottime, self._ask_soon)
        self.ghosts = Ghosts(self.rosters, kit.clock.boottime)
        shelves.requests.subscribe(self.ghosts.notice)
        self.ledger = Ledger(shelves.requests, self._strays)
        shelves.requests.subscribe(self.ledger.notice)
        self.class_holds = ClassHolds(kit.classes, shelves.requests, kit.cluster, kit.clock)
        self.secret_holds = SecretHolds(shelves.requests, kit.cluster, kit.clock, namespace=kit.policy.namespace)
        self.rounds = Rounds(
            self.rosters,
            classes=kit.every_class,
            requests=shelves.requests,
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
        )
        self.leftover_nodes = LeftoverNodes(
            nodes=shelves.nodes,
            requests=shelves.requests,
            classes=kit.every_class,
            rosters=self.rosters,
            cluster_id=self.cluster_id,
            cluster=kit.cluster,
            clock=kit.clock,
        )
        self.requests = self._make_requests()
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

    def cluster_id(self) -> str:
        home = self._kit.namespaces.get(Key("", "kube-system"))
        return cluster_id(uid_text(home.uid)) if home is not None and home.uid else ""

    def controllers(self) -> tuple[Controller, ...]:
        kit, shelves = self._kit, self.shelves
        return (
            Controller(
                "rounds",
                self.rounds,
                sources=(
                    Source(kit.classes, self.rounds.of_class),
                    Source(shelves.implicit.store, self.rounds.of_class),
                    Source(shelves.requests, self.rounds.of_request),
                    Source(kit.vault.board.store, self.rounds.of_secret),
                    Source(shelves.errands.store),
                ),
                also_reads=(kit.namespaces,),
                workers=ROUNDS_AT_ONCE,
            ),
            Controller(
                "requests",
                self.requests,
                sources=(
                    Source(shelves.requests),
                    Source(shelves.requests, self.requests.after_a_release),
                    Source(shelves.nodes, self.requests.of_node),
                    Source(shelves.pods, self.requests.of_pod),
                    Source(kit.classes, self.requests.of_class),
                    Source(shelves.implicit.store, self.requests.of_class),
                    Source(shelves.tills.store, self.requests.of_till),
                    Source(shelves.in_mesh.store),
                    Source(kit.sources.store, self.requests.whoever_waits),
                    Source(shelves.daemon_sets, self.requests.whoever_waits),
                    Source(kit.namespaces, self.requests.whoever_waits),
                ),
                also_reads=(kit.pools, shelves.budgets),
                writes=(shelves.requests,),
                workers=max(kit.workers, FEWEST_WORKERS),
            ),
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

    def _make_requests(self) -> RequestReconciler:
        kit, shelves = self._kit, self.shelves
        views = Views(
            shelves.requests,
            kit.every_class,
            kit.pools,
            shelves.nodes,
            shelves.pods,
            shelves.daemon_sets,
            shelves.budgets,
            kit.namespaces,
        )
        lookout = Lookout(
            views,
            kit.policy,
            market=kit.market,
            rosters=self.rosters,
            ledger=self.ledger,
            clouds=kit.clouds,
            gate=kit.gate,
            clock=kit.clock,
            stand=kit.stand,
            refuses=kit.boot.refuses,
        )
        return RequestReconciler(
            views,
            lookout,
            cluster=kit.cluster,
            scribe=Scribe(GPU_REQUEST, OWNED, kit.cluster, kit.journal, kit.clock, untold=UNTOLD),
            market=kit.market,
            rosters=self.rosters,
            ledger=self.ledger,
            desk=TillDesk(kit.clouds, kit.vault, kit.gate, kit.boot),
            books=Books(kit.cluster, kit.policy.namespace),
            hold=self._hold,
            last_look=LastLook(views, kit.cluster, home=kit.policy.namespace),
            list_pods=self._list_pods,
            journal=kit.journal,
            clock=kit.clock,
        )

    async def _hold(self, node_class: str, attempt: Attempt) -> None:
        """The class and its Secrets stay while the machine needs them. Raises KeyRefused: nothing is bought without."""
        why = await self.class_holds.ensure(node_class) if node_class != IMPLICIT else None
        for secret in sorted(secrets_of(attempt)):
            why = why or await self.secret_holds.ensure(secret)
        if why is not None:
            raise KeyRefused(why)

    def _strays(self, node_class: str) -> Iterable[Holding]:
        """Machines that no request owns count against every class that buys where they are."""
        ghosts = {ghost.uid: ghost for ghost in self.ghosts.of(node_class)}
        yield from ghosts.values()
        if not self.rounds.any_orphans:
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

    def _show_implicit(self, made: GPUNodeClass | None) -> None:
        board = self.shelves.implicit
        version = board.next_version()
        if made is None:
            board.store.drop(Typed(key=IMPLICIT_KEY, resource_version=version))
        else:
            board.store.put(implicit_record(made, version))

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

    async def _refresh(self) -> None:
        assert self._reflector is not None, "somebody fills the requests' store"
        await self._reflector.listed(self._reflector.list_again())


def _post(board: Board[Metadata], name: str) -> None:
    board.store.put(Metadata(key=Key("", name), resource_version=board.next_version()))
