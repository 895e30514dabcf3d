"""Writes the status of a request where it changed, and notes a fact where something became true."""

from collections.abc import Mapping
from typing import Any

from tgp.controllers.requests.failure_cooldowns import FailureCooldowns
from tgp.controllers.requests.memo import RequestMemo
from tgp.controllers.status_writer import StatusWriter
from tgp.core.model.conditions import without_amounts
from tgp.core.model.facts import MachineReady
from tgp.core.requests.events import new_events
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.status import RequestStatus, compute_status, spent_parts
from tgp.core.requests.steps import Complete, Step
from tgp.ports.clock import Clock
from tgp.ports.journal import Journal

NUMBERS_EVERY = 300.0  # seconds between two writes that change only numbers in messages


class RequestStatusWriter:
    def __init__(
        self, status_writer: StatusWriter, failure_cooldowns: FailureCooldowns, journal: Journal, clock: Clock
    ) -> None:
        self._status_writer = status_writer
        self._failure_cooldowns = failure_cooldowns
        self._journal = journal
        self._clock = clock

    async def write(
        self, observation: RequestObservation, step: Step, memory: RequestMemo, *, finish: Complete | None = None
    ) -> None:
        """At most one conditional write. Facts are noted once the API server accepted the status."""
        held = observation.record.status
        status = compute_status(observation, step, finish=finish, held=held)
        changed = {name for name, part in status.parts.items() if held.get(name) != part}
        if (
            changed <= {"message"}
            and says_the_same(status, held)
            and self._clock.boottime() - memory.written_at < NUMBERS_EVERY
        ):
            return
        parts = {**status.parts, **spent_parts(observation)} if changed else None
        await self._status_writer.write(observation.record, status.updates, parts, held=held)
        memory.written_at = self._clock.boottime()
        for fact in new_events(observation, status):
            if isinstance(fact, MachineReady):
                self._failure_cooldowns.succeeded(observation.attempt)
            self._journal.note(fact)


def says_the_same(status: RequestStatus, held: Mapping[str, Any]) -> bool:
    """Except for numbers: `14 offers` and `15 offers` say the same; another cause is written at once."""
    conditions = [(each.type, each.word, each.reason, _without_numbers(each.message)) for each in status.updates]
    current = [
        (each.get("type"), each.get("status"), each.get("reason"), _without_numbers(each.get("message")))
        for each in held.get("conditions", ())
        if isinstance(each, dict)
    ]
    same_message = _without_numbers(status.parts.get("message")) == _without_numbers(held.get("message"))
    return same_message and sorted(conditions, key=str) == sorted(current, key=str)


def _without_numbers(text: object) -> str:
    return without_amounts(str(text or ""))
