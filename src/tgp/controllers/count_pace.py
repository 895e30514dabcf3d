"""How often a status that counts requests is written: the requests of a burst change a thousand times a minute."""

from collections.abc import Callable, Sized
from datetime import datetime, timedelta
from typing import Any

from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.ports.clock import Clock

COUNTED_EVERY, FEW_REQUESTS = 1.0, 50  # seconds between two counts, where there are more requests than this


class CountPace:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counted: dict[ObjectKey, tuple[int, float, bool]] = {}  # generation, Clock.boottime, many requests

    def wait(self, record: KubeObject[Any], requests: Callable[[], Sized]) -> datetime | None:
        """When it may be counted again; None: now, and it is taken as counted. A changed spec does not wait."""
        now = self._clock.boottime()
        generation, at, many = self._counted.get(record.key, (-1, 0.0, False))
        if many and generation == record.generation and not record.deleting and now - at < COUNTED_EVERY:
            return self._clock.now() + timedelta(seconds=COUNTED_EVERY - (now - at))
        self._counted[record.key] = (record.generation, now, len(requests()) > FEW_REQUESTS)
        return None

    def forget(self, key: ObjectKey) -> None:
        self._counted.pop(key, None)
