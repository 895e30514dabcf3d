"""The pages of the HTTPS side: each with the right that it takes, and what it answers."""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from tgp.core.access.rights import PageRight, PathRight
from tgp.interfaces.health import METRICS
from tgp.ports.http import Call, Reply


class BadQuestion(Exception):
    """A parameter is wrong; the text names it."""


class WebPage(Protocol):
    """Reading it changes nothing."""

    @property
    def namespaced(self) -> bool:
        """Whether `?namespace=` narrows it, and the right that it takes."""
        ...

    def right(self, call: Call) -> PageRight:
        """What a user must be allowed to. Raises BadQuestion."""
        ...

    def answer(self, call: Call) -> Reply:
        """Raises BadQuestion."""
        ...


WebPages: TypeAlias = Mapping[str, WebPage]  # by path


class MetricsOnHttps:
    """The same text as on loopback, for scrapers that may `get` the non-resource URL, as with controller-runtime."""

    path = "/metrics"
    namespaced = False

    def __init__(self, metrics: Callable[[], bytes]) -> None:
        self._metrics = metrics

    def right(self, call: Call) -> PageRight:  # noqa: ARG002 - the same for every call
        return PathRight(self.path)

    def answer(self, call: Call) -> Reply:  # noqa: ARG002 - the same for every call
        return Reply(200, self._metrics(), METRICS)
