"""Whether an account is believed: what vanishes there, what it says of machines, and when it is believed again."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from tests.core.controllers.account_access import VULTR, Provider, Scene, a_machine, a_record, a_token, an_attempt
from tgp.api.common import Condition
from tgp.controllers.instances.consistency import AT_ONCE, CONSISTENT_FOR
from tgp.core.model.instance import InstanceState
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.requests.node_names import node_name_for
from tgp.core.requests.provider_reports import BELIEVED_AFTER, CONFIRMED_AFTER

PRICE = 400_000


def served(number: int, **status) -> object:
    """A request whose machine runs."""
    offer = {"provider": "vultr", "instanceType": "a100", "hourlyPrice": "0.40"}
    attempt = an_attempt(number, outcome="Launched", instanceId=f"i-{number}-1", offer=offer)
    record = a_record(number, attempt)
    told = msgspec.structs.replace(record.value.status, **status)
    return msgspec.structs.replace(record, value=msgspec.structs.replace(record.value, status=told))


def a_scene(*numbers: int, ready: bool = True) -> Scene:
    scene = Scene(Provider(*(a_machine(each, hourly_microusd=PRICE) for each in numbers)))
    for each in numbers:
        scene.hold(served(each))
        name = node_name_for(ObjectKey("team", f"train-{each}"), a_token(each))
        scene.nodes.put(Node(key=ObjectKey("", name), uid=name, resource_version=1, ready=ready))
    return scene


def distrust(scene: Scene) -> str:
    return scene.consistency.distrust(VULTR.name)


def claims(scene: Scene, number: int = 1):
    return scene.consistency.claims(VULTR.name, a_token(number))


def say(scene: Scene, *numbers: int, **what) -> None:
    for each in numbers:
        machine = scene.provider.machines[f"i-{each}-1"]
        scene.provider.machines[machine.id] = replace(machine, **what)


async def test_an_account_whose_machines_are_listed_is_believed():
    scene = a_scene(1, 2, 3)
    await scene.turns(5, every=60)

    assert distrust(scene) == ""
    assert not claims(scene).state


async def test_one_machine_that_vanishes_casts_no_doubt_on_the_account():
    scene = a_scene(1, 2, ready=False)
    await scene.turns(2)
    del scene.provider.machines["i-1-1"]
    await scene.turns(3)

    assert distrust(scene) == ""


@pytest.mark.parametrize(("apart", "doubted"), [(0.0, True), (AT_ONCE - 60, True), (AT_ONCE + 60, False)])
async def test_two_that_vanish_within_ten_minutes_do(apart, doubted):
    scene = a_scene(1, 2, 3, ready=False)
    await scene.turns(2)
    del scene.provider.machines["i-1-1"]
    await scene.turn(after=15)
    del scene.provider.machines["i-2-1"]
    await scene.turn(after=15 + apart)

    assert bool(distrust(scene)) is doubted
    if doubted:
        assert "about 2 machines within 10 min" in distrust(scene)
        assert distrust(scene).endswith("tgp release provider/vultr")


async def test_what_we_end_ourselves_or_the_provider_announces_does_not_vanish():
    scene = a_scene(1, 2, ready=False)
    await scene.turns(2)
    ending = Condition(type="Terminating", status="True", reason="Idle")
    scene.hold(msgspec.structs.replace(served(1, conditions=(ending,)), resource_version=2))
    say(scene, 2, state=InstanceState.ENDING)
    await scene.turn(after=15)
    scene.provider.machines.clear()
    await scene.turns(4)

    assert distrust(scene) == ""
    assert claims(scene, 2).leaving


async def vanish(scene: Scene) -> dict[str, object]:
    await scene.turns(2)
    gone, scene.provider.machines = scene.provider.machines, {}
    await scene.turns(3)
    assert distrust(scene)
    return gone


async def test_an_hour_of_consistent_lists_restores_the_trust():
    scene = a_scene(1, 2)
    scene.provider.machines = await vanish(scene)
    await scene.turn(after=60)
    await scene.turn(after=CONSISTENT_FOR - 60)
    assert distrust(scene), "they came back: that was the last contradiction"
    await scene.turn(after=61)

    assert distrust(scene) == ""


async def test_while_a_ready_node_is_denied_no_list_is_consistent():
    scene = a_scene(1, 2)
    await vanish(scene)
    for _ in range(8):
        await scene.turn(after=CONSISTENT_FOR / 4)

    assert distrust(scene)


async def test_a_person_may_say_that_the_lists_are_right():
    scene = a_scene(1, 2)
    await vanish(scene)
    scene.trusted_at = scene.clock.now() - timedelta(minutes=5)
    assert distrust(scene), "that was before it happened"
    scene.trusted_at = scene.clock.now()
    assert distrust(scene) == ""
    await scene.turns(3)

    assert distrust(scene) == "", "what is said on was known when they said so"


async def test_a_new_leader_reads_from_the_records_what_vanished():
    scene = a_scene(3)
    now = scene.clock.now()
    for number in (1, 2):
        fields = {"outcome": "Lost", "endedAt": now - timedelta(minutes=20), "countsUntil": now + timedelta(minutes=40)}
        scene.hold(a_record(number, an_attempt(number, **fields)))
    await scene.turn()

    assert distrust(scene)
    await scene.turn(after=2401)
    assert distrust(scene) == ""


async def test_a_bad_state_is_counted_list_by_list_and_forgotten_when_it_is_taken_back():
    scene = a_scene(1)
    await scene.turn()
    say(scene, 1, state=InstanceState.STOPPED)
    await scene.turns(3)
    assert claims(scene).state.shown(CONFIRMED_AFTER)
    assert claims(scene).together == 1
    say(scene, 1, state=InstanceState.RUNNING)
    await scene.turn(after=15)

    assert claims(scene).state is None


async def test_a_list_that_is_contradicted_by_id_is_not_believed():
    scene = a_scene(1, 2)
    await scene.turn()
    owned = scene.provider.owned

    async def lying(prefix):
        return tuple(replace(one, state=InstanceState.STOPPED) for one in await owned(prefix))

    scene.provider.owned = lying
    await scene.turn(after=60)

    assert claims(scene).state is None
    assert "List contradicts itself" in scene.instance_cache.trouble(VULTR.name).why


async def test_prices_of_several_at_once_are_counted_together_and_believed_one_at_a_time():
    scene = a_scene(1, 2, 3)
    await scene.turn()
    say(scene, 1, 2, 3, hourly_microusd=100 * PRICE)
    await scene.turns(3)
    assert claims(scene).price.shown(CONFIRMED_AFTER)
    assert {claims(scene, each).together for each in (1, 2, 3)} == {3}
    assert not any(claims(scene, each).turn for each in (1, 2, 3))
    assert distrust(scene)
    await scene.turn(after=BELIEVED_AFTER.total_seconds())

    assert [claims(scene, each).turn for each in (1, 2, 3)] == [True, False, False]


async def test_what_is_taken_back_of_some_is_still_doubted_of_the_others():
    """It was said of all of them at once: the last one for which it stands is not the only one that became dearer."""
    scene = a_scene(1, 2, 3)
    await scene.turn()
    say(scene, 1, 2, 3, hourly_microusd=100 * PRICE)
    await scene.turns(3)
    say(scene, 1, 2, hourly_microusd=PRICE)
    await scene.turn(after=15)
    assert claims(scene, 1).price is None
    assert claims(scene, 3).together == 3
    await scene.turns(8, every=600)

    assert claims(scene, 3).turn, "it is said of this one alone for more than an hour: then it is believed"
    assert claims(scene, 3).together == 1


async def test_those_that_go_meanwhile_still_count_as_spoken_of_at_once():
    scene = a_scene(1, 2)
    await scene.turn()
    say(scene, 1, 2, hourly_microusd=100 * PRICE)
    await scene.turns(3)
    scene.hold(msgspec.structs.replace(served(1), deletion_requested_at=scene.clock.now(), resource_version=2))
    await scene.turn(after=15)
    assert claims(scene, 2).together == 2
    scene.requests.drop(served(1))
    del scene.provider.machines["i-1-1"]
    await scene.turn(after=15)

    assert claims(scene, 2).together == 2


async def test_what_was_said_before_a_person_vouched_for_the_lists_counts_no_more():
    scene = a_scene(1, 2)
    await scene.turn()
    say(scene, 1, 2, hourly_microusd=100 * PRICE)
    await scene.turns(3)
    say(scene, 1, hourly_microusd=PRICE)
    await scene.turn(after=15)
    assert claims(scene, 2).together == 2
    scene.clock.seconds += 1
    scene.trusted_at = scene.clock.now()
    await scene.turn(after=15)

    assert claims(scene, 2).together == 1


async def test_a_price_that_rises_a_little_is_no_contradiction():
    scene = a_scene(1, 2, 3)
    await scene.turn()
    say(scene, 1, 2, 3, hourly_microusd=int(1.2 * PRICE))
    await scene.turns(3)

    assert claims(scene).price.shown(CONFIRMED_AFTER)
    assert claims(scene).together == 0
    assert distrust(scene) == ""
