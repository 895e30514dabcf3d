"""A template that Talos refuses is not bought for; what only Talos can tell stands in the class's conditions."""

import pytest

from tests.sim.joining.a_tailnet import FACTORY, a_tailnet_class, joining
from tgp.api.resource import GPU_NODE_CLASS

TAGGED = "machine:\n  network:\n    interfaces: [{interface: eth0, vlans: [{vlanId: 70000}]}]\n"
VOLUME = """\
apiVersion: v1alpha1
kind: UserVolumeConfig
name: data
provisioning:
  diskSelector: {match: MATCH}
  minSize: 10GB
"""


def conditions(template: str) -> dict[str, dict[str, str]]:
    """Of a class with this template, once the operator has looked at it."""
    with joining(f"template {template}") as env:
        a_tailnet_class(env, talosConfig={"machineConfigTemplate": template})
        env.operate()
        env.world.run(seconds=30)
        found = env.world.api.local_api.get(GPU_NODE_CLASS, "", "rented") or {}
        return {row["type"]: row for row in found["status"]["conditions"]}


@pytest.mark.parametrize(
    ("template", "where"),
    [
        (TAGGED, "machine.network.interfaces[0].vlans[0].vlanId"),
        (VOLUME.replace("MATCH", "disk.size > 10"), "UserVolumeConfig/data.provisioning.diskSelector.match"),
        ('machine:\n  nodeAnnotations: {example.org/a: "\\ud83d"}\n', "half a surrogate pair"),
    ],
)
def test_a_class_whose_template_talos_refuses_is_not_ready(template: str, where: str):
    told = conditions(template)

    assert told["Ready"]["status"] == "False"
    assert where in told["Ready"]["message"]


def test_a_class_whose_image_does_not_exist_says_so_with_the_versions_that_do():
    with joining("no such image") as env:
        a_tailnet_class(env, talosConfig={"image": "v1.13.1"})
        env.operate()
        env.world.run(minutes=2)
        local_api = env.world.api.local_api

        def ready() -> dict[str, str]:
            found = local_api.get(GPU_NODE_CLASS, "", "rented") or {}
            return next(row for row in found["status"]["conditions"] if row["type"] == "Ready")

        told = ready()
        assert (told["status"], told["reason"]) == ("False", "ImageRefused")
        assert (
            "talosConfig.image v1.13.1: the image factory has no Talos v1.13.1; it has v1.13.0, v1.13.9"
            in told["message"]
        )
        env.wants()
        env.world.run(minutes=5)
        assert not env.living()

        local_api.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"talosConfig": {"image": "v1.13.9"}}})
        env.until(lambda: ready()["status"] == "True", minutes=5)
        env.until(lambda: env.phase() == "Ready", minutes=30)


def test_a_factory_that_does_not_answer_makes_no_class_unready():
    with joining("silent factory") as env:
        env.world.network.unmount(FACTORY)
        a_tailnet_class(env, talosConfig={"image": "v1.13.1"})
        env.operate()
        env.world.run(minutes=2)
        found = env.world.api.local_api.get(GPU_NODE_CLASS, "", "rented") or {}

        assert [row["status"] for row in found["status"]["conditions"] if row["type"] == "Ready"] == ["True"]


def test_a_character_in_two_halves_is_no_reason_to_fail():
    assert conditions('machine:\n  nodeAnnotations: {example.org/a: "\\ud83d\\ude00"}\n')["Ready"]["status"] == "True"


def test_what_is_passed_through_is_listed():
    told = conditions(VOLUME.replace("MATCH", "dyn(disk.size) > 10"))

    assert told["Ready"]["status"] == "True"
    assert told["TemplateUnchecked"]["reason"] == "PassedThrough"
    assert told["TemplateUnchecked"]["message"].startswith(
        "Machine config template has parts that tgp passes through, because it cannot check them: "
        "line 5: UserVolumeConfig/data"
    )


def test_what_is_checked_needs_no_condition():
    assert "TemplateUnchecked" not in conditions(VOLUME.replace("MATCH", "disk.size > 10u * GB"))
