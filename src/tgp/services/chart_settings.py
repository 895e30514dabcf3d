"""What the chart told the operator, read from its ConfigMap: the commands judge by the same settings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tgp.api.resource import CONFIG_MAP
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import Cluster, NotFound
from tgp.services.shipped import documents

CHART_SETTINGS = "tgp-operator-settings"
OPERATOR_ENABLED = "tgp.io/tailscale-operator"  # annotation: the value networking.tailscale.operatorEnabled


@dataclass(frozen=True, slots=True)
class ChartSettings:
    backend: str = ""  # networking.backend: the mesh of classes that configure none
    allowed_namespaces_required: bool = False
    tailscale_operator: bool = False


async def chart_settings(cluster: Cluster, namespace: str) -> ChartSettings:
    """The usual ones where there is no such ConfigMap. Raises ClusterError, Forbidden too."""
    try:
        stored = await cluster.read(CONFIG_MAP, ObjectKey(namespace, CHART_SETTINGS))
    except NotFound:
        return ChartSettings()
    annotations = stored.get("metadata", {}).get("annotations") or {}
    text = str((stored.get("data") or {}).get("settings.yaml", ""))
    said: dict[str, Any] = {}
    parsed: Iterator[object] = documents(text)  # edited by hand, it may hold anything
    for each in parsed:
        said |= each if isinstance(each, dict) else {}
    networking = said.get("networking")
    backend = networking.get("backend") if isinstance(networking, Mapping) else said.get("networking.backend")
    return ChartSettings(
        str(backend or ""), said.get("requireAllowedNamespaces") is True, annotations.get(OPERATOR_ENABLED) == "true"
    )
