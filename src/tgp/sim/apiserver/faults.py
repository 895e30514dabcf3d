"""Named faults, switched while the server runs, drawn from seeded random streams.

    server.faults.on("conflict", probability=0.1)                     one write in ten finds the object changed
    server.faults.on("error-after", times=1, where=lambda hit: hit.route.plural == "gpurequests")
    server.faults.on("watch-lag", seconds=30.0)
    server.faults.off("watch-lag"); server.faults.off()               one, or all

| name | what the client sees |
|---|---|
| conflict | 409 on update, patch or delete, nothing written |
| too-many-requests | 429 with Retry-After (`seconds`, default 1), nothing written |
| error-before | 500, nothing written |
| error-after | 500 although it was written |
| timeout-after | 504 although it was written |
| unauthorized | 401: the token is no longer accepted |
| namespace-terminating | 403 on create in a namespace |
| webhook-unreachable | 500 on any write: an admission webhook cannot be reached (`webhook`, `url`) |
| watch-lag | changes reach a watch `seconds` late |
| watch-coalesce | of several changes at once only the last is shown |
| watch-silent | a watch stays open and says nothing ever again |
| watch-gone | a watch is refused with HTTP 410 |
| watch-gone-inside | a watch answers 200 and then an ERROR event with 410 |
| watch-drop | a watch ends after its next piece |
| stale-list | a list or watch from resourceVersion 0 shows the state `behind` revisions ago (`everywhere`: any list) |
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tgp.ports.entropy import Entropy
from tgp.sim.apiserver.identity import ApiUser
from tgp.sim.apiserver.routes import Route

NAMES = (
    "conflict",
    "too-many-requests",
    "error-before",
    "error-after",
    "timeout-after",
    "unauthorized",
    "namespace-terminating",
    "webhook-unreachable",
    "watch-lag",
    "watch-coalesce",
    "watch-silent",
    "watch-gone",
    "watch-gone-inside",
    "watch-drop",
    "stale-list",
)


@dataclass(frozen=True, slots=True)
class Hit:
    """The request a fault may strike."""

    route: Route
    user: ApiUser | None  # None: not yet known
    agent: str  # its User-Agent, to tell clients apart


Where = Callable[[Hit], bool]


@dataclass(slots=True)
class ApiFault:
    probability: float = 1.0
    times: int | None = None  # strikes left; None: no end
    where: Where | None = None
    settings: dict[str, Any] = field(default_factory=dict)


class ApiFaults:
    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._on: dict[str, ApiFault] = {}
        self.struck: dict[str, int] = {}  # how often each has happened, so that a test can check it
        self.when_changed: list[Callable[[], None]] = []

    def on(
        self,
        name: str,
        *,
        probability: float = 1.0,
        times: int | None = None,
        where: Where | None = None,
        **settings: Any,
    ) -> None:
        """Switch a fault on, or change how it strikes."""
        assert name in NAMES, f"no fault is called {name}"
        self._on[name] = ApiFault(probability, times, where, settings)
        self._tell()

    def off(self, name: str = "") -> None:
        """Switch one fault off, or all."""
        if name:
            self._on.pop(name, None)
        else:
            self._on.clear()
        self._tell()

    def _tell(self) -> None:
        for listener in self.when_changed:
            listener()

    @property
    def any_on(self) -> bool:
        return bool(self._on)

    def active(self) -> tuple[str, ...]:
        return tuple(sorted(self._on))

    def strikes(self, name: str, hit: Hit) -> ApiFault | None:
        """Does the fault happen to this request? Draws luck only when it might."""
        fault = self._on.get(name)
        if fault is None or (fault.where is not None and not fault.where(hit)):
            return None
        if fault.probability < 1.0 and self._entropy.jitter() >= fault.probability:
            return None
        if fault.times is not None:
            if fault.times <= 0:
                return None
            fault.times -= 1
        self.struck[name] = self.struck.get(name, 0) + 1
        return fault

    def holds(self, name: str, hit: Hit, luck: float) -> ApiFault | None:
        """For what lasts as long as a watch: is it on for the client that drew `luck` when it began?"""
        fault = self._on.get(name)
        if fault is None or luck >= fault.probability or (fault.where is not None and not fault.where(hit)):
            return None
        return fault
