"""A cluster's requests as one person sees them from a terminal: read, followed, planned, created. Nothing here can buy.

Time is the API server's: it stamps what is compared here, and a terminal's clock may be wrong, or a pretend world's run
faster.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from email.utils import parsedate_to_datetime
from typing import Any

from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.events import CORE_EVENT
from tgp.adapters.kube.list import Subject, paged
from tgp.adapters.kube.records.event import EventReader
from tgp.adapters.kube.records.kinds import typed
from tgp.adapters.kube.records.projection import Projection
from tgp.api.decoding import Unreadable, decode
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE
from tgp.app.connect import Connection
from tgp.app.planning import Stall, planned
from tgp.app.shop import Shop
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.event import Event
from tgp.core.model.hold import hold_of
from tgp.core.model.key import Key
from tgp.core.model.token import plain_uid
from tgp.core.model.typed import Typed
from tgp.core.rules.costs import class_of
from tgp.core.rules.limits import holding_of
from tgp.ports.clock import Clock
from tgp.ports.cluster import (
    AlreadyExists,
    ClusterError,
    Forbidden,
    NotFound,
    Refused,
    Unauthenticated,
    WriteUnknown,
)
from tgp.ports.http import Call, Http, HttpError, Reply, Stream
from tgp.ports.http import Unreadable as BadAnswer
from tgp.surfaces.cli.rent_view import Plan
from tgp.surfaces.cli.watch_view import Look
from tgp.surfaces.cli.why_view import Enquiry, Holder

LOOK_EVERY = 1.0  # seconds between two looks at one object: quick enough to look alive
EVENTS_EVERY = 3  # looks between two lists of its Events
NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, no words; as Kubernetes generates names
SUFFIX = 5
LONGEST_STEM = 50
DEFAULT_CLASS = "tgp.io/is-default-class"

Market = Callable[[tuple[str, ...]], AbstractAsyncContextManager[Shop]]


class RequestsDesk:
    def __init__(self, connection: Connection, market: Market) -> None:
        self._told = ToldTime(connection.http, connection.clock)
        self._cluster = KubeCluster(self._told, connection.entropy)
        self._entropy = connection.entropy
        self._operator_namespace = connection.namespace
        self._market = market
        self.namespace = connection.home

    # -- tgp watch -----------------------------------------------------------------------------------------------------

    async def follow(self, key: Key) -> AsyncGenerator[Look, None]:
        """Look after look. Once it was seen, nothing but its end ends this: clusters come back."""
        key, looks = self._placed(key), 0
        request: GPURequest | None = None
        events: tuple[Event, ...] = ()
        while True:
            try:
                found = await self.request(key)
            except NotFound:
                if request is None:
                    raise
                yield Look(None, self._told.now(), events)
                return
            except (ClusterError, HttpError) as error:
                if request is None and isinstance(error, Forbidden | Unauthenticated | Refused):
                    raise
                yield Look(request, self._told.now(), events, trouble=str(error))
            else:
                if request is not None and found.metadata.uid != request.metadata.uid:  # another one under its name
                    yield Look(None, self._told.now(), events)
                    return
                request = found
                events = events if looks % EVENTS_EVERY else await self._events_of(request, events)
                yield Look(request, self._told.now(), events)
                looks += 1
            await asyncio.sleep(LOOK_EVERY)

    async def _events_of(self, request: GPURequest, known: tuple[Event, ...]) -> tuple[Event, ...]:
        """The oldest first. They are an extra: who may not read them sees the rest."""
        meta = request.metadata
        events: Projection[Event] = Projection(CORE_EVENT, EventReader())
        subject = Subject(events, meta.namespace, field_selector=f"involvedObject.uid={meta.uid}")
        try:
            listed = await paged(self._told, subject, {})
        except (ClusterError, HttpError, BadAnswer):
            return known
        dated = [(event.at, event.key, event) for event in listed.records.values() if event.at is not None]
        return tuple(event for _, _, event in sorted(dated, key=lambda each: each[:2]))

    # -- tgp why -------------------------------------------------------------------------------------------------------

    async def enquire(self, key: Key) -> Enquiry:
        request = await self.request(self._placed(key))
        ref = request.spec.node_class_ref
        name = request.status.node_class or (ref.name if ref is not None else "")
        if not name:
            name, _ = chosen_class("", await self._classes())
        records = await self._all_requests()
        hold = await self._hold()
        return Enquiry(
            request,
            self._told.now(),
            name,
            await self._class_of(name),
            str(hold) if hold is not None else "",
            hold is not None,
            None if records is None else tuple(_holders(records, name)) if name else (),
        )

    # -- tgp rent ------------------------------------------------------------------------------------------------------

    def fresh_name(self, stem: str) -> str:
        letters = (NAME_LETTERS[byte % len(NAME_LETTERS)] for byte in self._entropy.token(SUFFIX))
        return f"{_slug(stem)[:LONGEST_STEM].strip('-.') or 'gpu'}-{''.join(letters)}"

    async def plan(self, request: GPURequest) -> Plan:
        """Asks the providers whose keys are at hand; of the others the class's status says what was last seen."""
        ref = request.spec.node_class_ref
        classes = await self._classes()
        name, why = chosen_class(ref.name if ref is not None else "", classes)
        node_class = classes.get(name)
        records, hold = await self._all_requests(), await self._hold()
        held = None
        if records is not None:
            held = tuple(
                holding_of(plain_uid(record.uid_text), attempt)
                for record in records
                if class_of(record) == name and not copied(record)
                if (attempt := open_attempt(attempts_of(record))) is not None
            )
        async with self._market(()) as shop:
            stall = Stall(request, name, node_class, why, held, str(hold) if hold is not None else "", self._told.now())
            return await planned(stall, shop)

    async def create(self, manifest: Mapping[str, Any]) -> None:
        """Its name was free, or is refused; a lost answer is looked up, never sent again."""
        meta = manifest["metadata"]
        key = Key(meta["namespace"], meta["name"])
        try:
            await self._cluster.create(GPU_REQUEST, manifest)
        except AlreadyExists as error:
            raise AlreadyExists(
                f"there is a request {key} already: tgp why request/{key}, or choose another --name"
            ) from error
        except NotFound as error:
            raise NotFound(
                f"the cluster has no namespace {key.namespace}, or not our kinds (tgp crds apply): {error}"
            ) from error
        except WriteUnknown as error:
            await self._look_up(key, error)

    async def _look_up(self, key: Key, error: WriteUnknown) -> None:
        try:
            await self._cluster.read(GPU_REQUEST, key)
        except ClusterError:
            raise WriteUnknown(
                f"whether {key} was created is not known ({error}): look with `kubectl get gpurequest {key.name} "
                f"-n {key.namespace}` before you rent again"
            ) from error

    # -- what all of them read -----------------------------------------------------------------------------------------

    async def request(self, key: Key) -> GPURequest:
        """Raises NotFound with the nearest names; ClusterError for one that only a newer release can read."""
        try:
            document = await self._cluster.read(GPU_REQUEST, key)
        except NotFound as error:
            raise NotFound(await self._not_there(key)) from error
        request = decode(GPURequest, document)
        if isinstance(request, Unreadable):
            raise ClusterError(
                f"request {key} was written by a newer version: upgrade, or kubectl get gpurequest {key.name} "
                f"-n {key.namespace} -o yaml ({request.why})"
            )
        return request

    async def _not_there(self, key: Key) -> str:
        records = await self._all_requests() or ()
        here = [record.key.name for record in records if record.key.namespace == key.namespace]
        elsewhere = [str(record.key) for record in records if record.key.name == key.name]
        near = elsewhere or get_close_matches(key.name, sorted(here), n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else "; see kubectl get gpurequests -A"
        return f"there is no request {key}{hint}"

    async def _all_requests(self) -> list[Typed[GPURequest]] | None:
        """None: these rights do not reach so far."""
        try:
            listed = await paged(self._told, Subject(typed(GPU_REQUEST, GPURequest)), {})
        except Forbidden:
            return None
        return sorted(listed.records.values(), key=lambda record: record.key)

    async def _classes(self) -> Mapping[str, GPUNodeClass]:
        """By name; those only a newer version can read are left out. Who may not list them sees none."""
        try:
            listed = await paged(self._told, Subject(typed(GPU_NODE_CLASS, GPUNodeClass)), {})
        except (Forbidden, NotFound):
            return {}
        return {key.name: record.object for key, record in listed.records.items() if record.object is not None}

    async def _class_of(self, name: str) -> GPUNodeClass | None:
        if not name:
            return None
        try:
            found = decode(GPUNodeClass, await self._cluster.read(GPU_NODE_CLASS, Key("", name)))
        except (NotFound, Forbidden):
            return None
        return None if isinstance(found, Unreadable) else found

    async def _hold(self) -> Any:
        """What `tgp hold` wrote; None: nothing, or nothing these rights can see."""
        try:
            namespace = await self._cluster.read(NAMESPACE, Key("", self._operator_namespace))
        except (NotFound, Forbidden):
            return None
        return hold_of(namespace.get("metadata", {}).get("annotations") or {})

    def _placed(self, key: Key) -> Key:
        return key if key.namespace else Key(self.namespace, key.name)


def chosen_class(named: str, classes: Mapping[str, GPUNodeClass]) -> tuple[str, str]:
    """The class a request would be rented by, or why there is none."""
    if named:
        near = get_close_matches(named, sorted(classes), n=1)
        hint = f"; did you mean {near[0]}?" if near else "; see kubectl get gpunodeclasses"
        return named, "" if named in classes else f"there is no GPUNodeClass {named}{hint}"
    defaults = [name for name in sorted(classes) if classes[name].metadata.annotations.get(DEFAULT_CLASS) == "true"]
    if len(defaults) > 1:
        return "", f"several classes are the default one: {', '.join(defaults)}; say --class"
    if defaults or len(classes) == 1:
        return (defaults or list(classes))[0], ""
    if classes:
        return "", f"no class is the default one; say --class, one of {', '.join(sorted(classes))}"
    return "", "there is no GPUNodeClass; the operator would rent with the keys in its own Secret, if there are any"


def _holders(records: Iterable[Typed[GPURequest]], node_class: str) -> Iterable[Holder]:
    for record in records:
        attempt = None if copied(record) else open_attempt(attempts_of(record))
        if attempt is not None and class_of(record) == node_class:
            phase = record.object.status.phase if record.object is not None else None
            yield Holder(record.key, phase or "?", holding_of("", attempt).microusd)


def _slug(text: str) -> str:
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in text.lower())


@dataclass(slots=True)
class ToldTime:
    """The API server's clock by its last answer; the terminal's own until there was one."""

    inner: Http
    clock: Clock
    _date: datetime | None = None
    _at: float = 0.0

    def now(self) -> datetime:
        if self._date is None:
            return self.clock.now()
        return self._date + timedelta(seconds=self.clock.boottime() - self._at)

    async def send(self, call: Call) -> Reply:
        reply = await self.inner.send(call)
        try:
            self._date = parsedate_to_datetime(reply.header("Date")).astimezone(UTC)
        except (ValueError, TypeError, IndexError, OverflowError):
            return reply
        self._at = self.clock.boottime()
        return reply

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        return self.inner.stream(call, idle=idle)
