"""The join values: read from their Secret, and made for it from a config or a secrets bundle.

Only the worker's part is ever taken. A CA's key in the Secret is refused: its holder can impersonate the cluster, and
a rented machine would be one mistake away from it.
"""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from tgp.core.joining.talos.stream import UnreadableStream, WrittenFloat, WrittenInt, read_stream
from tgp.core.model.join import NEEDED, OPTIONAL, JoinValues
from tgp.core.model.secret import Secret

LONGEST = 64 * 1024  # characters of one value
_TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]{0,62})(\.[a-z0-9]([a-z0-9-]{0,62}))*", re.IGNORECASE)
_CERTIFICATES = ("machine-ca.crt", "cluster-ca.crt")
_LISTED = ("pod-subnets", "service-subnets")


class NotJoinable(Exception):
    """No Secret can be made from it; `problems` say why. None of them quotes a value."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def read_join(values: Mapping[str, Secret]) -> JoinValues | tuple[str, ...]:
    """The values, or the problems: each missing or invalid key, by name."""
    said = {key: value.reveal().strip() for key, value in values.items()}
    problems = [f"{key} contains a private key: only certificates are allowed" for key in said if _holds_key(said[key])]
    problems += [f"{key} is missing" for key in NEEDED if not said.get(key)]
    problems += [f"{key} is longer than {LONGEST} characters" for key in said if len(said[key]) > LONGEST]
    if problems:
        return tuple(problems)
    authorities: dict[str, tuple[str, bytes]] = {}
    for key in _CERTIFICATES:
        found = _authority(said[key])
        if isinstance(found, str):
            problems.append(f"{key} {found}")
        else:
            authorities[key] = found
    if len(authorities) == len(_CERTIFICATES) and len({der for _, der in authorities.values()}) == 1:
        problems.append(
            "machine-ca.crt and cluster-ca.crt are the same certificate: Talos and Kubernetes have one CA each"
        )
    problems += _wrong(said)
    if problems:
        return tuple(problems)
    return _values(said, {key: text for key, (text, _) in authorities.items()})


def from_worker_config(text: str, *, endpoint: str = "", cluster_name: str = "") -> dict[str, str]:
    """The Secret's data, from the machine config of a node of that cluster; values passed here win over
    those in it. Raises NotJoinable.
    """
    config = _one_mapping(text, "machine")
    machine, cluster = _inner(config, "machine"), _inner(config, "cluster")
    network = _inner(cluster, "network")
    data = {
        "machine-token": machine.get("token"),
        "machine-ca.crt": _inner(machine, "ca").get("crt"),
        "cluster-ca.crt": _inner(cluster, "ca").get("crt"),
        "cluster-id": cluster.get("id"),
        "cluster-secret": cluster.get("secret"),
        "endpoint": endpoint or _inner(cluster, "controlPlane").get("endpoint"),
        "cluster-name": cluster_name or cluster.get("clusterName"),
        "pod-subnets": _listed(network.get("podSubnets")),
        "service-subnets": _listed(network.get("serviceSubnets")),
        "dns-domain": network.get("dnsDomain"),
    }
    return _secret_data(data)


def from_secrets_bundle(text: str, *, endpoint: str, cluster_name: str) -> dict[str, str]:
    """From the output of `talosctl gen secrets`; two values that are not in it must be passed. Raises NotJoinable."""
    bundle = _one_mapping(text, "certs")
    certificates = _inner(bundle, "certs")
    data = {
        "machine-token": _inner(bundle, "trustdinfo").get("token"),
        "machine-ca.crt": _inner(certificates, "os").get("crt"),
        "cluster-ca.crt": _inner(certificates, "k8s").get("crt"),
        "cluster-id": _inner(bundle, "cluster").get("id"),
        "cluster-secret": _inner(bundle, "cluster").get("secret"),
        "endpoint": endpoint,
        "cluster-name": cluster_name,
    }
    return _secret_data(data)


# ---- one value at a time


def _holds_key(value: str) -> bool:
    if "PRIVATE KEY-----" in value:
        return True
    try:
        return b"PRIVATE KEY-----" in b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return False


def _authority(value: str) -> tuple[str, bytes] | str:
    """A CA's certificate as Talos writes it and its bytes, from PEM or base64 of PEM; or what is wrong with it."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    pem = value.encode()
    if b"-----BEGIN" not in pem:
        try:
            pem = b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            return "is neither PEM nor base64 of PEM"
    try:
        certificate = x509.load_pem_x509_certificates(pem)[0]
        limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return "is not a certificate of a CA"
    except ValueError:
        return "is not a certificate"
    if not limits.ca:
        return "is not a certificate of a CA"
    return b64encode(pem.strip() + b"\n").decode(), certificate.public_bytes(Encoding.DER)


def _wrong(said: Mapping[str, str]) -> list[str]:
    problems = []
    if not _TOKEN.fullmatch(said["machine-token"]):
        problems.append("machine-token is not a token: six characters, a dot, sixteen characters")
    if not _is_base64(said["cluster-secret"]):
        problems.append("cluster-secret is not base64")
    if problem := _wrong_endpoint(said["endpoint"]):
        problems.append(f"endpoint {problem}")
    for key in _LISTED:
        if any(not _is_network(each) for each in _split(said.get(key, ""))):
            problems.append(f"{key} must be networks such as 10.244.0.0/16, separated by commas")
    domain = said.get("dns-domain", "")
    if domain and not _DOMAIN.fullmatch(domain):
        problems.append("dns-domain is not a domain name")
    return problems


def _wrong_endpoint(value: str) -> str:
    try:
        url = urlsplit(value)
        port = url.port
    except ValueError:
        return "is not a URL: https://host:6443"
    if url.scheme != "https" or not url.hostname or url.username is not None:
        return "must be https://host:6443"
    if url.path not in {"", "/"} or url.query or url.fragment:
        return "must end after the port: https://host:6443"
    return "has a port outside 1 to 65535" if port == 0 else ""


def _is_base64(value: str) -> bool:
    try:
        return bool(b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        return False


def _is_network(value: str) -> bool:
    try:
        ip_network(value, strict=False)
    except ValueError:
        return False
    return "/" in value


def _split(value: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[,\s]+", value) if part)


def _values(said: Mapping[str, str], authorities: Mapping[str, str]) -> JoinValues:
    given: dict[str, Any] = {}
    for key, name in (("pod-subnets", "pod_subnets"), ("service-subnets", "service_subnets")):
        if said.get(key):
            given[name] = _split(said[key])
    if said.get("dns-domain"):
        given["dns_domain"] = said["dns-domain"]
    return JoinValues(
        machine_token=Secret(said["machine-token"]),
        machine_ca=authorities["machine-ca.crt"],
        cluster_ca=authorities["cluster-ca.crt"],
        cluster_id=Secret(said["cluster-id"]),
        cluster_secret=Secret(said["cluster-secret"]),
        endpoint=said["endpoint"],
        cluster_name=said["cluster-name"],
        **given,
    )


# ---- from files


def _one_mapping(text: str, wanted: str) -> dict[str, Any]:
    try:
        documents = read_stream(text)
    except UnreadableStream as error:
        raise NotJoinable((str(error.finding),)) from None
    for document in documents:
        if isinstance(document.data, dict) and wanted in document.data and "kind" not in document.data:
            return document.data
    raise NotJoinable((f"has no section {wanted}: check that it is the right file",))


def _inner(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    inner = data.get(key)
    return inner if isinstance(inner, dict) else {}


def _listed(value: Any) -> str | None:
    return ",".join(str(each) for each in value) if isinstance(value, list) and value else None


def _text(value: Any) -> str:
    """As Talos reads a string: a token of digits alone looks like a number."""
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.source
    return value if isinstance(value, str) else ""


def _secret_data(found: Mapping[str, Any]) -> dict[str, str]:
    """Exactly the keys of the Secret, all valid when read back."""
    data = {key: text for key in (*NEEDED, *OPTIONAL) if (text := _text(found.get(key)))}
    read = read_join({key: Secret(value) for key, value in data.items()})
    if isinstance(read, tuple):
        raise NotJoinable(read)
    return data
