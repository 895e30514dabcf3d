"""Helm values of the three charts: what tgp's own chart calls them, and a class for what the operator's config said."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tgp.api.resource import GPU_NODE_CLASS
from tgp.core.classes.default_class import DEFAULT_ANNOTATION
from tgp.core.migration.field_notes import FieldNote, FieldOutcome, ManifestDraft, SourceDocument, found, steps

RENAMED, CHANGED = FieldOutcome.RENAMED, FieldOutcome.CHANGED
UNNEEDED, NOT_CONVERTED = FieldOutcome.UNNEEDED, FieldOutcome.NOT_CONVERTED
SUBJECT = "Helm values"
DEFAULT_CLASS = "default"
ROOTS = frozenset(
    {
        "affinity",
        "config",
        "controller",
        "health",
        "healthProbe",
        "image",
        "leaderElection",
        "metrics",
        "networking",
        "nodeGroups",
        "nodeSelector",
        "podAnnotations",
        "podLabels",
        "rbac",
        "replicaCount",
        "resources",
        "serviceAccount",
        "terminationGracePeriodSeconds",
        "tolerations",
        "webhook",
    }
)
SAME = {  # our name → theirs, in any of the charts
    "replicas": ("replicaCount", "controller.replicas"),
    "nodeSelector": ("nodeSelector", "controller.nodeSelector"),
    "tolerations": ("tolerations", "controller.tolerations"),
    "networking": ("networking",),
    "serviceMonitor.enabled": ("metrics.serviceMonitor.enabled",),
    "serviceMonitor.labels": ("metrics.serviceMonitor.labels",),
    "serviceMonitor.interval": ("metrics.serviceMonitor.interval",),
}
PORTS = {"settings.listen": ("healthProbe.port", "health.port"), "settings.metrics.listen": ("metrics.port",)}
DROPPED = {  # theirs → why nothing is missing without it
    "image": "tgp has its own image: set image.repository to where you pushed it.",
    "resources": "tgp's chart has its own, which fit it.",
    "controller.resources": "tgp's chart has its own, which fit it.",
    "controller.securityContext": "tgp's pods run as user 65532 without rights, always.",
    "serviceAccount.create": "tgp's chart makes its own account.",
    "serviceAccount.name": "tgp's chart makes its own account.",
    "rbac": "tgp's chart makes its own roles.",
    "leaderElection": "it is always on.",
    "metrics.service": "the Service is always made.",
    "metrics.serviceMonitor.scrapeTimeout": "Prometheus's own default is used.",
    "metrics.serviceMonitor.scheme": "the ServiceMonitor knows how metrics are served.",
    "metrics.serviceMonitor.insecureSkipVerify": "the ServiceMonitor knows how metrics are served.",
    "webhook": "tgp has no admission webhook and needs no cert-manager.",
    "terminationGracePeriodSeconds": "the chart sets it.",
}


@dataclass(slots=True)
class ChartValues:
    """Values for tgp's chart, and what became of each of the old ones."""

    values: dict[str, Any] = field(default_factory=dict)
    notes: list[FieldNote] = field(default_factory=list)


def convert_values(data: Mapping[str, Any], source: SourceDocument) -> ChartValues:
    """All but `nodeGroups` and `config`, which become objects."""
    made = ChartValues()
    seen: set[str] = set()

    def note(path: str, outcome: FieldOutcome, message: str) -> None:
        seen.add(path)
        made.notes.append(FieldNote(source.file, source.line_of(path), SUBJECT, path, outcome, message))

    for ours, theirs in SAME.items():
        for path in theirs:
            value = found(data, steps(path))
            if value not in (None, {}, [], ""):
                _put(made.values, ours, value)
                note(path, RENAMED, "has the same name." if ours == path else f"is now {ours}.")
            seen.add(path)
    for ours, theirs in PORTS.items():
        for path in theirs:
            if isinstance(port := found(data, steps(path)), int):
                _put(made.values, ours, f"0.0.0.0:{int(port)}")
                note(path, RENAMED, f"is now {ours}.")
    for path, why in DROPPED.items():
        if found(data, steps(path)) is not None:
            note(path, UNNEEDED, why)
    for path in _leaves(data, (), _known(seen)):
        note(path, NOT_CONVERTED, "tgp's chart has no such value: see docs/values.md.")
    return made


def class_of_config(
    config: Any, source: SourceDocument, field_path: str
) -> tuple[ManifestDraft | None, list[FieldNote]]:
    """The operator's own config, which held for requests without settings: the default class."""
    notes: list[FieldNote] = []

    def note(path: str, outcome: FieldOutcome, message: str) -> None:
        at = f"{field_path}.{path}" if field_path else path
        notes.append(FieldNote(source.file, source.line_of(at), SUBJECT, at, outcome, message))

    if not isinstance(config, dict):
        return None, notes
    providers = [
        {"name": name, **({"credentialsRef": given["credentialsRef"]} if "credentialsRef" in given else {})}
        for name, given in (config.get("providers") or {}).items()
        if isinstance(given, dict) and given.get("enabled") is True
    ]
    if not providers:
        note("providers", UNNEEDED, "no provider is enabled, so no class was made.")
        return None, notes
    spec: dict[str, Any] = {"providers": providers}
    talos, tailscale = config.get("talos") or {}, config.get("tailscale") or {}
    if image := talos.get("image") or talos.get("version"):
        spec["talosConfig"] = {"image": image}
    if talos.get("extensions"):
        spec.setdefault("talosConfig", {})["extensions"] = talos["extensions"]
    if tailscale:
        spec["tailscaleConfig"] = {
            "oauthCredentialsSecretRef" if key == "oauthCredentialsRef" else key: value
            for key, value in tailscale.items()
        }
    manifest = {
        "apiVersion": GPU_NODE_CLASS.api_version,
        "kind": GPU_NODE_CLASS.kind,
        "metadata": {"name": DEFAULT_CLASS, "annotations": {DEFAULT_ANNOTATION: "true"}},
        "spec": spec,
    }
    draft = ManifestDraft(source, manifest, came_from=f"GPUNodeClass {DEFAULT_CLASS}")
    draft.note(field_path, CHANGED, f"became GPUNodeClass {DEFAULT_CLASS}, which requests without a nodeClassRef use.")
    for key in config:
        if key not in ("providers", "talos", "tailscale"):
            note(key, NOT_CONVERTED, "is no part of a class.")
    return draft, notes


def _known(seen: set[str]) -> Callable[[str], bool]:
    named = {*seen, *DROPPED, "nodeGroups", "config"}
    return lambda path: path in named


def _leaves(value: Any, path: tuple[str, ...], known: Callable[[str], bool]) -> Iterator[str]:
    """The paths of what is set and has no place yet; empty values mean nothing."""
    spelled = ".".join(path)
    if known(spelled) or value in (None, {}, [], ""):
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, str(key)), known)
    else:
        yield spelled


def _put(values: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for step in parents:
        values = values.setdefault(step, {})
    values[last] = value
