"""The class that nobody wrote: while a request waits for a default and there is no class, the operator's keys make one.

It stands on a board beside the real ones, so that the market, the rounds and the requests see one kind of thing. It is
never written to the cluster, so nobody can be surprised to own it.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.controllers.request_index import BY_NODE_CLASS, WAITING, YES
from tgp.core.model.key import Key
from tgp.core.model.typed import Typed
from tgp.core.model.workload import Metadata
from tgp.core.rules.default_class import IMPLICIT, implicit_class, wants_default
from tgp.core.rules.secrets import OPERATOR_SECRET
from tgp.ports.clock import Clock
from tgp.ports.cluster import Forbidden, View
from tgp.ports.vault import Vault

KEY = Key("", IMPLICIT)
LOOK_AGAIN_AFTER = timedelta(minutes=15)  # a vault forgets what nobody asks for
ENDED = ("Finished", "Failed")


class ImplicitClass:
    """A reconciler with one key."""

    def __init__(
        self,
        classes: View[Typed[GPUNodeClass]],  # those that somebody wrote
        requests: View[Typed[GPURequest]],
        vault: Vault,
        clock: Clock,
        *,
        default_backend: str,
        show: Callable[[GPUNodeClass | None], None],  # puts it up; None: takes it down
    ) -> None:
        self._classes = classes
        self._requests = requests
        self._vault = vault
        self._clock = clock
        self._default_backend = default_backend
        self._show = show
        self._shown: GPUNodeClass | None = None

    async def reconcile(self, key: Key) -> datetime | None:  # noqa: ARG002 - there is only one
        wanted = self._is_wanted()
        made = implicit_class(await self._keys(), self._default_backend) if wanted else None
        if made != self._shown:
            self._shown = made
            self._show(made)
        return self._clock.now() + LOOK_AGAIN_AFTER if wanted else None

    def _is_wanted(self) -> bool:
        pinned = self._requests.having(BY_NODE_CLASS, IMPLICIT)
        if any(record.object is None or record.object.status.phase not in ENDED for record in pinned):
            return True
        waiting = self._requests.having(WAITING, YES) if not len(self._classes) else ()
        return any(record.object is not None and wants_default(record.object) for record in waiting)

    async def _keys(self) -> frozenset[str]:
        try:
            return frozenset(await self._vault.read(OPERATOR_SECRET) or ())
        except Forbidden:
            return frozenset()

    # -- what wakes it -------------------------------------------------------------------------------------------------

    def of_class(self, old: Typed[GPUNodeClass] | None, new: Typed[GPUNodeClass] | None) -> Iterable[Key]:
        """The first class came, or the last one went."""
        return () if old is not None and new is not None else (KEY,)

    def of_secret(self, old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return (KEY,) if changed.key.name == OPERATOR_SECRET else ()

    def of_request(self, old: Typed[GPURequest] | None, new: Typed[GPURequest] | None) -> Iterable[Key]:
        """A request without a class of its own came, went, was pinned, or ended."""
        concerned = any(each is not None and each.object is not None and _is_ours(each.object) for each in (old, new))
        return (KEY,) if concerned and _standing(old) != _standing(new) else ()


def _is_ours(request: GPURequest) -> bool:
    return wants_default(request) or request.status.node_class == IMPLICIT


def _standing(record: Typed[GPURequest] | None) -> tuple[str | None, bool] | None:
    if record is None or record.object is None:
        return None
    status = record.object.status
    return status.node_class, status.phase in ENDED


class EveryClass:
    """A view of the written classes and the implicit one."""

    def __init__(self, written: View[Typed[GPUNodeClass]], implicit: View[Typed[GPUNodeClass]]) -> None:
        self._written = written
        self._implicit = implicit

    def get(self, key: Key) -> Typed[GPUNodeClass] | None:
        return self._implicit.get(key) if key.name == IMPLICIT else self._written.get(key)

    def values(self) -> Iterable[Typed[GPUNodeClass]]:
        return (*self._written.values(), *self._implicit.values())

    def having(self, index: str, value: str) -> Iterable[Any]:
        return self._written.having(index, value)

    def __len__(self) -> int:
        return len(self._written) + len(self._implicit)

    async def caught_up(self, key: Key) -> None:
        await self._written.caught_up(key)
