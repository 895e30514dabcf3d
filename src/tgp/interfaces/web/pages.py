"""The pages of the HTTPS side: each with the right that it takes, and what it answers."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeAlias

from tgp.core.access.rights import PageRight, PathRight
from tgp.interfaces.health import METRICS
from tgp.ports.http import Call, Pairs, Reply


class BadQuestion(Exception):
    """A parameter is wrong; the text names it."""


JSON_TYPE: Pairs = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))


class WebPage(Protocol):
    """Reading it changes nothing."""

    @property
    def operation(self) -> dict[str, Any]:
        """As the OpenAPI document describes it."""
        ...

    @property
    def namespaced(self) -> bool:
        """Whether `?namespace=` narrows it, and the right that it takes."""
        ...

    def right(self, call: Call) -> PageRight:
        """What a user must be allowed to. Raises BadQuestion."""
        ...

    async def answer(self, call: Call) -> Reply:
        """Raises BadQuestion."""
        ...


WebPages: TypeAlias = Mapping[str, WebPage]  # by path


class MetricsOnHttps:
    """The same text as on loopback, for scrapers that may `get` the non-resource URL, as with controller-runtime."""

    path = "/metrics"
    namespaced = False
    operation: ClassVar[dict[str, Any]] = {
        "operationId": "metrics",
        "summary": "Metrics in the text format of Prometheus",
        "responses": {"200": {"description": "The metrics", "content": {"text/plain": {"schema": {"type": "string"}}}}},
    }

    def __init__(self, metrics: Callable[[], bytes]) -> None:
        self._metrics = metrics

    def right(self, call: Call) -> PageRight:  # noqa: ARG002 - the same for every call
        return PathRight(self.path)

    async def answer(self, call: Call) -> Reply:  # noqa: ARG002 - the same for every call
        return Reply(200, self._metrics(), METRICS)
