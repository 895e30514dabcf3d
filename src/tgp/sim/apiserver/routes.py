"""A path and a method, read the way the API server's request-info resolver reads them."""

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from tgp.ports.http import Call

VERB_OF_METHOD = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
TRUE_WORDS = frozenset({"1", "t", "T", "true", "TRUE", "True"})

ROUTES_KEPT = 4096  # clients say the same few paths again and again; those of many objects fall out


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
    return _read_route(call.method, call.path, call.parameter("watch") in TRUE_WORDS)


@lru_cache(maxsize=ROUTES_KEPT)
def _read_route(method: str, path: str, asks_to_watch: bool) -> Route:
    parts = [unquote(part) for part in path.strip("/").split("/") if part]
    plain = Route(path, method.lower())
    verbs = _verbs(method, asks_to_watch=asks_to_watch)
    match parts:
        case ["api", version, *rest]:
            return _resource_route(path, verbs, "", version, rest) or plain
        case ["apis", group, version, *rest]:
            return _resource_route(path, verbs, group, version, rest) or plain
        case _:
            return plain


def _resource_route(path: str, verbs: tuple[str, str], group: str, version: str, rest: list[str]) -> Route | None:
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
    of_one, of_many = verbs
    verb = "watch" if watching else of_one if name else of_many
    return Route(path, verb, group, version, plural, namespace, name, subresource)


def _verbs(method: str, *, asks_to_watch: bool) -> tuple[str, str]:
    """What a method means on a path with a name, and on one without."""
    verb = VERB_OF_METHOD.get(method, method.lower())
    if verb == "get":
        return verb, "watch" if asks_to_watch else "list"
    return verb, "deletecollection" if verb == "delete" else verb
