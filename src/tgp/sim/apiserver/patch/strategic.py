"""Strategic merge patch: a merge patch that knows which lists are keyed, with kubectl's directives.

`$patch: delete | replace | merge`, `$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>` and `$retainKeys`.
"""

from typing import Any

from tgp.sim.apiserver.json_value import Json, copied
from tgp.sim.apiserver.patch.typed import child_schema, item_schema
from tgp.sim.apiserver.status_errors import plain_500

PATCH = "$patch"
RETAIN = "$retainKeys"
ORDER = "$setElementOrder/"
DELETE_FROM = "$deleteFromPrimitiveList/"


def strategic_patched(schema: Json | None, live: Any, sent: Json) -> Any:
    """`live`, untouched, with `sent` merged along `schema`."""
    return _merged_map(schema, live if isinstance(live, dict) else {}, sent)


def _merged_map(schema: Json | None, live: Json, sent: Json) -> Json:
    directive = sent.get(PATCH)
    if directive == "replace":
        return dict(_clean(sent))
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise plain_500(f"unknown patch type: {directive} in map: {_go_map(sent)}")
    result: Json = copied(live)
    _retain(result, sent)
    _delete_from_lists(result, sent)
    for key, value in sent.items():
        if key in {PATCH, RETAIN} or key.startswith((ORDER, DELETE_FROM)):
            continue
        if value is None:
            result.pop(key, None)
            continue
        order = sent.get(f"{ORDER}{key}")
        result[key] = _merged_value(child_schema(schema, key), result.get(key), value, order)
    _only_ordered(schema, result, sent)
    return result


def _merged_value(schema: Json | None, live: Any, sent: Any, order: Any) -> Any:
    if isinstance(sent, dict):
        if not isinstance(live, dict):
            return _merged_map(schema, {}, sent)
        return _merged_map(schema, live, sent)
    if isinstance(sent, list):
        return _merged_list(schema, live if isinstance(live, list) else [], sent, order)
    return sent


def _merges(schema: Json | None) -> bool:
    return "merge" in str((schema or {}).get("x-kubernetes-patch-strategy", "")).split(",")


def _merge_key(schema: Json | None) -> str:
    return str((schema or {}).get("x-kubernetes-patch-merge-key", ""))


def _merged_list(schema: Json | None, live: list[Any], sent: list[Any], order: Any) -> list[Any]:
    if any(isinstance(item, dict) and item.get(PATCH) == "replace" and len(item) == 1 for item in sent):
        return [_clean(item) for item in sent if not (isinstance(item, dict) and item.get(PATCH) == "replace")]
    if not _merges(schema):
        return [_clean(item) for item in sent]
    key = _merge_key(schema)
    if not key:
        merged = copied(live) + [item for item in sent if item not in live]
        return _in_order(merged, order if isinstance(order, list) else sent, live, "")
    return _merged_objects(schema, live, sent, order, key)


def _merged_objects(schema: Json | None, live: list[Any], sent: list[Any], order: Any, key: str) -> list[Any]:
    items = item_schema(schema)
    result: list[Any] = copied(live)
    for change in sent:
        if not isinstance(change, dict) or (key not in change and PATCH not in change):
            raise plain_500(f"map: {_go_map(change)} does not contain declared merge key: {key}")
        matches = [
            index for index, item in enumerate(result) if isinstance(item, dict) and item.get(key) == change.get(key)
        ]
        if change.get(PATCH) == "delete":
            result = [item for index, item in enumerate(result) if index not in matches]
        elif matches:
            result[matches[0]] = _merged_map(items, result[matches[0]], change)
        else:
            result.append(_merged_map(items, {}, change))
    kept = [change for change in sent if isinstance(change, dict) and change.get(PATCH) != "delete"]
    return _in_order(result, order if isinstance(order, list) else kept, live, key)


def _in_order(merged: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """Items the patch speaks of come in its order; the others keep their places among them."""
    names = [_name(item, key) for item in order]
    places = {str(name): index for index, name in enumerate(_name(item, key) for item in live)}
    spoken = sorted(
        (item for item in merged if _name(item, key) in names), key=lambda item: names.index(_name(item, key))
    )
    silent = [item for item in merged if _name(item, key) not in names]
    result: list[Any] = []
    while silent and spoken:
        left, right = places.get(str(_name(silent[0], key))), places.get(str(_name(spoken[0], key)))
        before = left is not None and right is not None and left < right
        result.append(silent.pop(0) if before else spoken.pop(0))
    return result + silent + spoken


def _name(item: Any, key: str) -> Any:
    return item.get(key) if key and isinstance(item, dict) else item


def _go_map(value: Any) -> str:
    """As Go prints a map."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go_map(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_go_map, value)) + "]"
    return str(value)


def _only_ordered(schema: Json | None, result: Json, sent: Json) -> None:
    """An order for a list whose content the patch does not touch."""
    for name, order in sent.items():
        if not name.startswith(ORDER):
            continue
        key = name.removeprefix(ORDER)
        if key not in sent and isinstance(result.get(key), list):
            result[key] = _in_order(result[key], order, result[key], _merge_key(child_schema(schema, key)))


def _retain(result: Json, sent: Json) -> None:
    kept = sent.get(RETAIN)
    if isinstance(kept, list):
        for key in [key for key in result if key not in kept]:
            del result[key]


def _delete_from_lists(result: Json, sent: Json) -> None:
    for name, values in sent.items():
        if name.startswith(DELETE_FROM) and isinstance(values, list):
            key = name.removeprefix(DELETE_FROM)
            if isinstance(result.get(key), list):
                result[key] = [item for item in result[key] if item not in values]


def _clean(value: Any) -> Any:
    """What is laid down whole carries no directives and no nulls."""
    if isinstance(value, dict):
        return {
            key: _clean(item)
            for key, item in value.items()
            if item is not None and key not in {PATCH, RETAIN} and not key.startswith((ORDER, DELETE_FROM))
        }
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
