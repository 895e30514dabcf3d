"""What a worker needs to join its cluster, and what must stay on control planes: types, tokens, certificates,
the endpoint.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from ipaddress import ip_network
from urllib.parse import urlsplit

from tgp.core.joining.talos.document_view import Config, ConfigDocument, as_text, as_truth
from tgp.core.joining.talos.stream import Path
from tgp.core.model.machine_config import ConfigFinding

TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}\Z")
_TOKEN_WORDS = "must be six characters, a dot and sixteen characters, each a lower-case letter or a digit"  # noqa: S105 - a text about a token
_DNS_NAME = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_-]{0,62}(?:\.[a-zA-Z0-9_][a-zA-Z0-9_-]{0,62})*[._]?\Z")

# Sections of `cluster` that only control planes read. The first hold secrets, or what an attacker would like to know;
# the others are harmless and useless.
_AT_HOME = (
    "etcd",
    "serviceAccount",
    "aggregatorCA",
    "aescbcEncryptionSecret",
    "secretboxEncryptionSecret",
    "apiServer",
    "controllerManager",
    "scheduler",
    "inlineManifests",
)
_USELESS = (
    "adminKubeconfig",
    "allowSchedulingOnControlPlanes",
    "allowSchedulingOnMasters",
    "coreDNS",
    "extraManifestHeaders",
    "extraManifests",
    "proxy",
)


def check_sections(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        yield ConfigFinding(
            0, "", "has no document with `machine` and `cluster` sections: a worker cannot join without them"
        )
        return
    for name in ("machine", "cluster"):
        if not isinstance(page.at(name), dict):
            yield page.error((name,), "is missing: a worker cannot join without it")


def check_type(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None or not isinstance(page.at("machine"), dict):
        return
    path = ("machine", "type")
    match page.text(*path):
        case "worker":
            pass
        case "controlplane" | "init":
            yield page.error(path, "must be worker: rented machines never become control planes")
        case "" | "join":
            yield page.error(path, "is missing: write worker")
        case _:
            yield page.error(path, "is not a type that Talos knows: write worker")


def check_persist(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is not None and as_truth(page.at("persist")) is False:
        yield page.error(("persist",), "cannot be disabled: leave it out")


def check_certificates(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    if page.has("machine"):
        yield from _authority(page, "machine", "the CA of the Talos API, without which the node trusts no client")
    if page.has("cluster"):
        yield from _authority(page, "cluster", "the CA of Kubernetes, without which the kubelet trusts no API server")
    machine, cluster = (_der(page.text(part, "ca", "crt")) for part in ("machine", "cluster"))
    if machine and machine == cluster:
        yield page.error(
            ("cluster", "ca", "crt"),
            "is the same certificate as machine.ca.crt: Talos and Kubernetes have one CA each, and both are needed",
        )


def _authority(page: ConfigDocument, part: str, what: str) -> Iterator[ConfigFinding]:
    accepted = page.items(part, "acceptedCAs")
    if page.text(part, "ca", "key"):
        yield page.error((part, "ca", "key"), "is a CA's private key, which must never leave the control planes")
    if page.text(part, "ca", "crt"):
        yield from _certificate(page, (part, "ca", "crt"))
    elif not accepted:
        yield page.error((part, "ca", "crt"), f"is missing: {what}")
    for index in range(len(accepted)):
        yield from _certificate(page, (part, "acceptedCAs", index, "crt"))


def _certificate(page: ConfigDocument, path: Path) -> Iterator[ConfigFinding]:
    from cryptography import x509

    try:
        pem = base64.b64decode(page.text(*path), validate=False)
    except (ValueError, binascii.Error):
        return  # reported by the loader's check
    if b"PRIVATE KEY" in pem:
        yield page.error(path, "contains a private key, which must never leave the control planes")
    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError:
        yield page.error(path, "contains no certificate: write base64 of a PEM file")
        return
    for certificate in found:
        try:
            authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except x509.ExtensionNotFound:
            authority = True  # version 1 certificates do not say
        except ValueError:
            authority = False
        if not authority:
            yield page.error(path, "is not the certificate of a CA")


def _der(text: str) -> bytes:
    """Of the first certificate; empty: there is none."""
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificates(base64.b64decode(text, validate=False))
    except (ValueError, binascii.Error):
        return b""
    return found[0].tbs_certificate_bytes


def check_tokens(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    shared = config.expects.shared_secrets
    if page.has("cluster"):
        yield from _token(page, ("cluster", "token"), "the kubelet cannot bootstrap without it")
    if page.has("machine") and (shared or page.text("machine", "token")):
        yield from _token(page, ("machine", "token"), "the node gets no certificate for the Talos API without it")


def _token(page: ConfigDocument, path: Path, without: str) -> Iterator[ConfigFinding]:
    token = page.text(*path)
    if not token:
        yield page.error(path, f"is missing: {without}")
    elif not TOKEN.match(token):
        yield page.error(path, _TOKEN_WORDS)


def check_endpoint(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None or not page.has("cluster"):
        return
    path = ("cluster", "controlPlane", "endpoint")
    endpoint = page.text(*path)
    if not endpoint:
        yield page.error(path, "is missing: the URL of the API server, such as https://10.0.0.1:6443")
    elif (why := endpoint_problem(endpoint)) is not None:
        yield page.error(path, why)


def endpoint_problem(endpoint: str) -> str | None:
    try:
        url = urlsplit(endpoint)
        host, port = url.hostname, url.port
    except ValueError:
        return "is not a URL: write https://10.0.0.1:6443, an IPv6 address in square brackets"
    if url.netloc.rpartition("@")[2].count(":") > 1 and "[" not in url.netloc:
        return "has an IPv6 address without square brackets: write https://[fd00::1]:6443"
    if not host:
        return "has no host: write https://10.0.0.1:6443"
    if port == 0:
        return "has an invalid port: write 1 to 65535"
    return None if url.scheme == "https" else "must begin with https://"


def check_cluster_network(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    domain = page.text("cluster", "network", "dnsDomain")
    if domain and (not _DNS_NAME.match(domain) or len(domain.replace(".", "")) > 255):
        yield page.error(("cluster", "network", "dnsDomain"), "is not a DNS name")
    for key in ("podSubnets", "serviceSubnets"):
        for index, subnet in enumerate(page.items("cluster", "network", key)):
            if not _is_network(as_text(subnet)):
                yield page.error(("cluster", "network", key, index), "is not a network: write it as 10.244.0.0/16")


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def check_discovery(config: Config) -> Iterator[ConfigFinding]:
    """Discovery needs the cluster's id and secret, which untrusted hosts must not get."""
    page = config.classic
    if page is None:
        return
    discovery = ("cluster", "discovery")
    asked = page.truth(*discovery, "enabled") and not page.truth(*discovery, "registries", "service", "disabled")
    if asked:
        endpoint = page.text(*discovery, "registries", "service", "endpoint")
        if endpoint and (not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|/", endpoint) or _path_of(endpoint) not in {"", "/"}):
            path = (*discovery, "registries", "service", "endpoint")
            yield page.error(path, "must be a URL without a path, such as https://discovery.talos.dev/")
        for key in ("id", "secret"):
            if not page.text("cluster", key):
                yield page.error(("cluster", key), "is missing: discovery is enabled and needs it")
    if (secret := page.text("cluster", "secret")) and not _is_base64(secret):
        yield page.error(("cluster", "secret"), "is not base64: copy it from a worker of the same cluster")
    if not config.expects.shared_secrets:
        for shared in (("cluster", "id"), ("cluster", "secret"), ("machine", "token")):
            if page.text(*shared):
                yield page.error(shared, "must not be given to an untrusted host: every node of the cluster shares it")


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _path_of(endpoint: str) -> str:
    try:
        return urlsplit(endpoint).path
    except ValueError:
        return "?"


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True


def check_control_plane_only(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    for key in _AT_HOME:
        said = page.at("cluster", key)
        if said not in (None, "", {}, []) or (said == {} and key == "etcd"):  # Talos refuses it even if empty
            yield page.error(("cluster", key), "belongs to control planes: a worker must not have it")
    for key in _USELESS:
        if page.at("cluster", key) not in (None, "", {}, []):
            yield page.warning(("cluster", key), "is read by control planes only: leave it out")
    cloud = ("cluster", "externalCloudProvider")
    if page.items(*cloud, "manifests") and not page.truth(*cloud, "enabled"):
        yield page.error((*cloud, "manifests"), "are set while the external cloud provider is disabled")
    for index, manifest in enumerate(page.items(*cloud, "manifests")):
        if not _host_of(as_text(manifest)):
            yield page.error((*cloud, "manifests", index), "must be a URL, such as https://example.org/cloud.yaml")
    if page.truth("machine", "features", "kubernetesTalosAPIAccess", "enabled"):
        path = ("machine", "features", "kubernetesTalosAPIAccess")
        yield page.error(path, "can be enabled on control planes only")
