"""Reads Secrets one by one, by name, in one namespace: it neither lists nor watches them, and needs no such permission.

A recently requested Secret is read again every half minute; when it changed, its metadata in the event channel
changes, which wakes the controllers that depend on it.
"""

import asyncio
import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tgp.adapters.kube.event_channel import EventChannel
from tgp.api.resource import SECRET
from tgp.core.model.join import JOIN_SECRET, PUBLIC
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.secret import Secret
from tgp.ports.cluster import Cluster, ClusterError, Forbidden, NotFound
from tgp.ports.http import HttpError

LOOK_EVERY = 30.0  # seconds: a rotation is noticed within a minute, also if one read fails
FORGET_AFTER = 1800.0  # seconds without a request
MOST = 1024  # Secrets kept: 64 classes of 16 providers, each with a Secret of its own

Values = Mapping[str, Secret]


@dataclass(slots=True)
class Held:
    values: Values | None  # None: there is no such Secret
    looked_at: float  # loop time
    asked_at: float
    forbidden: str = ""  # why it may not be read; roles change, so it is read again like any other


class KubeSecretReader:
    def __init__(
        self, cluster: Cluster, namespace: str, learn: Callable[[Secret], None] = lambda _secret: None
    ) -> None:
        self.changes = EventChannel("secrets", resource=SECRET)  # Secrets that came, changed or went
        self._cluster = cluster
        self._namespace = namespace
        self._learn = learn  # tells the redactor what must never be printed
        self._held: dict[str, Held] = {}

    async def read(self, name: str) -> Values | None:
        now = asyncio.get_running_loop().time()
        held = self._held.get(name)
        if held is None or now - held.looked_at > 2 * LOOK_EVERY:  # twice: `run` has been held up
            held = await self._look(name, asked_at=now)
        held.asked_at = now
        if held.forbidden:
            raise Forbidden(held.forbidden)
        return held.values

    async def run(self) -> None:
        """Read again and again, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_EVERY)
            for name, held in list(self._held.items()):
                if loop.time() - held.asked_at > FORGET_AFTER:
                    self._forget(name)
                    self._put_up(name, there=False)
                    continue
                try:
                    await self._look(name, asked_at=held.asked_at)
                except (ClusterError, HttpError):
                    continue  # the cached value is served; a caller after a minute reads it directly

    async def _look(self, name: str, asked_at: float) -> Held:
        before = self._held.get(name)
        forbidden, values = "", None
        try:
            values = await self._fetch(name)
        except Forbidden as error:
            forbidden = str(error)
        held = self._held[name] = Held(values, asyncio.get_running_loop().time(), asked_at, forbidden)
        for key, secret in (values or {}).items():
            if name != JOIN_SECRET or key not in PUBLIC:  # messages may name the endpoint and the cluster
                self._learn(secret)
        if before is None or before.values != values:
            self._put_up(name, there=values is not None)
        if len(self._held) > MOST:
            self._forget(min(self._held, key=lambda each: (self._held[each].asked_at, each)))
        return held

    async def _fetch(self, name: str) -> Values | None:
        try:
            found = (await self._cluster.read(SECRET, ObjectKey(self._namespace, name))).get("data")
        except NotFound:
            return None
        pairs = found.items() if isinstance(found, dict) else ()
        return {key: value for key, coded in pairs if (value := _decoded(coded))}

    def _put_up(self, name: str, *, there: bool) -> None:
        key = ObjectKey(self._namespace, name)
        self.changes.send(key) if there else self.changes.withdraw(key)

    def _forget(self, name: str) -> None:
        del self._held[name]


def _decoded(coded: object) -> Secret | None:
    """None: empty, or not text: not a usable key."""
    try:
        text = b64decode(str(coded), validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return Secret(text) if text else None
