"""A kubeconfig as values. Parsing is pure: bytes in, values out; files are opened elsewhere.

Unknown fields are ignored, as kubectl does. Errors name the file and the field (`users[2].user.exec.command`),
and never quote a value: half of these fields are secrets.
"""

import base64
import binascii
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from tgp.adapters.kube.config_field import ConfigField, ConfigInvalid, parse_yaml

T = TypeVar("T")

EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"  # a cluster's extension that its plugins get


@dataclass(frozen=True, slots=True)
class Material:
    """A certificate or key: the bytes themselves, or the file that holds them."""

    where: str  # file and field, for errors
    data: bytes = field(default=b"", repr=False)
    path: str = ""


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    where: str
    server: str
    server_name: str = ""  # to verify instead of the URL's host
    authority: Material | None = None  # None: the system's CAs
    insecure: bool = False
    proxy: str = field(default="", repr=False)  # may hold a password
    exec_config: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Plugin:
    where: str
    api_version: str
    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str = ""
    wants_cluster: bool = False


@dataclass(frozen=True, slots=True)
class KubeconfigUser:
    where: str
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    certificate: Material | None = None
    key: Material | None = None
    plugin: Plugin | None = None
    impersonation: tuple[tuple[str, str], ...] = ()  # headers


class ContextEntry(msgspec.Struct, frozen=True):
    where: str
    cluster: str
    user: str
    namespace: str


class ClusterTarget(msgspec.Struct, frozen=True):
    """One cluster as one user: all that is needed to connect."""

    cluster: ClusterEntry
    user: KubeconfigUser
    namespace: str
    context: str  # empty: from inside the cluster


class Kubeconfig(msgspec.Struct, frozen=True):
    """One file, or several merged. Entries are read when they are chosen: a broken one does not affect the others."""

    clusters: dict[str, Callable[[], ClusterEntry]] = msgspec.field(default_factory=dict)
    users: dict[str, Callable[[], KubeconfigUser]] = msgspec.field(default_factory=dict)
    contexts: dict[str, Callable[[], ContextEntry]] = msgspec.field(default_factory=dict)
    current: str = ""


def parse(content: bytes, file: str) -> Kubeconfig:
    top = ConfigField(parse_yaml(content, file), file, "")
    home = PurePath(file).parent
    return Kubeconfig(
        _named(top, "clusters", "cluster", lambda entry: _cluster(entry, home)),
        _named(top, "users", "user", lambda entry: _user(entry, home)),
        _named(top, "contexts", "context", _context),
        top.get("current-context").text(),
    )


def merge(configs: Iterable[Kubeconfig]) -> Kubeconfig:
    """As kubectl does: the first file to set a value or a name wins; entries are not mixed."""
    merged = Kubeconfig()
    for config in configs:
        merged = Kubeconfig(
            {**config.clusters, **merged.clusters},
            {**config.users, **merged.users},
            {**config.contexts, **merged.contexts},
            merged.current or config.current,
        )
    return merged


def choose(config: Kubeconfig, context: str = "") -> ClusterTarget:
    """The named context, or the current one."""
    name = context or config.current
    if not name:
        raise ConfigInvalid(f"no current context is set and none was named; {_contexts(config)}")
    if name not in config.contexts:
        raise ConfigInvalid(f"context {name!r} does not exist; {_contexts(config)}")
    entry = config.contexts[name]()
    return ClusterTarget(
        _look_up(config.clusters, entry.cluster, f"{entry.where}.cluster: cluster")(),
        _look_up(config.users, entry.user, f"{entry.where}.user: user")()
        if entry.user
        else KubeconfigUser(entry.where),
        entry.namespace or "default",
        name,
    )


def _look_up(entries: dict[str, T], name: str, what: str) -> T:
    found = entries.get(name)
    if found is None:
        raise ConfigInvalid(f"{what} {name!r} does not exist; available: {_names(entries)}")
    return found


def _contexts(config: Kubeconfig) -> str:
    """Those to choose from, with the flag that does."""
    first = f", --context {min(config.contexts)} for example" if config.contexts else ""
    return f"available: {_names(config.contexts)}{first}"


def _names(entries: Iterable[str]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _named(
    top: ConfigField, plural: str, singular: str, read: Callable[[ConfigField], T]
) -> dict[str, Callable[[], T]]:
    found: dict[str, Callable[[], T]] = {}
    for item in top.get(plural).items():
        name = item.get("name").text()
        if not name:
            raise item.get("name").invalid("every entry needs a name")
        found.setdefault(name, _later(read, item.get(singular)))  # the first of a name wins, as across files
    return found


def _later(read: Callable[[ConfigField], T], entry: ConfigField) -> Callable[[], T]:
    return lambda: read(entry)


def _context(entry: ConfigField) -> ContextEntry:
    cluster = entry.get("cluster").text()
    if not cluster:
        raise entry.get("cluster").invalid("a context must name its cluster")
    return ContextEntry(entry.where, cluster, entry.get("user").text(), entry.get("namespace").text())


def _cluster(entry: ConfigField, home: PurePath) -> ClusterEntry:
    server = entry.get("server").text()
    if not server.startswith(("https://", "http://")):
        raise entry.get("server").invalid("needs a URL that starts with https://")
    authority = _material(entry, "certificate-authority", home)
    insecure = entry.get("insecure-skip-tls-verify").flag()
    if insecure and authority is not None:
        raise entry.get("insecure-skip-tls-verify").invalid("cannot be set together with a certificate authority")
    proxy = entry.get("proxy-url").text()
    if proxy and not proxy.startswith(("http://", "https://")):
        raise entry.get("proxy-url").invalid("only http:// and https:// proxies are supported")
    if proxy and not _names_a_host(proxy):
        raise entry.get("proxy-url").invalid("has no host or an invalid port")
    return ClusterEntry(
        entry.where,
        server.rstrip("/"),
        entry.get("tls-server-name").text(),
        authority,
        insecure,
        proxy,
        _exec_config(entry),
    )


def _names_a_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port, an incomplete IPv6 address
        return False


def _exec_config(entry: ConfigField) -> Any:
    for extension in entry.get("extensions").items():
        if extension.get("name").text() == EXEC_EXTENSION:
            return extension.get("extension").value
    return None


def _user(entry: ConfigField, home: PurePath) -> KubeconfigUser:
    if entry.get("auth-provider").value is not None:
        name = entry.get("auth-provider").get("name").text() or "unnamed"
        raise entry.get("auth-provider").invalid(
            f"the built-in provider {name!r} was removed from Kubernetes clients in 1.26; use an exec plugin instead "
            "(gke-gcloud-auth-plugin, kubelogin; your provider's tool writes one into the kubeconfig)"
        )
    token, token_file = entry.get("token").text().strip(), entry.get("tokenFile").text()
    username, password = entry.get("username").text(), entry.get("password").text()
    if token and username:
        raise entry.get("username").invalid("a token and a user name cannot both be set")
    certificate = _material(entry, "client-certificate", home)
    key = _material(entry, "client-key", home)
    if (certificate is None) != (key is None):
        missing = "client-key" if key is None else "client-certificate"
        raise entry.get(missing).invalid("set both the client certificate and its key")
    return KubeconfigUser(
        entry.where,
        token,
        _path(token_file, home),
        username,
        password,
        certificate,
        key,
        _plugin(entry.get("exec"), home),
        _impersonation(entry),
    )


def _impersonation(entry: ConfigField) -> tuple[tuple[str, str], ...]:
    headers: list[tuple[str, str]] = []
    user, uid, groups, extra = (entry.get(name) for name in ("as", "as-uid", "as-groups", "as-user-extra"))
    if not user.text():
        if uid.value or groups.value or extra.value:
            raise user.invalid("as-uid, as-groups and as-user-extra need it")
        return ()
    headers.append(("Impersonate-User", user.text()))
    if uid.text():
        headers.append(("Impersonate-Uid", uid.text()))
    headers += [("Impersonate-Group", group.text()) for group in groups.items()]
    for name, values in extra.entries():
        headers += [(f"Impersonate-Extra-{name}", value.text()) for value in values.items()]
    return tuple(headers)


def _plugin(entry: ConfigField, home: PurePath) -> Plugin | None:
    if entry.value is None:
        return None
    version, command = entry.get("apiVersion").text(), entry.get("command").text()
    if version not in EXEC_VERSIONS:
        raise entry.get("apiVersion").invalid(f"must be one of {' or '.join(EXEC_VERSIONS)}")
    if not command:
        raise entry.get("command").invalid("a plugin needs a command")
    if entry.get("interactiveMode").text() == "Always":
        raise entry.get("interactiveMode").invalid("Always needs a terminal, and plugins have none here")
    return Plugin(
        entry.where,
        version,
        _path(command, home) if PurePath(command).name != command else command,  # a bare name is found on PATH
        tuple(arg.text() for arg in entry.get("args").items()),
        tuple((pair.get("name").text(), pair.get("value").text()) for pair in entry.get("env").items()),
        entry.get("installHint").text(),
        entry.get("provideClusterInfo").flag(),
    )


def _material(entry: ConfigField, name: str, home: PurePath) -> Material | None:
    """The bytes under `<name>-data`, which win, or the file under `<name>`."""
    inline, path = entry.get(f"{name}-data"), entry.get(name)
    if inline.text():
        try:
            data = base64.b64decode("".join(inline.text().split()), validate=True)
        except (binascii.Error, ValueError):
            raise inline.invalid("is not base64") from None
        return Material(inline.where, data=data)
    if path.text():
        return Material(path.where, path=_path(path.text(), home))
    return None


def _path(path: str, home: PurePath) -> str:
    """Relative paths count from the directory of the file that names them."""
    return str(home / path) if path else ""
