"""No private network: machines reach the cluster by the addresses they have."""

from tgp.core.model.mesh import Backend, Device, MeshReport, MeshSettings, Network, NoMesh, Trace
from tgp.ports.mesh import Enrolment, Ticket

NOTHING = MeshSettings(Backend.NONE)


class NothingMesh:
    has_devices = False
    ranges: tuple[Network, ...] = ()

    def __init__(self, settings: MeshSettings = NOTHING) -> None:
        self.settings = settings

    async def enrol(self, _ticket: Ticket) -> Enrolment:
        return Enrolment(NoMesh())

    async def find(self, _trace: Trace) -> Device | None:
        return None

    async def remove(self, _trace: Trace) -> None:
        return None

    async def check(self) -> MeshReport:
        return MeshReport(usable=True)
