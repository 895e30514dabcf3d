"""The whole lifecycle of a GPURequest, from its creation to nothing left, with every invariant watched on the way."""

import msgspec
import pytest

from tests.sim.an_operator import ALONE, NAMESPACE_NAME, a_class, create, operator_main
from tests.sim.lifecycle.a_world import POWER, sim_env
from tgp.adapters.clouds.registry import facts_of
from tgp.api.resource import NAMESPACE, NODE, SECRET
from tgp.core.model.offer import CONTAINER_ONLY, BootMode
from tgp.sim.checkers.objects import Quiet, loose_ends
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.machine import Phase
from tgp.sim.clouds.registry import SIMULATORS
from tgp.sim.clouds.webhook import settings_at
from tgp.sim.node_bootstrap import NodeFault

OVER = ("Finished", "Failed")


def begin(env, **spec) -> None:
    """A class and an operator, settled."""
    a_class(env.world, "rented", **spec)
    env.world.process("operator", operator_main(ALONE))
    env.world.run(minutes=2)


def is_ready(env, name: str = "train"):
    return lambda: env.phase(name) == "Ready"


def is_over(env, name: str = "train"):
    return lambda: env.phase(name) in OVER


def nothing_left(env, *, after: float = 10, quiet: float = 10) -> None:
    """No machine, no Node, nothing undone; and after some minutes no controller does anything about it any more."""
    env.world.run(minutes=after)
    assert env.living() == []
    assert env.nodes() == []
    assert loose_ends(env.recorder) == []
    with Quiet(env.world, env.recorder):
        env.world.run(minutes=quiet)


def test_a_request_becomes_a_node_serves_and_leaves_nothing_behind():
    """Apply, Ready, a pod runs, delete: machine, Node and finalizer are gone, and what it cost is on record."""
    with sim_env("whole") as env:
        begin(env)
        env.wants()
        env.works(run_for="20m")
        env.until(is_ready(env), minutes=15)
        env.until(lambda: env.running_pods() != [], minutes=5)
        (machine,) = env.living()
        request = env.request()
        node = env.node(request["status"]["nodeName"])

        assert machine.phase is Phase.RUNNING
        assert node["spec"]["providerID"] == f"tgp://simulated/{machine.name}"
        assert node["metadata"]["labels"]["tgp.io/request-uid"] == request["metadata"]["uid"]
        assert request["status"]["instanceId"] == machine.id

        env.world.run(minutes=25)
        env.drops()
        env.until(lambda: env.request() is None, minutes=15)
        assert request["metadata"]["uid"].replace("-", "") in env.spend_records().replace("-", "")
        nothing_left(env, quiet=60)


def test_a_machine_in_use_costs_no_write_while_nothing_changes():
    with sim_env("steady") as env:
        begin(env)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=15)
        env.world.run(minutes=15)

        with Quiet(env.world, env.recorder):
            env.world.run(minutes=45)


def test_an_unused_machine_is_terminated():
    with sim_env("idle") as env:
        begin(env)
        env.wants(idleTimeout="10m")
        env.works(run_for="15m")
        env.until(is_ready(env), minutes=15)
        env.until(is_over(env), minutes=90)

        assert env.phase() == "Finished"
        assert env.condition("Ended")[:2] == ("True", "Idle")
        nothing_left(env)
        assert env.request() is not None, "a user's object stays"


def test_a_machine_that_is_old_enough_is_terminated():
    with sim_env("old") as env:
        begin(env)
        env.wants(maxLifetime="1h", idleTimeout="Never")
        env.until(is_ready(env), minutes=15)
        env.world.run(minutes=40)
        assert env.phase() == "Ready"
        env.until(is_over(env), minutes=40)

        assert env.phase() == "Finished"
        assert env.condition("Ended")[:2] == ("True", "Expired")
        nothing_left(env)


@pytest.mark.parametrize(
    "cloud_fault", [CloudFault.OUTBID, CloudFault.OFFLINE, CloudFault.PREEMPTED, CloudFault.VANISHED]
)
def test_a_machine_that_is_lost_ends_its_request(cloud_fault):
    """Outbid, a dead host, interrupted, or gone: never a second purchase that was not requested."""
    with sim_env(f"lost-{cloud_fault}") as env:
        begin(env)
        env.simulator.faults.aim(cloud_fault, CloudVerb.LAUNCH)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=15)
        env.until(is_over(env), minutes=60)

        assert env.phase() == "Failed"
        assert env.condition("Ended")[1] == "Lost"
        assert len(env.attempts()) == 1
        nothing_left(env)


def test_a_lost_machine_is_replaced_where_its_owner_asked_for_it():
    with sim_env("on loss") as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.PREEMPTED, CloudVerb.LAUNCH)
        env.wants(idleTimeout="Never", restartPolicy="OnLoss")
        env.until(is_ready(env), minutes=15)
        env.until(lambda: len(env.attempts()) == 2, minutes=60)
        env.until(is_ready(env), minutes=30)

        first, second = env.attempts()
        assert first["outcome"] == "Lost"
        assert [machine.name for machine in env.living()] == [second["token"]]
        env.drops()
        env.until(lambda: env.request() is None, minutes=15)
        nothing_left(env)


def test_a_machine_that_never_joins_is_terminated_and_the_next_offer_tried():
    with sim_env("absent") as env:
        begin(env)
        env.node_bootstrap.node_faults.aim(NodeFault.NEVER_REGISTERS)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=90)

        first, second = env.attempts()
        assert first["outcome"] not in ("Launched", None)
        assert "Node" in first["message"]
        assert (first["offer"]["instanceType"], first["offer"]["region"]) != (
            second["offer"]["instanceType"],
            second["offer"]["region"],
        )
        assert [machine.name for machine in env.living()] == [second["token"]]


@pytest.mark.parametrize("node_fault", [NodeFault.WRONG_NAME, NodeFault.NO_GPUS, NodeFault.NEVER_READY])
def test_a_machine_that_is_no_use_breeds_no_second_before_it_is_gone(node_fault):
    with sim_env(f"useless-{node_fault}") as env:
        begin(env)
        env.node_bootstrap.node_faults.aim(node_fault)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=90)

        assert len(env.attempts()) == 2
        assert len(env.living()) == 1


def test_machines_that_are_never_of_use_are_tried_a_few_times_and_no_more():
    with sim_env("hopeless") as env:
        begin(env, timeouts={"launch": "5m", "boot": "2m", "join": "2m"})
        env.node_bootstrap.node_faults.chances[NodeFault.NEVER_REGISTERS] = 1.0
        env.wants(idleTimeout="Never")
        env.until(is_over(env), minutes=600)

        assert env.phase() == "Failed"
        assert len(env.attempts()) == 5
        assert env.living() == []  # no quiet hour: its class tells when what was benched is on sale again
        assert loose_ends(env.recorder) == []


def test_an_offer_that_is_sold_out_gives_way_to_the_next():
    with sim_env("sold out") as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.SOLD_OUT, CloudVerb.LAUNCH, times=2)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=30)

        assert [row["outcome"] for row in env.attempts()] == ["SoldOut", "SoldOut", "Launched"]


def test_nothing_within_the_price_is_bought_by_waiting():
    with sim_env("too dear") as env:
        begin(env)
        env.wants(maxHourlyPrice="0.01")
        env.world.run(minutes=30)

        assert env.phase() == "Pending"
        assert env.simulator.calls[CloudVerb.LAUNCH] == 0
        for stand in env.simulator.fleet.stands.values():
            if stand.product.gpu == "RTX4090":
                env.simulator.fleet.reprice(stand.product.id, 9_000)
        env.until(is_ready(env), minutes=30)


def test_a_machine_that_is_billed_above_the_price_is_terminated():
    with sim_env("dearer") as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.OVERBILLED, CloudVerb.LAUNCH)
        env.wants(maxHourlyPrice="0.50", idleTimeout="Never")
        env.until(lambda: len(env.attempts()) == 2, minutes=30)
        env.until(is_ready(env), minutes=30)

        assert len(env.living()) == 1


def test_an_order_whose_answer_is_lost_is_found_again():
    with sim_env("lost answer") as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.HANG_UP_AFTER, CloudVerb.LAUNCH)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=30)

        assert [row["outcome"] for row in env.attempts()] == ["Launched"]
        assert env.simulator.calls[CloudVerb.LAUNCH] == 1


def test_two_machines_for_one_order_become_one():
    with sim_env("twins") as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.MADE_TWICE, CloudVerb.LAUNCH)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=30)
        env.world.run(minutes=15)

        assert len(env.living()) == 1
        assert env.phase() == "Ready"


def test_deletion_at_the_providers_console_is_a_loss():
    with sim_env("console") as env:
        begin(env)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=15)
        env.simulator.fleet.end(env.living()[0])
        env.until(is_over(env), minutes=60)

        assert env.condition("Ended")[1] == "Lost"
        nothing_left(env, after=20)  # by then the lost offer has cooled down, and the class shows it again


def test_a_node_that_a_user_deletes_ends_its_machine():
    """It cannot be used any more, so it is terminated; and none is launched in its stead."""
    with sim_env("no node") as env:
        begin(env)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=15)
        env.world.api.local_api.delete(NODE, "", env.request()["status"]["nodeName"])
        env.until(is_over(env), minutes=60)

        assert env.phase() == "Failed"
        assert len(env.attempts()) == 1
        nothing_left(env)


def test_a_node_that_falls_silent_ends_its_machine():
    with sim_env("silent") as env:
        begin(env)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=15)
        env.node_bootstrap.fall_silent(env.request()["status"]["nodeName"])
        env.until(is_over(env), minutes=60)

        assert env.phase() == "Failed"
        nothing_left(env)


def test_a_namespace_that_is_deleted_gives_its_machines_back():
    with sim_env("namespace") as env:
        create(env.world, NAMESPACE, "team")
        begin(env)
        env.wants(namespace="team", idleTimeout="Never")
        env.until(lambda: env.phase("train", "team") == "Ready", minutes=15)
        env.world.api.local_api.delete(NAMESPACE, "", "team")
        env.until(lambda: env.world.api.local_api.get(NAMESPACE, "", "team") is None, minutes=30)
        nothing_left(env)


def test_a_request_deleted_at_any_moment_leaves_nothing():
    """Before the order, during the start, before the Node: whenever its owner changes her mind."""
    for seconds in (0.1, 3, 40, 150):
        with sim_env(f"changed mind {seconds}") as env:
            begin(env)
            env.wants(idleTimeout="Never")
            env.world.run(seconds=seconds)
            env.drops()
            env.until(lambda env=env: env.request() is None, minutes=30)
            nothing_left(env)


def test_credentials_that_are_taken_away_cost_on_in_plain_words_until_they_are_back():
    """Vultr needs a key. Without it nothing can be terminated, and the object says what it costs."""
    with sim_env("keyless", "vultr") as env:
        begin(env, providers=[{"name": "vultr"}])
        env.wants(gpuType="A16", idleTimeout="Never")
        env.until(is_ready(env), minutes=60)
        env.recorder.unlistable["vultr"] = None
        # A finalizer holds the Secret while a machine needs it; a determined user empties it instead.
        env.world.api.local_api.merge_patch(SECRET, NAMESPACE_NAME, "tgp-operator-secret", {"data": None})
        env.world.run(minutes=10)
        env.drops()
        env.world.run(minutes=30)
        assert env.request() is not None
        assert len(env.living()) == 1
        assert env.condition("ProviderReachable")[0] == "False"
        assert "$" in env.condition("ProviderReachable")[2]

        key = env.simulator.key
        change = {"stringData": {"VULTR_API_KEY": key}}
        env.world.api.local_api.merge_patch(SECRET, NAMESPACE_NAME, "tgp-operator-secret", change)
        env.until(lambda: env.request() is None, minutes=60)
        env.recorder.unlistable.clear()
        nothing_left(env)


def test_ten_requests_stay_within_the_limits_of_their_class():
    with sim_env("limits") as env:
        begin(env, limits={"maxNodes": 3})
        for number in range(10):
            env.wants(f"train-{number}", idleTimeout="5m")
        env.until(lambda: sum(env.phase(f"train-{n}") == "Ready" for n in range(10)) == 3, minutes=30)
        env.until(lambda: all(env.phase(f"train-{n}") in OVER for n in range(10)), minutes=600)

        assert all(env.phase(f"train-{n}") == "Finished" for n in range(10))
        nothing_left(env)


@pytest.mark.parametrize("replicas", [2])
def test_a_hand_over_in_the_middle_of_a_life_is_not_noticed(replicas):
    with sim_env("hand-over") as env:
        a_class(env.world, "rented")
        processes = [env.world.process(f"operator-{n}", operator_main()) for n in range(replicas)]
        env.world.run(minutes=2)
        env.wants(idleTimeout="Never")
        for round_ in range(8):
            env.world.run(seconds=23)
            processes[round_ % replicas].crash()
        env.until(is_ready(env), minutes=30)
        env.drops()
        env.world.run(seconds=5)
        for process in processes:
            process.crash()
        env.until(lambda: env.request() is None, minutes=30)
        nothing_left(env)


SETTINGS = {
    "lambdalabs": {"sshKeyName": "tgp"},
    "gcp": {"image": "talos-1-11"},
}


@pytest.mark.parametrize("provider", sorted(SIMULATORS))
def test_a_machine_of_any_provider_goes_through_the_whole_life(provider):
    """Wire, listing, boot and ending are each vendor's own; the life is the same. Containers are never bought."""
    with sim_env(f"any-{provider}", provider) as env:
        settings = settings_of(provider)
        gpu = offered(env.simulator)
        a_class(
            env.world,
            "rented",
            providers=[{"name": provider, **({"settings": settings} if settings else {})}],
            bootPolicy="Any",
            instanceRequirements={"minTrust": "Any"},
        )
        env.world.process("operator", operator_main(ALONE))
        env.world.run(minutes=3)
        env.wants(gpuType=gpu, idleTimeout="Never")
        if facts_of(provider).boot == (BootMode.CONTAINER,):
            env.world.run(minutes=10)
            assert CONTAINER_ONLY in env.condition("Launched")[2]
            assert env.attempts() == [], "nothing is reserved, either"
            assert env.simulator.calls[CloudVerb.LAUNCH] == 0
            return
        env.until(is_ready(env), minutes=60)
        (machine,) = env.living()
        assert env.request()["status"]["nodeName"] == env.node_bootstrap.node_of(provider, machine.id)

        env.drops()
        env.until(lambda: env.request() is None, minutes=30)
        nothing_left(env)


def settings_of(provider: str) -> dict:
    if provider == "webhook":
        return msgspec.json.decode(msgspec.json.encode(settings_at(POWER, range(4))))
    return SETTINGS.get(provider, {})


def offered(simulator) -> str:
    """A GPU that is on sale alone in a machine, by the first name in order."""
    return min(
        (stand.product.gpu_count, stand.product.hourly_microusd, stand.product.gpu)
        for stand in simulator.fleet.stands.values()
        if stand.stock and stand.product.gpu_count == 1
    )[2]
