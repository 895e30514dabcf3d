"""Which URLs a power webhook may call: the URL is parsed strictly, then its name and every resolved address are
checked.

Administrators write the URLs, so private addresses are allowed: owned machines are there. Never called
are the operator's own host, link-local addresses (and with them most
metadata services), the metadata services elsewhere, the Kubernetes API server, and multicast and broadcast. An
address that contains another one (IPv4-mapped, NAT64, 6to4, Teredo …) must pass as both.

Spellings that programs read differently are refused and not interpreted.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias
from urllib.parse import parse_qsl

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

LONGEST_URL = 1024  # characters, as the CRD has it
LONGEST_HOST = 253
MOST_PARAMETERS = 64
ADDRESSES_MAX = 16  # behind one name; more is no power switch
_USUAL_PORTS = {"http": 80, "https": 443}

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER = re.compile(r"([0-9]+|0x[0-9a-f]*)\Z")  # of a last label: the WHATWG URL standard reads the host as IPv4 then
_OCTETS = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}\Z")
_PORT = re.compile(r"[0-9]{1,5}\Z")

# Names that never mean a machine of the administrator's, independent of what they resolve to.
_OWN = ("localhost", "localhost.localdomain", "localhost6", "ip6-localhost", "ip6-loopback", "broadcasthost")
_METADATA = ("metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal")
_API_SERVER = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")

_NEVER: tuple[tuple[str, tuple[str, ...]], ...] = (
    # RFC 1122 3.2.1.3, RFC 4291 2.5.2: Linux connects to its own host for these.
    ("the operator's own host", ("0.0.0.0/8", "127.0.0.0/8", "::/128", "::1/128")),
    # RFC 3927, RFC 4291 2.5.6; most metadata services, node-local DNS caches and pod identity agents are there.
    ("link-local", ("169.254.0.0/16", "fe80::/10")),
    # Elsewhere: Azure's wire server, Alibaba, Oracle's first one, AWS, Google, Scaleway, Oracle by IPv6.
    (
        "a metadata service",
        (
            "168.63.129.16/32",
            "100.100.100.200/32",
            "192.0.0.192/32",
            "fd00:ec2::/32",
            "fd20:ce::254/128",
            "fd00:42::42/128",
            "fd00:c1::a9fe:a9fe/128",
        ),
    ),
    # Tailscale's own services on every machine of a tailnet: DNS, and a web interface.
    ("a service on every machine of a tailnet", ("100.100.100.100/32", "fd7a:115c:a1e0::53/128")),
    # RFC 5771, RFC 4291 2.7; RFC 1112 4, which holds the broadcast address.
    ("a multicast or broadcast address", ("224.0.0.0/4", "240.0.0.0/4", "ff00::/8")),
)
NEVER: tuple[tuple[str, tuple[Network, ...]], ...] = tuple(
    (why, tuple(ip_network(network) for network in networks)) for why, networks in _NEVER
)
_LOOPBACK = tuple(ip_network(network) for network in ("127.0.0.0/8", "::1/128"))

# Ports on which something else than a power switch listens: the "bad ports" of the WHATWG Fetch standard, which no
# browser calls, and those of a cluster's own parts (etcd, API server, kubelet, controllers, Talos).
# fmt: off
_OTHER_PROTOCOLS = frozenset((
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
    540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
    6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
))
# fmt: on
_CLUSTER_PORTS = frozenset((2379, 2380, 6443, 10248, 10249, 10250, 10255, 10256, 10257, 10259, 50000, 50001))


class HostRefused(ValueError):
    """The host must not be called. The message says why; it quotes the host, never a path or a query."""


@dataclass(frozen=True, slots=True)
class HostRules:
    """The operator's settings for hosts. The defaults are the strict ones."""

    allowed: tuple[str, ...] = ()
    """Narrows: host names, `*.domain` for every name below it, addresses, networks. Empty: any host."""
    api_server: tuple[Address, ...] = ()  # never called, under any name
    for_pretence: bool = False
    """Loopback is for tests and the embedded simulation. No setting reaches this."""

    def __post_init__(self) -> None:
        for pattern in self.allowed:
            _check_pattern(pattern)


STRICT = HostRules()


@dataclass(frozen=True, slots=True)
class PowerTarget:
    """A URL that may be called, once the addresses of its host are checked."""

    origin: str  # scheme, host, port: what is connected to
    host: str  # lower case, without brackets and without a full stop at its end
    path: str
    query: tuple[tuple[str, str], ...]
    literal: Address | None  # None: the host is a name

    def __repr__(self) -> str:
        return f"Target({self.origin})"  # a query may hold a token


def read(url: str, rules: HostRules = STRICT) -> PowerTarget:
    """The target of a URL. Raises HostRefused for anything but one http or https target that may be called."""
    _refuse_odd_characters(url)
    scheme, host, port, path, query = _parts(url)
    literal = _literal(host)
    _refuse_port(port)
    if literal is None:
        _refuse_name(host, rules)
        _refuse_unlisted_name(host, rules)
    else:
        judge((literal,), host, rules)
    shown = f"[{literal.compressed}]" if isinstance(literal, IPv6Address) else host
    place = shown if port == _USUAL_PORTS[scheme] else f"{shown}:{port}"
    return PowerTarget(f"{scheme}://{place}", host, path, query, literal)


def judge(addresses: Iterable[Address], host: str, rules: HostRules = STRICT) -> tuple[Address, ...]:
    """The addresses, if *every* one may be called: a name with one bad address is a bad name."""
    found = tuple(addresses)
    if not 1 <= len(found) <= ADDRESSES_MAX:
        raise HostRefused(f"{host} has {len(found)} addresses; 1 to {ADDRESSES_MAX} are allowed")
    for address in found:
        _refuse_address(address, host, rules)
    _refuse_unlisted_addresses(found, host, rules)
    return found


def embedded(address: Address) -> Iterator[IPv4Address]:
    """Every IPv4 address that an IPv6 address may be translated to on its way."""
    if isinstance(address, IPv4Address):
        return
    value = int(address)
    last = IPv4Address(value & 0xFFFFFFFF)
    if value >> 32 in (0, 0xFFFF, 0xFFFF0000):  # compatible (RFC 4291 2.5.5), mapped, translated (RFC 2765)
        yield last
    if value >> 32 == 0x0064FF9B << 64:  # NAT64 by the well-known prefix (RFC 6052)
        yield last
    if value >> 80 == 0x0064FF9B0001:  # NAT64 by a prefix of one's own below 64:ff9b:1::/48 (RFC 8215)
        yield last
        yield from _rfc6052(value)
    if value >> 112 == 0x2002:  # 6to4 (RFC 3056)
        yield IPv4Address(value >> 80 & 0xFFFFFFFF)
    if value >> 96 == 0x20010000:  # Teredo (RFC 4380): the server, and the client with its bits inverted
        yield IPv4Address(value >> 64 & 0xFFFFFFFF)
        yield IPv4Address(~value & 0xFFFFFFFF)
    if value >> 32 & 0xFCFFFFFF == 0x00005EFE:  # ISATAP (RFC 5214)
        yield last


def _rfc6052(value: int) -> Iterator[IPv4Address]:
    """The places of an IPv4 address behind prefixes of 48, 56 and 64 bits; bits 64 to 71 are always left out.

    The length of the prefix is unknown. A result of 0.x.x.x belongs to another length, and is dropped.
    """
    squeezed = value >> 64 << 56 | value & (1 << 56) - 1  # 120 bits, without that octet
    for length in (48, 56, 64):
        found = IPv4Address(squeezed >> 88 - length & 0xFFFFFFFF)
        if int(found) >> 24:
            yield found


def _refuse_odd_characters(url: str) -> None:
    if not url or len(url) > LONGEST_URL:
        raise HostRefused(f"a URL has 1 to {LONGEST_URL} characters")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise HostRefused("a URL is printable ASCII without spaces: write other letters in a host name as xn--…")
    if "\\" in url:
        raise HostRefused("a URL must not contain a backslash: programs read it differently")


def _parts(url: str) -> tuple[str, str, int, str, tuple[tuple[str, str], ...]]:
    scheme, colon, rest = url.partition("://")
    if not colon or scheme.lower() not in _USUAL_PORTS:
        raise HostRefused("a URL begins with http:// or https://")
    scheme = scheme.lower()
    if "#" in rest:
        raise HostRefused("a fragment is never sent: leave out what follows the #")
    before_query, _, query_text = rest.partition("?")
    authority, slash, path = before_query.partition("/")
    if "@" in authority:
        raise HostRefused("a user name or password in a URL ends up in logs: put it into headersSecretRef")
    host, port = _host_and_port(authority, scheme)
    path = slash + path or "/"
    if re.search(r"%(?![0-9A-Fa-f]{2})", path):
        raise HostRefused(f"the path on {host} has a % without two hexadecimal digits after it")
    try:
        query = tuple(parse_qsl(query_text, keep_blank_values=True, max_num_fields=MOST_PARAMETERS))
    except ValueError:
        raise HostRefused(f"the query has more than {MOST_PARAMETERS} parameters") from None
    return scheme, host, port, path, query


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    match = re.match(r"(\[[^\]]*\]|[^:\[\]]*)(:.*)?\Z", authority)
    if match is None:
        raise HostRefused("the host cannot be parsed")
    host, port = match[1].lower(), match[2] or ""
    if not host.startswith("["):
        host = host.removesuffix(".")  # only says that the name is complete
    if port and not _PORT.match(port[1:]):
        raise HostRefused("the port is not a number")
    number = int(port[1:]) if port else _USUAL_PORTS[scheme]
    if not 0 < number <= 65535:
        raise HostRefused(f"port {number} does not exist")
    return host, number


def _literal(host: str) -> Address | None:
    """The address a host is; None: it is a name. What is neither, or both, is refused."""
    if host.startswith("["):
        try:
            # a zone names a network interface of the operator's host
            return IPv6Address(host[1:-1] if "%" not in host else "")
        except ValueError:
            raise HostRefused("the text in brackets is not an IPv6 address") from None
    if _NUMBER.match(host.rpartition(".")[2]):
        if not _OCTETS.match(host):
            raise HostRefused(f"{host} is a number to some programs: write an address as four decimal numbers")
        try:
            return IPv4Address(host)
        except ValueError:
            raise HostRefused(f"{host} is not an address") from None
    labels = host.split(".")
    if not host or len(host) > LONGEST_HOST or not all(_LABEL.match(label) for label in labels):
        raise HostRefused("the host is neither a name nor an address")
    return None


def _refuse_port(port: int) -> None:
    if port in _OTHER_PROTOCOLS:
        raise HostRefused(f"port {port} belongs to another protocol")
    if port in _CLUSTER_PORTS:
        raise HostRefused(f"on port {port} a part of the cluster listens, not a power switch")


def _refuse_name(host: str, rules: HostRules) -> None:
    if (host in _OWN or host.endswith((".localhost", ".localhost.localdomain"))) and not rules.for_pretence:
        raise HostRefused(f"{host} is the operator's own host")
    if host in _METADATA:
        raise HostRefused(f"{host} is a metadata service")
    if host in _API_SERVER or host.startswith("kubernetes.default.svc."):
        raise HostRefused(f"{host} is the Kubernetes API server")


def _refuse_address(address: Address, host: str, rules: HostRules) -> None:
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise HostRefused(f"{host} is at {address}, which names a network interface of the operator's host")
    if rules.for_pretence and any(address in network for network in _LOOPBACK):
        return  # before looking inside: ::1 is also the compatible form of 0.0.0.1
    meant = (address, *embedded(address))
    for one in meant:
        why = _never(one, rules)
        if why:
            inside = "" if one is address else f", which contains {one}"
            shown = host if host.strip("[]") == str(address) else f"{host} is at {address}"
            raise HostRefused(f"{shown}{inside}: {why}")


def _never(address: Address, rules: HostRules) -> str:
    """Why this address is never called; empty: it may be."""
    if rules.for_pretence and any(address in network for network in _LOOPBACK):
        return ""
    if any(address in (served, *embedded(served)) for served in rules.api_server):
        return "the Kubernetes API server"
    for why, networks in NEVER:
        if any(address in network for network in networks):
            return why
    return ""


# -- what the administrator narrows ------------------------------------------------------------------------------------


def _check_pattern(pattern: str) -> None:
    if _network(pattern) is not None:
        return
    labels = pattern.removeprefix("*.").split(".")
    if not pattern or len(pattern) > LONGEST_HOST or not all(_LABEL.match(label) for label in labels):
        raise ValueError(
            f"{pattern!r:.80} is not a host pattern: use a name such as power-api.lab, *.lab for every name below it, "
            "an address, or a network such as 10.0.0.0/8, in lower case"
        )


def _network(pattern: str) -> Network | None:
    try:
        return ip_network(pattern)
    except ValueError:
        return None


def _refuse_unlisted_name(host: str, rules: HostRules) -> None:
    """A name that no pattern matches may still have addresses that one allows: the addresses decide."""
    if rules.allowed and not _name_allowed(host, rules) and not any(map(_network, rules.allowed)):
        raise HostRefused(f"{host} is not among power.allowedHosts")


def _refuse_unlisted_addresses(addresses: tuple[Address, ...], host: str, rules: HostRules) -> None:
    if not rules.allowed or _name_allowed(host, rules):
        return
    networks = [network for network in map(_network, rules.allowed) if network is not None]
    if not all(any(address in network for network in networks) for address in addresses):
        raise HostRefused(f"{host} is not among power.allowedHosts")


def _name_allowed(host: str, rules: HostRules) -> bool:
    return any(
        host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern
        for pattern in rules.allowed
        if _network(pattern) is None
    )
