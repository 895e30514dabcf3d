"""Every private network, one case each; and how settings and their secrets become a mesh."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import assert_never

from tgp.core.model.mesh import (
    Backend,
    Device,
    DeviceRef,
    KubeSpanJoin,
    MeshReport,
    MeshSettings,
    Network,
    NoMesh,
    Secrets,
)
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster
from tgp.ports.entropy import Entropy
from tgp.ports.http import HttpFactory
from tgp.ports.mesh import Enrollment, JoinRequest, Mesh

OPEN_MAX = 256  # meshes kept: 64 classes, each with a few sets of tags; the least recently used goes first

KUBESPAN_NEEDS = (
    "every node of the cluster must have KubeSpan enabled, including the control planes",
    "UDP 51820 must be reachable on at least one end of every pair of nodes: there is no relay",
)


class DevicelessMesh:
    """Nothing is minted or removed. Machines reach the cluster by the addresses they have, or by KubeSpan: there nodes
    make their keys themselves, find each other by discovery, and are forgotten half an hour after they are gone.
    """

    has_devices = False
    ranges: tuple[Network, ...] = ()

    def __init__(self, settings: MeshSettings, join: NoMesh | KubeSpanJoin, notes: tuple[str, ...] = ()) -> None:
        self.settings = settings
        self._join = join
        self._notes = notes

    async def enroll(self, _join_request: JoinRequest) -> Enrollment:
        return Enrollment(self._join)

    async def find(self, _trace: DeviceRef) -> Device | None:
        return None

    async def remove(self, _trace: DeviceRef) -> None:
        return None

    async def check(self) -> MeshReport:
        return MeshReport(usable=True, notes=self._notes)


@dataclass(slots=True)
class AllMeshes:
    """Implements the `Meshes` port. Equal settings and secrets give the same mesh: it may hold a token."""

    dial: HttpFactory
    clock: Clock
    entropy: Entropy
    cluster: Cluster
    namespace: str  # the operator's own
    tailscale_url: str = ""  # empty: Tailscale's own
    _open: OrderedDict[object, Mesh] = field(default_factory=OrderedDict, repr=False)

    def open(self, settings: MeshSettings, secrets: Secrets) -> Mesh:
        asked = settings, tuple(sorted(secrets.items(), key=lambda pair: pair[0]))
        found = self._open.get(asked)
        if found is None:
            found = self._open[asked] = self._made(settings, dict(secrets))
            while len(self._open) > OPEN_MAX:
                self._open.popitem(last=False)
        else:
            self._open.move_to_end(asked)
        return found

    def _made(self, settings: MeshSettings, secrets: Secrets) -> Mesh:
        """Imported on first use: a cluster has one mesh, not five."""
        match settings.backend:
            case Backend.TAILSCALE:
                from tgp.adapters.mesh.tailscale import TailscaleMesh
                from tgp.adapters.mesh.tailscale.server_flavour import TAILSCALE_API

                url = self.tailscale_url or TAILSCALE_API
                return TailscaleMesh(settings, secrets, self.dial, self.clock, base_url=url)
            case Backend.HEADSCALE:
                from tgp.adapters.mesh.headscale import HeadscaleMesh

                return HeadscaleMesh(settings, secrets, self.dial, self.clock)
            case Backend.WIREGUARD:
                from tgp.adapters.mesh.wireguard import WireGuardMesh

                return WireGuardMesh(
                    self.cluster, self.clock, self.entropy, settings, secrets, namespace=self.namespace
                )
            case Backend.KUBESPAN:
                return DevicelessMesh(settings, KubeSpanJoin(), KUBESPAN_NEEDS)
            case Backend.NONE:
                return DevicelessMesh(settings, NoMesh())
            case _:
                assert_never(settings.backend)
