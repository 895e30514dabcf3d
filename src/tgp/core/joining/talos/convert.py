"""Converts old templates into configs that boot; each change is reported with its line.

Early templates were written for an ordinary Linux: systemd units, files under /etc, one CA instead of two. Such
things stop the boot or are refused, so they are replaced by what Talos has instead. Everything else stays as it was
written. What links the machine to the request that paid for it is always set by tgp: its name, its provider
id, its bootstrap token and the taints it registers with.
"""

import re
from collections.abc import Sequence
from typing import Any

from tgp.core.joining.talos import cri
from tgp.core.joining.talos.generate import HOSTNAME_KIND_SINCE, TAILSCALE_SERVICE
from tgp.core.joining.talos.stream import Document, Path
from tgp.core.joining.talos.tailscale_up_flags import read_up
from tgp.core.joining.talos.template_edit import TemplateEdit, prefix_of
from tgp.core.joining.talos.variables import used
from tgp.core.model.machine_config import ConfigFinding, Severity
from tgp.core.model.talos import TalosVersion

CLOUD_INIT_KEYS = frozenset(
    (
        "bootcmd",
        "chpasswd",
        "disk_setup",
        "fs_setup",
        "growpart",
        "hostname",
        "mounts",
        "ntp",
        "package_update",
        "package_upgrade",
        "packages",
        "power_state",
        "runcmd",
        "ssh_authorized_keys",
        "swap",
        "users",
        "write_files",
        "yum_repos",
        "apt",
    )
)
_ENTRY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_UNITS = re.compile(r"/(?:etc|lib|usr/lib|run)/systemd/")
_STOCK_INSTALLER = re.compile(r"ghcr\.io/siderolabs/installer(?::|@|\Z)")
_OURS_ARGUMENTS = {
    "register-with-taints": "only the taints of the pool are registered",
    "provider-id": "the operator sets the provider id of the node",
    "hostname-override": "the node has its reserved name",
}


def convert(
    documents: Sequence[Document], version: TalosVersion, *, tailscale: bool = True, tunnel: bool = False
) -> TemplateEdit:
    """`tailscale`, `tunnel`: the class's mesh. Errors among the findings: it cannot be converted."""
    draft = TemplateEdit(documents)
    _refuse_cloud_init(draft)
    _refuse_nameless(draft)
    if any(finding.severity is Severity.ERROR for finding in draft.findings):
        return draft
    _top(draft)
    _machine_type(draft)
    _certificates(draft)
    _files(draft, tailscale=tailscale, tunnel=tunnel)
    _systemd(draft, tailscale=tailscale, tunnel=tunnel)
    _labels(draft)
    _install(draft)
    _interfaces(draft)
    _whose_node(draft, version)
    return draft


# ---- what cannot be converted


def _refuse_cloud_init(draft: TemplateEdit) -> None:
    for key in draft.config:
        if key in CLOUD_INIT_KEYS:
            draft.refused(
                (key,),
                "belongs to cloud-init, and Talos has no cloud-init, shell or packages: keep machine and cluster only. "
                "Tailscale comes as a system extension by the class's tailscaleConfig, the kubelet waits for it by "
                "itself, and without machineConfigTemplate the whole config is generated",
            )


def _refuse_nameless(draft: TemplateEdit) -> None:
    """Keys and names that decide the structure must not come from a variable."""
    why = "must be written out: a variable cannot decide the structure"
    for document in draft.others:
        prefix = prefix_of(document)
        for key in ("apiVersion", "kind", "name"):
            if _varies(document.get(key)):
                draft.findings.append(ConfigFinding(draft.lines().get(f"{prefix}.{key}", 0), key, why))
        entries = document.get("environment") if prefix == f"ExtensionServiceConfig/{TAILSCALE_SERVICE}" else None
        for place, entry in enumerate(entries if isinstance(entries, list) else []):
            if not isinstance(entry, str) or not _ENTRY.match(entry):
                where = f"{prefix}.environment[{place}]"
                draft.findings.append(ConfigFinding(draft.lines().get(where, 0), where, "must be NAME=value"))
    for path, key in ((("machine", "network", "interfaces"), "interface"), (("machine", "kernel", "modules"), "name")):
        listed = draft.get(*path)
        for place, item in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(item, dict) and _varies(item.get(key)):
                draft.refused((*path, place, key), why)


def _varies(value: Any) -> bool:
    return isinstance(value, str) and any(True for _ in used(value))


# ---- the old ways


def _top(draft: TemplateEdit) -> None:
    if "persist" in draft.config:
        draft.told(("persist",), "is deprecated and has no effect: left out")
        del draft.config["persist"]
    if draft.config.get("debug") is False:
        draft.told(("debug",), "is off by default: left out")
        del draft.config["debug"]


def _machine_type(draft: TemplateEdit) -> None:
    machine = draft.get("machine")
    if not isinstance(machine, dict):
        return
    kind = machine.get("type")
    if kind in ("", "join"):
        draft.told(("machine", "type"), "join is the old name: changed to worker")
    elif kind not in (None, "worker"):
        draft.refused(("machine", "type"), "must be worker: rented machines never become control planes")
        return
    machine.pop("type", None)


def _certificates(draft: TemplateEdit) -> None:
    path = ("machine", "ca", "crt")
    if draft.get(*path) == "{{.ClusterCA}}":
        draft.put(path, "{{.MachineCA}}")
        message = (
            "{{.ClusterCA}} is the Kubernetes CA: changed to {{.MachineCA}}, the CA "
            "of Talos; the Kubernetes CA is in cluster.ca"
        )
        draft.told(path, message)
    sans = draft.get("machine", "certSANs")
    if isinstance(sans, list) and all(each in ("127.0.0.1", "localhost", "::1") for each in sans):
        draft.told(("machine", "certSANs"), "a worker's certificate already has its own names: left out")
        draft.drop("machine", "certSANs")


def _files(draft: TemplateEdit, *, tailscale: bool, tunnel: bool) -> None:
    files = draft.get("machine", "files")
    if not isinstance(files, list):
        return
    kept: list[tuple[int, Any]] = []
    extra: dict[str, Any] = {}  # of containerd's configuration
    queries: dict[str, str] = {}  # of the Tailscale client's environment
    for place, file in enumerate(files):
        where = ("machine", "files", place)
        name = file.get("path") if isinstance(file, dict) else None
        content = file.get("content") if isinstance(file, dict) else None
        if not isinstance(name, str) or not isinstance(content, str):
            kept.append((place, file))
        elif name.startswith("/etc/tailscale/") or name == "/etc/default/tailscaled":
            draft.told(where, f"{name} would stop the boot: {_instead_of_key(tailscale=tailscale)}")
        elif _UNITS.match(name) and "tailscale" in name + content:
            asked = read_up(content)
            queries |= asked.environment
            told = f"{name} would stop the boot, Talos has no systemd: {_instead_of_unit(tailscale=tailscale)}"
            draft.told(where, f"{told}{asked.told() if tailscale else ''}")
        elif tunnel and (name.startswith("/etc/wireguard/") or (_UNITS.match(name) and "wg-quick" in name + content)):
            draft.told(where, f"{name} would stop the boot: replaced by the tunnel of the class's wireGuardConfig")
        elif name.startswith(cri.PARTS) and name != cri.CUSTOMIZATION and name.endswith((".part", ".toml")):
            _part(draft, where, name, content, extra)
        else:
            kept.append((place, file))
    draft.files_from = [place for place, _ in kept]
    left = [file for _, file in kept]
    if extra:
        _customize(left, extra)
    if left:
        draft.put(("machine", "files"), left)
    else:
        draft.drop("machine", "files")
    if tailscale and queries:
        _query(draft, queries)


def _instead_of_key(*, tailscale: bool) -> str:
    if not tailscale:
        return "left out, the class's mesh is not Tailscale"
    return "the extension gets the key, as TS_AUTHKEY in the ExtensionServiceConfig tailscale"


def _instead_of_unit(*, tailscale: bool) -> str:
    if not tailscale:
        return "left out, the class's mesh is not Tailscale"
    return "the extension siderolabs/tailscale runs it, configured by its ExtensionServiceConfig"


def _part(draft: TemplateEdit, where: Path, name: str, content: str, extra: dict[str, Any]) -> None:
    """A fragment with a file name that Talos does not merge."""
    try:
        more = cri.without_nvidia(content)
    except cri.NotToml:
        draft.refused((*where, "content"), f"{name} is not valid TOML; and only {cri.CUSTOMIZATION} is merged")
        return
    if not more:
        draft.told(where, f"{name} would stop the boot: left out, NVIDIA's extension registers the runtime")
        return
    if any(cri.conflicts(extra, more)):
        draft.refused(where, f"{name} contradicts another part: put both into {cri.CUSTOMIZATION}")
        return
    extra.update(cri.merged(extra, more))
    draft.told(
        where, f"{name} would stop the boot: its settings besides the runtime nvidia were moved to the customization"
    )


def _customize(left: list[Any], extra: dict[str, Any]) -> None:
    for file in left:
        if isinstance(file, dict) and file.get("path") == cri.CUSTOMIZATION and isinstance(file.get("content"), str):
            try:
                own = cri.without_nvidia(file["content"])
            except cri.NotToml:
                return  # reported by the check of the result
            file["content"] = cri.write_toml(cri.merged(extra, own))
            return
    # 1.14 has a document for it, and reads this as well; the first 1.14s read only this.
    content = cri.write_toml(extra)
    left.append({"content": content, "permissions": 0o644, "path": cri.CUSTOMIZATION, "op": "create"})


def _query(draft: TemplateEdit, queries: dict[str, str]) -> None:
    """As a document of the template: the template's own values win."""
    document = draft.other("ExtensionServiceConfig", TAILSCALE_SERVICE)
    listed = [f"{name}={value}" for name, value in queries.items()]
    if document is None:
        said = {"apiVersion": "v1alpha1", "kind": "ExtensionServiceConfig", "name": TAILSCALE_SERVICE}
        draft.others.append({**said, "environment": listed})
        return
    own = document.get("environment")
    document["environment"] = listed + (own if isinstance(own, list) else [])


def _systemd(draft: TemplateEdit, *, tailscale: bool, tunnel: bool) -> None:
    section = draft.get("machine", "systemd")
    if section is None:
        return
    services = section.get("services") if isinstance(section, dict) else None
    for place, service in enumerate(services if isinstance(services, list) else []):
        name = service.get("name") if isinstance(service, dict) else None
        known = isinstance(name, str) and ("tailscale" in name or (tunnel and "wg-quick" in name))
        if not known:
            draft.refused(
                ("machine", "systemd", "services", place),
                "Talos has no systemd: replace this service by a system extension or a DaemonSet",
            )
    draft.told(("machine", "systemd"), f"does not exist, Talos has no systemd: {_instead_of_unit(tailscale=tailscale)}")
    draft.drop("machine", "systemd")


def _labels(draft: TemplateEdit) -> None:
    path = ("machine", "nodeLabels", "node.kubernetes.io/instance-type")
    if draft.get(*path) == "gpu":
        draft.told(path, "gpu is not an instance type: replaced by the machine's own")
        draft.drop(*path)


def _install(draft: TemplateEdit) -> None:
    image = draft.get("machine", "install", "image")
    if isinstance(image, str) and _STOCK_INSTALLER.match(image):
        path = ("machine", "install", "image")
        draft.told(
            path, "the stock installer has no extensions: replaced by the image factory's, with those the node needs"
        )
        draft.drop(*path)
    if draft.get("machine", "install", "extensions") is not None:
        path = ("machine", "install", "extensions")
        draft.told(path, "is deprecated: left out, list extensions in talosConfig.extensions of the class")
        draft.drop(*path)


def _interfaces(draft: TemplateEdit) -> None:
    interfaces = draft.get("machine", "network", "interfaces")
    for place, interface in enumerate(interfaces if isinstance(interfaces, list) else []):
        if isinstance(interface, dict) and isinstance(interface.get("cidr"), str) and "addresses" not in interface:
            interface["addresses"] = [interface.pop("cidr")]
            draft.told(("machine", "network", "interfaces", place, "cidr"), "is deprecated: changed to addresses")


# ---- whose node it is


def _whose_node(draft: TemplateEdit, version: TalosVersion) -> None:
    _hostname(draft, version)
    _ours(draft, ("machine", "kubelet", "extraConfig", "providerID"), None, _OURS_ARGUMENTS["provider-id"])
    taints = _OURS_ARGUMENTS["register-with-taints"]
    _ours(draft, ("machine", "kubelet", "extraConfig", "registerWithTaints"), None, taints)
    for name, why in _OURS_ARGUMENTS.items():
        _ours(draft, ("machine", "kubelet", "extraArgs", name), None, why)
    _ours(draft, ("machine", "kubelet", "registerWithFQDN"), False, _OURS_ARGUMENTS["hostname-override"])
    _ours(draft, ("machine", "kubelet", "skipNodeRegistration"), False, "a node that does not register never joins")
    _ours(draft, ("machine", "nodeTaints"), None, f"a worker may not set taints later; {taints}")
    _ours(draft, ("cluster", "token"), "{{.ClusterToken}}", "each node gets a bootstrap token of its own")


def _ours(draft: TemplateEdit, path: tuple[str, ...], same: Any, why: str) -> None:
    """Replaces a value that tgp sets, and reports it if it was different."""
    said = draft.drop(*path)
    if said is not None and said != same:
        draft.told(path, f"{why}: left out")


def _hostname(draft: TemplateEdit, version: TalosVersion) -> None:
    name = _OURS_ARGUMENTS["hostname-override"]
    _ours(draft, ("machine", "network", "hostname"), "{{.NodeName}}", name)
    document = draft.other("HostnameConfig")
    if document is not None:
        if document.get("hostname") != "{{.NodeName}}":
            line = draft.line_of_other("HostnameConfig")
            draft.told(("HostnameConfig",), f"{name}: left out", line=line)
        draft.remove_other("HostnameConfig")
    if version.minor >= HOSTNAME_KIND_SINCE:
        _ours(draft, ("machine", "features", "stableHostname"), False, name)
