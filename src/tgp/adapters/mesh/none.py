"""No private network: machines reach the cluster by the addresses they have."""

from tgp.core.model.mesh import Backend, Device, DeviceRef, MeshReport, MeshSettings, Network, NoMesh
from tgp.ports.mesh import Enrollment, JoinRequest

NOTHING = MeshSettings(Backend.NONE)


class NoMeshAdapter:
    has_devices = False
    ranges: tuple[Network, ...] = ()

    def __init__(self, settings: MeshSettings = NOTHING) -> None:
        self.settings = settings

    async def enroll(self, _join_request: JoinRequest) -> Enrollment:
        return Enrollment(NoMesh())

    async def find(self, _trace: DeviceRef) -> Device | None:
        return None

    async def remove(self, _trace: DeviceRef) -> None:
        return None

    async def check(self) -> MeshReport:
        return MeshReport(usable=True)
