"""The protocol of a kubeconfig's exec plugin (client.authentication.k8s.io). No I/O."""

import base64
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from tgp.adapters.kube.config import ClusterEntry, Plugin
from tgp.ports.exec import Ended

COULD_BE_A_SECRET = re.compile(r"[A-Za-z0-9+/_.=-]{24,}")  # longer than words, as long as the shortest tokens
MAX_COMPLAINT = 512  # characters of a failed plugin's stderr that are shown


class BadAnswer(Exception):
    """The plugin failed or its output is not usable. The text holds no credential."""


@dataclass(frozen=True, slots=True)
class Issued:
    token: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    expires_at: datetime | None = None  # None: the plugin does not say


def ask(plugin: Plugin, cluster: ClusterEntry, authority: bytes) -> dict[str, str]:
    """The environment to run it with."""
    spec: dict[str, Any] = {"interactive": False}
    if plugin.wants_cluster:
        spec["cluster"] = _cluster_info(cluster, authority)
    question = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return {**dict(plugin.env), "KUBERNETES_EXEC_INFO": msgspec.json.encode(question).decode()}


def _cluster_info(cluster: ClusterEntry, authority: bytes) -> dict[str, Any]:
    info: dict[str, Any] = {"server": cluster.server}
    if cluster.server_name:
        info["tls-server-name"] = cluster.server_name
    if cluster.insecure:
        info["insecure-skip-tls-verify"] = True
    if authority:
        info["certificate-authority-data"] = base64.b64encode(authority).decode()
    if cluster.proxy:
        info["proxy-url"] = cluster.proxy
    if cluster.exec_config is not None:
        info["config"] = cluster.exec_config
    return info


def read_answer(ended: Ended, plugin: Plugin) -> Issued:
    if ended.code != 0:
        raise BadAnswer(f"{plugin.command} exited with code {ended.code}{_complaint(ended.complaint)}")
    try:
        answer = msgspec.json.decode(ended.output)
    except msgspec.DecodeError:
        raise BadAnswer(f"{plugin.command} did not print an ExecCredential in JSON") from None
    if not isinstance(answer, dict) or answer.get("kind") != "ExecCredential":
        raise BadAnswer(f"{plugin.command} printed something other than an ExecCredential")
    if answer.get("apiVersion") != plugin.api_version:
        raise BadAnswer(f"{plugin.command} answered with another apiVersion than {plugin.api_version}")
    status = answer.get("status")
    if not isinstance(status, dict):
        raise BadAnswer(f"{plugin.command} printed no status")
    return _issued(status, plugin)


def _issued(status: dict[str, Any], plugin: Plugin) -> Issued:
    token, certificate, key, expires = (
        _text(status, name, plugin)
        for name in ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp")
    )
    if not token and not certificate:
        raise BadAnswer(f"{plugin.command} printed neither status.token nor status.clientCertificateData")
    if bool(certificate) != bool(key):
        raise BadAnswer(f"{plugin.command}: one of clientCertificateData and clientKeyData is missing")
    if not token.isascii() or not token.isprintable():
        raise BadAnswer(f"{plugin.command}: status.token is not a token")
    return Issued(token, certificate.encode(), key.encode(), _moment(expires, plugin))


def _text(status: dict[str, Any], name: str, plugin: Plugin) -> str:
    value = status.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadAnswer(f"{plugin.command}: status.{name} must be a string")
    return value.strip()


def _moment(text: str, plugin: Plugin) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadAnswer(f"{plugin.command}: status.expirationTimestamp is not a time") from None
    if moment.tzinfo is None:
        raise BadAnswer(f"{plugin.command}: status.expirationTimestamp has no time zone")
    return moment


def _complaint(said: bytes) -> str:
    """The plugin's own message, which often says what to do (log in again), without anything that looks like a key."""
    words = " ".join(said.decode("utf-8", "replace").split())
    words = COULD_BE_A_SECRET.sub("***", words)[:MAX_COMPLAINT]
    return f": {words}" if words else ""
