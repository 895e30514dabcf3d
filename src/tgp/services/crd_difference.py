"""How the custom resource definitions of a cluster differ from those of this release."""

import difflib
from typing import Any

from tgp.api.crds import NUMBER_LABEL, as_yaml, number_of
from tgp.core.classes.kinds import SHOWN, fields_of, lacking

CONTEXT_LINES = 3


def difference(stored: dict[str, Any] | None, ours: dict[str, Any]) -> str:
    """A unified diff from the stored definition to this release's; empty: no difference."""
    name = ours["metadata"]["name"]
    wanted = comparable(ours, ours)
    found = None if stored is None else comparable(stored, ours)
    if found == wanted:
        return ""  # to write both as YAML takes a third of a second
    lines = difflib.unified_diff(
        [] if found is None else _lines(found), _lines(wanted), f"cluster/{name}", f"tgp/{name}", n=CONTEXT_LINES
    )
    return "".join(lines)


def newer(stored: dict[str, Any] | None, ours: dict[str, Any]) -> str:
    """By what a stored definition is newer than this release's, by its number, else by its fields; empty: it is not."""
    if stored is None:
        return ""
    theirs, number = number_of(stored), number_of(ours)
    if theirs and theirs != number:
        return f"{NUMBER_LABEL} is {theirs}, not {number}" if theirs > number else ""
    fields = sorted(lacking(fields_of(stored), ours))
    return f"it has {', '.join(fields[:SHOWN])}{' …' if len(fields) > SHOWN else ''}" if fields else ""


def comparable(definition: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """What is compared: the spec without the API server's additions, and the labels that tgp sets."""
    spec = {key: value for key, value in definition["spec"].items() if (key, value) not in _ADDED_BY_SERVER}
    wanted = ours["metadata"].get("labels", {})
    labels = {key: value for key, value in (definition["metadata"].get("labels") or {}).items() if key in wanted}
    return {"metadata": {"name": definition["metadata"]["name"], "labels": labels}, "spec": spec}


_ADDED_BY_SERVER = (("conversion", {"strategy": "None"}), ("preserveUnknownFields", False))


def _lines(document: dict[str, Any]) -> list[str]:
    return as_yaml(_sorted(document)).splitlines(keepends=True)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
