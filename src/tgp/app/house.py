"""What the command line's front rooms may ask of the house: a cluster to talk to, made only when it is asked for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tgp.ports.cluster import Cluster


class House:
    @asynccontextmanager
    async def cluster(self, kubeconfig: str = "", context: str = "") -> AsyncIterator[Cluster]:
        """The cluster a kubeconfig points at, for as long as the block lasts."""
        from tgp.app.connect import connect

        async with connect(kubeconfig, context) as connection:
            yield connection.cluster
