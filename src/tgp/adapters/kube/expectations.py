"""What we wrote and have not seen come back yet: the difference between a view and "at least as new as my last write".

Stale views are how controllers create things twice: they write, look again too soon, do not see it, and write again.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from tgp.core.model.key import Key
from tgp.core.model.record import Record, Uid

MAX_NOTED = 10_000  # keys; far more than are written in the second a watch lags. The oldest is forgotten beyond.


class _Write(NamedTuple):
    version: int

    def met(self, held: Record | None, seen: int) -> bool:
        return seen >= self.version or (held is not None and held.resource_version >= self.version)


class _Delete(NamedTuple):
    uid: Uid  # empty: we did not know which

    def met(self, held: Record | None, seen: int) -> bool:  # noqa: ARG002 - the version of a deletion is not told
        return held is None or held.deleting or (bool(self.uid) and held.uid != self.uid)


class Expectations:
    def __init__(self) -> None:
        self._noted: dict[Key, _Write | _Delete] = {}
        self._waiting: dict[Key, list[asyncio.Future[None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._noted)

    def write(self, key: Key, version: int) -> None:
        earlier = self._noted.pop(key, None)
        if isinstance(earlier, _Write) and earlier.version > version:
            version = earlier.version  # answers may overtake one another
        self._note(key, _Write(version))

    def delete(self, key: Key, uid: Uid) -> None:
        self._noted.pop(key, None)
        self._note(key, _Delete(uid))

    def met(self, key: Key, held: Record | None, seen: int) -> bool:
        noted = self._noted.get(key)
        return noted is None or noted.met(held, seen)

    async def wait(self, key: Key) -> None:
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

    def settle(self, held: Mapping[Key, Record], seen: int, key: Key | None) -> None:
        """Strike off what is met: for one key, or (None) for all."""
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
        """Nothing noted can be waited for any more."""
        for key in list(self._noted):
            self._strike(key)

    def _settle_one(self, key: Key, held: Mapping[Key, Record], seen: int) -> None:
        if self._noted[key].met(held.get(key), seen):
            self._strike(key)

    def _strike(self, key: Key) -> None:
        del self._noted[key]
        for waiter in self._waiting.get(key, ()):
            if not waiter.done():
                waiter.set_result(None)

    def _note(self, key: Key, noted: _Write | _Delete) -> None:
        while len(self._noted) >= MAX_NOTED:
            self._strike(next(iter(self._noted)))
        self._noted[key] = noted
