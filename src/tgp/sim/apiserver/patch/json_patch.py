"""JSON patch (RFC 6902): six operations, each all or nothing together."""

from typing import Any

from tgp.sim.apiserver.json_value import copied, same
from tgp.sim.apiserver.status_errors import Failure

MAX_OPERATIONS = 10_000  # the real server's limit


class PatchFailed(Exception):
    """An operation does not apply; the text is what the server's library would say."""


def json_patched(target: Any, operations: Any) -> Any:
    """`target`, untouched, with the operations applied in order."""
    if not isinstance(operations, list):
        raise PatchFailed("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        raise Failure(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
        )
    result = copied(target)
    for operation in operations:
        result = _applied(result, operation)
    return result


def _applied(root: Any, operation: Any) -> Any:
    if not isinstance(operation, dict):
        raise PatchFailed("json: cannot unmarshal into Go value of type jsonpatch.Operation")
    name = operation.get("op")
    path = _pointer(operation.get("path"), str(name))
    match name:
        case "add":
            return _add(root, path, copied(_value(operation)), "add")
        case "remove":
            _remove(root, path, "remove")
            return root
        case "replace":
            return _set(root, path, copied(_value(operation)))
        case "move":
            source = _pointer(operation.get("from"), "move")
            value = _look(root, source, "move")
            _remove(root, source, "move")
            return _add(root, path, value, "move")
        case "copy":
            source = _pointer(operation.get("from"), "copy")
            return _add(root, path, copied(_look(root, source, "copy")), "copy")
        case "test":
            return _test(root, path, operation)
        case _:
            raise PatchFailed(f"Unexpected kind: {name or 'unknown'}")


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise PatchFailed("missing value in operation")
    return operation["value"]


def _pointer(text: Any, name: str) -> list[str]:
    if not isinstance(text, str):
        raise PatchFailed(f"{name} operation does not have a path: missing value")
    if text == "":
        return []
    if not text.startswith("/"):
        raise PatchFailed(f'{name} operation does not apply: doc is missing path: "{text}": missing value')
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _missing(path: list[str], name: str) -> PatchFailed:
    shown = "/" + "/".join(path)
    if name == "remove":
        return PatchFailed(f"remove operation does not apply: doc is missing path: {shown}: missing value")
    return PatchFailed(f"{name} operation does not apply: doc is missing path: {shown}: missing value")


def _look(root: Any, path: list[str], name: str) -> Any:
    for part in path:
        if isinstance(root, dict) and part in root:
            root = root[part]
        elif isinstance(root, list):
            root = root[_index(root, part, path, name)]
        else:
            raise _missing(path, name)
    return root


def _index(items: list[Any], part: str, path: list[str], name: str) -> int:
    try:
        index = int(part)
    except ValueError:
        raise _missing(path, name) from None
    if index < 0:
        index += len(items)
    if not 0 <= index < len(items):
        raise PatchFailed(f"{name} operation does not apply: doc is missing key: /{'/'.join(path)}: missing value")
    return index


def _parent(root: Any, path: list[str], name: str) -> Any:
    return _look(root, path[:-1], name)


def _add(root: Any, path: list[str], value: Any, name: str) -> Any:
    if not path:
        return value
    try:
        parent = _parent(root, path, name)
    except PatchFailed:
        raise _missing(path, name) from None
    last = path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        if last == "-":
            parent.append(value)
        else:
            parent.insert(_insertion(parent, last, path, name), value)
    else:
        raise _missing(path, name)
    return root


def _insertion(items: list[Any], part: str, path: list[str], name: str) -> int:
    try:
        index = int(part)
    except ValueError:
        raise _missing(path, name) from None
    if index < 0:
        index += len(items) + 1
    if not 0 <= index <= len(items):
        raise PatchFailed(
            f"{name} operation does not apply: Unable to access invalid index: {part}: invalid index referenced"
        )
    return index


def _set(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _parent(root, path, "replace")
    if isinstance(parent, list):
        parent[_index(parent, path[-1], path, "replace")] = value
    else:
        parent[path[-1]] = value
    return root


def _remove(root: Any, path: list[str], name: str) -> None:
    if not path:
        raise PatchFailed(f"{name} operation does not apply: cannot remove the whole document")
    _look(root, path, name)
    parent = _parent(root, path, name)
    if isinstance(parent, list):
        del parent[_index(parent, path[-1], path, name)]
    else:
        del parent[path[-1]]


def _test(root: Any, path: list[str], operation: dict[str, Any]) -> Any:
    shown = "/" + "/".join(path)
    wanted = operation.get("value")
    try:
        found = _look(root, path, "test")
    except PatchFailed:
        if wanted is None:
            return root
        raise PatchFailed(f"testing path {shown} failed: missing value") from None
    if not same(found, wanted):
        raise PatchFailed(f"testing value {shown} failed: test failed")
    return root
