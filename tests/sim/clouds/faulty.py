"""A provider that fails, by seed: a decorator around the `Cloud` port, for simulations that need no wire.

Each error keeps the port's promise about what it means. After `CloudBusy` or a refusal nothing happened; after
`OutcomeUnknown` it may have happened, so it is raised before the provider is asked as well as after it did as asked.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from random import Random
from typing import TypeVar

from tgp.core.model.cloud_errors import AccountExhausted, CannotTell, CloudBusy, KeyRefused, OutcomeUnknown, SoldOut
from tgp.core.model.instance import Instance
from tgp.core.model.provider_facts import CloudFacts
from tgp.ports.cloud import Account, Cloud, KeyReport, LaunchOrder, Listing

T = TypeVar("T")
BUSY_FOR = timedelta(seconds=7)


class Err(StrEnum):
    BUSY = "busy"  # nothing happened
    CANNOT_TELL = "cannot-tell"  # of a look
    UNKNOWN_BEFORE = "unknown-before"  # of a change: nothing happened, and the caller cannot know
    UNKNOWN_AFTER = "unknown-after"  # of a change: it happened, and the caller cannot know
    UNKNOWN_WITH_ID = "unknown-with-id"  # of a launch: it happened, and the error names the machine
    SOLD_OUT = "sold-out"  # of a launch
    EXHAUSTED = "exhausted"  # of a launch
    KEY_REFUSED = "key-refused"


LOOKS = (Err.BUSY, Err.CANNOT_TELL, Err.KEY_REFUSED)
LAUNCHES = (
    Err.BUSY,
    Err.UNKNOWN_BEFORE,
    Err.UNKNOWN_AFTER,
    Err.UNKNOWN_WITH_ID,
    Err.SOLD_OUT,
    Err.EXHAUSTED,
    Err.KEY_REFUSED,
)
ENDS = (Err.BUSY, Err.UNKNOWN_BEFORE, Err.UNKNOWN_AFTER, Err.KEY_REFUSED)


@dataclass(slots=True)
class FaultyCloud:
    """Passes on what `chances` lets through. One draw per error that a verb can meet: equal seeds err equally."""

    cloud: Cloud
    luck: Random
    chances: Mapping[Err, float] = field(default_factory=dict)  # per call that it can befall
    seen: dict[Err, int] = field(default_factory=dict)  # how often each happened

    @property
    def facts(self) -> CloudFacts:
        return self.cloud.facts

    async def offers(self) -> Listing:
        return await self._look("offers", self.cloud.offers)

    async def find(self, token: str) -> tuple[Instance, ...]:
        return await self._look("find", lambda: self.cloud.find(token))

    async def status(self, instance_id: str) -> Instance | None:
        return await self._look("status", lambda: self.cloud.status(instance_id))

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        return await self._look("owned", lambda: self.cloud.owned(prefix))

    async def check(self) -> KeyReport:
        return await self._look("check", self.cloud.check)

    async def identity(self) -> Account:
        return await self._look("identity", self.cloud.identity)

    async def launch(self, order: LaunchOrder) -> Instance:
        err = self._draw(LAUNCHES)
        self._raise_before("launch", err)
        made = await self.cloud.launch(order)
        if err is Err.UNKNOWN_AFTER:
            raise OutcomeUnknown(self._text("launch", "got no answer"))
        if err is Err.UNKNOWN_WITH_ID:
            raise OutcomeUnknown(self._text("launch", "answered with an error and a machine"), made.id)
        return made

    async def terminate(self, instance_id: str) -> None:
        err = self._draw(ENDS)
        self._raise_before("terminate", err)
        await self.cloud.terminate(instance_id)
        if err is Err.UNKNOWN_AFTER:
            raise OutcomeUnknown(self._text("terminate", "got no answer"))

    async def _look(self, verb: str, ask: Callable[[], Awaitable[T]]) -> T:
        self._raise_before(verb, self._draw(LOOKS))
        return await ask()

    def _draw(self, possible: tuple[Err, ...]) -> Err | None:
        drawn = [err for err in possible if self.luck.random() < self.chances.get(err, 0.0)]
        if not drawn:
            return None
        self.seen[drawn[0]] = self.seen.get(drawn[0], 0) + 1
        return drawn[0]

    def _raise_before(self, verb: str, err: Err | None) -> None:
        """Raise what means that the provider was not reached, or did nothing."""
        match err:
            case Err.BUSY:
                raise CloudBusy(self._text(verb, "is busy"), BUSY_FOR)
            case Err.CANNOT_TELL:
                raise CannotTell(self._text(verb, "answered in riddles"))
            case Err.UNKNOWN_BEFORE:
                raise OutcomeUnknown(self._text(verb, "got no answer"))
            case Err.SOLD_OUT:
                raise SoldOut(self._text(verb, "has none left"))
            case Err.EXHAUSTED:
                raise AccountExhausted(self._text(verb, "wants money first"))
            case Err.KEY_REFUSED:
                raise KeyRefused(self._text(verb, "refuses the key"))
            case _:
                return

    def _text(self, verb: str, what: str) -> str:
        return f"{self.facts.title} {what} ({verb}, on purpose)"
