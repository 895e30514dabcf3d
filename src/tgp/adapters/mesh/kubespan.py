"""Talos's own mesh. Nodes make their keys themselves and find each other by discovery: nothing is minted or removed.

What discovery knows of a node that is gone, it forgets by itself after half an hour.
"""

from tgp.core.model.mesh import Device, KubeSpanJoin, MeshReport, MeshSettings, Network, Trace
from tgp.ports.mesh import Enrolment, Ticket

NEEDS = (
    "every node of the cluster must have KubeSpan on, the control planes too",
    "UDP 51820 must be reachable on at least one end of every pair of nodes: there is no relay",
)


class KubeSpanMesh:
    has_devices = False
    ranges: tuple[Network, ...] = ()  # its tunnels carry the addresses that nodes have anyway

    def __init__(self, settings: MeshSettings) -> None:
        self.settings = settings

    async def enrol(self, _ticket: Ticket) -> Enrolment:
        return Enrolment(KubeSpanJoin())

    async def find(self, _trace: Trace) -> Device | None:
        return None

    async def remove(self, _trace: Trace) -> None:
        return None

    async def check(self) -> MeshReport:
        return MeshReport(usable=True, notes=NEEDS)
