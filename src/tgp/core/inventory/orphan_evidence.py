"""The evidence that many machines at once belong to no request: with it the halt of the orphan collector ends.

Unexpectedly many orphans are either real (a small account whose requests were removed by force, a restored etcd) or a
wrong view of the requests. The evidence: each request is read by name, the answer comes from the same API server, and
its history did not go back; twice, ten minutes apart.
"""

from collections.abc import Iterable, Mapping

import msgspec

PROVEN_AFTER = 600.0  # seconds between the two checks
ENDED_EVERY = 60.0  # seconds between two terminations while there are so many orphans


class ServerState(msgspec.Struct, frozen=True):
    """Which API server answered, and how far its history has come."""

    uid: str  # of the kube-system namespace
    revision: int  # of a list begun after the read


class Check(msgspec.Struct, frozen=True):
    """A machine's request was read at this moment (Clock.boottime), and does not exist."""

    at: float
    server: ServerState


def checked(
    held: Mapping[str, Check], absent: Iterable[str], server: ServerState | None, at: float
) -> dict[str, Check]:
    """The first check of each machine, after one more check. `absent`: machines whose request does not exist now.

    An API server that could not be asked, another one, or one whose history went back: the evidence begins again.
    """
    if server is None:
        return {}
    same = {name: first for name, first in held.items() if follows(first.server, server)}
    return {name: same.get(name, Check(at, server)) for name in absent}


def follows(before: ServerState, after: ServerState) -> bool:
    return before.uid == after.uid and before.revision <= after.revision


def proven(held: Mapping[str, Check], at: float) -> list[str]:
    """Machines whose first check is old enough, the longest known first."""
    old = [(first.at, name) for name, first in held.items() if at - first.at >= PROVEN_AFTER]
    return [name for _, name in sorted(old)]
