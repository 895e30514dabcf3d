"""What the command line's front rooms may ask of the house: a cluster to talk to, made only when it is asked for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from tgp.ports.cluster import Cluster


class NoWay(click.ClickException):
    """There is no cluster to be talked to: the kubeconfig is missing or wrong, and the text says where."""

    exit_code = 2  # 1 is an answer: `tgp crds diff` found differences


class House:
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
