"""What a machine needs for its termination: the Secrets with its API keys, and its class. While it may run, they stay.

Our finalizer protects them: a deletion requested meanwhile waits. Finalizers of other controllers are not touched.
"""

from collections.abc import Iterable
from datetime import timedelta

from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.kube_object import KubeObject

IN_USE = "tgp.io/in-use"
LET_GO_AFTER = timedelta(minutes=5)  # since a purchase asked for it: a cache that lags by more is not used


def class_needed(record: KubeObject[GPURequest]) -> str:
    """The class that a request's machine was reserved by; empty: it has no machine.

    A restored copy needs it as well: the machine in its status may run, and a removed finalizer cannot be undone.
    """
    if open_attempt(attempts_of(record)) is None:
        return ""
    if record.value is not None:
        return record.value.status.node_class or ""
    said = record.status.get("nodeClass")
    return said if isinstance(said, str) else ""


def accounts_named(record: KubeObject[GPURequest] | None) -> frozenset[str]:
    """By any attempt, also one that is over: the Secret of its account may have to be released."""
    attempts = attempts_of(record) if record is not None else ()
    return frozenset(attempt.account for attempt in attempts if attempt.account)


def account_needed(record: KubeObject[GPURequest]) -> str:
    """The id of the account where a request may have a machine; empty: it has none, or names no account."""
    attempt = open_attempt(attempts_of(record))
    return (attempt.account or "") if attempt is not None else ""


def edited(finalizers: Iterable[str], *, held: bool) -> list[str] | None:
    """The list with our finalizer added or removed, the others unchanged; None: nothing to change."""
    listed = list(finalizers)
    if (IN_USE in listed) == held:
        return None
    return [*listed, IN_USE] if held else [each for each in listed if each != IN_USE]
