"""Machines that do not help their pod: a few are tried in a day and no more, and the pod is told what they cost."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.amounts import amount
from tests.sim.an_operator import ALONE, a_class, a_pool, operator_main
from tests.sim.cluster.manifests import a_job, a_pod, a_set, a_template
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.test_pools import events_of, requests, runs
from tgp.api.resource import DEPLOYMENT, GPU_NODE_POOL, JOB, POD
from tgp.sim import node_bootstrap
from tgp.sim.cluster.machines import Hardware

TOLERATES = [{"key": "tgp.io/ephemeral", "operator": "Exists"}, {"key": "tgp.io/untrusted", "operator": "Exists"}]
FOREIGN = {"key": "corp.example/unchecked", "effect": "NoSchedule"}
MOST = 3  # machines in a day


def foreign_taint(machine: Hardware) -> Hardware:
    return replace(machine, taints=(*machine.taints, FOREIGN))


def too_small(machine: Hardware) -> Hardware:
    return replace(machine, cpu="500m")


def never_joins(machine: Hardware) -> Hardware:
    return replace(machine, registers_after=node_bootstrap.TEN_YEARS)


@pytest.fixture
def machines_are(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Hardware], Hardware]], None]:
    """Every machine that boots from now on is as this makes it."""
    real = node_bootstrap._hardware

    def become(change: Callable[[Hardware], Hardware]) -> None:
        monkeypatch.setattr(node_bootstrap, "_hardware", lambda *given: change(real(*given)))

    return become


def begin(env: SimEnv) -> None:
    a_class(env.world, "rented", timeouts={"launch": "5m", "boot": "4m", "join": "4m"})
    a_pool(env.world, "pool-0", "rented", disruption={"consolidateAfter": "5m"})
    env.world.process("operator-0", operator_main(ALONE))
    env.world.run(minutes=2)


def asks(env: SimEnv, name: str = "train", *, cpu: str = "1") -> None:
    pod = a_pod(name, gpus=1, restartPolicy="Never", tolerations=TOLERATES)
    pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] = cpu
    env.world.api.local_api.create(POD, pod)


def told(env: SimEnv, name: str = "train") -> str:
    return " ".join(text for reason, text in events_of(env, name) if reason == "NotTriggerScaleUp")


HOURS = amount(4, 6)  # one more than machines that may be bought
HISTORIES = [
    pytest.param(never_joins, "never became usable", id="never-joins"),
    pytest.param(foreign_taint, "taint corp.example/unchecked:NoSchedule", id="foreign-taint"),
    pytest.param(too_small, "the pod requests 1 CPU", id="too-small"),
]


@pytest.mark.parametrize(("change", "what"), HISTORIES)
def test_a_pod_costs_three_machines_in_a_day_and_is_told(machines_are: Any, change: Any, what: str):
    with sim_env(f"runaway-{what}") as env:
        machines_are(change)
        begin(env)
        asks(env)
        env.until(lambda: "3 machines" in told(env), minutes=120, step=60.0)

        text = told(env)
        assert what in text
        assert "$" in text
        assert "No machine is bought for the pod before" in text
        env.world.run(hours=amount(1, 22))
        assert len(env.simulator.fleet.machines) == MOST
        assert env.living() == []
        assert requests(env) == []


TICKS = amount(8, 16)  # quarters of an hour


@pytest.mark.parametrize("kept", [True, False], ids=["pods stay", "pods are deleted"])
def test_equal_pods_that_are_new_each_time_share_one_count(machines_are: Any, kept: bool):
    """A client creates an equal pod every quarter of an hour, as a scheduler of workflows does."""
    with sim_env(f"runaway-bare-{kept}") as env:
        machines_are(foreign_taint)
        begin(env)
        for number in range(TICKS):
            asks(env, f"train-{number}")
            env.world.run(minutes=15)
            if not kept:
                env.world.api.local_api.delete(POD, "default", f"train-{number}")

        assert 1 <= len(env.simulator.fleet.machines) <= MOST


def test_the_runs_of_a_cron_job_share_one_count(machines_are: Any):
    with sim_env("runaway-cron") as env:
        machines_are(foreign_taint)
        begin(env)
        template = a_template({"app": "nightly"}, gpus=1, restartPolicy="Never", tolerations=TOLERATES)
        for number in range(TICKS):
            name = f"nightly-{number}"
            env.world.api.local_api.create(JOB, a_job(name, template=template, activeDeadlineSeconds=600))
            env.world.run(minutes=15)

        assert 1 <= len(env.simulator.fleet.machines) <= MOST


def limited(env: SimEnv) -> str:
    found = env.world.api.local_api.get(GPU_NODE_POOL, "default", "pool-0") or {}
    rows = found.get("status", {}).get("conditions", [])
    return next((row["message"] for row in rows if row["reason"] == "MachinesUnused" and row["status"] == "True"), "")


def test_a_pool_whose_machines_serve_no_pod_at_all_buys_nothing_and_says_so(machines_are: Any):
    """Each pod is gone before its machine comes, and the next one asks for a little more."""
    with sim_env("runaway-impatient") as env:
        begin(env)
        for number in range(TICKS):
            asks(env, f"train-{number}", cpu=f"{500 + number}m")
            env.until(lambda: env.living() != [] or limited(env) != "", minutes=10)
            env.world.api.local_api.delete(POD, "default", f"train-{number}")
            env.until(lambda: env.living() == [], minutes=30)
        assert len(env.simulator.fleet.machines) == MOST
        assert "3 machines of this pool became ready within a day and served no pod" in limited(env)

        asks(env, "other")
        env.world.run(minutes=5)
        assert "served no pod" in told(env, "other")
        env.world.processes["operator-0"].crash(restart_after=5)
        env.world.run(minutes=5)
        assert len(env.simulator.fleet.machines) == MOST, "a new process knows it, too"

        edit = {"spec": {"disruption": {"consolidateAfter": "6m"}}}
        env.world.api.local_api.merge_patch(GPU_NODE_POOL, "default", "pool-0", edit)
        env.until(runs(env, "other"), minutes=20)
        assert limited(env) == ""


def pods_of(env: SimEnv, app: str) -> list[str]:
    found = env.world.api.local_api.objects(POD)
    return [row["metadata"]["name"] for row in found if row["metadata"].get("labels", {}).get("app") == app]


def test_a_controller_that_creates_the_pod_again_does_not_begin_the_count_again(machines_are: Any):
    """Every hour the pod of a Deployment is deleted, and another one takes its place."""
    with sim_env("runaway-recreated") as env:
        machines_are(foreign_taint)
        begin(env)
        template = a_template({"app": "web"}, gpus=1, tolerations=TOLERATES)
        env.world.api.local_api.create(DEPLOYMENT, a_set("web", template=template, replicas=1))
        for _ in range(HOURS):
            env.world.run(hours=1)
            for name in pods_of(env, "web"):
                env.world.api.local_api.delete(POD, "default", name)
        env.world.run(minutes=10)

        assert len(env.simulator.fleet.machines) == MOST
        (name,) = pods_of(env, "web")
        assert "3 machines bought for this pod" in told(env, name)


def test_a_changed_template_may_buy_again(machines_are: Any):
    with sim_env("runaway-changed") as env:
        machines_are(foreign_taint)
        begin(env)
        template = a_template({"app": "web"}, gpus=1, tolerations=TOLERATES)
        env.world.api.local_api.create(DEPLOYMENT, a_set("web", template=template, replicas=1))
        env.until(lambda: any("3 machines" in told(env, name) for name in pods_of(env, "web")), minutes=120, step=60.0)
        env.until(lambda: env.living() == [], minutes=20)
        mended = {"spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}}
        env.world.api.local_api.merge_patch(DEPLOYMENT, "default", "web", mended)

        env.until(lambda: any(runs(env, name)() for name in pods_of(env, "web")), minutes=20)
        assert len(env.simulator.fleet.machines) == MOST + 1


def test_a_new_process_knows_what_did_not_work(machines_are: Any):
    """Every hour the operator is killed: at no time does it buy what it has given up."""
    with sim_env("runaway-restarts") as env:
        machines_are(foreign_taint)
        begin(env)
        asks(env)
        for _ in range(HOURS):
            env.world.run(hours=1)
            env.world.processes["operator-0"].crash(restart_after=5)
        env.world.run(minutes=10)

        assert len(env.simulator.fleet.machines) == MOST


def test_a_machine_for_many_pods_that_serves_none_of_them_counts_for_all_of_them(machines_are: Any):
    with sim_env("runaway-many") as env:
        machines_are(foreign_taint)
        for stand in env.simulator.fleet.stands.values():
            stand.stock = 8 if stand.product.gpu_count == 4 else 0
        begin(env)
        for number in range(4):
            asks(env, f"train-{number}")
        env.world.run(hours=HOURS)

        assert len(env.simulator.fleet.machines) <= MOST


@pytest.mark.parametrize("seed", ["runaway-replicas", "a"])
def test_a_pool_whose_replicas_get_no_machine_is_told(machines_are: Any, seed: str):
    """Each failed machine leaves its slot empty: that alone makes the pool look for another one."""
    with sim_env(seed) as env:
        machines_are(never_joins)
        begin(env)
        env.world.api.local_api.merge_patch(GPU_NODE_POOL, "default", "pool-0", {"spec": {"replicas": 1}})
        env.until(lambda: "3 machines bought for this replica" in told(env, "pool-0"), minutes=120, step=60.0)
        env.world.run(hours=amount(2, 3))

        assert len(env.simulator.fleet.machines) == MOST
