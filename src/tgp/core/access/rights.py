"""Which right each page asks for."""

from dataclasses import dataclass
from typing import Any

OUR_GROUP = "tgp.io"


@dataclass(frozen=True, slots=True)
class PathRight:
    """To read a path: `nonResourceURLs` of a role."""

    path: str

    def __str__(self) -> str:
        return f"get {self.path}"

    def spec(self) -> dict[str, Any]:
        return {"nonResourceAttributes": {"verb": "get", "path": self.path}}


@dataclass(frozen=True, slots=True)
class ListRight:
    """To list a resource of ours, in one namespace or, if that is empty, in all."""

    resource: str
    namespace: str = ""

    def __str__(self) -> str:
        where = f"namespace {self.namespace}" if self.namespace else "all namespaces"
        return f"list {self.resource}.{OUR_GROUP} in {where}"

    def spec(self) -> dict[str, Any]:
        asked = {"verb": "list", "group": OUR_GROUP, "resource": self.resource}
        return {"resourceAttributes": {**asked, **({"namespace": self.namespace} if self.namespace else {})}}


PageRight = PathRight | ListRight
