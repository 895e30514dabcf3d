"""Images that we keep at providers: each made once, waited for while it is fetched, and given up when nobody needs it.

Nothing is remembered between runs but the mark on the image itself. So an image is made only when two complete lists, a
listing lag apart, did not show it: what an earlier run, or an answer that was lost, may have made shows by then.
Where two of one mark come about all the same, the older one is used and the other is given up. All lengths are measured
on this process's own clock; a new run only waits longer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta

from tgp.core.model.cloud_errors import OrderRefused, OutcomeUnknown
from tgp.core.model.image_mark import ImageMark, read_mark
from tgp.ports.boot import BootRefused
from tgp.ports.clock import Clock
from tgp.ports.images import ImageShelf, Shelved

# Seconds on this process's own clock.
LISTING_LAG = 60.0  # an image that was made may be missing from lists for so long
BUILT_WITHIN = 1800.0  # an image takes the factory minutes
KEPT_FOR = 3600.0  # after the last order that named it, and after the last class that needed it: machines start from it
STUCK_AFTER = timedelta(hours=3)  # an import that takes longer will not end; by the provider's own dates

NEVER = datetime.max.replace(tzinfo=UTC)

PREPARING, REFUSED, NOT_BUILT = "ImagePreparing", "ImageRefused", "ImageNotBuilt"


class ShelfKeeper:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._absent_since: dict[ImageMark, float] = {}
        self._building_since: dict[ImageMark, float] = {}
        self._handed_out: dict[str, float] = {}  # id → when it was last named in an order
        self._unneeded_since: dict[str, float] = {}  # id
        self._turn = asyncio.Lock()  # one at a time: two that find nothing would make two

    async def image(self, shelf: ImageShelf, mark: ImageMark, built: Callable[[], Awaitable[str]]) -> str:
        """The id of the image, ready to be booted. BootRefused with `ImagePreparing` until it is; or CloudError.

        `built`: where the provider fetches it from, asked only where it has to; empty: it is being built. The factory
        builds an image when it is first asked for, and a provider that fetched meanwhile would wait in vain.
        """
        async with self._turn:
            listed = _oldest_first(image for image in await shelf.list() if read_mark(image.mark) == mark)
            if ready := next((image for image in listed if image.ready), None):
                self._absent_since.pop(mark, None)
                self._handed_out[ready.id] = self._clock.boottime()
                return ready.id
            if listed:
                self._absent_since.pop(mark, None)
                await self._wait_for(shelf, mark, listed[0])
            await self._make(shelf, mark, await self._built(mark, built))
            raise BootRefused(PREPARING, f"{shelf.title} has begun to fetch Talos {mark.version}: it takes minutes")

    async def _wait_for(self, shelf: ImageShelf, mark: ImageMark, image: Shelved) -> None:
        """Always raises: it is not ready."""
        if image.made_at is not None and self._clock.now() - image.made_at > STUCK_AFTER:
            await shelf.remove(image.id)
            raise BootRefused(
                PREPARING, f"{shelf.title} did not get done fetching Talos {mark.version}, and is asked again"
            )
        raise BootRefused(PREPARING, f"{shelf.title} is fetching Talos {mark.version}: nothing is bought before")

    async def _built(self, mark: ImageMark, built: Callable[[], Awaitable[str]]) -> str:
        url = await built()
        if url:
            self._building_since.pop(mark, None)
            return url
        now = self._clock.boottime()
        minutes = int(now - self._building_since.setdefault(mark, now)) // 60
        if minutes * 60 < BUILT_WITHIN:
            raise BootRefused(
                PREPARING, f"the image factory is building Talos {mark.version}, for {minutes} min: nothing is bought"
            )
        del self._building_since[mark]
        raise BootRefused(
            NOT_BUILT,
            f"the image factory has not built Talos {mark.version} with schematic {mark.schematic[:12]} in {minutes} "
            "min: see whether its address answers, or name a snapshot of your own in settings.snapshotId",
        )

    async def _make(self, shelf: ImageShelf, mark: ImageMark, url: str) -> None:
        now = self._clock.boottime()
        since = self._absent_since.setdefault(mark, now)
        if now - since < LISTING_LAG:
            raise BootRefused(
                PREPARING, f"{shelf.title} shows no image of Talos {mark.version}: it is fetched if none shows up"
            )
        del self._absent_since[mark]  # whatever comes of it: absences count from now on only
        try:
            await shelf.make(str(mark), url)
        except OutcomeUnknown as error:
            raise BootRefused(PREPARING, f"{error}: it is looked for before anything is asked again") from error
        except OrderRefused as error:
            raise BootRefused(REFUSED, f"{error}; or name a snapshot of your own in settings.snapshotId") from error

    async def sweep(self, shelf: ImageShelf, cluster: str, needed: Collection[ImageMark]) -> tuple[str, ...]:
        """Give up what this cluster made and no class needs any more. The marks of what was removed; or CloudError."""
        async with self._turn:
            now = self._clock.boottime()
            removed = []
            listed = await shelf.list()
            surplus = _surplus(listed, cluster, needed)
            unneeded = {image.id: self._unneeded_since.get(image.id, now) for image in surplus}
            for image in listed:  # of this account alone: the others' have their own times
                self._unneeded_since.pop(image.id, None)
            self._unneeded_since |= unneeded
            for image in surplus:
                since = max(unneeded[image.id], self._handed_out.get(image.id, float("-inf")))
                if now - since >= KEPT_FOR:
                    await shelf.remove(image.id)
                    removed.append(image.mark)
                    self._handed_out.pop(image.id, None)
                    self._unneeded_since.pop(image.id, None)
            return tuple(removed)


def _surplus(listed: Iterable[Shelved], cluster: str, needed: Collection[ImageMark]) -> list[Shelved]:
    """Of this cluster's own images those that nobody needs: of one mark the oldest that is ready is enough."""
    missing = set(needed)  # that no ready image has been seen of
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


def _oldest_first(images: Iterable[Shelved]) -> list[Shelved]:
    return sorted(images, key=lambda image: (image.made_at or NEVER, image.id))
