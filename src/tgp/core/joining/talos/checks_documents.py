"""Documents with a kind of their own, as Talos validates them, and their conflicts with the classic document."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import SplitResult, urlsplit

from tgp.core.joining.talos import expressions
from tgp.core.joining.talos.checks_loader import duration
from tgp.core.joining.talos.checks_network import has_port, is_address
from tgp.core.joining.talos.checks_storage import check_expression
from tgp.core.joining.talos.document_view import Config, ConfigDocument, as_text
from tgp.core.joining.talos.stream import Path
from tgp.core.model.machine_config import ConfigFinding

LEAST_WATCHDOG_S = 10

_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def check_extension_services(config: Config) -> Iterator[ConfigFinding]:
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


def check_hostname(config: Config) -> Iterator[ConfigFinding]:
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
            yield page.error(("auto",), "and hostname are both set: keep the hostname")
        if name:
            yield from _hostname(page, name, ("hostname",))
            if old:
                yield page.error(("hostname",), "and machine.network.hostname are both set: keep this one")
        if classic is not None and classic.truth("machine", "features", "stableHostname"):
            yield page.error((), "and machine.features.stableHostname are both set: keep this one")


def _hostname(page: ConfigDocument, name: str, path: tuple[str | int, ...]) -> Iterator[ConfigFinding]:
    first = name.partition(".")[0]
    if len(name) > 253 or not 0 < len(first) <= 63:
        yield page.error(
            path, "is not a host name: the first part must have 1 to 63 characters, the whole name at most 253"
        )


def check_addresses(config: Config) -> Iterator[ConfigFinding]:
    """Documents with little more than a URL."""
    for page in config.of_kind("SideroLinkConfig"):
        url = _url(page.text("apiUrl"))
        if url.scheme not in {"https", "grpc"} or url.path not in {"", "/"}:
            yield page.error(("apiUrl",), "must be https:// or grpc://, without a path")
    for page in config.of_kind("KmsgLogConfig"):
        url = _url(page.text("url"))
        if not page.name:
            yield page.error(("name",), "is missing")
        if (
            url.scheme not in {"tcp", "udp"}
            or url.path not in {"", "/"}
            or not url.netloc.rpartition("]")[2].partition(":")[2]
        ):
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
        if not is_address(page.name):
            yield page.error(("name",), "must be the IP address")
        if not any(as_text(name) for name in page.items("hostnames")):
            yield page.error(("hostnames",), "is missing: the names of that address")


def _registry_auth(page: ConfigDocument) -> Iterator[ConfigFinding]:
    if not page.name:
        yield page.error(("name",), "is missing: the registry, such as docker.io")
    named = bool(page.text("username") or page.text("password"))
    if named + bool(page.text("auth")) + bool(page.text("identityToken")) > 1:
        yield page.error((), "must have one of auth, identityToken, or username and password")


def _registry_tls(page: ConfigDocument) -> Iterator[ConfigFinding]:
    if not page.name:
        yield page.error(("name",), "is missing: the registry, such as docker.io")
    identity = page.at("clientIdentity") is not None
    for path, wanted, readable in (
        (("ca",), bool(page.text("ca")), _is_certificate),
        (("clientIdentity", "cert"), identity, _is_certificate),
        (("clientIdentity", "key"), identity, _is_private_key),
    ):
        if wanted and not readable(page.text(*path)):
            yield page.error(path, "must be PEM, and of the right kind")


def _is_certificate(text: str) -> bool:
    from cryptography import x509

    try:
        return bool(x509.load_pem_x509_certificates(text.encode()))
    except ValueError:
        return False


def _is_private_key(text: str) -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        serialization.load_pem_private_key(text.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def check_rules(config: Config) -> Iterator[ConfigFinding]:
    for page in config.of_kind("NetworkRuleConfig"):
        if not page.name:
            yield page.error(("name",), "is missing")
        ports = page.items("portSelector", "ports")
        if not ports:
            yield page.error(("portSelector", "ports"), "is missing")
        ranges = [_port_range(port) for port in ports]
        for index, found in enumerate(ranges):
            if found is None or found[0] > found[1]:
                yield page.error(("portSelector", "ports", index), "must be a port, or a range such as 80-90")
        listed = sorted(found for found in ranges if found is not None)
        if any(later[0] <= former[1] for former, later in pairwise(listed)):
            yield page.error(("portSelector", "ports"), "must not overlap")
        for index in range(len(page.items("ingress"))):
            if not page.text("ingress", index, "subnet"):
                yield page.error(("ingress", index, "subnet"), "is missing")


def check_runtime(config: Config) -> Iterator[ConfigFinding]:
    for page in config.of_kind("WatchdogTimerConfig"):
        if not page.text("device"):
            yield page.error(("device",), "is missing: such as /dev/watchdog0")
        timeout = duration(page.text("timeout"))
        if timeout is not None and timeout != 0 and timeout < LEAST_WATCHDOG_S:
            yield page.error(("timeout",), f"must be at least {LEAST_WATCHDOG_S}s")
    for page in config.of_kind("OOMConfig"):
        yield from check_expression(config, page, ("triggerExpression",), expressions.oom_trigger, needed=False)
        yield from check_expression(config, page, ("cgroupRankingExpression",), expressions.oom_ranking, needed=False)
        if page.text("sampleInterval").startswith("-"):
            yield page.error(("sampleInterval",), "cannot be negative")
    for page in config.of_kind("PCIDriverRebindConfig"):
        yield page.unchecked((), "depends on the machine: Talos refuses it without an IOMMU")
    for page in config.of_kind("EnvironmentConfig"):
        for name in page.section("variables"):
            if not _ENVIRONMENT_NAME.match(name):
                yield page.error(("variables", name), "is not a name of an environment variable")


def check_images(config: Config) -> Iterator[ConfigFinding]:
    for page in config.of_kind("ImageCacheConfig"):
        classic = config.classic
        if classic is not None and classic.at("machine", "features", "imageCache") is not None:
            yield page.error((), "and machine.features.imageCache are both set: keep this one")
    for page in config.of_kind("ImageVerificationConfig"):
        for index in range(len(page.items("rules"))):
            yield from _verification(page, ("rules", index))


def _verification(page: ConfigDocument, path: Path) -> Iterator[ConfigFinding]:
    if not page.text(*path, "image"):
        yield page.error((*path, "image"), "is missing: which images, such as docker.io/library/*")
    said = [key for key in ("skip", "deny") if page.truth(*path, key)]
    said += [key for key in ("keyless", "publicKey") if page.at(*path, key) is not None]
    if len(said) != 1:
        yield page.error(path, "must have one of skip, deny, keyless and publicKey")
    if "keyless" in said:
        if not page.text(*path, "keyless", "issuer"):
            yield page.error((*path, "keyless", "issuer"), "is missing")
        if not page.text(*path, "keyless", "subject") and not page.text(*path, "keyless", "subjectRegex"):
            yield page.error((*path, "keyless", "subject"), "is missing: set subject or subjectRegex")
    if "publicKey" in said and not page.text(*path, "publicKey", "certificate"):
        yield page.error((*path, "publicKey", "certificate"), "is missing")


def check_discovery_service(config: Config) -> Iterator[ConfigFinding]:
    classic = config.classic
    for page in config.of_kind("DiscoveryServiceConfig"):
        if not page.name:
            yield page.error(("name",), "is missing")
        url = _url(page.text("endpoint"))
        if url.scheme not in {"http", "https", "grpc"} or not url.netloc or url.path not in {"", "/"}:
            yield page.error(("endpoint",), "must be https://host, without a path")
        if classic is not None and classic.truth("cluster", "discovery", "enabled"):
            yield page.error((), "and cluster.discovery are both set: keep one")


def check_parameters(config: Config) -> Iterator[ConfigFinding]:
    for kind in ("SysctlConfig", "SysfsConfig"):
        for page in config.of_kind(kind):
            if "" in page.section("params"):
                yield page.error(("params",), "has a parameter without a name")


def check_resolvers(config: Config) -> Iterator[ConfigFinding]:
    """A setting with a document of its own must not be in the classic document too."""
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
            yield page.error(("hostDNS",), "and machine.features.hostDNS are both set: keep one")
    for page in config.of_kind("ResolverConfig"):
        for new, old in (("nameservers", "nameservers"), ("searchDomains", "searchDomains")):
            if page.at(new) and classic.items("machine", "network", old):
                yield page.error((new,), f"and machine.network.{old} are both set: keep this one")
    for page in config.of_kind("TimeSyncConfig"):
        if page.items("ntp", "servers") and classic.items("machine", "time", "servers"):
            yield page.error(("ntp", "servers"), "and machine.time.servers are both set: keep this one")


def _url(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError:
        return urlsplit("")


def _port_range(port: Any) -> tuple[int, int] | None:
    """A number is one port; a string is a range with a hyphen. None: neither."""
    text = as_text(port)
    first, dash, last = text.partition("-") if isinstance(port, str) else (text, "-", text)
    if not dash or not all(each.isascii() and each.isdecimal() and int(each) < 65536 for each in (first, last)):
        return None
    return int(first), int(last)
