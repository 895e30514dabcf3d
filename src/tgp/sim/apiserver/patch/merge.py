"""JSON merge patch (RFC 7386)."""

from typing import Any

from tgp.sim.apiserver.json_value import copied


def merge_patched(target: Any, change: Any) -> Any:
    """`target` with `change` merged in: null removes, mappings merge, everything else replaces."""
    if not isinstance(change, dict):
        return copied(change)
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patched(merged.get(key), value) if isinstance(value, (dict, list)) else value
    return merged
