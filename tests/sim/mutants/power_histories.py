"""Short histories of machines you own: what must not be switched, and when."""

from collections.abc import Callable
from datetime import timedelta

from tests.sim.lifecycle.a_world import sim_env
from tests.sim.test_power_faults import a_box_that_served, says, status_errs, status_says_off
from tests.sim.test_power_pools import (
    asks,
    begin_owned,
    drained,
    is_on,
    receiver,
    restart,
    switched_off,
    switched_on,
)
from tests.sim.with_pools import requests, runs
from tgp.api.resource import GPU_REQUEST, POD
from tgp.sim.clouds.cloud_faults import CloudFault
from tgp.sim.node_bootstrap import KubeletTimes

SLOW = KubeletTimes(registers=(500.0, 520.0))


def idle_box_with_a_guest(seed: str) -> None:
    """A pod without GPUs is on the box when a person deletes its request: its pool would have evicted the pod first."""
    with sim_env(seed, "webhook") as env:
        begin_owned(env)
        asks(env, run_for="2m")
        env.until(runs(env), minutes=15)
        asks(env, "guest", gpus=0, run_for="10h", nodeName="cellar-1", terminationGracePeriodSeconds=60)
        env.until(runs(env, "guest"), minutes=5)
        (request,) = requests(env)
        env.world.api.local_api.delete(GPU_REQUEST, "default", request["metadata"]["name"])
        env.until(lambda: switched_off(env) > 0, minutes=60, step=1.0)
        guest = env.world.api.local_api.get(POD, "default", "guest")
        gone = guest is None or guest["status"]["phase"] != "Running"
        assert gone, "a box was switched off with a pod on it"


def needed_late_in_its_drain(seed: str) -> None:
    """A pod without GPUs leaves the idle box slowly; half an hour later a pod comes that needs it."""
    with sim_env(seed, "webhook") as env:
        drained(env, seconds=3600)
        env.world.run(minutes=30)
        asks(env, "next", run_for="5m")
        env.until(lambda: runs(env, "next")() or switched_off(env) > 0, minutes=90)
        assert switched_off(env) == 0, "a box that a pod needs went off"


def said_to_be_off_while_it_boots(seed: str) -> None:
    """A status that is a ping, a slow start, and an operator that begins again."""
    with sim_env(seed, "webhook", kubelets=SLOW) as env:
        begin_owned(env, bootTimeout="20m")
        up = runs(env)
        says(env, lambda _phase: "on" if up() else "off")
        asks(env, run_for="1h")
        env.until(lambda: is_on(env), minutes=15)
        restart(env)
        env.until(lambda: up() or switched_off(env) > 0, minutes=30)
        assert not switched_off(env), "a box was switched off while it booted"


def silent_power_api(seed: str) -> None:
    """No status can be read, and a pod waits."""
    with sim_env(seed, "webhook") as env:
        begin_owned(env)
        env.simulator.faults.chances[CloudFault.ERROR] = 1.0
        env.world.run(minutes=10)
        asks(env)
        env.world.run(hours=1)
        assert not switched_on(env), "a box was switched on although its state is unknown"


def found_on(seed: str) -> None:
    with sim_env(seed, "webhook") as env:
        begin_owned(env)
        receiver(env).switch_on_by_hand("cellar-1")
        env.until(lambda: bool(requests(env)), minutes=15)
        env.world.run(minutes=3)
        assert not switched_on(env), "a box that was on already was switched on"


def wanted_again_at_once(seed: str) -> None:
    with sim_env(seed, "webhook") as env:
        begin_owned(env, minOffTime="30m", pool={"disruption": {"consolidateAfter": "1m"}})
        asks(env, run_for="1m")
        env.until(lambda: switched_off(env) > 0 and not is_on(env), minutes=60)
        since = env.world.clock.now()
        asks(env, "next", run_for="1m")
        env.until(lambda: is_on(env), minutes=60)
        assert env.world.clock.now() - since > timedelta(minutes=28), "a box was switched on within its minOffTime"


def deleted_while_its_status_errs(seed: str) -> None:
    with sim_env(seed, "webhook") as env:
        a_box_that_served(env, status_errs, deleted=True)
        env.world.run(minutes=40)
        assert is_on(env), "a box was switched off although its state is unknown"


def deleted_while_said_to_be_off(seed: str) -> None:
    with sim_env(seed, "webhook") as env:
        a_box_that_served(env, status_says_off, deleted=True)
        env.world.run(hours=2)
        assert requests(env), "the request of a box that is on was closed"


POWER: tuple[Callable[[str], None], ...] = (
    idle_box_with_a_guest,
    needed_late_in_its_drain,
    said_to_be_off_while_it_boots,
    silent_power_api,
    found_on,
    wanted_again_at_once,
    deleted_while_its_status_errs,
    deleted_while_said_to_be_off,
)
