"""The way from a class, or from what is in the book, to a mesh that can be asked."""

from tgp.core.model.boot_book import MeshNote, settings_of
from tgp.core.model.mesh import MeshSettings, Ref
from tgp.core.model.secret import Secret
from tgp.ports.cluster import Forbidden
from tgp.ports.mesh import Mesh, Meshes, MeshRefused
from tgp.ports.vault import Vault


class MeshDesk:
    def __init__(self, meshes: Meshes, vault: Vault) -> None:
        self._meshes = meshes
        self._vault = vault

    async def open(self, settings: MeshSettings) -> Mesh:
        """Raises MeshRefused, naming the Secret that is missing; ClusterError where the API server does not say."""
        secrets = {ref: await self._value(ref) for ref in settings.refs}
        return self._meshes.open(settings, secrets)

    async def reopen(self, note: MeshNote) -> Mesh:
        try:
            settings = settings_of(note)
        except ValueError:  # a newer version's
            raise MeshRefused(f"nothing is known here of the mesh {note.backend[:32]}: update the operator") from None
        return await self.open(settings)

    async def _value(self, ref: Ref) -> Secret:
        try:
            values = await self._vault.read(ref.secret)
        except Forbidden:
            raise MeshRefused(f"the operator may not read Secret {ref.secret}: let its Role get that Secret") from None
        if values is None:
            raise MeshRefused(f"there is no Secret {ref.secret}")
        value = values.get(ref.key)
        if value is None or not value:
            raise MeshRefused(f"Secret {ref.secret} has no key {ref.key}")
        return value
