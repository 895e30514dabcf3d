"""Old templates, changed into what really boots; each change is told with the line it was made for.

Early users wrote their templates for a Linux that Talos is not: systemd units, files under /etc, one CA for two. Such
things stop the boot or are refused outright, so they become what Talos has instead. Everything else stays as it was
written. What would make the machine another node than the one that was paid for is always ours: its name, its provider
id, its bootstrap token and the taints it registers with.
"""

import re
from collections.abc import Sequence
from typing import Any

from tgp.core.model.machine_config import Finding, Severity
from tgp.core.model.talos import TalosVersion
from tgp.core.rules.talos import cri
from tgp.core.rules.talos.draft import Draft, prefix_of
from tgp.core.rules.talos.generate import HOSTNAME_KIND_SINCE, TAILSCALE_SERVICE
from tgp.core.rules.talos.stream import Document, Path
from tgp.core.rules.talos.up_flags import read_up
from tgp.core.rules.talos.variables import used

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
    "register-with-taints": "the taints of the pool are registered, and no others",
    "provider-id": "the operator gives the node its provider id",
    "hostname-override": "the node has the name that was reserved for it",
}


def convert(
    documents: Sequence[Document], version: TalosVersion, *, tailscale: bool = True, tunnel: bool = False
) -> Draft:
    """`tailscale`, `tunnel`: what the class's mesh is. Errors among the findings: no config can be made of it."""
    draft = Draft(documents)
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


def _refuse_cloud_init(draft: Draft) -> None:
    for key in draft.config:
        if key in CLOUD_INIT_KEYS:
            draft.refused(
                (key,),
                "belongs to cloud-init, and Talos has no cloud-init, shell or packages: keep machine and cluster only. "
                "Tailscale comes as a system extension by the class's tailscaleConfig, the kubelet waits for it by "
                "itself, and without machineConfigTemplate the whole config is generated",
            )


def _refuse_nameless(draft: Draft) -> None:
    """Where names decide what belongs together, a value must not: it would decide the structure."""
    why = "must be written out: a variable cannot decide which part of the config this is"
    for document in draft.others:
        prefix = prefix_of(document)
        for key in ("apiVersion", "kind", "name"):
            if _varies(document.get(key)):
                draft.findings.append(Finding(draft.lines().get(f"{prefix}.{key}", 0), key, why))
        entries = document.get("environment") if prefix == f"ExtensionServiceConfig/{TAILSCALE_SERVICE}" else None
        for place, entry in enumerate(entries if isinstance(entries, list) else []):
            if not isinstance(entry, str) or not _ENTRY.match(entry):
                where = f"{prefix}.environment[{place}]"
                draft.findings.append(Finding(draft.lines().get(where, 0), where, "must be NAME=value"))
    for path, key in ((("machine", "network", "interfaces"), "interface"), (("machine", "kernel", "modules"), "name")):
        listed = draft.get(*path)
        for place, item in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(item, dict) and _varies(item.get(key)):
                draft.refused((*path, place, key), why)


def _varies(value: Any) -> bool:
    return isinstance(value, str) and any(True for _ in used(value))


# ---- the old ways


def _top(draft: Draft) -> None:
    if "persist" in draft.config:
        draft.told(("persist",), "is deprecated and changes nothing: left out")
        del draft.config["persist"]
    if draft.config.get("debug") is False:
        draft.told(("debug",), "is off anyway: left out")
        del draft.config["debug"]


def _machine_type(draft: Draft) -> None:
    machine = draft.get("machine")
    if not isinstance(machine, dict):
        return
    kind = machine.get("type")
    if kind in ("", "join"):
        draft.told(("machine", "type"), "join is the old word: it is worker")
    elif kind not in (None, "worker"):
        draft.refused(("machine", "type"), "must be worker: rented machines never become control planes")
        return
    machine.pop("type", None)


def _certificates(draft: Draft) -> None:
    path = ("machine", "ca", "crt")
    if draft.get(*path) == "{{.ClusterCA}}":
        draft.put(path, "{{.MachineCA}}")
        message = "{{.ClusterCA}} is the Kubernetes CA: here it is {{.MachineCA}}, Talos's own; the other is cluster.ca"
        draft.told(path, message)
    sans = draft.get("machine", "certSANs")
    if isinstance(sans, list) and all(each in ("127.0.0.1", "localhost", "::1") for each in sans):
        draft.told(("machine", "certSANs"), "a worker's certificate names itself already: left out")
        draft.drop("machine", "certSANs")


def _files(draft: Draft, *, tailscale: bool, tunnel: bool) -> None:
    files = draft.get("machine", "files")
    if not isinstance(files, list):
        return
    kept: list[tuple[int, Any]] = []
    extra: dict[str, Any] = {}  # of containerd's configuration
    wishes: dict[str, str] = {}  # of the Tailscale client's environment
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
            wishes |= asked.environment
            told = f"{name} would stop the boot, Talos has no systemd: {_instead_of_unit(tailscale=tailscale)}"
            draft.told(where, f"{told}{asked.told() if tailscale else ''}")
        elif tunnel and (name.startswith("/etc/wireguard/") or (_UNITS.match(name) and "wg-quick" in name + content)):
            draft.told(where, f"{name} would stop the boot: the tunnel comes from the class's wireGuardConfig")
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
    if tailscale and wishes:
        _wish(draft, wishes)


def _instead_of_key(*, tailscale: bool) -> str:
    if not tailscale:
        return "left out, the class's mesh is not Tailscale"
    return "the key goes to the extension, as TS_AUTHKEY in the ExtensionServiceConfig tailscale"


def _instead_of_unit(*, tailscale: bool) -> str:
    if not tailscale:
        return "left out, the class's mesh is not Tailscale"
    return "the extension siderolabs/tailscale runs it, as its ExtensionServiceConfig says"


def _part(draft: Draft, where: Path, name: str, content: str, extra: dict[str, Any]) -> None:
    """A fragment under a name that Talos does not merge."""
    try:
        more = cri.without_nvidia(content)
    except cri.NotToml:
        draft.refused((*where, "content"), f"{name} is no TOML; and only {cri.CUSTOMIZATION} would be merged")
        return
    if not more:
        draft.told(where, f"{name} would stop the boot: left out, NVIDIA's extension registers the runtime by itself")
        return
    if any(cri.conflicts(extra, more)):
        draft.refused(where, f"{name} contradicts another part: put both into {cri.CUSTOMIZATION}")
        return
    extra.update(cri.merged(extra, more))
    draft.told(where, f"{name} would stop the boot: what it says besides the runtime nvidia went to the customization")


def _customize(left: list[Any], extra: dict[str, Any]) -> None:
    for file in left:
        if isinstance(file, dict) and file.get("path") == cri.CUSTOMIZATION and isinstance(file.get("content"), str):
            try:
                own = cri.without_nvidia(file["content"])
            except cri.NotToml:
                return  # told by the check of the result
            file["content"] = cri.write_toml(cri.merged(extra, own))
            return
    # 1.14 has a document for it, and reads this as well; the first 1.14s read only this.
    content = cri.write_toml(extra)
    left.append({"content": content, "permissions": 0o644, "path": cri.CUSTOMIZATION, "op": "create"})


def _wish(draft: Draft, wishes: dict[str, str]) -> None:
    """As a document of the template: what it says itself comes first."""
    document = draft.other("ExtensionServiceConfig", TAILSCALE_SERVICE)
    listed = [f"{name}={value}" for name, value in wishes.items()]
    if document is None:
        said = {"apiVersion": "v1alpha1", "kind": "ExtensionServiceConfig", "name": TAILSCALE_SERVICE}
        draft.others.append({**said, "environment": listed})
        return
    own = document.get("environment")
    document["environment"] = listed + (own if isinstance(own, list) else [])


def _systemd(draft: Draft, *, tailscale: bool, tunnel: bool) -> None:
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
                "Talos has no systemd: what this service does needs a system extension, or a DaemonSet",
            )
    draft.told(("machine", "systemd"), f"does not exist, Talos has no systemd: {_instead_of_unit(tailscale=tailscale)}")
    draft.drop("machine", "systemd")


def _labels(draft: Draft) -> None:
    path = ("machine", "nodeLabels", "node.kubernetes.io/instance-type")
    if draft.get(*path) == "gpu":
        draft.told(path, "gpu is no instance type: the machine's own is set")
        draft.drop(*path)


def _install(draft: Draft) -> None:
    image = draft.get("machine", "install", "image")
    if isinstance(image, str) and _STOCK_INSTALLER.match(image):
        path = ("machine", "install", "image")
        draft.told(
            path, "the stock installer holds no extensions: the image factory's is used, with those the node needs"
        )
        draft.drop(*path)
    if draft.get("machine", "install", "extensions") is not None:
        path = ("machine", "install", "extensions")
        draft.told(path, "is deprecated: left out, extensions are named in talosConfig.extensions of the class")
        draft.drop(*path)


def _interfaces(draft: Draft) -> None:
    interfaces = draft.get("machine", "network", "interfaces")
    for place, interface in enumerate(interfaces if isinstance(interfaces, list) else []):
        if isinstance(interface, dict) and isinstance(interface.get("cidr"), str) and "addresses" not in interface:
            interface["addresses"] = [interface.pop("cidr")]
            draft.told(("machine", "network", "interfaces", place, "cidr"), "is deprecated: it became addresses")


# ---- whose node it is


def _whose_node(draft: Draft, version: TalosVersion) -> None:
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


def _ours(draft: Draft, path: tuple[str, ...], same: Any, why: str) -> None:
    """Takes out what is ours to say, and tells it unless it said the same."""
    said = draft.drop(*path)
    if said is not None and said != same:
        draft.told(path, f"{why}: left out")


def _hostname(draft: Draft, version: TalosVersion) -> None:
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
