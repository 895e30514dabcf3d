"""The name of an object: what a queue holds and a controller is asked about."""

from typing import NamedTuple


class Key(NamedTuple):
    namespace: str  # empty: the kind has none
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
