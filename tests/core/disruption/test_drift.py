"""What drifts a machine, and what does not."""

import msgspec
import pytest

from tests.core.market.offers import an_offer
from tests.core.pools.builders import a_pool
from tgp.api.nodeclass import GPUNodeClass
from tgp.core.disruption.drift import VERSION, has_drifted, stamp_of, to_stamp, unmet_requirement
from tgp.core.model.offer import BootMode

TALOS = {"image": "v1.10.5", "extensions": ["siderolabs/nvidia-container-toolkit"]}


def a_class(**spec):
    usual = {"providers": [{"name": "simulated"}, {"name": "vultr"}], "talosConfig": TALOS}
    return msgspec.convert({"spec": {**usual, **spec}}, GPUNodeClass)


def stamped(pool=None, node_class=None, backend="", **offer):
    return stamp_of((pool or a_pool()).value, node_class or a_class(), an_offer(provider="simulated", **offer), backend)


def template(**spec):
    return a_pool(template={"spec": spec})


@pytest.mark.parametrize(
    ("pool", "node_class"),
    [
        (None, a_class(talosConfig={**TALOS, "image": "v1.11.0"})),
        (None, a_class(talosConfig={**TALOS, "extensions": []})),
        (None, a_class(talosConfig={**TALOS, "machineConfigTemplate": "machine: {}"})),
        (None, a_class(talosConfig={**TALOS, "kubeletImage": "v1.33.0"})),
        (None, a_class(providers=[{"name": "simulated", "talosConfig": {"image": "v1.11.0"}}])),
        (None, a_class(networking={"backend": "kubespan"})),
        (template(taints=[{"key": "a", "effect": "NoSchedule"}]), None),
        (template(ephemeralTaint=False), None),
    ],
    ids=["image", "extensions", "template", "kubelet", "provider's image", "backend", "taints", "ephemeral taint"],
)
def test_what_a_machine_gets_when_it_boots_drifts_it(pool, node_class):
    assert has_drifted(stamped(), stamped(pool, node_class))


@pytest.mark.parametrize(
    ("pool", "node_class"),
    [
        (a_pool(template={"metadata": {"labels": {"team": "a"}, "annotations": {"example.com/a": "b"}}}), None),
        (template(requirements=[{"key": "tgp.io/gpu-type", "operator": "In", "values": ["T4"]}]), None),
        (template(startupTaints=[{"key": "a", "effect": "NoSchedule"}]), None),
        (template(terminationGracePeriod="2h"), None),
        (a_pool(maxHourlyPrice="1.0", weight=3, disruption={"expireAfter": "24h"}), None),
        (None, a_class(limits={"maxNodes": 3}, suspend=True)),
        (None, a_class(providers=[{"name": "simulated"}, {"name": "vultr", "talosConfig": {"image": "v1.11.0"}}])),
    ],
    ids=["labels", "requirements", "start-up taints", "grace", "price", "limits", "another provider"],
)
def test_what_does_not_concern_a_machine_that_runs_drifts_nothing(pool, node_class):
    assert stamped() == stamped(pool, node_class)


def test_nothing_that_is_set_when_a_machine_is_installed_drifts_a_machine_you_own():
    """It would be drained, switched off, and come back as it was."""
    changed = a_class(talosConfig={**TALOS, "image": "v1.11.0"}, networking={"backend": "kubespan"})

    assert stamped(boot=BootMode.POWER) == ""
    assert not has_drifted(stamped(), stamped(None, changed, boot=BootMode.POWER))


def test_taints_in_another_order_are_the_same_taints():
    one, two = ({"key": key, "effect": "NoSchedule"} for key in ("a", "b"))

    assert stamped(template(taints=[one, two])) == stamped(template(taints=[two, one]))


def test_the_operators_own_mesh_counts_where_the_class_names_none():
    assert has_drifted(stamped(backend="tailscale"), stamped(backend="kubespan"))
    named = a_class(networking={"backend": "none"})
    assert stamped(None, named, backend="tailscale") == stamped(None, named, backend="kubespan")


@pytest.mark.parametrize("held", ["", "0-4c84916b07e5a6ac", "9-4c84916b07e5a6ac", "-", "scribble"])
def test_another_version_of_the_hash_is_stamped_anew_and_drifts_nothing(held):
    assert to_stamp(held, stamped())
    assert not has_drifted(held, stamped())


def test_a_stamp_of_this_version_stays():
    assert not to_stamp(stamped(), stamped())
    assert not to_stamp(f"{VERSION}-another", stamped())


def test_without_a_class_nothing_is_stamped_and_nothing_drifts():
    assert not to_stamp("", "")
    assert not has_drifted(stamped(), "")


@pytest.mark.parametrize(
    ("requirement", "unmet"),
    [
        ({"operator": "In", "values": ["T4", "A100"]}, False),
        ({"operator": "In", "values": ["H100"]}, True),
        ({"operator": "NotIn", "values": ["T4"]}, True),
        ({"operator": "Exists"}, False),
        ({"operator": "DoesNotExist"}, True),
    ],
)
def test_a_requirement_drifts_only_machines_that_do_not_meet_it(requirement, unmet):
    pool = template(requirements=[{"key": "tgp.io/gpu-type", **requirement}]).value

    assert bool(unmet_requirement(pool, {"tgp.io/gpu-type": "T4"})) is unmet


def test_a_family_of_models_is_met_by_its_members():
    """As when it was bought: otherwise it would be replaced by the same again and again."""
    pool = template(requirements=[{"key": "tgp.io/gpu-type", "operator": "In", "values": ["A100"]}]).value

    assert not unmet_requirement(pool, {"tgp.io/gpu-type": "A100-80GB-SXM"})
