"""Indexes of a store, updated change by change."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from tgp.core.model.object_key import ObjectKey

R = TypeVar("R")

IndexFunc: TypeAlias = Callable[[R], tuple[str, ...]]  # the index values of a record; pure, and cheap


class Index(Generic[R]):
    """One index: value → keys. Holds keys only, so a change that moves nothing costs two calls and a comparison."""

    __slots__ = ("_file", "_under")

    def __init__(self, file: IndexFunc[R]) -> None:
        self._file = file
        self._under: dict[str, dict[ObjectKey, None]] = {}

    def move(self, old: R | None, new: R | None, key: ObjectKey) -> None:
        """Move `key` from the values of `old` to those of `new`."""
        before = () if old is None else self._file(old)
        after = () if new is None else self._file(new)
        if before == after:
            return
        for word in before:
            if word not in after:
                self._take_down(word, key)
        for word in after:
            if word not in before:
                self._put_up(word, key)

    def under(self, word: str) -> Iterable[ObjectKey]:
        return self._under.get(word, _NOTHING)

    def words(self) -> Iterable[str]:
        return self._under

    def _put_up(self, word: str, key: ObjectKey) -> None:
        try:
            self._under[word][key] = None
        except KeyError:
            self._under[word] = {key: None}

    def _take_down(self, word: str, key: ObjectKey) -> None:
        under = self._under[word]
        del under[key]
        if not under:
            del self._under[word]


def by_namespace(record: Any) -> tuple[str, ...]:
    return (record.key.namespace,)


def by_node(pod: Any) -> tuple[str, ...]:
    """Pods by the node they are placed on; those without one are under the empty string."""
    return (pod.node,)


def by_phase(pod: Any) -> tuple[str, ...]:
    return (pod.phase,)


def by_owner(record: Any) -> tuple[str, ...]:
    """Objects by the uid of each owner."""
    return tuple(owner.uid for owner in record.owners)


def by_label(*names: str) -> IndexFunc[Any]:
    """Records under `name=value` for each of these labels they carry."""

    def file(record: Any) -> tuple[str, ...]:
        labels: Mapping[str, str] = record.labels
        return tuple([f"{name}={labels[name]}" for name in names if name in labels])

    def file_one(record: Any) -> tuple[str, ...]:
        value = record.labels.get(only)
        return () if value is None else (prefix + value,)

    only, prefix = names[0], f"{names[0]}="
    return file_one if len(names) == 1 else file


_NOTHING: Mapping[ObjectKey, None] = {}
