"""Which Talos and which kubelet: as configured, else as the cluster runs."""

import re
from collections import Counter
from collections.abc import Iterable

from tgp.core.model.node import Node
from tgp.core.model.talos import NEWEST_MINOR, OLDEST_MINOR, TalosVersion, read_version

USUAL = "v1.13.9"  # if neither a class, the operator nor the cluster's nodes decide
KUBELET_IMAGE = "ghcr.io/siderolabs/kubelet"
OLDER_BY = 3  # minors that a kubelet may be behind its API server
SUPPORTS = 6  # minors of Kubernetes that one Talos runs, counted back from its newest
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_KUBERNETES = re.compile(r"v?1\.(\d{1,3})\.(\d{1,3})")


def newest_kubernetes(version: TalosVersion) -> int:
    """The Kubernetes minor that a Talos release comes with: 1.10 with 1.33, and so on."""
    return version.minor + 23


def running(nodes: Iterable[Node]) -> TalosVersion | None:
    """The version of most of the cluster's own nodes, control planes first; None: no node is Talos."""
    reported = [(CONTROL_PLANE in node.labels, version) for node in nodes if (version := read_version(node.os_image))]
    leading = [version for leads, version in reported if leads] or [version for _, version in reported]
    supported = Counter(version for version in leading if version.supported)
    return max(supported, key=lambda version: (supported[version], version), default=None)


def kubelet_for(said: str | None, server: str, talos: TalosVersion) -> tuple[str, str]:
    """The kubelet's image, or why there is none; one of the two is empty. `server`: the API server's version."""
    at = _KUBERNETES.match(server)
    if at is None:
        return "", f"the API server reports {server[:40]!r} as its version: set talosConfig.kubeletImage"
    wanted = _KUBERNETES.search(said.rpartition(":")[2]) if said else at
    if wanted is None:
        return "", "talosConfig.kubeletImage does not end in a version"
    minor, newest = int(wanted[1]), newest_kubernetes(talos)
    if minor > int(at[1]):
        return "", f"talosConfig.kubeletImage is newer than the API server, which is {server}"
    if minor > newest and not said:  # an older kubelet than the server's, as long as the server supports it
        minor = newest
        if int(at[1]) - minor > OLDER_BY:
            return "", f"Talos {talos} runs kubelets up to 1.{newest}, too old for the API server's {server}"
        return f"{KUBELET_IMAGE}:v1.{minor}.0", ""
    if not newest - SUPPORTS < minor <= newest:
        need = minor - 23
        hint = f"; Talos v1.{need} does" if OLDEST_MINOR <= need <= NEWEST_MINOR else ""
        return "", f"Talos {talos} does not run a kubelet of version 1.{minor}{hint}"
    if said and ":" in said:
        return said, ""
    return f"{KUBELET_IMAGE}:v1.{wanted[1]}.{wanted[2]}", ""
