"""Go programs from pinned modules, built once and found again: `find(KUBECTL)` is a kubectl that can be run."""

from tools.toolbox.find import find, find_all
from tools.toolbox.pins import (
    CONTAINERBOOT,
    ETCD_SERVER,
    EVERYDAY,
    HEADSCALE_SERVER,
    JUDGES,
    KUBE_APISERVER,
    KUBE_CONTROLLER_MANAGER,
    KUBE_SCHEDULER,
    KUBECTL,
    KWOK_CONTROLLER,
    MESH,
    OLDEST_KUBE_APISERVER,
    OTHER_JUDGES,
    TAILSCALE_CLI,
    TAILSCALED,
    WIREGUARD_GO,
    Tool,
)
from tools.toolbox.trouble import GoUnavailable, ToolboxError, ToolUnavailable

__all__ = [
    "CONTAINERBOOT",
    "ETCD_SERVER",
    "EVERYDAY",
    "HEADSCALE_SERVER",
    "JUDGES",
    "KUBECTL",
    "KUBE_APISERVER",
    "KUBE_CONTROLLER_MANAGER",
    "KUBE_SCHEDULER",
    "KWOK_CONTROLLER",
    "MESH",
    "OLDEST_KUBE_APISERVER",
    "OTHER_JUDGES",
    "TAILSCALED",
    "TAILSCALE_CLI",
    "WIREGUARD_GO",
    "GoUnavailable",
    "Tool",
    "ToolUnavailable",
    "ToolboxError",
    "find",
    "find_all",
]
