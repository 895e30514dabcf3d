"""The implicit class: while a request waits for a default and no class exists, the operator's keys make one.

It is published on the event channel beside the real ones, so that the market, the instance poller and the requests
see one kind of object. It is never written to the cluster.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.controllers.requests.indexes import BY_NODE_CLASS, WAITING, YES
from tgp.core.classes.default_class import IMPLICIT, implicit_class, wants_default
from tgp.core.model.class_secrets import OPERATOR_SECRET
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.workload import Metadata
from tgp.ports.clock import Clock
from tgp.ports.cluster import Forbidden, View
from tgp.ports.secret_reader import SecretReader

KEY = ObjectKey("", IMPLICIT)
LOOK_AGAIN_AFTER = timedelta(minutes=15)  # the secret reader drops Secrets that are not read for a while
ENDED = ("Finished", "Failed")


class ImplicitClass:
    """A reconciler with one key."""

    def __init__(
        self,
        classes: View[KubeObject[GPUNodeClass]],  # those that exist in the cluster
        requests: View[KubeObject[GPURequest]],
        secret_reader: SecretReader,
        clock: Clock,
        *,
        default_backend: str,
        show: Callable[[GPUNodeClass | None], None],  # publishes it; None: withdraws it
    ) -> None:
        self._classes = classes
        self._requests = requests
        self._secret_reader = secret_reader
        self._clock = clock
        self._default_backend = default_backend
        self._show = show
        self._shown: GPUNodeClass | None = None

    async def reconcile(self, key: ObjectKey) -> datetime | None:  # noqa: ARG002 - there is only one
        wanted = self._is_wanted()
        made = implicit_class(await self._keys(), self._default_backend) if wanted else None
        if made != self._shown:
            self._shown = made
            self._show(made)
        return self._clock.now() + LOOK_AGAIN_AFTER if wanted else None

    def _is_wanted(self) -> bool:
        pinned = self._requests.by_index(BY_NODE_CLASS, IMPLICIT)
        if any(record.value is None or record.value.status.phase not in ENDED for record in pinned):
            return True
        waiting = self._requests.by_index(WAITING, YES) if not len(self._classes) else ()
        return any(record.value is not None and wants_default(record.value) for record in waiting)

    async def _keys(self) -> frozenset[str]:
        try:
            return frozenset(await self._secret_reader.read(OPERATOR_SECRET) or ())
        except Forbidden:
            return frozenset()

    # -- what triggers it
    # -------------------------------------------------------------------------------------------------

    def of_class(
        self, old: KubeObject[GPUNodeClass] | None, new: KubeObject[GPUNodeClass] | None
    ) -> Iterable[ObjectKey]:
        """The first class was created, or the last one deleted."""
        return () if old is not None and new is not None else (KEY,)

    def of_secret(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return (KEY,) if changed.key.name == OPERATOR_SECRET else ()

    def of_request(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        """A request without a class of its own was created, deleted, pinned, or ended."""
        concerned = any(each is not None and each.value is not None and _is_ours(each.value) for each in (old, new))
        return (KEY,) if concerned and _standing(old) != _standing(new) else ()


def _is_ours(request: GPURequest) -> bool:
    return wants_default(request) or request.status.node_class == IMPLICIT


def _standing(record: KubeObject[GPURequest] | None) -> tuple[str | None, bool] | None:
    if record is None or record.value is None:
        return None
    status = record.value.status
    return status.node_class, status.phase in ENDED


class AllClasses:
    """A view of the written classes and the implicit one."""

    def __init__(self, written: View[KubeObject[GPUNodeClass]], implicit: View[KubeObject[GPUNodeClass]]) -> None:
        self._written = written
        self._implicit = implicit

    def get(self, key: ObjectKey) -> KubeObject[GPUNodeClass] | None:
        return self._implicit.get(key) if key.name == IMPLICIT else self._written.get(key)

    def values(self) -> Iterable[KubeObject[GPUNodeClass]]:
        return (*self._written.values(), *self._implicit.values())

    def by_index(self, index: str, value: str) -> Iterable[Any]:
        return self._written.by_index(index, value)

    def __len__(self) -> int:
        return len(self._written) + len(self._implicit)

    async def wait_for_own_write(self, key: ObjectKey) -> None:
        await self._written.wait_for_own_write(key)
