"""The namespace and name of an object: what a queue holds and a controller reconciles."""

from typing import NamedTuple


class ObjectKey(NamedTuple):
    namespace: str  # empty: the kind has none
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
