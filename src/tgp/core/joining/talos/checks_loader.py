"""What Talos's loader refuses: unknown kinds and keys, values of another type, duplicate documents."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from ipaddress import ip_address, ip_interface
from itertools import islice
from typing import Any

from tgp.core.joining.talos import bonds
from tgp.core.joining.talos.document_view import Config, ConfigDocument, as_text, as_truth
from tgp.core.joining.talos.keys import (
    CLASSIC_KIND,
    KeyForm,
    KeyShape,
    control_plane_kinds,
    first_minor,
    kinds,
    unseen_kinds,
)
from tgp.core.joining.talos.stream import Path
from tgp.core.joining.talos.template import texts
from tgp.core.model.machine_config import ConfigFinding

API_VERSION = "v1alpha1"
MANY = 20  # findings of one kind: more are not shown
# keys by which Talos recognises the document without a kind
_MARKS_CLASSIC = ("machine", "cluster", "debug", "persist")
_LINKS = frozenset(
    ("LinkConfig", "WireguardConfig", "BridgeConfig", "BondConfig", "VLANConfig", "VRFConfig", "DummyLinkConfig")
)
_VOLUMES = frozenset(("UserVolumeConfig", "ExistingVolumeConfig"))
# Keys that came with a patch release, and the first release that has them.
YOUNG_KEYS: dict[tuple[str, Path], tuple[int, int]] = {
    (CLASSIC_KIND, ("machine", "network", "kubespan", "filters", "excludeAdvertisedNetworks")): (12, 4),
    ("OOMConfig", ("strictCgroupClassOrdering",)): (13, 4),
}
# Arguments can be lists since 1.13, and are read as such since 1.13.6: the check for unknown keys failed on them.
_LISTS_OF_ARGUMENTS_SINCE = (13, 6)
_SET_BY_FIELDS = frozenset(
    (KeyForm.ADDRESS, KeyForm.CIDR, KeyForm.HOST_PORT)
)  # an empty mapping is one that is not set
_WHOLE = frozenset((KeyForm.NUMBER, KeyForm.COUNT, KeyForm.COUNT8, KeyForm.COUNT16))
_WHOLE_SINCE = 13  # of 1.x, with another YAML: earlier ones cut decimals off, and read {} as unset
_DURATION = re.compile(r"[-+]?(?:0|(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+\Z")
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_SIZE = re.compile(r"([0-9][0-9,]*(?:\.[0-9]*)?)\s*([kmgtpe]i?)?b?\s*\Z", re.IGNORECASE)
_UNITS = {"": 1} | {f"{unit}i": 1024**power for power, unit in enumerate("kmgtpe", 1)}
_UNITS |= {unit: 1000**power for power, unit in enumerate("kmgtpe", 1)}
_PLACEHOLDER = re.compile(r"\{\{[^{}\n]{0,80}\}\}")
_PERCENT = re.compile(r"-?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)%\Z")
_HARDWARE = re.compile(r"(?:[0-9A-Fa-f]{2})*\Z")


def is_classic(data: dict[str, Any]) -> bool:
    return "kind" not in data and any(mark in data for mark in _MARKS_CLASSIC)


def check_kinds(config: Config) -> Iterator[ConfigFinding]:
    minor = config.version.minor
    known, others = kinds(minor), control_plane_kinds(minor)
    for page in config.pages:
        data = page.document.data
        if not isinstance(data, dict):
            yield page.error((), "is not a mapping: a document begins with `apiVersion` and `kind`, or with `version`")
        elif page.kind == CLASSIC_KIND and not is_classic(data):
            yield page.error((), "has no kind, and no machine or cluster section either")
        elif page.kind in others:
            yield page.error(("kind",), "is for control planes only: a worker must not have it")
        elif page.kind not in known:
            yield page.error(("kind",), _unknown_kind(page.kind, minor, known))
        elif page.kind != CLASSIC_KIND and page.text("apiVersion") != API_VERSION:
            yield page.error(("apiVersion",), f"must be {API_VERSION}")
        elif page.kind in unseen_kinds(minor):
            yield page.unchecked((), f"is a kind that tgp cannot check for Talos 1.{minor}")


ALIKE = 0.8  # of 1: every kind ends in Config, so that two of nothing else in common are alike by 0.7


def _unknown_kind(kind: str, minor: int, known: Any) -> str:
    since = first_minor(kind)
    if since is not None and since > minor:
        return f"is a kind of Talos 1.{since} and later, but this is 1.{minor}"
    near = get_close_matches(kind, known, 1, ALIKE)
    return f"is not a kind of Talos 1.{minor}" + (f"; did you mean {near[0]}?" if near else "")


def check_once(config: Config) -> Iterator[ConfigFinding]:
    """Talos accepts each document once, and one document per network link."""
    seen: dict[tuple[str, str], ConfigDocument] = {}
    claimed: dict[tuple[str, str], ConfigDocument] = {}
    for page in config.pages:
        group = "link" if page.kind in _LINKS else "volume" if page.kind in _VOLUMES else ""
        if (page.kind, page.name) in seen:
            yield page.error((), f"is a duplicate, first in line {seen[page.kind, page.name].document.line}")
        elif group and (group, page.name) in claimed:
            yield page.error(("name",), f"is already used by another {group}: {claimed[group, page.name].prefix}")
        seen.setdefault((page.kind, page.name), page)
        claimed.setdefault((group, page.name), page)


def check_keys(config: Config) -> Iterator[ConfigFinding]:
    known = kinds(config.version.minor)
    for page in config.pages:
        shape = known.get(page.kind)
        if shape is not None and isinstance(page.document.data, dict):
            data = dict(page.document.data)
            if page.kind != CLASSIC_KIND:
                data.pop("apiVersion", None)
                data.pop("kind", None)
            unfilled = () if config.expects.literal_braces else _unfilled(page)
            findings = (
                each for each in _compare(page, (), data, shape, config.version.minor) if each.path not in unfilled
            )
            yield from islice(findings, MANY)


def _unfilled(page: ConfigDocument) -> frozenset[str]:
    """Paths of placeholders: the check for placeholders reports them once."""
    return frozenset(page.spelled(path) for path, text in texts(page.document.data) if _PLACEHOLDER.search(text))


def check_young_keys(config: Config) -> Iterator[ConfigFinding]:
    version = config.version
    for page in config.pages:
        for (kind, path), (minor, patch) in YOUNG_KEYS.items():
            if page.kind == kind and version.minor == minor and version.patch < patch and page.at(*path) is not None:
                yield page.error(path, f"is a key of Talos 1.{minor}.{patch} and later, but this is {version}")
    page_read = config.classic
    if page_read is None or ((version.minor, version.patch) >= _LISTS_OF_ARGUMENTS_SINCE and version.final):
        return
    for around in (("machine", "kubelet"), *(("cluster", part) for part in page_read.section("cluster"))):
        for name, value in page_read.section(*around, "extraArgs").items():
            if isinstance(value, list):
                yield page_read.error((*around, "extraArgs", name), f"cannot be a list in {version}: write one string")


def _compare(page: ConfigDocument, path: Path, value: Any, shape: KeyShape, minor: int) -> Iterator[ConfigFinding]:
    if value is None or shape.form is KeyForm.ANYTHING:
        return
    match shape.form:
        case KeyForm.SECTION:
            if isinstance(value, dict):
                yield from _section(page, path, value, shape, minor)
            else:
                yield page.error(path, f"must be a mapping, with keys such as {_some(shape)}")
        case KeyForm.LIST:
            if isinstance(value, list):
                for index, item in enumerate(value):
                    yield from _compare(page, (*path, index), item, shape.of or shape, minor)
            else:
                yield page.error(path, "must be a list")
        case KeyForm.MAPPING:
            if isinstance(value, dict):
                for key, item in value.items():
                    yield from _compare(page, (*path, key), item, shape.of or shape, minor)
            else:
                yield page.error(path, "must be a mapping")
        case KeyForm.TEXTS if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _compare(page, (*path, index), item, KeyShape(KeyForm.TEXT), minor)
        case _ if value == {} and shape.form in _SET_BY_FIELDS and minor < _WHOLE_SINCE:
            return
        case _:
            if (wanted := _wanted(value, shape.form)) is not None:
                yield page.error(path, f"must be {wanted}")
            elif shape.form in _WHOLE and minor >= _WHOLE_SINCE and isinstance(value, float) and not value.is_integer():
                yield page.error(path, "must be a whole number")


def _section(
    page: ConfigDocument, path: Path, value: dict[str, Any], shape: KeyShape, minor: int
) -> Iterator[ConfigFinding]:
    for key, item in value.items():
        inner = shape.keys.get(key)
        if inner is not None:
            yield from _compare(page, (*path, key), item, inner, minor)
        elif "*" not in shape.keys:
            near = get_close_matches(key, shape.keys, 1)
            hint = f"; did you mean {near[0]}?" if near else "; remove it"
            yield page.error((*path, key), f"is not a key of Talos 1.{minor}{hint}")


def _some(shape: KeyShape) -> str:
    return ", ".join(list(shape.keys)[:3]) or "none"


def _wanted(value: Any, form: KeyForm) -> str | None:
    """What the value should be; None: it is valid."""
    if isinstance(value, dict | list):
        return "one value, not a " + ("list" if isinstance(value, list) else "mapping")
    text = as_text(value)
    test, words = _TESTS.get(form, (None, ""))
    return None if test is None or test(value, text) else words


def _is_number(value: Any, _text: str) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any, _text: str) -> bool:
    return _is_number(value, "") and 0 <= value < 2**32


def _below(bound: int) -> tuple[Callable[[Any, str], bool], str]:
    return lambda value, _text: _is_number(value, "") and 0 <= value < bound, f"a number from 0 to {bound - 1}"


def _is_duration(value: Any, text: str) -> bool:
    return isinstance(value, str) and _DURATION.match(text) is not None


def duration(text: str) -> float | None:
    """In seconds; None: not a duration."""
    if not _DURATION.match(text):
        return None
    found = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text))
    return -found if text.startswith("-") else found


def _is_size(_value: Any, text: str) -> bool:
    return byte_size(text) is not None


def byte_size(text: str) -> int | None:
    """Of `100GB`, `1.5 TiB` or `4096`; None: not a size, or more than 64 bits."""
    found = _SIZE.match(text)
    if found is None:
        return None
    value = int(float(found[1].replace(",", "")) * _UNITS[(found[2] or "").lower()])
    return value if value < 2**64 else None


def _are_sizes(_value: Any, text: str) -> bool:
    return byte_size(re.sub(r"\A\s*(?:>=|<=|>|<|==)?\s*", "", text)) is not None


def _are_bytes(_value: Any, text: str) -> bool:
    return not text or byte_size(text.removeprefix("-")) is not None


def _is_space(_value: Any, text: str) -> bool:
    """Of a disk: bytes, a percentage, or (negative) the space to keep free."""
    if "%" in text:
        found = _PERCENT.match(text)
        return found is not None and float(found[1]) <= 100
    return _are_bytes(_value, text)


def _is_table(_value: Any, text: str) -> bool:
    return text in {"main", "local", "default", "unspec"} or (text.isdecimal() and 1 <= int(text) <= 252)


def _one_of(*words: str) -> tuple[Callable[[Any, str], bool], str]:
    """Case-insensitive, as in Talos."""
    known = {word.lower() for word in words}
    return lambda _value, text: text.lower() in known, f"one of {', '.join(words)}"


def _reads(reader: Callable[[str], object]) -> Callable[[Any, str], bool]:
    def test(_value: Any, text: str) -> bool:
        try:
            reader(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return test


def _cidr(text: str) -> None:
    if text and "/" not in text:
        raise ValueError
    ip_interface(text or "0.0.0.0/0")


def _address(text: str) -> None:
    ip_address(text or "0.0.0.0")  # noqa: S104 - stands for an empty string, which Talos reads as unset


def _address_port(text: str) -> None:
    address, colon, port = text.rpartition(":")
    if text and not (colon and port.isdecimal() and int(port) < 65536):
        raise ValueError
    _address(address.strip("[]"))


def _base64(text: str) -> None:
    base64.b64decode("".join(text.split("\n")), validate=True)


def _url(text: str) -> None:
    """As strict as Go: a port is a number, and the part before the first colon is a scheme."""
    found = re.match(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?([^\x00-\x1f\x7f]*)\Z", text)
    if found is None or (found[1] is None and ":" in found[2].partition("/")[0]):
        raise ValueError
    if found[2].startswith("//"):
        host = re.split(r"[/?#]", found[2][2:], maxsplit=1)[0].rpartition("@")[2]
        port = host.rpartition("]")[2].partition(":")[2]
        if " " in host or (port and not port.isdecimal()):
            raise ValueError


_TESTS: dict[KeyForm, tuple[Callable[[Any, str], bool], str]] = {
    KeyForm.TRUTH: (lambda value, _text: as_truth(value) is not None, "true or false"),
    KeyForm.NUMBER: (_is_number, "a number"),
    KeyForm.COUNT: (_is_count, "a number of 0 or more"),
    KeyForm.DURATION: (_is_duration, "a duration, such as 30s or 1h30m"),
    KeyForm.ADDRESS: (_reads(_address), "an IP address"),
    KeyForm.CIDR: (_reads(_cidr), "a network in CIDR form, such as 10.0.0.0/24"),
    KeyForm.HOST_PORT: (_reads(_address_port), "an IP address and a port, such as 192.0.2.1:51820"),
    KeyForm.URL: (_reads(_url), "a URL"),
    KeyForm.BASE64: (_reads(_base64), "base64"),
    KeyForm.SIZE: (_is_size, "a size, such as 100GB"),
    KeyForm.SIZES: (_are_sizes, "a size, such as >= 100GB"),
    KeyForm.SPACE: (_is_space, "a size, such as 100GB or 50%"),
    KeyForm.BYTES: (_are_bytes, "a size, such as 100GB"),
    KeyForm.COUNT8: _below(2**8),
    KeyForm.COUNT16: _below(2**16),
    KeyForm.AD_SELECT: _one_of(*bonds.AD_SELECTS),
    KeyForm.ARP_TARGETS: _one_of(*bonds.ARP_TARGETS),
    KeyForm.ARP_VALIDATE: _one_of(*bonds.ARP_VALIDATIONS),
    KeyForm.BOND_MODE: _one_of(*bonds.MODES),
    KeyForm.FAIL_OVER_MAC: (lambda _value, text: text in {"", *bonds.FAIL_OVERS, "0", "1", "2"}, bonds.FAIL_OVER_WORDS),
    KeyForm.HASH_POLICY: _one_of(*bonds.HASH_POLICIES),
    KeyForm.LACP_ACTIVE: _one_of("on", "off"),
    KeyForm.LACP_RATE: _one_of(*bonds.LACP_RATES),
    KeyForm.RESELECT: _one_of(*bonds.RESELECTIONS),
    KeyForm.HARDWARE: (
        lambda _value, text: _HARDWARE.match(text.replace(":", "")) is not None,
        "bytes in hexadecimal, such as 2e:3c:4d:5e:6f:70",
    ),
    KeyForm.LVM_TYPE: _one_of("linear", "raid0", "raid1", "raid10"),
    KeyForm.RULE_ACTION: _one_of("unspec", "unicast", "blackhole", "unreachable", "prohibit"),
    KeyForm.VLAN_MODE: _one_of("802.1q", "802.1ad"),
    KeyForm.WAKE_ON_LAN: _one_of("phy", "unicast", "multicast", "broadcast", "magic", "magicsecure", "filter"),
    KeyForm.ACTION: _one_of("accept", "block"),
    KeyForm.DNS: _one_of("Do53", "DoT", "DoH"),
    KeyForm.TABLE: (_is_table, "main, local, default, unspec, or a number from 1 to 252"),
    KeyForm.AUTO: _one_of("stable", "off", "talos-addr"),
    KeyForm.ENCRYPTION: _one_of("luks2", "none"),
    KeyForm.FILESYSTEM: _one_of("xfs", "ext4", "vfat", "iso9660", "swap", "none", "virtiofs", "btrfs"),
    KeyForm.IDENTIFIER: _one_of("mac", "duid", "none"),
    KeyForm.PROTOCOL: _one_of("tcp", "udp", "icmp", "icmpv6"),
    KeyForm.VOLUME: _one_of("partition", "disk", "directory", "tmpfs", "symlink", "overlay", "external"),
}
