"""A controller as the runtime needs to know it: whose turns, woken by what, when it may begin."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from tgp.adapters.kube.store import Store
from tgp.core.model.key import Key
from tgp.ports.reconciler import Reconciler

Keys: TypeAlias = Callable[[Any, Any], Iterable[Key]]  # (old, new) of a watched kind → keys that want a turn

WORKERS = 4
TURN_LIMIT = timedelta(minutes=5)  # a turn waits for a handful of calls with timeouts of 30 s at most


def own_key(old: Any, new: Any) -> Iterable[Key]:
    """The key of the record itself."""
    return ((old if new is None else new).key,)


@dataclass(frozen=True)
class Source:
    """A store whose changes wake a controller: by the record's own key, or mapped to keys of another kind."""

    store: Store[Any]
    keys: Keys = own_key


@dataclass(frozen=True)
class Controller:
    """One reconciler for one kind of key.

    It gets its first turn when leadership is held and all its stores are synced by a list begun after that.
    """

    name: str
    reconciler: Reconciler
    sources: tuple[Source, ...]
    also_reads: tuple[Store[Any], ...] = ()  # stores that wake nobody here, but are looked at
    writes: tuple[Store[Any], ...] = ()  # a turn first waits until these show our own last write to its key
    workers: int = WORKERS
    turn_limit: timedelta = TURN_LIMIT
    only_looks: bool = False  # its turns change nothing anywhere, so a process that leaves need not wait for them

    def stores(self) -> list[Store[Any]]:
        """All it looks at, each once."""
        every = [*(source.store for source in self.sources), *self.also_reads, *self.writes]
        return list({id(store): store for store in every}.values())
