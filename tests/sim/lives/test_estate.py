"""Machines that are rented become Nodes by themselves, each in its own time, and fall silent when they stop."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.contracts.clouds.everything import all_providers
from tests.contracts.clouds.stage import Stage, an_order, cheapest
from tests.sim.cluster.manifests import condition
from tests.sim.lives.an_estate import lives
from tgp.api.nodeclass import GPUNodeClass, GPUNodeClassSpec, ProviderConfig
from tgp.api.request import GPURequest, GPURequestSpec
from tgp.api.resource import NODE
from tgp.core.model.key import Key
from tgp.core.model.offer import BootMode
from tgp.core.model.token import token_for
from tgp.ports.boot import Birth
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.fleet import Wanted
from tgp.sim.clouds.machine import Phase
from tgp.sim.clouds.mishaps import Mishap
from tgp.sim.estate import GPU, Ailment, Estate, Kubelets
from tgp.sim.plain_boot import PlainBoot
from tgp.sim.world import World

TOKEN = token_for("c0ffee0123", "a" * 32, 1)
NAME = "tgp-train-1"
PROMPT = Kubelets(registers=(10, 10), ready=(5, 5), gpus=(5, 5))


BOOTED = [provider for provider in all_providers() if provider.facts.boot != (BootMode.CONTAINER,)]


@pytest.mark.parametrize("provider", BOOTED, ids=lambda provider: provider.name)
def test_a_machine_of_any_provider_becomes_the_node_it_was_told_to_be(provider):
    """Through the adapter and the provider's own wire: user data, or a script."""
    with World(f"joins-{provider.name}") as world:
        stage = Stage(provider, world.seed, world.loop)
        estate = Estate(world.cluster, world.loop, world.clock, world.seed)
        estate.adopt(stage.simulator)
        offer = cheapest(world.until(stage.cloud.offers()))
        provider_id = f"tgp://{provider.name}/{TOKEN}"
        birth = Birth(
            Key("default", "train"), a_request(), a_node_class(), offer, TOKEN, NAME, provider_id, world.clock.now()
        )
        luggage = world.until(PlainBoot().pack(birth))
        order = replace(an_order(provider, offer, TOKEN), user_data=luggage.user_data)
        world.until(stage.cloud.launch(order))
        world.run(hours=1)
        (machine,) = stage.fleet.living()
        name = machine.shelf.sku if provider.name == "webhook" else NAME
        node = world.api.backstage.get(NODE, "", name)

        assert machine.phase is Phase.RUNNING
        assert node is not None
        assert node["spec"].get("providerID", "") == ("" if provider.name == "webhook" else provider_id)
        assert node["status"]["allocatable"][GPU] == str(machine.shelf.gpu_count)
        assert condition(node, "Ready")["status"] == "True"
        assert estate.node_of(provider.name, machine.id) == name

        world.until(stage.cloud.terminate(next(iter(world.until(stage.cloud.find(TOKEN)))).id))
        world.run(minutes=5)
        node = world.api.backstage.get(NODE, "", name)
        assert node is not None, "a Node stays when its machine goes"
        assert condition(node, "Ready")["status"] == "Unknown"


def a_request() -> GPURequest:
    return GPURequest(spec=GPURequestSpec(gpu_type="T4"))


def a_node_class() -> GPUNodeClass:
    return GPUNodeClass(spec=GPUNodeClassSpec(providers=(ProviderConfig(name="simulated"),)))


@contextmanager
def rented(seed: str, *ailments: Ailment | None, mishap: Mishap | None = None, kubelets: Kubelets = PROMPT):
    """One machine, rented by somebody who told it its name."""
    with lives(seed, kubelets=kubelets, invariants=[]) as stage:
        stage.estate.ailments.aim(*ailments)
        fleet = stage.shop.fleet
        plate = f'#cloud-config\n# {{"node": "{NAME}", "providerID": "tgp://simulated/{TOKEN}"}}\n'
        wanted = Wanted("t4.1@us-west-1", TOKEN, user_data=plate.encode())
        machine = fleet.rent(next(iter(fleet.accounts)), wanted, mishap)
        yield stage, machine


def ready(stage, name: str = NAME) -> str:
    node = stage.node(name)
    return condition(node, "Ready")["status"] if node is not None else "none"


def test_it_boots_without_being_asked_and_serves_when_it_is_due():
    """Nobody lists, nobody looks: the machine runs when its time has come, and so does its kubelet."""
    with rented("by itself") as (stage, machine):
        boots = machine.shelf.boot_seconds
        stage.world.run(seconds=boots * 0.69)
        assert machine.phase is Phase.STARTING
        stage.world.run(seconds=boots * 0.72)
        assert machine.phase is Phase.RUNNING
        stage.world.run(seconds=30)

        assert ready(stage) == "True"
        assert stage.node(NAME)["status"]["allocatable"][GPU] == "1"


def test_a_world_in_which_nothing_is_rented_sleeps():
    """An idle market wakes nobody: no timer but the test's own."""
    with lives("asleep", invariants=[]) as stage:
        stage.world.run(hours=1)
        turns = stage.world.loop.time()
        before = stage.world._turns
        stage.world.run(hours=24)

        assert stage.world.loop.time() - turns == 24 * 3600
        assert stage.world._turns - before < 10


@pytest.mark.parametrize("ailment", [Ailment.NEVER_REGISTERS, Ailment.WRONG_NAME])
def test_a_kubelet_that_does_not_come_under_its_name_leaves_no_node_of_it(ailment):
    with rented("absent", ailment) as (stage, machine):
        stage.world.run(hours=2)

        assert machine.phase is Phase.RUNNING
        assert stage.node(NAME) is None
        assert len(stage.nodes()) == (1 if ailment is Ailment.WRONG_NAME else 0)
        assert stage.estate.ailments.seen == {ailment: 1}


def test_a_kubelet_that_comes_late_comes():
    with rented("late", Ailment.REGISTERS_LATE) as (stage, _):
        stage.world.run(minutes=10)
        assert stage.node(NAME) is None
        stage.world.run(minutes=30)

        assert ready(stage) == "True"


def test_a_node_without_its_gpus_is_ready_and_useless():
    with rented("bare", Ailment.NO_GPUS) as (stage, _):
        stage.world.run(hours=1)

        assert ready(stage) == "True"
        assert stage.node(NAME)["status"]["allocatable"].get(GPU, "0") == "0"


def test_a_node_that_never_gets_ready():
    with rented("unready", Ailment.NEVER_READY) as (stage, _):
        stage.world.run(hours=1)

        assert ready(stage) == "False"


def test_a_kubelet_that_falls_silent_leaves_its_machine_running():
    with rented("silent", Ailment.FALLS_SILENT) as (stage, machine):
        stage.world.run(hours=2)

        assert machine.phase is Phase.RUNNING
        assert ready(stage) == "Unknown"


def test_a_node_that_somebody_deletes_does_not_come_back():
    with rented("deleted", Ailment.NODE_DELETED) as (stage, machine):
        stage.world.run(minutes=4)
        assert ready(stage) == "True"
        stage.world.run(hours=1)

        assert machine.phase is Phase.RUNNING
        assert stage.node(NAME) is None


@pytest.mark.parametrize("mishap", [Mishap.OUTBID, Mishap.OFFLINE, Mishap.PREEMPTED, Mishap.VANISHED])
def test_a_machine_that_is_lost_falls_silent_at_that_moment(mishap):
    with rented("lost", mishap=mishap) as (stage, machine):
        stage.until(lambda: ready(stage) == "True", minutes=10)
        stage.until(lambda: machine.phase is not Phase.RUNNING, minutes=30)
        stage.world.run(minutes=2)

        assert ready(stage) == "Unknown"
        assert stage.estate.node_of("simulated", machine.id) == ""


def test_of_two_machines_for_one_order_one_has_the_node_and_the_other_inherits_it():
    with rented("twins", mishap=Mishap.MADE_TWICE) as (stage, _):
        stage.until(lambda: ready(stage) == "True", minutes=10)
        stage.world.run(minutes=5)
        one, two = stage.living()
        holder = one if stage.estate.node_of("simulated", one.id) else two
        stage.shop.fleet.end(holder)
        stage.world.run(minutes=10)

        assert len(stage.nodes()) == 1
        assert ready(stage) == "True"
        assert [machine.id for machine in stage.living()] == [({one.id, two.id} - {holder.id}).pop()]


def test_a_machine_that_was_told_nothing_is_no_node():
    with lives("strangers", invariants=[]) as stage:
        stage.shop.fleet.add_foreign(stage.shop.fleet.accounts.open(Tenant("other")), 5)
        stage.world.run(hours=1)

        assert stage.nodes() == []


def test_equal_seeds_give_equal_kubelets():
    def story(seed: str) -> list[str]:
        with rented(seed, kubelets=Kubelets()) as (stage, _):
            stage.world.run(hours=1)
            return [line for line in stage.world.trace.lines() if " nodes " in line]

    assert story("same") == story("same")
    assert story("same") != story("other")
