"""Kubernetes Events on users' objects.

Events are written to the core group, not to `events.k8s.io`: `kubectl describe` and `kubectl get events` show both
alike, but only the core form may carry `lastTimestamp` and `count`, without which the common command
`kubectl get events --sort-by=.lastTimestamp`, lists ours first and without a date. True from 1.28 to 1.36.

Recording never waits and never fails: what cannot be written is dropped and counted.
"""

import asyncio
import re
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

import msgspec

from tgp.api.resource import Resource
from tgp.core.model.backoff import doubled
from tgp.core.model.facts import FactSubject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token_bucket import TokenBucket, TokenRate
from tgp.ports.clock import Clock
from tgp.ports.cluster import AlreadyExists, Cluster, ClusterBusy, ClusterError, NotFound, WriteUnknown

CORE_EVENT = Resource("", "v1", "events", "Event", namespaced=True)

MAX_WAITING = 8_192  # different events not yet written: those of a thousand machines at once, and more
# In a burst purchases come first: Events are written more slowly than they arise, with the time at which they did.
WRITES = TokenRate(per_second=20.0, burst=100)
MAX_KNOWN = 4_096  # events, and objects, remembered; client-go's cache has the same size
PER_OBJECT = TokenRate(per_second=1 / 60, burst=25)  # client-go's spam filter: one more a minute after a burst
FORGET_AFTER = timedelta(minutes=50)  # the API server deletes events after an hour: do not update a deleted one
WRITE_TRIES = 3
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 5.0  # seconds between tries
MAX_REASON = 128  # the API server's own bounds
MAX_NAME = 200  # of an event; the API server allows 253
MAX_MESSAGE_BYTES = 1_024  # the bound of events.k8s.io; longer ones only fill etcd

# A last check: nothing secret should come this far. Each pattern matches secrets and none of our texts.
SECRETS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL),
    re.compile(r"\b(?:Bearer|Basic)\s+[A-Za-z0-9+/_.=~-]{8,}", re.IGNORECASE),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"),  # a JSON web token
    re.compile(r"\b(?:tskey|sk|rpa|hskey)[-_][A-Za-z0-9_-]{12,}"),  # Tailscale, generic, RunPod, headscale
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),  # user and password in a URL
    re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b"),  # a Kubernetes bootstrap token
)
NAMED_SECRET = re.compile(r"(?i)\b((?:api[_-]?key|key|token|password|secret)=)[^&\s]+")  # in a query


class Note(msgspec.Struct, frozen=True):
    """Equal notes are one event that happened more than once."""

    subject: FactSubject
    kind: str  # Normal or Warning
    reason: str
    message: str


@dataclass(slots=True)
class Waiting:
    times: int
    last_at: datetime


@dataclass(slots=True)
class KnownEvent:
    """An event that is on the server."""

    name: str
    count: int
    first_at: datetime
    last_at: datetime


class EventRecorder:
    def __init__(self, cluster: Cluster, clock: Clock, instance: str, component: str = "tgp-operator") -> None:
        self._cluster = cluster
        self._clock = clock
        self._instance = instance
        self._component = component
        self._waiting: OrderedDict[Note, Waiting] = OrderedDict()
        self._known: OrderedDict[Note, KnownEvent] = OrderedDict()
        self._buckets: OrderedDict[FactSubject, TokenBucket] = OrderedDict()
        self._woken = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.dropped = 0  # for a metric: queue full, too many for one object, or not writable
        self.written = 0

    def emit(self, subject: FactSubject, *, warning: bool, reason: str, message: str) -> None:
        kind = "Warning" if warning else "Normal"
        self._record(Note(subject, kind, reason[:MAX_REASON], bounded(scrubbed(message))))

    async def run(self) -> None:
        """Write what was recorded, one event at a time, for ever."""
        loop, pace = asyncio.get_running_loop(), TokenBucket(WRITES)
        while True:
            await self._woken.wait()
            while self._waiting:
                if (wait := pace.book(loop.time())) > 0:
                    await asyncio.sleep(wait)
                note, waiting = self._waiting.popitem(last=False)
                if not await self._write(note, waiting):
                    self.dropped += 1
            self._woken.clear()
            self._idle.set()

    async def flushed(self) -> None:
        """Wait until everything recorded so far was written or dropped; put a timeout around it."""
        await self._idle.wait()

    def _record(self, note: Note) -> None:
        now = self._clock.now()
        if (waiting := self._waiting.get(note)) is not None:
            waiting.times += 1
            waiting.last_at = now
            return
        if len(self._waiting) >= MAX_WAITING or not self._allowed(note.subject):
            self.dropped += 1
            return
        self._waiting[note] = Waiting(1, now)
        self._idle.clear()
        self._woken.set()

    def _allowed(self, subject: FactSubject) -> bool:
        """A bucket per object: a flapping object must neither displace the others nor fill etcd."""
        bucket = self._buckets.get(subject) or TokenBucket(PER_OBJECT)
        _remember(self._buckets, subject, bucket)
        return bucket.take(self._clock.boottime())

    async def _write(self, note: Note, waiting: Waiting) -> bool:
        for tries in range(1, WRITE_TRIES + 1):
            try:
                await self._write_once(note, waiting)
            except (ClusterBusy, WriteUnknown):
                # Trying again is safe: a create has a name of its own, and a count is written, not added to.
                if tries < WRITE_TRIES:
                    await asyncio.sleep(doubled(FIRST_PAUSE, tries, LONGEST_PAUSE))
            except ClusterError:
                return False  # not allowed, or its namespace is terminating
            else:
                self.written += 1
                return True
        return False

    async def _write_once(self, note: Note, waiting: Waiting) -> None:
        known = self._known.get(note)
        if known is not None and waiting.last_at - known.last_at < FORGET_AFTER:
            again = KnownEvent(known.name, known.count + waiting.times, known.first_at, waiting.last_at)
            change = {"count": again.count, "lastTimestamp": _time(again.last_at)}
            try:
                await self._cluster.patch(CORE_EVENT, ObjectKey(_namespace(note.subject), known.name), change)
            except NotFound:
                pass  # it expired: create a new one
            else:
                _remember(self._known, note, again)
                return
        fresh = KnownEvent(_name(note, waiting.last_at), waiting.times, waiting.last_at, waiting.last_at)
        with suppress(AlreadyExists):  # our own earlier try
            await self._cluster.create(CORE_EVENT, self._manifest(note, fresh))
        _remember(self._known, note, fresh)

    def _manifest(self, note: Note, event: KnownEvent) -> dict[str, Any]:
        subject = note.subject
        involved = {
            "apiVersion": subject.resource.api_version,
            "kind": subject.resource.kind,
            "name": subject.key.name,
            "uid": subject.uid,
        }
        if subject.key.namespace:
            involved["namespace"] = subject.key.namespace
        return {
            "metadata": {"namespace": _namespace(subject), "name": event.name},
            "involvedObject": involved,
            "type": note.kind,
            "reason": note.reason,
            "message": note.message,
            "count": event.count,
            "firstTimestamp": _time(event.first_at),
            "lastTimestamp": _time(event.last_at),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }


def _namespace(subject: FactSubject) -> str:
    """Events of cluster-scoped objects go to `default`: the API server requires it."""
    return subject.key.namespace or "default"


def _name(note: Note, at: datetime) -> str:
    words = (note.subject.uid, note.kind, note.reason, note.message, at.isoformat())
    digest = blake2b("\0".join(words).encode(), digest_size=8).hexdigest()
    return f"{note.subject.key.name[:MAX_NAME].rstrip('-.')}.{digest}"


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _remember(memory: "OrderedDict[Any, Any]", key: Any, value: Any) -> None:
    """As the newest; the oldest goes when there are too many."""
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > MAX_KNOWN:
        memory.popitem(last=False)


def scrubbed(text: str) -> str:
    """Every reader of the namespace can read an Event."""
    for secret in SECRETS:
        text = secret.sub("***", text)
    return NAMED_SECRET.sub(r"\1***", text)


def bounded(text: str, limit: int = MAX_MESSAGE_BYTES) -> str:
    """At most `limit` bytes of UTF-8, cut between characters, with a mark that it was cut."""
    content = text.encode("utf-8", "replace")
    if len(content) <= limit:
        return content.decode()
    return content[: limit - len("…".encode())].decode("utf-8", "ignore") + "…"
