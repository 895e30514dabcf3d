"""Label and field selectors: parsed once, asked often. What cannot be parsed is the caller's mistake (400)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tgp.sim.apiserver.json_value import Json, at
from tgp.sim.apiserver.names import is_label_value, is_qualified_name
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import bad_request

TOKEN = re.compile(r"\s*(==|!=|=|!|>|<|,|\(|\)|[^\s,()=!<>]+)")
INTEGER = re.compile(r"[+-]?\d+\Z")


@dataclass(frozen=True, slots=True)
class ParsedRequirement:
    key: str
    operator: str  # in, notin, exists, absent, gt, lt, never
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, Any]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
            case "gt" | "lt":
                return _compares(value, self.operator, int(self.values[0]))
            case _:
                return False


def _compares(value: Any, operator: str, bound: int) -> bool:
    if not isinstance(value, str) or not INTEGER.match(value):
        return False
    return int(value) > bound if operator == "gt" else int(value) < bound


@dataclass(frozen=True, slots=True)
class ParsedSelector:
    requirements: tuple[ParsedRequirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.requirements

    def matches(self, labels: Mapping[str, Any] | None) -> bool:
        found = labels or {}
        return all(requirement.holds(found) for requirement in self.requirements)


EVERYTHING = ParsedSelector()
NOTHING = ParsedSelector((ParsedRequirement("", "never"),))


class _Reader:
    """The selector grammar, one token at a time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def peek(self) -> str:
        match = TOKEN.match(self._text, self._at)
        return match.group(1) if match else ""

    def take(self) -> str:
        match = TOKEN.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match.group(1)

    def done(self) -> bool:
        return not self._text[self._at :].strip()


def parse_labels(text: str) -> ParsedSelector:
    if not text.strip():
        return EVERYTHING
    reader = _Reader(text)
    if reader.peek() == ",":
        raise bad_request("found ',', expected: !, identifier, or 'end of string'")
    found = [_requirement(reader)]
    while not reader.done():
        comma = reader.take()
        if comma != ",":
            raise bad_request(f"found '{comma}', expected: ',' or 'end of string'")
        if reader.peek() in {"", ","}:
            raise bad_request(f"found '{reader.peek()}', expected: identifier after ','")
        found.append(_requirement(reader))
    return ParsedSelector(tuple(sorted(found, key=lambda r: (r.key, r.operator, r.values))))


def _requirement(reader: _Reader) -> ParsedRequirement:
    absent = reader.peek() == "!"
    if absent:
        reader.take()
    key = reader.take()
    if not key or key in {",", "=", "==", "!=", "(", ")", ">", "<", "!"}:
        raise bad_request(f"unable to parse requirement: found '{key}', expected: !, identifier, or ','")
    for why in is_qualified_name(key):
        raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{key}": {why}')
    if absent:
        return ParsedRequirement(key, "absent")
    following = reader.peek()
    if following in {"", ","}:
        return ParsedRequirement(key, "exists")
    operator = reader.take()
    match operator:
        case "=" | "==":
            return ParsedRequirement(key, "in", (_value(reader, key),))
        case "!=":
            return ParsedRequirement(key, "notin", (_value(reader, key),))
        case ">" | "<":
            bound = _value(reader, key)
            if not INTEGER.match(bound):
                raise bad_request(
                    f'unable to parse requirement: values[0][{key}]: Invalid value: "{bound}": '
                    "for 'Gt', 'Lt' operators, the value must be an integer"
                )
            return ParsedRequirement(key, "gt" if operator == ">" else "lt", (bound,))
        case "in" | "notin":
            return ParsedRequirement(key, operator, _values(reader, key))
        case other:
            raise bad_request(f"unable to parse requirement: found '{other}', expected: in, notin, =, ==, !=, gt, lt")


def _value(reader: _Reader, key: str) -> str:
    following = reader.peek()
    if following in {"", ","}:
        return ""
    return _checked(reader.take(), key)


def _values(reader: _Reader, key: str) -> tuple[str, ...]:
    opening = reader.take()
    if opening != "(":
        raise bad_request(f"unable to parse requirement: found '{opening}' expected: '('")
    values: list[str] = []
    fresh = True  # a value may come here; a comma or the end instead means the empty one
    while True:
        following = reader.take()
        if following in {",", ")"}:
            if fresh:
                values.append("")
            if following == ")":
                return tuple(values)
            fresh = True
        elif not following:
            raise bad_request("unable to parse requirement: found '', expected: ',', or ')'")
        else:
            values.append(_checked(following, key))
            fresh = False


def _checked(value: str, key: str) -> str:
    for why in is_label_value(value):
        raise bad_request(f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": {why}')
    return value


def from_label_selector(selector: Any) -> ParsedSelector:
    """A `ParsedSelector` object of the API (matchLabels, matchExpressions); null selects nothing, {} everything."""
    if not isinstance(selector, dict):
        return NOTHING
    found = [ParsedRequirement(key, "in", (str(value),)) for key, value in (selector.get("matchLabels") or {}).items()]
    for row in selector.get("matchExpressions") or ():
        values = tuple(str(value) for value in row.get("values") or ())
        match row.get("operator"):
            case "In":
                found.append(ParsedRequirement(row["key"], "in", values))
            case "NotIn":
                found.append(ParsedRequirement(row["key"], "notin", values))
            case "Exists":
                found.append(ParsedRequirement(row["key"], "exists"))
            case "DoesNotExist":
                found.append(ParsedRequirement(row["key"], "absent"))
            case _:
                return NOTHING
    return ParsedSelector(tuple(found))


# Fields

POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
CORE_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
NEW_EVENT_FIELDS = tuple(
    name.replace("involvedObject", "regarding").replace("reportingComponent", "reportingController")
    for name in CORE_EVENT_FIELDS
    if name != "source"
)
FIELDS_OF: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): POD_FIELDS,
    ("", "Node"): ("spec.unschedulable",),
    ("", "Namespace"): ("status.phase",),
    ("", "Secret"): ("type",),
    ("", "Event"): CORE_EVENT_FIELDS,
    ("events.k8s.io", "Event"): NEW_EVENT_FIELDS,
    ("", "ReplicationController"): ("status.replicas",),
    ("apps", "ReplicaSet"): ("status.replicas",),
    ("batch", "Job"): ("status.successful",),
    ("certificates.k8s.io", "CertificateSigningRequest"): ("spec.signerName",),
}
EVERYWHERE = ("metadata.name", "metadata.namespace")
ZERO_VALUES = {
    "spec.unschedulable": "false",
    "spec.hostNetwork": "false",
    "status.replicas": "0",
    "status.successful": "0",
}


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    path: str
    equal: bool
    value: str

    def holds(self, obj: Json) -> bool:
        return (_field_text(obj, self.path) == self.value) == self.equal


@dataclass(frozen=True, slots=True)
class FieldSelector:
    requirements: tuple[FieldRequirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.requirements

    def matches(self, obj: Json) -> bool:
        """`obj` is the object as the requested version shows it."""
        return all(requirement.holds(obj) for requirement in self.requirements)

    def exact(self, path: str) -> str | None:
        """The one value `path` must have, if the selector reports it."""
        return next((r.value for r in self.requirements if r.equal and r.path == path), None)


def selectable_fields(served: Served) -> tuple[str, ...]:
    if served.crd is not None:
        return EVERYWHERE + _crd_fields(served.crd, served.version)
    return EVERYWHERE + FIELDS_OF.get((served.group, served.kind), ())


def _crd_fields(crd: Json, version: str) -> tuple[str, ...]:
    for row in crd["spec"].get("versions", ()):
        if row.get("name") == version:
            return tuple(field["jsonPath"].removeprefix(".") for field in row.get("selectableFields") or ())
    return ()


def parse_fields(text: str, served: Served) -> FieldSelector:
    if not text:
        return FieldSelector()
    allowed = selectable_fields(served)
    found = []
    for term in _split_terms(text):
        if not term:
            continue
        requirement = _field_term(term)
        if requirement.path not in allowed:
            raise bad_request(_unsupported(requirement.path, served))
        found.append(requirement)
    return FieldSelector(tuple(found))


def _unsupported(path: str, served: Served) -> str:
    if served.kind == "Job" and served.group == "batch":
        return f'field label "{path}" not supported for Job'
    if served.custom or (served.group, served.kind) in FIELDS_OF:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _split_terms(text: str) -> list[str]:
    return re.split(r"(?<!\\),", text)


def _field_term(term: str) -> FieldRequirement:
    match = re.match(r"(.*?)(?<!\\)(==|!=|=)(.*)\Z", term, re.DOTALL)
    if match is None:
        raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    path, operator, value = match.groups()
    return FieldRequirement(path, operator != "!=", re.sub(r"\\([\\,=])", r"\1", value))


def _field_text(obj: Json, path: str) -> str:
    if path == "source":
        value = at(obj, "source", "component") or obj.get("reportingComponent")
    else:
        value = at(obj, *path.split("."))
    if value is None:
        return ZERO_VALUES.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


Predicate = Callable[[Json], bool]


def predicate(labels: ParsedSelector, fields: FieldSelector, served: Served) -> Predicate | None:
    """Does a stored object belong to the list or watch? None when everything does."""
    if labels.is_empty and fields.is_empty:
        return None

    def belongs(obj: Json) -> bool:
        if not labels.is_empty and not labels.matches(obj["metadata"].get("labels")):
            return False
        return fields.is_empty or fields.matches(served.shown(obj))

    return belongs
