"""`tgp node test`: a machine you own is woken, timed and powered off again, by the operator alone."""

import json
import re

import pytest
from click.testing import CliRunner

from tests.cli.money_world import WorldServices
from tests.cli.sample_requests import JOINING, READY, FakeServices, after
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.test_power_pools import asks, begin_owned, is_on, receiver, switched_off, switched_on
from tests.sim.with_pools import requests, runs
from tgp.api.owned_machine import PowerMachine
from tgp.api.resource import GPU_NODE_CLASS, NODE
from tgp.core.model.object_key import ObjectKey
from tgp.interfaces.cli.interrupt import INTERRUPTED
from tgp.interfaces.cli.node import node
from tgp.services.owned_machines import OwnedMachineState
from tgp.services.request_answers import Look
from tgp.sim.node_bootstrap import NodeFault

BOX = "cellar-1"


def beside(env: SimEnv, **more: object) -> WorldServices:
    begin_owned(env, **more)
    env.world.run(minutes=5)
    return WorldServices(env.world)


def node_of(env: SimEnv) -> dict[str, object]:
    """What people and other programs set on it."""
    found = env.world.api.local_api.get(NODE, "", BOX)
    labels = {name: value for name, value in found["metadata"]["labels"].items() if not name.startswith("tgp.io/")}
    spec = found.get("spec", {})
    kept = [taint for taint in spec.get("taints", []) if not taint["key"].startswith("node.kubernetes.io/")]
    return {"labels": labels, "taints": kept, "unschedulable": spec.get("unschedulable", False)}


def test_a_machine_is_woken_timed_and_powered_off_and_its_node_is_as_before():
    with sim_env("node-test", "webhook") as env:
        services = beside(env)
        before = node_of(env)
        result = services.tgp("node", "test", BOX, "--yes")

        assert result.exit_code == 0, result.output
        lines = result.output.splitlines()
        told = [re.sub(r"^ *\d+ s  ", "", line) for line in lines]
        order = ["power-on sent", "Node Ready", "GPUs allocatable", "off: the request is gone"]
        assert [line for line in told if line in order] == order
        assert re.fullmatch(rf"{BOX} works: on in \d+ s \(bootTimeout 10m\), off in \d+ s\.", lines[-1])
        assert switched_on(env) == 1
        assert (requests(env), is_on(env)) == ([], False)
        assert node_of(env) == before


def test_the_result_is_a_document_and_the_steps_are_told_beside_it():
    with sim_env("node-test-json", "webhook") as env:
        result = beside(env).tgp("node", "test", BOX, "--yes", "-o", "json")
        found = json.loads(result.stdout)

        assert (found["kind"], found["machine"], found["works"]) == ("MachineTestReport", BOX, True)
        assert min(found["onSeconds"], found["offSeconds"]) > 0
        assert "Node Ready" in result.stderr


def test_pods_that_wait_are_kept_off_a_machine_under_test():
    with sim_env("node-test-waiting", "webhook") as env:
        services = beside(env, pool={"disruption": {"consolidateAfter": "5m"}, "mode": "Observe"})
        asks(env)
        result = services.tgp("node", "test", BOX, "--yes")

        assert result.exit_code == 0, result.output
        assert not runs(env)()


def test_a_machine_on_which_pods_run_is_left_alone_and_they_are_named():
    with sim_env("node-test-used", "webhook") as env:
        services = beside(env)
        asks(env)
        env.until(runs(env), minutes=20)
        result = services.tgp("node", "test", BOX, "--yes")

        assert result.exit_code == 3
        assert "while pods run there: default/train" in result.output
        assert (switched_on(env), switched_off(env)) == (1, 0)


def test_a_machine_that_a_request_holds_is_left_alone():
    with sim_env("node-test-held", "webhook") as env:
        services = beside(env)
        asks(env, run_for="1m")
        env.until(runs(env), minutes=20)
        env.world.run(minutes=2)
        result = services.tgp("node", "test", BOX, "--yes")

        assert result.exit_code == 3
        assert "in use by request" in result.output


def test_a_machine_that_is_on_without_a_request_is_left_alone():
    with sim_env("node-test-on", "webhook") as env:
        services = beside(env, pool={"mode": "Observe"})
        receiver(env).switch_on_by_hand(BOX)
        env.world.run(minutes=10)
        result = services.tgp("node", "test", BOX, "--yes")

        assert result.exit_code == 3
        assert "is on: its Node is Ready" in result.output
        assert (requests(env), switched_off(env)) == ([], 0)


def test_a_machine_that_does_not_wake_is_powered_off_and_the_reason_is_told():
    with sim_env("node-test-asleep", "webhook") as env:
        services = beside(env, bootTimeout="3m")
        env.node_bootstrap.node_faults.named[BOX] = [NodeFault.NEVER_REGISTERS] * 5
        result = services.tgp("node", "test", BOX, "--yes")
        env.world.run(minutes=20)

        assert result.exit_code == 1, result.output
        assert f"{BOX} did not become ready:" in result.output
        assert (requests(env), is_on(env), switched_on(env)) == ([], False, 1)


def test_nothing_is_switched_for_a_suspended_class_or_a_name_that_is_wrong():
    with sim_env("node-test-suspended", "webhook") as env:
        services = beside(env)
        assert f"did you mean {BOX}?" in services.tgp("node", "test", "celar-1", "--yes").output
        env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"suspend": True}})
        result = services.tgp("node", "test", BOX, "--yes")

        assert result.exit_code == 3
        assert "GPUNodeClass rented is suspended" in result.output
        assert requests(env) == []


def test_without_a_terminal_or_with_a_no_nothing_is_created():
    with sim_env("node-test-no", "webhook") as env:
        services = beside(env)
        assert services.tgp("node", "test", BOX).exit_code == 2
        assert "add --yes" in services.tgp("node", "test", BOX).output
        assert requests(env) == []


class Interrupting(FakeServices):
    """A person who presses Ctrl-C after the last look."""

    namespace = "ml"

    def __init__(self, *looks: Look) -> None:
        super().__init__(*looks, stays=True)
        self.deleted: list[ObjectKey] = []

    def fresh_name(self, stem: str) -> str:
        return stem

    async def owned(self, name: str) -> OwnedMachineState:
        machine = PowerMachine(name=name, gpu_count=1, scale_up_endpoint="http://x/on", scale_down_endpoint="http://x")
        return OwnedMachineState(machine, "cellar", None, (), None)

    async def create(self, manifest: object) -> None:
        self.made = manifest

    async def delete(self, key: ObjectKey, uid: str) -> None:
        del uid
        self.deleted.append(key)


@pytest.mark.parametrize(
    ("looks", "left"),
    [
        (
            (Look(JOINING, after(60)),),
            "box is being powered on by request ml/test-box. It is powered off when the request",
        ),
        ((Look(JOINING, after(60)), Look(READY, after(200))), "Request ml/test-box is being deleted"),
    ],
)
def test_ctrl_c_says_what_was_begun(looks, left):
    services = Interrupting(*looks)
    result = CliRunner().invoke(node, ["test", "box", "--yes"], obj=services)

    assert result.exit_code == INTERRUPTED
    assert left in result.output
    assert bool(services.deleted) is (len(looks) > 1)
