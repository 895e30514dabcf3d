"""A complete list of one kind, by stream if the server supports it, else by pages. Never one unpaged answer.

A streaming list (`sendInitialEvents`) is a watch that begins with every object and marks the end with a bookmark. Both
ways ask for the most recent state (no resourceVersion), so what comes back is at least as new as anything seen before.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, TypeVar

from tgp.adapters.kube.errors import Status, error_for, error_of
from tgp.adapters.kube.records.projection import DELETED, Bookmark, Projection
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord
from tgp.ports.cluster import ClusterBusy, Expired, Refused
from tgp.ports.http import Call, Http, NoAnswer, Pairs, Reply, Stream, TooLarge, UnreadableReply

R = TypeVar("R", bound=ObjectRecord)

PAGE = 500  # objects, as client-go asks for: about 3 MB of pods
PAGE_TIMEOUT = timedelta(seconds=60)
PAGE_MAX_BYTES = 32 << 20
MAX_FRESH_STARTS = 5  # a token expires after minutes (410): a list that restarts this often will not finish
BUSY_TRIES = 5  # before the last one, where the API server says for how long it is busy …
LONGEST_BUSY = timedelta(seconds=5)  # … at most

HEADERS_WITHIN = timedelta(seconds=10)  # of a stream: the API server sends them before it reads anything
STREAM_LASTS = 600  # seconds the server may take for the whole stream: a million objects over a slow link
STREAM_SILENCE = 10.0  # seconds; a server that ignores the parameter sends nothing more after its objects
LINES_AT_ONCE = 200  # decoded before yielding to other tasks: about 5 ms


class NotStreamed(Exception):
    """The server does not do streaming lists (`for_good`), or did not do this one: pages will do."""

    def __init__(self, why: str, *, for_good: bool) -> None:
        super().__init__(why)
        self.for_good = for_good


@dataclass(frozen=True)
class ListTarget(Generic[R]):
    """What is listed and watched."""

    projection: Projection[R]
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    @property
    def name(self) -> str:
        return self.projection.resource.plural

    def call(self, query: Pairs, *, accept: str, timeout: timedelta, max_bytes: int = PAGE_MAX_BYTES) -> Call:
        fields = ",".join(each for each in (self.projection.field_selector, self.field_selector) if each)
        selectors = (("labelSelector", self.label_selector), ("fieldSelector", fields))
        return Call(
            "GET",
            self.projection.resource.path(self.namespace),
            query=(*query, *((name, value) for name, value in selectors if value)),
            headers=(("Accept", accept),),
            timeout=timeout,
            max_bytes=max_bytes,
        )


@dataclass(slots=True)
class Listed(Generic[R]):
    """All objects as of `version`. `lost`: items without readable metadata, so absence proves nothing."""

    records: dict[ObjectKey, R] = field(default_factory=dict)
    version: int = 0
    lost: int = 0

    def take(self, record: R, known: Mapping[ObjectKey, R]) -> None:
        """Add an object; an unchanged one keeps the record that is already held."""
        held = known.get(record.key)
        same = held is not None and held.resource_version == record.resource_version and held.uid == record.uid
        self.records[record.key] = held if same and held is not None else record


async def streamed(http: Http, subject: ListTarget[R], known: Mapping[ObjectKey, R]) -> Listed[R]:
    """By stream. Raises NotStreamed if pages should be tried instead; or ClusterError, HttpError."""
    query = (
        ("watch", "true"),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", str(STREAM_LASTS)),
    )
    call = subject.call(query, accept=subject.projection.accept, timeout=HEADERS_WITHIN)
    loop = asyncio.get_running_loop()
    listed: Listed[R] = Listed()
    try:
        async with asyncio.timeout(None) as patience, http.stream(call, idle=timedelta(seconds=STREAM_LASTS)) as stream:
            if stream.status != 200:
                await _refused(stream, subject)
            patience.reschedule(loop.time() + STREAM_SILENCE)
            async for batch in stream.batches():
                for start in range(0, len(batch), LINES_AT_ONCE):
                    if _gathered(listed, batch[start : start + LINES_AT_ONCE], subject.projection, known):
                        return listed
                    await asyncio.sleep(0)
                patience.reschedule(loop.time() + STREAM_SILENCE)
    except TimeoutError as error:
        # A server that sent objects and no end mark ignores the parameter; one that sent nothing may only be slow.
        ignored = bool(listed.records)
        raise NotStreamed(f"the list of {subject.name} stopped before its end mark", for_good=ignored) from error
    raise NoAnswer(f"the streaming list of {subject.name} stopped before its end")


async def _refused(stream: Stream, subject: ListTarget[R]) -> None:
    refusal = error_for(
        Reply(stream.status, await stream.rest(), stream.headers), f"list {subject.name}", changes=False
    )
    if isinstance(refusal, Refused):  # 1.28 answers 422: forbidden unless the WatchList feature gate is on
        raise NotStreamed(str(refusal), for_good=True) from refusal
    raise refusal


def _gathered(listed: Listed[R], lines: list[bytes], projection: Projection[R], known: Mapping[ObjectKey, R]) -> bool:
    """Read some lines; True once the end mark was among them."""
    for line in lines:
        try:
            verb, said = projection.line(line, known)
        except UnreadableReply:
            listed.lost += bool(line.strip())
            continue
        if isinstance(said, Bookmark):
            if not said.initial_events_end:
                raise NotStreamed("a bookmark came before the end of the list", for_good=True)
            listed.version = said.version
            return True
        if isinstance(said, Status):
            raise error_of(said, f"list {projection.resource.plural}", changes=False)
        if verb == DELETED:
            listed.records.pop(said.key, None)
        else:
            listed.take(said, known)
    return False


async def paged(http: Http, subject: ListTarget[R], known: Mapping[ObjectKey, R]) -> Listed[R]:
    """By pages of one snapshot; when the snapshot expires on the way (410) it starts again, a few times."""
    limit = PAGE
    for _ in range(MAX_FRESH_STARTS):
        try:
            return await _pages(http, subject, known, limit)
        except Expired:
            continue
        except TooLarge:
            if limit == 1:
                raise
            limit = max(1, limit // 8)
    raise ClusterBusy(f"the list of {subject.name} expired {MAX_FRESH_STARTS} times before its end")


async def paged_when_ready(http: Http, subject: ListTarget[R]) -> Listed[R]:
    """For commands, which nothing repeats: in the first seconds of its CRD a kind answers 429, with a time to wait."""
    for _ in range(BUSY_TRIES):
        try:
            return await paged(http, subject, {})
        except ClusterBusy as error:
            if error.retry_after is None or error.retry_after > LONGEST_BUSY:
                raise
            await asyncio.sleep(error.retry_after.total_seconds())
    return await paged(http, subject, {})


async def _pages(http: Http, subject: ListTarget[R], known: Mapping[ObjectKey, R], limit: int) -> Listed[R]:
    listed: Listed[R] = Listed()
    following = ""
    while True:
        query: Pairs = (("limit", str(limit)), *((("continue", following),) if following else ()))
        reply = await http.send(subject.call(query, accept=subject.projection.accept_list, timeout=PAGE_TIMEOUT))
        if not reply.ok:
            raise error_for(reply, f"list {subject.name}", changes=False)
        page = subject.projection.page(reply.content, known)
        for record in page.records:
            listed.take(record, known)
        listed.lost += len(page.unreadable)
        listed.version = listed.version or page.version
        if not page.following:
            return listed
        if page.following == following:
            raise ClusterBusy(f"the list of {subject.name} returned the same page token twice")
        following = page.following
        await asyncio.sleep(0)
