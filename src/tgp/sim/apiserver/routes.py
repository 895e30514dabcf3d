"""A path and a method, read the way the API server's request-info resolver reads them."""

from dataclasses import dataclass
from urllib.parse import unquote

from tgp.ports.http import Call

VERB_OF_METHOD = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
TRUE_WORDS = frozenset({"1", "t", "T", "true", "TRUE", "True"})


@dataclass(frozen=True, slots=True)
class Route:
    """What a request is about. `plural` empty: a path that is no resource (/healthz, /apis, /openapi/…)."""

    path: str
    verb: str
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def is_resource(self) -> bool:
        return bool(self.plural)


def read_route(call: Call) -> Route:
    parts = [unquote(part) for part in call.path.strip("/").split("/") if part]
    plain = Route(call.path, call.method.lower())
    match parts:
        case ["api", version, *rest]:
            return _resource_route(call, "", version, rest) or plain
        case ["apis", group, version, *rest]:
            return _resource_route(call, group, version, rest) or plain
        case _:
            return plain


def _resource_route(call: Call, group: str, version: str, rest: list[str]) -> Route | None:
    watching = bool(rest) and rest[0] == "watch"  # the old spelling: /api/v1/watch/pods
    if watching:
        rest = rest[1:]
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and not (len(rest) == 3 and rest[2] in {"status", "finalize"}):
        namespace, rest = rest[1], rest[2:]
    elif len(rest) == 2 and rest[0] == "namespaces":
        namespace = rest[1]  # the namespace object lives in itself, so that a Role in it can grant reading it
    elif len(rest) == 3 and rest[0] == "namespaces":
        namespace = rest[1]
    if not rest or len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    verb = "watch" if watching else _verb(call, name)
    return Route(call.path, verb, group, version, plural, namespace, name, subresource)


def _verb(call: Call, name: str) -> str:
    verb = VERB_OF_METHOD.get(call.method, call.method.lower())
    if verb == "get" and not name:
        return "watch" if call.parameter("watch") in TRUE_WORDS else "list"
    if verb == "delete" and not name:
        return "deletecollection"
    return verb
