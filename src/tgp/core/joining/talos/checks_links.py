"""Network documents with a kind of their own, as Talos validates them: links, routes, rules, probes, DHCP."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from tgp.core.joining.talos import expressions
from tgp.core.joining.talos.checks_network import is_address, is_network
from tgp.core.joining.talos.checks_storage import check_expression
from tgp.core.joining.talos.document_view import Config, ConfigDocument, as_text
from tgp.core.model.machine_config import ConfigFinding

PATTERNS_SINCE = 13  # of 1.x: names of aliases with a number in them
_LACP = "802.3ad"
_LACP_NEEDS = ("miimon", "updelay", "downdelay")  # Talos warns without
_OWN_PRIORITIES = frozenset((0, 32500, 32766, 32767))  # of Linux itself, and of KubeSpan
_OWN_TABLES = frozenset(("", "unspec", "local", "main", "default"))


def check_bonds(config: Config) -> Iterator[ConfigFinding]:
    for page in config.of_kind("BondConfig"):
        if not page.items("links"):
            yield page.error(("links",), "is missing: the links that are bonded")
        mode = page.text("bondMode").lower()
        if not mode:
            yield page.error(("bondMode",), "is missing")
        for key in _LACP_NEEDS if mode == _LACP else ():
            if page.at(key) is None:
                yield page.warning((key,), f"is missing, and is recommended with bondMode {_LACP}")


def check_vlans(config: Config) -> Iterator[ConfigFinding]:
    for page in config.of_kind("VLANConfig"):
        number = page.at("vlanID")
        typed = isinstance(number, int | float) and 0 <= number < 1 << 16  # else its type is the error
        if number is None or (typed and not 1 <= int(number) <= 4094):
            yield page.error(("vlanID",), "must be 1 to 4094")
        if not page.text("parent"):
            yield page.error(("parent",), "is missing: the link that carries it")
    for page in config.of_kind("VRFConfig"):
        if page.text("table").lower() in _OWN_TABLES:
            yield page.error(("table",), "must be a number from 1 to 252")


def check_named(config: Config) -> Iterator[ConfigFinding]:
    """Documents of which little more than the name is checked."""
    for kind in ("EthernetConfig", "DHCPv4Config", "DHCPv6Config", "TCPProbeConfig", "HTTPProbeConfig"):
        for page in config.of_kind(kind):
            if not page.name:
                yield page.error(("name",), "is missing")
    for kind in ("DHCPv4Config", "DHCPv6Config"):
        for page in config.of_kind(kind):
            by_duid = page.text("clientIdentifier").lower() == "duid"
            if by_duid != bool(page.text("duidRaw").replace(":", "")):
                yield page.error(("duidRaw",), "and clientIdentifier: duid require each other")
    for page in config.of_kind("BlackholeRouteConfig"):
        if not is_network(page.name):
            yield page.error(("name",), "must be the network, such as 10.0.0.0/8")


def check_aliases(config: Config) -> Iterator[ConfigFinding]:
    for page in config.of_kind("LinkAliasConfig"):
        if not page.name:
            yield page.error(("name",), "is missing: the alias")
        before, percent, after = page.name.partition("%")
        if percent and config.version.minor >= PATTERNS_SINCE and (not before or after != "d"):
            yield page.error(("name",), "must end in %d if it has a %, with a prefix before it")
        yield from check_expression(config, page, ("selector", "match"), expressions.link)


def check_routing_rules(config: Config) -> Iterator[ConfigFinding]:
    for page in config.of_kind("RoutingRuleConfig"):
        if not page.name.isascii() or not page.name.isdecimal() or int(page.name) >= 2**32:
            yield page.error(("name",), "must be the priority of the rule: a number of 0 or more")
        elif int(page.name) in _OWN_PRIORITIES:
            yield page.error(("name",), f"is a reserved priority: {', '.join(map(str, sorted(_OWN_PRIORITIES)))}")
        if page.text("table").lower() in {"", "unspec"} and page.text("action").lower() in {"", "unspec", "unicast"}:
            yield page.error(("table",), "is missing: this action needs a routing table")
        if _positive(page, "fwMask") and not _positive(page, "fwMark"):
            yield page.error(("fwMark",), "is missing: fwMask needs it")


def check_probes(config: Config) -> Iterator[ConfigFinding]:
    for kind in ("TCPProbeConfig", "HTTPProbeConfig"):
        for page in config.of_kind(kind):
            for key in ("interval", "timeout"):
                if page.text(key).startswith("-"):
                    yield page.error((key,), "cannot be negative")
            failures = page.at("failureThreshold")
            if isinstance(failures, int | float) and int(failures) < 0:
                yield page.error(("failureThreshold",), "cannot be negative")
    for page in config.of_kind("TCPProbeConfig"):
        if not page.text("endpoint"):
            yield page.error(("endpoint",), "is missing: host:port")
    for page in config.of_kind("HTTPProbeConfig"):
        try:
            url = urlsplit(page.text("url"))
            right = url.scheme in {"http", "https"} and bool(url.hostname)
        except ValueError:
            right = False
        if not right:
            yield page.error(("url",), "must be http://host or https://host")


def check_name_servers(config: Config) -> Iterator[ConfigFinding]:
    if config.version.minor < 14:  # earlier ones take a list of addresses as it is
        return
    for page in config.of_kind("ResolverConfig"):
        encrypted = [index for index in range(len(page.items("nameservers"))) if _encrypted(page, index)]
        for index in range(len(page.items("nameservers"))):
            named = bool(page.text("nameservers", index, "tlsServerName"))
            if named != (index in encrypted):
                yield page.error(
                    ("nameservers", index, "tlsServerName"), "is required with DoT and DoH, and valid only with them"
                )
            if not page.text("nameservers", index, "address"):
                yield page.error(("nameservers", index, "address"), "is missing")
        if encrypted and len(encrypted) == len(page.items("nameservers")):
            yield page.warning(("nameservers",), "are all encrypted: DNS may fail until the clock is set")
    for page in config.of_kind("TimeSyncConfig"):
        for index, server in enumerate(page.items("ntp", "servers") if page.truth("ntp", "useNTS") else ()):
            if is_address(as_text(server)):
                yield page.error(("ntp", "servers", index), "must be a name where useNTS is true, not an address")


def check_cluster_network(config: Config) -> Iterator[ConfigFinding]:
    """The classic document has a section for the same, and rendered configs always have it."""
    classic = config.classic
    for page in config.of_kind("KubeNetworkConfig"):
        if classic is not None and classic.at("cluster", "network") is not None:
            yield page.error((), "and cluster.network are both set: keep cluster.network")
        else:
            yield page.unchecked((), "replaces cluster.network and is not checked")


def _encrypted(page: ConfigDocument, index: int) -> bool:
    return page.text("nameservers", index, "protocol").lower() in {"dot", "doh"}


def _positive(page: ConfigDocument, key: str) -> bool:
    value = page.at(key)
    return isinstance(value, int | float) and value > 0
