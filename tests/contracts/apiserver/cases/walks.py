"""Random walks: seeded sequences of ordinary writes by several managers, answered alike step by step.

A case written by hand covers known situations. A walk finds the others: each step is drawn from small pools
of names, fields and managers, so that steps meet. A walk that parts the two servers is a seed, and so a bug report.
"""

from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeAlias

from tests.contracts.apiserver.api import JSON_PATCH, Answer, Api, Json
from tests.contracts.apiserver.kinds import WIDGET
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import CONFIG_MAP, Resource

SEEDS = range(60)
STEPS = 25
NAMES = ("a", "b")
MANAGERS = ("ann", "bob", "carol")
FINALIZERS = ("contract.tgp.io/x", "contract.tgp.io/y")

Step: TypeAlias = Callable[[], Awaitable[Answer]]


class Walk:
    """One walker: what it remembers may be old, which is how it comes to conflict."""

    def __init__(self, api: Api, seed: int) -> None:
        self._api = api
        self._luck = Random(f"walk/{seed}")
        self._seen: dict[tuple[str, str], list[Json]] = {}

    async def run(self) -> None:
        for resource in (WIDGET, CONFIG_MAP):
            for name in NAMES:
                await self._create(resource, name)
        for _ in range(STEPS):
            resource = self._luck.choice((WIDGET, WIDGET, CONFIG_MAP))
            name = self._luck.choice(NAMES)
            answer = await self._step(resource, name)
            assert answer.status < 500, answer.body
            if answer.rv:  # what a dry run showed was never there
                self._seen.setdefault((resource.kind, name), []).append(answer.body)

    async def _step(self, resource: Resource, name: str) -> Answer:
        steps: list[Callable[[Resource, str], Awaitable[Answer]]] = [
            self._create,
            self._create,
            self._merge,
            self._merge,
            self._merge,
            self._apply,
            self._apply,
            self._apply,
            self._apply,
            self._json_patch,
            self._update,
            self._update,
            self._delete,
            self._release,
        ]
        if resource is WIDGET:
            steps += [self._status, self._apply_status]
        return await self._luck.choice(steps)(resource, name)

    # Steps

    async def _create(self, resource: Resource, name: str) -> Answer:
        return await self._api.create(resource, self._query(resource, name), **self._options())

    async def _merge(self, resource: Resource, name: str) -> Answer:
        change = self._query(resource, name, nulls=True)
        change["metadata"].pop("name")
        if self._luck.random() < 0.2 and (old := self._remembered(resource, name)):
            change["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        return await self._api.patch(resource, name, change, **self._options())

    async def _apply(self, resource: Resource, name: str) -> Answer:
        force = {"force": "true"} if self._luck.random() < 0.4 else {}
        manager = self._luck.choice(MANAGERS)
        dry = {"dryRun": "All"} if self._luck.random() < 0.1 else {}
        return await self._api.apply(resource, self._query(resource, name), manager, **force, **dry)

    async def _json_patch(self, resource: Resource, name: str) -> Answer:
        label = self._luck.choice(("l1", "l2"))
        operations: list[Json] = self._luck.choice(
            (
                [{"op": "add", "path": "/metadata/labels", "value": {label: "j"}}],
                [{"op": "remove", "path": f"/metadata/labels/{label}"}],
                [
                    {"op": "test", "path": "/metadata/name", "value": name},
                    {"op": "add", "path": "/metadata/labels/j", "value": "1"},
                ],
                [{"op": "replace", "path": "/metadata/annotations", "value": {"n": "j"}}],
            )
        )
        return await self._api.patch(resource, name, operations, kind=JSON_PATCH, **self._options())

    async def _update(self, resource: Resource, name: str) -> Answer:
        """Write back something once seen, changed: current, stale, or of an object long gone."""
        old = self._remembered(resource, name)
        if old is None:
            return await self._api.get(resource, name)
        query = self._query(resource, name)
        meta = {key: value for key, value in old["metadata"].items() if key != "labels"}
        return await self._api.update(
            resource, {**old, **query, "metadata": {**meta, **query["metadata"]}}, **self._options()
        )

    async def _delete(self, resource: Resource, name: str) -> Answer:
        options: Json = {}
        if self._luck.random() < 0.3 and (old := self._remembered(resource, name)):
            options["preconditions"] = {"uid": old["metadata"]["uid"]}
        if self._luck.random() < 0.2:
            options["propagationPolicy"] = self._luck.choice(("Foreground", "Orphan", "Background"))
        return await self._api.delete(resource, name, options or None)

    async def _release(self, resource: Resource, name: str) -> Answer:
        return await self._api.patch(resource, name, {"metadata": {"finalizers": None}})

    async def _status(self, resource: Resource, name: str) -> Answer:
        return await self._api.patch(resource, name, {"status": self._report()}, "status", **self._options())

    async def _apply_status(self, resource: Resource, name: str) -> Answer:
        body: Json = {"metadata": {"name": name}, "status": self._report()}
        return await self._api.apply(resource, body, self._luck.choice(MANAGERS), "status", force="true")

    # What is drawn

    def _remembered(self, resource: Resource, name: str) -> Json | None:
        seen = self._seen.get((resource.kind, name), [])
        return self._luck.choice(seen[-3:]) if seen else None

    def _options(self) -> Json:
        return {"fieldManager": self._luck.choice(MANAGERS)} if self._luck.random() < 0.5 else {}

    def _query(self, resource: Resource, name: str, *, nulls: bool = False) -> Json:
        meta: Json = {"name": name}
        if labels := self._some({"l1": ("1", "2"), "l2": ("1",)}, nulls=nulls):
            meta["labels"] = labels
        if self._luck.random() < 0.15:
            meta["finalizers"] = [self._luck.choice(FINALIZERS)]
        if resource is CONFIG_MAP:
            return {
                "metadata": meta,
                "data": self._some({"k1": ("1", "2"), "k2": ("1", "2"), "k3": ("1",)}, nulls=nulls),
            }
        return {"metadata": meta, "spec": {"size": self._luck.choice((1, 2, 2, 101)), **self._spec(nulls=nulls)}}

    def _spec(self, *, nulls: bool) -> Json:
        parts = [{"name": name, **self._some({"count": (1, 2), "note": ("n",)})} for name in self._few(("p", "q", "r"))]
        return self._some(
            {
                "color": ("red", "green"),
                "mode": ("x", "y"),
                "tags": (["aa"], ["aa", "bb"], ["bb", "cc"]),
                "steps": (["1"], ["1", "2"]),
                "labels": ({"m": "1"}, {"m": "2", "n": "1"}),
                "limits": ({"max": 3}, {"burst": 1}),
                "parts": (parts,),
                "window": ({"from": "8"}, {"from": "9", "for": "2h"}),
                "free": ({"x": {"y": 1}}, {"x": {"y": 2, "z": [1]}}),
            },
            nulls=nulls,
        )

    def _report(self) -> Json:
        conditions = [{"type": kind, "status": self._luck.choice(("True", "False"))} for kind in self._few(("R", "D"))]
        return self._some({"phase": ("on", "off"), "ready": (0, 1), "conditions": (conditions,)})

    def _few(self, pool: tuple[str, ...]) -> list[str]:
        return [one for one in pool if self._luck.random() < 0.5]

    def _some(self, pool: dict[str, tuple[object, ...]], *, nulls: bool = False) -> Json:
        drawn: Json = {}
        for key, values in pool.items():
            if self._luck.random() < 0.35:
                drawn[key] = None if nulls and self._luck.random() < 0.3 else self._luck.choice(values)
        return drawn


def _add(seed: int) -> None:
    async def walk(api: Api) -> None:
        await Walk(api, seed).run()

    walk.__name__ = f"random_walk_{seed}_is_answered_alike"
    case(Area.WALK)(walk)


for _seed in SEEDS:
    _add(_seed)
