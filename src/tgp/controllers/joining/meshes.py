"""Opens the mesh of a class, or of a join record."""

from tgp.core.model.join_record import MeshRecord, settings_of
from tgp.core.model.mesh import MeshSettings, Ref
from tgp.core.model.secret import Secret
from tgp.ports.cluster import Forbidden
from tgp.ports.mesh import Mesh, Meshes, MeshRefused
from tgp.ports.secret_reader import SecretReader


class MeshOpener:
    def __init__(self, meshes: Meshes, secret_reader: SecretReader) -> None:
        self._meshes = meshes
        self._secret_reader = secret_reader

    async def open(self, settings: MeshSettings) -> Mesh:
        """Raises MeshRefused, naming the Secret that is missing; ClusterError if the API server does not answer."""
        secrets = {ref: await self._value(ref) for ref in settings.refs}
        return self._meshes.open(settings, secrets)

    async def reopen(self, note: MeshRecord) -> Mesh:
        try:
            settings = settings_of(note)
        except ValueError:  # a newer version's
            raise MeshRefused(
                f"mesh backend {note.backend[:32]} is unknown to this version: update the operator"
            ) from None
        return await self.open(settings)

    async def _value(self, ref: Ref) -> Secret:
        try:
            values = await self._secret_reader.read(ref.secret)
        except Forbidden:
            raise MeshRefused(
                f"the operator may not read Secret {ref.secret}: add get on that Secret to the operator's Role"
            ) from None
        if values is None:
            raise MeshRefused(f"Secret {ref.secret} does not exist")
        value = values.get(ref.key)
        if value is None or not value:
            raise MeshRefused(f"Secret {ref.secret} has no key {ref.key}")
        return value
