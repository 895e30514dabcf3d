"""Machines that fail in use: unhealthy ones are replaced first, unless many are unhealthy at once."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.sim.an_operator import ALONE, a_class
from tests.sim.lifecycle.a_world import SimEnv, sim_env, write
from tests.sim.lifecycle.reference import QUICK
from tests.sim.test_disruption import Watched, disrupted, names, of, one_machine, running, serves, taints
from tests.sim.with_pools import begin, pool_of, requests
from tgp.api.resource import NODE, POD_DISRUPTION_BUDGET
from tgp.sim.clouds.cloud_faults import CloudVerb

GPU = "nvidia.com/gpu"


def node_of(env: SimEnv, name: str) -> str:
    return str(of(env, name)["status"]["nodeName"])


def set_gpus(env: SimEnv, node: str, there: bool) -> None:
    """The driver fails, or works again: the kubelet reports what can be used."""
    machines = env.world.cluster.machines
    (machines.provide if there else machines.withdraw)(node, GPU)


def set_condition(env: SimEnv, node: str, kind: str, status: str) -> None:
    """As a node problem detector writes it."""
    found = env.node(node)
    assert found is not None
    others = [row for row in found["status"]["conditions"] if row["type"] != kind]
    now = f"{env.world.clock.now():%Y-%m-%dT%H:%M:%SZ}"
    row = {"type": kind, "status": status, "reason": "Test", "lastTransitionTime": now}
    env.world.api.local_api.merge_patch(NODE, "", node, {"status": {"conditions": [*others, row]}}, "status")


def halted(env: SimEnv) -> dict[str, Any] | None:
    rows = pool_of(env)["status"].get("conditions", ())
    return next((row for row in rows if row["type"] == "RepairHalted"), None)


def test_a_machine_whose_gpus_are_gone_for_ten_minutes_is_replaced_first():
    with sim_env("no-gpus") as env:
        name = one_machine(env, disruption={"budgets": [{"nodes": 0}]})
        set_gpus(env, node_of(env, name), False)
        env.world.run(minutes=9)
        assert disrupted(env, of(env, name)) == ("", "", "")
        watched = Watched(env)
        watched.until(lambda: len(names(env)) == 2, minutes=5)
        status, reason, message = disrupted(env, of(env, name))
        assert (status, reason) == ("True", "Ill")
        assert "has 0 of 1 nvidia.com/gpu allocatable" in message
        watched.until(lambda: name not in names(env) and running(env) == 1)
        assert len(env.living()) == 1


def test_a_new_leader_goes_on_counting_since_when_gpus_are_gone():
    with sim_env("no-gpus-restart") as env:
        name = one_machine(env)
        set_gpus(env, node_of(env, name), False)
        for _ in range(2):
            env.world.run(minutes=4)
            env.world.processes["operator-0"].crash(restart_after=5.0)
        env.until(lambda: len(names(env)) == 2, minutes=4)


def test_gpus_that_come_back_are_no_illness():
    with sim_env("back") as env:
        name = one_machine(env)
        for _ in range(3):
            set_gpus(env, node_of(env, name), False)
            env.world.run(minutes=6)
            set_gpus(env, node_of(env, name), True)
            env.world.run(minutes=1)
        env.world.run(minutes=15)

        assert names(env) == {name}
        assert len(env.simulator.fleet.machines) == 1


def test_each_condition_has_its_own_time():
    """One that comes and goes does not start another one again."""
    with sim_env("conditions") as env:
        name = one_machine(env)
        node = node_of(env, name)
        set_condition(env, node, "KernelDeadlock", "True")
        for number in range(3):
            env.world.run(minutes=3)
            set_condition(env, node, "ReadonlyFilesystem", "True" if number % 2 else "False")
        Watched(env).until(lambda: disrupted(env, of(env, name))[1] == "Ill", minutes=2)
        assert "KernelDeadlock has been True" in disrupted(env, of(env, name))[2]
        Watched(env).until(lambda: name not in names(env) and running(env) == 1)


def test_a_node_that_is_not_ready_is_ill_where_a_rule_says_so():
    """Earlier than its lifecycle gives it up, and replaced first."""
    with sim_env("silent-rule") as env:
        name = one_machine(env, settings=replace(ALONE, repair_conditions=("Ready=Unknown/2m",)))
        env.node_bootstrap.fall_silent(node_of(env, name))
        Watched(env).until(lambda: disrupted(env, of(env, name))[1] == "Ill", minutes=5)
        assert "Ready has been Unknown" in disrupted(env, of(env, name))[2]
        env.until(lambda: name not in names(env) and running(env) == 1, minutes=20)


def test_a_condition_that_is_in_no_list_replaces_nothing():
    with sim_env("unlisted") as env:
        name = one_machine(env)
        set_condition(env, node_of(env, name), "FrequentKubeletRestart", "True")
        env.world.run(minutes=40)
        assert names(env) == {name}


@pytest.mark.parametrize("restarts", [False, True])
def test_many_that_are_ill_at_once_halt_the_repair_until_fewer_are(restarts: bool):
    with sim_env("many", kubelets=QUICK) as env:
        begin(env)
        serves(env, replicas=4, apart=True)
        env.until(lambda: running(env) == 4, minutes=30)
        env.world.run(minutes=3)
        before = names(env)
        first, second, *_ = (node_of(env, name) for name in sorted(before))
        for node in (first, second):
            set_condition(env, node, "KernelDeadlock", "True")
        env.world.run(minutes=5)
        if restarts:
            env.world.processes["operator-0"].crash(restart_after=5.0)
        env.world.run(minutes=25)

        assert names(env) == before
        assert running(env) == 4
        row = halted(env)
        assert row is not None
        assert "2 of 4 nodes are unhealthy (more than 20 %)" in row["message"]
        told = [disrupted(env, each)[1] for each in requests(env)]
        assert sorted(told) == ["", "", "RepairHalted", "RepairHalted"]
        set_condition(env, second, "KernelDeadlock", "False")
        watched = Watched(env)
        watched.until(lambda: len(before - names(env)) == 1 and running(env) == 4, minutes=60)
        assert halted(env) is None
        assert taints(env) == []


def test_a_provider_whose_machines_fail_twice_in_a_day_is_left_out_for_the_pool():
    with sim_env("twice", "simulated", "vultr", kubelets=QUICK) as env:
        a_class(env.world, "rented", providers=[{"name": "simulated"}, {"name": "vultr"}])
        begin(env, of_class=False)
        serves(env)
        where = []
        for _ in range(3):
            env.until(lambda: running(env) == 1 and len(names(env)) == 1, minutes=60)
            env.world.run(minutes=3)
            (name,) = names(env)
            where.append(of(env, name)["status"]["offer"]["provider"])
            set_gpus(env, node_of(env, name), False)
            env.until(lambda name=name: name not in names(env), minutes=60)

        assert where[:2] == ["simulated", "simulated"], "the cheapest is where it was"
        assert where[2] == "vultr"


# -- lost --------------------------------------------------------------------------------------------------------------

SPOT = [{"key": "tgp.io/capacity-type", "operator": "In", "values": ["spot"]}]


@pytest.mark.parametrize("guarded", [False, True], ids=["free", "guarded"])
def test_the_pods_of_a_spot_machine_that_is_outbid_have_a_machine_ordered_before_its_node_is_gone(guarded: bool):
    with sim_env("outbid") as env:
        a_class(env.world, "rented", instanceRequirements={"spotAllowed": True})
        begin(env, of_class=False, template={"spec": {"requirements": SPOT}})
        serves(env)
        env.until(lambda: running(env) == 1, minutes=30)
        env.world.run(minutes=3)
        (name,) = names(env)
        lost, offer = node_of(env, name), of(env, name)["status"]["offer"]
        if guarded:
            guard = {"metadata": {"name": "guard", "namespace": "default"}}
            guard["spec"] = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "serve"}}}
            env.world.api.local_api.create(POD_DISRUPTION_BUDGET, guard)
        (machine,) = env.living()
        env.simulator.fleet.interrupt(machine, env.simulator.fleet.advance())
        env.until(lambda: len(requests(env)) == 2, minutes=10, step=1.0)
        if not guarded:
            assert env.node(lost) is not None, "the machine was ordered while the Node was still there"
        other = next(row for row in requests(env) if row["metadata"]["name"] != name)
        chosen = (other["spec"]["offer"]["instanceType"], other["spec"]["offer"].get("region"))
        assert chosen != (offer["instanceType"], offer.get("region")), "the lost offer cools down"
        env.until(lambda: running(env) == 1, minutes=15)
        env.until(lambda: len(env.living()) == 1, minutes=15)
        assert len(env.simulator.fleet.machines) == 2


def taken_back_in(env: SimEnv, name: str, hours: float) -> datetime:
    """As if its offer had said so when it was ordered."""
    (machine,) = env.living()
    end = env.world.clock.now() + timedelta(hours=hours)
    (attempt,) = of(env, name)["status"]["attempts"]
    offer = {**attempt["offer"], "until": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
    write(env, name, attempts=[{**attempt, "offer": offer}])
    machine.detail["ends_at"] = end
    return end


def test_a_machine_that_its_provider_takes_back_is_replaced_first():
    with sim_env("leaving") as env:
        name = one_machine(env, disruption={"budgets": [{"nodes": 0}]})
        taken_back_in(env, name, 3)
        env.world.run(minutes=50)
        assert disrupted(env, of(env, name)) == ("", "", "")
        Watched(env).until(lambda: disrupted(env, of(env, name))[1] == "Leaving", minutes=15)
        Watched(env).until(lambda: name not in names(env) and running(env) == 1, minutes=30)


def test_a_machine_that_its_provider_takes_back_is_drained_in_time_though_nothing_replaces_it():
    with sim_env("leaving-alone") as env:
        name = one_machine(env)
        end = taken_back_in(env, name, 3)
        for stand in env.simulator.fleet.stands.values():
            stand.stock = 0
        (machine,) = env.living()
        env.until(lambda: disrupted(env, of(env, name))[1] == "NoReplacement", minutes=90)
        env.until(lambda: env.living() == [], minutes=120)
        assert machine.ended_at is not None
        assert machine.ended_at < end - timedelta(minutes=25)


# -- announced after the order -----------------------------------------------------------------------------------------


def announce(env: SimEnv, **lead: float) -> datetime:
    """Its provider takes the one machine back: lists show it from now on."""
    (machine,) = env.living()
    end = env.world.clock.now() + timedelta(**lead)
    env.simulator.fleet.announce(machine, end)
    return end


def announced(env: SimEnv, name: str) -> str | None:
    (attempt,) = of(env, name)["status"]["attempts"]
    return attempt.get("announcedEnd")


def test_a_machine_whose_end_is_announced_late_is_replaced_first():
    """Too late to drain for the whole grace period, early enough for another machine."""
    with sim_env("late-notice") as env:
        name = one_machine(env, disruption={"budgets": [{"nodes": 0}]})
        end = announce(env, minutes=20)
        watched = Watched(env)
        watched.until(lambda: disrupted(env, of(env, name))[1] == "Leaving", minutes=2)
        assert announced(env, name) == f"{end:%Y-%m-%dT%H:%M:%SZ}"
        watched.until(lambda: len(names(env)) == 2, minutes=2)
        Watched(env).until(lambda: name not in names(env) and running(env) == 1, minutes=15)
        assert env.world.clock.now() < end
        first = min(env.simulator.fleet.machines.values(), key=lambda each: each.created_at)
        assert first.why == "deleted", "it was drained and terminated before its provider took it back"


def test_a_notice_of_thirty_seconds_is_used_as_far_as_it_goes():
    """Nothing boots in that time: the pod is asked to leave at once, and is demand before the Node is gone."""
    with sim_env("short-notice", kubelets=QUICK) as env:
        name = one_machine(env)
        node = node_of(env, name)
        lists = env.simulator.calls[CloudVerb.LIST]
        env.until(lambda: env.simulator.calls[CloudVerb.LIST] > lists, minutes=2, step=0.5)
        env.world.run(seconds=50)  # lists come once a minute
        end = announce(env, seconds=30)
        env.until(lambda: len(names(env)) == 2, minutes=1, step=0.5)
        assert env.world.clock.now() < end, "a machine was ordered before the other was gone"
        assert env.node(node) is not None
        env.until(lambda: running(env) == 1, minutes=15)
        env.until(lambda: len(env.living()) == 1 and len(names(env)) == 1, minutes=15)


def test_an_announcement_in_one_list_or_one_that_is_withdrawn_ends_nothing():
    with sim_env("withdrawn", kubelets=QUICK) as env:
        name = one_machine(env)
        (machine,) = env.living()
        announce(env, hours=1)
        env.until(lambda: announced(env, name) is not None, minutes=3)
        env.until(lambda: len(names(env)) == 2, minutes=3)
        env.simulator.fleet.announce(machine, None)
        env.until(lambda: announced(env, name) is None, minutes=3)
        env.until(lambda: names(env) == {name}, minutes=15)
        assert disrupted(env, of(env, name)) == ("", "", "")
        env.until(lambda: len(env.living()) == 1, minutes=15)
        lists = env.simulator.calls[CloudVerb.LIST]
        announce(env, hours=1)
        env.until(lambda: env.simulator.calls[CloudVerb.LIST] > lists, minutes=2, step=0.5)
        env.simulator.fleet.announce(machine, None)
        env.world.run(minutes=70)
        assert names(env) == {name}
        assert running(env) == 1
        assert env.living() == [machine]
