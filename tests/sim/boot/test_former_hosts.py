"""Whoever keeps a machine's disk keeps its certificate: what becomes of the Node that he registers again."""

import pytest

from tests.sim.boot.a_tailnet import Joining, a_tailnet_class, joining
from tgp.controllers.leftover_nodes import ABANDONED
from tgp.sim.cluster.machines import Machine

LONGEST = 8.0  # minutes: twice a list of the provider, two looks and the time that pods are given


def over(stage: Joining) -> tuple[str, str]:
    """A whole life; the Node's name and provider id."""
    a_tailnet_class(stage)
    stage.operate()
    stage.world.run(seconds=60)
    stage.wants()
    stage.until(lambda: stage.phase() == "Ready")
    name = (stage.request() or {})["status"]["nodeName"]
    mark = (stage.node(name) or {})["spec"]["providerID"]
    stage.drops()
    stage.until(lambda: stage.phase() == "gone")
    assert stage.node(name) is None
    return name, mark


def registers(stage: Joining, name: str, mark: str) -> None:
    """With the certificate that lay on its disk: nobody is asked."""
    before = came(stage, name)
    stage.world.cluster.power_on(
        Machine(name, provider_id=mark, bootstrap_token="", registers_after=5.0, ready_after=2.0)
    )
    stage.until(lambda: came(stage, name) > before, minutes=2)


def came(stage: Joining, name: str) -> int:
    """How often a Node of that name was made."""
    return stage.world.history[f"created nodes /{name}"]


def is_cleared(stage: Joining, name: str) -> bool:
    taints = (stage.node(name) or {"spec": {}})["spec"].get("taints", [])
    return {"key": ABANDONED.key, "effect": ABANDONED.effect} in taints


def test_a_node_that_comes_back_without_its_machine_is_cleared_and_removed():
    with joining("the old disk") as stage:
        name, mark = over(stage)
        registers(stage, name, mark)
        stage.until(lambda: is_cleared(stage, name), minutes=LONGEST)
        assert (stage.node(name) or {})["spec"]["unschedulable"]
        stage.until(lambda: stage.node(name) is None, minutes=1)
        for _ in range(2):  # from then on it is known
            stage.world.cluster.power_off(name)
            stage.world.run(minutes=1)
            registers(stage, name, mark)
            stage.until(lambda: stage.node(name) is None, minutes=1)


@pytest.mark.parametrize("mark", ["", "aws:///us-east-1a/i-1", "tgp://webhook/tgp-0123456789-" + "0" * 32 + "-1"])
def test_nodes_of_others_are_left_alone(mark):
    with joining("others") as stage:
        over(stage)
        registers(stage, "cellar", mark)
        stage.world.run(minutes=30)

        node = stage.node("cellar")
        assert node is not None
        assert not is_cleared(stage, "cellar")
