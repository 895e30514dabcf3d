"""Gives up the images kept at providers that no class needs any more."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.controllers.boot.images import ImageDesk, ImageNeed
from tgp.controllers.boot.papers import PaperDesk
from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.key import Key
from tgp.core.model.typed import Typed
from tgp.core.rules.mesh.choice import mesh_of
from tgp.core.rules.talos.settings import talos_of
from tgp.ports.boot import BootRefused
from tgp.ports.clock import Clock
from tgp.ports.cluster import View
from tgp.ports.factory import FactoryError

EVERY = timedelta(minutes=30)
SHELVED_AT = frozenset({"vultr"})


class ImageSweep:
    """A reconciler of one key."""

    def __init__(
        self,
        classes: View[Typed[GPUNodeClass]],
        images: ImageDesk,
        papers: PaperDesk,
        clock: Clock,
        default_backend: str,
    ) -> None:
        self._classes = classes
        self._images = images
        self._papers = papers
        self._clock = clock
        self._default_backend = default_backend

    async def reconcile(self, _key: Key) -> datetime | None:
        try:
            needs = [need for record in self._classes.values() for need in self._needs(record)]
            await self._images.sweep(needs)
        except (BootRefused, FactoryError, CloudError):
            pass  # nobody can tell what is needed: at the next look, perhaps
        return self._clock.now() + EVERY

    def _needs(self, record: Typed[GPUNodeClass]) -> Iterator[ImageNeed]:
        """Raises BootRefused where a class cannot be understood: then nothing goes."""
        if record.object is None:
            raise BootRefused("NodeClassUnreadable", f"GPUNodeClass {record.key.name} was written by a newer version")
        for entry in record.object.spec.providers:
            provider = canonical_provider(entry.name)
            if provider in SHELVED_AT:
                config = talos_of(record.object, provider)
                backend = mesh_of(record.object, provider, None, self._default_backend).backend
                yield ImageNeed(record.object, provider, self._papers.version(config), config, backend)
