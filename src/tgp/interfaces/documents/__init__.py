"""Documents for programs, as commands print them and the HTTP API answers: a type each, and a JSON Schema by it.

The type checker compares each document with its type where it is made. Fields are added, never renamed or removed.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

Moment: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]  # RFC 3339
API_VERSION: Final = "cli.tgp.io/v1"
ApiVersion: TypeAlias = Literal["cli.tgp.io/v1"]
