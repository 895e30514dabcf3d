"""What a machine needs to be given back: the Secrets with its keys, and its class. While it may live, they stay.

A finalizer of ours holds them. Whose deletion was asked for meanwhile waits; everybody else's finalizers are theirs.
"""

from collections.abc import Iterable

from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.typed import Typed

IN_USE = "tgp.io/in-use"


def class_needed(record: Typed[GPURequest]) -> str:
    """The class that a request's machine was reserved by; empty: it has no machine.

    A restored copy needs it as well: what its status names may live, and letting go cannot be undone.
    """
    if open_attempt(attempts_of(record)) is None:
        return ""
    if record.object is not None:
        return record.object.status.node_class or ""
    said = record.status.get("nodeClass")
    return said if isinstance(said, str) else ""


def accounts_named(record: Typed[GPURequest] | None) -> frozenset[str]:
    """By any attempt, also one that is over: the Secret of its account may have to be let go."""
    attempts = attempts_of(record) if record is not None else ()
    return frozenset(attempt.account for attempt in attempts if attempt.account)


def account_needed(record: Typed[GPURequest]) -> str:
    """The id of the account where a request may have a machine; empty: it has none, or does not say where."""
    attempt = open_attempt(attempts_of(record))
    return (attempt.account or "") if attempt is not None else ""


def edited(finalizers: Iterable[str], *, held: bool) -> list[str] | None:
    """The list with our finalizer put in or taken out, the others as they stand; None: it is right already."""
    listed = list(finalizers)
    if (IN_USE in listed) == held:
        return None
    return [*listed, IN_USE] if held else [each for each in listed if each != IN_USE]
