"""Other programs: a kubeconfig's credential plugins are the only ones the operator ever starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol


class ProgramFailed(Exception):
    """It could not be started, or did not exit in time. Its text never contains the program's output."""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    output: bytes = field(repr=False)  # may hold a credential
    complaint: bytes = field(repr=False)


class Exec(Protocol):
    async def run(self, argv: tuple[str, ...], env: Mapping[str, str], within: timedelta) -> Ended:
        """Run a program to its end with `env` added to our own environment; past `within` it is killed and raises."""
        ...
