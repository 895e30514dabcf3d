"""Looks after machines on their way into the cluster, and after what was made for them.

While a machine boots its bootstrap token lives as long as its deadline; once its Node is here the token goes. The mesh
is asked whether it knows the machine, before and after. What no machine needs any more leaves the mesh and the book,
also where whoever should have removed it was killed before, or could not.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tgp.api.request import Attempt, GPURequest
from tgp.api.resource import GPU_REQUEST, LEASE
from tgp.controllers.boot.book import BootBook
from tgp.controllers.boot.mesh_desk import MeshDesk
from tgp.controllers.boot.stands import Sighting, Stands
from tgp.controllers.boot.tokens import BootstrapTokens
from tgp.controllers.request_index import BY_NODE
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.boot_book import Entry, MeshNote, trace_of
from tgp.core.model.key import Key
from tgp.core.model.mesh import Backend, Device
from tgp.core.model.node import Node
from tgp.core.model.typed import Typed
from tgp.core.rules.lifecycle import LAUNCHED
from tgp.core.rules.mesh.stand import LEASE_STALE, Silence, addresses_of, own_address, silence_of
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterError, NotFound, View
from tgp.ports.mesh import MeshError

LOOK_FOR_NODE = timedelta(seconds=15)
LOOK_BEFORE_READY = timedelta(seconds=5)  # its Node is here: every second is paid for and of no use
LOOK_AFTER_READY = timedelta(minutes=2)  # all machines at the same moments: one list serves them all
SWEEP_EVERY = timedelta(minutes=1)  # while anything is in the book: what is given up is swept soon, and a look is free
LOOK_FOR_LEFTOVERS = timedelta(minutes=5)
SWEPT_AFTER = timedelta(minutes=10)  # an entry younger than that may belong to an order whose write is not seen yet
EXTENDED_BY = timedelta(minutes=1)  # smaller changes of a deadline are not worth a write
NODE_LEASES = "kube-node-lease"
SWEEP = Key("", "sweep")


class BootKeeper:
    """A reconciler of requests, and of one more key: the sweep."""

    def __init__(
        self,
        requests: View[Typed[GPURequest]],
        nodes: View[Node],
        *,
        book: BootBook,
        tokens: BootstrapTokens,
        meshes: MeshDesk,
        stands: Stands,
        cluster: Cluster,
        clock: Clock,
        joins_by: Callable[[Typed[GPURequest], Attempt], datetime | None],
        announce: Callable[[Key], None],
        recall: Callable[[Typed[GPURequest], Attempt], Entry | None],
        discard: Callable[[str], Awaitable[None]],
    ) -> None:
        self._requests = requests
        self._nodes = nodes
        self._book = book
        self._tokens = tokens
        self._meshes = meshes
        self._stands = stands
        self._cluster = cluster
        self._clock = clock
        self._joins_by = joins_by  # until when a machine may come, as things stand
        self._announce = announce  # that something new was seen of a request's machine
        self._recall = recall  # the line that must have stood in the book
        self._discard = discard

    async def reconcile(self, key: Key) -> datetime | None:
        if key == SWEEP:
            return await self._sweep()
        record = self._requests.get(key)
        attempt = open_attempt(attempts_of(record)) if record is not None else None
        if record is None or attempt is None or attempt.outcome != LAUNCHED:
            return None
        entry = await self._book.get(attempt.token) or await self._written_anew(record, attempt)
        if entry is None:  # nothing was made for it: it joined by other means, or is the cluster's own already
            if self._stands.put(attempt.token, Sighting(Backend.NONE, "")):
                self._announce(key)
            return None
        node = self._nodes.get(Key("", entry.node))
        entry = await self._look(entry, node, key)
        await self._keep_token(record, attempt, entry)
        return self._again(record)

    async def _written_anew(self, record: Typed[GPURequest], attempt: Attempt) -> Entry | None:
        """The book was lost, or somebody struck the line out: what its class says of the mesh, and its own name, tell
        the rest. None: nothing was ever made for it.
        """
        entry = self._recall(record, attempt)
        if entry is not None:
            await self._book.write(entry)
        return entry

    # -- one machine -------------------------------------------------------------------------------------------------

    async def _look(self, entry: Entry, node: Node | None, request: Key) -> Entry:
        """Ask the mesh. What it says is read by the request's own turns."""
        note = entry.mesh
        silent = await self._silence_of(entry, node) if not self._was_ready(request) else None
        if note is None or note.backend == Backend.NONE:
            seen = Sighting(Backend.NONE, note.hostname if note is not None else "", silent=silent)
        else:
            backend, hostname = _backend(note), note.hostname
            try:
                mesh = await self._meshes.reopen(note)
                trace = trace_of(entry, addresses_of(node) if node is not None else ())
                assert trace is not None, "what has a note has a trace"
                device = await mesh.find(trace) if mesh.has_devices else None
                ranges = mesh.ranges if not note.address else own_address(note.address)
                seen = Sighting(backend, hostname, ranges, mesh.has_devices, device, bool(note.device_id), silent)
            except MeshError as error:
                seen = Sighting(backend, hostname, trouble=str(error))
        if seen.device is not None and note is not None and _proven(seen.device, note, node):
            entry = msgspec.structs.replace(entry, mesh=msgspec.structs.replace(note, device_id=seen.device.id))
            await self._book.write(entry)
        if self._stands.put(entry.token, seen):
            self._announce(request)
        return entry

    async def _silence_of(self, entry: Entry, node: Node | None) -> Silence | None:
        """Asked until it is ready for the first time: from then on the cluster watches over the Lease itself.

        A Lease is dated by the kubelet's clock, which may be behind: whoever renews it while we look is there.
        """
        name = entry.node
        lease: dict[str, Any] | None = None
        if node is not None:  # before that nobody has heard of it, whatever Lease an earlier Node left
            try:
                lease = (await self._cluster.read(LEASE, Key(NODE_LEASES, name))).get("spec") or {}
            except NotFound:
                lease = None
        silence = silence_of(name, lease, self._clock.now())
        if lease is None:
            return silence
        now, renewal, lasts = self._clock.boottime(), lease.get("renewTime"), lease.get("leaseDurationSeconds")
        heard = self._stands.heard(entry.token, str(renewal or ""), now)
        lately = heard is not None and isinstance(lasts, int) and now - heard <= lasts
        return None if lately and silence is not None and silence.reason == LEASE_STALE else silence

    def _was_ready(self, request: Key) -> bool:
        record = self._requests.get(request)
        return record is not None and record.object is not None and record.object.status.ready_at is not None

    async def _keep_token(self, record: Typed[GPURequest], attempt: Attempt, entry: Entry) -> None:
        """It lives until the machine has joined, or may no longer."""
        if entry.joined:
            return
        if _registered(record):
            await self._tokens.remove(entry.token)
            await self._book.write(msgspec.structs.replace(entry, joined=True))
            return
        until = self._joins_by(record, attempt)
        if until is not None and until - entry.expires >= EXTENDED_BY:
            await self._tokens.extend(entry.token, until)
            await self._book.write(msgspec.structs.replace(entry, expires=until))

    def _again(self, record: Typed[GPURequest]) -> datetime:
        now = self._clock.now()
        if record.object is not None and record.object.status.ready_at is None:
            return now + (LOOK_BEFORE_READY if _registered(record) else LOOK_FOR_NODE)
        step = LOOK_AFTER_READY.total_seconds()
        return datetime.fromtimestamp((now.timestamp() // step + 1) * step, now.tzinfo)

    # -- what nobody needs any more ------------------------------------------------------------------------------------

    async def _sweep(self) -> datetime:
        now = self._clock.now()
        owned = {attempt.token for record in self._requests.values() for attempt in _open(record)}
        entries = list((await self._book.entries()).values())
        for entry in entries:
            old = now - entry.since >= SWEPT_AFTER
            if entry.token not in owned and old and not await self._still_owned(entry):
                await self._discard(entry.token)
        return now + (SWEEP_EVERY if entries else LOOK_FOR_LEFTOVERS)

    async def _still_owned(self, entry: Entry) -> bool:
        """Asked by its name before anything of it is removed: a list may have left it out."""
        try:
            found = await self._cluster.read(GPU_REQUEST, entry.key)
        except NotFound:
            return False
        except ClusterError:
            return True
        rows = (found.get("status") or {}).get("attempts") or ()
        return any(row.get("token") == entry.token and not row.get("endedAt") for row in rows if isinstance(row, dict))

    # -- what wakes it -------------------------------------------------------------------------------------------------

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[Key]:
        node = new or old
        assert node is not None, "a change has a before or an after"
        if old is not None and new is not None and old.addresses == new.addresses:
            return ()
        return [record.key for record in self._requests.having(BY_NODE, node.name)]


def _proven(device: Device, note: MeshNote, node: Node | None) -> bool:
    """Whether it goes on record as the machine's own, and is removed with it.

    Anybody in the mesh may take a name, and a kubelet may report any address: it needs the one and the other.
    """
    if note.device_id == device.id or device.hostname != note.hostname or node is None:
        return False
    return bool(set(addresses_of(node)) & set(device.addresses))


def _registered(record: Typed[GPURequest]) -> bool:
    conditions = record.object.status.conditions if record.object is not None else ()
    return any(each.type == "Registered" and each.status == "True" for each in conditions)


def _open(record: Typed[GPURequest]) -> Iterable[Attempt]:
    attempt = open_attempt(attempts_of(record))
    return () if attempt is None else (attempt,)


def _backend(note: MeshNote) -> Backend:
    """Of one that a newer version wrote nothing is known: it is troubled all the same, so anything will do."""
    return Backend(note.backend) if note.backend in set(Backend) else Backend.TAILSCALE
