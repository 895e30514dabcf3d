"""What was last seen of each machine in its mesh; requests read it, the keeper fills it."""

from dataclasses import dataclass, replace

from tgp.core.model.mesh import CONNECTED_WITHOUT, TITLES, Backend, Device, MeshStand, Network
from tgp.core.model.node import Node
from tgp.core.rules.mesh.stand import Silence, stand_of

NOT_ASKED = MeshStand(None, "NotAskedYet", "the mesh was not asked yet")


@dataclass(frozen=True, slots=True)
class Sighting:
    backend: Backend
    hostname: str
    ranges: tuple[Network, ...] = ()
    has_devices: bool = False
    device: Device | None = None
    known: bool = False  # whether there was a device before
    silent: Silence | None = None  # of its kubelet; None: it is heard of
    trouble: str = ""  # why it cannot be told; empty: it was


class Stands:
    def __init__(self) -> None:
        self._by_token: dict[str, Sighting] = {}
        self._renewals: dict[str, tuple[str, float | None]] = {}

    def of(self, token: str, node: Node | None) -> MeshStand:
        seen = self._by_token.get(token)
        if seen is None:
            return NOT_ASKED
        backend = seen.backend.value if seen.hostname else ""
        if seen.backend is Backend.NONE:
            if seen.silent is not None and node is not None:
                return MeshStand(False, seen.silent.reason, seen.silent.words, backend=backend)
            return replace(CONNECTED_WITHOUT, backend=backend)
        if seen.trouble:
            return MeshStand(None, "MeshUnreachable", seen.trouble, backend=backend)
        found = stand_of(
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

    def put(self, token: str, seen: Sighting) -> bool:
        """Whether it is news."""
        before = self._by_token.get(token)
        self._by_token[token] = seen
        return before != seen

    def heard(self, token: str, renewal: str, now: float) -> float | None:
        """When this renewal of a kubelet's Lease was noticed, on our own clock; None: it may be as old as it says."""
        before, since = self._renewals.get(token, (renewal, None))
        self._renewals[token] = renewal, (since if before == renewal else now)
        return self._renewals[token][1]

    def forget(self, token: str) -> None:
        self._by_token.pop(token, None)
        self._renewals.pop(token, None)

    def __contains__(self, token: str) -> bool:
        return token in self._by_token
