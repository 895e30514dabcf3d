"""Query parameters and DeleteOptions bodies, read once and checked as the API server checks them."""

from dataclasses import dataclass
from typing import Any

import msgspec

from tgp.ports.http import Call
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.status_errors import Cause, bad_request, invalid

MANAGER_LIMIT = 128  # characters of a field manager's name
FALSE_WORDS = frozenset({"0", "f", "F", "false", "FALSE", "False"})
VALIDATIONS = ("Ignore", "Strict", "Warn")
DELETE_FIELDS: dict[str, type] = {
    "gracePeriodSeconds": int,
    "preconditions": dict,
    "propagationPolicy": str,
    "orphanDependents": bool,
    "dryRun": list,
}
PROPAGATIONS = ("Background", "Foreground", "Orphan")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    manager: str = ""
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False
    applying: bool = False


PLAIN = WriteOptions()


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace_seconds: int | None = None  # None: the kind's own
    uid: str | None = None
    resource_version: str | None = None
    propagation: str = ""
    orphan_dependents: bool | None = None  # the old spelling of propagation
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ListOptions:
    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    match: str = ""
    limit: int = 0
    continues: str = ""
    watching: bool = False
    bookmarks: bool = False
    send_initial_events: bool | None = None
    timeout_seconds: int | None = None


def _truth(call: Call, name: str) -> bool | None:
    value = call.parameter(name)
    if not value:
        return None
    return value not in FALSE_WORDS  # the real decoder takes any other word for true


def _number(call: Call, name: str) -> int | None:
    value = call.parameter(name)
    if not value:
        return None
    try:
        return int(value)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax') from None


def read_write_options(call: Call, kind: str, *, applying: bool = False) -> WriteOptions:
    """`kind` names the options in a refusal: CreateOptions, UpdateOptions or PatchOptions."""
    problems: list[Cause] = []
    validation = call.parameter("fieldValidation")
    if validation and validation not in VALIDATIONS:
        problems.append(_not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    dry_run = _dry_run([value for name, value in call.query if name == "dryRun"], problems)
    manager = call.parameter("fieldManager")
    if len(manager) > MANAGER_LIMIT:
        problems.append(Cause("FieldValueTooLong", "Too long: may not be more than 128 bytes", "fieldManager"))
    if not manager.isprintable():
        problems += _unprintable(manager)
    force = _truth(call, "force")
    if kind == "PatchOptions":
        if applying and not manager:
            problems.append(Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager"))
        if not applying and force is not None:
            problems.append(
                Cause("FieldValueForbidden", "Forbidden: may not be specified for non-apply patch", "force")
            )
    if problems:
        raise invalid("meta.k8s.io", kind, "", problems)
    return WriteOptions(manager or _from_user_agent(call), dry_run, validation or "Warn", bool(force), applying)


def _unprintable(manager: str) -> list[Cause]:
    return [
        Cause(
            "FieldValueInvalid",
            f"Invalid value: {msgspec.json.encode(manager).decode()}: "
            f"invalid character U+{ord(char):04X} (at position {place})",
            "fieldManager",
        )
        for place, char in enumerate(manager)
        if not char.isprintable()
    ]


def _from_user_agent(call: Call) -> str:
    name = call.header("User-Agent").partition("/")[0]
    return "".join(char for char in name if char.isprintable())[:MANAGER_LIMIT]


def _dry_run(values: list[Any], problems: list[Cause]) -> bool:
    for value in values:
        if value != "All":
            problems.append(_not_supported("dryRun", value, ("All",), listed=True))
    return bool(values)


def _not_supported(field: str, value: str, allowed: tuple[str, ...], *, listed: bool = False) -> Cause:
    shown = f'["{value}"]' if listed else f'"{value}"'
    words = ", ".join(f'"{word}"' for word in allowed)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown}: supported values: {words}", field)


def read_delete_options(call: Call) -> DeleteOptions:
    """From the body if there is one, else from the query: never both, as in the real server."""
    problems: list[Cause] = []
    if call.body:
        options = _delete_body(call.body, problems)
    else:
        orphan = _truth(call, "orphanDependents")
        options = DeleteOptions(
            grace_seconds=_number(call, "gracePeriodSeconds"),
            propagation=call.parameter("propagationPolicy"),
            orphan_dependents=orphan,
            dry_run=_dry_run([value for name, value in call.query if name == "dryRun"], problems),
        )
    if options.propagation and options.orphan_dependents is not None:
        problems.append(
            Cause(
                "FieldValueInvalid",
                f'Invalid value: "{options.propagation}": orphanDependents and deletionPropagation cannot be both set',
                "propagationPolicy",
            )
        )
    elif options.propagation and options.propagation not in PROPAGATIONS:
        problems.append(
            _not_supported("propagationPolicy", options.propagation, ("Foreground", "Background", "Orphan", "nil"))
        )
    if problems:
        raise invalid("meta.k8s.io", "DeleteOptions", "", problems)
    return options


def _delete_body(body: bytes, problems: list[Cause]) -> DeleteOptions:
    try:
        sent = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(sent, dict):
        raise bad_request("decoded object cannot be converted to DeleteOptions")
    if sent.get("kind", "DeleteOptions") != "DeleteOptions":
        raise bad_request("decoded object cannot be converted to DeleteOptions")
    return delete_options_from(sent, problems)


def delete_options_from(sent: Json, problems: list[Cause]) -> DeleteOptions:
    """From a DeleteOptions object, of a body of its own or inside an Eviction."""
    for name, kinds in DELETE_FIELDS.items():
        value = sent.get(name)
        if value is not None and (not isinstance(value, kinds) or (kinds is int and isinstance(value, bool))):
            raise bad_request(
                f"json: cannot unmarshal into Go struct field DeleteOptions.{name} of type {kinds.__name__}"
            )
    conditions: Json = sent.get("preconditions") or {}
    grace = sent.get("gracePeriodSeconds")
    if not all(isinstance(conditions.get(name) or "", str) for name in ("uid", "resourceVersion")):
        raise bad_request("json: cannot unmarshal into Go struct field Preconditions.preconditions of type string")
    return DeleteOptions(
        grace_seconds=grace,
        uid=conditions.get("uid"),
        resource_version=conditions.get("resourceVersion"),
        propagation=sent.get("propagationPolicy") or "",
        orphan_dependents=sent.get("orphanDependents"),
        dry_run=_dry_run(list(sent.get("dryRun") or ()), problems),
    )


EXACT = "Exact"
NOT_OLDER = "NotOlderThan"


def read_list_options(call: Call, *, watching: bool) -> ListOptions:
    options = ListOptions(
        label_selector=call.parameter("labelSelector"),
        field_selector=call.parameter("fieldSelector"),
        resource_version=call.parameter("resourceVersion"),
        match=call.parameter("resourceVersionMatch"),
        limit=max(0, _number(call, "limit") or 0),
        continues=call.parameter("continue"),
        watching=watching,
        bookmarks=bool(_truth(call, "allowWatchBookmarks")),
        send_initial_events=_truth(call, "sendInitialEvents"),
        timeout_seconds=_number(call, "timeoutSeconds"),
    )
    problems = _watch_problems(options) if watching else _list_problems(options)
    if problems:
        raise invalid("meta.k8s.io", "ListOptions", "", problems)
    return options


def _list_problems(options: ListOptions) -> list[Cause]:
    found: list[Cause] = []
    if options.match:
        if not options.resource_version:
            found.append(_match_forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.continues:
            found.append(_match_forbidden("resourceVersionMatch is forbidden when continue is provided"))
        if options.match not in {EXACT, NOT_OLDER}:
            found.append(_not_supported("resourceVersionMatch", options.match, (EXACT, NOT_OLDER, "")))
        if options.match == EXACT and options.resource_version == "0":
            found.append(_match_forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        text = "Forbidden: sendInitialEvents is forbidden for list"
        found.append(Cause("FieldValueForbidden", text, "sendInitialEvents"))
    return found


def _watch_problems(options: ListOptions) -> list[Cause]:
    found: list[Cause] = []
    if options.send_initial_events is not None and options.match != NOT_OLDER:
        found.append(_match_forbidden(f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER}"))
    if options.match:
        if options.send_initial_events is None:
            found.append(
                _match_forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            )
        if options.match != NOT_OLDER:
            found.append(_not_supported("resourceVersionMatch", options.match, (NOT_OLDER,)))
        if options.continues:
            found.append(_match_forbidden("resourceVersionMatch is forbidden when continue is provided"))
    return found


def _match_forbidden(why: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {why}", "resourceVersionMatch")
