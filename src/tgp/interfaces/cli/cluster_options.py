"""The options that select a cluster."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(command: F) -> F:
    """Add --kubeconfig, --context and --namespace."""
    for option in (
        click.option("--namespace", default="", metavar="NAME", help="The operator's namespace.  [tgp-system]"),
        click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one."),
        click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config."),
    ):
        command = option(command)
    return command
