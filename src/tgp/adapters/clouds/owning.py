"""Whose a machine on a list is. A row that may be ours and cannot be read makes the whole list worthless."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tgp.adapters.clouds.reading import Odd, identifier
from tgp.core.model.cloud_errors import CannotTell
from tgp.ports.cloud import TOKEN_PREFIX

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Owned(Generic[T]):
    id: str
    token: str
    tags: T  # as the provider has them
    row: dict[str, Any]


def read_owned(
    row: Any, title: str, tags_of: Callable[[dict[str, Any]], T], token_of: Callable[[dict[str, Any], T], str]
) -> Owned[T] | None:
    """None: it is surely somebody else's, and cannot be read. `tags_of` and `token_of` raise Odd."""
    try:
        if not isinstance(row, dict):
            raise Odd("a machine is no object")  # noqa: TRY301 - one answer to everything that is odd about a row
        tags = tags_of(row)
        token = token_of(row, tags)
    except Odd as error:
        raise CannotTell(f"{title} lists a machine that cannot be read, and it may be ours: {error}") from error
    try:
        return Owned(identifier(row.get("id")), token, tags, row)
    except Odd as error:
        if token and not token.startswith(TOKEN_PREFIX):
            return None
        raise CannotTell(f"{title} lists a machine without a usable id, and it may be ours: {error}") from error
