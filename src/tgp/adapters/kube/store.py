"""A local copy of one kind, with its indexes: written by one reflector, read by all.

Guarantees, whatever the reflector receives:

* An object never goes back in time: a version older than the one held is ignored.
* Handlers get every change once, as (old, new): (None, new) when created, (old, None) when deleted. An object that
  was replaced by another of the same name is reported as deleted and created. Unchanged objects are not reported.
* `synced` is False until the first complete list; no controller may act on an unsynced store.
* `wait_for_own_write` waits for our own writes.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeAlias, TypeVar

from tgp.adapters.kube.expectations import Expectations
from tgp.adapters.kube.index import Index, IndexFunc
from tgp.api.resource import Resource
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord, Uid, pack_uid
from tgp.ports.cluster import ClusterBusy

R = TypeVar("R", bound=ObjectRecord)
S = TypeVar("S")

Handler: TypeAlias = Callable[[R | None, R | None], None]  # quick, never raises: it only notes keys

SLICE = 1000  # changes applied in one go: about 5 ms, far below a tenth of the lease's renewal deadline
CATCH_UP_WITHIN = 10.0  # seconds; a healthy watch shows a write within milliseconds


class Store(Generic[R]):
    """Implements the `View` port."""

    def __init__(self, resource: Resource, indexes: Mapping[str, IndexFunc[R]] | None = None) -> None:
        self.resource = resource
        self.version = 0  # every change up to here is in the store; 0: none
        self.records: Mapping[ObjectKey, R]  # for decoders: keys are shared with what is held
        self._records: dict[ObjectKey, R] = {}
        self.records = self._records
        self._indexes = {name: Index(file) for name, file in (indexes or {}).items()}
        self._index_list = tuple(self._indexes.values())
        self._handlers: tuple[Handler[R], ...] = ()
        self._synced = asyncio.Event()
        self._expected = Expectations()

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, key: ObjectKey) -> R | None:
        return self._records.get(key)

    def values(self) -> Iterable[R]:
        return self._records.values()

    def by_index(self, index: str, value: str) -> list[R]:
        found = self._indexes.get(index)
        assert found is not None, f"{self.resource.kind} has no index {index!r}"
        records = self._records
        return [records[key] for key in found.under(value)]

    def filed(self, index: str) -> Iterable[str]:
        """The values in use in an index."""
        return self._indexes[index].words()

    def __len__(self) -> int:
        return len(self._records)

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    # -- our own writes ----------------------------------------------------------------------------------------------

    def note_write(self, key: ObjectKey, resource_version: str) -> None:
        """We wrote `key`, and the API server answered with this version."""
        if resource_version.isascii() and resource_version.isdigit() and int(resource_version) > self.version:
            self._expected.write(key, int(resource_version))

    def note_delete(self, key: ObjectKey, uid: str) -> None:
        """We deleted `key` (empty uid: whichever object has the name)."""
        self._expected.delete(key, pack_uid(uid) if uid else self._uid_of(key))

    def behind(self, key: ObjectKey) -> bool:
        """Whether the cache does not show our own write to `key` yet."""
        return bool(self._expected) and not self._expected.met(key, self._records.get(key), self.version)

    async def wait_for_own_write(self, key: ObjectKey) -> None:
        if not self.behind(key):
            return
        try:
            async with asyncio.timeout(CATCH_UP_WITHIN):
                await self._expected.wait(key)
        except TimeoutError as error:
            raise ClusterBusy(f"the cache of {self.resource.plural} does not show our write to {key} yet") from error

    def _uid_of(self, key: ObjectKey) -> Uid:
        held = self._records.get(key)
        return "" if held is None else held.uid

    # -- writing: for the reflector ------------------------------------------------------------------------------------

    def subscribe(self, handler: Handler[R]) -> None:
        """Report every change from now on; the current records are reported at once."""
        self._handlers = (*self._handlers, handler)
        for record in list(self._records.values()):
            handler(None, record)

    def put(self, record: R) -> None:
        """The object's new state: from an ADDED or MODIFIED of a watch."""
        key, version = record.key, record.resource_version
        old = self._records.get(key)
        if old is None:
            if version < self.version:
                return  # a late event of a deleted object
        elif version <= old.resource_version:
            return
        self._change(key, old, record)
        self.version = max(self.version, version)
        if self._expected:
            self._settle(key)

    def drop(self, record: R) -> None:
        """The object is gone; `record` is its last state: from a DELETED of a watch."""
        key, version = record.key, record.resource_version
        old = self._records.get(key)
        if old is not None and version >= old.resource_version:
            self._remove(key, old, record)
        self.version = max(self.version, version)
        if self._expected:
            self._settle(key)

    def reached(self, version: int) -> None:
        """All changes up to `version` were received: from a bookmark."""
        self.version = max(self.version, version)
        if self._expected:
            self._settle(None)

    def overlay(self, key: ObjectKey, change: Callable[[R], R]) -> None:
        """Hold what was never written, until the object really changes: for an operator with --observe."""
        held = self._records.get(key)
        if held is not None:
            self._change(key, held, change(held))

    async def replace(self, listed: Mapping[ObjectKey, R], version: int, *, rewound: bool = False) -> None:
        """A complete list, as of `version`: report the differences, and nothing else.

        `rewound`: the API server's history itself went back (a restore); then older versions are accepted too.
        """
        for slice_ in _slices(list(listed.items())):
            for key, record in slice_:
                old = self._records.get(key)
                if old is None or record.resource_version > old.resource_version or (rewound and record != old):
                    self._change(key, old, record)
            await asyncio.sleep(0)
        for gone in _slices([key for key in self._records if key not in listed]):
            for key in gone:
                old = self._records[key]
                self._remove(key, old, old)
            await asyncio.sleep(0)
        self.version = version if rewound else max(version, self.version)
        self._synced.set()
        if rewound:
            self._expected.forget()
        elif self._expected:
            self._settle(None)

    def _change(self, key: ObjectKey, old: R | None, new: R) -> None:
        if old is not None and old.uid != new.uid:
            self._remove(key, old, old)
            old = None
        self._records[key] = new
        for found in self._index_list:
            found.move(old, new, key)
        for handler in self._handlers:
            handler(old, new)

    def _remove(self, key: ObjectKey, held: R, last: R) -> None:
        del self._records[key]
        for found in self._index_list:
            found.move(held, None, key)
        for handler in self._handlers:
            handler(last, None)

    def _settle(self, key: ObjectKey | None) -> None:
        self._expected.settle(self._records, self.version, key)


def _slices(items: list[S]) -> Iterable[list[S]]:
    return (items[start : start + SLICE] for start in range(0, len(items), SLICE))
