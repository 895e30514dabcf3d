"""The same verbs without HTTP, for the parts of the simulated cluster that live beside the server."""

from collections.abc import AsyncIterator, Callable, Iterator

from tgp.api.resource import POD, Resource
from tgp.sim.apiserver.binding import bind
from tgp.sim.apiserver.core import Ask, Core, Write
from tgp.sim.apiserver.eviction import evict
from tgp.sim.apiserver.identity import LOOPBACK
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.options import DeleteOptions, WriteOptions
from tgp.sim.apiserver.patch.dispatch import patch_with
from tgp.sim.apiserver.patch.merge import merge_patched
from tgp.sim.apiserver.storage import Change
from tgp.sim.apiserver.verbs.create import create
from tgp.sim.apiserver.verbs.delete import delete
from tgp.sim.apiserver.verbs.update import replace

FOLLOW_BATCH = 1_000  # changes handed out per wake-up


class LocalApi:
    """Every rule of the server holds (a refusal raises `Failure`); only authorisation and faults do not apply.

    Objects handed out are shared and must not be changed: copy first (`copied`). Objects handed in are copied.
    """

    def __init__(self, core: Core, manager: str = "kube-controller-manager") -> None:
        self._core = core
        self._options = WriteOptions(manager=manager)
        self._ask = Ask(LOOPBACK)

    def as_manager(self, manager: str) -> "LocalApi":
        """The same, writing under another field manager's name."""
        return LocalApi(self._core, manager)

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        served = self._core.registry.of(resource)
        found = self._core.store.get(served.storage, namespace, name)
        return served.shown(found.obj) if found else None

    def objects(
        self, resource: Resource, namespace: str = "", where: Callable[[Json], bool] | None = None
    ) -> Iterator[Json]:
        """Objects in key order (namespace, name), of one namespace or all."""
        served = self._core.registry.of(resource)
        for _, record in self._core.store.kind_storage(served.storage).range(namespace):
            if where is None or where(record.obj):
                yield served.shown(record.obj)

    def _write(self, resource: Resource, namespace: str, name: str = "", subresource: str = "") -> Write:
        served = self._core.registry.of(resource)
        return Write(self._core, served, self._ask, namespace, name, subresource, self._options)

    def create(self, resource: Resource, obj: Json) -> Json:
        namespace = obj["metadata"].get("namespace", "default" if resource.namespaced else "")
        return create(self._write(resource, namespace), obj).record.obj

    def update(self, resource: Resource, obj: Json, subresource: str = "") -> Json:
        """PUT; the resourceVersion in `obj`, if there is one, must be current."""
        meta = obj["metadata"]
        write = self._write(resource, meta.get("namespace", ""), meta["name"], subresource)
        return replace(write, obj).record.obj

    def update_status(self, resource: Resource, obj: Json) -> Json:
        return self.update(resource, obj, "status")

    def merge_patch(self, resource: Resource, namespace: str, name: str, sent: Json, subresource: str = "") -> Json:
        write = self._write(resource, namespace, name, subresource)
        return patch_with(write, lambda shown: dict(merge_patched(shown, sent))).record.obj

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        grace_seconds: int | None = None,
        uid: str | None = None,
        propagation: str = "",
    ) -> None:
        options = DeleteOptions(grace_seconds=grace_seconds, uid=uid, propagation=propagation)
        delete(self._core, self._core.registry.of(resource), namespace, name, options)

    def bind(self, namespace: str, pod: str, node: str) -> None:
        """The binding subresource: give the pod its node."""
        bind(self._write(POD, namespace, pod), {"target": {"kind": "Node", "name": node}})

    def evict(self, namespace: str, pod: str) -> None:
        """The eviction subresource; Failure 429 when a budget holds it back."""
        evict(self._write(POD, namespace, pod), {"metadata": {"name": pod}})

    async def follow(self, resource: Resource, since: int | None = None) -> AsyncIterator[list[Change]]:
        """Every change of a kind after revision `since` (default: from now on), in the batches they came in.

        A `Change` has `type`, `record.obj`, `previous.obj` (or None) and `revision`.
        """
        served = self._core.registry.of(resource)
        kind_storage = self._core.store.kind_storage(served.storage)
        cursor = self._core.store.revision if since is None else since
        ticket, bell = kind_storage.listen()
        try:
            while True:
                bell.clear()
                changes = kind_storage.after(cursor, FOLLOW_BATCH)
                if changes:
                    cursor = changes[-1].revision
                    yield changes
                    continue
                await bell.wait()
        finally:
            kind_storage.leave(ticket)

    @property
    def revision(self) -> int:
        """The newest resourceVersion: list, remember this, then `follow(since=…)`."""
        return self._core.store.revision
