"""What the command line's front rooms may ask of the house: a cluster, a market; made only when they are asked for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from tgp.ports.cluster import Cluster

if TYPE_CHECKING:  # these bring the clients of eight providers along, and `tgp --help` waits for nobody
    from tgp.app.premises import Premises
    from tgp.app.requests_desk import RequestsDesk
    from tgp.app.shop import Shop
    from tgp.app.talos_desk import TalosDesk
    from tgp.ports.cloud import CloudFacts
    from tgp.surfaces.cli.breakeven import Prices
    from tgp.surfaces.cli.check import Report


class NoWay(click.ClickException):
    """There is no cluster to be talked to: the kubeconfig is missing or wrong, and the text says where."""

    exit_code = 2  # 1 is an answer: `tgp crds diff` found differences


class House:
    def __init__(self, world: str = "") -> None:
        self._world = world  # the address of a pretend one; empty: the real one

    @asynccontextmanager
    async def cluster(self, kubeconfig: str = "", context: str = "") -> AsyncIterator[Cluster]:
        """The cluster a kubeconfig points at, for as long as the block lasts."""
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.app.connect import connect

        try:
            async with connect(kubeconfig, context) as connection:
                yield connection.cluster
        except ConfigInvalid as error:
            raise NoWay(str(error)) from error

    @asynccontextmanager
    async def premises(self, kubeconfig: str, context: str, namespace: str) -> "AsyncIterator[Premises]":
        """A cluster, its objects and the providers it rents at, for as long as the block lasts."""
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.app.premises import premises
        from tgp.ports.cluster import ClusterError
        from tgp.ports.http import HttpError, Unreadable

        try:
            async with premises(kubeconfig, context, namespace) as found:
                yield found
        except (ConfigInvalid, ClusterError, HttpError, Unreadable) as error:
            raise NoWay(str(error)) from error

    def facts(self, provider: str) -> "CloudFacts":
        """What is known of a provider before it is asked anything."""
        from tgp.app.clouds import facts_of

        return facts_of(provider)

    @asynccontextmanager
    async def talos(self, kubeconfig: str, context: str, namespace: str) -> "AsyncIterator[TalosDesk]":
        """A cluster as far as machine configs are concerned, for as long as the block lasts."""
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.app.talos_desk import talos_desk
        from tgp.ports.cluster import ClusterError
        from tgp.ports.http import HttpError, Unreadable

        try:
            async with talos_desk(kubeconfig, context, namespace) as found:
                yield found
        except (ConfigInvalid, ClusterError, HttpError, Unreadable) as error:
            raise NoWay(str(error)) from error

    @asynccontextmanager
    async def requests(self, kubeconfig: str = "", context: str = "") -> "AsyncIterator[RequestsDesk]":
        """A cluster's requests, for as long as the block lasts."""
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.app.connect import connect
        from tgp.app.requests_desk import RequestsDesk

        try:
            async with connect(kubeconfig, context) as connection:
                yield RequestsDesk(connection, partial(self.market, kubeconfig=kubeconfig, context=context))
        except ConfigInvalid as error:
            raise NoWay(str(error)) from error

    @asynccontextmanager
    async def market(
        self, providers: tuple[str, ...] = (), kubeconfig: str = "", context: str = ""
    ) -> "AsyncIterator[Shop]":
        """The market with the keys at hand, or a pretend cluster's own, for as long as the block lasts."""
        from tgp.adapters.clock import SystemClock
        from tgp.adapters.entropy import SystemEntropy
        from tgp.adapters.kube.config_field import ConfigInvalid
        from tgp.adapters.resolver import SystemResolver
        from tgp.app import counters
        from tgp.app.clouds import AllClouds
        from tgp.app.dialling import switchboard
        from tgp.app.pretend import pretend_world
        from tgp.app.shop import A_PERSONS, Shop

        clock = SystemClock()
        async with switchboard(clock) as dial:
            try:
                world = self._world or await pretend_world(kubeconfig, context)
                found = await counters.of_world(world, providers, dial) if world else counters.of_environment(providers)
            except ConfigInvalid as error:
                raise NoWay(str(error)) from error
            except (counters.NoSuchProvider, counters.NoWorld) as error:
                raise click.UsageError(str(error)) from error
            yield Shop(
                tuple(found), AllClouds(dial, clock, SystemEntropy(), SystemResolver(), patience=A_PERSONS), clock
            )

    async def gpu_prices(self, gpu: str, kubeconfig: str = "", context: str = "") -> "Prices | None":
        async with self.market((), kubeconfig, context) as shop:
            found = await shop.gpu_prices(gpu)
            if found is None and not shop.anybody_told:
                raise click.ClickException(
                    "no provider told its offers; see `tgp check`, or give a price: --price 0.40"
                )
            return found

    async def check(self, providers: tuple[str, ...], kubeconfig: str, context: str, namespace: str) -> "Report":
        """The cluster's own keys where there is a cluster; else those of this terminal."""
        from tgp.app.preflight import Preflight, preflight
        from tgp.surfaces.cli.check import Report

        seen = Preflight()
        if not self._world or kubeconfig:  # a pretend market has nothing to do with whatever cluster this machine knows
            seen = await preflight(kubeconfig, context, namespace, expected=bool(kubeconfig or context))
        if seen.rows and not providers:
            return Report(seen.rows, seen.findings)
        async with self.market(providers, kubeconfig, context) as shop:
            rows = await shop.check(by_name=bool(providers))
        return Report(rows, seen.findings)
