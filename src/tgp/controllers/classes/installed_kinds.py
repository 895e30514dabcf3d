"""Compares the CRDs in the cluster with what this operator needs, in every replica and again and again."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache

from tgp import __version__
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION
from tgp.core.classes.kinds import fields_of, lacking, outdated
from tgp.core.model.facts import KindsOutdated, KindsUpToDate
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import Cluster, ClusterError, Forbidden
from tgp.ports.http import HttpError
from tgp.ports.journal import Journal

SELDOM = timedelta(minutes=10)
SOON = timedelta(seconds=15)  # while they are outdated, or could not be read
NOT_COMPARED = "Operator has not compared the installed CRDs with its own yet, and launches nothing until then"


class InstalledKinds:
    def __init__(self, cluster: Cluster, journal: Journal, changed: Callable[[], None]) -> None:
        self._cluster = cluster
        self._journal = journal
        self._changed = changed  # `outdated` or `not_compared` answers otherwise than before
        self._words = ""
        self._known = False  # they were compared once, or may not be
        # By the name of a CRD: the version that was compared last, and what it does not have.
        self._compared: dict[str, tuple[str, tuple[str, ...]]] = {}

    def outdated(self) -> str:
        """Why nothing is bought and no class is ready; empty: they are new enough, or not known."""
        return self._words

    def not_compared(self) -> str:
        """Why nothing is bought yet: an older CRD would drop what is recorded of an order; empty: that is known."""
        return "" if self._known else NOT_COMPARED

    async def run(self) -> None:
        """Until cancelled."""
        wanted = _needed()
        while True:
            try:
                await self._check(wanted)
                self._first_answer()
                pause = SOON if self._words else SELDOM
            except Forbidden:  # a role of an older release does not allow it: that stops no purchase
                self._first_answer()
                pause = SELDOM
            except (ClusterError, HttpError):
                pause = SOON
            await asyncio.sleep(pause.total_seconds())

    def _first_answer(self) -> None:
        if not self._known:
            self._known = True
            self._changed()

    async def _check(self, wanted: Mapping[str, frozenset[str]]) -> None:
        missing: dict[str, tuple[str, ...]] = {}
        for name, fields in wanted.items():
            stored = await self._cluster.read(CUSTOM_RESOURCE_DEFINITION, ObjectKey("", name))
            version = stored.get("metadata", {}).get("resourceVersion", "")
            compared, without = self._compared.get(name, ("", ()))
            if not version or version != compared:
                without = tuple(sorted(lacking(fields, stored)))
                self._compared[name] = version, without
            if without:
                missing[name] = without
        words = outdated(missing, __version__)
        if words != self._words:
            self._words = words
            self._journal.note(KindsOutdated(words) if words else KindsUpToDate())
            self._changed()


@cache
def _needed() -> Mapping[str, frozenset[str]]:
    from tgp.api.crds import crds  # here: definitions are made once, and only their fields are kept

    return {each["metadata"]["name"]: fields_of(each) for each in crds()}
