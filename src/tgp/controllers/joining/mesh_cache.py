"""The last observed mesh status of each machine; requests read it, the reconciler fills it."""

from dataclasses import replace

import msgspec

from tgp.core.joining.mesh.status import Silence, mesh_status_of
from tgp.core.model.mesh import NO_MESH_NEEDED, NOT_ASKED, TITLES, Backend, Device, MeshStatus, Network
from tgp.core.model.node import Node

NOT_ASKED_YET = MeshStatus(None, NOT_ASKED, "The mesh was not checked yet")


class MeshObservation(msgspec.Struct, frozen=True):
    backend: Backend
    hostname: str
    ranges: tuple[Network, ...] = ()
    has_devices: bool = False
    device: Device | None = None
    known: bool = False  # whether there was a device before
    silent: Silence | None = None  # of its kubelet; None: the kubelet reports
    trouble: str = ""  # why the status is unknown; empty: it is known


class LeaseRead(msgspec.Struct, frozen=True):
    """What a kubelet's Lease showed."""

    at: float  # Clock.boottime
    node_ready: bool | None  # the Node's own condition at that time; None: unknown
    silent: Silence | None


class MeshStatusCache:
    def __init__(self) -> None:
        self._by_token: dict[str, MeshObservation] = {}
        self._renewals: dict[str, tuple[str, float | None]] = {}
        self._lease_reads: dict[str, LeaseRead] = {}

    def of(self, token: str, node: Node | None) -> MeshStatus:
        seen = self._by_token.get(token)
        if seen is None:
            return NOT_ASKED_YET
        backend = seen.backend.value if seen.hostname else ""
        if seen.backend is Backend.NONE:
            if seen.silent is not None and node is not None:
                return MeshStatus(False, seen.silent.reason, seen.silent.words, backend=backend)
            return replace(NO_MESH_NEEDED, backend=backend)
        if seen.trouble:
            return MeshStatus(None, "MeshUnreachable", seen.trouble, backend=backend)
        found = mesh_status_of(
            TITLES[seen.backend],
            seen.hostname,
            node,
            seen.device,
            ranges=seen.ranges,
            has_devices=seen.has_devices,
            known=seen.known,
        )
        if found.ok and seen.silent is not None:
            return replace(found, ok=False, reason=seen.silent.reason, message=seen.silent.words, backend=backend)
        return replace(found, backend=backend)

    def put(self, token: str, seen: MeshObservation) -> bool:
        """True if it changed."""
        before = self._by_token.get(token)
        self._by_token[token] = seen
        return before != seen

    def heard(self, token: str, renewal: str, now: float) -> float | None:
        """When this renewal of a kubelet's Lease was first seen, on our own clock; None: its own time counts."""
        before, since = self._renewals.get(token, (renewal, None))
        self._renewals[token] = renewal, (since if before == renewal else now)
        return self._renewals[token][1]

    def lease_read(self, token: str) -> LeaseRead | None:
        """The last read of its kubelet's Lease; None: there was none."""
        return self._lease_reads.get(token)

    def note_lease_read(self, token: str, read: LeaseRead) -> None:
        self._lease_reads[token] = read

    def forget(self, token: str) -> None:
        self._by_token.pop(token, None)
        self._renewals.pop(token, None)
        self._lease_reads.pop(token, None)

    def __contains__(self, token: str) -> bool:
        return token in self._by_token
