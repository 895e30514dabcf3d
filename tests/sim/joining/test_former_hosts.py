"""A host that keeps a machine's disk keeps its certificate: what happens to a Node that it registers again."""

import pytest

from tests.sim.joining.a_tailnet import Joining, a_tailnet_class, joining
from tgp.controllers.instances.leftover_nodes import ABANDONED
from tgp.sim.cluster.machines import Hardware

LONGEST = 8.0  # minutes: twice a list of the provider, two looks and the time that pods are given


def over(env: Joining) -> tuple[str, str]:
    """A whole life; the Node's name and provider id."""
    a_tailnet_class(env)
    env.operate()
    env.world.run(seconds=60)
    env.wants()
    env.until(lambda: env.phase() == "Ready")
    name = (env.request() or {})["status"]["nodeName"]
    mark = (env.node(name) or {})["spec"]["providerID"]
    env.drops()
    env.until(lambda: env.phase() == "gone")
    assert env.node(name) is None
    return name, mark


def registers(env: Joining, name: str, mark: str) -> None:
    """With the certificate that was on its disk: no approval is needed."""
    before = came(env, name)
    env.world.cluster.power_on(
        Hardware(name, provider_id=mark, bootstrap_token="", registers_after=5.0, ready_after=2.0)
    )
    env.until(lambda: came(env, name) > before, minutes=2)


def came(env: Joining, name: str) -> int:
    """How often a Node of that name was made."""
    return env.world.history[f"created nodes /{name}"]


def is_cleared(env: Joining, name: str) -> bool:
    taints = (env.node(name) or {"spec": {}})["spec"].get("taints", [])
    return {"key": ABANDONED.key, "effect": ABANDONED.effect} in taints


def test_a_node_that_comes_back_without_its_machine_is_cleared_and_removed():
    with joining("the old disk") as env:
        name, mark = over(env)
        registers(env, name, mark)
        env.until(lambda: is_cleared(env, name), minutes=LONGEST)
        assert (env.node(name) or {})["spec"]["unschedulable"]
        env.until(lambda: env.node(name) is None, minutes=1)
        for _ in range(2):  # from then on it is known
            env.world.cluster.power_off(name)
            env.world.run(minutes=1)
            registers(env, name, mark)
            env.until(lambda: env.node(name) is None, minutes=1)


@pytest.mark.parametrize("mark", ["", "aws:///us-east-1a/i-1", "tgp://webhook/tgp-0123456789-" + "0" * 32 + "-1"])
def test_nodes_of_others_are_left_alone(mark):
    with joining("others") as env:
        over(env)
        registers(env, "cellar", mark)
        env.world.run(minutes=30)

        node = env.node("cellar")
        assert node is not None
        assert not is_cleared(env, "cellar")
