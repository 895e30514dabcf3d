"""Pools that use machines you own: switched on for pods, drained and switched off when idle, never on missing data."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.sim.an_operator import a_class
from tests.sim.cluster.manifests import a_pod
from tests.sim.lifecycle.a_world import POWER, SimEnv, sim_env
from tests.sim.with_pools import asks as asks_for_any
from tests.sim.with_pools import begin, events_of, requests, runs
from tgp.api.resource import GPU_NODE_CLASS, NODE, POD
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.webhook import WebhookReceiver, settings_at
from tgp.sim.clouds.webhook.machines import build_of, name_of
from tgp.sim.node_bootstrap import NodeFault

SOON_IDLE = {"consolidateAfter": "5m"}


def owned(numbers: Sequence[int] = (0,), **more: Any) -> dict[str, Any]:
    """Settings of a class with these machines; `more` is added to each of them."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(settings_at(POWER, numbers)))
    found["machines"] = [{**machine, **more} for machine in found["machines"]]
    return found


def begin_owned(env: SimEnv, numbers: Sequence[int] = (0,), *, pool: dict[str, Any] | None = None, **more: Any) -> None:
    """A class with these machines, whose Nodes exist and are not ready; a pool; and an operator."""
    for number in numbers:
        a_node(env, number)
    a_class(env.world, "rented", providers=[{"name": "webhook", "settings": owned(numbers, **more)}])
    begin(env, of_class=False, **{"disruption": SOON_IDLE, **(pool or {})})


def asks(env: SimEnv, name: str = "train", **spec: Any) -> None:
    """A pod that tolerates nothing: machines you own have no taint."""
    asks_for_any(env, name, tolerations=[], **spec)


def a_node(env: SimEnv, number: int, *, ready: str = "Unknown") -> None:
    """As its kubelet left it when the machine was switched off."""
    build = build_of(number)
    has = {"cpu": str(build.vcpus), "memory": f"{build.memory_gib}Gi", "pods": "110"}
    status = {"allocatable": has, "capacity": has, "conditions": [{"type": "Ready", "status": ready}]}
    labels = {"kubernetes.io/hostname": name_of(number), "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    meta = {"name": name_of(number), "labels": labels}
    env.world.api.local_api.create(NODE, {"metadata": meta, "status": status})


def switched_on(env: SimEnv) -> int:
    """Calls that switch a machine on, so far."""
    return env.simulator.calls[CloudVerb.LAUNCH]


def switched_off(env: SimEnv) -> int:
    return env.simulator.calls[CloudVerb.TERMINATE]


def is_on(env: SimEnv) -> bool:
    return bool(env.living())


def receiver(env: SimEnv) -> WebhookReceiver:
    assert isinstance(env.simulator, WebhookReceiver)
    return env.simulator


def restart(env: SimEnv) -> None:
    env.world.processes["operator-0"].crash(restart_after=5)


# -- on for pods, off when idle ----------------------------------------------------------------------------------------


def test_a_pod_that_waits_wakes_the_box_and_the_idle_box_goes_off():
    with sim_env("wake", "webhook") as env:
        begin_owned(env)
        asks(env, run_for="20m")
        env.until(runs(env), minutes=15)
        assert [one.product.sku for one in env.living()] == ["cellar-1"]
        env.until(lambda: not is_on(env), minutes=60)
        env.world.run(minutes=5)

        assert requests(env) == []
        assert switched_on(env) == 1
        assert env.node("cellar-1") is not None


def test_a_box_stays_on_for_its_min_on_time_over_a_restart():
    with sim_env("min-on", "webhook") as env:
        begin_owned(env, minOnTime="1h", pool={"disruption": {"consolidateAfter": "1m"}})
        asks(env, run_for="1m")
        env.until(runs(env), minutes=15)
        since = env.world.clock.now()
        env.world.run(minutes=20)
        restart(env)
        env.until(lambda: not is_on(env), minutes=90)

        assert env.world.clock.now() - since > timedelta(minutes=55)


def test_a_box_stays_off_for_its_min_off_time_over_a_restart():
    with sim_env("min-off", "webhook") as env:
        begin_owned(env, minOffTime="40m", pool={"disruption": {"consolidateAfter": "1m"}})
        asks(env, run_for="1m")
        env.until(lambda: switched_off(env) > 0 and not is_on(env), minutes=60)
        since = env.world.clock.now()
        asks(env, "next", run_for="1m")
        env.world.run(minutes=10)
        restart(env)
        env.until(lambda: is_on(env), minutes=60)

        assert env.world.clock.now() - since > timedelta(minutes=38)
        assert any("minOffTime" in message for _, message in events_of(env, "next"))
        env.until(runs(env, "next"), minutes=15)


def test_a_pod_that_names_a_model_wakes_the_box_whose_node_has_it():
    """The class does not name it, and the box is off."""
    with sim_env("learned-model", "webhook") as env:
        begin_owned(env, [0, 1], gpuType=None)
        label = {"metadata": {"labels": {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-3090"}}}
        env.world.api.local_api.merge_patch(NODE, "", "cellar-2", label)
        env.world.run(minutes=10)
        asks(env, nodeSelector={"tgp.io/gpu-type": "RTX3090"}, run_for="5m")
        env.until(runs(env), minutes=30)

        assert env.world.api.local_api.get(POD, "default", "train")["spec"]["nodeName"] == "cellar-2"
        assert env.node("cellar-2")["metadata"]["labels"]["tgp.io/gpu-type"] == "RTX3090"
        assert switched_on(env) == 1


# -- needed again while it is drained ----------------------------------------------------------------------------------


def guest(env: SimEnv, seconds: int = 240) -> None:
    """A pod without GPUs on the box, which takes its time to leave."""
    made = a_pod("guest", run_for="10h", nodeName="cellar-1", terminationGracePeriodSeconds=seconds)
    made["metadata"]["annotations"]["sim.tgp.io/stop-takes"] = f"{seconds}s"
    env.world.api.local_api.create(POD, made)
    env.until(runs(env, "guest"), minutes=5)


def leaves(env: SimEnv, name: str = "guest") -> bool:
    found = env.world.api.local_api.get(POD, "default", name)
    return found is None or "deletionTimestamp" in found["metadata"]


def drained(env: SimEnv, seconds: int = 240) -> None:
    """Until the idle box is drained, and its guest takes its time."""
    begin_owned(env)
    asks(env, run_for="1m")
    env.until(runs(env), minutes=15)
    guest(env, seconds)
    env.until(lambda: leaves(env), minutes=40, step=1.0)


@pytest.mark.parametrize("after", [timedelta(0), timedelta(minutes=2)], ids=["at-once", "later"])
def test_a_box_that_is_drained_stays_on_for_a_pod_that_needs_it_again(after):
    with sim_env(f"needed-{after}", "webhook") as env:
        drained(env)
        env.world.run(seconds=after.total_seconds())
        asks(env, "next", run_for="5m")
        began = env.world.clock.now()
        env.until(runs(env, "next"), minutes=3, step=1.0)

        assert env.world.clock.now() - began < timedelta(minutes=1)
        assert (switched_on(env), switched_off(env)) == (1, 0)
        assert not [taint for taint in env.node("cellar-1")["spec"].get("taints", []) if "disrupted" in taint["key"]]
        env.until(lambda: not is_on(env), minutes=60)


def test_a_box_stays_on_for_a_pod_that_comes_late_in_its_drain():
    """Of an hour; and what is left of it is as long for the next drain."""
    with sim_env("needed-late", "webhook") as env:
        drained(env, seconds=3600)
        env.world.run(minutes=40)
        restart(env)
        asks(env, "next", run_for="5m")
        env.until(runs(env, "next"), minutes=3, step=1.0)

        assert (switched_on(env), switched_off(env)) == (1, 0)
        (kept,) = requests(env)
        assert not {"tgp.io/move", "tgp.io/drain-began"} & kept["metadata"]["annotations"].keys()
        said = [message for reason, message in events_of(env, "cellar-1") if reason == "DisruptionBlocked"]
        assert said[-1:] == ["Node cellar-1 stays, and its taint is removed: a waiting pod needs it."]
        env.until(lambda: not is_on(env), minutes=90)


def test_a_pod_has_the_grace_of_its_machine_once_to_leave_it():
    """Evicted before its request is deleted and after it."""
    with sim_env("grace-once", "webhook") as env:
        drained(env, seconds=3 * 3600)
        began = env.world.clock.now()
        env.until(lambda: switched_off(env) > 0, minutes=90, step=5.0)

        assert timedelta(minutes=55) < env.world.clock.now() - began < timedelta(minutes=63)


def test_a_box_that_is_drained_and_needed_again_stays_on_over_a_restart():
    with sim_env("needed-restart", "webhook") as env:
        drained(env)
        asks(env, "next", run_for="5m")
        restart(env)
        env.until(runs(env, "next"), minutes=4)

        assert (switched_on(env), switched_off(env)) == (1, 0)


def test_a_box_that_is_drained_and_not_needed_goes_off_after_its_guests():
    with sim_env("not-needed", "webhook") as env:
        drained(env)
        restart(env)
        env.until(lambda: switched_off(env) > 0, minutes=15, step=1.0)

        assert env.world.api.local_api.get(POD, "default", "guest") is None
        env.until(lambda: not is_on(env) and requests(env) == [], minutes=10)


def test_a_guest_that_does_not_leave_keeps_the_box_no_longer_than_its_drain():
    with sim_env("stays", "webhook") as env:
        begin_owned(env, pool={"template": {"spec": {"terminationGracePeriod": "20m"}}})
        asks(env, run_for="1m")
        env.until(runs(env), minutes=15)
        guest(env, seconds=4 * 3600)
        env.until(lambda: leaves(env), minutes=40, step=1.0)
        env.until(lambda: switched_off(env) > 0, minutes=40)


# -- kept on -----------------------------------------------------------------------------------------------------------


def test_a_box_is_on_while_its_window_is_open_and_idles_afterwards():
    with sim_env("keep-on", "webhook") as env:
        now = env.world.clock.now()
        begins, ends = now + timedelta(minutes=30), now + timedelta(minutes=90)
        window = {"schedule": f"{begins.minute} {begins.hour} * * *", "duration": "1h"}
        begin_owned(env, keepOn=window)
        env.world.run(minutes=20)
        assert not is_on(env)
        env.until(lambda: is_on(env), minutes=15)
        assert env.world.clock.now() >= begins - timedelta(minutes=1)
        env.world.run(minutes=20)
        restart(env)
        while env.world.clock.now() < ends - timedelta(minutes=1):
            assert is_on(env)
            env.world.run(minutes=1)
        env.until(lambda: not is_on(env), minutes=20)
        env.world.run(minutes=30)

        assert switched_on(env) == 1
        assert requests(env) == []


# -- found on, found off -----------------------------------------------------------------------------------------------


def test_a_box_that_is_found_on_is_taken_over_without_a_call_and_goes_off_when_idle():
    with sim_env("found-on", "webhook") as env:
        begin_owned(env)
        receiver(env).switch_on_by_hand("cellar-1")
        env.until(lambda: bool(requests(env)), minutes=15)
        env.until(lambda: not is_on(env), minutes=60)
        env.world.run(minutes=5)

        assert switched_on(env) == 0
        assert requests(env) == []
        assert env.node("cellar-1") is not None


def test_an_ordinary_worker_that_a_class_names_is_neither_drained_nor_switched_off():
    """It is Ready, has no GPU, and its pods are not ours."""
    with sim_env("ordinary", "webhook") as env:
        begin_owned(env)
        env.node_bootstrap.node_faults.aim(NodeFault.NO_GPUS)
        receiver(env).switch_on_by_hand("cellar-1")
        env.world.run(minutes=60)

        assert (switched_on(env), switched_off(env)) == (0, 0)
        assert not env.node("cellar-1")["spec"].get("unschedulable")
        conditions = env.world.api.local_api.get(GPU_NODE_CLASS, "", "rented")["status"]["conditions"]
        (refused,) = [each["message"] for each in conditions if each["type"] == "MachinesRefused"]
        assert "Node cellar-1 is Ready and has no GPU" in refused


def test_a_box_that_is_switched_off_by_hand_is_lost_and_its_node_stays():
    with sim_env("by-hand", "webhook") as env:
        begin_owned(env)
        asks(env, run_for="5h")
        env.until(runs(env), minutes=15)
        receiver(env).switch_off_by_hand("cellar-1")
        env.until(lambda: [row["status"]["phase"] for row in requests(env)] == ["Failed"], minutes=60)

        assert env.node("cellar-1") is not None
        assert switched_on(env) == 1
