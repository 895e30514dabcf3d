"""CEL rules that many fields share, each with the Python check that decides the same.

A rule on a string says with a message what a bare `pattern` would only say with a regular expression.
"""

import json
from typing import Any, Final

from tgp.api import values
from tgp.api.field import Rule
from tgp.api.pattern import matches

FORBIDDEN: Final = "FieldValueForbidden"
REQUIRED: Final = "FieldValueRequired"


def quoted(text: str) -> str:
    """A CEL string literal. JSON's escapes are CEL's, but for a few that do not occur in patterns."""
    return "'" + json.dumps(text, ensure_ascii=False)[1:-1].replace("'", "\\'").replace('\\"', '"') + "'"


def one_of(*names: str) -> str:
    """A CEL list literal."""
    return "[" + ", ".join(quoted(name) for name in names) + "]"


def reads(pattern: str, message: str) -> Rule:
    """A string that matches."""
    return Rule(f"self.matches({quoted(pattern)})", message, lambda self, _: matches(self, pattern))


def reads_or_empty(pattern: str, message: str) -> Rule:
    cel = f"self == '' || self.matches({quoted(pattern)})"
    return Rule(cel, message, lambda self, _: not self or matches(self, pattern))


def not_both(one: str, other: str, message: str) -> Rule:
    """Two fields of an object that exclude each other."""
    cel = f"!(has(self.{one}) && has(self.{other}))"
    return Rule(cel, message, lambda self, _: not (one in self and other in self), field=f".{other}", reason=FORBIDDEN)


def unchanged(name: str, message: str, *, sets: bool = False) -> Rule:
    """A field that keeps its value, or its absence, for the life of the object.

    `sets`: the lists in it are of type set, where CEL's equality passes over the order.
    """
    return Rule(
        f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})",
        message,
        lambda self, old: same(self.get(name), old.get(name), sets=sets),
        field=f".{name}",
        reason=FORBIDDEN,
    )


def same(left: Any, right: Any, *, sets: bool = False) -> bool:
    """CEL's equality of JSON values: numbers by value, everything else by kind and content."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key], sets=sets) for key in left)
    if isinstance(left, list):
        ours, theirs = (sorted(left, key=str), sorted(right, key=str)) if sets else (left, right)
        return len(ours) == len(theirs) and all(same(one, other) for one, other in zip(ours, theirs, strict=True))
    return bool(left == right)


def same_set(left: Any, right: Any) -> bool:
    """CEL's equality where lists are of type set: order does not count."""
    return same(left, right, sets=True)


HAS_SOMETHING = "[1-9]"  # of digits only: a price or a duration is above zero if one digit is not zero

PRICE = reads(values.PRICE, values.MESSAGE_PRICE)
PRICE_ABOVE_ZERO = reads(HAS_SOMETHING, "must be more than zero")
DURATION = reads(values.DURATION, values.MESSAGE_DURATION)
DURATION_OR_NEVER = Rule(
    f"self == 'Never' || self.matches({quoted(values.DURATION)})",
    f"{values.MESSAGE_DURATION}, or Never",
    lambda self, _: self == "Never" or matches(self, values.DURATION),
)
SPAN_ABOVE_ZERO = Rule(
    f"self == 'Never' || self.matches({quoted(HAS_SOMETHING)})",
    "must be longer than zero",
    lambda self, _: self == "Never" or matches(self, HAS_SOMETHING),
)

_POSITIVE_QUANTITY = r"^[0-9.]*[1-9]"
QUANTITY = Rule(
    f"type(self) == int || self.matches({quoted(values.QUANTITY)})",
    values.MESSAGE_QUANTITY,
    lambda self, _: matches(self, values.QUANTITY) if isinstance(self, str) else isinstance(self, int),
)
QUANTITY_ABOVE_ZERO = Rule(
    f"type(self) == int ? self > 0 : self.matches({quoted(_POSITIVE_QUANTITY)})",
    'must be more than zero, such as 2 or "0.14"',
    lambda self, _: matches(self, _POSITIVE_QUANTITY) if isinstance(self, str) else isinstance(self, int) and self > 0,
)
# Less than a thousandth: nothing, 0.000…, and by the suffixes m, u, n and negative exponents. It would be shown as 0.
_BELOW_MILLI = (
    r"^([0.]+([a-zA-Z].*)?|0*\.000[0-9]*([eE][+]?0+)?|0*([.][0-9]*)?(m|[eE]-[0-9]+)|0*[0-9]{0,3}([.][0-9]*)?u"
    r"|0*[0-9]{0,6}([.][0-9]*)?n|[0-9.]+[eE]-(0?[4-9]|[1-9][0-9]))$"
)
AT_LEAST_MILLI = Rule(
    f"type(self) == int ? self > 0 : !self.matches({quoted(_BELOW_MILLI)})",
    'must be at least 0.001, such as 1 or "0.5"',
    lambda self, _: not matches(self, _BELOW_MILLI) if isinstance(self, str) else isinstance(self, int) and self > 0,
)
NODES = Rule(
    f"type(self) == int || self.matches({quoted(values.PERCENT_OR_COUNT)})",
    'must be a number of nodes, or a percentage of at most 100%, such as 2 or "10%"',
    lambda self, _: matches(self, values.PERCENT_OR_COUNT) if isinstance(self, str) else isinstance(self, int),
)
PERCENT = reads(values.PERCENT, 'must be a percentage of at most 100%, such as "5%"')
NAME_FITS = Rule(
    "self.metadata.name.size() <= 63",
    "metadata.name must have at most 63 characters: it becomes a label value",
    lambda self, _: len(str(self.get("metadata", {}).get("name", ""))) <= 63,
    field=".metadata",
)

LABEL_VALUE_PATTERN = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
QUALIFIED_PATTERN = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$"
LABEL_VALUE = reads(
    LABEL_VALUE_PATTERN,
    "must be a label value: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit",
)
QUALIFIED = reads(QUALIFIED_PATTERN, "must be a name with an optional domain before it, such as example.com/team")
QUALIFIED_KEYS = Rule(
    f"self.all(k, k.size() <= 317 && k.matches({quoted(QUALIFIED_PATTERN)}))",
    "keys must be names with an optional domain before them, such as example.com/team",
    lambda self, _: all(len(key) <= 317 and matches(key, QUALIFIED_PATTERN) for key in self),
)

# The kubelet may set these by itself; other Kubernetes components give a meaning to the rest of these domains.
OPEN_LABELS = ("kubernetes.io/arch", "kubernetes.io/os", "topology.kubernetes.io/region", "topology.kubernetes.io/zone")
_CLOSED_DOMAIN = r"^([^/]+\.)?(kubernetes\.io|k8s\.io)/"
_OPEN_DOMAIN = r"^(node|kubelet)\.kubernetes\.io/"
OPEN_DOMAINS = Rule(
    f"self.all(k, !k.matches({quoted(_CLOSED_DOMAIN)}) || k.matches({quoted(_OPEN_DOMAIN)}) || k in "
    f"{one_of(*OPEN_LABELS)})",
    "kubernetes.io, k8s.io and node-restriction.kubernetes.io are reserved for Kubernetes; "
    f"allowed are node.kubernetes.io, kubelet.kubernetes.io, {', '.join(OPEN_LABELS)}",
    lambda self, _: all(
        not matches(key, _CLOSED_DOMAIN) or matches(key, _OPEN_DOMAIN) or key in OPEN_LABELS for key in self
    ),
)

OURS_PATTERN = r"^([^/]+\.)?tgp\.io/"
NOT_OURS = Rule(
    f"self.all(k, !k.matches({quoted(OURS_PATTERN)}))",
    "keys of tgp.io are reserved: the operator sets them from the machine it launched",
    lambda self, _: not any(matches(key, OURS_PATTERN) for key in self),
)

_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"({_OCTET}\.){{3}}{_OCTET}"
_H = "[0-9a-fA-F]{1,4}"
_IPV6 = (
    f"(({_H}:){{7}}{_H}|({_H}:){{1,7}}:|({_H}:){{1,6}}:{_H}|({_H}:){{1,5}}(:{_H}){{1,2}}|({_H}:){{1,4}}(:{_H}){{1,3}}"
    f"|({_H}:){{1,3}}(:{_H}){{1,4}}|({_H}:){{1,2}}(:{_H}){{1,5}}|{_H}:(:{_H}){{1,6}}|:((:{_H}){{1,7}}|:))"
)
CIDR_PATTERN = rf"^({_IPV4}/(3[0-2]|[12]?[0-9])|{_IPV6}/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))$"
CIDR = reads(CIDR_PATTERN, "must be a network in CIDR form, such as 10.0.0.0/24 or fd00::/64")

URL_PATTERN = r"^https?://([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?([/?#][!-~]*)?$"
URL = reads(
    URL_PATTERN, "must be an http or https URL without a user name or password in it, such as http://power-api/start"
)

DNS_LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DNS_SUBDOMAIN = reads(DNS_SUBDOMAIN_PATTERN, "must be lower-case letters, digits, '-' and '.', as object names are")
SECRET_KEY = reads(r"^[-._a-zA-Z0-9]+$", "must be a key of a Secret: letters, digits, '-', '_' and '.'")

GPU_NAME = reads(
    r"^[A-Za-z0-9]([A-Za-z0-9 ._-]*[A-Za-z0-9])?$", "must be a GPU's name, such as RTX4090 or A100-80GB-SXM"
)
_CRON_FIELD = r"[0-9A-Za-z*,/?-]+"
CRON = reads(
    rf"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly)|{_CRON_FIELD}( +{_CRON_FIELD}){{4}})$",
    'must be five cron fields such as "0 8 * * 1-5", or @daily and the like',
)
TIME_ZONE = reads(r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$", "must be an IANA time zone such as Europe/Berlin")
