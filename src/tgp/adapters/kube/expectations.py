"""Our writes that the cache does not show yet: makes a cache "at least as new as my last write".

Stale caches make controllers create things twice: they write, read too soon, do not see the write, and write again.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord, Uid

MAX_NOTED = 10_000  # keys; far more than are written in the second a watch lags. Beyond that the oldest is dropped.


class _Write(NamedTuple):
    version: int

    def met(self, held: ObjectRecord | None, seen: int) -> bool:
        return seen >= self.version or (held is not None and held.resource_version >= self.version)


class _Delete(NamedTuple):
    uid: Uid  # empty: we did not know which

    def met(self, held: ObjectRecord | None, seen: int) -> bool:  # noqa: ARG002 - the version of a deletion is unknown
        return held is None or held.deleting or (bool(self.uid) and held.uid != self.uid)


class Expectations:
    def __init__(self) -> None:
        self._noted: dict[ObjectKey, _Write | _Delete] = {}
        self._waiting: dict[ObjectKey, list[asyncio.Future[None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._noted)

    def write(self, key: ObjectKey, version: int) -> None:
        earlier = self._noted.pop(key, None)
        if isinstance(earlier, _Write) and earlier.version > version:
            version = earlier.version  # answers may arrive out of order
        self._note(key, _Write(version))

    def delete(self, key: ObjectKey, uid: Uid) -> None:
        self._noted.pop(key, None)
        self._note(key, _Delete(uid))

    def met(self, key: ObjectKey, held: ObjectRecord | None, seen: int) -> bool:
        noted = self._noted.get(key)
        return noted is None or noted.met(held, seen)

    async def wait(self, key: ObjectKey) -> None:
        """Until what was noted for `key` is met. The caller bounds it."""
        if key not in self._noted:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(key, [])
        waiting.append(waiter)
        try:
            await waiter
        finally:
            waiting.remove(waiter)
            if not waiting and self._waiting.get(key) is waiting:
                del self._waiting[key]

    def settle(self, held: Mapping[ObjectKey, ObjectRecord], seen: int, key: ObjectKey | None) -> None:
        """Remove what is met: for one key, or (None) for all."""
        if key is None:
            for noted in list(self._noted):
                self._settle_one(noted, held, seen)
            return
        if key in self._noted:
            self._settle_one(key, held, seen)
        # Versions are met in order, so the oldest notes fall due first; one a time keeps an event cheap.
        if self._noted:
            self._settle_one(next(iter(self._noted)), held, seen)

    def forget(self) -> None:
        """No expectation can be met any more."""
        for key in list(self._noted):
            self._strike(key)

    def _settle_one(self, key: ObjectKey, held: Mapping[ObjectKey, ObjectRecord], seen: int) -> None:
        if self._noted[key].met(held.get(key), seen):
            self._strike(key)

    def _strike(self, key: ObjectKey) -> None:
        del self._noted[key]
        for waiter in self._waiting.get(key, ()):
            if not waiter.done():
                waiter.set_result(None)

    def _note(self, key: ObjectKey, noted: _Write | _Delete) -> None:
        while len(self._noted) >= MAX_NOTED:
            self._strike(next(iter(self._noted)))
        self._noted[key] = noted
