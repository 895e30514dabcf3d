"""Documents for programs, as commands print them and the HTTP API answers: a type each, and a JSON Schema by it.

The type checker compares each document with its type where it is made. Fields are added, never renamed or removed.
"""

from typing import Annotated, Final, Literal, TypeAlias, TypedDict, overload

import msgspec

from tgp.core.model.prices import MICRO

Moment: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]  # RFC 3339
API_VERSION: Final = "cli.tgp.io/v1"
ApiVersion: TypeAlias = Literal["cli.tgp.io/v1"]


@overload
def usd(microusd: int) -> float: ...


@overload
def usd(microusd: int | None) -> float | None: ...


def usd(microusd: int | None) -> float | None:
    """For programs: a number of dollars, exact to the micro-dollar."""
    return None if microusd is None else microusd / MICRO


class ObjectName(TypedDict):
    namespace: str
    name: str
