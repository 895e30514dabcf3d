"""Rows of HorizontalPodAutoscalers: each metric as what is measured over what is wanted."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tgp.sim.apiserver.tables.column import Printer, columns
from tgp.sim.apiserver.tables.text import NONE, UNKNOWN, at, born, count, name

_SHOWN = 2  # metrics; the rest becomes "+ n more..."
_PLACES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _autoscaler(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    target = at(obj, "spec", "scaleTargetRef") or {}
    least = at(obj, "spec", "minReplicas")
    return [
        name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(obj),
        "<unset>" if least is None else str(least),
        count(obj, "spec", "maxReplicas"),
        count(obj, "status", "currentReplicas"),
        born(obj, now),
    ]


def _metrics(obj: Mapping[str, Any]) -> str:
    wanted = at(obj, "spec", "metrics") or []
    measured = at(obj, "status", "currentMetrics") or []
    shown = [_metric(one, measured[i] if i < len(measured) else {}) for i, one in enumerate(wanted)]
    if not shown:
        return NONE
    text = ", ".join(shown[:_SHOWN])
    return f"{text} + {len(shown) - _SHOWN} more..." if len(shown) > _SHOWN else text


def _metric(wanted: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    kind = wanted.get("type", "")
    if kind not in _PLACES:
        return "<unknown type>"
    place = _PLACES[kind]
    target, current = at(wanted, place, "target") or {}, at(measured, place, "current") or {}
    if kind in {"Resource", "ContainerResource"}:
        return f"{at(wanted, place, 'name')}: {_resource(target, current)}"
    average = "averageValue" in target
    field = "averageValue" if average or kind == "Pods" else "value"
    note = " (avg)" if average and kind != "Pods" else ""
    return f"{current.get(field, UNKNOWN)}/{target.get(field, UNKNOWN)}{note}"


def _resource(target: Mapping[str, Any], current: Mapping[str, Any]) -> str:
    if "averageValue" in target:
        return f"{current.get('averageValue', UNKNOWN)}/{target['averageValue']}"
    used, wanted = current.get("averageUtilization"), target.get("averageUtilization")
    return f"{UNKNOWN if used is None else f'{used}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"


AUTOSCALERS = {
    ("autoscaling", "HorizontalPodAutoscaler"): Printer(
        columns("Name|Reference|Targets|MinPods|MaxPods|Replicas|Age"), _autoscaler
    ),
}
