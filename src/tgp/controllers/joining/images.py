"""Which image a machine boots, and whether it is available: extensions that exist, a snapshot where one is needed.

Checked before anything is paid for. Where a provider imports images, one is imported once for all machines.
"""

from collections.abc import Callable, Iterable

import msgspec

from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.talos import TalosConfig
from tgp.controllers.joining.snapshots import SnapshotManager
from tgp.controllers.market.credentials import credentials_for
from tgp.core.joining.talos.assets import asset_for, platform_for
from tgp.core.joining.talos.extensions import wanted_extensions
from tgp.core.market.sources import sources_of
from tgp.core.model import gpus
from tgp.core.model.attempts import IMAGE_PREPARING
from tgp.core.model.boot_image import BootImage
from tgp.core.model.image_mark import ImageMark
from tgp.core.model.mesh import IN_A_TAILNET, Backend
from tgp.core.model.offer import BootMode, Offer
from tgp.core.model.source import Source
from tgp.core.model.talos import TalosVersion
from tgp.ports.boot import BootRefused
from tgp.ports.clouds import Clouds, known_facts
from tgp.ports.image_factory import Factory, FactoryRefused, Schematic
from tgp.ports.images import ImageStore
from tgp.ports.secret_reader import SecretReader

COUNTS = (1, 8)  # of GPUs: machines with 8 may have NVLink switches
ARCH = "amd64"  # of stored images: providers with an image store sell no other


class ImageNeed(msgspec.Struct, frozen=True):
    """What machines of one class may need at one provider."""

    node_class: GPUNodeClass
    provider: str
    version: TalosVersion
    config: TalosConfig
    backend: Backend


class ImageResolver:
    def __init__(
        self,
        factory: Factory,
        clouds: Clouds,
        secret_reader: SecretReader,
        keeper: SnapshotManager,
        cluster_id: Callable[[], str],  # empty: not known yet
    ) -> None:
        self._factory = factory
        self._clouds = clouds
        self._secret_reader = secret_reader
        self._keeper = keeper
        self._cluster_id = cluster_id
        self._preparing: dict[str, str] = {}  # by source: the last message about an image that is not ready
        self._sources: dict[str, Source] = {}  # whose image stores this process has used

    async def for_machine(
        self,
        version: TalosVersion,
        config: TalosConfig,
        offer: Offer,
        backend: Backend,
        *,
        node_class: GPUNodeClass,
        nvidia: bool,  # noqa: ARG002 - the caller knows it from the resource; here the GPU model decides
    ) -> BootImage:
        """Raises FactoryRefused, FactoryError, BootRefused, CloudError or ClusterError: nothing was ordered."""
        schematic = await self.checked_schematic(version, config, backend, offer.gpu, offer.gpu_count)
        facts = self._clouds.facts(offer.provider)
        installer = self._factory.installer(schematic, version, platform_for(offer.boot, facts))
        asset = asset_for(offer.boot, facts, offer.arch)
        if offer.boot is BootMode.TAKEOVER:
            url = self._factory.image(schematic, version, asset)
            return BootImage(version, schematic, installer, raw_url=url, arch=offer.arch)
        source = _source(node_class, offer.provider)
        if source is None or not asset or source.settings.snapshot_id:
            own = source.settings.snapshot_id if source is not None else None
            return BootImage(version, schematic, installer, image=own or "", arch=offer.arch)
        image = await self._fetched(source, version, offer.arch, schematic, asset)
        return BootImage(version, schematic, installer, image=image, arch=offer.arch)

    async def checked_schematic(
        self, version: TalosVersion, config: TalosConfig, backend: Backend, model: str = "", count: int = 0
    ) -> str:
        """The id of the class's own schematic, else of one with all that is needed, every extension of which exists."""
        if config.schematic:
            return config.schematic
        wanted = wanted_extensions(
            version, tailscale=backend in IN_A_TAILNET, model=model, count=count, own=config.extensions
        )
        if wanted:
            there = await self._factory.extensions(version)
            if missing := [name for name in wanted if name not in there]:
                names = " and ".join(missing)
                raise FactoryRefused(f"Talos {version} has no extension {names}: see talosConfig.extensions and image")
        return await self._factory.schematic(Schematic(wanted))

    # -- what is kept at providers -------------------------------------------------------------------------------------

    def preparing(self, node_class: GPUNodeClass) -> str:
        """Progress of the images that machines of the class wait for; empty: none."""
        waiting = (self._preparing.get(source.name, "") for source in sources_of(node_class).values())
        return "; ".join(dict.fromkeys(words for words in waiting if words))

    async def _fetched(self, source: Source, version: TalosVersion, arch: str, schematic: str, asset: str) -> str:
        cluster = self._cluster_id()
        if not cluster:
            raise BootRefused(IMAGE_PREPARING, "the cluster's id is not known yet; retrying")
        mark = ImageMark(cluster, version, arch, schematic)
        store = await self._open(source)
        try:
            found = await self._keeper.image(store, mark, lambda: self._factory.built(schematic, version, asset))
        except BootRefused as error:
            self._preparing[source.name] = str(error)
            raise
        self._preparing.pop(source.name, None)
        return found

    def imports_at(self, provider: str) -> bool:
        """Does the provider keep images of ours?"""
        facts = known_facts(self._clouds, provider)
        return facts is not None and bool(facts.imported_image)

    async def sweep(self, needs: Iterable[ImageNeed]) -> tuple[str, ...]:
        """Delete the images that no class needs any more; returns their marks.

        Raises FactoryError, CloudError, ClusterError: then it is unknown what is needed, and nothing more is deleted.
        """
        cluster = self._cluster_id()
        if not cluster:
            return ()
        needed: set[ImageMark] = set()
        for need in needs:
            source = _source(need.node_class, need.provider)
            if source is None or not self.imports_at(need.provider):
                continue
            self._sources[source.name] = source
            if source.settings.snapshot_id:
                continue  # boots the administrator's snapshot; earlier ones of tgp are deleted
            needed |= {ImageMark(cluster, need.version, ARCH, each) for each in await self._schematics(need)}
        gone: list[str] = []
        for source in tuple(self._sources.values()):
            try:
                store = await self._open(source)
            except BootRefused:  # its key is gone, so the store cannot be reached
                del self._sources[source.name]
                continue
            gone += await self._keeper.sweep(store, cluster, needed)
        return tuple(gone)

    async def _schematics(self, need: ImageNeed) -> set[str]:
        """Of every machine the class could buy there: few, since most GPUs need the same extensions."""
        if need.config.schematic:
            return {need.config.schematic}
        wanted = {
            wanted_extensions(
                need.version,
                tailscale=need.backend in IN_A_TAILNET,
                model=model,
                count=count,
                own=need.config.extensions,
            )
            for model in gpus.catalogue().gpus
            for count in COUNTS
        }
        return {await self._factory.schematic(Schematic(each)) for each in wanted}

    async def _open(self, source: Source) -> ImageStore:
        keys = await credentials_for(source, self._secret_reader)
        if keys.missing:
            raise BootRefused("KeyMissing", keys.missing)
        store = self._clouds.open_images(source, keys.own)
        assert store is not None, "only providers with an image store have an asset"
        self._sources[source.name] = source
        return store


def _source(node_class: GPUNodeClass, provider: str) -> Source | None:
    """The class's source at this provider; the first, if it names several keys."""
    return next(
        (source for name, source in sources_of(node_class).items() if canonical_provider(name) == provider), None
    )
