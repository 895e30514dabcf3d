"""The `Cluster` port of one process, straight to the objects: the same fates as on the wire, without one.

As there, a call lives in two places: until it leaves it belongs to its process; from then on it arrives, happens and is
answered whether or not the caller is still there to receive it.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tgp.api.resource import POD, Resource
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import ClusterBusy, ClusterError, Conflict, NotFound, WriteUnknown, Written
from tgp.ports.http import DEFAULT_TIMEOUT, Call
from tgp.ports.leadership import Fence, NotLeading
from tgp.sim.apiserver.json_value import Json
from tgp.sim.cluster.machines import VERSION
from tgp.sim.fast.world import FastWorld
from tgp.sim.faults import OF_CALLS, Fault
from tgp.sim.plans import Act, FaultPlan
from tgp.sim.process import Host
from tgp.sim.router import BREAK_NOTICED, REFUSED_AFTER, Exchange, begin
from tgp.sim.world import KUBERNETES

READ_TRIES = 3
READ_AGAIN_AFTER = 0.5  # seconds
TIMEOUT = DEFAULT_TIMEOUT.total_seconds()
NEAR = (0.001, 0.010)  # seconds each way
CONDITIONAL = b'{"resourceVersion"}'  # all that a recorder needs of a write
OF_WRITES = (
    *OF_CALLS,
    Fault.API_CONFLICT,
    Fault.API_BUSY,
    Fault.API_ERROR,
    Fault.API_ERROR_AFTER,
    Fault.API_TIMEOUT_AFTER,
)
NEVER_HAPPENS = frozenset(
    {
        Fault.LOST,
        Fault.PROXY,
        Fault.BUSY,
        Fault.ERROR,
        Fault.API_CONFLICT,
        Fault.API_BUSY,
        Fault.API_ERROR,
    }
)
UNHEARD = frozenset({Fault.LOST, Fault.LOST_ANSWER, Fault.SLOW})
BUSY = frozenset({Fault.BUSY, Fault.API_BUSY})
RETRY_AFTER = timedelta(seconds=1)
NO_PROCESS = Context()  # calls on their way belong to no process


@dataclass(slots=True)
class _Sent:
    """A call that left."""

    exchange: Exchange
    deed: Callable[[], Any]
    fault: Fault | None
    answer: "asyncio.Future[Any]"
    plan: FaultPlan | None = None


class FastCluster:
    """`fence` as for the real one: every write is good for no longer than this process leads."""

    def __init__(self, world: FastWorld, host: Host, fence: Fence, heard: Callable[[float], None]) -> None:
        self._world = world
        self._host = host
        self._fence = fence
        # called with the time when each answered call was sent (Clock.boottime): it brings the server's time
        self._heard = heard
        self._luck = world.network.luck(host.name)
        self._of_reads, self._of_writes = world.dice(OF_CALLS), world.dice(OF_WRITES)

    async def read(self, resource: Resource, key: ObjectKey) -> dict[str, Any]:
        for _ in range(READ_TRIES - 1):
            try:
                return await self._read_once(resource, key)
            except ClusterBusy:
                await asyncio.sleep(READ_AGAIN_AFTER)
        return await self._read_once(resource, key)

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Written:
        return await self._write("POST", resource, _key(manifest), lambda: self._objects.create(resource, manifest))

    async def patch(
        self,
        resource: Resource,
        key: ObjectKey,
        change: Mapping[str, Any],
        *,
        resource_version: str = "",
        uid: str = "",
    ) -> Written:
        written = await self._write(
            "PATCH",
            resource,
            key,
            lambda: self._objects.patch(resource, key, change, resource_version=resource_version, uid=uid),
            conditional=bool(resource_version),
        )
        if resource_version and written.resource_version == resource_version:
            return Written(written.resource_version, written.uid, written.generation, changed=False)
        return written

    async def apply(self, resource: Resource, manifest: Mapping[str, Any], *, force: bool = False) -> Written:
        raise AssertionError(f"no client applies a {resource.kind} here: {manifest}, {force}")

    async def write_status(
        self,
        resource: Resource,
        key: ObjectKey,
        *,
        uid: str,
        seen: Mapping[str, Any],
        status: Mapping[str, Any],
        resource_version: str = "",
    ) -> Written:
        change = _difference(seen, status)
        if not change:
            return Written("", uid, 0, changed=False)
        return await self._write(
            "PATCH",
            resource,
            key,
            lambda: self._objects.patch(
                resource, key, {"status": change}, resource_version=resource_version, uid=uid, status=True
            ),
            conditional=bool(resource_version),
        )

    async def delete(self, resource: Resource, key: ObjectKey, *, uid: str = "", resource_version: str = "") -> None:
        try:
            await self._change(
                "DELETE",
                resource,
                key,
                lambda: self._objects.delete(resource, key, uid=uid, resource_version=resource_version),
            )
        except NotFound:
            return

    async def evict(self, pod: ObjectKey, *, uid: str, grace: timedelta | None = None) -> None:  # noqa: ARG002 - at once
        await self.delete(POD, pod, uid=uid)

    async def approve(self, name: str, **how: object) -> Written:
        raise AssertionError(f"no client requests certificates here: {name}, {how}")

    async def version(self) -> str:
        return VERSION

    async def groups(self) -> frozenset[str]:
        raise AssertionError("this server has no discovery")

    # -- on the way ----------------------------------------------------------------------------------------------------

    @property
    def _objects(self) -> Any:
        return self._world.objects

    async def _read_once(self, resource: Resource, key: ObjectKey) -> dict[str, Any]:
        def deed() -> Json:
            found = self._world.objects.get(resource, key)
            if found is None:
                raise NotFound(f"there is no {resource.kind} {key}")
            return found

        found: Json = await self._send(Call("GET", f"/{resource.plural}/{key.name}"), deed)
        return found

    async def _write(
        self, method: str, resource: Resource, key: ObjectKey, deed: Callable[[], Json], *, conditional: bool = False
    ) -> Written:
        stored: Json = await self._change(method, resource, key, deed, conditional=conditional)
        meta = stored["metadata"]
        return Written(meta["resourceVersion"], meta["uid"], meta.get("generation", 0), changed=True)

    async def _change(
        self, method: str, resource: Resource, key: ObjectKey, deed: Callable[[], Any], *, conditional: bool = False
    ) -> Any:
        deadline = self._fence.deadline()
        if deadline is None:
            raise NotLeading(f"{method} {resource.kind} {key}: this replica does not lead")
        body = CONDITIONAL if conditional else b""
        path = f"/{resource.plural}/{key.name}"
        return await self._send(Call(method, path, body=body, not_after=deadline), deed)

    async def _send(self, call: Call, deed: Callable[[], Any]) -> Any:
        host, network = self._host, self._world.network
        if host.gone:
            await host.for_ever()
        plan = network.count_effect(host, KUBERNETES, call) if call.changes_things else None
        if plan is not None:
            await begin(plan, host)
        fault = None if plan is not None or self._world.calm_now else self._fault(call)
        if fault is Fault.REFUSED:
            await asyncio.sleep(REFUSED_AFTER)
            raise ClusterBusy(f"{call.method} {call.path}: the connection was refused")
        if network.is_cut_off(host.name, KUBERNETES):
            await asyncio.sleep(TIMEOUT)
            raise ClusterBusy(f"{call.method} {call.path}: no connection within {DEFAULT_TIMEOUT}")
        left = host.clock.boottime()
        if call.not_after is not None and left > call.not_after:
            raise ClusterBusy(f"{call.method} {call.path}: too late to be sent")
        answer = await self._leave(call, deed, fault, plan)
        self._heard(left)
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    def _fault(self, call: Call) -> Fault | None:
        return (self._of_writes if call.changes_things else self._of_reads).draw(self._luck)

    def _leave(
        self, call: Call, deed: Callable[[], Any], fault: Fault | None, plan: FaultPlan | None
    ) -> "asyncio.Future[Any]":
        network, loop = self._world.network, self._world.loop
        endpoint = network.endpoint(KUBERNETES)
        assert endpoint is not None, "it is mounted with the world"
        exchange = Exchange(endpoint, call, self._host, fault)
        if call.changes_things:
            for tap in network.taps:
                tap.written(exchange)
        sent = _Sent(exchange, deed, fault, loop.create_future(), plan)
        loop.call_later(self._luck.uniform(*NEAR), self._arrive, sent, context=NO_PROCESS)
        return sent.answer

    def _arrive(self, sent: _Sent) -> None:
        fault, loop = sent.fault, self._world.loop
        if self._world.network.is_cut_off(self._host.name, KUBERNETES):
            fault = Fault.LOST
        answer: Any = None
        if fault not in NEVER_HAPPENS:
            try:
                answer = sent.deed()
            except ClusterError as error:
                answer = error
        if sent.plan is not None and sent.plan.act is Act.CRASH_AFTER:
            self._host.process.crash()
            return
        if fault is None:
            loop.call_later(self._luck.uniform(*NEAR), self._hear, sent, answer, context=NO_PROCESS)
            return
        self._world.trace.note(self._host.name, "fault", fault, sent.exchange.call.method, sent.exchange.call.path)
        wait = self._luck.uniform(*NEAR)
        if fault in UNHEARD:
            noticed = fault is not Fault.SLOW and self._luck.random() < 0.5
            wait = self._luck.uniform(*BREAK_NOTICED) if noticed else TIMEOUT
        loop.call_later(wait, self._hear, sent, self._meaning(fault, sent.exchange.call), context=NO_PROCESS)

    def _meaning(self, fault: Fault, call: Call) -> ClusterError:
        what = f"{call.method} {call.path}: {fault}"
        if fault in BUSY:
            return ClusterBusy(what, RETRY_AFTER)
        if fault is Fault.API_CONFLICT:
            return Conflict(what)
        return WriteUnknown(what) if call.changes_things else ClusterBusy(what)

    def _hear(self, sent: _Sent, answer: Any) -> None:
        if sent.answer.done() or self._host.gone:
            return
        if self._world.network.is_cut_off(self._host.name, KUBERNETES) and not isinstance(answer, WriteUnknown):
            lost = self._meaning(Fault.LOST_ANSWER, sent.exchange.call)
            self._world.loop.call_later(TIMEOUT, self._hear_anyway, sent, lost, context=NO_PROCESS)
            return
        sent.answer.set_result(answer)

    def _hear_anyway(self, sent: _Sent, answer: Any) -> None:
        if not sent.answer.done() and not self._host.gone:
            sent.answer.set_result(answer)


def _difference(seen: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch from one to the other."""
    change: dict[str, Any] = {name: None for name in seen if name not in wanted}
    for name, part in wanted.items():
        old = seen.get(name)
        if old != part:
            nested = isinstance(old, Mapping) and isinstance(part, Mapping)
            change[name] = _difference(old, part) if nested else part  # type: ignore[arg-type]  # `nested` reports it
    return change


def _key(manifest: Mapping[str, Any]) -> ObjectKey:
    meta = manifest["metadata"]
    return ObjectKey(meta.get("namespace", ""), meta["name"])
