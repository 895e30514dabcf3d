"""The operator's settings: one table, read from flags, environment and a file, in that order.

The table below is the only place a setting is named: `tgp operator --help`, the environment variables and the keys
of the file all follow from it; only machines you own have variables of another form. A wrong value is refused with an
error that names its source.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from ipaddress import ip_address
from typing import Any

from tgp.api.field_error import Invalid
from tgp.api.values import NEVER, Span, duration, go_duration, span
from tgp.core.classes.power_hosts import HostRules
from tgp.core.disruption.health import REPAIR_CONDITIONS, read_repair_rule
from tgp.core.power import node_groups
from tgp.core.power.node_groups import NodeGroup

MOST_CALLS = 10_000  # per second, to the API server
ADDRESSES = {"listen": "0.0.0.0:8081", "metrics_listen": "127.0.0.1:8080", "https_listen": "0.0.0.0:8443"}
NODE_GROUPS = "nodeGroups"  # the key of a settings file
BACKENDS = ("tailscale", "headscale", "wireguard", "kubespan", "none")


_SHAPES: Mapping[type, str] = {bool: "BOOL", int: "INT", str: "STR", timedelta: "DURATION"}


class BadSetting(Exception):
    """A setting is invalid; the text names its source and what would be right."""


def _setting(
    default: Any, doc: str, *, key: str = "", choices: tuple[str, ...] = (), or_never: bool = False, shape: str = ""
) -> Any:
    metadata = {"doc": doc, "key": key, "choices": choices, "or_never": or_never, "shape": shape}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Settings:
    kubeconfig: str = _setting(
        "", "kubeconfig file; without it the pod's own account, else $KUBECONFIG or ~/.kube/config"
    )
    context: str = _setting("", "context of the kubeconfig; without it the current one")
    namespace: str = _setting(
        "", "the operator's own namespace: its Lease and the Secrets it may read; without it the pod's, else tgp-system"
    )
    identity: str = _setting("", "name of this replica in the Lease, before a random suffix; without it the host name")
    observe: bool = _setting(False, "read and report only: no purchase, no write to the cluster, no Lease")
    leader_elect: bool = _setting(True, "hold the Lease before acting; off only if there is never a second replica")
    lease_name: str = _setting("tgp-operator", "name of the Lease", key="lease.name")
    lease_duration: timedelta = _setting(
        timedelta(seconds=15), "a leader that does not renew is replaced after this time", key="lease.duration"
    )
    renew_deadline: timedelta = _setting(
        timedelta(seconds=10), "a leader that could not renew for this time exits", key="lease.renewDeadline"
    )
    retry_period: timedelta = _setting(
        timedelta(seconds=2), "time between two attempts to get the Lease", key="lease.retryPeriod"
    )
    listen: str = _setting("127.0.0.1:8080", "host:port for the probes /healthz and /readyz; empty: none")
    metrics_listen: str = _setting(
        "", "host:port on loopback for /metrics without TLS and tokens; empty: none", key="metrics.listen"
    )
    https_listen: str = _setting(
        "",
        "host:port for /metrics and the HTTP API by HTTPS, for users of the cluster; empty: none",
        key="https.listen",
    )
    https_secret: str = _setting(
        "",
        "a TLS Secret of yours for HTTPS, in the operator's namespace; empty: the operator makes tgp-operator-tls",
        key="https.secretName",
    )
    log_format: str = _setting(
        "auto",
        "json for log collectors, text for people, auto: text on a terminal",
        key="log.format",
        choices=("auto", "json", "text"),
    )
    log_level: str = _setting(
        "info", "the lowest level that is logged", key="log.level", choices=("debug", "info", "warning", "error")
    )
    kube_qps: int = _setting(200, "calls per second to the API server, after a burst (1 to 10000)", key="kube.qps")
    kube_burst: int = _setting(400, "calls to the API server that may be sent at once (1 to 10000)", key="kube.burst")
    workers: int = _setting(4, "reconciles that may run at once per controller (1 to 64)")
    require_allowed_namespaces: bool = _setting(
        False, "a class without allowedNamespaces serves no namespace, instead of all"
    )
    require_device_plugin: bool = _setting(
        True,
        "buy only machines on which a DaemonSet with a GPU device plugin would run; off if the plugin is installed by "
        "other means, or after the node joined",
    )
    keep_finished: Span = _setting(
        timedelta(days=7),
        "how long an ended GPURequest stays, with its reason and its cost, before it is removed; or Never",
        or_never=True,
    )
    scheduler_names: tuple[str, ...] = _setting(
        ("default-scheduler",), "schedulers whose unschedulable pods machines are bought for", shape="NAME[,NAME…]"
    )
    batch_idle: timedelta = _setting(
        timedelta(seconds=1), "a plan is made once no further pod has come for this long", key="pools.batchIdle"
    )
    batch_max: timedelta = _setting(
        timedelta(seconds=10), "a plan waits for further pods no longer than this", key="pools.batchMax"
    )
    repair_conditions: tuple[str, ...] = _setting(
        REPAIR_CONDITIONS,
        "conditions of Nodes for which a pool replaces a machine, each after 10m or a time of its own",
        key="repair.conditions",
        shape="TYPE[=STATUS[/DURATION]][,…]",
    )
    networking_backend: str = _setting(
        "",
        "mesh for classes that configure none: " + ", ".join(BACKENDS),
        key="networking.backend",
        choices=("", *BACKENDS),
    )
    talos_version: str = _setting(
        "", "Talos version of rented machines, such as v1.13.0, if neither their class nor the cluster's nodes name one"
    )
    factory_url: str = _setting(
        "https://factory.talos.dev",
        "where Talos images come from: Sidero's image factory, or your own",
        key="factory.url",
    )
    tailscale_url: str = _setting(
        "", "URL of Tailscale's API, if it is not the public one", key="networking.tailscaleUrl"
    )
    power_allowed_hosts: tuple[str, ...] = _setting(
        (),
        "hosts that may control the power of machines: names, *.domain, addresses, networks; none given: any that a "
        "class names",
        key="power.allowedHosts",
        shape="HOST[,HOST…]",
    )
    # Not in the table: `nodeGroups` of the file, and variables with a prefix of the user's own.
    node_groups: tuple[NodeGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table, with the three names a user may know it by."""

    name: str
    kind: type
    default: Any
    doc: str
    key: str
    choices: tuple[str, ...]
    or_never: bool = False  # a duration that may be Never
    shape: str = ""  # placeholder in --help; empty: by its type

    @property
    def shown_default(self) -> str:
        """As a user would write it; empty: there is no default to show."""
        if self.default in ("", None, ()):
            return ""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if isinstance(self.default, tuple):
            return ",".join(self.default)
        return go_duration(self.default) if isinstance(self.default, timedelta) else str(self.default)

    @property
    def metavar(self) -> str:
        return self.shape or _SHAPES.get(self.kind, "TEXT")

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "TGP_" + self.name.upper()

    def read(self, said: Any, where: str) -> Any:
        """`said` as this setting's type; raises BadSetting that names `where`."""
        try:
            value = self._convert(said)
        except Invalid as error:
            raise BadSetting(f"{where}: {error.problems[0].body}") from error
        except ValueError as error:
            raise BadSetting(f"{where}: {error}") from error
        if self.choices and value not in self.choices:
            wanted = ", ".join(choice for choice in self.choices if choice)
            near = difflib.get_close_matches(str(value), [choice for choice in self.choices if choice], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadSetting(f"{where}: {said!r} is not one of {wanted}{hint}")
        return value

    def _convert(self, said: Any) -> Any:
        if self.kind is bool:
            return _boolean(said)
        if self.kind is int:
            return _integer(said)
        if self.kind is timedelta:
            return _positive_span(said) if self.or_never else _positive_duration(said)
        if self.kind is tuple:
            return _words(said)
        if not isinstance(said, str):
            raise ValueError(f"expected text, got {said!r}")  # noqa: TRY004 - one error for every wrong value
        return said


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


TABLE: tuple[Setting, ...] = tuple(
    Setting(
        name=row.name,
        kind=type(row.default),
        default=row.default,
        doc=row.metadata["doc"],
        key=row.metadata["key"] or _camel(row.name),
        choices=row.metadata["choices"],
        or_never=row.metadata["or_never"],
        shape=row.metadata["shape"],
    )
    for row in fields(Settings)
    if row.metadata
)


def load(
    flags: Mapping[str, Any], environ: Mapping[str, str], document: Any = None, document_name: str = "file"
) -> Settings:
    """Each setting from the first place that gives it: `flags` (None: not given), `environ`, the parsed `document`."""
    groups = document.get(NODE_GROUPS) if isinstance(document, Mapping) else None
    if isinstance(document, Mapping):
        document = {key: value for key, value in document.items() if key != NODE_GROUPS}
    written = _flatten(document, document_name)
    known = {setting.key: setting for setting in TABLE}
    for key in written:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise BadSetting(
                f"{document_name}: unknown setting {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")
            )
    values, places = {}, {setting.name: setting.flag for setting in TABLE}
    for setting in TABLE:
        if (said := flags.get(setting.name)) is not None:
            pass
        elif (said := environ.get(setting.variable)) is not None:
            places[setting.name] = setting.variable
        elif (said := written.get(setting.key)) is not None:
            places[setting.name] = f"{document_name}: {setting.key}"
        if said is not None:
            values[setting.name] = setting.read(said, places[setting.name])
    settings = _coherent(Settings(**values), places)
    return replace(settings, node_groups=_node_groups(settings, environ, groups, document_name))


def _node_groups(settings: Settings, environ: Mapping[str, str], rows: Any, name: str) -> tuple[NodeGroup, ...]:
    """The environment wins over the file."""
    hosts = HostRules(settings.power_allowed_hosts)
    try:
        of_file = node_groups.of_file(rows, f"{name}: {NODE_GROUPS}", hosts) if rows is not None else ()
        found = {each.name: each for each in (*of_file, *node_groups.of_environment(environ, hosts))}
    except node_groups.BadNodeGroup as error:
        raise BadSetting(str(error)) from error
    return tuple(found.values())


def _coherent(settings: Settings, places: Mapping[str, str]) -> Settings:
    """Settings that contradict each other are refused here, not discovered in production."""
    if not 1 <= settings.workers <= 64:
        raise BadSetting(f"{places['workers']}: {settings.workers} is not between 1 and 64")
    for name in ("kube_qps", "kube_burst"):
        if not 1 <= getattr(settings, name) <= MOST_CALLS:
            raise BadSetting(f"{places[name]}: {getattr(settings, name)} is not between 1 and {MOST_CALLS}")
    if settings.batch_max < settings.batch_idle:
        raise BadSetting(f"{places['batch_max']} must not be shorter than {places['batch_idle']}")
    if not settings.scheduler_names:
        raise BadSetting(f"{places['scheduler_names']}: name at least one scheduler, such as default-scheduler")
    names = ("retry_period", "renew_deadline", "lease_duration")
    lengths = [getattr(settings, name) for name in names]
    if not lengths[0] < lengths[1] < lengths[2]:
        order = " < ".join(f"{places[name]} ({go_duration(getattr(settings, name))})" for name in names)
        raise BadSetting(f"{order} must hold, so that a leader exits before it is replaced")
    try:
        HostRules(settings.power_allowed_hosts)
    except ValueError as error:
        raise BadSetting(f"{places['power_allowed_hosts']}: {error}") from error
    for each in settings.repair_conditions:
        try:
            read_repair_rule(each)
        except ValueError as error:
            raise BadSetting(f"{places['repair_conditions']}: {error}") from error
    for name, example in ADDRESSES.items():
        address = getattr(settings, name)
        host, colon, port = address.rpartition(":")
        if address and not (colon and host and port.isdigit() and int(port) < 65_536):
            raise BadSetting(f"{places[name]}: {address!r} is not host:port, such as {example}")
    if settings.metrics_listen and not _is_loopback(settings.metrics_listen):
        raise BadSetting(
            f"{places['metrics_listen']}: {settings.metrics_listen!r} is not on loopback. Over a network metrics are "
            "served by HTTPS: --https-listen 0.0.0.0:8443"
        )
    return settings


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _flatten(document: Any, name: str, prefix: str = "") -> dict[str, Any]:
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise BadSetting(f"{name}: {prefix.rstrip('.') or 'the file'} must be a mapping of settings")
    flat: dict[str, Any] = {}
    for key, value in document.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= _flatten(value, name, path + ".")
        else:
            flat[path] = value
    return flat


def _boolean(said: Any) -> bool:
    if isinstance(said, bool):
        return said
    match str(said).strip().lower():
        case "true" | "1" | "yes" | "on":
            return True
        case "false" | "0" | "no" | "off":
            return False
    raise ValueError(f"{said!r} is not true or false")


def _integer(said: Any) -> int:
    if isinstance(said, bool):
        raise ValueError(f"{said!r} is not a whole number")  # noqa: TRY004 - one error for every wrong value
    try:
        return int(str(said))
    except ValueError:
        raise ValueError(f"{said!r} is not a whole number") from None


def _words(said: Any) -> tuple[str, ...]:
    """A list in a file; comma-separated on the command line."""
    words = said.split(",") if isinstance(said, str) else said
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{said!r} is not a list of words")
    return tuple(word.strip() for word in words if word.strip())


def _positive_duration(said: Any) -> timedelta:
    length = said if isinstance(said, timedelta) else duration(str(said), "")
    if length <= timedelta():
        raise ValueError(f"{said!r} is not longer than zero")
    return length


def _positive_span(said: Any) -> Span:
    length = span(str(said), "") if isinstance(said, str) else said
    return NEVER if length is NEVER else _positive_duration(length)
