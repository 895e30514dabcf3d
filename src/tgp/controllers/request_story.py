"""Tells how a request stands: on its status where that is news, and as facts where something became true."""

import re
from collections.abc import Mapping
from typing import Any

from tgp.controllers.bench import Bench
from tgp.controllers.memory import Memory
from tgp.controllers.verdicts import Scribe
from tgp.core.model.facts import MachineReady
from tgp.core.rules.lifecycle_news import news
from tgp.core.rules.lifecycle_words import Story, spent_parts, tell
from tgp.core.rules.sight import Sight
from tgp.core.rules.steps import Finish, Step
from tgp.ports.clock import Clock
from tgp.ports.journal import Journal

NUMBERS_EVERY = 300.0  # seconds between two writes that change nothing but numbers in words
_NUMBERS = re.compile(r"[0-9][0-9.,:]*")


class Storyteller:
    def __init__(self, scribe: Scribe, bench: Bench, journal: Journal, clock: Clock) -> None:
        self._scribe = scribe
        self._bench = bench
        self._journal = journal
        self._clock = clock

    async def tell(self, sight: Sight, step: Step, memory: Memory, *, finish: Finish | None = None) -> None:
        """At most one conditional write. Facts are noted once the API server holds what they tell."""
        held = sight.record.status
        story = tell(sight, step, finish=finish, held=held)
        changed = {name for name, part in story.parts.items() if held.get(name) != part}
        if (
            changed <= {"message"}
            and says_the_same(story, held)
            and self._clock.boottime() - memory.told_at < NUMBERS_EVERY
        ):
            return
        parts = {**story.parts, **spent_parts(sight)} if changed else None
        await self._scribe.write(sight.record, story.verdicts, parts, held=held)
        memory.told_at = self._clock.boottime()
        for fact in news(sight, story):
            if isinstance(fact, MachineReady):
                self._bench.succeeded(sight.attempt)
            self._journal.note(fact)


def says_the_same(story: Story, held: Mapping[str, Any]) -> bool:
    """But for numbers in its words: `14 offers` and `15 offers` say the same; another cause is said at once."""
    conditions = [(each.type, each.word, each.reason, _worded(each.message)) for each in story.verdicts]
    stand = [
        (each.get("type"), each.get("status"), each.get("reason"), _worded(each.get("message")))
        for each in held.get("conditions", ())
        if isinstance(each, dict)
    ]
    told = _worded(story.parts.get("message")) == _worded(held.get("message"))
    return told and sorted(conditions, key=str) == sorted(stand, key=str)


def _worded(text: object) -> str:
    return _NUMBERS.sub("#", str(text or ""))
