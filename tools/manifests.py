"""`make manifests`: writes what users install from its sources, so that each is said once.

Rights and policies are written in the chart's templates. Its kinds come from the types, its values from the table below
and that of the operator's settings. The files of `deploy/` that are applied without Helm are rendered from the chart,
and what the wheel carries of rights and policies is read from those. Tests compare all of them.
"""

import io
import json
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
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
from tgp.services.shipped import BUDGET_POLICIES, OPERATOR_RIGHTS, documents
from tools import kind_policies, toolbox
from tools.controlplane.helm import Helm
from tools.dashboard import dashboard

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "charts" / "tgp-operator"
KINDS_CHART = ROOT / "deploy" / "charts" / "tgp-crds"
INSTALL = ROOT / "deploy" / "install.yaml"
DIST = ROOT / "dist"
RIGHTS = ROOT / "deploy" / "rights.yaml"
POLICIES = ROOT / "deploy" / "policies.yaml"
CARRIED = ROOT / "src" / "tgp" / "services"  # by the wheel, for the operator itself and the embedded world
PAGE = ROOT / "docs" / "values.md"
NAMESPACE = "tgp-system"  # in rendered files; the chart takes any other
OLDEST = "1.28.0"  # install.yaml is for every Kubernetes that the chart is for
NEWEST = "1.36.0"  # the first that knows every kind of policy
WIDTH = 118
MADE = "Made by `make manifests`; do not edit."

# Settings that are no values: three follow from the pod, and without the Lease two replicas would buy everything twice.
ELSEWHERE = {"networking.backend"}  # values of their own, named as in other charts
NOT_IN_A_POD = {"kubeconfig", "context", "namespace", "leaderElect"}

HEAD = """# {what}: kubectl apply {how}-f {name}
# Made by `make manifests` from deploy/charts/tgp-operator; do not edit.
"""
OUR_NAMESPACE = """apiVersion: v1
kind: Namespace
metadata:
  name: tgp-system
"""
RESTRICTED = """  labels:
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
STRINGS = {"additionalProperties": {"type": "string"}}  # a label that is a number is refused by the API server
URL = {"type": "string", "pattern": "^https?://."}
GROUPS = {
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": sorted(GROUP_PARTS.values()),
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "gpuCount": {"type": ["integer", "string"], "minimum": 1, "pattern": "^[1-9][0-9]*$"},
            "scaleUpEndpoint": URL,
            "scaleDownEndpoint": URL,
        },
    }
}
VALUES = (
    Value("replicas", 2, "Pods: one acts, the others take over when it is gone.", {"minimum": 1}),
    Value(
        "image.repository", "tgp-operator", "Where you pushed the image that the Dockerfile builds.", {"minLength": 1}
    ),
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
        "networking.backend",
        "",
        f"Mesh for classes that configure none: {', '.join(BACKENDS)}.",
        {"enum": ["", *BACKENDS]},
    ),
    Value(
        "networking.tailscale.operatorEnabled",
        False,
        "The Tailscale operator exposes the API server to rented machines. The notes after an install and `tgp check` "
        "say what is missing for that.",
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
        {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "Of each pod. It takes 55 MB when idle, 67 MB with a price list (`make bench NAME=startup`), and 119 MB while "
        "200 machines are ordered at once (`make bench NAME=burst`).",
    ),
    Value("nodeSelector", {}, "Labels of the nodes it may run on; it never runs on a machine that it rented.", STRINGS),
    Value(
        "affinity",
        {},
        "Node and pod affinity of its pods. To each term for nodes the chart adds that it is not a machine that the "
        "operator rented.",
    ),
    Value(
        "tolerations",
        [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}],
        "Where all workers are rented, only the control plane is left to run on.",
        OBJECTS,
    ),
    Value("commonLabels", {}, "Labels of every object, the pods' too.", STRINGS),
    Value("podLabels", {}, "Labels of its pods.", STRINGS),
    Value("podAnnotations", {}, "Annotations of its pods.", STRINGS),
    Value(
        "policies.enabled",
        True,
        "From Kubernetes 1.30 on: in kube-system the operator may write bootstrap tokens and no other Secret, of pods "
        "it may change what budgets need and nothing else, budgets may deny new pods, and uninstalling is refused "
        "while machines cost money; classes, pools and requests are refused that the operator would not accept, and "
        "removing its finalizer from a machine that costs money is warned about. From 1.36 on: budgets may gate new "
        "pods.",
    ),
    Value(
        "policies.requireUse",
        False,
        "With the policies: pools and requests may be written only by users with the verb use on the GPUNodeClass that "
        "they name, and a request has to name one.",
    ),
    Value("serviceMonitor.enabled", True, "A ServiceMonitor where the cluster knows that kind."),
    Value("serviceMonitor.labels", {}, "Labels by which your Prometheus selects it.", STRINGS),
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
    Value("prometheusRule.labels", {}, "Labels by which your Prometheus selects it.", STRINGS),
    Value("dashboards.enabled", False, "A Grafana dashboard in a ConfigMap, for a sidecar that looks for such."),
    Value("dashboards.labels", {"grafana_dashboard": "1"}, "Labels by which the sidecar finds it.", STRINGS),
    Value("networkPolicy.enabled", False, "A NetworkPolicy that allows only what follows."),
    Value(
        "networkPolicy.ports",
        [443, 6443],
        "TCP ports it may connect to: the API server, providers, mesh, image factory. Those of the endpoints in "
        "nodeGroups are added.",
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


def main(arguments: Sequence[str] = ()) -> int:
    """`installer [IMAGE]`: dist/install.yaml alone; else everything that is checked in."""
    with tempfile.TemporaryDirectory() as home:
        helm = Helm(toolbox.find(toolbox.HELM_CLIENT), Path(home))
        if arguments:
            _, *image = arguments
            _write({DIST / INSTALL.name: installer(helm, "".join(image), DIST.name)})
            return 0
        _write(generated())  # first: the chart is rendered with them
        _write(rendered(helm))
    _write(carried())
    return 0


def _write(files: Mapping[Path, str]) -> None:
    for path, text in files.items():
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
        CHART / "templates" / "policy" / "kinds.yaml": kind_policies.template(),
        CHART / "values.yaml": values_file(),
        CHART / "values.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
        PAGE: page(),
    }


def rendered(helm: Helm) -> dict[Path, str]:
    """What is applied without Helm: the chart with its default values, all of it or a part."""
    rights = HEAD.format(
        what="Namespace, account and rights of the operator, roles for users", how="", name="deploy/rights.yaml"
    )
    policies = HEAD.format(what="Admission policies, from Kubernetes 1.30 on", how="", name="deploy/policies.yaml")
    return {
        INSTALL: installer(helm),
        RIGHTS: rights + OUR_NAMESPACE + _rendered(helm, OLDEST, "--show-only=templates/rbac/*.yaml"),
        POLICIES: policies + _rendered(helm, NEWEST, "--show-only=templates/policy/*.yaml"),
    }


def installer(helm: Helm, image: str = "", folder: str = "deploy") -> str:
    """One file that installs everything. `image`: where it was pushed, with its tag; empty: the chart's own name."""
    whole = HEAD.format(
        what="The operator, its kinds and its rights", how="--server-side ", name=f"{folder}/{INSTALL.name}"
    )
    repository, _, tag = image.rpartition(":") if ":" in image.rpartition("/")[2] else (image, "", "")
    chosen = (f"--set-string=image.repository={repository},image.tag={tag}",) if image else ()
    return whole + OUR_NAMESPACE + RESTRICTED + _rendered(helm, OLDEST, "--include-crds", "--no-hooks", *chosen)


def _rendered(helm: Helm, kubernetes: str, *options: str) -> str:
    where = (f"--namespace={NAMESPACE}", f"--kube-version={kubernetes}")
    return helm("template", "tgp-operator", str(CHART), *where, *options)


def carried() -> dict[Path, str]:
    """By the wheel, as JSON: what the operator asks for at its start, and what the embedded world installs."""
    return {
        CARRIED / OPERATOR_RIGHTS: _json([*documents(OUR_NAMESPACE), *from_template(RIGHTS, "rbac/operator.yaml")]),
        CARRIED / BUDGET_POLICIES: _json(from_template(POLICIES, "policy/budgets.yaml")),
    }


def from_template(path: Path, name: str) -> list[dict[str, Any]]:
    """The objects of a rendered file that a template made: Helm says above each where it comes from."""
    parts = re.split(r"^---\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    told = f"# Source: tgp-operator/templates/{name}\n"
    return [document for part in parts if part.startswith(told) for document in documents(part)]


def _json(found: list[dict[str, Any]]) -> str:
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def kept(kind: Kind) -> str:
    """A kind as a template of its own chart: braces in descriptions are for readers, and Helm never deletes it."""
    definition = crd(kind)
    definition["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    text = re.sub(r"\{\{|\}\}", lambda found: '{{ "' + found.group() + '" }}', as_yaml(definition))
    return f"# {MADE}\n{text}"


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
    _require_sections(root)
    root["properties"]["settings"]["required"] += ["listen"]  # probes ask there
    root["properties"]["settings"]["properties"]["https"]["required"] = ["listen"]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": MADE,
        **root,
        "properties": {**root["properties"], "global": {"type": "object"}},
    }


def _require_sections(root: dict[str, Any]) -> None:
    """Those of values.yaml: `settings:` without a line below it is null, which for Helm means to remove the section."""
    for value in VALUES:
        at = root
        for section in value.key.split(".")[:-1]:
            required = at.setdefault("required", [])
            if section not in required:
                required.append(section)
            at = at["properties"][section]


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
    sys.exit(main(sys.argv[1:]))
