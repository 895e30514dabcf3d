"""The cluster as controllers see it: indexed views to read, one writer to act.

Reading is from a local view and costs nothing; a view lags behind the API server. `View.wait_for_own_write` closes the
gap after our own writes: a controller that wrote an object sees that write, or something newer, in its next reconcile.

Writing is by patch, status write, apply or create, never by replacing a whole object: a newer CRD must not be
truncated by an older replica. Every write names what it expects to find (uid, resourceVersion) where it matters.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import msgspec

from tgp.api.resource import Resource
from tgp.core.model.object_key import ObjectKey

R_co = TypeVar("R_co", covariant=True)


class ClusterError(Exception):
    """The API server, or the connection to it, failed the call. Subclasses are named by what to do next."""


class NotFound(ClusterError):
    """The object does not exist (any more): nothing to act on."""


class KindsMissing(NotFound):
    """The API server does not serve tgp's kinds: install the CRDs."""


class AlreadyExists(ClusterError):
    """Another client, or an earlier call of ours, created it: read it and continue."""


class Conflict(ClusterError):
    """The object changed since we read it, or another manager owns the field: read again, decide again."""


class Refused(ClusterError):
    """The object is not valid, or admission refused it: repeating will not help. The text names the field."""


class Forbidden(ClusterError):
    """Our role does not allow it: a condition for the administrator, not a retry loop."""


class Unauthenticated(ClusterError):
    """The credentials are not accepted, also after reading them again."""


class Expired(ClusterError):
    """The version asked for is compacted (410): list again."""


class ClusterBusy(ClusterError):
    """Nothing happened, or nothing that matters: try the same again after `retry_after`."""

    def __init__(self, why: str, retry_after: timedelta | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


class Blocked(ClusterBusy):
    """An eviction that a PodDisruptionBudget blocks for now."""


class WriteUnknown(ClusterError):
    """A write was sent and no answer came back: it may have happened. Read before writing again."""


class View(Protocol[R_co]):
    """A local, indexed, read-only copy of one kind. Iteration order is not part of the contract: sort to decide."""

    def get(self, key: ObjectKey) -> R_co | None: ...

    def values(self) -> Iterable[R_co]: ...

    def by_index(self, index: str, value: str) -> Iterable[R_co]:
        """Records under `value` in the named index; an unknown index is an AssertionError."""
        ...

    def __len__(self) -> int: ...

    async def wait_for_own_write(self, key: ObjectKey) -> None:
        """Wait until this view shows our own last write to `key`, or something newer. Bounded; raises ClusterBusy."""
        ...


class Written(msgspec.Struct, frozen=True):
    """What the API server holds after a write."""

    resource_version: str
    uid: str
    generation: int
    changed: bool  # False: nothing was sent, or the server found nothing to change


class Cluster(Protocol):
    """The writer. Each method is at most one changing request; none retries what may have happened."""

    async def read(self, resource: Resource, key: ObjectKey) -> dict[str, Any]:
        """The object as the API server has it now (a quorum read, not the cache)."""
        ...

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Written: ...

    async def patch(
        self,
        resource: Resource,
        key: ObjectKey,
        change: Mapping[str, Any],
        *,
        resource_version: str = "",
        uid: str = "",
    ) -> Written:
        """A JSON merge patch; `resource_version` and `uid` make it conditional (Conflict if they differ)."""
        ...

    async def apply(self, resource: Resource, manifest: Mapping[str, Any], *, force: bool = False) -> Written:
        """Server-side apply under our field manager."""
        ...

    async def write_status(
        self,
        resource: Resource,
        key: ObjectKey,
        *,
        uid: str,
        seen: Mapping[str, Any],
        status: Mapping[str, Any],
        resource_version: str = "",
    ) -> Written:
        """Make `.status` go from `seen` to `status`: a merge patch of the difference, and nothing at all when equal.

        Lists are replaced whole, so a caller that changes one passes the `resource_version` it saw (Conflict).
        """
        ...

    async def delete(self, resource: Resource, key: ObjectKey, *, uid: str = "", resource_version: str = "") -> None:
        """Delete it under those preconditions; an already deleted object is a success."""
        ...

    async def evict(self, pod: ObjectKey, *, uid: str, grace: timedelta | None = None) -> None:
        """The Eviction API: PodDisruptionBudgets hold (Blocked). None: the pod's own grace. Gone is a success."""
        ...

    async def approve(
        self, name: str, *, uid: str, resource_version: str, approved: bool, reason: str, message: str
    ) -> Written:
        """Approve a CertificateSigningRequest, or deny it (`approved` False): final, neither can be undone.

        `resource_version`: of the request while it had no verdict (Conflict if it has changed since; Refused if it has
        another verdict).
        """
        ...

    async def version(self) -> str:
        """The API server's release, as reported by itself: v1.36.3."""
        ...

    async def groups(self) -> frozenset[str]:
        """The API groups of which the API server has kinds, such as batch and tgp.io."""
        ...
