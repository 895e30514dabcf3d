"""Machines of a pool as a look at them shows: builders that state only what matters to a test."""

from typing import Any

import msgspec

from tests.core.pools.builders import a_condition, a_node, a_request, ago, an_attempt, written
from tgp.core.disruption.causes import Machine
from tgp.core.pools.orders import FOR
from tgp.core.requests.drain import DISRUPTED


def a_machine(
    name: str = "r1",
    *,
    idle: float | None = 20.0,
    pods: tuple = (),
    node: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    anchor: str = "uid-pod",
    awaited: bool = False,
    keeps_place: bool = False,
    deleting: bool = False,
    **status: Any,
) -> Machine:
    """Ready for an hour, without a pod for `idle` minutes."""
    usual = {
        "phase": "Ready",
        "readyAt": written(ago(hours=1)),
        "idleSince": written(ago(minutes=idle)) if idle is not None else None,
        "attempts": [an_attempt(outcome="Launched", launchedAt=written(ago(hours=2)))],
        "nodeName": f"node-{name}",
    }
    record = a_request(name, **{**usual, **status})
    ending = ago(minutes=1) if deleting else None
    record = msgspec.structs.replace(
        record,
        uid=f"uid-{name}",
        annotations={FOR: anchor, **(annotations or {})},
        deletion_requested_at=ending,
        status_document=msgspec.json.encode({"conditions": usual.get("conditions", status.get("conditions", []))}),
    )
    return Machine(record, a_node(f"node-{name}", **(node or {})), pods, awaited, keeps_place)


def moving(name: str = "r1", reason: str = "Empty", *, marked: bool = True, taint: str = "", **rest: Any) -> Machine:
    """In a move that is written down."""
    conditions = [a_condition("Disrupted", "True", reason, ago(minutes=1))] if marked else []
    conditions += rest.pop("conditions", ())
    annotations = {"tgp.io/move": "m1", **rest.pop("annotations", {})}
    taints = (msgspec.structs.replace(DISRUPTED, effect=taint),) if taint else ()
    return a_machine(name, annotations=annotations, conditions=conditions, node={"taints": taints}, **rest)
