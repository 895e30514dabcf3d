"""What a command may use: `CliServices` opens one service for as long as a block lasts. The app implements it.

Types are imported for the checker alone, so that a command does not load what only another command needs.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tgp.api.nodeclass import GPUNodeClass
    from tgp.api.request import GPURequest
    from tgp.core.budgets.reset import ResetAsked
    from tgp.core.joining.talos.class_templates import ClassTemplate
    from tgp.core.model.cluster_inventory import ClusterInventory
    from tgp.core.model.hold import Hold
    from tgp.core.model.instance import Instance
    from tgp.core.model.kube_object import KubeObject
    from tgp.core.model.mesh import Backend
    from tgp.core.model.node import Node
    from tgp.core.model.object_key import ObjectKey
    from tgp.core.model.pod import Pod
    from tgp.core.model.provider_facts import CloudFacts
    from tgp.core.model.secret import Secret
    from tgp.core.model.spend import SpendEntry
    from tgp.core.model.talos import TalosVersion
    from tgp.core.reports.manifest_verdict import Surroundings
    from tgp.core.reports.path_check import CheckedMachine, ConnectivityReport
    from tgp.ports.cluster import Cluster
    from tgp.services.budget_answers import BudgetBoard, BudgetEnquiry, BudgetLine, BudgetReport, Simulation
    from tgp.services.confirmed import Confirmed
    from tgp.services.marked_machines import MarkedMachines
    from tgp.services.market_answers import OfferAnswer, OfferQuestion, Prices
    from tgp.services.nodes import NodesReport
    from tgp.services.owned_machines import OwnedMachineState
    from tgp.services.plan_answers import (
        ConsolidationPlan,
        NodeEnquiry,
        PlanQuestion,
        PodEnquiry,
        PodPlan,
        PoolEnquiry,
    )
    from tgp.services.preflight_answers import CheckReport
    from tgp.services.request_answers import ClusterStatus, Enquiry, Look, RentPlan
    from tgp.services.setup_plan import ClusterSurvey, PlannedObject, SetupAnswers, TriedProvider
    from tgp.services.talos_answers import ConfigChoice, Spread, Stored


class OfferActions(Protocol):
    """What the providers sell."""

    async def look(self, question: "OfferQuestion") -> "OfferAnswer": ...


class MarketActions(OfferActions, Protocol):
    """What the providers sell, asked with the API keys of this terminal."""

    async def machines(self) -> "MarkedMachines":
        """That an operator of any cluster bought."""
        ...


class RequestActions(Protocol):
    """The GPURequests of one cluster."""

    @property
    def namespace(self) -> str:
        """The kubeconfig's own namespace, for a request without one."""
        ...

    def fresh_name(self, stem: str) -> str:
        """The stem and a few random letters. The API server refuses the name in the rare case that it is taken."""
        ...

    async def plan(self, request: "GPURequest") -> "RentPlan":
        """The offer that the operator would choose now, by its own rules. Nothing is written or bought."""
        ...

    async def create(self, manifest: Mapping[str, Any]) -> None:
        """Raises ClusterError. A lost answer is looked up; the manifest is never sent twice."""
        ...

    async def delete(self, key: "ObjectKey", uid: str) -> None:
        """The operator terminates its machine then. A request that is already gone is a success."""
        ...

    async def gpu_nodes(self) -> "NodesReport":
        """Every Node with GPUs, and the machines that classes name. Raises ClusterError."""
        ...

    async def owned(self, name: str) -> "OwnedMachineState":
        """A machine you own, as it is now. Raises NotFound, which names the nearest ones; ClusterError."""
        ...

    async def standing(self, namespace: str) -> "ClusterStatus":
        """Every request that the user may read; only those in `namespace` if it is given. Raises ClusterError."""
        ...

    async def names(self, kind: str, namespace: str) -> list[tuple[str, str]]:
        """Of the requests, nodes, pods, pools, classes or owned machines there are, each with what it is.

        Raises ClusterError.
        """
        ...

    async def enquire(self, key: "ObjectKey") -> "Enquiry":
        """All that is known about one request. Raises NotFound, which names the nearest ones."""
        ...

    def follow(self, key: "ObjectKey") -> AsyncGenerator["Look", None]:
        """One look after another, until closed. A look reports when the cluster does not answer.

        An empty namespace is the kubeconfig's own. Raises NotFound if there never was such a request.
        """
        ...


class PlanActions(Protocol):
    """What would be bought for pods of one cluster."""

    @property
    def namespace(self) -> str:
        """The kubeconfig's own namespace, for objects of a manifest without one."""
        ...

    async def plan(self, question: "PlanQuestion") -> "PodPlan":
        """By the operator's own planner. Nothing is written or bought. Raises ClusterError."""
        ...

    async def consolidation(self, pool: "ObjectKey | None") -> "ConsolidationPlan":
        """What would be exchanged for cheaper machines, in one pool or in all. Raises NotFound, ClusterError."""
        ...

    async def pod(self, key: "ObjectKey") -> "PodEnquiry":
        """All that is known about one pod. Raises NotFound, which names the nearest ones."""
        ...

    async def node(self, name: str) -> "NodeEnquiry":
        """All that is known about one Node. Raises NotFound, which names the nearest ones."""
        ...

    async def pool(self, key: "ObjectKey") -> "PoolEnquiry":
        """All that is known about one pool. Raises NotFound, which names the nearest ones."""
        ...


class BudgetActions(Protocol):
    """The GPUWorkloadBudgets of one cluster. A name without a namespace is in the kubeconfig's own."""

    async def board(self, namespace: str = "") -> "BudgetBoard":
        """Every budget that the user may read; only those in `namespace` if it is given. Raises ClusterError."""
        ...

    async def enquire(self, key: "ObjectKey") -> "BudgetEnquiry":
        """All that is known about one budget. Raises NotFound, which names the nearest ones."""
        ...

    async def simulate(self, namespace: str, labels: Mapping[str, str], milli: int, lasts: int) -> "Simulation":
        """Whether such a pod would fit into each budget that would count it."""
        ...

    async def top_up(self, key: "ObjectKey", gpu_hours: str, until: datetime, reason: str) -> "BudgetLine":
        """Grant hours on top of the quota. Raises Conflict if the budget was changed meanwhile."""
        ...

    async def reset(self, key: "ObjectKey") -> "ResetAsked":
        """Ask the operator to start the account afresh."""
        ...

    async def is_reset(self, key: "ObjectKey", asked: "ResetAsked") -> bool:
        """Wait until the operator has done it; False: it has not within a while."""
        ...

    async def report(self, month: str) -> "BudgetReport":
        """What each budget used on each day of the month; an empty month is this one."""
        ...


class ClusterActions(Protocol):
    """One cluster, its objects, and the providers that it rents from."""

    @property
    def title(self) -> str:
        """The kubeconfig's context, else the cluster id."""
        ...

    async def inventory(self, *, ask: bool = True) -> "ClusterInventory":
        """The objects as the API server has them now; with `ask` also what every provider lists, asked first."""
        ...

    async def hold(self, hold: "Hold | None") -> None:
        """Write the hold onto the operator's Namespace; None removes it."""
        ...

    async def suspend(self, node_class: str, *, suspended: bool) -> None: ...

    async def trust(self, provider: str, moment: datetime) -> None:
        """Record on the operator's Namespace that contradictions of the provider before `moment` are accepted."""
        ...

    async def delete_request(self, request: "KubeObject[GPURequest]") -> None:
        """The operator terminates its machine then. A request that is already gone is a success."""
        ...

    async def delete_node(self, node: "Node") -> None: ...

    async def free_pod(self, pod: "Pod") -> None:
        """Remove the finalizer by which a budget holds it. Raises Conflict if it has changed since."""
        ...

    async def end(self, access: str, instance: "Instance", agreed: "Confirmed") -> None:
        """Ask the provider to terminate the machine. Raises CloudError; after any error the machine may still run."""
        ...

    async def way(self, target: "CheckedMachine") -> "ConnectivityReport":
        """How one machine can be reached, as far as the rights of this user show."""
        ...

    async def spend(self) -> "tuple[tuple[SpendEntry, ...], tuple[str, ...]]":
        """Every entry of the monthly records, and the keys of the entries that cannot be read."""
        ...

    async def now(self) -> datetime:
        """By the API server's clock; by this machine's if the server sends no date."""
        ...


class TalosActions(Protocol):
    """The machine configs of one cluster, and its join Secret."""

    @property
    def namespace(self) -> str:
        """The operator's."""
        ...

    async def node_class(self, name: str) -> "GPUNodeClass":
        """Raises NotFound, which names the nearest ones; ClusterError."""
        ...

    async def templates(
        self, node_class: str, version: "TalosVersion | None", backend: "Backend | None"
    ) -> "tuple[ClassTemplate, ...]":
        """The templates of a class. Raises NoMachineConfig, ClusterError."""
        ...

    async def spread(self, options: "ConfigChoice") -> "Spread":
        """What the config is made of. Raises NoMachineConfig if something needed is missing; ClusterError."""
        ...

    async def join_secret(self) -> "Stored | None":
        """None: the Secret does not exist."""
        ...

    async def write_join(self, manifest: Mapping[str, Any], before: "Stored | None") -> None:
        """Keys that are None are removed. Raises Conflict if the Secret has changed since `before`."""
        ...


class SetupActions(Protocol):
    """The first steps in one cluster: looking, trying keys, and creating what is missing."""

    @property
    def title(self) -> str:
        """The kubeconfig's context, else the address."""
        ...

    @property
    def namespace(self) -> str:
        """The operator's."""
        ...

    @property
    def home(self) -> str:
        """The kubeconfig's own namespace."""
        ...

    def terminal_keys(self) -> "Mapping[str, Secret]":
        """The API keys of this terminal, by provider."""
        ...

    async def survey(self, pool_namespace: str) -> "ClusterSurvey":
        """What is there, a pool in that namespace included. Raises ClusterError if the API server does not answer."""
        ...

    async def try_provider(self, provider: str, key: "Secret | None") -> "TriedProvider":
        """Read the account and the offers with this key. Nothing is spent."""
        ...

    async def try_mesh(self, answers: "SetupAnswers", secrets: "Mapping[str, Secret]") -> tuple[str, ...]:
        """What is wrong with the mesh's credentials; empty: nothing is known to be."""
        ...

    async def write(self, planned: "PlannedObject", survey: "ClusterSurvey") -> bool:
        """False: it was there already, and is left as it is. Raises ClusterError."""
        ...

    async def wait_for_kinds(self) -> None:
        """Until kinds that were just created are served."""
        ...


class CliServices(Protocol):
    """Everything that a command can ask. Each service is open for as long as its block lasts."""

    def kubernetes(self, kubeconfig: str = "", context: str = "") -> "AbstractAsyncContextManager[Cluster]":
        """The API server that a kubeconfig names."""
        ...

    def cluster(self, kubeconfig: str, context: str, namespace: str) -> AbstractAsyncContextManager[ClusterActions]:
        """`namespace`: the operator's; empty: the usual one."""
        ...

    def requests(self, kubeconfig: str, context: str) -> AbstractAsyncContextManager[RequestActions]: ...

    def plans(self, kubeconfig: str, context: str) -> AbstractAsyncContextManager[PlanActions]: ...

    def budgets(self, kubeconfig: str, context: str) -> AbstractAsyncContextManager[BudgetActions]: ...

    def talos(self, kubeconfig: str, context: str, namespace: str) -> AbstractAsyncContextManager[TalosActions]:
        """`namespace`: the operator's; empty: the usual one."""
        ...

    def setup(self, kubeconfig: str, context: str, namespace: str) -> AbstractAsyncContextManager[SetupActions]:
        """`namespace`: the operator's; empty: the usual one. Raises ClickException if there is no cluster."""
        ...

    def offers(
        self, providers: tuple[str, ...], kubeconfig: str, context: str, *, direct: bool
    ) -> AbstractAsyncContextManager[OfferActions]:
        """From the operator's own book where it may be read, else as `market`. `direct`: never from the operator."""
        ...

    def market(
        self, providers: tuple[str, ...], kubeconfig: str, context: str
    ) -> AbstractAsyncContextManager[MarketActions]:
        """Of the named providers, or of all. The kubeconfig of a demo cluster opens the demo's own market."""
        ...

    async def gpu_prices(self, gpu: str, kubeconfig: str, context: str) -> "Prices | None":
        """Per GPU-hour, of what is on sale now. None: no provider sells one."""
        ...

    async def surroundings(self, kubeconfig: str, context: str, namespace: str) -> "Surroundings":
        """What manifests are compared with: of the cluster that was named, else nothing."""
        ...

    async def check(self, providers: tuple[str, ...], kubeconfig: str, context: str, namespace: str) -> "CheckReport":
        """Of the named providers; else of those that the cluster's classes name; else of all."""
        ...

    def facts(self, provider: str) -> "CloudFacts":
        """What is known of a provider before the first call."""
        ...
