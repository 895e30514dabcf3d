"""Deletes stored images at providers that no class needs any more."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.controllers.joining.images import ImageNeed, ImageResolver
from tgp.controllers.joining.inputs import BootInputLoader
from tgp.core.joining.mesh.selection import mesh_of
from tgp.core.joining.talos.settings import talos_of
from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.ports.boot import BootRefused
from tgp.ports.clock import Clock
from tgp.ports.cluster import View
from tgp.ports.image_factory import FactoryError

EVERY = timedelta(minutes=30)


class ImageSweep:
    """A reconciler of one key."""

    def __init__(
        self,
        classes: View[KubeObject[GPUNodeClass]],
        images: ImageResolver,
        boot_input: BootInputLoader,
        clock: Clock,
        default_backend: str,
    ) -> None:
        self._classes = classes
        self._images = images
        self._boot_inputs = boot_input
        self._clock = clock
        self._default_backend = default_backend

    async def reconcile(self, _key: ObjectKey) -> datetime | None:
        try:
            needs = [need for record in self._classes.values() for need in self._needs(record)]
            await self._images.sweep(needs)
        except (BootRefused, FactoryError, CloudError):
            pass  # unknown what is needed: tried again at the next sweep
        return self._clock.now() + EVERY

    def _needs(self, record: KubeObject[GPUNodeClass]) -> Iterator[ImageNeed]:
        """Raises BootRefused if a class cannot be decoded: then nothing is deleted."""
        if record.value is None:
            raise BootRefused("NodeClassUnreadable", f"GPUNodeClass {record.key.name} was written by a newer version")
        for entry in record.value.spec.providers:
            provider = canonical_provider(entry.name)
            if self._images.imports_at(provider):
                config = talos_of(record.value, provider)
                backend = mesh_of(record.value, provider, None, self._default_backend).backend
                yield ImageNeed(record.value, provider, self._boot_inputs.version(config), config, backend)
