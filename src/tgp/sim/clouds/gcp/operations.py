"""Operations: what was asked for, how far it is, and why it failed."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tgp.sim.clouds.gcp.resources import link, moment, number
from tgp.sim.clouds.machine import Phase, SimulatedMachine

KEPT_MOST = 10_000  # the oldest are forgotten; Google forgets after 14 days


@dataclass(slots=True)
class Operation:
    name: str
    project: str
    zone: str
    verb: str  # insert, delete, stop, start, setLabels
    target: str  # the machine's name
    begun_at: datetime
    takes: timedelta
    machine: SimulatedMachine | None = None  # None: nothing came of it
    failure: tuple[str, str] | None = None  # code and message, once it is done

    def is_done(self, now: datetime) -> bool:
        if self.verb == "delete" and self.machine is not None and self.machine.phase is Phase.ENDING:
            return False
        return now >= self.begun_at + self.takes

    def json(self, now: datetime, user: str) -> dict[str, Any]:
        done = self.is_done(now)
        row: dict[str, Any] = {
            "kind": "compute#operation",
            "id": number(self.name),
            "name": self.name,
            "zone": link(self.project, f"zones/{self.zone}"),
            "operationType": self.verb,
            "targetLink": link(self.project, f"zones/{self.zone}/instances/{self.target}"),
            "targetId": number(self.machine.id if self.machine is not None else self.target),
            "status": "DONE" if done else "RUNNING",
            "user": user,
            "progress": 100 if done else 0,
            "insertTime": moment(self.begun_at),
            "startTime": moment(self.begun_at),
            "selfLink": link(self.project, f"zones/{self.zone}/operations/{self.name}"),
        }
        if done:
            row["endTime"] = moment(self.begun_at + self.takes)
        if done and self.failure is not None:
            code, message = self.failure
            row["error"] = {"errors": [{"code": code, "message": message}]}
            row["httpErrorStatusCode"], row["httpErrorMessage"] = 503, "SERVICE UNAVAILABLE"
        return row


@dataclass(slots=True)
class Operations:
    """Every one of late, by name, in their order."""

    _known: dict[str, Operation] = field(default_factory=dict)
    _by_request: dict[tuple[str, str], Operation] = field(default_factory=dict)
    _count: int = 0

    def begin(self, operation: Operation, request: str) -> Operation:
        self._known[operation.name] = operation
        if request:
            self._by_request[operation.project, request] = operation
        while len(self._known) > KEPT_MOST:
            del self._known[next(iter(self._known))]
        return operation

    def new_name(self, seed: int | str) -> str:
        self._count += 1
        return f"operation-{number(f'{seed}/{self._count}')}-{self._count}"

    def of_request(self, project: str, request: str) -> Operation | None:
        """What an earlier request with this id began."""
        return self._by_request.get((project, request)) if request else None

    def get(self, project: str, zone: str, name: str) -> Operation | None:
        found = self._known.get(name)
        return found if found is not None and (found.project, found.zone) == (project, zone) else None

    def within(self, project: str, zone: str) -> list[Operation]:
        return [each for each in self._known.values() if (each.project, each.zone) == (project, zone)]
