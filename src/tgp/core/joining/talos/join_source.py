"""The three sources of join values, how to detect them, and what is not taken from them.

A worker's machine config, the bundle of `talosctl gen secrets`, or the Secret itself in a file.
Of a control plane's config or a bundle only the worker's part is taken: the rest is listed, and not copied.
"""

import binascii
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tgp.core.joining.talos.join_values import NotJoinable, from_secrets_bundle, from_worker_config, read_join
from tgp.core.joining.talos.stream import UnreadableStream, read_stream
from tgp.core.model.join import NEEDED, OPTIONAL
from tgp.core.model.secret import Secret

# By path; the text says what the secret is for.
_OF_CONFIG = {
    ("machine", "ca", "key"): "the key of Talos's CA",
    ("cluster", "ca", "key"): "the key of the Kubernetes CA",
    ("cluster", "token"): "the cluster's own bootstrap token: each node gets one of its own instead",
    ("cluster", "aggregatorCA", "key"): "the key of the aggregation CA",
    ("cluster", "serviceAccount", "key"): "the key that signs service accounts",
    ("cluster", "etcd", "ca", "key"): "the key of etcd's CA",
    ("cluster", "aescbcEncryptionSecret"): "the key that Secrets are encrypted with in etcd",
    ("cluster", "secretboxEncryptionSecret"): "the key that Secrets are encrypted with in etcd",
}
_OF_BUNDLE = {
    ("certs", "os", "key"): _OF_CONFIG["machine", "ca", "key"],
    ("certs", "k8s", "key"): _OF_CONFIG["cluster", "ca", "key"],
    ("secrets", "bootstraptoken"): _OF_CONFIG["cluster", "token"],
    ("certs", "k8saggregator", "key"): _OF_CONFIG["cluster", "aggregatorCA", "key"],
    ("certs", "k8sserviceaccount", "key"): _OF_CONFIG["cluster", "serviceAccount", "key"],
    ("certs", "etcd", "key"): _OF_CONFIG["cluster", "etcd", "ca", "key"],
    ("secrets", "aescbcencryptionsecret"): _OF_CONFIG["cluster", "aescbcEncryptionSecret"],
    ("secrets", "secretboxencryptionsecret"): _OF_CONFIG["cluster", "secretboxEncryptionSecret"],
}
_FROM_CONFIG = {
    "machine-token": "machine.token",
    "machine-ca.crt": "machine.ca.crt",
    "cluster-ca.crt": "cluster.ca.crt",
    "cluster-id": "cluster.id",
    "cluster-secret": "cluster.secret",
    "endpoint": "cluster.controlPlane.endpoint",
    "cluster-name": "cluster.clusterName",
    "pod-subnets": "cluster.network.podSubnets",
    "service-subnets": "cluster.network.serviceSubnets",
    "dns-domain": "cluster.network.dnsDomain",
}
_FROM_BUNDLE = {
    "machine-token": "trustdinfo.token",
    "machine-ca.crt": "certs.os.crt",
    "cluster-ca.crt": "certs.k8s.crt",
    "cluster-id": "cluster.id",
    "cluster-secret": "cluster.secret",
}
_TOLD = {"endpoint": "--endpoint", "cluster-name": "--cluster-name"}


@dataclass(frozen=True, slots=True)
class Taken:
    source: str  # what the file is, for messages
    data: Mapping[str, str] = field(repr=False)  # the Secret's, exactly its keys
    places: Mapping[str, str]  # where each came from
    left: tuple[str, ...] = ()  # what else is there and was not taken


def take(text: str, *, endpoint: str = "", cluster_name: str = "") -> Taken:
    """Values passed here win over those in the file. Raises NotJoinable."""
    told = {key: value for key, value in (("endpoint", endpoint), ("cluster-name", cluster_name)) if value}
    by_hand = {key: _TOLD[key] for key in told}
    documents = [each for each in _mappings(text) if each]
    for document in documents:
        if document.get("kind") == "Secret":
            data = _of_secret(document, told)
            return Taken("a Secret", data, {**dict.fromkeys(data, "the same key"), **by_hand})
        if "certs" in document and "kind" not in document:
            return _of_bundle(text, document, told, by_hand)
    data = from_worker_config(text, endpoint=endpoint, cluster_name=cluster_name)
    config = next(each for each in documents if "machine" in each and "kind" not in each)
    machine = config["machine"]
    control = isinstance(machine, dict) and machine.get("type") in {"controlplane", "init"}
    left = tuple(dict.fromkeys(_left(config, _OF_CONFIG)))
    return Taken(
        "a control plane's config" if control else "a worker's config", data, {**_FROM_CONFIG, **by_hand}, left
    )


# ----


def _mappings(text: str) -> Iterator[dict[str, Any]]:
    try:
        documents = read_stream(text)
    except UnreadableStream as error:
        raise NotJoinable((str(error.finding),)) from None
    return (document.data for document in documents if isinstance(document.data, dict))


def _of_bundle(text: str, bundle: dict[str, Any], told: Mapping[str, str], by_hand: Mapping[str, str]) -> Taken:
    missing = tuple(f"{key} is not in a secrets bundle: pass {flag}" for key, flag in _TOLD.items() if key not in told)
    if missing:
        raise NotJoinable(missing)
    data = from_secrets_bundle(text, endpoint=told["endpoint"], cluster_name=told["cluster-name"])
    left = tuple(dict.fromkeys(_left(bundle, _OF_BUNDLE)))
    return Taken("a secrets bundle", data, {**_FROM_BUNDLE, **by_hand}, left)


def _of_secret(manifest: dict[str, Any], told: dict[str, str]) -> dict[str, str]:
    said = {key: _decoded(value) for key, value in _strings(manifest.get("data"))} | dict(
        _strings(manifest.get("stringData"))
    )
    read = read_join({key: Secret(value) for key, value in (said | told).items()})
    if isinstance(read, tuple):
        raise NotJoinable(read)
    return {key: value for key in (*NEEDED, *OPTIONAL) if (value := (said | told).get(key))}


def _strings(values: Any) -> list[tuple[str, str]]:
    items = values.items() if isinstance(values, dict) else ()
    return [(key, value) for key, value in items if isinstance(value, str)]


def _decoded(value: str) -> str:
    try:
        return b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _left(document: Mapping[str, Any], known: Mapping[tuple[str, ...], str]) -> Iterator[str]:
    for path, words in known.items():
        here: Any = document
        for step in path:
            here = here.get(step) if isinstance(here, dict) else None
        if here:
            yield words
