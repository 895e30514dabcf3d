"""Documents of their own kinds, as Talos validates them, and where they contradict the classic one."""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from tgp.core.model.machine_config import Finding
from tgp.core.rules.talos.checks_network import has_port
from tgp.core.rules.talos.pages import Config, Page, as_text

_VOLUMES = ("STATE", "EPHEMERAL", "IMAGECACHE")
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_VOLUME_NAME = re.compile(r"[A-Za-z0-9-]{1,34}\Z")


def check_extension_services(config: Config) -> Iterator[Finding]:
    for page in config.of_kind("ExtensionServiceConfig"):
        if not page.name:
            yield page.error(("name",), "is missing: the extension's name, such as tailscale")
        if not page.items("environment") and not page.items("configFiles"):
            yield page.error((), "must have an environment, configFiles, or both")
        for index, line in enumerate(page.items("environment")):
            name, equals, _ = as_text(line).partition("=")
            if not equals or not _ENVIRONMENT_NAME.match(name):
                yield page.error(("environment", index), "must be NAME=value")
        for index in range(len(page.items("configFiles"))):
            for key in ("content", "mountPath"):
                if not page.text("configFiles", index, key):
                    yield page.error(("configFiles", index, key), "is missing")


def check_hostname(config: Config) -> Iterator[Finding]:
    classic = config.classic
    old = classic.text("machine", "network", "hostname") if classic is not None else ""
    if classic is not None and old:
        yield from _hostname(classic, old, ("machine", "network", "hostname"))
    for page in config.of_kind("HostnameConfig"):
        name, auto = page.text("hostname"), page.text("auto")
        if not name and not auto:
            yield page.error((), "must have a hostname, or auto: stable or off")
        if auto == "talos-addr":
            yield page.error(("auto",), "must be stable or off")
        if name and auto and auto != "off":
            yield page.error(("auto",), "and hostname contradict each other: keep the hostname")
        if name:
            yield from _hostname(page, name, ("hostname",))
            if old:
                yield page.error(("hostname",), "and machine.network.hostname are both there: keep this one")
        if classic is not None and classic.truth("machine", "features", "stableHostname"):
            yield page.error((), "and machine.features.stableHostname are both there: keep this one")


def _hostname(page: Page, name: str, path: tuple[str | int, ...]) -> Iterator[Finding]:
    first = name.partition(".")[0]
    if len(name) > 253 or not 0 < len(first) <= 63:
        yield page.error(path, "is no host name: the first part has 1 to 63 characters, all of it at most 253")


def check_addresses(config: Config) -> Iterator[Finding]:
    """Documents that are little more than a URL."""
    for page in config.of_kind("SideroLinkConfig"):
        url = _url(page.text("apiUrl"))
        if url.scheme not in {"https", "grpc"} or url.path not in {"", "/"}:
            yield page.error(("apiUrl",), "must be https:// or grpc://, without a path")
    for page in config.of_kind("KmsgLogConfig"):
        url = _url(page.text("url"))
        if not page.name:
            yield page.error(("name",), "is missing")
        if url.scheme not in {"tcp", "udp"} or url.path not in {"", "/"} or ":" not in url.netloc:
            yield page.error(("url",), "must be tcp://host:port or udp://host:port")
    for page in config.of_kind("EventSinkConfig"):
        if not has_port(page.text("endpoint")):
            yield page.error(("endpoint",), "must be host:port")
    for page in config.of_kind("RegistryMirrorConfig"):
        if not page.name:
            yield page.error(("name",), "is missing: the registry, such as docker.io, or *")
        for index in range(len(page.items("endpoints"))):
            if _url(page.text("endpoints", index, "url")).scheme not in {"http", "https"}:
                yield page.error(("endpoints", index, "url"), "must begin with http:// or https://")
    for page in config.of_kind("RegistryAuthConfig"):
        yield from _registry_auth(page)
    for page in config.of_kind("RegistryTLSConfig"):
        yield from _registry_tls(page)
    for page in config.of_kind("StaticHostConfig"):
        if not _is_address(page.name):
            yield page.error(("name",), "must be the IP address")
        if not any(as_text(name) for name in page.items("hostnames")):
            yield page.error(("hostnames",), "is missing: the names of that address")


def _registry_auth(page: Page) -> Iterator[Finding]:
    if not page.name:
        yield page.error(("name",), "is missing: the registry, such as docker.io")
    named = bool(page.text("username") or page.text("password"))
    if named + bool(page.text("auth")) + bool(page.text("identityToken")) > 1:
        yield page.error((), "must have one of auth, identityToken, or username and password")


def _registry_tls(page: Page) -> Iterator[Finding]:
    if not page.name:
        yield page.error(("name",), "is missing: the registry, such as docker.io")
    for path in (("ca",), ("clientIdentity", "cert"), ("clientIdentity", "key")):
        text = page.text(*path)
        if (text or (path[0] == "clientIdentity" and page.has("clientIdentity"))) and "-----BEGIN " not in text:
            yield page.error(path, "must be PEM")


def check_rules(config: Config) -> Iterator[Finding]:
    for page in config.of_kind("NetworkRuleConfig"):
        if not page.name:
            yield page.error(("name",), "is missing")
        ports = page.items("portSelector", "ports")
        if not ports:
            yield page.error(("portSelector", "ports"), "is missing")
        for index, port in enumerate(ports):
            if not _is_port_range(as_text(port)):
                yield page.error(("portSelector", "ports", index), "must be a port, or two with a - between them")
        for index in range(len(page.items("ingress"))):
            if not page.text("ingress", index, "subnet"):
                yield page.error(("ingress", index, "subnet"), "is missing")


def check_runtime(config: Config) -> Iterator[Finding]:
    for page in config.of_kind("WatchdogTimerConfig"):
        if not page.text("device"):
            yield page.error(("device",), "is missing: such as /dev/watchdog0")
        timeout = page.text("timeout")
        if timeout.startswith("-") or _seconds(timeout) in range(1, 10):
            yield page.error(("timeout",), "must be at least 10s")
    for page in config.of_kind("EnvironmentConfig"):
        for name in page.section("variables"):
            if not _ENVIRONMENT_NAME.match(name):
                yield page.error(("variables", name), "is no name of an environment variable")


def check_volumes(config: Config) -> Iterator[Finding]:
    for kind in ("VolumeConfig", "UserVolumeConfig"):
        for page in config.of_kind(kind):
            if any(value not in (None, "", 0, [], {}) for value in page.section("encryption").values()):
                yield from _encryption(page)
    for page in config.of_kind("VolumeConfig"):
        if page.name not in _VOLUMES:
            yield page.error(("name",), f"must be one of {', '.join(_VOLUMES)}")
        if page.name == "STATE" and page.section("provisioning"):
            yield page.error(("provisioning",), "cannot be said of the STATE volume")
    for page in config.of_kind("UserVolumeConfig"):
        if not _VOLUME_NAME.match(page.name):
            yield page.error(("name",), "must be 1 to 34 letters, digits and hyphens")
        kind = page.text("volumeType") or "partition"
        provisioning = page.section("provisioning")
        if kind not in {"partition", "disk", "directory"}:
            yield page.error(("volumeType",), "must be partition, disk or directory")
        elif kind == "directory" and (provisioning or page.section("encryption") or page.section("filesystem")):
            yield page.error(("volumeType",), "directory goes with no provisioning, encryption or filesystem")
        elif kind != "directory" and not page.text("provisioning", "diskSelector", "match"):
            yield page.error(("provisioning", "diskSelector", "match"), "is missing: which disk")
        elif kind == "partition" and not (page.text("provisioning", "minSize") or page.text("provisioning", "maxSize")):
            yield page.error(("provisioning",), "must have a minSize, a maxSize, or both")
        if page.text("filesystem", "type") not in {"", "xfs", "ext4"}:
            yield page.error(("filesystem", "type"), "must be xfs or ext4")


def check_discovery_service(config: Config) -> Iterator[Finding]:
    classic = config.classic
    for page in config.of_kind("DiscoveryServiceConfig"):
        if not page.name:
            yield page.error(("name",), "is missing")
        url = _url(page.text("endpoint"))
        if url.scheme not in {"http", "https", "grpc"} or not url.netloc or url.path not in {"", "/"}:
            yield page.error(("endpoint",), "must be https://host, without a path")
        if classic is not None and classic.truth("cluster", "discovery", "enabled"):
            yield page.error((), "and cluster.discovery are both there: keep one")


def check_parameters(config: Config) -> Iterator[Finding]:
    for kind in ("SysctlConfig", "SysfsConfig"):
        for page in config.of_kind(kind):
            if "" in page.section("params"):
                yield page.error(("params",), "holds a parameter without a name")


def _encryption(page: Page) -> Iterator[Finding]:
    if page.text("encryption", "provider") != "luks2":
        yield page.error(("encryption", "provider"), "must be luks2")
    if not page.items("encryption", "keys"):
        yield page.error(("encryption", "keys"), "is missing: what it is encrypted with")


def check_resolvers(config: Config) -> Iterator[Finding]:
    """What stands in a document of its own must not stand in the classic one too."""
    for page in config.of_kind("TimeSyncConfig"):
        if page.has("ntp") and page.has("ptp"):
            yield page.error((), "must have ntp or ptp, not both")
        if page.text("bootTimeout").startswith("-"):
            yield page.error(("bootTimeout",), "cannot be negative")
    for page in config.of_kind("ResolverConfig"):
        for key in ("forwardKubeDNSToHost", "resolveMemberNames"):
            if page.truth("hostDNS", key) and not page.truth("hostDNS", "enabled"):
                yield page.error(("hostDNS", "enabled"), f"must be true where {key} is")
    classic = config.classic
    if classic is None:
        return
    for page in config.of_kind("ResolverConfig"):
        if page.at("hostDNS") is not None and classic.at("machine", "features", "hostDNS") is not None:
            yield page.error(("hostDNS",), "and machine.features.hostDNS are both there: keep one")
    for page in config.of_kind("ResolverConfig"):
        for new, old in (("nameservers", "nameservers"), ("searchDomains", "searchDomains")):
            if page.at(new) and classic.items("machine", "network", old):
                yield page.error((new,), f"and machine.network.{old} are both there: keep this one")
    for page in config.of_kind("TimeSyncConfig"):
        if page.items("ntp", "servers") and classic.items("machine", "time", "servers"):
            yield page.error(("ntp", "servers"), "and machine.time.servers are both there: keep this one")


def _url(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError:
        return urlsplit("")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_port_range(text: str) -> bool:
    first, dash, last = text.partition("-")
    bounds = [first, last] if dash else [first]
    numbers = [int(bound) for bound in bounds if bound.isdecimal() and int(bound) < 65536]
    return len(numbers) == len(bounds) and numbers == sorted(numbers)


def _seconds(text: str) -> int:
    """Of a length of time in seconds alone; anything else is taken for long enough."""
    found = re.match(r"(\d+)(?:\.\d+)?s\Z", text)
    return int(found[1]) if found else 3600
