"""Which tool would write an object again after it was deleted."""

from collections.abc import Mapping

# Labels and annotations by which tools mark what they apply again and again: (key, the tool's name); the first counts.
GITOPS_TOOLS = (
    ("argocd.argoproj.io/tracking-id", "Argo CD"),
    ("argocd.argoproj.io/instance", "Argo CD"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux"),
    ("helm.toolkit.fluxcd.io/name", "Flux"),
    ("configsync.gke.io/declared-version", "Config Sync"),
    ("objectset.rio.cattle.io/id", "Fleet"),
    ("meta.helm.sh/release-name", "Helm"),
    ("app.kubernetes.io/instance", "Argo CD or Helm"),  # Argo CD's own mark before 3.0; charts set it, too
)


def gitops_tool_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    return next((tool for key, tool in GITOPS_TOOLS if key in labels or key in annotations), "")
