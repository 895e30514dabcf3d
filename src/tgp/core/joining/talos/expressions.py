"""CEL expressions in machine configs, parsed and typed as Talos does before it accepts a config.

The grammar is read in full. Types are followed through operators, fields and the functions that selectors use; where an
expression goes further than that, the answer is UNSURE and the document is not checked. `Wrong` is raised
only for what Talos certainly refuses.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

MAX_DEPTH = 60  # of parentheses and the like; Talos reads 250, deeper ones are passed through
MAX_CHARACTERS = 4096

Type: TypeAlias = str  # "bool", "list string", "map int double", "optional uint", "message disk"; UNSURE
UNSURE: Type = "?"
_NUMBERS = frozenset(("int", "uint", "double"))
_ORDERED = _NUMBERS | {"bool", "string", "bytes", "duration", "timestamp"}
_RESERVED = re.compile(
    "as|break|const|continue|else|for|function|if|import|in|let|loop|package|namespace|return|var|void|while"
)
_TYPE_NAMES = re.compile("bool|bytes|double|duration|dyn|int|list|map|null_type|string|timestamp|type|uint")
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "kB", "MB", "GB", "TB", "PB", "EB")
_CLASSES = ("Besteffort", "Burstable", "Guaranteed", "Podruntime", "System")
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f]+|//[^\n]*)
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<integer>(?:0x[0-9a-fA-F]+|[0-9]+)(?P<unsigned>[uU])?)
    |(?P<text>(?P<prefix>[bB][rR]|[rR][bB]?|[bB])?
       (?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^\\"\n\r])*"|'(?:\\.|[^\\'\n\r])*'))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<quoted>`[A-Za-z0-9_./ -]+`)
    |(?P<sign>&&|\|\||<=|>=|==|!=|[-+*/%!<>?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"""\\(?:[abfnrtv\\?"'`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})""",
)
_METHODS = frozenset(
    (
        "contains",
        "startsWith",
        "endsWith",
        "matches",
        "size",
        "or",
        "orValue",
        "hasValue",
        "value",
        "optMap",
        "optFlatMap",
    )
)
_MACROS = frozenset(("all", "exists", "exists_one", "map", "filter"))


class Wrong(Exception):
    """Talos refuses the expression; the text says why, and quotes nothing but names."""


class _Unsure(Exception):
    """Not covered here."""


@dataclass(frozen=True, slots=True)
class CelEnvironment:
    """The names that an expression may use."""

    variables: Mapping[str, Type]
    functions: Mapping[str, tuple[tuple[Type, ...], Type]] = field(default_factory=dict)
    messages: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    result: Type = "bool"


def examine(text: str, environment: CelEnvironment) -> bool:
    """True: Talos accepts it; False: not covered here. Raises Wrong."""
    if len(text) > MAX_CHARACTERS:
        return False
    try:
        reader = _Reader(_tokens(text), environment)
        found = reader.whole()
    except _Unsure:
        return False
    if UNSURE in found.split():
        return False
    if found != environment.result:
        raise Wrong(f"must result in a {environment.result}, not in a {found}")
    return True


# ---- names


def _fields(written: str) -> dict[str, Type]:
    """`string: name label; uint: size`."""
    groups = (group.partition(":") for group in written.split(";"))
    return {name: of.strip() for of, _, names in groups for name in names.split()}


_DISK = (
    "string: model serial modalias wwid bus_path sub_system transport dev_path pretty_size uuid;"
    "uint: size io_size sector_size; bool: readonly rotational cdrom; list string: secondary_disks symlinks"
)
_VOLUME = (
    "string: name uuid label partition_uuid partition_type partition_label type device_path parent dev_path"
    " parent_dev_path pretty_size; uint: size sector_size io_size block_size filesystem_block_size probed_size"
    " partition_index"
)
_LINK = (
    "string: queue_disc kind slave_kind bus_path pciid driver driver_version firmware_version product_id vendor_id"
    " product vendor alias; uint: index link_index flags mtu master_index; int: type operational_state speed_megabits"
    " port duplex; bool: link_state; bytes: hardware_addr broadcast_addr permanent_addr; list string: alt_names;"
    "?: vlan bridge_master bond_master wireguard"
)
_GLOB: dict[str, tuple[tuple[Type, ...], Type]] = {"glob": (("string", "string"), "bool")}


def _disk_fields(minor: int) -> dict[str, Type]:
    return _fields(_DISK) | ({"firmware_version": "string"} if minor >= 14 else {})


@cache
def disk(minor: int) -> CelEnvironment:
    """Of diskSelector.match."""
    variables = {"disk": "message disk", "system_disk": "bool", **dict.fromkeys(_UNITS, "uint")}
    return CelEnvironment(variables, _GLOB, {"disk": _disk_fields(minor)})


@cache
def volume(minor: int) -> CelEnvironment:
    """Of volumeSelector.match."""
    fields = _fields(_VOLUME) | ({"offset": "uint"} if minor >= 12 else {})
    variables = {"volume": "message volume", "disk": "message disk", **dict.fromkeys(_UNITS, "uint")}
    return CelEnvironment(variables, {}, {"volume": fields, "disk": _disk_fields(minor)})


@cache
def link(minor: int) -> CelEnvironment:
    """Of a LinkAliasConfig's selector.match."""
    fields = _fields(_LINK) | ({"vrf_master": UNSURE} if minor >= 13 else {})
    functions = {**_GLOB, "mac": (("bytes",), "string")}
    return CelEnvironment({"link": "message link"}, functions, {"link": fields})


@cache
def oom_trigger(_minor: int) -> CelEnvironment:
    spans = ("avg10", "avg60", "avg300", "total")
    pressures = [f"memory_{how}_{span}" for how in ("some", "full") for span in spans]
    amounts = [f"qos_memory_{what}" for what in ("current", "peak", "max")]
    whole = [f"{delta}{name}" for delta in ("", "d_") for name in pressures]
    by_class = [f"{delta}{name}" for delta in ("", "d_") for name in (*(f"qos_{each}" for each in pressures), *amounts)]
    variables = {
        **dict.fromkeys(whole, "double"),
        **dict.fromkeys(by_class, "map int double"),
        **dict.fromkeys(_UNITS, "uint"),
        **dict.fromkeys(_CLASSES, "int"),
        "time_since_trigger": "duration",
    }
    return CelEnvironment(variables, {"multiply_qos_vectors": (("map int double",) * 2, "double")})


@cache
def oom_ranking(_minor: int) -> CelEnvironment:
    variables = {
        **dict.fromkeys(("memory_max", "memory_current", "memory_peak"), "optional uint"),
        **dict.fromkeys(_UNITS, "uint"),
        **dict.fromkeys(_CLASSES, "int"),
        "path": "string",
        "class": "int",
    }
    return CelEnvironment(variables, {}, result="double")


# ---- reading


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # float, integer, text, name, quoted, sign; "" at the end
    text: str
    prefix: str = ""


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.end() == at:
            raise Wrong("is not a CEL expression: unexpected character or quote")
        at = found.end()
        kind = found.lastgroup or ""
        if kind == "space":
            continue
        if found["text"] is not None:
            kind = "text"
        elif found["integer"] is not None:
            kind = "integer"
        prefix = (found["prefix"] or "").lower()
        if kind == "text" and "r" not in prefix and "\\" in _ESCAPE.sub("", found[0]):
            raise Wrong("is not a CEL expression: unknown escape")
        tokens.append(_Token(kind, found[0], prefix))
    tokens.append(_Token("", ""))
    return tokens


class _Reader:
    """Parses and types in one pass: each method parses one rule of the grammar and returns its type."""

    def __init__(self, tokens: list[_Token], environment: CelEnvironment) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._environment = environment
        self._bound: dict[str, Type] = {}

    def whole(self) -> Type:
        found = self._expression()
        if self._now.kind:
            raise Wrong("is not a CEL expression: extra text after its end")
        return found

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._now
        self._at += bool(token.kind)
        return token

    def _sign(self, *signs: str) -> str:
        """The sign, if one of these comes next."""
        if self._now.kind == "sign" and self._now.text in signs:
            return self._take().text
        return ""

    def _need(self, sign: str) -> None:
        if not self._sign(sign):
            raise Wrong(f"is not a CEL expression: a {sign} is missing")

    def _expression(self) -> Type:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Unsure
        found = self._either()
        if self._sign("?"):
            _want(found, "bool", "before ?")
            yes = self._either()
            self._need(":")
            found = _one_type(yes, self._expression(), "the two sides of :")
        self._depth -= 1
        return found

    def _either(self) -> Type:
        found = self._both()
        while self._sign("||"):
            _want(found, "bool", "before ||")
            _want(self._both(), "bool", "after ||")
            found = "bool"
        return found

    def _both(self) -> Type:
        found = self._relation()
        while self._sign("&&"):
            _want(found, "bool", "before &&")
            _want(self._relation(), "bool", "after &&")
            found = "bool"
        return found

    def _relation(self) -> Type:
        found = self._sum()
        while True:
            if sign := self._sign("==", "!=", "<", "<=", ">", ">="):
                other = self._sum()
                both = _one_type(found, other, f"the two sides of {sign}")
                if sign not in {"==", "!="} and both != UNSURE and both not in _ORDERED:
                    raise Wrong(f"compares a {both} by {sign}")
                found = "bool" if both != UNSURE else UNSURE
            elif self._now == _Token("name", "in"):
                self._take()
                found = _contained(found, self._sum())
            else:
                return found

    def _sum(self) -> Type:
        found = self._product()
        while sign := self._sign("+", "-"):
            found = _added(sign, found, self._product())
        return found

    def _product(self) -> Type:
        found = self._unary()
        while sign := self._sign("*", "/", "%"):
            both = _one_type(found, self._unary(), f"the two sides of {sign}")
            if both != UNSURE and both not in (_NUMBERS - {"double"} if sign == "%" else _NUMBERS):
                raise Wrong(f"has {sign} between values of type {both}")
            found = both
        return found

    def _unary(self) -> Type:
        if self._sign("!"):
            while self._sign("!"):
                pass
            _want(self._member(), "bool", "after !")
            return "bool"
        if self._sign("-"):
            while self._sign("-"):
                pass
            found = self._member(negative=True)
            if found not in {"int", "double", UNSURE}:
                raise Wrong(f"has a - before a {found}")
            return found
        return self._member()

    def _member(self, *, negative: bool = False) -> Type:
        found = self._primary(negative=negative)
        while True:
            if self._sign("."):
                if self._sign("?"):
                    raise _Unsure
                found = self._selected(found)
            elif self._sign("["):
                if self._sign("?"):
                    raise _Unsure
                found = _indexed(found, self._expression())
                self._need("]")
            elif self._now.text == "{" and self._now.kind == "sign":
                raise _Unsure  # a message literal: no selector needs it
            else:
                return found

    def _selected(self, of: Type) -> Type:
        token = self._take()
        if token.kind == "quoted":
            raise _Unsure
        if token.kind != "name":
            raise Wrong("is not a CEL expression: a name is missing after a dot")
        if self._sign("("):
            return self._method(of, token.text)
        return self._field(of, token.text)

    def _field(self, of: Type, name: str) -> Type:
        if of == UNSURE:
            return UNSURE
        kind, _, rest = of.partition(" ")
        if kind == "message":
            fields = self._environment.messages[rest]
            if name not in fields:
                raise Wrong(f"uses {rest}.{name}, which does not exist")
            return fields[name]
        if kind in {"map", "optional"}:
            raise _Unsure
        raise Wrong(f"uses .{name} of a {of}, which has no fields")

    def _method(self, of: Type, name: str) -> Type:
        if name in _MACROS:
            return self._macro(of, name)
        given = self._arguments()
        if UNSURE in {of, *given}:
            return UNSURE
        kind, _, rest = of.partition(" ")
        if kind == "string" and name in {"contains", "startsWith", "endsWith", "matches"}:
            _want_all(given, ("string",), name)
            return "bool"
        if kind in {"string", "bytes", "list", "map"} and name == "size":
            _want_all(given, (), name)
            return "int"
        if kind == "duration" and name in {"getHours", "getMinutes", "getSeconds", "getMilliseconds"}:
            _want_all(given, (), name)
            return "int"
        if kind == "optional" and name == "orValue":
            _want_all(given, (rest,), name)
            return rest
        if kind == "optional" and name in {"hasValue", "value"}:
            _want_all(given, (), name)
            return "bool" if name == "hasValue" else rest
        if name in _METHODS or name.startswith("get"):
            raise _Unsure
        raise Wrong(f"calls .{name}(), which does not exist")

    def _macro(self, of: Type, name: str) -> Type:
        """`list.exists(each, test)`; the name is that of an element, or of a key."""
        variable = self._take()
        if variable.kind != "name" or not self._sign(","):
            raise _Unsure
        kind, _, rest = of.partition(" ")
        element = rest if kind == "list" else rest.partition(" ")[0] if kind == "map" else UNSURE
        if kind not in {"list", "map", UNSURE}:
            raise Wrong(f"uses {name} on a {of}, which is not a list")
        before = dict(self._bound)
        self._bound[variable.text] = element or UNSURE
        test = self._expression()
        self._bound = before
        if self._sign(","):
            raise _Unsure
        self._need(")")
        if name == "map":
            return f"list {test}" if test != UNSURE else UNSURE
        _want(test, "bool", f"in {name}")
        if UNSURE in {element, test}:
            return UNSURE
        return f"list {element}" if name == "filter" else "bool"

    def _arguments(self) -> list[Type]:
        given: list[Type] = []
        if self._sign(")"):
            return given
        while True:
            given.append(self._expression())
            if self._sign(")"):
                return given
            self._need(",")

    def _primary(self, *, negative: bool) -> Type:
        token = self._take()
        match token.kind:
            case "float":
                return "double"
            case "integer":
                return _whole(token.text, negative=negative)
            case "text":
                return "bytes" if "b" in token.prefix else "string"
            case "name":
                return self._named(token.text)
            case "sign" if token.text == "(":
                found = self._expression()
                self._need(")")
                return found
            case "sign" if token.text == "[":
                return self._list()
            case "sign" if token.text == "{":
                return self._map()
            case "sign" if token.text == ".":
                raise _Unsure
        raise Wrong("is not a CEL expression: a value is missing")

    def _named(self, name: str) -> Type:
        if name in {"true", "false"}:
            return "bool"
        if name == "null":
            return UNSURE
        if _RESERVED.fullmatch(name):
            raise Wrong(f"is not a CEL expression: {name} is a reserved word")
        if self._sign("("):
            return self._called(name)
        found = self._bound.get(name) or self._environment.variables.get(name)
        if found is not None:
            return found
        if _TYPE_NAMES.fullmatch(name) or name in {"google", "talos", "optional"}:
            raise _Unsure
        raise Wrong(f"uses {name}, which does not exist")

    def _called(self, name: str) -> Type:
        if name == "has":
            return self._has()
        given = self._arguments()
        known = self._environment.functions.get(name)
        if known is not None:
            if UNSURE not in given:
                _want_all(given, known[0], name)
            return known[1] if UNSURE not in given else UNSURE
        if name == "size" and len(given) == 1:
            kind = given[0].partition(" ")[0]
            if kind not in {"string", "bytes", "list", "map", UNSURE}:
                raise Wrong(f"calls size() on a {given[0]}")
            return "int" if kind != UNSURE else UNSURE
        if name in _NUMBERS and len(given) == 1 and given[0] in {*_NUMBERS, "string"}:
            return name
        if name == "string" and len(given) == 1 and given[0] in {*_NUMBERS, "string", "bool"}:
            return name
        if name == "duration" and given == ["string"]:
            return name
        if _TYPE_NAMES.fullmatch(name) or name in {"matches", "size"}:
            raise _Unsure
        raise Wrong(f"calls {name}(), which does not exist")

    def _has(self) -> Type:
        start = self._at
        self._member()
        self._need(")")
        # has() takes a field, and nothing else: the last thing read before the bracket is `.name`.
        before, last = self._tokens[self._at - 3], self._tokens[self._at - 2]
        if self._at - start < 4 or before.text != "." or last.kind != "name":
            raise Wrong("calls has() on something that is not a field")
        return "bool"

    def _list(self) -> Type:
        items: list[Type] = []
        while not self._sign("]"):
            if self._sign("?"):
                raise _Unsure
            items.append(self._expression())
            if not self._sign(","):
                self._need("]")
                break
        if len(set(items)) != 1 or UNSURE in items:
            return UNSURE  # empty, or of several types: its type depends on where it stands
        return f"list {items[0]}"

    def _map(self) -> Type:
        keys: set[Type] = set()
        values: set[Type] = set()
        while not self._sign("}"):
            if self._sign("?"):
                raise _Unsure
            keys.add(self._expression())
            self._need(":")
            values.add(self._expression())
            if not self._sign(","):
                self._need("}")
                break
        if len(keys) != 1 or len(values) != 1 or UNSURE in keys | values or " " in "".join(keys):
            return UNSURE
        return f"map {keys.pop()} {values.pop()}"


# ---- types


def _want(found: Type, wanted: Type, where: str) -> None:
    if found not in {wanted, UNSURE}:
        raise Wrong(f"has a {found} {where} instead of a {wanted}")


def _want_all(given: list[Type], wanted: tuple[Type, ...], name: str) -> None:
    if tuple(given) != wanted:
        raise Wrong(f"calls {name}({', '.join(given)}), which takes ({', '.join(wanted)})")


def _one_type(left: Type, right: Type, where: str) -> Type:
    if UNSURE in left.split() + right.split():
        return UNSURE
    if left != right:
        hint = ": write an unsigned integer as 10u" if {left, right} == {"int", "uint"} else ""
        raise Wrong(f"has a {left} and a {right} on {where}{hint}")
    return left


def _contained(item: Type, inside: Type) -> Type:
    kind, _, rest = inside.partition(" ")
    if UNSURE in {item, kind}:
        return UNSURE
    if kind not in {"list", "map"}:
        raise Wrong(f"uses in with a {inside}")
    element = rest if kind == "list" else rest.partition(" ")[0]
    return "bool" if _one_type(item, element, "the two sides of in") != UNSURE else UNSURE


def _added(sign: str, left: Type, right: Type) -> Type:
    if "duration" in {left, right} or "timestamp" in {left, right}:
        if left == right == "duration":
            return "duration"
        raise _Unsure
    both = _one_type(left, right, f"the two sides of {sign}")
    if both == UNSURE or both in _NUMBERS:
        return both
    if sign == "+" and (both in {"string", "bytes"} or both.startswith("list ")):
        return both
    raise Wrong(f"has {sign} between values of type {both}")


def _indexed(of: Type, index: Type) -> Type:
    kind, _, rest = of.partition(" ")
    if UNSURE in {kind, index}:
        return UNSURE
    if kind == "list":
        _want(index, "int", "between [ and ]")
        return rest
    if kind == "map":
        key, _, value = rest.partition(" ")
        _want(index, key, "between [ and ]")
        return value
    if kind == "optional":
        raise _Unsure
    raise Wrong(f"has [ ] after a {of}, which is neither a list nor a map")


def _whole(text: str, *, negative: bool) -> Type:
    unsigned = text[-1] in "uU"
    digits = text.rstrip("uU")
    value = int(digits, 16) if digits.startswith("0x") else int(digits)
    if value > (2**64 - 1 if unsigned else 2**63 - (0 if negative else 1)):
        raise Wrong("has a number that is too large")
    return "uint" if unsigned else "int"
