"""Would a GPU device plugin run on a future node? Without one its GPUs are paid for and never allocatable.

A DaemonSet counts as a device plugin by the usual image names and object names; it would run on the node if its
pods tolerate the node's taints and its selectors match the node's labels.
"""

from collections.abc import Iterable, Mapping

import msgspec

from tgp.core.model.taints import Taint, untolerated
from tgp.core.model.workload import DaemonSet

# Parts of image names and DaemonSet names, by the resource they provide. GPU operators run the same plugin images.
PLUGINS: Mapping[str, tuple[str, ...]] = {
    "nvidia.com/gpu": ("k8s-device-plugin", "nvidia-device-plugin", "nvdp", "gpu-feature-discovery-device-plugin"),
    "amd.com/gpu": ("amdgpu-device-plugin", "k8s-device-plugin-amd", "rocm/k8s-device-plugin"),
}
REQUEST = "tgp.io/request"  # the Node's label with its request's name; of exclusive machines also a taint
EPHEMERAL = Taint("tgp.io/ephemeral", "NoSchedule")


class FutureNode(msgspec.Struct, frozen=True):
    """What a node will look like when it registers."""

    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = (EPHEMERAL,)
    name: str = "tgp-future-node"


class PluginVerdict(msgspec.Struct, frozen=True):
    runs: bool
    message: str


def plugin_for(node: FutureNode, daemon_sets: Iterable[DaemonSet], resource: str = "nvidia.com/gpu") -> PluginVerdict:
    """The first plugin that would run there; else why each would not, and what to change."""
    plugins = sorted((each for each in daemon_sets if provides(each, resource)), key=lambda each: str(each.key))
    if not plugins:
        return PluginVerdict(False, f"No DaemonSet provides {resource}; install a GPU device plugin")
    obstacles = []
    for plugin in plugins:
        obstacle = _obstacle(node, plugin)
        if not obstacle:
            return PluginVerdict(True, f"DaemonSet {plugin.key} would run there and provide {resource}")
        obstacles.append(f"DaemonSet {plugin.key} {obstacle}")
    return PluginVerdict(False, "; ".join(obstacles))


def provides(daemon_set: DaemonSet, resource: str) -> bool:
    words = (daemon_set.key.name, *daemon_set.images)
    return any(part in word for part in PLUGINS.get(resource, ()) for word in words)


def _obstacle(node: FutureNode, plugin: DaemonSet) -> str:
    if (taint := untolerated(node.taints, plugin.tolerations)) is not None:
        every = taint.key == REQUEST  # each request has another value, and the plugin serves all of them
        value = f", value: {taint.value}" if taint.value and not every else ""
        return (
            f"does not tolerate {taint.key}:{taint.effect}; add to its pods' tolerations "
            f"{{key: {taint.key}, operator: {'Equal' if value else 'Exists'}{value}, effect: {taint.effect}}}"
        )
    for label, value in sorted(plugin.node_selector.items()):
        if node.labels.get(label) != value:
            return f"requires nodes with {label}={value}; add that label in the pool's template"
    if not plugin.affinity.admits_node(node.name, node.labels):
        return "has a node affinity that such a node does not meet; add the labels it asks for in the pool's template"
    return ""
