"""The owner of a listed machine. A row that may be ours and cannot be read makes the whole list unusable."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tgp.adapters.clouds.parse import ParseError, identifier
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
    """None: unreadable, and certainly not ours. `tags_of` and `token_of` raise ParseError."""
    try:
        if not isinstance(row, dict):
            raise ParseError("a machine is not an object")  # noqa: TRY301 - one handler for all parse errors of a row
        tags = tags_of(row)
        token = token_of(row, tags)
    except ParseError as error:
        raise CannotTell(f"{title} lists a machine that cannot be parsed and may belong to tgp: {error}") from error
    try:
        return Owned(identifier(row.get("id")), token, tags, row)
    except ParseError as error:
        if token and not token.startswith(TOKEN_PREFIX):
            return None
        raise CannotTell(f"{title} lists a machine without a valid id that may belong to tgp: {error}") from error
