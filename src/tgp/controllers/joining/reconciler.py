"""Reconciles machines that join the cluster, and cleans up what was made for them.

While a machine boots its bootstrap token lives as long as its deadline; once its Node has registered the token is
deleted. The mesh is asked for the machine, before and after. Leftovers are removed from the mesh and from the join
records, also after a crash or a failed removal.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tgp.api.request import Attempt, GPURequest
from tgp.api.resource import GPU_REQUEST, LEASE
from tgp.controllers.joining.mesh_cache import LeaseRead, MeshObservation, MeshStatusCache
from tgp.controllers.joining.meshes import MeshOpener
from tgp.controllers.joining.records import JoinRecords
from tgp.controllers.joining.tokens import BootstrapTokens
from tgp.controllers.requests.indexes import BY_NODE
from tgp.core.joining.mesh.status import LEASE_STALE, Silence, addresses_of, own_address, silence_of
from tgp.core.model.attempts import LAUNCHED, attempts_of, open_attempt
from tgp.core.model.join_record import JoinRecord, MeshRecord, trace_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.mesh import Backend, Device
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterError, NotFound, View
from tgp.ports.mesh import MeshError

LOOK_FOR_NODE = timedelta(seconds=15)
LOOK_BEFORE_READY = timedelta(seconds=5)  # the Node has registered: every second until ready is billed
LEASE_KEPT = timedelta(seconds=15)  # how long a read counts, unless the Node turns ready meanwhile: a Lease lasts 40 s
LOOK_AFTER_READY = timedelta(minutes=2)  # all machines at the same times: one list serves them all
SWEEP_EVERY = timedelta(minutes=1)  # while there are join records: leftovers are removed soon, and a check is free
LOOK_FOR_LEFTOVERS = timedelta(minutes=5)
SWEPT_AFTER = timedelta(minutes=10)  # a younger record may belong to an order that the cache does not show yet
EXTENDED_BY = timedelta(minutes=1)  # smaller changes of a deadline are not worth a write
NODE_LEASES = "kube-node-lease"
SWEEP = ObjectKey("", "sweep")


class JoinReconciler:
    """A reconciler of requests, and of one more key: the sweep."""

    def __init__(
        self,
        requests: View[KubeObject[GPURequest]],
        nodes: View[Node],
        *,
        book: JoinRecords,
        tokens: BootstrapTokens,
        meshes: MeshOpener,
        mesh_statuses: MeshStatusCache,
        cluster: Cluster,
        clock: Clock,
        joins_by: Callable[[KubeObject[GPURequest], Attempt], datetime | None],
        announce: Callable[[ObjectKey], None],
        recall: Callable[[KubeObject[GPURequest], Attempt], JoinRecord | None],
        discard: Callable[[str], Awaitable[None]],
    ) -> None:
        self._requests = requests
        self._nodes = nodes
        self._records = book
        self._tokens = tokens
        self._meshes = meshes
        self._mesh_statuses = mesh_statuses
        self._cluster = cluster
        self._clock = clock
        self._joins_by = joins_by  # until when a machine may join
        self._announce = announce  # called when the mesh status of a machine changed
        self._recall = recall  # rebuilds a lost join record
        self._discard = discard

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        if key == SWEEP:
            return await self._sweep()
        record = self._requests.get(key)
        attempt = open_attempt(attempts_of(record)) if record is not None else None
        if record is None or attempt is None or attempt.outcome != LAUNCHED:
            return None
        entry = await self._records.get(attempt.token) or await self._written_anew(record, attempt)
        if entry is None:  # nothing was made for it: the machine is a member of the cluster already
            if self._mesh_statuses.put(attempt.token, MeshObservation(Backend.NONE, "")):
                self._announce(key)
            return None
        node = self._nodes.get(ObjectKey("", entry.node))
        entry = await self._look(entry, node, key)
        await self._keep_token(record, attempt, entry)
        return self._again(record)

    async def _written_anew(self, record: KubeObject[GPURequest], attempt: Attempt) -> JoinRecord | None:
        """Rebuild a lost join record from the mesh settings of its class and its own name. None: nothing was made for
        it.
        """
        entry = self._recall(record, attempt)
        if entry is not None:
            await self._records.update(entry)
        return entry

    # -- one machine -------------------------------------------------------------------------------------------------

    async def _look(self, entry: JoinRecord, node: Node | None, request: ObjectKey) -> JoinRecord:
        """Ask the mesh. The reconciles of the request read the result."""
        note = entry.mesh
        silent = await self._silence_of(entry, node) if not self._was_ready(request) else None
        if note is None or note.backend == Backend.NONE:
            seen = MeshObservation(Backend.NONE, note.hostname if note is not None else "", silent=silent)
        else:
            backend, hostname = _backend(note), note.hostname
            try:
                mesh = await self._meshes.reopen(note)
                trace = trace_of(entry, addresses_of(node) if node is not None else ())
                assert trace is not None, "a record has a device reference"
                device = await mesh.find(trace) if mesh.has_devices else None
                ranges = mesh.ranges if not note.address else own_address(note.address)
                seen = MeshObservation(
                    backend, hostname, ranges, mesh.has_devices, device, bool(note.device_id), silent
                )
            except MeshError as error:
                seen = MeshObservation(backend, hostname, trouble=str(error))
        if seen.device is not None and note is not None and _proven(seen.device, note, node):
            entry = msgspec.structs.replace(entry, mesh=msgspec.structs.replace(note, device_id=seen.device.id))
            await self._records.update(entry)
        if self._mesh_statuses.put(entry.token, seen):
            self._announce(request)
        return entry

    async def _silence_of(self, entry: JoinRecord, node: Node | None) -> Silence | None:
        """Checked until the Node is ready for the first time: then Kubernetes itself watches the Lease.

        Each change of a request causes a reconcile: a Lease is not read for each of them.
        """
        if node is None:  # a Lease would belong to an earlier Node
            return silence_of(entry.node, None, self._clock.now())
        now, last = self._clock.boottime(), self._mesh_statuses.lease_read(entry.token)
        if last is not None and last.node_ready == node.ready:
            kept = LOOK_BEFORE_READY if last.silent is not None and node.ready is True else LEASE_KEPT
            if now - last.at < kept.total_seconds():
                return last.silent
        silent = await self._read_lease(entry)
        self._mesh_statuses.note_lease_read(entry.token, LeaseRead(now, node.ready, silent))
        return silent

    async def _read_lease(self, entry: JoinRecord) -> Silence | None:
        """A Lease is dated by the kubelet's clock, which may be behind: a renewal that we observe counts."""
        lease: dict[str, Any] | None = None
        try:
            lease = (await self._cluster.read(LEASE, ObjectKey(NODE_LEASES, entry.node))).get("spec") or {}
        except NotFound:
            lease = None
        silence = silence_of(entry.node, lease, self._clock.now())
        if lease is None:
            return silence
        now, renewal, lasts = self._clock.boottime(), lease.get("renewTime"), lease.get("leaseDurationSeconds")
        heard = self._mesh_statuses.heard(entry.token, str(renewal or ""), now)
        lately = heard is not None and isinstance(lasts, int) and now - heard <= lasts
        return None if lately and silence is not None and silence.reason == LEASE_STALE else silence

    def _was_ready(self, request: ObjectKey) -> bool:
        record = self._requests.get(request)
        return record is not None and record.value is not None and record.value.status.ready_at is not None

    async def _keep_token(self, record: KubeObject[GPURequest], attempt: Attempt, entry: JoinRecord) -> None:
        """The token lives until the machine has joined, or its join timeout has passed."""
        if entry.joined:
            return
        if _registered(record):
            await self._tokens.remove(entry.token)
            await self._records.update(msgspec.structs.replace(entry, joined=True))
            return
        until = self._joins_by(record, attempt)
        if until is not None and until - entry.expires >= EXTENDED_BY:
            await self._tokens.extend(entry.token, until)
            await self._records.update(msgspec.structs.replace(entry, expires=until))

    def _again(self, record: KubeObject[GPURequest]) -> datetime:
        now = self._clock.now()
        if record.value is not None and record.value.status.ready_at is None:
            return now + (LOOK_BEFORE_READY if _registered(record) else LOOK_FOR_NODE)
        step = LOOK_AFTER_READY.total_seconds()
        return datetime.fromtimestamp((now.timestamp() // step + 1) * step, now.tzinfo)

    # -- leftovers ------------------------------------------------------------------------------------

    async def _sweep(self) -> datetime:
        now = self._clock.now()
        owned = {attempt.token for record in self._requests.values() for attempt in _open(record)}
        entries = list((await self._records.entries()).values())
        for entry in entries:
            old = now - entry.since >= SWEPT_AFTER
            if entry.token not in owned and old and not await self._still_owned(entry):
                await self._discard(entry.token)
        return now + (SWEEP_EVERY if entries else LOOK_FOR_LEFTOVERS)

    async def _still_owned(self, entry: JoinRecord) -> bool:
        """Read by name before anything is removed: a list may have omitted it."""
        try:
            found = await self._cluster.read(GPU_REQUEST, entry.key)
        except NotFound:
            return False
        except ClusterError:
            return True
        rows = (found.get("status") or {}).get("attempts") or ()
        return any(row.get("token") == entry.token and not row.get("endedAt") for row in rows if isinstance(row, dict))

    # -- what wakes it -------------------------------------------------------------------------------------------------

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[ObjectKey]:
        node = new or old
        assert node is not None, "a change has a before or an after"
        if old is not None and new is not None and old.addresses == new.addresses:
            return ()
        return [record.key for record in self._requests.by_index(BY_NODE, node.name)]


def _proven(device: Device, note: MeshRecord, node: Node | None) -> bool:
    """Whether the device is recorded as the machine's own, and is removed with it.

    Any member may take a name, and a kubelet may report any address: both must match.
    """
    if note.device_id == device.id or device.hostname != note.hostname or node is None:
        return False
    return bool(set(addresses_of(node)) & set(device.addresses))


def _registered(record: KubeObject[GPURequest]) -> bool:
    conditions = record.value.status.conditions if record.value is not None else ()
    return any(each.type == "Registered" and each.status == "True" for each in conditions)


def _open(record: KubeObject[GPURequest]) -> Iterable[Attempt]:
    attempt = open_attempt(attempts_of(record))
    return () if attempt is None else (attempt,)


def _backend(note: MeshRecord) -> Backend:
    """A record of a newer version cannot be decoded: it is reported as a problem anyway, so any value will do."""
    return Backend(note.backend) if note.backend in set(Backend) else Backend.TAILSCALE
