"""Whole lives of a GPURequest, from a person's wish to nothing left, with every invariant watched on the way."""

import msgspec
import pytest

from tests.sim.an_operator import NAMESPACE_NAME, a_class, create, operator_main
from tests.sim.lives.an_estate import POWER, lives
from tgp.api.resource import NAMESPACE, NODE, SECRET
from tgp.app.clouds import facts_of
from tgp.core.model.offer import CONTAINER_ONLY, BootMode
from tgp.sim.checkers.objects import Quiet, loose_ends
from tgp.sim.clouds.everyone import SIMULATORS
from tgp.sim.clouds.machine import Phase
from tgp.sim.clouds.mishaps import Mishap, Verb
from tgp.sim.clouds.webhook import settings_at
from tgp.sim.estate import Ailment

OVER = ("Finished", "Failed")


def begin(stage, **spec) -> None:
    """A class and an operator, settled."""
    a_class(stage.world, "rented", **spec)
    stage.world.process("operator", operator_main())
    stage.world.run(minutes=2)


def is_ready(stage, name: str = "train"):
    return lambda: stage.phase(name) == "Ready"


def is_over(stage, name: str = "train"):
    return lambda: stage.phase(name) in OVER


def nothing_left(stage, *, after: float = 10, quiet: float = 10) -> None:
    """No machine, no Node, nothing undone; and after some minutes nobody does anything about it any more."""
    stage.world.run(minutes=after)
    assert stage.living() == []
    assert stage.nodes() == []
    assert loose_ends(stage.witness) == []
    with Quiet(stage.world, stage.witness):
        stage.world.run(minutes=quiet)


def test_a_request_becomes_a_node_serves_and_leaves_nothing_behind():
    """Apply, Ready, a pod runs, delete: machine, Node and finalizer are gone, and what it cost is on record."""
    with lives("whole") as stage:
        begin(stage)
        stage.wants()
        stage.works(run_for="20m")
        stage.until(is_ready(stage), minutes=15)
        stage.until(lambda: stage.running_pods() != [], minutes=5)
        (machine,) = stage.living()
        request = stage.request()
        node = stage.node(request["status"]["nodeName"])

        assert machine.phase is Phase.RUNNING
        assert node["spec"]["providerID"] == f"tgp://simulated/{machine.name}"
        assert node["metadata"]["labels"]["tgp.io/request-uid"] == request["metadata"]["uid"]
        assert request["status"]["instanceId"] == machine.id

        stage.world.run(minutes=25)
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=15)
        assert request["metadata"]["uid"].replace("-", "") in stage.spend_records().replace("-", "")
        nothing_left(stage, quiet=60)


def test_a_machine_in_use_costs_no_write_while_nothing_changes():
    with lives("steady") as stage:
        begin(stage)
        stage.wants(idleTimeout="Never")
        stage.until(is_ready(stage), minutes=15)
        stage.world.run(minutes=15)

        with Quiet(stage.world, stage.witness):
            stage.world.run(minutes=45)


def test_a_machine_that_nobody_uses_is_given_back():
    with lives("idle") as stage:
        begin(stage)
        stage.wants(idleTimeout="10m")
        stage.works(run_for="15m")
        stage.until(is_ready(stage), minutes=15)
        stage.until(is_over(stage), minutes=90)

        assert stage.phase() == "Finished"
        assert stage.condition("Ended")[:2] == ("True", "Idle")
        nothing_left(stage)
        assert stage.request() is not None, "a user's object stays"


def test_a_machine_that_is_old_enough_is_given_back():
    with lives("old") as stage:
        begin(stage)
        stage.wants(maxLifetime="1h", idleTimeout="Never")
        stage.until(is_ready(stage), minutes=15)
        stage.world.run(minutes=40)
        assert stage.phase() == "Ready"
        stage.until(is_over(stage), minutes=40)

        assert stage.phase() == "Finished"
        assert stage.condition("Ended")[:2] == ("True", "Expired")
        nothing_left(stage)


@pytest.mark.parametrize("mishap", [Mishap.OUTBID, Mishap.OFFLINE, Mishap.PREEMPTED, Mishap.VANISHED])
def test_a_machine_that_is_lost_ends_its_request(mishap):
    """Outbid, a dead host, taken back, or simply gone: never a second purchase where nobody asked for one."""
    with lives(f"lost-{mishap}") as stage:
        begin(stage)
        stage.shop.mishaps.aim(mishap, Verb.LAUNCH)
        stage.wants(idleTimeout="Never")
        stage.until(is_ready(stage), minutes=15)
        stage.until(is_over(stage), minutes=60)

        assert stage.phase() == "Failed"
        assert stage.condition("Ended")[1] == "Lost"
        assert len(stage.attempts()) == 1
        nothing_left(stage)


def test_a_lost_machine_is_replaced_where_its_owner_asked_for_it():
    with lives("on loss") as stage:
        begin(stage)
        stage.shop.mishaps.aim(Mishap.PREEMPTED, Verb.LAUNCH)
        stage.wants(idleTimeout="Never", restartPolicy="OnLoss")
        stage.until(is_ready(stage), minutes=15)
        stage.until(lambda: len(stage.attempts()) == 2, minutes=60)
        stage.until(is_ready(stage), minutes=30)

        first, second = stage.attempts()
        assert first["outcome"] == "Lost"
        assert [machine.name for machine in stage.living()] == [second["token"]]
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=15)
        nothing_left(stage)


def test_a_machine_that_never_joins_is_given_back_and_the_next_offer_tried():
    with lives("absent") as stage:
        begin(stage)
        stage.estate.ailments.aim(Ailment.NEVER_REGISTERS)
        stage.wants(idleTimeout="Never")
        stage.until(is_ready(stage), minutes=90)

        first, second = stage.attempts()
        assert first["outcome"] not in ("Launched", None)
        assert "Node" in first["message"]
        assert (first["offer"]["instanceType"], first["offer"]["region"]) != (
            second["offer"]["instanceType"],
            second["offer"]["region"],
        )
        assert [machine.name for machine in stage.living()] == [second["token"]]


@pytest.mark.parametrize("ailment", [Ailment.WRONG_NAME, Ailment.NO_GPUS, Ailment.NEVER_READY])
def test_a_machine_that_is_no_use_breeds_no_second_before_it_is_gone(ailment):
    with lives(f"useless-{ailment}") as stage:
        begin(stage)
        stage.estate.ailments.aim(ailment)
        stage.wants(idleTimeout="Never")
        stage.until(is_ready(stage), minutes=90)

        assert len(stage.attempts()) == 2
        assert len(stage.living()) == 1


def test_machines_that_are_never_of_use_are_tried_a_few_times_and_no_more():
    with lives("hopeless") as stage:
        begin(stage, timeouts={"launch": "5m", "boot": "2m", "join": "2m"})
        stage.estate.ailments.chances[Ailment.NEVER_REGISTERS] = 1.0
        stage.wants(idleTimeout="Never")
        stage.until(is_over(stage), minutes=600)

        assert stage.phase() == "Failed"
        assert len(stage.attempts()) == 5
        assert stage.living() == []  # no quiet hour: its class tells when what was benched is on sale again
        assert loose_ends(stage.witness) == []


def test_an_offer_that_is_sold_out_gives_way_to_the_next():
    with lives("sold out") as stage:
        begin(stage)
        stage.shop.mishaps.aim(Mishap.SOLD_OUT, Verb.LAUNCH, times=2)
        stage.wants(idleTimeout="Never")
        stage.until(is_ready(stage), minutes=30)

        assert [row["outcome"] for row in stage.attempts()] == ["SoldOut", "SoldOut", "Launched"]


def test_nothing_within_the_price_is_bought_by_waiting():
    with lives("too dear") as stage:
        begin(stage)
        stage.wants(maxHourlyPrice="0.01")
        stage.world.run(minutes=30)

        assert stage.phase() == "Pending"
        assert stage.shop.calls[Verb.LAUNCH] == 0
        for stand in stage.shop.fleet.stands.values():
            if stand.shelf.gpu == "RTX4090":
                stage.shop.fleet.reprice(stand.shelf.id, 9_000)
        stage.until(is_ready(stage), minutes=30)


def test_a_machine_that_is_billed_above_the_price_is_given_back():
    with lives("dearer") as stage:
        begin(stage)
        stage.shop.mishaps.aim(Mishap.DEARER, Verb.LAUNCH)
        stage.wants(maxHourlyPrice="0.50", idleTimeout="Never")
        stage.until(lambda: len(stage.attempts()) == 2, minutes=30)
        stage.until(is_ready(stage), minutes=30)

        assert len(stage.living()) == 1


def test_an_order_whose_answer_is_lost_is_found_again():
    with lives("lost answer") as stage:
        begin(stage)
        stage.shop.mishaps.aim(Mishap.HANG_UP_AFTER, Verb.LAUNCH)
        stage.wants(idleTimeout="Never")
        stage.until(is_ready(stage), minutes=30)

        assert [row["outcome"] for row in stage.attempts()] == ["Launched"]
        assert stage.shop.calls[Verb.LAUNCH] == 1


def test_two_machines_for_one_order_become_one():
    with lives("twins") as stage:
        begin(stage)
        stage.shop.mishaps.aim(Mishap.MADE_TWICE, Verb.LAUNCH)
        stage.wants(idleTimeout="Never")
        stage.until(is_ready(stage), minutes=30)
        stage.world.run(minutes=15)

        assert len(stage.living()) == 1
        assert stage.phase() == "Ready"


def test_deletion_at_the_providers_console_is_a_loss():
    with lives("console") as stage:
        begin(stage)
        stage.wants(idleTimeout="Never")
        stage.until(is_ready(stage), minutes=15)
        stage.shop.fleet.end(stage.living()[0])
        stage.until(is_over(stage), minutes=60)

        assert stage.condition("Ended")[1] == "Lost"
        nothing_left(stage)


def test_a_node_that_somebody_deletes_ends_its_machine():
    """Nobody can use it any more, so nobody pays for it any more; and none is bought in its stead."""
    with lives("no node") as stage:
        begin(stage)
        stage.wants(idleTimeout="Never")
        stage.until(is_ready(stage), minutes=15)
        stage.world.api.backstage.delete(NODE, "", stage.request()["status"]["nodeName"])
        stage.until(is_over(stage), minutes=60)

        assert stage.phase() == "Failed"
        assert len(stage.attempts()) == 1
        nothing_left(stage)


def test_a_node_that_falls_silent_ends_its_machine():
    with lives("silent") as stage:
        begin(stage)
        stage.wants(idleTimeout="Never")
        stage.until(is_ready(stage), minutes=15)
        stage.estate.fall_silent(stage.request()["status"]["nodeName"])
        stage.until(is_over(stage), minutes=60)

        assert stage.phase() == "Failed"
        nothing_left(stage)


def test_a_namespace_that_is_deleted_gives_its_machines_back():
    with lives("namespace") as stage:
        create(stage.world, NAMESPACE, "team")
        begin(stage)
        stage.wants(namespace="team", idleTimeout="Never")
        stage.until(lambda: stage.phase("train", "team") == "Ready", minutes=15)
        stage.world.api.backstage.delete(NAMESPACE, "", "team")
        stage.until(lambda: stage.world.api.backstage.get(NAMESPACE, "", "team") is None, minutes=30)
        nothing_left(stage)


def test_a_request_deleted_at_any_moment_leaves_nothing():
    """Before the order, during the start, before the Node: whenever its owner changes her mind."""
    for seconds in (0.1, 3, 40, 150):
        with lives(f"changed mind {seconds}") as stage:
            begin(stage)
            stage.wants(idleTimeout="Never")
            stage.world.run(seconds=seconds)
            stage.drops()
            stage.until(lambda stage=stage: stage.request() is None, minutes=30)
            nothing_left(stage)


def test_credentials_that_are_taken_away_cost_on_in_plain_words_until_they_are_back():
    """Vultr needs a key. Without it nothing can be given back, and the object says what it costs."""
    with lives("keyless", "vultr") as stage:
        begin(stage, providers=[{"name": "vultr"}])
        stage.wants(gpuType="A16", idleTimeout="Never")
        stage.until(is_ready(stage), minutes=60)
        stage.witness.unlistable["vultr"] = None
        # A finalizer holds the Secret while a machine needs it; somebody who insists empties it instead.
        stage.world.api.backstage.merge_patch(SECRET, NAMESPACE_NAME, "tgp-operator-secret", {"data": None})
        stage.world.run(minutes=10)
        stage.drops()
        stage.world.run(minutes=30)
        assert stage.request() is not None
        assert len(stage.living()) == 1
        assert stage.condition("ProviderReachable")[0] == "False"
        assert "$" in stage.condition("ProviderReachable")[2]

        key = stage.shop.key
        change = {"stringData": {"VULTR_API_KEY": key}}
        stage.world.api.backstage.merge_patch(SECRET, NAMESPACE_NAME, "tgp-operator-secret", change)
        stage.until(lambda: stage.request() is None, minutes=60)
        stage.witness.unlistable.clear()
        nothing_left(stage)


def test_ten_requests_stay_within_the_limits_of_their_class():
    with lives("limits") as stage:
        begin(stage, limits={"maxNodes": 3})
        for number in range(10):
            stage.wants(f"train-{number}", idleTimeout="5m")
        stage.until(lambda: sum(stage.phase(f"train-{n}") == "Ready" for n in range(10)) == 3, minutes=30)
        stage.until(lambda: all(stage.phase(f"train-{n}") in OVER for n in range(10)), minutes=600)

        assert all(stage.phase(f"train-{n}") == "Finished" for n in range(10))
        nothing_left(stage)


@pytest.mark.parametrize("replicas", [2])
def test_a_hand_over_in_the_middle_of_a_life_is_not_noticed(replicas):
    with lives("hand-over") as stage:
        a_class(stage.world, "rented")
        processes = [stage.world.process(f"operator-{n}", operator_main()) for n in range(replicas)]
        stage.world.run(minutes=2)
        stage.wants(idleTimeout="Never")
        for round_ in range(8):
            stage.world.run(seconds=23)
            processes[round_ % replicas].crash()
        stage.until(is_ready(stage), minutes=30)
        stage.drops()
        stage.world.run(seconds=5)
        for process in processes:
            process.crash()
        stage.until(lambda: stage.request() is None, minutes=30)
        nothing_left(stage)


SETTINGS = {
    "lambdalabs": {"sshKeyName": "tgp"},
    "gcp": {"image": "talos-1-11"},
}


@pytest.mark.parametrize("provider", sorted(SIMULATORS))
def test_a_machine_of_any_provider_goes_through_the_whole_life(provider):
    """Wire, listing, boot and ending are each vendor's own; the life is the same. Containers are never bought."""
    with lives(f"any-{provider}", provider) as stage:
        settings = settings_of(provider)
        gpu = offered(stage.shop)
        a_class(
            stage.world,
            "rented",
            providers=[{"name": provider, **({"settings": settings} if settings else {})}],
            bootPolicy="Any",
            instanceRequirements={"minTrust": "Any"},
        )
        stage.world.process("operator", operator_main())
        stage.world.run(minutes=3)
        stage.wants(gpuType=gpu, idleTimeout="Never")
        if facts_of(provider).boot == (BootMode.CONTAINER,):
            stage.world.run(minutes=10)
            assert CONTAINER_ONLY in stage.condition("Launched")[2]
            assert stage.attempts() == [], "nothing is reserved, either"
            assert stage.shop.calls[Verb.LAUNCH] == 0
            return
        stage.until(is_ready(stage), minutes=60)
        (machine,) = stage.living()
        assert stage.request()["status"]["nodeName"] == stage.estate.node_of(provider, machine.id)

        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=30)
        nothing_left(stage)


def settings_of(provider: str) -> dict:
    if provider == "webhook":
        return msgspec.json.decode(msgspec.json.encode(settings_at(POWER, range(4))))
    return SETTINGS.get(provider, {})


def offered(shop) -> str:
    """A GPU that is on sale alone in a machine, by the first name in order."""
    return min(
        (stand.shelf.gpu_count, stand.shelf.hourly_microusd, stand.shelf.gpu)
        for stand in shop.fleet.stands.values()
        if stand.stock and stand.shelf.gpu_count == 1
    )[2]
