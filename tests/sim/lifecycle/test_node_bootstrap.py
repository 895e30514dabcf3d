"""Machines that are rented become Nodes by themselves, each in its own time, and fall silent when they stop."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.contracts.clouds.everything import all_providers
from tests.contracts.clouds.stage import Stage, an_order, cheapest
from tests.sim.cluster.manifests import condition
from tests.sim.lifecycle.a_world import sim_env
from tgp.api.nodeclass import GPUNodeClass, GPUNodeClassSpec, ProviderConfig
from tgp.api.request import GPURequest, GPURequestSpec
from tgp.api.resource import NODE
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode
from tgp.core.model.token import token_for
from tgp.ports.boot import BootRequest
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudFault
from tgp.sim.clouds.fleet import WantedMachine
from tgp.sim.clouds.machine import Phase
from tgp.sim.node_bootstrap import GPU, KubeletTimes, NodeBootstrap, NodeFault
from tgp.sim.plain_boot import PlainBoot
from tgp.sim.world import World

TOKEN = token_for("c0ffee0123", "a" * 32, 1)
NAME = "tgp-train-1"
PROMPT = KubeletTimes(registers=(10, 10), ready=(5, 5), gpus=(5, 5))


BOOTED = [provider for provider in all_providers() if provider.facts.boot != (BootMode.CONTAINER,)]


@pytest.mark.parametrize("provider", BOOTED, ids=lambda provider: provider.name)
def test_a_machine_of_any_provider_becomes_the_node_it_was_told_to_be(provider):
    """Through the adapter and the provider's own wire: user data, or a script."""
    with World(f"joins-{provider.name}") as world:
        env = Stage(provider, world.seed, world.loop)
        node_bootstrap = NodeBootstrap(world.cluster, world.loop, world.clock, world.seed)
        node_bootstrap.adopt(env.simulator)
        offer = cheapest(world.until(env.cloud.offers()))
        provider_id = f"tgp://{provider.name}/{TOKEN}"
        boot_request = BootRequest(
            ObjectKey("default", "train"),
            a_request(),
            a_node_class(),
            offer,
            TOKEN,
            NAME,
            provider_id,
            world.clock.now(),
        )
        boot_payload = world.until(PlainBoot().pack(boot_request))
        order = replace(an_order(provider, offer, TOKEN), user_data=boot_payload.user_data)
        world.until(env.cloud.launch(order))
        world.run(hours=1)
        (machine,) = env.fleet.living()
        name = machine.product.sku if provider.name == "webhook" else NAME
        node = world.api.local_api.get(NODE, "", name)

        assert machine.phase is Phase.RUNNING
        assert node is not None
        assert node["spec"].get("providerID", "") == ("" if provider.name == "webhook" else provider_id)
        assert node["status"]["allocatable"][GPU] == str(machine.product.gpu_count)
        assert condition(node, "Ready")["status"] == "True"
        assert node_bootstrap.node_of(provider.name, machine.id) == name

        world.until(env.cloud.terminate(next(iter(world.until(env.cloud.find(TOKEN)))).id))
        world.run(minutes=5)
        node = world.api.local_api.get(NODE, "", name)
        assert node is not None, "a Node stays when its machine goes"
        assert condition(node, "Ready")["status"] == "Unknown"


def a_request() -> GPURequest:
    return GPURequest(spec=GPURequestSpec(gpu_type="T4"))


def a_node_class() -> GPUNodeClass:
    return GPUNodeClass(spec=GPUNodeClassSpec(providers=(ProviderConfig(name="simulated"),)))


@contextmanager
def rented(
    seed: str, *node_faults: NodeFault | None, cloud_fault: CloudFault | None = None, kubelets: KubeletTimes = PROMPT
):
    """One machine, launched with its name as user data."""
    with sim_env(seed, kubelets=kubelets, invariants=[]) as env:
        env.node_bootstrap.node_faults.aim(*node_faults)
        fleet = env.simulator.fleet
        plate = f'#cloud-config\n# {{"node": "{NAME}", "providerID": "tgp://simulated/{TOKEN}"}}\n'
        wanted = WantedMachine("t4.1@us-west-1", TOKEN, user_data=plate.encode())
        machine = fleet.rent(next(iter(fleet.accounts)), wanted, cloud_fault)
        yield env, machine


def ready(env, name: str = NAME) -> str:
    node = env.node(name)
    return condition(node, "Ready")["status"] if node is not None else "none"


def test_it_boots_without_being_asked_and_serves_when_it_is_due():
    """Without any list call: the machine runs when its time has come, and so does its kubelet."""
    with rented("by itself") as (env, machine):
        boots = machine.product.boot_seconds
        env.world.run(seconds=boots * 0.69)
        assert machine.phase is Phase.STARTING
        env.world.run(seconds=boots * 0.72)
        assert machine.phase is Phase.RUNNING
        env.world.run(seconds=30)

        assert ready(env) == "True"
        assert env.node(NAME)["status"]["allocatable"][GPU] == "1"


def test_a_world_in_which_nothing_is_rented_sleeps():
    """An idle market triggers nothing: no timer but the test's own."""
    with sim_env("asleep", invariants=[]) as env:
        env.world.run(hours=1)
        turns = env.world.loop.time()
        before = env.world._turns
        env.world.run(hours=24)

        assert env.world.loop.time() - turns == 24 * 3600
        assert env.world._turns - before < 10


@pytest.mark.parametrize("node_fault", [NodeFault.NEVER_REGISTERS, NodeFault.WRONG_NAME])
def test_a_kubelet_that_does_not_come_under_its_name_leaves_no_node_of_it(node_fault):
    with rented("absent", node_fault) as (env, machine):
        env.world.run(hours=2)

        assert machine.phase is Phase.RUNNING
        assert env.node(NAME) is None
        assert len(env.nodes()) == (1 if node_fault is NodeFault.WRONG_NAME else 0)
        assert env.node_bootstrap.node_faults.seen == {node_fault: 1}


def test_a_kubelet_that_comes_late_comes():
    with rented("late", NodeFault.REGISTERS_LATE) as (env, _):
        env.world.run(minutes=10)
        assert env.node(NAME) is None
        env.world.run(minutes=30)

        assert ready(env) == "True"


def test_a_node_without_its_gpus_is_ready_and_useless():
    with rented("bare", NodeFault.NO_GPUS) as (env, _):
        env.world.run(hours=1)

        assert ready(env) == "True"
        assert env.node(NAME)["status"]["allocatable"].get(GPU, "0") == "0"


def test_a_node_that_never_gets_ready():
    with rented("unready", NodeFault.NEVER_READY) as (env, _):
        env.world.run(hours=1)

        assert ready(env) == "False"


def test_a_kubelet_that_falls_silent_leaves_its_machine_running():
    with rented("silent", NodeFault.FALLS_SILENT) as (env, machine):
        env.world.run(hours=2)

        assert machine.phase is Phase.RUNNING
        assert ready(env) == "Unknown"


def test_a_node_that_a_user_deletes_does_not_come_back():
    with rented("deleted", NodeFault.NODE_DELETED) as (env, machine):
        env.world.run(minutes=4)
        assert ready(env) == "True"
        env.world.run(hours=1)

        assert machine.phase is Phase.RUNNING
        assert env.node(NAME) is None


@pytest.mark.parametrize(
    "cloud_fault", [CloudFault.OUTBID, CloudFault.OFFLINE, CloudFault.PREEMPTED, CloudFault.VANISHED]
)
def test_a_machine_that_is_lost_falls_silent_at_that_moment(cloud_fault):
    with rented("lost", cloud_fault=cloud_fault) as (env, machine):
        env.until(lambda: ready(env) == "True", minutes=10)
        env.until(lambda: machine.phase is not Phase.RUNNING, minutes=30)
        env.world.run(minutes=2)

        assert ready(env) == "Unknown"
        assert env.node_bootstrap.node_of("simulated", machine.id) == ""


def test_of_two_machines_for_one_order_one_has_the_node_and_the_other_inherits_it():
    with rented("twins", cloud_fault=CloudFault.MADE_TWICE) as (env, _):
        env.until(lambda: ready(env) == "True", minutes=10)
        env.world.run(minutes=5)
        one, two = env.living()
        holder = one if env.node_bootstrap.node_of("simulated", one.id) else two
        env.simulator.fleet.end(holder)
        env.world.run(minutes=10)

        assert len(env.nodes()) == 1
        assert ready(env) == "True"
        assert [machine.id for machine in env.living()] == [({one.id, two.id} - {holder.id}).pop()]


def test_a_machine_that_was_told_nothing_is_no_node():
    with sim_env("strangers", invariants=[]) as env:
        env.simulator.fleet.add_foreign(env.simulator.fleet.accounts.open(Tenant("other")), 5)
        env.world.run(hours=1)

        assert env.nodes() == []


def test_equal_seeds_give_equal_kubelets():
    def boots(seed: str) -> list[str]:
        with rented(seed, kubelets=KubeletTimes()) as (env, _):
            env.world.run(hours=1)
            return [line for line in env.world.trace.lines() if " nodes " in line]

    assert boots("same") == boots("same")
    assert boots("same") != boots("other")
