"""A controller as the runtime needs it: which reconciler, woken by what, when it may start."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from tgp.adapters.kube.store import Store
from tgp.core.model.object_key import ObjectKey
from tgp.ports.reconciler import Reconciler

Keys: TypeAlias = Callable[[Any, Any], Iterable[ObjectKey]]  # (old, new) of a watched kind → keys to reconcile

WORKERS = 4
RECONCILE_TIMEOUT = timedelta(minutes=5)  # a reconcile waits for a handful of calls with timeouts of 30 s at most


def own_key(old: Any, new: Any) -> Iterable[ObjectKey]:
    """The key of the record itself."""
    return ((old if new is None else new).key,)


def only(key: ObjectKey) -> Keys:
    """This key, and nothing else: of a channel that others use, too."""

    def keys(_old: Any, new: Any) -> Iterable[ObjectKey]:
        return (key,) if new is not None and new.key == key else ()

    return keys


@dataclass(frozen=True)
class WatchSource:
    """A store whose changes wake a controller: by the record's own key, or mapped to keys of another kind."""

    store: Store[Any]
    keys: Keys = own_key


@dataclass(frozen=True)
class Controller:
    """One reconciler for one kind of key.

    The first reconcile starts when leadership is held and all its stores are synced by a list begun after that.
    """

    name: str
    reconciler: Reconciler
    sources: tuple[WatchSource, ...]
    also_reads: tuple[Store[Any], ...] = ()  # stores that are read, but do not wake this controller
    writes: tuple[Store[Any], ...] = ()  # a reconcile first waits until these show our own last write to its key
    workers: int = WORKERS
    reconcile_timeout: timedelta = RECONCILE_TIMEOUT
    read_only: bool = False  # its reconciles change nothing, so a process that stops need not wait for them
    start_over: Callable[[], None] | None = None  # called when the API server's history went back
    first: Callable[[ObjectKey], bool] | None = None  # which keys go first in a long line; None: first come

    def stores(self) -> list[Store[Any]]:
        """All stores it reads, each once."""
        every = [*(source.store for source in self.sources), *self.also_reads, *self.writes]
        return list({id(store): store for store in every}.values())
