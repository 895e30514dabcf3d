"""Stored images at providers: each imported once, and deleted when no class needs it any more.

Nothing is remembered between runs but the mark on the image itself. So an image is imported only when two complete
lists, a listing lag apart, did not show it: an import by an earlier run, or with a lost answer, is listed by then. If
two of one mark exist all the same, the older one is used and the other is deleted. All durations are measured on this
process's own clock; a new run only waits longer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta

from tgp.core.model.attempts import IMAGE_PREPARING
from tgp.core.model.cloud_errors import OrderRefused, OutcomeUnknown
from tgp.core.model.image_mark import ImageMark, read_mark
from tgp.ports.boot import BootRefused
from tgp.ports.clock import Clock
from tgp.ports.images import ImageStore, StoredImage

# Seconds on this process's own clock.
LISTING_LAG = 60.0  # an image that was made may be missing from lists this long
BUILT_WITHIN = 1800.0  # an image takes the factory minutes
KEPT_FOR = 3600.0  # after the last order that named it, and after the last class that needed it: machines boot from it
STUCK_AFTER = timedelta(hours=3)  # a longer import never finishes; by the provider's dates

NEVER = datetime.max.replace(tzinfo=UTC)

REFUSED, NOT_BUILT = "ImageRefused", "ImageNotBuilt"


class SnapshotManager:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._absent_since: dict[ImageMark, float] = {}
        self._building_since: dict[ImageMark, float] = {}
        self._handed_out: dict[str, float] = {}  # id → when an order last used it
        self._unneeded_since: dict[str, float] = {}  # id
        self._turn = asyncio.Lock()  # one at a time: two concurrent callers would import two

    async def image(self, store: ImageStore, mark: ImageMark, built: Callable[[], Awaitable[str]]) -> str:
        """The id of the image, ready to boot. BootRefused with `ImagePreparing` until it is; or CloudError.

        `built`: the URL for the import, called only if needed; empty: the image is being built. The factory
        builds an image on the first request, and an import meanwhile would time out.
        """
        async with self._turn:
            listed = _oldest_first(image for image in await store.list() if read_mark(image.mark) == mark)
            if ready := next((image for image in listed if image.ready), None):
                self._absent_since.pop(mark, None)
                self._handed_out[ready.id] = self._clock.boottime()
                return ready.id
            if listed:
                self._absent_since.pop(mark, None)
                await self._wait_for(store, mark, listed[0])
            await self._make(store, mark, await self._built(mark, built))
            raise BootRefused(
                IMAGE_PREPARING, f"{store.title} started the import of Talos {mark.version}; this takes minutes"
            )

    async def _wait_for(self, store: ImageStore, mark: ImageMark, image: StoredImage) -> None:
        """Always raises: the image is not ready."""
        if image.made_at is not None and self._clock.now() - image.made_at > STUCK_AFTER:
            await store.remove(image.id)
            raise BootRefused(
                IMAGE_PREPARING, f"{store.title} snapshot import of Talos {mark.version} timed out; retrying"
            )
        raise BootRefused(IMAGE_PREPARING, f"{store.title} is importing Talos {mark.version}; purchases wait for it")

    async def _built(self, mark: ImageMark, built: Callable[[], Awaitable[str]]) -> str:
        url = await built()
        if url:
            self._building_since.pop(mark, None)
            return url
        now = self._clock.boottime()
        minutes = int(now - self._building_since.setdefault(mark, now)) // 60
        if minutes * 60 < BUILT_WITHIN:
            since = f", for {minutes} min now" if minutes else ""
            raise BootRefused(
                IMAGE_PREPARING, f"the image factory is building Talos {mark.version}{since}; purchases wait for it"
            )
        del self._building_since[mark]
        raise BootRefused(
            NOT_BUILT,
            f"the image factory has not built Talos {mark.version} with schematic {mark.schematic[:12]} in {minutes} "
            "min: check that its URL answers, or set a snapshot of your own in settings.snapshotId",
        )

    async def _make(self, store: ImageStore, mark: ImageMark, url: str) -> None:
        now = self._clock.boottime()
        since = self._absent_since.setdefault(mark, now)
        if now - since < LISTING_LAG:
            raise BootRefused(
                IMAGE_PREPARING,
                f"{store.title} lists no image of Talos {mark.version}; the import "
                "starts if the next list shows none either",
            )
        del self._absent_since[mark]  # whatever the outcome: absence is counted from now on only
        try:
            await store.make(str(mark), url)
        except OutcomeUnknown as error:
            raise BootRefused(IMAGE_PREPARING, f"{error}; searching for the image before another import") from error
        except OrderRefused as error:
            raise BootRefused(REFUSED, f"{error}; or set a snapshot of your own in settings.snapshotId") from error

    async def sweep(self, store: ImageStore, cluster: str, needed: Collection[ImageMark]) -> tuple[str, ...]:
        """Delete this cluster's images that no class needs any more. Returns their marks; or CloudError."""
        async with self._turn:
            now = self._clock.boottime()
            removed = []
            listed = await store.list()
            surplus = _surplus(listed, cluster, needed)
            unneeded = {image.id: self._unneeded_since.get(image.id, now) for image in surplus}
            for image in listed:  # of this account alone: others have their own times
                self._unneeded_since.pop(image.id, None)
            self._unneeded_since |= unneeded
            for image in surplus:
                since = max(unneeded[image.id], self._handed_out.get(image.id, float("-inf")))
                if now - since >= KEPT_FOR:
                    await store.remove(image.id)
                    removed.append(image.mark)
                    self._handed_out.pop(image.id, None)
                    self._unneeded_since.pop(image.id, None)
            return tuple(removed)


def _surplus(listed: Iterable[StoredImage], cluster: str, needed: Collection[ImageMark]) -> list[StoredImage]:
    """This cluster's images that no class needs: of one mark the oldest ready one is enough."""
    missing = set(needed)  # without a ready image so far
    surplus = []
    for image in _oldest_first(listed):
        mark = read_mark(image.mark)
        if mark is None or mark.cluster != cluster:
            continue
        if mark not in missing:
            surplus.append(image)
        elif image.ready:
            missing.discard(mark)
    return surplus


def _oldest_first(images: Iterable[StoredImage]) -> list[StoredImage]:
    return sorted(images, key=lambda image: (image.made_at or NEVER, image.id))
