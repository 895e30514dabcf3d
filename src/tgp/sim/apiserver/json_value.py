"""JSON values as the server holds them: shared, never changed in place once stored."""

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def copied(value: Any) -> Any:
    """A deep copy of plain JSON, several times faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: copied(item) if isinstance(item, (dict, list)) else item for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) if isinstance(item, (dict, list)) else item for item in value]
    return value


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: `1` and `True` differ here although Python says they do not."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(v, other[k]) for k, v in one.items())
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def metadata(obj: Json) -> Json:
    """The object's metadata, made if it is missing; only for objects that are still being written."""
    found = obj.get("metadata")
    if not isinstance(found, dict):
        found = {}
        obj["metadata"] = found
    return found


def at(obj: Any, *path: str) -> Any:
    """The value at a path of keys, or None."""
    for key in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


def mapping_at(obj: Any, *path: str) -> Json:
    """The mapping at a path of keys; an empty one if there is none."""
    found = at(obj, *path)
    return found if isinstance(found, dict) else {}


def list_at(obj: Any, *path: str) -> list[Any]:
    found = at(obj, *path)
    return found if isinstance(found, list) else []


def without_nulls(value: Any) -> Any:
    """What typed storage keeps: a null field is an absent one (inside lists a null stays)."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) if isinstance(item, dict) else item for item in value]
    return value
