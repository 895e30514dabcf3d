"""Reads Secrets one by one, by name, in one namespace: it can neither list nor watch them, and needs no right to.

A Secret that somebody asked for lately is looked at again every half minute; when it changed, its name plate on the
board changes, which wakes whoever depends on it.
"""

import asyncio
import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tgp.adapters.kube.board import Board
from tgp.api.resource import SECRET
from tgp.core.model.join import JOIN_SECRET, PUBLIC
from tgp.core.model.key import Key
from tgp.core.model.secret import Secret
from tgp.core.model.workload import Metadata
from tgp.ports.cluster import Cluster, ClusterError, Forbidden, NotFound
from tgp.ports.http import HttpError

LOOK_EVERY = 30.0  # seconds: a rotation is noticed within a minute, also where one look fails
FORGET_AFTER = 1800.0  # seconds without anybody asking
MOST = 1024  # Secrets looked at: 64 classes of 16 providers, each with a Secret of its own

Values = Mapping[str, Secret]


@dataclass(slots=True)
class Held:
    values: Values | None  # None: there is no such Secret
    looked_at: float  # loop time
    asked_at: float
    forbidden: str = ""  # why it may not be read; roles change, so it is looked at again like any other


class KubeVault:
    def __init__(
        self, cluster: Cluster, namespace: str, learn: Callable[[Secret], None] = lambda _secret: None
    ) -> None:
        self.board: Board[Metadata] = Board(SECRET)
        self._cluster = cluster
        self._namespace = namespace
        self._learn = learn  # tells the redacting sinks what must never pass them
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
        """Look again and again, until cancelled."""
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
                    continue  # what is held is served on; whoever reads it after a minute looks for himself

    async def _look(self, name: str, asked_at: float) -> Held:
        before = self._held.get(name)
        forbidden, values = "", None
        try:
            values = await self._fetch(name)
        except Forbidden as error:
            forbidden = str(error)
        held = self._held[name] = Held(values, asyncio.get_running_loop().time(), asked_at, forbidden)
        for key, secret in (values or {}).items():
            if name != JOIN_SECRET or key not in PUBLIC:  # messages name the endpoint and the cluster
                self._learn(secret)
        if before is None or before.values != values:
            self._put_up(name, there=values is not None)
        if len(self._held) > MOST:
            self._forget(min(self._held, key=lambda each: (self._held[each].asked_at, each)))
        return held

    async def _fetch(self, name: str) -> Values | None:
        try:
            found = (await self._cluster.read(SECRET, Key(self._namespace, name))).get("data")
        except NotFound:
            return None
        pairs = found.items() if isinstance(found, dict) else ()
        return {key: value for key, coded in pairs if (value := _decoded(coded))}

    def _put_up(self, name: str, *, there: bool) -> None:
        key = Key(self._namespace, name)
        plate = Metadata(key=key, resource_version=self.board.next_version())
        self.board.store.put(plate) if there else self.board.store.drop(plate)

    def _forget(self, name: str) -> None:
        del self._held[name]


def _decoded(coded: object) -> Secret | None:
    """None: empty, or not text: no key anybody could use."""
    try:
        text = b64decode(str(coded), validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return Secret(text) if text else None
