"""Which mesh a cluster's own nodes are in, as far as its objects and a worker's machine config show."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tgp.core.joining.talos.stream import UnreadableStream, read_stream
from tgp.core.model.mesh import Backend

KUBESPAN_ADDRESS = "networking.talos.dev/kubespan-ip"  # an annotation that Talos sets with the Kubernetes registry
TAILSCALE_EXTENSION = "extensions.talos.dev/tailscale"  # a label that Talos sets for each of its extensions
OPERATOR_LOGIN_SERVER = "OPERATOR_LOGIN_SERVER"  # a variable of the Tailscale operator
EXTRA_ARGUMENTS = "TS_EXTRA_ARGS"
_LOGIN_SERVER = re.compile(r"--login-server[= ]([^\s\"']+)")


class FoundMesh(msgspec.Struct, frozen=True):
    backend: Backend
    why: str  # what shows it
    login_server: str = ""  # of Headscale


def mesh_of_nodes(metadata: Iterable[Mapping[str, Any]]) -> FoundMesh | None:
    """By what Talos writes on its Nodes."""
    tailscale = None
    for each in metadata:
        name = each.get("name", "")
        if (each.get("annotations") or {}).get(KUBESPAN_ADDRESS):
            return FoundMesh(Backend.KUBESPAN, f"node {name} has a KubeSpan address")
        if TAILSCALE_EXTENSION in (each.get("labels") or {}):
            tailscale = tailscale or FoundMesh(Backend.TAILSCALE, f"node {name} has the extension tailscale")
    return tailscale


def mesh_of_operator(deployment: Mapping[str, Any]) -> FoundMesh:
    """By the variables of the Tailscale operator."""
    containers = deployment.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or ()
    variables = {each.get("name"): each.get("value", "") for one in containers for each in one.get("env") or ()}
    if server := variables.get(OPERATOR_LOGIN_SERVER):
        return FoundMesh(Backend.HEADSCALE, f"the Tailscale operator is installed, for {server}", server)
    return FoundMesh(Backend.TAILSCALE, "the Tailscale operator is installed")


def mesh_of_config(text: str) -> FoundMesh | None:
    """By a machine config; None: it configures none, or is something else."""
    try:
        documents = [each.data for each in read_stream(text) if isinstance(each.data, dict)]
    except UnreadableStream:
        return None
    for document in documents:
        network = _within(_within(document, "machine"), "network")
        if _within(network, "kubespan").get("enabled") or (
            document.get("kind") == "KubeSpanConfig" and document.get("enabled")
        ):
            return FoundMesh(Backend.KUBESPAN, "the machine config enables KubeSpan")
    for document in documents:
        if document.get("kind") == "ExtensionServiceConfig" and document.get("name") == "tailscale":
            said = [str(each) for each in document.get("environment") or ()]
            arguments = next((each for each in said if each.startswith(EXTRA_ARGUMENTS)), "")
            if server := _LOGIN_SERVER.search(arguments):
                words = f"the machine config names the Headscale server {server[1]}"
                return FoundMesh(Backend.HEADSCALE, words, server[1])
            return FoundMesh(Backend.TAILSCALE, "the machine config configures the extension tailscale")
    return None


def _within(document: Any, name: str) -> Mapping[str, Any]:
    found = document.get(name) if isinstance(document, Mapping) else None
    return found if isinstance(found, Mapping) else {}
