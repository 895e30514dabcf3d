"""Go programs from pinned modules, built once and found again: `find(KUBECTL)` is a kubectl that can be run."""

from tools.toolbox.find import find, find_all
from tools.toolbox.pins import (
    ETCD_SERVER,
    EVERYDAY,
    KUBE_APISERVER,
    KUBE_CONTROLLER_MANAGER,
    KUBE_SCHEDULER,
    KUBECTL,
    KWOK_CONTROLLER,
    OLDEST_KUBE_APISERVER,
    Tool,
)
from tools.toolbox.trouble import GoUnavailable, ToolboxError, ToolUnavailable

__all__ = [
    "ETCD_SERVER",
    "EVERYDAY",
    "KUBECTL",
    "KUBE_APISERVER",
    "KUBE_CONTROLLER_MANAGER",
    "KUBE_SCHEDULER",
    "KWOK_CONTROLLER",
    "OLDEST_KUBE_APISERVER",
    "GoUnavailable",
    "Tool",
    "ToolUnavailable",
    "ToolboxError",
    "find",
    "find_all",
]
