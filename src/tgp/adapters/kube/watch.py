"""One watch: from the store's version, until the server ends it or an error occurs.

How a half-open connection is noticed. The API server sends a bookmark about once a minute, too seldom to guarantee
anything within a minute. So each watch asks to be ended after half a minute or so (`timeoutSeconds`): the server then
sends a last bookmark and closes in good order, the connection is kept, and the next watch goes on from there. A stream
that is silent beyond that is dead. A quiet kind costs one small request every 35 seconds.
"""

import asyncio
from datetime import timedelta
from typing import Generic, TypeVar

import msgspec

from tgp.adapters.kube.errors import Status, error_for, error_of
from tgp.adapters.kube.list import HEADERS_WITHIN, LINES_AT_ONCE, ListTarget
from tgp.adapters.kube.records.projection import DELETED, Bookmark
from tgp.adapters.kube.store import Store
from tgp.core.model.record import ObjectRecord
from tgp.ports.http import Http, Reply, UnreadableReply

R = TypeVar("R", bound=ObjectRecord)


class WatchTimes(msgspec.Struct, frozen=True):
    """How long a watch lasts, in seconds, and when a dead one is noticed. Shorter costs calls, longer a stale cache."""

    at_least: int = 30
    at_most: int = 40
    silence: timedelta = timedelta(seconds=45)  # beyond any watch; with HEADERS_WITHIN for the next below a minute


USUAL = WatchTimes()


class Damaged(Exception):
    """A line in the middle of the stream could not be read: its content is lost, so the kind must be listed again."""


class Watch(Generic[R]):
    def __init__(self, http: Http, subject: ListTarget[R], store: Store[R], times: WatchTimes = USUAL) -> None:
        self._http = http
        self._subject = subject
        self._store = store
        self._times = times
        self._damage = ""  # the last line could not be read. Harmless if it was cut short by the end of the stream.
        self.lines = 0  # received in total
        self.confirmed_at: float | None = None  # loop time of the last bookmark: all changes until then are stored

    async def run(self, spread: float) -> None:
        """Keep the store up to date; returns when the server ends the stream. `spread` in [0, 1) varies its length.

        Raises Expired for a version that is compacted (in either form), Damaged, other ClusterErrors, HttpError.
        """
        lasts = self._times.at_least + int(spread * (self._times.at_most - self._times.at_least))
        query = (
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", str(self._store.version)),
            ("timeoutSeconds", str(lasts)),
        )
        call = self._subject.call(query, accept=self._subject.projection.accept, timeout=HEADERS_WITHIN)
        self._damage = ""
        self._subject.projection.tend()
        async with self._http.stream(call, idle=self._times.silence) as stream:
            if stream.status != 200:
                reply = Reply(stream.status, await stream.rest(), stream.headers)
                raise error_for(reply, f"watch {self._subject.name}", changes=False)
            async for batch in stream.batches():
                for start in range(0, len(batch), LINES_AT_ONCE):
                    self._hear(batch[start : start + LINES_AT_ONCE])
                    await asyncio.sleep(0)  # a stream that never pauses must not block other tasks

    def _hear(self, lines: list[bytes]) -> None:
        read, store, known = self._subject.projection.line, self._store, self._store.records
        for line in lines:
            if self._damage:
                raise Damaged(self._damage)
            try:
                verb, said = read(line, known)
            except UnreadableReply as error:
                if line.strip():  # an empty line, sent by some proxies as keep-alive
                    self._damage = str(error)
                continue
            if isinstance(said, Bookmark):
                store.reached(said.version)
                self.confirmed_at = asyncio.get_running_loop().time()
            elif isinstance(said, Status):
                raise error_of(said, f"watch {self._subject.name}", changes=False)
            elif verb == DELETED:
                store.drop(said)
            else:
                store.put(said)
        self.lines += len(lines)
