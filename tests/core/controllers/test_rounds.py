"""The rounds: one look at one till, what may be concluded from it, and when the next one is due."""

from datetime import timedelta

import pytest

from tests.core.controllers.tills import (
    LAG,
    VULTR,
    Provider,
    Scene,
    a_class,
    a_machine,
    a_record,
    a_secret,
    a_token,
    an_attempt,
    at_till,
    ended,
)
from tgp.adapters.clouds.webhook import wire
from tgp.controllers.accounts import REMEMBERED_FOR, REVIEW
from tgp.controllers.look import MOST_ASKED, box_id
from tgp.controllers.rounds import (
    CLOSEST,
    EMPTY_AGAIN,
    IDENTITY_LASTS,
    KEPT_FOR,
    NAMELESS,
    REFUSED_AGAIN,
    SELDOM,
    SOON,
    USUALLY,
)
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, KeyRefused
from tgp.core.model.instance import InstanceState
from tgp.core.model.key import Key
from tgp.core.model.presence import Absent, Found, Trouble, Unknown
from tgp.core.model.secret import Secret
from tgp.core.model.source import source_of
from tgp.core.model.till import till_of

# -- looking -------------------------------------------------------------------------------------------------------


async def test_what_a_provider_lists_is_found_by_its_token():
    scene = Scene(Provider(a_machine(1)))
    await scene.turn()

    assert Found(a_machine(1)) == scene.presence(1)


async def test_the_identity_is_asked_after_the_list_it_vouches_for():
    scene = Scene(Provider(a_machine(1)))
    await scene.turn()

    assert scene.provider.asked == ["owned", "identity"]


async def test_a_known_identity_is_asked_again_before_anything_is_called_absent():
    """And every ten minutes; in between a list is enough."""
    scene = Scene(Provider(a_machine(1)))
    await scene.turns(2, every=60)
    assert scene.provider.asked == ["owned", "identity", "owned"]

    scene.presence(2)
    await scene.turn(after=60)
    assert scene.provider.asked[3:] == ["owned", "identity"]

    scene.rosters.forget(a_token(2))
    await scene.turn(after=IDENTITY_LASTS + 1)
    assert scene.provider.asked[5:] == ["owned", "identity"]


async def test_a_key_of_another_account_makes_machines_unknown_and_never_gone():
    scene = Scene(Provider(a_machine(1)))
    scene.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    scene.presence(1)
    await scene.turn()
    scene.provider.account, scene.provider.machines = "other", {}
    scene.vault.secrets["keys"] = {"VULTR": Secret("k2")}
    await scene.turns(4, every=60)

    assert scene.presence(1).trouble is Trouble.ACCOUNT_CHANGED


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (KeyRefused("vultr refuses the key"), Trouble.CREDENTIALS_REFUSED),
        (CloudBusy("vultr went quiet"), Trouble.UNREACHABLE),
        (CannotTell("vultr answered HTML"), Trouble.UNREACHABLE),
    ],
)
async def test_errors_are_troubles_in_the_providers_words(error, trouble):
    scene = Scene(Provider(a_machine(1)))
    scene.provider.error = error
    await scene.turn()

    assert Unknown(trouble, str(error)) == scene.presence(1)


async def test_a_missing_key_is_a_trouble_that_names_it():
    scene = Scene(Provider())
    scene.vault.secrets.clear()
    await scene.turn()
    assert Unknown(Trouble.CREDENTIALS_MISSING, "there is no Secret keys") == scene.rosters.trouble(VULTR.name)

    scene.vault.secrets["keys"] = {}
    await scene.turn(after=60)
    assert Unknown(Trouble.CREDENTIALS_MISSING, "Secret keys has no key VULTR") == scene.rosters.trouble(VULTR.name)

    scene.vault.forbidden.add("keys")
    await scene.turn(after=60)
    trouble = scene.rosters.trouble(VULTR.name)
    assert trouble is not None
    assert trouble.why == "the operator may not read Secret keys: let its Role get that Secret"
    assert scene.provider.asked == []


async def test_nothing_is_asked_before_the_cluster_has_a_name():
    """A prefix without it would list every cluster's machines."""
    scene = Scene(Provider(), cluster="")

    assert await scene.turn() == NAMELESS
    assert scene.provider.asked == []


# -- lists that leave something out --------------------------------------------------------------------------------


async def test_a_machine_gone_from_the_list_and_by_its_id_is_absent():
    """Deleted at the provider's console."""
    scene = Scene(Provider(a_machine(1)))
    scene.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    scene.presence(1)
    await scene.turn(after=1)
    scene.provider.machines.clear()
    await scene.turns(3, every=40)

    assert Absent(3, timedelta(seconds=80)) == scene.presence(1)


async def test_an_empty_list_does_not_make_machines_forgotten():
    """An empty 200, for ever: machines known by id are there, whatever is not shown is unknown, nothing is bought."""
    scene = Scene(Provider(a_machine(1), a_machine(2)))
    scene.hold(*(a_record(number, an_attempt(number, instanceId=f"i-{number}-1")) for number in (1, 2)))
    for number in (1, 2, 3):
        scene.presence(number)
    await scene.turn(after=1)
    scene.provider.hidden = {"i-1-1", "i-2-1"}
    await scene.turns(20, every=30)

    assert Found(a_machine(1)) == scene.presence(1)
    assert Found(a_machine(2)) == scene.presence(2)
    why = "the list contradicts itself: it leaves out i-2-1, which is there"
    assert Unknown(Trouble.UNREACHABLE, why) == scene.presence(3)
    assert Unknown(Trouble.UNREACHABLE, why) == scene.rosters.trouble(VULTR.name)


async def test_an_empty_list_at_start_up_does_not_make_machines_forgotten():
    """This process has seen nothing yet; the records know the ids."""
    scene = Scene(Provider(a_machine(1)))
    scene.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    scene.provider.hidden = {"i-1-1"}
    scene.presence(1)
    await scene.turns(10, every=30)

    assert Found(a_machine(1)) == scene.presence(1)
    assert scene.rosters.trouble(VULTR.name) is not None


async def test_a_machine_that_was_seen_is_asked_for_by_id_before_anybody_wrote_the_id_down():
    scene = Scene(Provider(a_machine(1)))
    scene.presence(1)
    await scene.turn(after=1)
    scene.provider.hidden = {"i-1-1"}
    await scene.turns(4, every=30)

    assert Found(a_machine(1)) == scene.presence(1)


async def test_a_launch_that_lists_do_not_show_yet_is_no_contradiction():
    """Providers list late; the id from the launch's answer finds it meanwhile."""
    scene = Scene(Provider(a_machine(1), a_machine(2)))
    scene.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    scene.provider.hidden = {"i-1-1"}
    scene.presence(1)
    await scene.turn(after=LAG.total_seconds() / 2)

    assert Found(a_machine(1)) == scene.presence(1)
    assert scene.rosters.trouble(VULTR.name) is None


async def test_a_machine_on_its_way_out_that_is_no_longer_listed_is_absent():
    """Some providers answer for what they have ended long after."""
    scene = Scene(Provider(ended(a_machine(1), InstanceState.ENDING)))
    scene.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    scene.provider.hidden = {"i-1-1"}
    scene.presence(1)
    await scene.turns(2, every=80)

    assert Absent(2, timedelta(seconds=80)) == scene.presence(1)


async def test_a_machine_on_its_way_out_is_there_for_as_long_as_lists_leave_out_others_as_well():
    """Two lists of nothing, one after the other: whoever runs is asked for and there, so nobody is gone by them."""
    scene = Scene(Provider(ended(a_machine(1), InstanceState.ENDING), a_machine(2)))
    for number in (1, 2):
        scene.hold(a_record(number, an_attempt(number, instanceId=f"i-{number}-1")))
        scene.presence(number)
    await scene.turn()
    scene.provider.hidden = {"i-1-1", "i-2-1"}
    await scene.turns(2, every=80)

    assert not isinstance(scene.presence(1), Absent)


async def test_a_machine_that_lost_its_mark_is_unknown_and_not_gone():
    """Renamed at the console: it costs on, and it is not ours to end by another name."""
    scene = Scene(Provider(a_machine(1, token="my pet")))
    scene.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    scene.presence(1)
    await scene.turns(3, every=80)

    told = scene.presence(1)
    assert isinstance(told, Unknown)
    assert told.why.startswith("i-1-1 is there, but no longer marked")
    assert scene.rosters.trouble(VULTR.name) is None


async def test_a_record_with_nonsense_for_an_id_makes_nobody_else_unknown():
    scene = Scene(Provider())
    scene.hold(a_record(1, an_attempt(1, instanceId="../a")), a_record(2, an_attempt(2, instanceId="i-2-1")))
    for number in (1, 2):
        scene.presence(number)
    await scene.turn(after=1)

    assert Unknown(Trouble.UNREACHABLE, "Vultr has no ids such as that") == scene.presence(1)
    assert Absent(1, timedelta(0)) == scene.presence(2)


async def test_a_list_that_is_suddenly_empty_is_made_again_before_it_counts():
    scene = Scene(Provider(a_machine(1), a_machine(2)))
    await scene.turn()
    scene.provider.machines.clear()

    assert await scene.turn(after=60) == EMPTY_AGAIN
    assert scene.rosters.roster(VULTR.name).instances == (a_machine(1), a_machine(2))
    await scene.turn(after=EMPTY_AGAIN)
    assert scene.rosters.roster(VULTR.name).instances == ()


async def test_no_more_than_a_few_are_asked_for_in_one_look():
    """The others stay unknown meanwhile: that many do not go at once."""
    scene = Scene(Provider())
    numbers = range(1, MOST_ASKED + 3)
    scene.hold(*(a_record(number, an_attempt(number, instanceId=f"i-{number}-1")) for number in numbers))
    for number in numbers:
        scene.presence(number)
    await scene.turn(after=1)

    assert scene.provider.asked.count("status") == MOST_ASKED
    assert isinstance(scene.presence(1), Absent)
    assert isinstance(scene.presence(MOST_ASKED + 2), Unknown)


# -- machines you own ----------------------------------------------------------------------------------------------


def a_box():
    machine = {"name": "box", "gpuCount": 1, "scaleUpEndpoint": "http://b/on", "scaleDownEndpoint": "http://b/off"}
    owned = a_class({"name": "webhook", "settings": {"machines": [machine]}})
    return till_of(source_of("webhook", "", "", owned.object.spec.providers[0].settings), "box")


def a_request_for_the_box(number, **rest):
    return a_record(number, at_till(an_attempt(number, **rest), a_box()))


def a_silent_provider(*machines):
    provider = Provider(*machines)
    provider.unlistable = CannotTell("it does not tell for whom it is on")
    return provider


def test_the_id_of_an_owned_machine_is_the_one_its_adapter_reads():
    assert wire.parted(box_id("box", a_token(1))) == ("box", a_token(1))
    assert wire.parted(box_id("box")) == ("box", "")


async def test_a_box_that_does_not_tell_for_whom_it_is_on_is_asked_for_each_token():
    mine = a_machine(1, id=box_id("box", a_token(1)))
    scene = Scene(a_silent_provider(mine, a_machine(1, id="box:", token="")), a_box())
    scene.hold(a_request_for_the_box(1), a_request_for_the_box(2))
    for number in (1, 2):
        scene.presence(number)
    await scene.turn(after=1)

    assert Found(mine) == scene.presence(1)
    assert Absent(1, timedelta(0)) == scene.presence(2)
    assert isinstance(scene.presence(3), Unknown)
    assert not scene.rosters.listed_since(scene.till.name, 0.0)
    assert scene.rosters.trouble(scene.till.name) is None


async def test_a_box_that_is_off_is_nobodys():
    """Also one that never says for whom it is on: off, it is on for nobody."""
    scene = Scene(a_silent_provider(), a_box())
    scene.presence(1)
    await scene.turns(2, every=80)

    assert Absent(2, timedelta(seconds=80)) == scene.presence(1)
    assert scene.rosters.listed_since(scene.till.name, 0.0)


async def test_a_box_that_forgot_its_token_is_still_on_for_us():
    """Its receiver was restarted: the list leaves it out, its status says on."""
    mine = a_machine(1, id=box_id("box", a_token(1)))
    scene = Scene(Provider(mine), a_box())
    scene.provider.hidden = {mine.id}
    scene.hold(a_request_for_the_box(1, instanceId=mine.id))
    scene.presence(1)
    await scene.turns(3, every=80)

    assert Found(mine) == scene.presence(1)
    assert scene.rosters.trouble(scene.till.name) is None


# -- which tills ---------------------------------------------------------------------------------------------------


def test_a_class_wakes_the_tills_it_adds_and_ends_also_of_entries_switched_off():
    scene = Scene(Provider())
    vultr = {"name": "vultr", "enabled": False, "credentialsRef": {"name": "keys", "key": "VULTR"}}
    vast = {"name": "vast.ai"}

    assert [Key("", "vast/tgp-operator-secret/VAST_API_KEY")] == scene.rounds.of_class(
        a_class(vultr), a_class(vultr, vast)
    )
    assert [Key("", VULTR.name)] == scene.rounds.of_class(a_class(vultr, vast), a_class(vast))


def test_each_machine_you_own_is_a_till():
    scene = Scene(Provider())
    machines = [
        {"name": name, "gpuCount": 1, "scaleUpEndpoint": "http://b/on", "scaleDownEndpoint": "http://b/off"}
        for name in ("box", "rack")
    ]
    woken = scene.rounds.of_class(None, a_class({"name": "webhook", "settings": {"machines": machines}}))

    assert Key("", a_box().name) in woken
    assert len(woken) == 2


def test_a_request_wakes_its_till_when_an_attempt_opens_ends_or_vanishes():
    scene = Scene(Provider())
    fresh, launched = a_record(1, an_attempt(1)), a_record(1, an_attempt(1, instanceId="i-1-1"))
    over = a_record(1, an_attempt(1, endedAt="2026-01-05T10:00:00Z"))
    till = [Key("", VULTR.name)]

    assert till == scene.rounds.of_request(None, fresh)
    assert scene.rounds.of_request(fresh, launched) == []
    assert till == scene.rounds.of_request(launched, over)
    assert till == scene.rounds.of_request(launched, None)
    assert scene.rounds.of_request(over, None) == []


def test_a_secret_wakes_the_tills_it_opens():
    scene = Scene(Provider())

    assert [Key("", VULTR.name)] == scene.rounds.of_secret(None, a_secret("keys"))
    assert scene.rounds.of_secret(None, a_secret("others")) == []


async def test_a_till_that_nobody_names_is_looked_at_for_an_hour_and_for_as_long_as_it_holds_something():
    scene = Scene(Provider(a_machine(1, id="i-9", token=a_token(9))), observing=True)
    await scene.turns(70, every=60)
    assert scene.rosters.roster(VULTR.name) is not None

    scene.provider.machines.clear()
    await scene.turns(2, every=60)
    assert await scene.turn(after=KEPT_FOR) is not None, "its account was not empty for a day yet"
    scene.clock.seconds += REMEMBERED_FOR.total_seconds()
    await scene.accounts.reconcile(REVIEW)
    assert scene.paper.data == {}
    assert await scene.turn() is None
    assert scene.rosters.roster(VULTR.name) is None


async def test_a_till_that_a_class_names_is_looked_at_for_ever():
    scene = Scene(Provider())
    scene.classes.put(a_class())
    for _ in range(4):
        assert await scene.turn(after=KEPT_FOR - 1) == SELDOM


# -- when to look again --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machines", "expected", "pause"),
    [
        ((), (), SELDOM),
        ((), (1,), SOON),  # it may still come, or is shown to be gone
        ((a_machine(1),), (1,), USUALLY),
        ((ended(a_machine(1), InstanceState.STARTING),), (1,), SOON),
        ((ended(a_machine(1), InstanceState.ENDING),), (1,), SOON),
        ((a_machine(1), a_machine(2)), (1, 2), USUALLY),
        ((a_machine(1),), (1, 2), SOON),
    ],
)
async def test_the_more_somebody_waits_the_sooner_the_next_look(machines, expected, pause):
    scene = Scene(Provider(*machines))
    scene.hold(*(a_record(number, an_attempt(number)) for number in expected))

    assert await scene.turn() == pause


async def test_errors_back_off_and_obey_the_provider_within_bounds():
    scene = Scene(Provider())
    scene.provider.error = CloudBusy("busy")
    assert [await scene.turn(after=300) for _ in range(7)] == [15, 30, 60, 120, 240, 300, 300]

    scene.provider.error = CloudBusy("busy", timedelta(hours=2))
    assert await scene.turn(after=300) == 300


async def test_where_a_machine_is_at_stake_errors_keep_nobody_away_for_more_than_a_minute():
    """What is nobody's there has five minutes in all, and a bad moment of the provider must not eat them up."""
    scene = Scene(Provider())
    scene.presence(1)
    scene.provider.error = CloudBusy("busy")
    assert [await scene.turn(after=300) for _ in range(5)] == [15, 30, 60, 60, 60]

    scene.provider.error = CloudBusy("busy", timedelta(minutes=2))
    assert await scene.turn(after=300) == 120


async def test_whoever_asks_a_till_is_not_asked_twice_in_three_seconds():
    scene = Scene(Provider())
    await scene.turn()

    assert await scene.turn(after=1) == CLOSEST - 1
    assert scene.provider.asked.count("owned") == 1
    await scene.turn(after=CLOSEST - 1)
    assert scene.provider.asked.count("owned") == 2


async def test_a_refused_key_is_tried_seldom_unless_a_machine_is_at_stake():
    scene = Scene(Provider())
    scene.provider.error = KeyRefused("no")
    assert await scene.turn() == REFUSED_AGAIN
    assert await scene.turn(after=REFUSED_AGAIN) == REFUSED_AGAIN

    scene.presence(1)
    scene.vault.secrets["keys"] = {"VULTR": Secret("k2")}
    assert [await scene.turn(after=300) for _ in range(3)] == [15, 30, 60]


async def test_a_till_that_erred_is_left_alone_until_its_key_changes():
    scene = Scene(Provider())
    scene.provider.error = KeyRefused("no")
    await scene.turn()
    assert await scene.turn(after=5) == REFUSED_AGAIN - 5
    assert scene.provider.asked.count("owned") == 1

    scene.provider.error = None
    scene.vault.secrets["keys"] = {"VULTR": Secret("k2")}
    await scene.turn(after=5)
    assert scene.rosters.trouble(VULTR.name) is None


async def test_a_quiet_hour_is_not_announced():
    scene = Scene(Provider(a_machine(1)))
    scene.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    scene.presence(1)
    await scene.turns(60, every=60)

    assert [VULTR.name] == scene.announced


async def test_a_change_of_state_is_announced():
    scene = Scene(Provider(ended(a_machine(1), InstanceState.STARTING)))
    await scene.turn()
    scene.provider.machines["i-1-1"] = a_machine(1)
    await scene.turn(after=15)

    assert [VULTR.name] * 2 == scene.announced


def test_attempts_say_where_their_machine_is_whatever_became_of_the_class():
    """The till of a record is the till of the class that it was bought by."""
    scene = Scene(Provider())

    assert [Key("", VULTR.name)] == scene.rounds.of_request(None, a_record(1, an_attempt(1)))
    assert scene.rounds.of_request(None, a_record(2, an_attempt(2, account="vultr-of-nobody"))) == []
    assert scene.rounds.of_class(a_class(), a_class(version=2)) == []
