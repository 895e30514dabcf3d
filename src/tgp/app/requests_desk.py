"""A cluster's requests as one person sees them from a terminal: read, followed, planned, created. Nothing here can buy.

Time is the API server's: it stamps what is compared here, and a terminal's clock may be wrong, or a pretend world's run
faster.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.events import CORE_EVENT
from tgp.adapters.kube.list import Subject, paged
from tgp.adapters.kube.records.event import EventReader
from tgp.adapters.kube.records.kinds import daemon_sets, pods, typed
from tgp.adapters.kube.records.projection import Projection
from tgp.adapters.kube.vault import KubeVault
from tgp.api.decoding import Unreadable, decode
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE
from tgp.app.connect import Connection
from tgp.app.planning import Stall, planned
from tgp.app.shop import Shop
from tgp.controllers.keys import keys_present
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.event import Event
from tgp.core.model.hold import Hold, hold_of
from tgp.core.model.key import Key
from tgp.core.model.record import Record
from tgp.core.model.token import plain_uid
from tgp.core.model.typed import Typed
from tgp.core.model.workload import DaemonSet
from tgp.core.rules.costs import class_of
from tgp.core.rules.default_class import Why, class_for, class_name
from tgp.core.rules.limits import Holding, holding_of
from tgp.core.rules.nodeclass import ClassSight, Gap, backend_of, gaps_of, missing_keys
from tgp.core.rules.secrets import names, wanted_by
from tgp.ports.clock import Clock
from tgp.ports.cluster import (
    AlreadyExists,
    ClusterBusy,
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
from tgp.surfaces.cli.status_view import Standing
from tgp.surfaces.cli.watch_view import Look
from tgp.surfaces.cli.why_view import Enquiry, Holder

NO_KINDS = "the cluster does not know our kinds: tgp crds apply"
LOOK_EVERY = 1.0  # seconds between two looks at one object: quick enough to look alive
EVENTS_EVERY = 3  # looks between two lists of its Events
CLOCK_STEP = timedelta(seconds=2)  # stamps have whole seconds, and one server may lag another
NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, no words; as Kubernetes generates names
SUFFIX = 5
LONGEST_STEM = 50
ABOUT_SECRETS = frozenset({"CredentialsMissing", "SecretMissing"})  # reasons that were looked at just now

R = TypeVar("R", bound=Record)
Market = Callable[[tuple[str, ...]], AbstractAsyncContextManager[Shop]]


class RequestsDesk:
    def __init__(self, connection: Connection, market: Market) -> None:
        self._told = ToldTime(connection.http, connection.clock)
        self._cluster = KubeCluster(self._told, connection.entropy)
        self._entropy = connection.entropy
        self._operator_namespace = connection.namespace
        self._vault = KubeVault(self._cluster, connection.namespace)
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
            except ClusterError as error:
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
            found = await self._listed(subject)
        except ClusterError:
            return known
        dated = [(event.at, event.key, event) for event in found if event.at is not None]
        return tuple(event for _, _, event in sorted(dated, key=lambda each: each[:2]))

    # -- tgp why -------------------------------------------------------------------------------------------------------

    async def enquire(self, key: Key) -> Enquiry:
        request = await self.request(self._placed(key))
        meant = class_name(request, await self._classes())
        name = meant if isinstance(meant, str) else ""
        records = await self._all_requests()
        hold = await self._hold()
        node_class = await self._class_of(name)
        waiting = request.status.phase in (None, "Pending") and not request.metadata.deletion_timestamp
        return Enquiry(
            request,
            self._told.now(),
            name,
            node_class,
            str(hold) if hold is not None else "",
            hold is not None,
            None if records is None else tuple(_holders(records, name)) if name else (),
            await self._gaps(node_class) if node_class is not None and waiting else (),
            await self.plan(request) if waiting else None,
        )

    async def _gaps(self, node_class: GPUNodeClass) -> tuple[Gap, ...]:
        """What the class misses now, as far as these rights can see; else what its conditions say."""
        secrets, forbidden = await keys_present(names(wanted_by(node_class, backend_of(node_class, ""))), self._vault)
        if forbidden:
            return _told_gaps(node_class)
        sight = ClassSight(node_class, secrets, self._operator_namespace, "", frozenset())
        found = dict.fromkeys((*gaps_of(sight), *missing_keys(sight)))
        if not found:
            found = dict.fromkeys(gap for gap in _told_gaps(node_class) if gap.reason not in ABOUT_SECRETS)
        return tuple(found)

    # -- tgp status ----------------------------------------------------------------------------------------------------

    async def standing(self, namespace: str) -> Standing:
        """Of every namespace, or of the kubeconfig's own where these rights reach no further."""
        only = ""
        records = [] if namespace else await self._all_requests()
        if records is None:
            only = namespace = self.namespace
        if namespace:
            try:
                records = await self._listed(Subject(typed(GPU_REQUEST, GPURequest), namespace))
            except NotFound as error:
                raise NotFound(NO_KINDS) from error
        requests = tuple(record.object for record in records or () if record.object is not None)
        names = {request.status.node_name for request in requests}
        return Standing(self._told.now(), requests, await self._pods_on({name for name in names if name}), only)

    async def _pods_on(self, nodes: Collection[str]) -> Mapping[str, int] | None:
        """How many pods are on each, but for those of DaemonSets. None: these rights do not reach so far."""
        found = dict.fromkeys(nodes, 0)
        try:
            listed = await self._listed(Subject(pods())) if nodes else []
        except Forbidden:
            return None
        for pod in listed:
            if pod.node in found and not pod.finished and not any(owner.kind == "DaemonSet" for owner in pod.owners):
                found[pod.node] += 1
        return found

    # -- tgp rent ------------------------------------------------------------------------------------------------------

    def fresh_name(self, stem: str) -> str:
        letters = (NAME_LETTERS[byte % len(NAME_LETTERS)] for byte in self._entropy.token(SUFFIX))
        return f"{_slug(stem)[:LONGEST_STEM].strip('-.') or 'gpu'}-{''.join(letters)}"

    async def plan(self, request: GPURequest) -> Plan:
        """Asks the providers whose keys are at hand; of the others the class's status says what was last seen."""
        classes, records, hold = await self._classes(), await self._all_requests(), await self._hold()
        labels = await self._labels(request.metadata.namespace)
        name = class_name(request, classes)
        verdict = class_for(request, classes, namespace_labels=labels or {}, allowed_namespaces_required=False)
        why = verdict if isinstance(verdict, Why) else None
        if why is not None and why.reason == "NamespaceNotAllowed" and labels is None:
            why = None  # nobody who may not read the labels can tell
        meant = name if isinstance(name, str) else ""
        stall = Stall(
            request,
            meant,
            next((record.object for record in classes if record.key.name == meant), None),
            why,
            self._told.now(),
            None if records is None else tuple(_held(records, meant)),
            str(hold) if hold is not None else "",
            await self._daemon_sets(),
        )
        async with self._market(()) as shop:
            return await planned(stall, shop)

    async def create(self, manifest: Mapping[str, Any]) -> None:
        """Its name was free, or is refused; a lost answer is looked up, never sent again."""
        meta = manifest["metadata"]
        key, began = Key(meta["namespace"], meta["name"]), self._told.now()
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
            await self._look_up(key, began, error)

    async def _look_up(self, key: Key, began: datetime, error: WriteUnknown) -> None:
        try:
            found = await self.request(key)
        except ClusterError:
            raise WriteUnknown(
                f"whether {key} was created is not known ({error}): look with `kubectl get gpurequest {key.name} "
                f"-n {key.namespace}` before you rent again"
            ) from error
        made = found.metadata.creation_timestamp
        if made is None or made < began - CLOCK_STEP:
            raise AlreadyExists(f"there was a request {key} before: tgp why request/{key}, or choose another --name")

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
            return await self._listed(Subject(typed(GPU_REQUEST, GPURequest)))
        except Forbidden:
            return None
        except NotFound as error:
            raise NotFound(NO_KINDS) from error

    async def _classes(self) -> list[Typed[GPUNodeClass]]:
        """Who may not list them sees none."""
        try:
            return await self._listed(Subject(typed(GPU_NODE_CLASS, GPUNodeClass)))
        except (Forbidden, NotFound):
            return []

    async def _daemon_sets(self) -> tuple[DaemonSet, ...] | None:
        """None: these rights do not reach so far."""
        try:
            return tuple(await self._listed(Subject(daemon_sets())))
        except Forbidden:
            return None

    async def _labels(self, namespace: str) -> Mapping[str, str] | None:
        """Of a namespace; None: it may not be read. Raises NotFound."""
        try:
            found = await self._cluster.read(NAMESPACE, Key("", namespace))
        except Forbidden:
            return None
        except NotFound as error:
            raise NotFound(f"there is no namespace {namespace}") from error
        labels = found.get("metadata", {}).get("labels") or {}
        return {str(name): str(value) for name, value in labels.items()}

    async def _class_of(self, name: str) -> GPUNodeClass | None:
        if not name:
            return None
        try:
            found = decode(GPUNodeClass, await self._cluster.read(GPU_NODE_CLASS, Key("", name)))
        except (NotFound, Forbidden):
            return None
        return None if isinstance(found, Unreadable) else found

    async def _hold(self) -> Hold | None:
        """What `tgp hold` wrote; None: nothing, or nothing these rights can see."""
        try:
            namespace = await self._cluster.read(NAMESPACE, Key("", self._operator_namespace))
        except (NotFound, Forbidden):
            return None
        return hold_of(namespace.get("metadata", {}).get("annotations") or {})

    async def _listed(self, subject: Subject[R]) -> list[R]:
        """In the order of their names. Whatever goes wrong is a ClusterError."""
        try:
            listed = await paged(self._told, subject, {})
        except (HttpError, BadAnswer) as error:
            raise ClusterBusy(f"listing {subject.name}: {error}") from error
        return sorted(listed.records.values(), key=lambda record: record.key)

    def _placed(self, key: Key) -> Key:
        return key if key.namespace else Key(self.namespace, key.name)


def _held(records: Iterable[Typed[GPURequest]], node_class: str) -> Iterable[Holding]:
    for record in records:
        attempt = None if copied(record) else open_attempt(attempts_of(record))
        if attempt is not None and class_of(record) == node_class:
            yield holding_of(plain_uid(record.uid_text), attempt)


def _holders(records: Iterable[Typed[GPURequest]], node_class: str) -> Iterable[Holder]:
    for record in records:
        attempt = None if copied(record) else open_attempt(attempts_of(record))
        if attempt is not None and class_of(record) == node_class:
            phase = record.object.status.phase if record.object is not None else None
            yield Holder(record.key, phase or "?", holding_of("", attempt).microusd)


def _told_gaps(node_class: GPUNodeClass) -> tuple[Gap, ...]:
    """As the operator last wrote them."""
    told = (each for each in node_class.status.conditions if each.type in ("Ready", "CanBuy", "OffersFresh"))
    return tuple(Gap(each.reason, each.message) for each in told if each.status == "False")


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
