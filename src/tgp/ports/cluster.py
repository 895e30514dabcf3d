"""The cluster as controllers see it: indexed views to read, one writer to act.

Reading is from a local view and costs nothing; a view lags behind the API server. `View.caught_up` closes the gap
after our own writes: a controller that wrote an object sees that write, or something newer, in its next turn.

Writing is by patch, status write, apply or create, never by replacing a whole object: a newer CRD must not be
blinded by an older replica. Every write names what it expects to find (uid, resourceVersion) where it matters.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from tgp.api.resource import Resource
from tgp.core.model.key import Key

R_co = TypeVar("R_co", covariant=True)


class ClusterError(Exception):
    """The API server, or the way to it, said no. Subclasses are named by what to do next."""


class NotFound(ClusterError):
    """It is not there (any more): nothing to act on."""


class AlreadyExists(ClusterError):
    """Somebody, perhaps we ourselves a moment ago, made it: read it and go on."""


class Conflict(ClusterError):
    """It changed since we looked, or another manager owns the field: look again, decide again."""


class Refused(ClusterError):
    """The object is not valid, or admission said no: repeating will not help. The text names the field."""


class Forbidden(ClusterError):
    """Our role does not allow it: a condition for the administrator, not a retry loop."""


class Unauthenticated(ClusterError):
    """The credentials are not accepted, also after reading them again."""


class Expired(ClusterError):
    """The version asked for is compacted (410): list again."""


class ClusterBusy(ClusterError):
    """Nothing happened, or nothing that matters: ask the same again after `retry_after`."""

    def __init__(self, why: str, retry_after: timedelta | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


class Blocked(ClusterBusy):
    """An eviction that a PodDisruptionBudget holds back for now."""


class WriteUnknown(ClusterError):
    """A write left and no answer came back: it may have happened. Read before writing again."""


class View(Protocol[R_co]):
    """A local, indexed, read-only copy of one kind. Iteration order is not part of the contract: sort to decide."""

    def get(self, key: Key) -> R_co | None: ...

    def values(self) -> Iterable[R_co]: ...

    def having(self, index: str, value: str) -> Iterable[R_co]:
        """Records filed under `value` in the named index; an unknown index is an AssertionError, ours."""
        ...

    def __len__(self) -> int: ...

    async def caught_up(self, key: Key) -> None:
        """Wait until this view shows our own last write to `key`, or something newer. Bounded; raises ClusterBusy."""
        ...


@dataclass(frozen=True, slots=True)
class Written:
    """What the API server holds after a write."""

    resource_version: str
    uid: str
    generation: int
    changed: bool  # False: nothing was sent, or the server found nothing to change


class Cluster(Protocol):
    """The writer. Each method is at most one changing request; none retries what may have happened."""

    async def read(self, resource: Resource, key: Key) -> dict[str, Any]:
        """The object as the API server has it now (a quorum read, not the view)."""
        ...

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Written: ...

    async def patch(
        self, resource: Resource, key: Key, change: Mapping[str, Any], *, resource_version: str = "", uid: str = ""
    ) -> Written:
        """A JSON merge patch; `resource_version` and `uid` make it conditional (Conflict if they differ)."""
        ...

    async def apply(self, resource: Resource, manifest: Mapping[str, Any], *, force: bool = False) -> Written:
        """Server-side apply under our field manager."""
        ...

    async def write_status(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str,
        seen: Mapping[str, Any],
        status: Mapping[str, Any],
        resource_version: str = "",
    ) -> Written:
        """Make `.status` go from `seen` to `status`: a merge patch of the difference, and nothing at all when equal.

        Lists are replaced whole, so whoever changes one says with `resource_version` which list was seen (Conflict).
        """
        ...

    async def delete(self, resource: Resource, key: Key, *, uid: str = "", resource_version: str = "") -> None:
        """Ask for its end, under those preconditions; an object that is already gone is a success."""
        ...

    async def evict(self, pod: Key, *, uid: str, grace: timedelta | None = None) -> None:
        """The Eviction API: PodDisruptionBudgets hold (Blocked). None: the pod's own grace. Gone is a success."""
        ...

    async def approve(
        self, name: str, *, uid: str, resource_version: str, approved: bool, reason: str, message: str
    ) -> Written:
        """Approve a CertificateSigningRequest, or deny it (`approved` False): for good, neither can be taken back.

        The version says that it was seen without a verdict (Conflict if it has changed since; Refused if another
        verdict stands there).
        """
        ...

    async def version(self) -> str:
        """The API server's release, as it says itself: v1.36.3."""
        ...
