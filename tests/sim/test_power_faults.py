"""Power APIs that fail, lie or are silent, and machines that do not wake: nothing is switched on missing data."""

from collections.abc import Callable
from datetime import timedelta
from types import MethodType
from typing import Any

import msgspec
import pytest

from tests.amounts import amount
from tests.sim.an_operator import a_class, a_pool
from tests.sim.lifecycle.a_world import POWER, SimEnv, sim_env
from tests.sim.test_power_pools import (
    asks,
    begin_owned,
    is_on,
    owned,
    receiver,
    restart,
    switched_off,
    switched_on,
)
from tests.sim.with_pools import events_of, pod_of, requests, runs
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NODE
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.machine import Phase
from tgp.sim.node_bootstrap import NodeFault
from tgp.sim.world import KUBERNETES


def says(env: SimEnv, status: Any) -> None:
    """Every status call is answered with this; a function of the machine's true phase gives its state."""

    def answer(self: Any, tenant: Tenant, name: str) -> Reply:
        machine = self._occupant(tenant, name)
        state = status(machine.phase if machine is not None else Phase.GONE)
        return Reply(200, msgspec.json.encode({"state": state}), (("Content-Type", "application/json"),))

    receiver(env)._status = MethodType(answer, receiver(env))


def a_ping(phase: Phase) -> str:
    return "on" if phase is Phase.RUNNING else "off"


def on_now(env: SimEnv) -> list[str]:
    return sorted(one.product.sku for one in env.living())


# -- missing data ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [CloudFault.ERROR, CloudFault.HANG_UP, CloudFault.HTML, CloudFault.GARBAGE])
def test_a_box_whose_power_api_is_silent_is_not_switched_on(fault):
    with sim_env("silent", "webhook") as env:
        begin_owned(env)
        env.simulator.faults.chances[fault] = 1.0
        env.world.run(minutes=10)
        asks(env)
        env.world.run(hours=2)
        assert switched_on(env) == 0

        env.simulator.faults.calm()
        env.until(runs(env), minutes=30)
        assert switched_on(env) == 1


def test_a_power_api_that_is_silent_for_hours_takes_no_pod_its_box():
    with sim_env("silent-day", "webhook") as env:
        begin_owned(env)
        asks(env, run_for="40h")
        env.until(runs(env), minutes=30)
        env.simulator.faults.chances[CloudFault.ERROR] = 1.0
        env.world.run(hours=amount(3, 24))

        assert switched_off(env) == 0
        assert pod_of(env)["status"]["phase"] == "Running"


def test_a_status_that_says_off_while_the_node_is_ready_switches_nothing():
    with sim_env("lies", "webhook") as env:
        begin_owned(env)
        asks(env, run_for="10h")
        env.until(runs(env), minutes=30)
        says(env, lambda _phase: "off")
        env.world.run(hours=2)

        assert (switched_on(env), switched_off(env)) == (1, 0)
        assert pod_of(env)["status"]["phase"] == "Running"


def test_a_box_that_is_said_to_be_off_and_has_a_ready_node_is_not_taken_over():
    with sim_env("says-off", "webhook") as env:
        begin_owned(env)
        says(env, lambda _phase: "off")
        receiver(env).switch_on_by_hand("cellar-1")
        env.world.run(hours=1)

        assert requests(env) == []
        assert (switched_on(env), switched_off(env)) == (0, 0)


def test_a_silent_api_server_switches_nothing():
    with sim_env("no-server", "webhook") as env:
        begin_owned(env)
        asks(env, run_for="3h")
        env.until(runs(env), minutes=30)
        calls = switched_on(env), switched_off(env)
        env.world.network.partition("operator-0", KUBERNETES)
        asks(env, "another", gpus=2)
        env.world.run(hours=4)

        assert (switched_on(env), switched_off(env)) == calls


# -- waking ------------------------------------------------------------------------------------------------------------


def test_an_off_while_booting_means_starting_over_a_restart():
    """A status that is only a ping says off until the system is up."""
    with sim_env("ping", "webhook") as env:
        begin_owned(env, [3])  # boots in four minutes
        says(env, a_ping)
        asks(env)
        env.until(lambda: is_on(env), minutes=15)
        env.world.run(seconds=20)
        restart(env)
        env.until(runs(env), minutes=15)

        assert (switched_on(env), switched_off(env)) == (1, 0)


def test_a_box_that_does_not_wake_is_switched_off_and_the_next_best_serves():
    with sim_env("asleep", "webhook") as env:
        begin_owned(env, [0, 4], bootTimeout="5m")  # the same build twice
        env.node_bootstrap.node_faults.named["cellar-1"] = [NodeFault.NEVER_REGISTERS] * 5
        asks(env, run_for="30m")
        env.until(lambda: on_now(env) == ["cellar-1"], minutes=15)
        since = env.world.clock.now()
        env.until(lambda: "cellar-1" not in on_now(env), minutes=15)
        assert timedelta(minutes=4) < env.world.clock.now() - since < timedelta(minutes=9)
        env.until(runs(env), minutes=15)

        assert pod_of(env)["spec"]["nodeName"] == "cellar-5"


def test_boxes_that_do_not_wake_cool_down_one_by_one():
    """Two of them are no reason to leave the third alone."""
    with sim_env("two-asleep", "webhook") as env:
        begin_owned(env, [0, 4, 8], bootTimeout="5m")
        for name in ("cellar-1", "cellar-5"):
            env.node_bootstrap.node_faults.named[name] = [NodeFault.NEVER_REGISTERS] * 5
        asks(env, run_for="30m")
        env.until(runs(env), minutes=45)

        assert pod_of(env)["spec"]["nodeName"] == "cellar-9"


def test_a_box_that_does_not_wake_is_named_on_the_class_and_the_pod():
    with sim_env("told", "webhook") as env:
        begin_owned(env, bootTimeout="5m")
        env.node_bootstrap.node_faults.named["cellar-1"] = [NodeFault.NEVER_REGISTERS] * 9
        asks(env, run_for="30m")
        env.until(lambda: switched_on(env) == 1 and not is_on(env), minutes=30)
        env.world.run(minutes=2)
        node_class = env.world.api.local_api.get(GPU_NODE_CLASS, "", "rented")
        said = {row["type"]: row for row in node_class["status"]["conditions"]}

        assert said["MachinesCoolingDown"]["status"] == "True"
        assert "cellar-1" in said["MachinesCoolingDown"]["message"]
        assert "next attempt at" in said["MachinesCoolingDown"]["message"]
        assert any("cellar-1 failed at" in message for _, message in events_of(env))
        env.world.run(hours=3)
        assert 3 <= switched_on(env) <= 7  # 5, 10, 20, 40, 80 minutes apart


@pytest.mark.parametrize("fault", [CloudFault.BROKE, CloudFault.BUSY])
def test_a_receiver_that_says_later_is_asked_later(fault):
    """402: no power is left; 429: not so fast."""
    with sim_env("later", "webhook") as env:
        begin_owned(env)
        env.simulator.faults.aim(fault, CloudVerb.LAUNCH, times=2)
        asks(env)
        env.until(runs(env), minutes=60)

        assert pod_of(env)["spec"]["nodeName"] == "cellar-1"


def test_an_answer_of_500_after_switching_on_switches_nothing_twice():
    with sim_env("after", "webhook") as env:
        begin_owned(env)
        env.simulator.faults.aim(CloudFault.ERROR_AFTER, CloudVerb.LAUNCH)
        asks(env)
        env.until(runs(env), minutes=30)

        assert switched_on(env) == 1


def answers_oddly(env: SimEnv, reply: Reply, *, ends_with: str, times: int) -> list[Call]:
    """So many calls are answered like this, and do nothing. Gives those calls."""
    plain, odd = receiver(env).handle, []

    async def handle(call: Call) -> Reply:
        if call.path.endswith(ends_with) and len(odd) < times:
            odd.append(call)
            return reply
        return await plain(call)

    env.world.network.mount(POWER, handle)
    return odd


def test_a_machine_that_is_locked_is_asked_later_and_does_not_cool_down():
    """423: another client holds it. The next call is the same order."""
    with sim_env("locked", "webhook") as env:
        begin_owned(env)
        odd = answers_oddly(env, Reply(423, b"", (("Retry-After", "20"),)), ends_with="/on", times=2)
        asks(env)
        env.until(runs(env), minutes=20)

        assert len(odd) == 2
        assert switched_on(env) == 1
        assert "MachinesCoolingDown" not in conditions(env, "rented")


LARGE = Reply(200, b" " * (64 << 20))
PAGE = Reply(200, b"<!doctype html><title>log in</title>", (("Content-Type", "text/html"),))
ELSEWHERE = Reply(302, b"", (("Location", "http://169.254.169.254/on"),))


@pytest.mark.parametrize("reply", [LARGE, PAGE, ELSEWHERE], ids=["64MB", "html", "redirect"])
def test_a_power_on_that_is_answered_with_nonsense_is_unknown_and_serves_later(reply):
    """Whether it was switched on is unknown: nothing is sent twice for it, and after its time it is tried again."""
    with sim_env("nonsense", "webhook") as env:
        begin_owned(env, bootTimeout="3m")
        odd = answers_oddly(env, reply, ends_with="/on", times=1)
        asks(env)
        env.until(runs(env), minutes=60)

        assert len(odd) == 1
        assert switched_on(env) == 1


@pytest.mark.parametrize("reply", [LARGE, PAGE, ELSEWHERE], ids=["64MB", "html", "redirect"])
def test_a_status_that_is_nonsense_switches_nothing(reply):
    with sim_env("no-status", "webhook") as env:
        begin_owned(env)
        asks(env, run_for="3h")
        env.until(runs(env), minutes=20)
        odd = answers_oddly(env, reply, ends_with="/status", times=40)
        env.world.run(minutes=30)

        assert odd
        assert (switched_on(env), switched_off(env)) == (1, 0)
        assert pod_of(env)["status"]["phase"] == "Running"


# -- missing data, and no pod that needs the box -----------------------------------------------------------------------


def status_errs(env: SimEnv) -> None:
    """Its receiver switches, and answers no question."""
    answers_oddly(env, Reply(500, b"{}"), ends_with="/status", times=1 << 20)


def status_says_off(env: SimEnv) -> None:
    says(env, lambda _phase: "off")


def status_is_true(env: SimEnv) -> None:
    receiver(env).__dict__.pop("_status", None)
    env.world.network.mount(POWER, receiver(env).handle)


def a_box_that_served(env: SimEnv, status: Callable[[SimEnv], None], *, deleted: bool) -> None:
    """Its pod has ended, or a person deletes its request, while its status is not to be relied upon."""
    begin_owned(env)
    asks(env, run_for="8m")
    env.until(runs(env), minutes=30)
    status(env)
    env.world.run(minutes=3)
    if deleted:
        (request,) = requests(env)
        env.world.api.local_api.delete(GPU_REQUEST, "default", request["metadata"]["name"])


WRONG = pytest.mark.parametrize(
    ("status", "condition", "next_step"),
    [
        pytest.param(status_errs, "ProviderReachable", "Repair its statusEndpoint, or remove it", id="errs"),
        pytest.param(status_says_off, "ProviderInconsistent", "or power the machine off by hand", id="says off"),
    ],
)


@WRONG
@pytest.mark.parametrize("deleted", [False, True], ids=["idle", "deleted"])
def test_a_box_is_not_switched_off_while_its_status_errs_or_contradicts_its_node(status, condition, next_step, deleted):
    with sim_env("in-doubt", "webhook") as env:
        a_box_that_served(env, status, deleted=deleted)
        env.world.run(hours=3)
        assert switched_off(env) == 0
        (request,) = requests(env)
        said = {row["type"]: row["message"] for row in request["status"]["conditions"]}
        assert next_step in said[condition]
        assert ("Terminating" in said) is deleted  # of its own accord nothing begins that could not end

        restart(env)
        env.world.run(minutes=40)
        assert switched_off(env) == 0

        status_is_true(env)
        env.until(lambda: not is_on(env), minutes=40)
        env.world.run(minutes=5)
        assert requests(env) == []
        assert switched_on(env) == 1


def test_a_box_in_doubt_serves_the_next_pod():
    with sim_env("in-doubt-serves", "webhook") as env:
        a_box_that_served(env, status_errs, deleted=False)
        env.world.run(hours=1)
        asks(env, "next", run_for="1h")
        env.until(runs(env, "next"), minutes=10)

        assert (switched_on(env), switched_off(env)) == (1, 0)


def test_a_box_without_a_status_is_switched_off_by_what_its_node_shows():
    """The Node is the only evidence there is."""
    with sim_env("no-status-endpoint", "webhook") as env:
        begin_owned(env, statusEndpoint=None)
        asks(env, run_for="5m")
        env.until(runs(env), minutes=30)
        env.until(lambda: not is_on(env), minutes=40)
        env.until(lambda: requests(env) == [], minutes=10)

        assert switched_off(env) >= 1


def test_a_box_in_doubt_that_a_person_switches_off_is_closed():
    with sim_env("by-hand", "webhook") as env:
        a_box_that_served(env, status_says_off, deleted=True)
        env.world.run(minutes=20)
        receiver(env).switch_off_by_hand("cellar-1")
        env.until(lambda: requests(env) == [], minutes=20)

        assert switched_off(env) == 0


# -- machines that are not for a class ---------------------------------------------------------------------------------


def conditions(env: SimEnv, name: str) -> dict[str, str]:
    node_class = env.world.api.local_api.get(GPU_NODE_CLASS, "", name)
    assert node_class is not None
    return {row["type"]: row["message"] for row in node_class["status"]["conditions"]}


def test_a_machine_that_carries_the_control_plane_is_never_switched():
    with sim_env("control-plane", "webhook") as env:
        begin_owned(env)
        label = {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}
        env.world.api.local_api.merge_patch(NODE, "", "cellar-1", label)
        restart(env)
        env.world.run(minutes=2)
        asks(env)
        env.world.run(minutes=30)

        assert (switched_on(env), switched_off(env)) == (0, 0)
        assert "Node cellar-1 runs the control plane" in conditions(env, "rented")["MachinesRefused"]
        assert any("runs the control plane" in message for _, message in events_of(env))


def test_of_two_classes_that_name_one_machine_the_older_has_it():
    with sim_env("two-classes", "webhook") as env:
        begin_owned(env)
        env.world.run(minutes=1)
        a_class(env.world, "second", providers=[{"name": "webhook", "settings": owned()}])
        a_pool(env.world, "pool-1", "second", weight=100)
        env.world.run(minutes=1)
        asks(env)
        env.until(runs(env), minutes=20)

        assert [row["spec"]["nodeClassRef"]["name"] for row in requests(env)] == ["rented"]
        assert (
            "the older GPUNodeClass rented names machine cellar-1, too" in conditions(env, "second")["MachinesRefused"]
        )
        assert "MachinesRefused" not in conditions(env, "rented")
        assert switched_on(env) == 1


def test_of_two_pools_of_a_class_one_takes_a_machine_over():
    with sim_env("two-pools", "webhook") as env:
        begin_owned(env)
        a_pool(env.world, "pool-1", "rented")
        receiver(env).switch_on_by_hand("cellar-1")
        most = 0
        for _ in range(60):
            env.world.run(seconds=10)
            most = max(most, len(requests(env)))

        assert most == 1
        assert switched_on(env) == 0
