"""Ten lies, planted one at a time in the in-memory server. Each breaks one promise that costs money when broken.

A lie is small and sharp (one decision of the server, turned round), because a suite that only notices a broken server
says little about a subtly wrong one.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from tests.contracts.apiserver.fake import Make, honest, server_with
from tests.contracts.apiserver.suite import Area
from tgp.sim.apiserver import eviction, watch
from tgp.sim.apiserver.field_manager import ManagedFields
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.patch import dispatch
from tgp.sim.apiserver.patch.apply import Application
from tgp.sim.apiserver.patch.fields import Path
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.semantics import Semantics
from tgp.sim.apiserver.status_errors import Cause
from tgp.sim.apiserver.storage import KindStorage


@dataclass(frozen=True, slots=True)
class Lie:
    """What is false, where it should be noticed, and how it is planted: inside the context, `Make` makes a liar."""

    name: str
    areas: tuple[Area, ...]
    planted: Callable[[], AbstractContextManager[Make]]


# Lies told by a decision of the server.


class _CountsStatus(Semantics):
    def is_same_intent(self, served: Served, old: Json, new: Json) -> bool:
        return super().is_same_intent(served, old, new) and old.get("status") == new.get("status")


class _TakesLateFinalizers(Semantics):
    def new_finalizer_problems(self, *_: Json) -> list[Cause]:
        return []


class _LetsLeasesBeStolen(Semantics):
    def check_resource_version(self, served: Served, name: str, sent: str, stored: str) -> None:
        if served.kind != "Lease":
            super().check_resource_version(served, name, sent, stored)


class _ForgetsWhoLeft(Semantics):
    def event_type(self, kind: str, was_in: bool, is_in: bool) -> str:
        told = super().event_type(kind, was_in, is_in)
        return "" if told == "DELETED" and kind != "DELETED" else told


class _RemembersForever(Semantics):
    def is_too_old(self, *_: int) -> bool:
        return False


def _deciding(semantics: type[Semantics]) -> Callable[[], AbstractContextManager[Make]]:
    @contextmanager
    def planted() -> Iterator[Make]:
        yield server_with(semantics())

    return planted


# Lies told by a part of the server.


@contextmanager
def _keeps_nulls() -> Iterator[Make]:
    true = dispatch.merge_patched

    def lying(target: object, change: object) -> object:
        return true(target, _without_nulls(change))

    with patch.object(dispatch, "merge_patched", lying):
        yield honest


def _without_nulls(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}


@contextmanager
def _never_conflicts() -> Iterator[Make]:
    def lying(_: Application, others: list[ManagedFields], won: set[Path], *_rest: object) -> list[ManagedFields]:
        return [claim.losing(won) for claim in others]

    with patch.object(Application, "_settled", lying):
        yield honest


@contextmanager
def _shows_the_newest_on_every_page() -> Iterator[Make]:
    with patch.object(KindStorage, "as_of", lambda kind_storage, _revision: (kind_storage.records, kind_storage.keys)):
        yield honest


@contextmanager
def _promises_too_little() -> Iterator[Make]:
    true = watch.bookmark_line

    def lying(served: Served, revision: int, **more: bool) -> bytes:
        return true(served, max(1, revision - 100), **more)

    with patch.object(watch, "bookmark_line", lying):
        yield honest


@contextmanager
def _ignores_budgets() -> Iterator[Make]:
    with patch.object(eviction, "budgets_of", lambda *_: []):
        yield honest


LIES = (
    Lie("a status write counts as a new generation", (Area.PATCH,), _deciding(_CountsStatus)),
    Lie("a finalizer may be added to what is going", (Area.DELETION,), _deciding(_TakesLateFinalizers)),
    Lie("a lease may be taken over from an old version", (Area.LEASE,), _deciding(_LetsLeasesBeStolen)),
    Lie("a watch forgets to tell what left its selection", (Area.WATCH,), _deciding(_ForgetsWhoLeft)),
    Lie("history is never too old", (Area.WATCH,), _deciding(_RemembersForever)),
    Lie("a null in a merge patch keeps the key", (Area.PATCH,), _keeps_nulls),
    Lie("an apply never conflicts", (Area.APPLY,), _never_conflicts),
    Lie("later pages show the newest state", (Area.WATCH,), _shows_the_newest_on_every_page),
    Lie("a bookmark carries an old version", (Area.WATCH,), _promises_too_little),
    Lie("an eviction ignores disruption budgets", (Area.EVICTION,), _ignores_budgets),
)
