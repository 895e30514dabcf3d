"""What purchases need: stores of their own, and what the rest of the operator gives them."""

from collections.abc import Callable
from dataclasses import dataclass

from tgp.adapters.kube.board import Board
from tgp.adapters.kube.store import Store
from tgp.adapters.kube.vault import KubeVault
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import DAEMON_SET, GPU_REQUEST, NODE, POD, POD_DISRUPTION_BUDGET, Resource
from tgp.controllers.gate import Gate
from tgp.controllers.implicit_class import EveryClass
from tgp.controllers.market import Market
from tgp.controllers.request_index import INDEXES
from tgp.controllers.request_sight import PODS_BY_NODE, Policy
from tgp.core.model.mesh import CONNECTED_WITHOUT, MeshStand
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.model.typed import Typed
from tgp.core.model.workload import DaemonSet, DisruptionBudget, Metadata, Namespace
from tgp.ports.boot import Boot
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import Cluster
from tgp.ports.entropy import Entropy
from tgp.ports.journal import Journal

TILL = Resource("tgp.io", "v1", "tills", "Till", namespaced=False)  # never served: a board of our own
ERRAND = Resource("tgp.io", "v1", "errands", "Errand", namespaced=False)  # neither
UNWRITTEN = Resource("tgp.io", "v1", "unwrittenclasses", "UnwrittenClass", namespaced=False)  # nor this
ACCOUNT = Resource("tgp.io", "v1", "accounts", "Account", namespaced=False)  # nor this
IN_MESH = Resource("tgp.io", "v1", "inmesh", "InMesh", namespaced=True)  # nor this


def _on_node(pod: Pod) -> tuple[str, ...]:
    return (pod.node,) if pod.node else ()


class Shelves:
    """The stores that only purchases need."""

    def __init__(self) -> None:
        self.requests: Store[Typed[GPURequest]] = Store(GPU_REQUEST, INDEXES)
        self.nodes: Store[Node] = Store(NODE)
        self.pods: Store[Pod] = Store(POD, {PODS_BY_NODE: _on_node})
        self.daemon_sets: Store[DaemonSet] = Store(DAEMON_SET)
        self.budgets: Store[DisruptionBudget] = Store(POD_DISRUPTION_BUDGET)
        self.tills: Board[Metadata] = Board(TILL)  # what was seen at each
        self.implicit: Board[Typed[GPUNodeClass]] = Board(UNWRITTEN)  # the class that nobody wrote
        self.in_mesh: Board[Metadata] = Board(IN_MESH)  # requests of whose machine something new was seen there
        self.accounts: Board[Metadata] = Board(ACCOUNT)  # that were read, written or forgotten
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
