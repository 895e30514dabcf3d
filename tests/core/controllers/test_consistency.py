"""Whether an account is believed: what vanishes there, what it says of machines, and when it is believed again."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from tests.core.controllers.account_access import (
    VULTR,
    AccountSetup,
    Provider,
    a_machine,
    a_record,
    a_token,
    an_attempt,
)
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


def a_scene(*numbers: int, ready: bool = True) -> AccountSetup:
    setup = AccountSetup(Provider(*(a_machine(each, hourly_microusd=PRICE) for each in numbers)))
    for each in numbers:
        setup.hold(served(each))
        name = node_name_for(ObjectKey("team", f"train-{each}"), a_token(each))
        setup.nodes.put(Node(key=ObjectKey("", name), uid=name, resource_version=1, ready=ready))
    return setup


def distrust(setup: AccountSetup) -> str:
    return setup.consistency.distrust(VULTR.name)


def claims(setup: AccountSetup, number: int = 1):
    return setup.consistency.claims(VULTR.name, a_token(number))


def say(setup: AccountSetup, *numbers: int, **what) -> None:
    for each in numbers:
        machine = setup.provider.machines[f"i-{each}-1"]
        setup.provider.machines[machine.id] = replace(machine, **what)


async def test_an_account_whose_machines_are_listed_is_believed():
    setup = a_scene(1, 2, 3)
    await setup.turns(5, every=60)

    assert distrust(setup) == ""
    assert not claims(setup).state


async def test_one_machine_that_vanishes_casts_no_doubt_on_the_account():
    setup = a_scene(1, 2, ready=False)
    await setup.turns(2)
    del setup.provider.machines["i-1-1"]
    await setup.turns(3)

    assert distrust(setup) == ""


@pytest.mark.parametrize(("apart", "doubted"), [(0.0, True), (AT_ONCE - 60, True), (AT_ONCE + 60, False)])
async def test_two_that_vanish_within_ten_minutes_do(apart, doubted):
    setup = a_scene(1, 2, 3, ready=False)
    await setup.turns(2)
    del setup.provider.machines["i-1-1"]
    await setup.turn(after=15)
    del setup.provider.machines["i-2-1"]
    await setup.turn(after=15 + apart)

    assert bool(distrust(setup)) is doubted
    if doubted:
        assert "about 2 machines within 10 min" in distrust(setup)
        assert distrust(setup).endswith("tgp release provider/vultr")


async def test_what_we_end_ourselves_or_the_provider_announces_does_not_vanish():
    setup = a_scene(1, 2, ready=False)
    await setup.turns(2)
    ending = Condition(type="Terminating", status="True", reason="Idle")
    setup.hold(msgspec.structs.replace(served(1, conditions=(ending,)), resource_version=2))
    say(setup, 2, state=InstanceState.ENDING)
    await setup.turn(after=15)
    setup.provider.machines.clear()
    await setup.turns(4)

    assert distrust(setup) == ""
    assert claims(setup, 2).leaving


async def vanish(setup: AccountSetup) -> dict[str, object]:
    await setup.turns(2)
    gone, setup.provider.machines = setup.provider.machines, {}
    await setup.turns(3)
    assert distrust(setup)
    return gone


async def test_an_hour_of_consistent_lists_restores_the_trust():
    setup = a_scene(1, 2)
    setup.provider.machines = await vanish(setup)
    await setup.turn(after=60)
    await setup.turn(after=CONSISTENT_FOR - 60)
    assert distrust(setup), "they came back: that was the last contradiction"
    await setup.turn(after=61)

    assert distrust(setup) == ""


async def test_while_a_ready_node_is_denied_no_list_is_consistent():
    setup = a_scene(1, 2)
    await vanish(setup)
    for _ in range(8):
        await setup.turn(after=CONSISTENT_FOR / 4)

    assert distrust(setup)


async def test_a_person_may_say_that_the_lists_are_right():
    setup = a_scene(1, 2)
    await vanish(setup)
    setup.trusted_at = setup.clock.now() - timedelta(minutes=5)
    assert distrust(setup), "that was before it happened"
    setup.trusted_at = setup.clock.now()
    assert distrust(setup) == ""
    await setup.turns(3)

    assert distrust(setup) == "", "what is said on was known when they said so"


async def test_a_new_leader_reads_from_the_records_what_vanished():
    setup = a_scene(3)
    now = setup.clock.now()
    for number in (1, 2):
        fields = {"outcome": "Lost", "endedAt": now - timedelta(minutes=20), "countsUntil": now + timedelta(minutes=40)}
        setup.hold(a_record(number, an_attempt(number, **fields)))
    await setup.turn()

    assert distrust(setup)
    await setup.turn(after=2401)
    assert distrust(setup) == ""


@pytest.mark.parametrize("ended", [timedelta(minutes=-20), timedelta(days=36500)], ids=["ended", "ends in a century"])
async def test_a_record_casts_doubt_for_an_hour_and_no_longer(ended):
    scene = a_scene(3)
    now = scene.clock.now()
    fields = {"outcome": "Lost", "endedAt": now + ended, "countsUntil": now + timedelta(days=40000)}
    for number in (1, 2):
        scene.hold(a_record(number, an_attempt(number, **fields)))
    await scene.turn()
    assert distrust(scene)
    for _ in range(5):
        await scene.turn(after=CONSISTENT_FOR / 4)
    assert distrust(scene) == ""
    for _ in range(8):
        await scene.turn(after=CONSISTENT_FOR / 4)

    assert distrust(scene) == "", "the same record is not read again"


async def test_what_only_a_record_says_casts_no_doubt():
    scene = a_scene(3)
    now = scene.clock.now()
    lost = {"outcome": "Lost", "endedAt": now - timedelta(minutes=20), "countsUntil": now + timedelta(minutes=40)}
    for number in (1, 2):
        scene.hold(a_record(number, an_attempt(number, **lost)))
    for number in (4, 5):
        scene.hold(served(number, ready_at=now - timedelta(hours=1)))
    scene.unserved |= {ObjectKey("team", f"train-{number}") for number in (1, 2, 4, 5)}
    await scene.turns(5, every=60)

    assert distrust(scene) == ""


async def test_a_bad_state_is_counted_list_by_list_and_forgotten_when_it_is_taken_back():
    setup = a_scene(1)
    await setup.turn()
    say(setup, 1, state=InstanceState.STOPPED)
    await setup.turns(3)
    assert claims(setup).state.shown(CONFIRMED_AFTER)
    assert claims(setup).together == 1
    say(setup, 1, state=InstanceState.RUNNING)
    await setup.turn(after=15)

    assert claims(setup).state is None


async def test_a_list_that_is_contradicted_by_id_is_not_believed():
    setup = a_scene(1, 2)
    await setup.turn()
    owned = setup.provider.owned

    async def lying(prefix):
        return tuple(replace(one, state=InstanceState.STOPPED) for one in await owned(prefix))

    setup.provider.owned = lying
    await setup.turn(after=60)

    assert claims(setup).state is None
    assert "List contradicts itself" in setup.instance_cache.trouble(VULTR.name).why


async def test_prices_of_several_at_once_are_counted_together_and_believed_one_at_a_time():
    setup = a_scene(1, 2, 3)
    await setup.turn()
    say(setup, 1, 2, 3, hourly_microusd=100 * PRICE)
    await setup.turns(3)
    assert claims(setup).price.shown(CONFIRMED_AFTER)
    assert {claims(setup, each).together for each in (1, 2, 3)} == {3}
    assert not any(claims(setup, each).turn for each in (1, 2, 3))
    assert distrust(setup)
    await setup.turn(after=BELIEVED_AFTER.total_seconds())

    assert [claims(setup, each).turn for each in (1, 2, 3)] == [True, False, False]


async def test_what_is_taken_back_of_some_is_still_doubted_of_the_others():
    """It was said of all of them at once: the last one for which it stands is not the only one that became dearer."""
    setup = a_scene(1, 2, 3)
    await setup.turn()
    say(setup, 1, 2, 3, hourly_microusd=100 * PRICE)
    await setup.turns(3)
    say(setup, 1, 2, hourly_microusd=PRICE)
    await setup.turn(after=15)
    assert claims(setup, 1).price is None
    assert claims(setup, 3).together == 3
    await setup.turns(8, every=600)

    assert claims(setup, 3).turn, "it is said of this one alone for more than an hour: then it is believed"
    assert claims(setup, 3).together == 1


async def test_those_that_go_meanwhile_still_count_as_spoken_of_at_once():
    setup = a_scene(1, 2)
    await setup.turn()
    say(setup, 1, 2, hourly_microusd=100 * PRICE)
    await setup.turns(3)
    setup.hold(msgspec.structs.replace(served(1), deletion_requested_at=setup.clock.now(), resource_version=2))
    await setup.turn(after=15)
    assert claims(setup, 2).together == 2
    setup.requests.drop(served(1))
    del setup.provider.machines["i-1-1"]
    await setup.turn(after=15)

    assert claims(setup, 2).together == 2


async def test_what_was_said_before_a_person_vouched_for_the_lists_counts_no_more():
    setup = a_scene(1, 2)
    await setup.turn()
    say(setup, 1, 2, hourly_microusd=100 * PRICE)
    await setup.turns(3)
    say(setup, 1, hourly_microusd=PRICE)
    await setup.turn(after=15)
    assert claims(setup, 2).together == 2
    setup.clock.seconds += 1
    setup.trusted_at = setup.clock.now()
    await setup.turn(after=15)

    assert claims(setup, 2).together == 1


async def test_a_price_that_rises_a_little_is_no_contradiction():
    setup = a_scene(1, 2, 3)
    await setup.turn()
    say(setup, 1, 2, 3, hourly_microusd=int(1.2 * PRICE))
    await setup.turns(3)

    assert claims(setup).price.shown(CONFIRMED_AFTER)
    assert claims(setup).together == 0
    assert distrust(setup) == ""
