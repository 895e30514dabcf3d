"""Talos's own mesh. Nodes make their keys themselves and find each other by discovery: nothing is minted or removed.

Discovery forgets a node that is gone after half an hour.
"""

from tgp.core.model.mesh import Device, DeviceRef, KubeSpanJoin, MeshReport, MeshSettings, Network
from tgp.ports.mesh import Enrollment, JoinRequest

NEEDS = (
    "every node of the cluster must have KubeSpan enabled, including the control planes",
    "UDP 51820 must be reachable on at least one end of every pair of nodes: there is no relay",
)


class KubeSpanMesh:
    has_devices = False
    ranges: tuple[Network, ...] = ()  # tunnels use the nodes' own addresses

    def __init__(self, settings: MeshSettings) -> None:
        self.settings = settings

    async def enroll(self, _join_request: JoinRequest) -> Enrollment:
        return Enrollment(KubeSpanJoin())

    async def find(self, _trace: DeviceRef) -> Device | None:
        return None

    async def remove(self, _trace: DeviceRef) -> None:
        return None

    async def check(self) -> MeshReport:
        return MeshReport(usable=True, notes=NEEDS)
