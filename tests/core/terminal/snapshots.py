"""Builders: each states only what matters to the test that calls it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tgp.interfaces.terminal.snapshot import EventRow, NodeRow, ObjectRow, Snapshot

NOW = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)


def an_object(name: str = "ml/training", *, good: bool | None = True, **rest: Any) -> ObjectRow:
    state = {True: "Ready", False: "NotReady", None: ""}[good]
    made = ObjectRow("GPUNodePool", name, state, good, "Valid" if good else "NodeClassNotFound", "because", NOW)
    return replace(made, **rest)


def a_machine(name: str = "cellar-1", **rest: Any) -> NodeRow:
    return replace(NodeRow(name, ready=True, gpus=2, gpus_used=1, pods=3), **rest)


def an_event(minutes_ago: float = 1, **rest: Any) -> EventRow:
    made = EventRow(NOW - timedelta(minutes=minutes_ago), False, "pool ml/training", "Valid", "it is well")
    return replace(made, **rest)


def a_snapshot(**rest: Any) -> Snapshot:
    made = Snapshot(
        title="tgp demo",
        now=NOW,
        pace="60x",
        url="http://127.0.0.1:8001",
        look="kubectl get tgp -A",
        operator={"operator": "leads", "reconciles": "7"},
        objects=(an_object(),),
        machines=(a_machine(),),
        pods={"running": 3},
        events=(an_event(),),
        hint="kubectl describe gpunodepool training -n ml",
    )
    return replace(made, **rest)
