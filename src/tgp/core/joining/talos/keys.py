"""Which keys a Talos release reads, in which documents, and of which type. Unknown keys are refused.

The tables are written in a short notation. An indented line holds keys that hold values; a line that ends with a colon
is a key with the lines below it as content.

    name[]      a list of texts        name{}      a mapping of any names to texts
    name?       true or false          name#       a whole number, name+ one that is not negative
    name~       a length of time       name|       a text, or a list of texts
    name*       anything               name=cidr   a text of that form, or one of its words
    name@12+    since 1.12             name@-11    up to 1.11            name@12-13  from 1.12 to 1.13
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache

import msgspec

from tgp.core.joining.talos.key_table import CLASSIC, CONTROL_PLANE_KINDS, DOCUMENTS, UNSEEN_KINDS

CLASSIC_KIND = "v1alpha1"  # what Talos calls the document that has no kind


class KeyForm(StrEnum):
    TEXT = ""
    TRUTH = "?"
    NUMBER = "#"
    COUNT = "+"
    DURATION = "~"
    TEXTS = "|"
    ANYTHING = "*"
    SECTION = ":"
    LIST = "[]"
    MAPPING = "{}"
    ADDRESS = "=address"
    CIDR = "=cidr"
    HOST_PORT = "=addressport"
    URL = "=url"
    BASE64 = "=base64"
    SIZE = "=size"
    SIZES = "=sizes"
    SPACE = "=space"
    BYTES = "=bytes"
    COUNT8 = "=uint8"
    COUNT16 = "=uint16"
    ACTION = "=action"
    AD_SELECT = "=adselect"
    ARP_TARGETS = "=arptargets"
    ARP_VALIDATE = "=arpvalidate"
    AUTO = "=auto"
    BOND_MODE = "=bondmode"
    DNS = "=dns"
    ENCRYPTION = "=encryption"
    FAIL_OVER_MAC = "=failovermac"
    FILESYSTEM = "=filesystem"
    HARDWARE = "=hardware"
    HASH_POLICY = "=hashpolicy"
    IDENTIFIER = "=identifier"
    LACP_ACTIVE = "=lacpactive"
    LACP_RATE = "=lacprate"
    LVM_TYPE = "=lvmtype"
    PROTOCOL = "=protocol"
    RESELECT = "=reselect"
    RULE_ACTION = "=ruleaction"
    TABLE = "=table"
    VLAN_MODE = "=vlanmode"
    VOLUME = "=volume"
    WAKE_ON_LAN = "=wol"


class KeyShape(msgspec.Struct, frozen=True):
    form: KeyForm
    keys: Mapping[str, "KeyShape"] = msgspec.field(default_factory=dict)  # of a section
    of: "KeyShape | None" = None  # of a list or a mapping: what it holds


_WORD = re.compile(
    r"(?P<name>\*|[A-Za-z0-9_-]+)(?P<around>(?:\[\]|\{\})*)(?P<form>[?#+~|*]|=[a-z0-9]+)?"
    r"(?:@(?P<since>\d*)(?P<range>[+-])(?P<until>\d*))?(?P<section>:)?\Z"
)


@cache
def kinds(minor: int) -> Mapping[str, KeyShape]:
    """Every kind of document that a worker of this release may have, and what it may hold."""
    return {**parsed(CLASSIC, minor), **parsed(DOCUMENTS, minor), **parsed(UNSEEN_KINDS, minor)}


@cache
def control_plane_kinds(minor: int) -> frozenset[str]:
    """Kinds of this release that only a control plane uses."""
    return frozenset(parsed(CONTROL_PLANE_KINDS, minor))


@cache
def unseen_kinds(minor: int) -> frozenset[str]:
    """Kinds of this release that could not be tested: their keys are unknown."""
    return frozenset(parsed(UNSEEN_KINDS, minor))


def first_minor(kind: str) -> int | None:
    """The first release with this kind; None: unknown."""
    for word in (*DOCUMENTS.split(), *UNSEEN_KINDS.split(), *CONTROL_PLANE_KINDS.split()):
        found = _WORD.match(word)
        if found and found["name"] == kind:
            return int(found["since"] or 0)
    return None


def parsed(table: str, minor: int) -> dict[str, KeyShape]:
    """The table for one release."""
    lines = [line for line in table.splitlines() if line.strip()]
    keys, rest = _block(lines, 0, minor)
    assert not rest, f"wrongly indented: {rest[0]!r}"
    return keys


def _block(lines: list[str], depth: int, minor: int) -> tuple[dict[str, KeyShape], list[str]]:
    keys: dict[str, KeyShape] = {}
    while lines and _depth(lines[0]) == depth:
        line, *lines = lines
        within: dict[str, KeyShape] = {}
        if line.endswith(":"):
            within, lines = _block(lines, depth + 1, minor)
        for name, shape in _words(line, minor, within):
            assert name not in keys, f"{name} stands there twice"
            keys[name] = shape
    return keys, lines


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip())) // 2


def _words(line: str, minor: int, within: dict[str, KeyShape]) -> Iterator[tuple[str, KeyShape]]:
    for word in line.split():
        found = _WORD.match(word)
        assert found, f"no key: {word!r}"
        if not _holds(found, minor):
            continue
        shape = KeyShape(KeyForm.SECTION, within) if found["section"] else KeyShape(KeyForm(found["form"] or ""))
        for around in reversed(re.findall(r"\[\]|\{\}", found["around"])):
            shape = KeyShape(KeyForm(around), of=shape)
        yield found["name"], shape


def _holds(found: re.Match[str], minor: int) -> bool:
    since = int(found["since"] or 0)
    until = int(found["until"] or 99)
    return since <= minor <= until
