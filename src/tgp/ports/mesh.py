"""One private network that machines join by. Four verbs, and what a caller may rely on.

**Enrolling.** `enrol` makes what one machine needs to join, and nothing that another could use: a single-use key, an
address. Whoever calls it has written the hostname down first, so that whatever happens, `remove` finds what was made.
Asked twice under one hostname it may make two keys; both end with `remove`, or by themselves.

**Looking.** `find` answers from a complete list, or raises: None is evidence that the mesh does not know the machine.
It never takes a device for ours by a name that the mesh itself made (`train-1` beside somebody's `train`), nor one
that is older than `Trace.since`.

**Removing.** `remove` takes the device out and revokes the key. What is already gone is a success. It may be asked
again at any time; only its return proves the end.

**Checking.** `check` tries the credentials without changing anything: may they mint keys, with these tags; may they see
and remove devices?
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from tgp.core.model.mesh import Device, MeshJoin, MeshReport, MeshSettings, Network, Secrets, Trace


class MeshError(Exception):
    """The mesh, or the way to it, said no. The text names no key."""


class MeshRefused(MeshError):
    """It will not do this, asked again or not: credentials, scopes, tags, a full pool. The text says what to change."""


class MeshBusy(MeshError):
    """Nothing that matters happened: ask again later. `retry_after`: when the mesh itself said so."""

    def __init__(self, why: str, retry_after: timedelta | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Ticket:
    """Who is to be let in."""

    hostname: str
    node_name: str
    token: str  # the launch token of its machine: what is made may be described by it, or by a part of it
    expires_at: datetime  # no use afterwards: the machine is given up then


@dataclass(frozen=True, slots=True)
class Enrolment:
    join: MeshJoin
    key_id: str = ""  # by which the key is revoked; empty: none was made
    address: str = ""  # where it is known beforehand


class Mesh(Protocol):
    @property
    def settings(self) -> MeshSettings: ...

    @property
    def has_devices(self) -> bool:
        """Does anybody keep a list that a machine appears in? False: only its Node shows that it has joined."""
        ...

    @property
    def ranges(self) -> tuple[Network, ...]:
        """Where a member's address lies; empty: anywhere."""
        ...

    async def enrol(self, ticket: Ticket) -> Enrolment: ...

    async def find(self, trace: Trace) -> Device | None: ...

    async def remove(self, trace: Trace) -> None: ...

    async def check(self) -> MeshReport: ...


class Meshes(Protocol):
    """The way from settings and their secrets to a mesh."""

    def open(self, settings: MeshSettings, secrets: Secrets) -> Mesh:
        """Raises MeshRefused where a secret that it needs is not among them."""
        ...
