"""Options that several commands share: which cluster, which class, and how to print."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tgp.interfaces.cli.completion import live_names
from tgp.interfaces.cli.output import Formats

F = TypeVar("F", bound=Callable[..., Any])

document_output = click.option(
    "-o", "--output", "how", type=Formats(["table", "json", "yaml"]), default="table", show_default=True
)
_operator_namespace = click.option(
    "--operator-namespace",
    "namespace",
    default="",
    metavar="NAME",
    help="Where the operator runs. Default: tgp-system.",
)


def kubeconfig_options(command: F) -> F:
    """Add --kubeconfig and --context."""
    for option in (
        click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one."),
        click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config."),
    ):
        command = option(command)
    return command


def cluster_options(command: F) -> F:
    """Add --kubeconfig, --context and --operator-namespace."""
    return kubeconfig_options(_operator_namespace(command))


def class_option(about: str) -> Callable[[F], F]:
    """Add --class, as `node_class`."""
    return click.option(
        "--class", "node_class", default="", metavar="NAME", shell_complete=live_names("class", bare=True), help=about
    )
