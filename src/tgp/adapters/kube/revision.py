"""Notices when the API server's history goes back: its etcd was restored from a backup.

Every watch, every held version and every reservation of this process then refers to states that no longer exist. etcd's
revision only grows, and a list that asks for no version is as new as anything ever written: one that is older than
what was seen before is proof. So is an object that is read under a lower version than the one held. Within minutes
other writers move the revision past the old one, so it is read often; it is one small call.
"""

import asyncio
from collections.abc import Callable

from tgp.adapters.kube.errors import error_for
from tgp.api.resource import Resource
from tgp.core.model.facts import HistoryRewound
from tgp.ports.cluster import ClusterError
from tgp.ports.http import Call, Http, HttpError, UnreadableReply
from tgp.ports.journal import Journal

ASKED_EVERY = 15.0  # seconds
CONFIRMED_BY = 2  # further answers, each below what was seen: one server of several may be wrong
CONFIRMED_EVERY = 1.0  # seconds between them
CALM_FOR = 30.0  # seconds after a rewind in which contradictions are ignored: the stores are being listed again


class Revision:
    """`held`: the version of the store of this resource; 0: empty."""

    def __init__(
        self,
        http: Http,
        resource: Resource,
        held: Callable[[], int],
        journal: Journal,
        asked_every: float = ASKED_EVERY,
    ) -> None:
        self._http = http
        self._resource = resource
        self._held = held
        self._journal = journal
        self._asked_every = asked_every
        self._highest = 0
        self._doubted = asyncio.Event()
        self._calm_until = float("-inf")  # loop time
        self.on_rewound: Callable[[], None] = _nothing
        """Called each time. Everything read before must be read again."""

    async def run(self) -> None:
        """Until cancelled. An unreachable server says nothing about its history."""
        while True:
            try:
                async with asyncio.timeout(self._asked_every):
                    await self._doubted.wait()
            except TimeoutError:
                pass
            self._doubted.clear()
            try:
                await self._look()
            except (ClusterError, HttpError):
                continue

    def doubt(self) -> None:
        """A reader got something older than what is held: check now."""
        self._doubted.set()

    def contradicted(self, why: str) -> None:
        """An object was read under a lower version than the one held at the time of the call: that is proof."""
        if asyncio.get_running_loop().time() >= self._calm_until:
            self._rewound(0, why)

    async def _look(self) -> None:
        floor = max(self._highest, self._held())
        version = await self._ask()
        for _ in range(CONFIRMED_BY):
            if version >= floor:
                break
            await asyncio.sleep(CONFIRMED_EVERY)
            version = await self._ask()
        if version < floor and asyncio.get_running_loop().time() >= self._calm_until:
            self._rewound(version, f"the API server is at revision {version}, but revision {floor} was seen before")
        self._highest = max(self._highest, version)

    def _rewound(self, version: int, why: str) -> None:
        self._highest = version
        self._calm_until = asyncio.get_running_loop().time() + CALM_FOR
        self._journal.note(HistoryRewound(why))
        self.on_rewound()

    async def _ask(self) -> int:
        call = Call("GET", self._resource.path(), query=(("limit", "1"),), headers=(("Accept", "application/json"),))
        reply = await self._http.send(call)
        if not reply.ok:
            raise error_for(reply, "asking for the API server's revision", changes=False)
        body = reply.json()
        told = body.get("metadata", {}).get("resourceVersion") if isinstance(body, dict) else None
        if not isinstance(told, str) or not told.isascii() or not told.isdigit():
            raise UnreadableReply("a list without a version")
        return int(told)


def _nothing() -> None:
    pass
