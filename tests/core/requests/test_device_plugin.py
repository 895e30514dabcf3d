"""No device plugin, no purchase: whether one would run is known beforehand, and what to change if not."""

import pytest

from tgp.core.model.labels import LabelRequirement
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import Affinity, NodeTerm
from tgp.core.model.taints import Taint, Toleration
from tgp.core.model.workload import DaemonSet
from tgp.core.requests.device_plugin import EPHEMERAL, FutureNode, plugin_for

TOLERANT = (Toleration(operator="Exists"),)
NODE = FutureNode({"nvidia.com/gpu.present": "true"})


def a_plugin(**rest) -> DaemonSet:
    values = {
        "key": ObjectKey("kube-system", "nvidia-device-plugin-daemonset"),
        "images": ("nvcr.io/nvidia/k8s-device-plugin:v0.17.0",),
        "tolerations": TOLERANT,
        **rest,
    }
    return DaemonSet(**values)


def test_a_plugin_that_tolerates_everything_runs():
    assert plugin_for(NODE, [a_plugin()]).runs


@pytest.mark.parametrize(
    ("plugins", "said"),
    [
        ([], "install a GPU device plugin"),
        (
            [
                DaemonSet(
                    key=ObjectKey("kube-system", "cilium"), images=("quay.io/cilium/cilium:v1",), tolerations=TOLERANT
                )
            ],
            "No DaemonSet",
        ),
        ([a_plugin(tolerations=())], "does not tolerate tgp.io/ephemeral:NoSchedule; add to its pods' tolerations"),
        ([a_plugin(node_selector={"gpu": "yes"})], "requires nodes with gpu=yes"),
        (
            [a_plugin(affinity=Affinity(node_terms=(NodeTerm((LabelRequirement("feature/pci-10de", "Exists"),)),)))],
            "node affinity",
        ),
    ],
    ids=["none at all", "only others", "intolerant", "selector", "affinity"],
)
def test_what_keeps_it_off_is_said_with_what_to_change(plugins, said):
    verdict = plugin_for(NODE, plugins)

    assert not verdict.runs
    assert said in verdict.message


def test_one_that_runs_is_enough():
    assert plugin_for(NODE, [a_plugin(tolerations=()), a_plugin(key=ObjectKey("gpu", "nvidia-device-plugin-2"))]).runs


def test_a_value_of_a_taint_is_part_of_what_to_tolerate():
    node = FutureNode({}, taints=(EPHEMERAL, Taint("team", "NoSchedule", "ml")))
    plugin = a_plugin(tolerations=(Toleration(key="tgp.io/ephemeral", operator="Exists"),))

    assert "{key: team, operator: Equal, value: ml, effect: NoSchedule}" in plugin_for(node, [plugin]).message


def test_a_plugin_is_reported_to_tolerate_every_exclusive_machine_and_not_one():
    node = FutureNode({}, (Taint("tgp.io/request", "NoSchedule", "mine"),))
    verdict = plugin_for(node, [a_plugin(tolerations=())])

    assert not verdict.runs
    assert "{key: tgp.io/request, operator: Exists, effect: NoSchedule}" in verdict.message
