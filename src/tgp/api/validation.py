"""The API server's decision on a custom resource, without an API server.

`validate` works on any CRD's `openAPIV3Schema` as plain JSON, after `prune` and `default`. First come types, bounds,
enums and required fields; then uniqueness in lists of type set and map; then the CEL rules, unless an earlier problem
makes the API server skip them. A CEL rule is not interpreted: it is looked up by its exact text among the Python
checks that live beside the rules of our own kinds. `unknown_rules` lists which rules of a foreign schema have none;
those count as met.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

from tgp.api.field_error import FieldError, Reason
from tgp.api.pattern import matches
from tgp.api.schema_traits import traits_of
from tgp.api.structural import child_schema, default, prune, unknown_fields
from tgp.api.values import is_rfc3339

__all__ = ["FieldError", "PythonCheck", "default", "prune", "unknown_fields", "unknown_rules", "validate"]

Schema: TypeAlias = Mapping[str, Any]
PythonCheck: TypeAlias = Callable[[Any, Any], bool]  # (self, oldSelf or None) -> does the rule hold?

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1  # beyond these the API server reads a number as a float
FLOAT_EXACT_MAX = 2**53 - 1  # the largest float the API server takes for an integer
NEAR = 1e-9  # how far a float may be above an integer, beside both of them, to be taken for it
UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_REASONS = {  # what a rule may name as its reason in x-kubernetes-validations
    "FieldValueInvalid": Reason.INVALID,
    "FieldValueForbidden": Reason.FORBIDDEN,
    "FieldValueRequired": Reason.REQUIRED,
    "FieldValueDuplicate": Reason.DUPLICATE,  # the API server keeps the message to itself then
}


def validate(
    schema: Schema, obj: Any, old: Any = None, python_checks: Mapping[str, PythonCheck] | None = None
) -> list[FieldError]:
    """Everything wrong with `obj`, already pruned and defaulted; empty: the API server would take it.

    `old` is the stored object of an update: rules that use `oldSelf` are not evaluated on creation, and what
    was wrong before and has not changed is accepted, as Kubernetes does since 1.30 when a CRD has become stricter.
    """
    problems = list(_schema_problems(schema, obj, "", old))
    twice = list(_duplicates(schema, obj, ""))
    if twice and (old is None or not any(_duplicates(schema, old, ""))):
        problems += twice
    if any(problem.blocks_rules for problem in problems):
        # The API server says this line only where there are rules to be left out.
        return [*problems, FieldError("", Reason.INVALID, UNCHECKED, "null")] if _has_rules(schema) else problems
    known = own_python_checks() if python_checks is None else python_checks
    return problems + list(_broken_rules(schema, obj, old, "", known))


def unknown_rules(schema: Schema, python_checks: Mapping[str, PythonCheck] | None = None) -> list[str]:
    """CEL texts in a schema that nothing here can judge."""
    known = own_python_checks() if python_checks is None else python_checks
    return sorted({rule["rule"] for rule in rules_in(schema)} - known.keys())


def rules_in(schema: Schema) -> Iterator[Mapping[str, Any]]:
    """Every entry of x-kubernetes-validations, at any depth."""
    yield from schema.get("x-kubernetes-validations", ())
    for inner in schema.get("properties", {}).values():
        yield from rules_in(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from rules_in(schema[key])


@cache
def own_python_checks() -> Mapping[str, PythonCheck]:
    """The predicates beside the rules of our kinds, by CEL text."""
    from tgp.api.kinds import KINDS
    from tgp.api.schema import rules_of

    return {rule.cel: rule.holds for kind in KINDS for rule in rules_of(kind.type)}


def _has_rules(schema: Schema) -> bool:
    return next(rules_in(schema), None) is not None


# ---- types, bounds, enums, required


def _schema_problems(schema: Schema, value: Any, path: str, old: Any = None) -> Iterator[FieldError]:
    if old is not None and _same(value, old):
        return
    if value is None:
        if not schema.get("nullable") and _types(schema):
            yield _wrong_type(schema, "null", path)
            yield from _of_enum(schema, value, path)
        return
    kind = _json_type(value)
    if not _type_fits(schema, value, kind):
        yield _wrong_type(schema, kind, path)  # go on: the API server reports every problem
    yield from _of_combinations(schema, value, path)
    if kind == "string":
        yield from _of_string(schema, value, path)
    elif kind in {"integer", "number"}:
        yield from _of_number(schema, value, path)
    elif kind == "array":
        yield from _of_array(schema, value, path, old)
    yield from _of_enum(schema, value, path)
    if kind == "object":
        yield from _of_object(schema, value, path, old)


def _types(schema: Schema) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer" if INT64_MIN <= value <= INT64_MAX else "number"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _type_fits(schema: Schema, value: Any, kind: str) -> bool:
    wanted = _types(schema)
    if not wanted or kind in wanted:
        return True
    if kind == "integer":
        return "number" in wanted
    return kind == "number" and "integer" in wanted and near_integer(value)


def near_integer(value: float) -> bool:
    """As the API server sees it: 1.0 is one, and 1.0000000001 is, and 0.9999999999 is none."""
    if not abs(value) <= FLOAT_EXACT_MAX:
        return False
    below = float(int(value))
    return value == below or (below != 0 and abs(value - below) / (abs(value) + abs(below)) < NEAR)


def rounded(value: Any) -> Any:
    """With integers for all numbers that the API server takes for some."""
    if isinstance(value, dict):
        return {key: rounded(member) for key, member in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return int(value) if isinstance(value, float) and near_integer(value) else value


def _wrong_type(schema: Schema, kind: str, path: str) -> FieldError:
    wanted = ",".join(_types(schema))
    return FieldError(path, Reason.TYPE_INVALID, f'{path} in body must be of type {wanted}: "{kind}"', f'"{kind}"')


def _of_string(schema: Schema, value: str, path: str) -> Iterator[FieldError]:
    if len(value) > schema.get("maxLength", len(value)):  # of length and pattern the first that fails is reported
        limit = schema["maxLength"]  # counted in characters, whatever the API server calls them
        yield FieldError(path, Reason.TOO_LONG, f"may not be more than {limit} {'byte' if limit == 1 else 'bytes'}")
    elif len(value) < schema.get("minLength", 0):
        limit = schema["minLength"]
        yield FieldError(path, Reason.INVALID, f"{path} in body should be at least {limit} chars long", _shown(value))
    elif "pattern" in schema and not _matches(value, schema["pattern"]):
        yield FieldError(path, Reason.INVALID, f"{path} in body should match '{schema['pattern']}'", _shown(value))
    if schema.get("format") in {"date-time", "datetime"} and not is_rfc3339(value):
        yield FieldError(
            path, Reason.TYPE_INVALID, f'{path} in body must be of type date-time: "{value}"', _shown(value)
        )


def _matches(text: str, pattern: str) -> bool:
    try:
        return matches(text, pattern)
    except re.error:  # RE2 knows a few things Python does not; what cannot be judged is not refused
        return True


def _of_number(schema: Schema, value: float, path: str) -> Iterator[FieldError]:
    if schema.get("type") == "integer" and not (float(value).is_integer() and INT64_MIN <= value <= INT64_MAX):
        # The API server checks twice, the second time without a path and without tolerance.
        yield FieldError("", Reason.INVALID, f"Checked value must be of type integer (default format) in {path}", '""')
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is not None and (value >= high if schema.get("exclusiveMaximum") else value > high):
        words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield FieldError(path, Reason.INVALID, f"{path} in body should be {words} {_bound(high, value)}", _shown(value))
    if low is not None and (value <= low if schema.get("exclusiveMinimum") else value < low):
        words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield FieldError(path, Reason.INVALID, f"{path} in body should be {words} {_bound(low, value)}", _shown(value))
    step = schema.get("multipleOf")
    if step and value % step:
        yield FieldError(path, Reason.INVALID, f"{path} in body should be a multiple of {step}", _shown(value))


def _bound(bound: float, value: float) -> str:
    """A bound as Go prints it: beside a float it is one itself, from a million on with an exponent."""
    if _json_type(value) == "integer" or abs(bound) < 1_000_000 or bound != int(bound):
        return str(bound)
    digits = str(abs(int(bound)))
    fraction = digits[1:].rstrip("0")
    sign = "-" if bound < 0 else ""
    return f"{sign}{digits[0]}{'.' if fraction else ''}{fraction}e+{len(digits) - 1:02d}"


def _of_array(schema: Schema, value: list[Any], path: str, old: Any) -> Iterator[FieldError]:
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        yield FieldError(path, Reason.TOO_MANY, _at_most(len(value), schema["maxItems"]))
    if "minItems" in schema and len(value) < schema["minItems"]:
        limit = schema["minItems"]
        yield FieldError(path, Reason.INVALID, f"{path} in body should have at least {limit} items", str(len(value)))
    items = schema.get("items")
    if items is not None:
        for index, item in enumerate(value):
            yield from _schema_problems(items, item, f"{path}[{index}]", _counterpart(schema, item, old))


def _of_enum(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    if "enum" in schema and not any(_same(value, member) for member in schema["enum"]):
        supported = ", ".join(_shown(member) for member in schema["enum"])
        yield FieldError(path, Reason.UNSUPPORTED, f"supported values: {supported}", _shown(value))


def _of_object(schema: Schema, value: dict[str, Any], path: str, old: Any) -> Iterator[FieldError]:
    if "maxProperties" in schema and len(value) > schema["maxProperties"]:
        yield FieldError(path, Reason.TOO_MANY, _at_most(len(value), schema["maxProperties"]))
    if "minProperties" in schema and len(value) < schema["minProperties"]:
        limit = schema["minProperties"]
        yield FieldError(
            path, Reason.INVALID, f"{path} in body should have at least {limit} properties", str(len(value))
        )
    for key in schema.get("required", ()):
        if key not in value:
            yield FieldError(_below(path, key), Reason.REQUIRED, "")
    for key, member in value.items():
        inner = child_schema(schema, key)
        if inner is not None:
            before = old.get(key) if isinstance(old, dict) else None
            yield from _schema_problems(inner, member, _below(path, key), before)


def _of_combinations(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    def fits(part: Schema) -> bool:
        return next(_schema_problems(part, value, path), None) is None

    if not schema.get("x-kubernetes-int-or-string") and "anyOf" in schema and not any(map(fits, schema["anyOf"])):
        yield FieldError("", Reason.INVALID, f'"{path}" must validate at least one schema (anyOf)', '""')
    if "oneOf" in schema and sum(map(fits, schema["oneOf"])) != 1:
        yield FieldError("", Reason.INVALID, f'"{path}" must validate one and only one schema (oneOf)', '""')
    if "not" in schema and fits(schema["not"]):
        yield FieldError("", Reason.INVALID, f'"{path}" must not validate the schema (not)', '""')
    for part in schema.get("allOf", ()):
        yield from _schema_problems(part, value, path)


def _at_most(count: int, limit: int) -> str:
    return f"{count}: must have at most {limit} {'item' if limit == 1 else 'items'}"


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _member(schema: Schema, path: str, key: str) -> str:
    """Past the schema proper the API server writes the keys of a map in brackets."""
    return _below(path, key) if key in schema.get("properties", ()) else f"{path}[{key}]"


def _shown(value: Any) -> str:
    """As Go writes it: 1.0 is 1, and what does not fit 64 bits is a float."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= INT64_MAX:
        if str(value) == "-0.0":
            return "-0"
        value = int(value)
    elif isinstance(value, int) and _json_type(value) == "number":
        value = float(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


# ---- uniqueness in lists of type set and map


def _duplicates(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    if not traits_of(schema).unique_lists:
        return
    if isinstance(value, dict):
        for key, member in value.items():
            inner = child_schema(schema, key)
            if inner is not None:
                yield from _duplicates(inner, member, _member(schema, path, key))
    elif isinstance(value, list):
        yield from _duplicate_items(schema, value, path)
        for index, item in enumerate(value):
            yield from _duplicates(schema.get("items") or {}, item, f"{path}[{index}]")


def _duplicate_items(schema: Schema, value: list[Any], path: str) -> Iterator[FieldError]:
    list_type = schema.get("x-kubernetes-list-type")
    if list_type not in {"set", "map"}:
        return
    if list_type == "map":
        for index, item in enumerate(value):
            if item is not None and not isinstance(item, dict):
                detail = "must be an object for an array of list-type map"
                yield FieldError(f"{path}[{index}]", Reason.INVALID, detail, _shown(item))
                return
    times: dict[str, int] = {}
    for index, item in enumerate(value):
        shown = _shown(item if list_type == "set" else list_key(schema, item))
        times[shown] = times.get(shown, 0) + 1
        if times[shown] == 2:
            yield FieldError(f"{path}[{index}]", Reason.DUPLICATE, "", shown)


def list_key(schema: Schema, item: Any) -> dict[str, Any]:
    """What tells one item of a map-like list from another. A key that is not given is no key."""
    keys = schema.get("x-kubernetes-list-map-keys", ())
    return {key: item[key] for key in keys if key in item} if isinstance(item, dict) else {}


# ---- CEL rules, by their Python checks


def _broken_rules(
    schema: Schema, value: Any, old: Any, path: str, python_checks: Mapping[str, PythonCheck]
) -> Iterator[FieldError]:
    if value is None or not traits_of(schema).rules:
        return
    for rule in schema.get("x-kubernetes-validations", ()):
        python_check = python_checks.get(rule["rule"])
        speaks_of_old = "oldSelf" in rule["rule"]
        if python_check is None or (old is None if speaks_of_old else _same(value, old)):
            continue
        if not _holds(python_check, value, old if speaks_of_old else None):
            yield _broken(schema, rule, value, path)
    if isinstance(value, dict):
        for key, member in value.items():
            inner = child_schema(schema, key)
            if inner is not None:
                before = old.get(key) if isinstance(old, dict) else None
                yield from _broken_rules(inner, member, before, _member(schema, path, key), python_checks)
    elif isinstance(value, list) and schema.get("items") is not None:
        for index, item in enumerate(value):
            before = _counterpart(schema, item, old)
            yield from _broken_rules(schema["items"], item, before, f"{path}[{index}]", python_checks)


def _holds(python_check: PythonCheck, value: Any, old: Any) -> bool:
    """A rule that cannot be evaluated counts as broken, as in CEL: what was accepted unchanged may have any shape."""
    try:
        return python_check(value, old)
    except (AttributeError, KeyError, TypeError):
        return False


def _counterpart(schema: Schema, item: Any, old: Any) -> Any:
    """The old item an item can be compared with: only map-like lists have such a thing."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return None
    key = list_key(schema, item)
    return next((other for other in old if list_key(schema, other) == key), None)


def _broken(schema: Schema, rule: Mapping[str, Any], value: Any, path: str) -> FieldError:
    where = path + rule.get("fieldPath", "")
    message = rule.get("message") or f"failed rule: {rule['rule']}"
    shown = "" if isinstance(value, dict | list) else _shown(value)
    if isinstance(value, float) and schema.get("x-kubernetes-int-or-string"):  # 1.0 passes the schema, but not CEL
        shown = '""'
        message = (
            f"invalid data, expected XIntOrString value to be either a string or integer evaluating rule: {message}"
        )
    reason = _REASONS[rule.get("reason", "FieldValueInvalid")]
    return FieldError(where.removeprefix("."), reason, message, shown, rule["rule"])
