"""`make manifests`: writes what users install from its sources, so that each is said once.

The chart's roles and policy come from `deploy/rbac` and `deploy/policy`, its kinds from the types, its values from the
table below and that of the operator's settings, and `deploy/install.yaml` from the chart. Tests compare all of them.
"""

import io
import json
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tgp.api.crds import as_yaml, crd, file_name
from tgp.api.kinds import KINDS, Kind
from tgp.api.values import DURATION
from tgp.app.settings import BACKENDS, TABLE, Setting
from tgp.core.power.node_groups import PARTS as GROUP_PARTS
from tgp.services.shipped import documents
from tools import toolbox
from tools.controlplane.helm import Helm
from tools.dashboard import dashboard

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "charts" / "tgp-operator"
KINDS_CHART = ROOT / "deploy" / "charts" / "tgp-crds"
INSTALL = ROOT / "deploy" / "install.yaml"
RIGHTS = ROOT / "src" / "tgp" / "services" / "operator_rights.json"  # for the operator itself
PAGE = ROOT / "docs" / "values.md"
NAMESPACE = "tgp-system"  # as deploy/rbac has it; the chart takes any other
OLDEST = "1.28.0"  # install.yaml is for every Kubernetes that the chart is for
WIDTH = 118
MADE = "Made by `make manifests`; do not edit."

# Settings that are no values: three follow from the pod, and without the Lease two replicas would buy everything twice.
ELSEWHERE = {"networking.backend"}  # values of their own, named as in other charts
NOT_IN_A_POD = {"kubeconfig", "context", "namespace", "leaderElect"}

LABELS = '{{- include "tgp-operator.labels" . | nindent 4 }}'
OUR_NAMESPACE = "{{ .Release.Namespace }}"
MUTATING = '{{- if semverCompare ">=1.36-0" .Capabilities.KubeVersion.Version }}\n'
POLICIES = '{{- if and .Values.policies.enabled (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) }}\n'

INSTALL_HEAD = """# The operator, its kinds and its rights: kubectl apply --server-side -f deploy/install.yaml
# Made by `make manifests` from deploy/charts/tgp-operator; do not edit.
apiVersion: v1
kind: Namespace
metadata:
  name: tgp-system
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the chart that is not told by the table of settings."""

    key: str
    default: Any
    doc: str
    schema: Mapping[str, Any] = field(default_factory=dict)  # beyond its type


NAMES = {"items": {"type": "string"}}
OBJECTS = {"items": {"type": "object"}}
GROUPS = {
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": sorted(GROUP_PARTS.values()),
        "properties": {
            part: {"type": ["integer", "string"] if part == "gpuCount" else "string"} for part in GROUP_PARTS.values()
        },
    }
}
VALUES = (
    Value("replicas", 2, "Pods: one acts, the others take over when it is gone.", {"minimum": 1}),
    Value("image.repository", "tgp-operator", "Where you pushed the image that the Dockerfile builds."),
    Value("image.tag", "", "Empty: the version of the chart."),
    Value("image.digest", "", "sha256:…; given, the tag is not used."),
    Value(
        "image.pullPolicy",
        "IfNotPresent",
        "When the kubelet asks the registry.",
        {"enum": ["Always", "IfNotPresent", "Never"]},
    ),
    Value("image.pullSecrets", [], "Names of Secrets for the registry.", NAMES),
    Value(
        "secretName",
        "tgp-operator-secret",
        "The Secret with your API keys. You create it; the notes after an install say which keys it has. Classes use "
        "tgp-operator-secret unless they name another.",
    ),
    Value(
        "networking.backend",
        "",
        f"Mesh for classes that configure none: {', '.join(BACKENDS)}.",
        {"enum": ["", *BACKENDS]},
    ),
    Value(
        "networking.tailscale.operatorEnabled",
        False,
        "With the backend tailscale: the Tailscale operator exposes the API server to rented machines. The notes after "
        "an install say what is missing for that.",
    ),
    Value(
        "nodeGroups",
        [],
        "Machines you own: name, gpuCount, scaleUpEndpoint and scaleDownEndpoint of each. They become the class and "
        "the pool power-nodes.",
        GROUPS,
    ),
    Value(
        "priorityClassName",
        "system-cluster-critical",
        "Empty where the cluster refuses this class outside of kube-system, as GKE does without a ResourceQuota.",
    ),
    Value(
        "resources",
        {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "Of each pod. It takes some 75 MiB when idle, and more with every pod, offer and machine it watches.",
    ),
    Value("nodeSelector", {}, "Labels of the nodes it may run on; it never runs on a machine that it rented."),
    Value(
        "tolerations",
        [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}],
        "Where all workers are rented, only the control plane is left to run on.",
        OBJECTS,
    ),
    Value(
        "policies.enabled",
        True,
        "From Kubernetes 1.30 on: in kube-system the operator may write bootstrap tokens and no other Secret, of pods "
        "it may change what budgets need and nothing else, budgets may deny new pods, and uninstalling is refused "
        "while machines cost money. From 1.36 on: budgets may gate new pods.",
    ),
    Value("serviceMonitor.enabled", True, "A ServiceMonitor where the cluster knows that kind."),
    Value("serviceMonitor.labels", {}, "Labels by which your Prometheus selects it."),
    Value("serviceMonitor.interval", "30s", "How often metrics are scraped."),
    Value(
        "serviceMonitor.tokenSecret",
        {},
        "name and key of a Secret with the token that Prometheus sends; empty: the token of its own pod. Its account "
        "needs the ClusterRole tgp-metrics-reader.",
    ),
    Value(
        "serviceMonitor.tlsConfig",
        {},
        "How Prometheus verifies the certificate; empty: by ConfigMap tgp-operator-ca, for the name of the Service.",
    ),
    Value("prometheusRule.enabled", True, "Alerts as a PrometheusRule where the cluster knows that kind."),
    Value("prometheusRule.labels", {}, "Labels by which your Prometheus selects it."),
    Value("dashboards.enabled", False, "A Grafana dashboard in a ConfigMap, for a sidecar that looks for such."),
    Value("dashboards.labels", {"grafana_dashboard": "1"}, "Labels by which the sidecar finds it."),
    Value("networkPolicy.enabled", False, "A NetworkPolicy that allows only what follows."),
    Value(
        "networkPolicy.ports",
        [443, 6443],
        "TCP ports it may connect to: the API server, providers, mesh, image factory.",
        {"items": {"type": "integer"}},
    ),
    Value("networkPolicy.egress", [], "Further egress rules, for example to machines that you own.", OBJECTS),
    Value(
        "networkPolicy.scrapeFrom",
        [],
        "Peers that may connect to HTTPS, by which metrics are read; none given: all in the cluster. With any given, "
        "name the API servers, too: `tgp offers` comes through them.",
        OBJECTS,
    ),
    Value(
        "settings.listen",
        "0.0.0.0:8081",
        "host:port for the probes /healthz and /readyz, which follow the port",
        {"pattern": ".:[0-9]+$"},
    ),
    Value(
        "settings.metrics.listen",
        "",
        "host:port on loopback for /metrics without TLS and tokens, for a container beside it; empty: none",
        {"pattern": r"^$|^(127\.[0-9.]+|localhost|\[::1\]):[0-9]+$"},
    ),
    Value(
        "settings.https.listen",
        "0.0.0.0:8443",
        "host:port for /metrics and the HTTP API by HTTPS, which the Service follows; empty: neither is served",
        {"pattern": "^$|.:[0-9]+$"},
    ),
)


def main() -> int:
    for path, text in generated().items():  # first: the chart is rendered with them
        _write(path, text)
    with tempfile.TemporaryDirectory() as home:
        _write(INSTALL, install(Helm(toolbox.find(toolbox.HELM_CLIENT), Path(home))))
    return 0


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))


def generated() -> dict[Path, str]:
    """What can be written without Helm, by its path."""
    return {
        **{CHART / "crds" / file_name(kind): as_yaml(crd(kind)) for kind in KINDS if not kind.optional},
        **{KINDS_CHART / "templates" / file_name(kind): kept(kind) for kind in KINDS if not kind.optional},
        CHART / "files" / "dashboard.json": dashboard(),
        RIGHTS: json.dumps(list(documents(ROOT / "deploy" / "rbac" / "operator.yaml")), indent=1) + "\n",
        CHART / "values.yaml": values_file(),
        CHART / "values.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
        CHART / "templates" / "rbac.yaml": template(ROOT / "deploy" / "rbac"),
        CHART / "templates" / "policy.yaml": POLICIES + template(ROOT / "deploy" / "policy") + "{{- end }}\n",
        PAGE: page(),
    }


def install(helm: Helm) -> str:
    """The chart with its default values in one file."""
    return INSTALL_HEAD + helm(
        "template",
        "tgp-operator",
        str(CHART),
        f"--namespace={NAMESPACE}",
        "--include-crds",
        "--no-hooks",
        f"--kube-version={OLDEST}",
    )


def kept(kind: Kind) -> str:
    """A kind as a template of its own chart: braces in descriptions are for readers, and Helm never deletes it."""
    definition = crd(kind)
    definition["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    text = re.sub(r"\{\{|\}\}", lambda found: '{{ "' + found.group() + '" }}', as_yaml(definition))
    return f"# {MADE}\n{text}"


# Roles and policy: the text of the manifests, with the namespace and our labels filled in by Helm


def template(folder: Path) -> str:
    """All manifests of a folder but the Namespace, which Helm makes itself."""
    documents = [text for path in sorted(folder.glob("*.yaml")) for text in _documents(path.read_text("utf-8"))]
    return f"# {MADE} Written in deploy/{folder.name}.\n" + "---\n".join(
        _templated(text) for text in documents if "\nkind: Namespace\n" not in text
    )


def _documents(text: str) -> list[str]:
    return [f"{part.strip()}\n" for part in re.split(r"^---\n", text, flags=re.MULTILINE)]


def _templated(text: str) -> str:
    text = text.replace(NAMESPACE, OUR_NAMESPACE)
    text = text.replace("resourceNames: [tgp-operator]", 'resourceNames: [{{ include "tgp-operator.lease" . }}]')
    text = text.replace("RELEASE REVISION", "{{ .Release.Name }} {{ .Release.Revision }}")
    if "\n  labels:\n" in text:
        return text.replace("\n  labels:\n", f"\n  labels:\n    {LABELS}\n", 1)
    text = re.sub(r"^(metadata:\n  name: .*\n)", rf"\1  labels:\n    {LABELS}\n", text, count=1, flags=re.MULTILINE)
    return f"{MUTATING}{text}{{{{- end }}}}\n" if "\nkind: MutatingAdmissionPolicy" in text else text


# Values: from the table above and the operator's own


def settings() -> list[Setting]:
    """Those whose default holds in a pod as well."""
    told = {*NOT_IN_A_POD, *ELSEWHERE, *(value.key.removeprefix("settings.") for value in VALUES)}
    return [setting for setting in TABLE if setting.key not in told]


def schema() -> dict[str, Any]:
    """Unknown keys are refused, so that a misspelt limit is not silently none; `global` is what Helm adds to all."""
    root = _closed()
    for value in VALUES:
        _place(root, value.key, {**_of_default(value.default), **value.schema, "description": value.doc})
    for setting in settings():
        _place(root, f"settings.{setting.key}", _of_setting(setting))
    root["properties"]["settings"]["required"] = ["listen"]  # probes ask there
    root["properties"]["settings"]["properties"]["https"]["required"] = ["listen"]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": MADE,
        **root,
        "properties": {**root["properties"], "global": {"type": "object"}},
    }


def _closed() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _place(root: dict[str, Any], key: str, leaf: Mapping[str, Any]) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        root = root["properties"].setdefault(parent, _closed())
    root["properties"][last] = leaf


def _of_default(default: Any) -> dict[str, Any]:
    types = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    return {"type": types[type(default)]}


def _of_setting(setting: Setting) -> dict[str, Any]:
    """What YAML must hold there; bounds and contradictions are found by the operator itself."""
    told = {"description": setting.doc}
    if setting.choices:
        return {"type": "string", "enum": list(setting.choices), **told}
    if setting.kind is timedelta:
        return {"type": "string", "pattern": f"^Never$|{DURATION}" if setting.or_never else DURATION, **told}
    if setting.kind is tuple:
        return {"type": "array", "items": {"type": "string"}, **told}
    return {**_of_default(setting.default), **told}


def values_file() -> str:
    """As people read and copy it: each value under its doc."""
    tree: dict[str, Any] = {}
    for value in VALUES:
        *parents, last = value.key.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[last] = value
    return "\n".join((f"# {MADE} Every value and setting: docs/values.md", "", *_lines(tree, "")))


def _lines(tree: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, below in tree.items():
        if not isinstance(below, Value):
            if key == "settings":
                yield "# The operator's own settings; those that are not here have their default."
            yield f"{indent}{key}:"
            yield from _lines(below, indent + "  ")
        else:
            yield from (
                f"{indent}# {line}" for line in textwrap.wrap(below.doc, WIDTH - len(indent), break_on_hyphens=False)
            )
            yield textwrap.indent(_yaml({key: below.default}), indent).rstrip("\n")
        if not indent:
            yield ""


def _yaml(document: Mapping[str, Any]) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel annotates it as None
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(dict(document), text)
    return text.getvalue()


# Page for readers


def page() -> str:
    rows = [f"| `{value.key}` | {_shown(value.default)} | {_cell(value.doc)} |" for value in VALUES]
    rows += [f"| `settings.{row.key}` | {_shown(row.shown_default)} | {_cell(row.doc)} |" for row in settings()]
    return "\n".join(
        (
            "# Values of the chart",
            "",
            f"{MADE} How to install: [install.md](install.md). A key that is not here is refused.",
            "Values under `settings` are the operator's settings, explained in [operator.md](operator.md).",
            "",
            "| value | default | what it does |",
            "|---|---|---|",
            *rows,
            "",
        )
    )


def _shown(default: Any) -> str:
    if default in ("", [], {}, ()):
        return ""
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _cell(doc: str) -> str:
    return doc.removesuffix(".").replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
