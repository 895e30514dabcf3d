"""`CliServices` for the command line: connections and services, made when a command opens them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from tgp.ports.cluster import Cluster

if TYPE_CHECKING:  # these load the clients of eight providers, and `tgp --help` must stay fast
    from tgp.core.model.provider_facts import CloudFacts
    from tgp.core.reports.manifest_verdict import Surroundings
    from tgp.interfaces.cli.context import OfferActions
    from tgp.services.budgets import BudgetService
    from tgp.services.cluster import ClusterService
    from tgp.services.market import MarketService
    from tgp.services.market_answers import Prices
    from tgp.services.plans import PlanService
    from tgp.services.preflight_answers import CheckReport
    from tgp.services.requests import RequestService
    from tgp.services.setup import SetupService
    from tgp.services.talos import TalosService


class NotConnected(click.ClickException):
    """No cluster can be reached: the kubeconfig is missing or wrong, and the text says where."""

    exit_code = 2  # 1 is an answer: `tgp crds diff` found differences


class CliContext:
    def __init__(self, world: str = "") -> None:
        self._world = world  # the URL of a simulated market; empty: the real providers

    @asynccontextmanager
    async def kubernetes(self, kubeconfig: str = "", context: str = "") -> AsyncIterator[Cluster]:
        """The API server that a kubeconfig names, for as long as the block lasts."""
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.adapters.kube.connect import connect

        try:
            async with connect(kubeconfig, context) as connection:
                yield connection.cluster
        except ConfigInvalid as error:
            raise NotConnected(str(error)) from error

    @asynccontextmanager
    async def cluster(self, kubeconfig: str, context: str, namespace: str) -> "AsyncIterator[ClusterService]":
        """A cluster, its objects and the providers it rents from, for as long as the block lasts."""
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.ports.cluster import ClusterError
        from tgp.ports.http import HttpError, UnreadableReply
        from tgp.services.cluster import cluster_service

        try:
            async with cluster_service(kubeconfig, context, namespace) as found:
                yield found
        except (ConfigInvalid, ClusterError, HttpError, UnreadableReply) as error:
            raise NotConnected(str(error)) from error

    def facts(self, provider: str) -> "CloudFacts":
        """What is known of a provider before the first call."""
        from tgp.adapters.clouds.registry import facts_of

        return facts_of(provider)

    @asynccontextmanager
    async def talos(self, kubeconfig: str, context: str, namespace: str) -> "AsyncIterator[TalosService]":
        """The machine configs of a cluster, for as long as the block lasts."""
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.ports.cluster import ClusterError
        from tgp.ports.http import HttpError, UnreadableReply
        from tgp.services.talos import talos_service

        try:
            async with talos_service(kubeconfig, context, namespace) as found:
                yield found
        except (ConfigInvalid, ClusterError, HttpError, UnreadableReply) as error:
            raise NotConnected(str(error)) from error

    @asynccontextmanager
    async def setup(self, kubeconfig: str, context: str, namespace: str) -> "AsyncIterator[SetupService]":
        """The first steps in a cluster, for as long as the block lasts."""
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.ports.cluster import ClusterError
        from tgp.ports.http import HttpError, UnreadableReply
        from tgp.services.setup import setup_service

        try:
            async with setup_service(kubeconfig, context, namespace) as found:
                yield found
        except (ConfigInvalid, ClusterError, HttpError, UnreadableReply) as error:
            raise NotConnected(str(error)) from error

    @asynccontextmanager
    async def requests(self, kubeconfig: str = "", context: str = "") -> "AsyncIterator[RequestService]":
        """A cluster's requests, for as long as the block lasts."""
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.adapters.kube.connect import connect
        from tgp.services.requests import RequestService

        try:
            async with connect(kubeconfig, context) as connection:
                yield RequestService(connection, partial(self.market, kubeconfig=kubeconfig, context=context))
        except ConfigInvalid as error:
            raise NotConnected(str(error)) from error

    @asynccontextmanager
    async def plans(self, kubeconfig: str = "", context: str = "") -> "AsyncIterator[PlanService]":
        """Plans for a cluster's pods, for as long as the block lasts."""
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.adapters.kube.connect import connect
        from tgp.services.plans import PlanService

        try:
            async with connect(kubeconfig, context) as connection:
                yield PlanService(connection, partial(self.market, kubeconfig=kubeconfig, context=context))
        except ConfigInvalid as error:
            raise NotConnected(str(error)) from error

    @asynccontextmanager
    async def budgets(self, kubeconfig: str = "", context: str = "") -> "AsyncIterator[BudgetService]":
        """A cluster's budgets, for as long as the block lasts."""
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.adapters.kube.connect import connect
        from tgp.services.budgets import BudgetService
        from tgp.services.cluster_reads import ClusterReads

        try:
            async with connect(kubeconfig, context) as connection:
                yield BudgetService(ClusterReads(connection))
        except ConfigInvalid as error:
            raise NotConnected(str(error)) from error

    @asynccontextmanager
    async def offers(
        self, providers: tuple[str, ...], kubeconfig: str, context: str, *, direct: bool
    ) -> "AsyncIterator[OfferActions]":
        """From the operator's own book where it may be read, else as `market`. `direct`: never from the operator."""
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.adapters.kube.connect import connect
        from tgp.interfaces.cli.operator_offers import OperatorOffers
        from tgp.services.demo_market import is_demo
        from tgp.services.operator_api import OperatorApi

        async with self.market(providers, kubeconfig, context) as market, AsyncExitStack() as connected:
            found: OfferActions = market
            if not direct and not self._world:
                with suppress(ConfigInvalid):  # `market` has refused a file that was named and is wrong
                    cluster = await connected.enter_async_context(connect(kubeconfig, context))
                    if not await is_demo(cluster):  # a demo's market is asked itself
                        found = OperatorOffers(OperatorApi(cluster.http, cluster.namespace), market)
            yield found

    @asynccontextmanager
    async def market(
        self, providers: tuple[str, ...] = (), kubeconfig: str = "", context: str = ""
    ) -> "AsyncIterator[MarketService]":
        """The market, by the API keys of this terminal; for a demo cluster the demo's own market."""
        from tgp.adapters.clock import SystemClock
        from tgp.adapters.clouds.registry import AllClouds
        from tgp.adapters.entropy import SystemEntropy
        from tgp.adapters.http.client_pool import http_client_pool
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.adapters.resolver import SystemResolver
        from tgp.services import credentials
        from tgp.services.demo_market import demo_market_url
        from tgp.services.market import INTERACTIVE_RETRIES, MarketService

        clock = SystemClock()
        async with http_client_pool(clock) as dial:
            try:
                world = self._world or await demo_market_url(kubeconfig, context)
                found = (
                    await credentials.of_world(world, providers, dial)
                    if world
                    else credentials.of_environment(providers)
                )
            except ConfigInvalid as error:
                raise NotConnected(str(error)) from error
            except (credentials.NoSuchProvider, credentials.NoWorld) as error:
                raise click.UsageError(str(error)) from error
            yield MarketService(
                tuple(found),
                AllClouds(dial, clock, SystemEntropy(), SystemResolver(), retry_policy=INTERACTIVE_RETRIES),
                clock,
            )

    async def gpu_prices(self, gpu: str, kubeconfig: str = "", context: str = "") -> "Prices | None":
        async with self.market((), kubeconfig, context) as market:
            found = await market.gpu_prices(gpu)
            if found is None and not market.any_source_known:
                raise click.ClickException(
                    "No provider answered with offers; see `tgp check`, or give a price: --price 0.40."
                )
            return found

    async def surroundings(self, kubeconfig: str, context: str, namespace: str) -> "Surroundings":
        """What manifests are compared with: of the cluster that was named, else nothing."""
        from tgp.core.reports.manifest_verdict import Surroundings

        if not (kubeconfig or context):
            return Surroundings(operators=namespace or "tgp-system")
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.ports.cluster import ClusterError
        from tgp.ports.http import HttpError, UnreadableReply
        from tgp.services.manifest_surroundings import surroundings

        try:
            return await surroundings(kubeconfig, context, namespace)
        except (ConfigInvalid, ClusterError, HttpError, UnreadableReply) as error:
            raise NotConnected(str(error)) from error

    async def check(self, providers: tuple[str, ...], kubeconfig: str, context: str, namespace: str) -> "CheckReport":
        """With the API keys of the cluster's Secrets if a cluster can be reached; else with those of this terminal."""
        from tgp.services.preflight import Preflight, preflight
        from tgp.services.preflight_answers import CheckReport

        seen = Preflight()
        if not self._world or kubeconfig:  # a simulated market is not related to the cluster of $KUBECONFIG
            seen = await preflight(kubeconfig, context, namespace, expected=bool(kubeconfig or context))
        if seen.rows and not providers:
            return CheckReport(seen.rows, seen.findings)
        async with self.market(providers, kubeconfig, context) as market:
            rows = await market.check(by_name=bool(providers))
        return CheckReport(rows, seen.findings)
