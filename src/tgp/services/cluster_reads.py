"""Reads of one cluster with a user's kubeconfig, for the services of a terminal. Nothing here writes.

Time is the API server's, whose timestamps are compared: a terminal's clock may be wrong, and a demo's runs faster.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.connect import Connection
from tgp.adapters.kube.errors import error_for
from tgp.adapters.kube.events import CORE_EVENT
from tgp.adapters.kube.list import ListTarget, paged_when_ready
from tgp.adapters.kube.records.event import EventReader
from tgp.adapters.kube.records.kinds import daemon_sets, typed
from tgp.adapters.kube.records.projection import Projection
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import CONFIG_MAP, GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE
from tgp.controllers.instances.spend_log import SpendLog
from tgp.core.model.event import Event
from tgp.core.model.hold import Hold, hold_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord
from tgp.core.model.spend import SpendEntry
from tgp.core.model.workload import DaemonSet
from tgp.core.pools import machine_types, runaway
from tgp.core.pools.machine_types import SHAPES, SeenShape
from tgp.core.pools.runaway import UNUSABLE, UnusableMachine
from tgp.ports.clock import Clock
from tgp.ports.cluster import ClusterBusy, ClusterError, Forbidden, KindsMissing, NotFound
from tgp.ports.http import Answered, Call, Http, HttpError, Reply, UnreadableReply, WrappedHttp
from tgp.services.chart_settings import ChartSettings, chart_settings

PAGE = 500  # objects of one answer
NO_KINDS = "the CRDs of group tgp.io are not installed"

E = TypeVar("E")
R = TypeVar("R", bound=ObjectRecord)


class ClusterReads:
    def __init__(self, connection: Connection) -> None:
        self._server_time = ServerTime(connection.http, connection.clock)
        self.cluster = KubeCluster(self._server_time, connection.entropy)
        self.http = connection.http
        self.operator_namespace = connection.namespace
        self.namespace = connection.home  # the kubeconfig's own

    def now(self) -> datetime:
        """By the API server's clock."""
        return self._server_time.now()

    async def listed(self, subject: ListTarget[R]) -> list[R]:
        """Ordered by name. Every failure is a ClusterError."""
        try:
            listed = await paged_when_ready(self._server_time, subject)
        except (HttpError, UnreadableReply) as error:
            raise ClusterBusy(f"listing {subject.name}: {error}") from error
        return sorted(listed.records.values(), key=lambda record: record.key)

    async def requests(self) -> list[KubeObject[GPURequest]] | None:
        """None: the user may not list them."""
        try:
            return await self.listed(ListTarget(typed(GPU_REQUEST, GPURequest)))
        except Forbidden:
            return None
        except NotFound as error:
            raise KindsMissing(NO_KINDS) from error

    async def classes(self) -> list[KubeObject[GPUNodeClass]]:
        """Empty if the user may not list them."""
        try:
            return await self.listed(ListTarget(typed(GPU_NODE_CLASS, GPUNodeClass)))
        except (Forbidden, NotFound):
            return []

    async def daemon_sets(self) -> tuple[DaemonSet, ...] | None:
        """None: the user may not list them."""
        try:
            return tuple(await self.listed(ListTarget(daemon_sets())))
        except Forbidden:
            return None

    async def hold(self) -> Hold | None:
        """What `tgp hold` wrote; None: nothing, or the user may not read it."""
        return hold_of(await self.home())

    async def home(self) -> Mapping[str, str]:
        """The annotations of the operator's Namespace; none if the user may not read it."""
        try:
            namespace = await self.cluster.read(NAMESPACE, ObjectKey("", self.operator_namespace))
        except (NotFound, Forbidden):
            return {}
        return namespace.get("metadata", {}).get("annotations") or {}

    async def chart_settings(self) -> ChartSettings:
        """The usual ones if the user may not read them."""
        try:
            return await chart_settings(self.cluster, self.operator_namespace)
        except Forbidden:
            return ChartSettings()

    async def shapes(self) -> tuple[SeenShape, ...] | None:
        """What machines of a type really had, as the operator remembers it. None: the user may not read it."""
        return await self._remembered(SHAPES, machine_types.read_line)

    async def unusable(self) -> tuple[UnusableMachine, ...] | None:
        """Machines that did not serve their pods, as the operator remembers them. None: the user may not read it."""
        return await self._remembered(UNUSABLE, runaway.read_line)

    async def recent_spend(self) -> tuple[SpendEntry, ...]:
        """Of this month and the one before. Nothing where it cannot be read: losses of spot machines are assumed."""
        try:
            return await SpendLog(self.cluster, self.operator_namespace).recent(self.now())
        except ClusterError:
            return ()

    async def _remembered(self, table: str, read_line: Callable[[object], E | None]) -> tuple[E, ...] | None:
        try:
            found = await self.cluster.read(CONFIG_MAP, ObjectKey(self.operator_namespace, table))
        except NotFound:
            return ()
        except Forbidden:
            return None
        return tuple(entry for line in (found.get("data") or {}).values() if (entry := read_line(line)) is not None)

    async def events(self, namespace: str, uid: str) -> tuple[Event, ...] | None:
        """Of one object: the oldest first, those of one second as they were written. None: they cannot be read."""
        events: Projection[Event] = Projection(CORE_EVENT, EventReader())
        try:
            found = await self.listed(ListTarget(events, namespace, field_selector=f"involvedObject.uid={uid}"))
        except ClusterError:
            return None
        dated = [(event.at, event.resource_version, event.key, event) for event in found if event.at is not None]
        return tuple(each[-1] for each in sorted(dated, key=lambda each: each[:3]))


async def config_maps(http: Http, namespace: str, labels: str) -> list[dict[str, Any]]:
    """Those of a namespace with these labels, whole, page by page. Raises ClusterError."""
    found: list[dict[str, Any]] = []
    following = ""
    while True:
        query = (("labelSelector", labels), ("limit", str(PAGE)), *((("continue", following),) if following else ()))
        reply = await http.send(Call("GET", CONFIG_MAP.path(namespace), query))
        if not reply.ok:
            raise error_for(reply, "list configmaps", changes=False)
        page = reply.json()
        found += page.get("items") or []
        following = (page.get("metadata") or {}).get("continue") or ""
        if not following:
            return found


class ServerTime(WrappedHttp):
    """The API server's clock, from its last answer; the terminal's own before the first one."""

    def __init__(self, inner: Http, clock: Clock) -> None:
        super().__init__(inner)
        self._clock = clock
        self._date: datetime | None = None
        self._at = 0.0

    def now(self) -> datetime:
        if self._date is None:
            return self._clock.now()
        return self._date + timedelta(seconds=self._clock.boottime() - self._at)

    def _sent(self, call: Call) -> Answered:  # noqa: ARG002 - every call is alike
        return self._heard

    def _heard(self, reply: Reply | None) -> None:
        if reply is None:
            return
        try:
            self._date = parsedate_to_datetime(reply.header("Date")).astimezone(UTC)
        except (ValueError, TypeError, IndexError, OverflowError):
            return
        self._at = self._clock.boottime()
