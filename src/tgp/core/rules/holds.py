"""What a machine needs to be given back: the Secrets with its keys, and its class. While it may live, they stay.

A finalizer of ours holds them. Whose deletion was asked for meanwhile waits; everybody else's finalizers are theirs.
"""

from collections.abc import Iterable

from tgp.api.request import Attempt, GPURequest
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.till import till_of_attempt
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


def secrets_needed(record: Typed[GPURequest]) -> frozenset[str]:
    """Names of the Secrets that finding and ending a request's machine takes; none: it has no machine."""
    attempt = open_attempt(attempts_of(record))
    return secrets_of(attempt) if attempt is not None else frozenset()


def secrets_of(attempt: Attempt) -> frozenset[str]:
    till = till_of_attempt(attempt)
    if till is None:
        return frozenset()
    machines = till.settings.machines
    refs = [ref for each in machines for ref in (each.headers_secret_ref, each.signing_secret_ref) if ref is not None]
    return frozenset({till.secret, *(ref.name for ref in refs)} - {""})


def secrets_named(record: Typed[GPURequest] | None) -> frozenset[str]:
    """By any attempt, also one that is over: its Secret may have to be let go."""
    attempts = attempts_of(record) if record is not None else ()
    return frozenset[str]().union(*(secrets_of(attempt) for attempt in attempts))


def edited(finalizers: Iterable[str], *, held: bool) -> list[str] | None:
    """The list with our finalizer put in or taken out, the others as they stand; None: it is right already."""
    listed = list(finalizers)
    if (IN_USE in listed) == held:
        return None
    return [*listed, IN_USE] if held else [each for each in listed if each != IN_USE]
