"""Builders: each states only what matters to the test that calls it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tgp.surfaces.terminal.scene import Happening, Machine, Scene, Thing

NOW = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)


def a_thing(name: str = "ml/training", *, good: bool | None = True, **rest: Any) -> Thing:
    state = {True: "Ready", False: "NotReady", None: ""}[good]
    made = Thing("GPUNodePool", name, state, good, "Valid" if good else "NodeClassNotFound", "because", NOW)
    return replace(made, **rest)


def a_machine(name: str = "cellar-1", **rest: Any) -> Machine:
    return replace(Machine(name, ready=True, gpus=2, gpus_used=1, pods=3), **rest)


def a_happening(minutes_ago: float = 1, **rest: Any) -> Happening:
    made = Happening(NOW - timedelta(minutes=minutes_ago), False, "pool ml/training", "Valid", "it is well")
    return replace(made, **rest)


def a_scene(**rest: Any) -> Scene:
    made = Scene(
        title="tgp demo",
        now=NOW,
        pace="60x",
        url="http://127.0.0.1:8001",
        look="kubectl get tgp -A",
        operator={"operator": "leads", "turns": "7"},
        things=(a_thing(),),
        machines=(a_machine(),),
        pods={"running": 3},
        happenings=(a_happening(),),
        hint="kubectl describe gpunodepool training -n ml",
    )
    return replace(made, **rest)
