"""What the hall hands to the commands that look after money: one cluster, its objects, and its providers."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol, TypeVar

import click

from tgp.api.request import GPURequest
from tgp.core.model.hold import Hold
from tgp.core.model.instance import Instance
from tgp.core.model.node import Node
from tgp.core.model.spend import Entry
from tgp.core.model.survey import Survey
from tgp.core.model.typed import Typed
from tgp.core.rules.mesh.way import Target, Way
from tgp.surfaces.cli.confirming import Confirmed

F = TypeVar("F", bound=Callable[..., Any])


class Premises(Protocol):
    @property
    def title(self) -> str:
        """How people call this cluster: the kubeconfig's context, else its id."""
        ...

    async def survey(self, *, ask: bool = True) -> Survey:
        """The objects as the API server has them now; with `ask`, what every provider lists, asked before them."""
        ...

    async def hold(self, hold: Hold | None) -> None:
        """Write the brake onto the operator's Namespace, or take it off."""
        ...

    async def suspend(self, node_class: str, *, suspended: bool) -> None: ...

    async def trust(self, provider: str, moment: datetime) -> None:
        """Write onto the operator's Namespace that what the provider said until then is forgiven."""
        ...

    async def delete_request(self, request: Typed[GPURequest]) -> None:
        """Ask the operator to give its machine back. Gone already is a success."""
        ...

    async def delete_node(self, node: Node) -> None: ...

    async def end(self, till: str, instance: Instance, agreed: Confirmed) -> None:
        """Ask the provider itself for its end. Raises CloudError; whatever it raises, the machine may cost on."""
        ...

    async def way(self, target: Target) -> Way:
        """What can be seen of the way to one machine, with the rights of whoever asks."""
        ...

    async def spend(self) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
        """Every entry of the monthly records, and the keys of those that nobody can read."""
        ...

    async def now(self) -> datetime:
        """By the API server's clock, where it tells."""
        ...


class Hallway(Protocol):
    def premises(self, kubeconfig: str, context: str, namespace: str) -> AbstractAsyncContextManager[Premises]: ...


def cluster_options(command: F) -> F:
    """How every one of these commands is told which cluster is meant."""
    for option in (
        click.option("--namespace", default="", metavar="NAME", help="Where the operator lives.  [tgp-system]"),
        click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one."),
        click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config."),
    ):
        command = option(command)
    return command
