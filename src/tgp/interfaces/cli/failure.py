"""What to do after an error of the cluster: the last line of the message, unless it says so itself."""

import re
from collections.abc import Sequence

import click

from tgp.core.model.conditions import begun
from tgp.ports.cluster import ClusterError
from tgp.ports.http import HttpError
from tgp.services.cluster_failure import explained, first_step, names_no_cluster

CLUSTER_FLAGS = ("--kubeconfig", "--context")
NO_CONFIG = "export KUBECONFIG=FILE, or name it: --kubeconfig FILE"
GONE = "; if the cluster is gone: --cluster-id ID"  # tgp doctor alone works without one
_SAYS_SO = re.compile(r"\b(tgp|kubectl|helm|talosctl|export|run|see|try) \S|did you mean|--[a-z]", re.IGNORECASE)


def ended(message: str, cause: BaseException | None, ran: Sequence[str]) -> str:
    """The message with its next step. `ran`: the words of the command line."""
    if cause is None or _SAYS_SO.search(message):
        return message
    if isinstance(cause, ClusterError | HttpError):
        return f"{explained(message, cause)}\nnext: {for_cluster(first_step(cause), ran)}"
    if not names_no_cluster(cause):
        return message
    return f"{message}\nnext: {NO_CONFIG}{GONE if ran[:1] == ('doctor',) else ''}"


def with_next_step(error: click.ClickException, ran: Sequence[str]) -> click.ClickException:
    """A sentence with its next step. Of wrong use click itself says where help is, and writes most beginnings."""
    if isinstance(error, click.UsageError):
        return click.UsageError(_begun(error.message), error.ctx) if type(error) is click.UsageError else error
    message = ended(_begun(error.message), error.__cause__, ran)
    return error if message == error.message else _reworded(message, error.exit_code)


def _reworded(message: str, code: int) -> click.ClickException:
    """With the same exit code as before, which click keeps in the class."""

    class Reworded(click.ClickException):
        exit_code = code

    return Reworded(message)


def _begun(message: str) -> str:
    """With a capital letter first, unless the first word is the name of a file or a field."""
    first = message.split(maxsplit=1)[0] if message.strip() else ""
    return message if first.endswith(":") else begun(message)


def for_cluster(command: str, ran: Sequence[str]) -> str:
    """With the flags that name the cluster."""
    given = [
        f"{name} {value}" for name, value in zip(ran, [*ran[1:], ""], strict=True) if name in CLUSTER_FLAGS and value
    ]
    given += [word for word in ran if word.startswith(tuple(f"{name}=" for name in CLUSTER_FLAGS))]
    return " ".join([command, *given])
