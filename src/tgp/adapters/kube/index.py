"""Shelves of a store: under which words a record is filed, kept up to date change by change."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from tgp.core.model.key import Key

R = TypeVar("R")

Filing: TypeAlias = Callable[[R], tuple[str, ...]]  # the words a record is filed under; pure, and cheap


class Shelf(Generic[R]):
    """One index: word → keys. Holds keys only, so a change that moves nothing costs two calls and a comparison."""

    __slots__ = ("_file", "_under")

    def __init__(self, file: Filing[R]) -> None:
        self._file = file
        self._under: dict[str, dict[Key, None]] = {}

    def move(self, old: R | None, new: R | None, key: Key) -> None:
        """File `key` as `new` says, and no longer as `old` said."""
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

    def under(self, word: str) -> Iterable[Key]:
        return self._under.get(word, _NOTHING)

    def words(self) -> Iterable[str]:
        return self._under

    def _put_up(self, word: str, key: Key) -> None:
        try:
            self._under[word][key] = None
        except KeyError:
            self._under[word] = {key: None}

    def _take_down(self, word: str, key: Key) -> None:
        under = self._under[word]
        del under[key]
        if not under:
            del self._under[word]


def by_namespace(record: Any) -> tuple[str, ...]:
    return (record.key.namespace,)


def by_node(pod: Any) -> tuple[str, ...]:
    """Pods by the node they are placed on; those without one are filed under the empty word."""
    return (pod.node,)


def by_phase(pod: Any) -> tuple[str, ...]:
    return (pod.phase,)


def by_owner(record: Any) -> tuple[str, ...]:
    """Objects by the uid of each owner."""
    return tuple(owner.uid for owner in record.owners)


def by_label(*names: str) -> Filing[Any]:
    """Records under `name=value` for each of these labels they carry."""

    def file(record: Any) -> tuple[str, ...]:
        labels: Mapping[str, str] = record.labels
        return tuple([f"{name}={labels[name]}" for name in names if name in labels])

    def file_one(record: Any) -> tuple[str, ...]:
        value = record.labels.get(only)
        return () if value is None else (prefix + value,)

    only, prefix = names[0], f"{names[0]}="
    return file_one if len(names) == 1 else file


_NOTHING: Mapping[Key, None] = {}
