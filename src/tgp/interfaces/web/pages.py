"""The pages of the HTTPS side: each with the right that it takes, and what it answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from tgp.core.access.rights import PageRight, PathRight
from tgp.interfaces.health import METRICS
from tgp.interfaces.web.questions import names_in
from tgp.ports.http import Call, Pairs, Reply

JSON = "application/json"
JSON_TYPE: Pairs = (("Content-Type", JSON), ("Cache-Control", "no-store"))
Parameters: TypeAlias = Mapping[str, tuple[dict[str, Any], str]]  # schema and description of each

OBJECT_NAME = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"}
NAMESPACE_PARAMETER = (OBJECT_NAME, "A namespace of yours: the right there is enough. Default: all namespaces")


@dataclass(frozen=True, slots=True)
class PageDescription:
    """Of this the OpenAPI document is made."""

    path: str  # with {names}
    name: str
    summary: str
    kinds: tuple[str, ...] = ()  # of the documents it answers with
    names: Mapping[str, dict[str, Any]] = field(default_factory=dict)  # the schema of each name in the path
    parameters: Parameters = field(default_factory=dict)
    namespaced: bool = False  # whether ?namespace= narrows it, and the right that it takes
    of_leader: bool = False  # whether only the replica that leads knows the answer
    content_type: str = JSON


class ObjectMissing(Exception):
    """There is no such object; the text names it."""


class WebPage(Protocol):
    """Reading it changes nothing."""

    @property
    def about(self) -> PageDescription: ...

    def right(self, call: Call) -> PageRight:
        """What a user must be allowed to. Raises BadQuestion."""
        ...

    async def answer(self, call: Call) -> Reply:
        """Raises BadQuestion, ObjectMissing."""
        ...


WebPages: TypeAlias = Mapping[str, WebPage]  # by path


def page_at(pages: WebPages, path: str) -> WebPage | None:
    if path in pages and "{" not in path:
        return pages[path]
    return next((page for each, page in pages.items() if "{" in each and names_in(each, path) is not None), None)


class MetricsOnHttps:
    """The same text as on loopback, for scrapers that may `get` the non-resource URL, as with controller-runtime."""

    about = PageDescription(
        "/metrics", "metrics", "Metrics in the text format of Prometheus", content_type="text/plain"
    )

    def __init__(self, metrics: Callable[[], bytes]) -> None:
        self._metrics = metrics

    def right(self, call: Call) -> PageRight:  # noqa: ARG002 - the same for every call
        return PathRight(self.about.path)

    async def answer(self, call: Call) -> Reply:  # noqa: ARG002 - the same for every call
        return Reply(200, self._metrics(), METRICS)
