"""One private network that machines join. Four verbs, and what a caller may rely on.

**Enrolling.** `enroll` makes what one machine needs to join, and nothing that another could use: a single-use key, an
address. The caller has recorded the hostname first, so that `remove` always finds what was made.
Called twice for one hostname it may make two keys; `remove` revokes both, or they expire.

**Looking.** `find` answers from a complete list, or raises: None is evidence that the mesh does not know the machine.
A device is never matched by a name that the mesh itself made (`train-1` beside another's `train`), nor if it
is older than `DeviceRef.since`.

**Removing.** `remove` removes the device and revokes the key. Already removed is a success. It may be called
again at any time; only its return proves the removal.

**Checking.** `check` tests the credentials without changing anything: may they mint keys, with these tags; may they
list and remove devices?
"""

from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from tgp.core.model.mesh import Device, DeviceRef, MeshJoin, MeshReport, MeshSettings, Network, Secrets


class MeshError(Exception):
    """The mesh, or the connection to it, failed. The text names no key."""


class MeshRefused(MeshError):
    """A permanent refusal: credentials, scopes, tags, a full pool. The text says what to change."""


class MeshBusy(MeshError):
    """Nothing that matters happened: try again later. `retry_after`: as sent by the mesh."""

    def __init__(self, why: str, retry_after: timedelta | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


class JoinRequest(msgspec.Struct, frozen=True):
    """A machine that is to join."""

    hostname: str
    node_name: str
    token: str  # the launch token of its machine: keys may carry it, or a part of it, as description
    expires_at: datetime  # the machine's start-up timeout; the key need not live longer


class Enrollment(msgspec.Struct, frozen=True):
    join: MeshJoin
    key_id: str = ""  # to revoke the key; empty: none was made
    address: str = ""  # if known beforehand


class Mesh(Protocol):
    @property
    def settings(self) -> MeshSettings: ...

    @property
    def has_devices(self) -> bool:
        """True: the mesh has a list of devices. False: only its Node shows that a machine has joined."""
        ...

    @property
    def ranges(self) -> tuple[Network, ...]:
        """The networks of members' addresses; empty: any."""
        ...

    async def enroll(self, join_request: JoinRequest) -> Enrollment: ...

    async def find(self, trace: DeviceRef) -> Device | None: ...

    async def remove(self, trace: DeviceRef) -> None: ...

    async def check(self) -> MeshReport: ...


class Meshes(Protocol):
    """Makes a mesh from settings and their secrets."""

    def open(self, settings: MeshSettings, secrets: Secrets) -> Mesh:
        """Raises MeshRefused if a needed secret is missing."""
        ...
