"""What to do after an error of the cluster: the last line of the message, unless it says so itself."""

import re
from collections.abc import Sequence

import click

from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.ports.cluster import ClusterError, Forbidden, NotFound, Unauthenticated
from tgp.ports.http import HttpError

CLUSTER_FLAGS = ("--kubeconfig", "--context")
NO_CONFIG = "export KUBECONFIG=FILE, or name it: --kubeconfig FILE"
REACH, RIGHTS, LOGIN = "kubectl cluster-info", "kubectl auth can-i --list", "kubectl get namespaces"
_SAYS_SO = re.compile(r"\b(tgp|kubectl|helm|talosctl|export|run|see|try) \S|did you mean|--[a-z]", re.IGNORECASE)


class NotAsked(click.ClickException):
    """There is no answer, so neither yes nor no."""

    exit_code = 2


def ended(message: str, cause: BaseException | None, ran: Sequence[str]) -> str:
    """The message with its next step. `ran`: the words of the command line."""
    if cause is None or _SAYS_SO.search(message):
        return message
    if isinstance(cause, ClusterError | HttpError):
        return f"{message}\nnext: {_for_cluster(_step(cause), ran)}"
    return f"{message}\nnext: {NO_CONFIG}" if isinstance(cause, ConfigInvalid) else message


def with_next_step(error: click.ClickException, ran: Sequence[str]) -> click.ClickException:
    """With the same exit code. Of wrong use click itself says where help is."""
    message = ended(error.message, error.__cause__, ran)
    if isinstance(error, click.UsageError) or message == error.message:
        return error
    return (NotAsked if error.exit_code == NotAsked.exit_code else click.ClickException)(message)


def _step(cause: BaseException) -> str:
    match cause:
        case Forbidden():
            return RIGHTS
        case Unauthenticated():
            return LOGIN
        case NotFound():
            return "tgp check"
        case _:
            return REACH


def _for_cluster(command: str, ran: Sequence[str]) -> str:
    """With the flags that name the cluster."""
    given = [
        f"{name} {value}" for name, value in zip(ran, [*ran[1:], ""], strict=True) if name in CLUSTER_FLAGS and value
    ]
    given += [word for word in ran if word.startswith(tuple(f"{name}=" for name in CLUSTER_FLAGS))]
    return " ".join([command, *given])
