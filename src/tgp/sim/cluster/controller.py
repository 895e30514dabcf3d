"""The common frame of cluster components: something changed, so look at one key, now or at a stated time."""

import asyncio
from collections.abc import Iterable
from contextvars import Context
from dataclasses import dataclass

from tgp.api.resource import Resource
from tgp.core.model.backoff import doubled
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Failure
from tgp.sim.cluster.component_api import ComponentApi

REACTION = 0.05  # seconds from a change to its being acted on: an informer's delay on a healthy cluster
FIRST_RETRY = 1.0  # seconds after the server refused a write
LONGEST_RETRY = 300.0  # seconds; client-go's rate limiter ends at 1000


@dataclass(frozen=True, slots=True)
class StoreCommit:
    """One write as the store committed it."""

    served: Served
    before: Json | None  # None: it is new
    after: Json | None  # None: it is gone

    @property
    def obj(self) -> Json:
        """The object as it is, or was last."""
        found = self.after if self.after is not None else self.before
        assert found is not None, "a commit is about something"
        return found


class ClusterController:
    """Subclasses say what they watch, which keys a change concerns, and what to do about a key."""

    name = "controller"
    watched: tuple[Resource, ...] = ()  # empty: everything
    reaction = REACTION

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        self.api = ComponentApi(core, self.name)
        self._loop = loop
        self._due: dict[ObjectKey, None] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._later: dict[ObjectKey, asyncio.TimerHandle] = {}
        self._refused: dict[ObjectKey, int] = {}
        self._closed = False

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        """The keys that a commit gives reason to look at."""
        raise NotImplementedError

    def reconcile(self, key: ObjectKey) -> float | None:
        """Take `key` to where it should be; seconds after which to look again, or None: when something changes."""
        raise NotImplementedError

    def in_turn(self, keys: list[ObjectKey]) -> list[ObjectKey]:
        """The order in which keys that are due together are looked at: first come, first served."""
        return keys

    def notify(self, commit: StoreCommit) -> None:
        for key in self.concerns(commit):
            self.look_at(key)

    def look_at(self, key: ObjectKey, after: float = 0.0) -> None:
        """Have `key` reconciled soon, or after so many seconds, unless it is looked at earlier."""
        if self._closed:
            return
        if after > self.reaction:
            self._set_alarm_for(key, after)
            return
        self._due[key] = None
        if self._alarm is None:
            self._alarm = self._loop.call_later(self.reaction, self._work, context=Context())

    def call_off(self, key: ObjectKey) -> None:
        """What was planned for `key` at a later time is off."""
        planned = self._later.pop(key, None)
        if planned is not None:
            planned.cancel()

    def close(self) -> None:
        self._closed = True
        for timer in (self._alarm, *self._later.values()):
            if timer is not None:
                timer.cancel()
        self._later.clear()

    def _set_alarm_for(self, key: ObjectKey, after: float) -> None:
        planned = self._later.get(key)
        if planned is not None:
            if planned.when() <= self._loop.time() + after:
                return
            planned.cancel()
        self._later[key] = self._loop.call_later(after, self._alarm_rang, key, context=Context())

    def _alarm_rang(self, key: ObjectKey) -> None:
        self._later.pop(key, None)
        self.look_at(key)

    def _work(self) -> None:
        self._alarm = None
        due, self._due = self._due, {}
        keys = self.in_turn(list(due))
        try:
            while keys:
                self._look_now(keys.pop(0))
        finally:  # one key that breaks us must not make us forget the others
            for key in keys:
                self.look_at(key)

    def _look_now(self, key: ObjectKey) -> None:
        self.call_off(key)
        again = self._try(key)
        if again is not None:
            self.look_at(key, again)

    def _try(self, key: ObjectKey) -> float | None:
        try:
            again = self.reconcile(key)
        except Failure:  # admission or a rule said no; it may say yes once the world has changed
            times = self._refused[key] = self._refused.get(key, 0) + 1
            return doubled(FIRST_RETRY, times, LONGEST_RETRY)
        self._refused.pop(key, None)
        return again
