"""The options that select a cluster."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(command: F) -> F:
    """Add --kubeconfig, --context and --operator-namespace."""
    for option in (
        click.option(
            "--operator-namespace",
            "namespace",
            default="",
            metavar="NAME",
            help="Where the operator runs. Default: tgp-system.",
        ),
        click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one."),
        click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config."),
    ):
        command = option(command)
    return command
