"""The poller: one list of one account, what may be concluded from it, and when the next one is due."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.core.controllers.account_access import (
    LAG,
    VULTR,
    AccountSetup,
    Provider,
    a_class,
    a_machine,
    a_record,
    a_secret,
    a_token,
    an_attempt,
    at_access,
    ended,
)
from tgp.adapters.clouds.webhook import wire
from tgp.controllers.instances.accounts import REMEMBERED_FOR, REVIEW
from tgp.controllers.instances.list_instances import MOST_ASKED, owned_id
from tgp.controllers.instances.poller import (
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
from tgp.core.model.account_access import access_of
from tgp.core.model.attempts import FINALIZER
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, KeyRefused
from tgp.core.model.instance import InstanceState
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.presence import Absent, AccountProblem, Found, Unknown
from tgp.core.model.secret import Secret
from tgp.core.model.source import source_of

# -- looking -------------------------------------------------------------------------------------------------------


async def test_what_a_provider_lists_is_found_by_its_token():
    setup = AccountSetup(Provider(a_machine(1)))
    await setup.turn()

    assert Found(a_machine(1)) == setup.presence(1)


async def test_the_identity_is_asked_after_the_list_it_vouches_for():
    setup = AccountSetup(Provider(a_machine(1)))
    await setup.turn()

    assert setup.provider.asked == ["owned", "identity"]


async def test_a_known_identity_is_asked_again_before_anything_is_called_absent():
    """And every ten minutes; in between a list is enough."""
    setup = AccountSetup(Provider(a_machine(1)))
    await setup.turns(2, every=60)
    assert setup.provider.asked == ["owned", "identity", "owned"]

    setup.presence(2)
    await setup.turn(after=60)
    assert setup.provider.asked[3:] == ["owned", "identity"]

    setup.instance_cache.forget(a_token(2))
    await setup.turn(after=IDENTITY_LASTS + 1)
    assert setup.provider.asked[5:] == ["owned", "identity"]


async def test_a_key_of_another_account_makes_machines_unknown_and_never_gone():
    setup = AccountSetup(Provider(a_machine(1)))
    setup.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    setup.presence(1)
    await setup.turn()
    setup.provider.account, setup.provider.machines = "other", {}
    setup.secret_reader.secrets["keys"] = {"VULTR": Secret("k2")}
    await setup.turns(4, every=60)

    assert setup.presence(1).trouble is AccountProblem.ACCOUNT_CHANGED


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (KeyRefused("vultr refuses the key"), AccountProblem.CREDENTIALS_REFUSED),
        (CloudBusy("vultr went quiet"), AccountProblem.UNREACHABLE),
        (CannotTell("vultr answered HTML"), AccountProblem.UNREACHABLE),
    ],
)
async def test_errors_are_troubles_in_the_providers_words(error, trouble):
    setup = AccountSetup(Provider(a_machine(1)))
    setup.provider.error = error
    await setup.turn()

    assert Unknown(trouble, str(error)) == setup.presence(1)


async def test_a_missing_key_is_a_trouble_that_names_it():
    setup = AccountSetup(Provider())
    setup.secret_reader.secrets.clear()
    await setup.turn()
    assert Unknown(AccountProblem.CREDENTIALS_MISSING, "Secret keys does not exist") == setup.instance_cache.trouble(
        VULTR.name
    )

    setup.secret_reader.secrets["keys"] = {}
    await setup.turn(after=60)
    assert Unknown(AccountProblem.CREDENTIALS_MISSING, "Secret keys has no key VULTR") == setup.instance_cache.trouble(
        VULTR.name
    )

    setup.secret_reader.forbidden.add("keys")
    await setup.turn(after=60)
    trouble = setup.instance_cache.trouble(VULTR.name)
    assert trouble is not None
    assert trouble.why == "the operator may not read Secret keys: add get on that Secret to the operator's Role"
    assert setup.provider.asked == []


async def test_nothing_is_asked_before_the_cluster_has_a_name():
    """A prefix without it would list every cluster's machines."""
    setup = AccountSetup(Provider(), cluster="")

    assert await setup.turn() == NAMELESS
    assert setup.provider.asked == []


# -- lists that leave something out --------------------------------------------------------------------------------


async def test_a_machine_gone_from_the_list_and_by_its_id_is_absent():
    """Deleted at the provider's console."""
    setup = AccountSetup(Provider(a_machine(1)))
    setup.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    setup.presence(1)
    await setup.turn(after=1)
    setup.provider.machines.clear()
    await setup.turns(3, every=40)

    assert Absent(3, timedelta(seconds=80)) == setup.presence(1)


async def test_an_empty_list_does_not_make_machines_forgotten():
    """An empty 200, for ever: machines known by id are there, whatever is not shown is unknown, nothing is bought."""
    setup = AccountSetup(Provider(a_machine(1), a_machine(2)))
    setup.hold(*(a_record(number, an_attempt(number, instanceId=f"i-{number}-1")) for number in (1, 2)))
    for number in (1, 2, 3):
        setup.presence(number)
    await setup.turn(after=1)
    setup.provider.hidden = {"i-1-1", "i-2-1"}
    await setup.turns(20, every=30)

    assert Found(a_machine(1)) == setup.presence(1)
    assert Found(a_machine(2)) == setup.presence(2)
    why = "List contradicts itself: machine i-2-1 exists but is not listed"
    assert Unknown(AccountProblem.UNREACHABLE, why) == setup.presence(3)
    assert Unknown(AccountProblem.UNREACHABLE, why) == setup.instance_cache.trouble(VULTR.name)


async def test_an_empty_list_at_start_up_does_not_make_machines_forgotten():
    """This process has seen nothing yet; the records know the ids."""
    setup = AccountSetup(Provider(a_machine(1)))
    setup.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    setup.provider.hidden = {"i-1-1"}
    setup.presence(1)
    await setup.turns(10, every=30)

    assert Found(a_machine(1)) == setup.presence(1)
    assert setup.instance_cache.trouble(VULTR.name) is not None


async def test_a_machine_that_was_seen_is_asked_for_by_id_before_the_id_is_written_down():
    setup = AccountSetup(Provider(a_machine(1)))
    setup.presence(1)
    await setup.turn(after=1)
    setup.provider.hidden = {"i-1-1"}
    await setup.turns(4, every=30)

    assert Found(a_machine(1)) == setup.presence(1)


async def test_a_launch_that_lists_do_not_show_yet_is_no_contradiction():
    """Providers list late; the id from the launch's answer finds it meanwhile."""
    setup = AccountSetup(Provider(a_machine(1), a_machine(2)))
    setup.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    setup.provider.hidden = {"i-1-1"}
    setup.presence(1)
    await setup.turn(after=LAG.total_seconds() / 2)

    assert Found(a_machine(1)) == setup.presence(1)
    assert setup.instance_cache.trouble(VULTR.name) is None


async def test_a_machine_on_its_way_out_that_is_no_longer_listed_is_absent():
    """Some providers answer for what they have ended long after."""
    setup = AccountSetup(Provider(ended(a_machine(1), InstanceState.ENDING)))
    setup.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    setup.provider.hidden = {"i-1-1"}
    setup.presence(1)
    await setup.turns(2, every=80)

    assert Absent(2, timedelta(seconds=80)) == setup.presence(1)


async def test_a_machine_on_its_way_out_is_there_for_as_long_as_lists_leave_out_others_as_well():
    """Two empty lists in a row: running machines are asked for by id and exist, so none counts as gone."""
    setup = AccountSetup(Provider(ended(a_machine(1), InstanceState.ENDING), a_machine(2)))
    for number in (1, 2):
        setup.hold(a_record(number, an_attempt(number, instanceId=f"i-{number}-1")))
        setup.presence(number)
    await setup.turn()
    setup.provider.hidden = {"i-1-1", "i-2-1"}
    await setup.turns(2, every=80)

    assert not isinstance(setup.presence(1), Absent)


async def test_a_machine_that_lost_its_mark_is_unknown_and_not_gone():
    """Renamed at the console: it costs on, and it is not ours to end by another name."""
    setup = AccountSetup(Provider(a_machine(1, token="my pet")))
    setup.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    setup.presence(1)
    await setup.turns(3, every=80)

    presence = setup.presence(1)
    assert isinstance(presence, Unknown)
    assert presence.why.startswith("Machine i-1-1 does not carry the token")
    assert setup.instance_cache.trouble(VULTR.name) is None


async def test_an_id_that_is_another_attempts_machine_proves_no_machine():
    """An answer to an order may name it by mistake: a token is on one machine, and this one has its own."""
    setup = AccountSetup(Provider(a_machine(1)))
    setup.hold(a_record(1, an_attempt(1, instanceId="i-1-1")), a_record(2, an_attempt(2, instanceId="i-1-1")))
    for number in (1, 2):
        setup.presence(number)
    await setup.turns(2, every=80)

    assert isinstance(setup.presence(1), Found)
    assert Absent(2, timedelta(seconds=80)) == setup.presence(2)


async def test_an_id_that_is_another_attempts_machine_proves_nothing_beside_a_list_that_lies():
    """Absent by an empty list: the machine of the second order runs, and would be bought again."""
    setup = AccountSetup(Provider(a_machine(1), a_machine(2)))
    setup.hold(a_record(1, an_attempt(1, instanceId="i-1-1")), a_record(2, an_attempt(2, instanceId="i-1-1")))
    for number in (1, 2):
        setup.presence(number)
    await setup.turn()
    setup.provider.hidden |= {"i-1-1", "i-2-1"}
    await setup.turns(3, every=80)

    assert isinstance(setup.presence(1), Found)
    assert not isinstance(setup.presence(2), Absent)


async def test_a_record_with_an_invalid_id_makes_no_other_machine_unknown():
    setup = AccountSetup(Provider())
    setup.hold(a_record(1, an_attempt(1, instanceId="../a")), a_record(2, an_attempt(2, instanceId="i-2-1")))
    for number in (1, 2):
        setup.presence(number)
    await setup.turn(after=1)

    assert Unknown(AccountProblem.UNREACHABLE, "Vultr cannot have an id such as that") == setup.presence(1)
    assert Absent(1, timedelta(0)) == setup.presence(2)


async def test_a_list_that_is_suddenly_empty_is_made_again_before_it_counts():
    setup = AccountSetup(Provider(a_machine(1), a_machine(2)))
    await setup.turn()
    setup.provider.machines.clear()

    assert await setup.turn(after=60) == EMPTY_AGAIN
    assert setup.instance_cache.snapshot(VULTR.name).instances == (a_machine(1), a_machine(2))
    await setup.turn(after=EMPTY_AGAIN)
    assert setup.instance_cache.snapshot(VULTR.name).instances == ()


async def test_no_more_than_a_few_are_asked_for_in_one_look():
    """The others stay unknown meanwhile: that many do not go at once."""
    setup = AccountSetup(Provider())
    numbers = range(1, MOST_ASKED + 3)
    setup.hold(*(a_record(number, an_attempt(number, instanceId=f"i-{number}-1")) for number in numbers))
    for number in numbers:
        setup.presence(number)
    await setup.turn(after=1)

    assert setup.provider.asked.count("status") == MOST_ASKED
    assert isinstance(setup.presence(1), Absent)
    assert isinstance(setup.presence(MOST_ASKED + 2), Unknown)


# -- machines you own ----------------------------------------------------------------------------------------------


def a_box():
    machine = {"name": "box", "gpuCount": 1, "scaleUpEndpoint": "http://b/on", "scaleDownEndpoint": "http://b/off"}
    owned = a_class({"name": "webhook", "settings": {"machines": [machine]}})
    return access_of(source_of("webhook", "", "", owned.value.spec.providers[0].settings), "box")


def a_request_for_the_box(number, **rest):
    return a_record(number, at_access(an_attempt(number, **rest), a_box()))


def a_silent_provider(*machines):
    provider = Provider(*machines)
    provider.unlistable = CannotTell("it does not tell for whom it is on")
    return provider


def test_the_id_of_an_owned_machine_is_the_one_its_adapter_reads():
    assert wire.parted(owned_id("box", a_token(1))) == ("box", a_token(1))
    assert wire.parted(owned_id("box")) == ("box", "")


async def test_a_box_that_does_not_tell_for_whom_it_is_on_is_asked_for_each_token():
    mine = a_machine(1, id=owned_id("box", a_token(1)))
    setup = AccountSetup(a_silent_provider(mine, a_machine(1, id="box:", token="")), a_box())
    setup.hold(a_request_for_the_box(1), a_request_for_the_box(2))
    for number in (1, 2):
        setup.presence(number)
    await setup.turn(after=1)

    assert Found(mine) == setup.presence(1)
    assert Absent(1, timedelta(0)) == setup.presence(2)
    assert isinstance(setup.presence(3), Unknown)
    assert not setup.instance_cache.listed_since(setup.access.name, 0.0)
    assert setup.instance_cache.trouble(setup.access.name) is None


async def test_an_owned_machine_that_is_off_has_no_owner():
    """Also one that never reports its token: while it is off, no request has it."""
    setup = AccountSetup(a_silent_provider(), a_box())
    setup.presence(1)
    await setup.turns(2, every=80)

    assert Absent(2, timedelta(seconds=80)) == setup.presence(1)
    assert setup.instance_cache.listed_since(setup.access.name, 0.0)


async def test_a_box_that_forgot_its_token_is_still_on_for_us():
    """Its receiver was restarted: the list leaves it out, its status says on."""
    mine = a_machine(1, id=owned_id("box", a_token(1)))
    setup = AccountSetup(Provider(mine), a_box())
    setup.provider.hidden = {mine.id}
    setup.hold(a_request_for_the_box(1, instanceId=mine.id))
    setup.presence(1)
    await setup.turns(3, every=80)

    assert Found(mine) == setup.presence(1)
    assert setup.instance_cache.trouble(setup.access.name) is None


# -- which accounts -----------------------------------------------------------------------------------------------


def test_a_class_wakes_the_accounts_it_adds_and_ends_also_of_entries_switched_off():
    setup = AccountSetup(Provider())
    vultr = {"name": "vultr", "enabled": False, "credentialsRef": {"name": "keys", "key": "VULTR"}}
    vast = {"name": "vast.ai"}

    assert [ObjectKey("", "vast/tgp-operator-secret/VAST_API_KEY")] == setup.poller.of_class(
        a_class(vultr), a_class(vultr, vast)
    )
    assert [ObjectKey("", VULTR.name)] == setup.poller.of_class(a_class(vultr, vast), a_class(vast))


def test_each_owned_machine_is_an_account():
    setup = AccountSetup(Provider())
    machines = [
        {"name": name, "gpuCount": 1, "scaleUpEndpoint": "http://b/on", "scaleDownEndpoint": "http://b/off"}
        for name in ("box", "rack")
    ]
    woken = setup.poller.of_class(None, a_class({"name": "webhook", "settings": {"machines": machines}}))

    assert ObjectKey("", a_box().name) in woken
    assert len(woken) == 2


def test_a_request_wakes_its_account_when_an_attempt_opens_ends_or_vanishes():
    setup = AccountSetup(Provider())
    fresh, launched = a_record(1, an_attempt(1)), a_record(1, an_attempt(1, instanceId="i-1-1"))
    over = a_record(1, an_attempt(1, endedAt="2026-01-05T10:00:00Z"))
    access = [ObjectKey("", VULTR.name)]

    assert access == setup.poller.of_request(None, fresh)
    assert setup.poller.of_request(fresh, launched) == []
    assert access == setup.poller.of_request(launched, over)
    assert access == setup.poller.of_request(launched, None)
    assert setup.poller.of_request(over, None) == []


def test_a_secret_wakes_the_accounts_it_opens():
    setup = AccountSetup(Provider())

    assert [ObjectKey("", VULTR.name)] == setup.poller.of_secret(None, a_secret("keys"))
    assert setup.poller.of_secret(None, a_secret("others")) == []


async def test_an_account_that_no_class_names_is_looked_at_for_an_hour_and_for_as_long_as_it_holds_something():
    setup = AccountSetup(Provider(a_machine(1, id="i-9", token=a_token(9))), observing=True)
    await setup.turns(70, every=60)
    assert setup.instance_cache.snapshot(VULTR.name) is not None

    setup.provider.machines.clear()
    await setup.turns(2, every=60)
    assert await setup.turn(after=KEPT_FOR) is not None, "its account was not empty for a day yet"
    setup.clock.seconds += REMEMBERED_FOR.total_seconds()
    await setup.accounts.reconcile(REVIEW)
    assert setup.config_map.data == {}
    assert await setup.turn() is None
    assert setup.instance_cache.snapshot(VULTR.name) is None


async def test_an_account_that_a_class_names_is_looked_at_for_ever():
    setup = AccountSetup(Provider())
    setup.classes.put(a_class())
    for _ in range(4):
        assert await setup.turn(after=KEPT_FOR - 1) == SELDOM


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
async def test_the_more_a_user_waits_the_sooner_the_next_look(machines, expected, pause):
    setup = AccountSetup(Provider(*machines))
    setup.hold(*(a_record(number, an_attempt(number)) for number in expected))

    assert await setup.turn() == pause


async def test_while_a_request_has_to_adopt_its_machine_again_every_account_is_listed_soon():
    """It adopts it once all of them were listed since any later order would show, and is no owner until then."""
    setup = AccountSetup(Provider(a_machine(1)))
    setup.hold(replace(a_record(1), finalizers=(FINALIZER,)))
    setup.secret_reader.secrets["keys"]["OTHER"] = Secret("k2")
    other = {"name": "vultr", "credentialsRef": {"name": "keys", "key": "OTHER"}}
    (elsewhere,) = setup.poller.of_class(None, a_class(other))
    assert await setup.turn() == SOON

    setup.provider.machines.clear()
    assert await setup.turn_at(elsewhere) == SOON


async def test_the_first_list_that_shows_such_a_machine_has_every_other_account_listed_at_once():
    """One without machines was to be listed minutes later, and the leader was gone before."""
    setup = AccountSetup(Provider(a_machine(1)))
    setup.hold(replace(a_record(1), finalizers=(FINALIZER,)))
    asked = []
    setup.instance_cache.ask_soon = asked.append
    other = {"name": "vultr", "credentialsRef": {"name": "keys", "key": "OTHER"}}
    (elsewhere,) = setup.poller.of_class(None, a_class(other))
    await setup.turns(2, every=SOON)

    assert asked == [elsewhere.name], "once"


async def test_errors_back_off_and_obey_the_provider_within_bounds():
    setup = AccountSetup(Provider())
    setup.provider.error = CloudBusy("busy")
    assert [await setup.turn(after=300) for _ in range(7)] == [15, 30, 60, 120, 240, 300, 300]

    setup.provider.error = CloudBusy("busy", timedelta(hours=2))
    assert await setup.turn(after=300) == 300


async def test_where_a_machine_may_be_errors_delay_lists_by_a_minute_at_most():
    """An orphan there must be gone within five minutes, also after an error of the provider."""
    setup = AccountSetup(Provider())
    setup.presence(1)
    setup.provider.error = CloudBusy("busy")
    assert [await setup.turn(after=300) for _ in range(5)] == [15, 30, 60, 60, 60]

    setup.provider.error = CloudBusy("busy", timedelta(minutes=2))
    assert await setup.turn(after=300) == 120


async def test_an_account_is_not_listed_twice_in_three_seconds():
    setup = AccountSetup(Provider())
    await setup.turn()

    assert await setup.turn(after=1) == CLOSEST - 1
    assert setup.provider.asked.count("owned") == 1
    await setup.turn(after=CLOSEST - 1)
    assert setup.provider.asked.count("owned") == 2


async def test_a_refused_key_is_tried_seldom_unless_a_machine_is_at_stake():
    setup = AccountSetup(Provider())
    setup.provider.error = KeyRefused("no")
    assert await setup.turn() == REFUSED_AGAIN
    assert await setup.turn(after=REFUSED_AGAIN) == REFUSED_AGAIN

    setup.presence(1)
    setup.secret_reader.secrets["keys"] = {"VULTR": Secret("k2")}
    assert [await setup.turn(after=300) for _ in range(3)] == [15, 30, 60]


async def test_an_account_that_erred_is_left_alone_until_its_key_changes():
    setup = AccountSetup(Provider())
    setup.provider.error = KeyRefused("no")
    await setup.turn()
    assert await setup.turn(after=5) == REFUSED_AGAIN - 5
    assert setup.provider.asked.count("owned") == 1

    setup.provider.error = None
    setup.secret_reader.secrets["keys"] = {"VULTR": Secret("k2")}
    await setup.turn(after=5)
    assert setup.instance_cache.trouble(VULTR.name) is None


async def test_a_quiet_hour_is_not_announced():
    setup = AccountSetup(Provider(a_machine(1)))
    setup.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    setup.presence(1)
    await setup.turns(60, every=60)

    assert [VULTR.name] == setup.announced


async def test_a_change_of_state_is_announced():
    setup = AccountSetup(Provider(ended(a_machine(1), InstanceState.STARTING)))
    await setup.turn()
    setup.provider.machines["i-1-1"] = a_machine(1)
    await setup.turn(after=15)

    assert [VULTR.name] * 2 == setup.announced


def test_attempts_say_where_their_machine_is_whatever_became_of_the_class():
    """The account of a record is the account of the class that bought it."""
    setup = AccountSetup(Provider())

    assert [ObjectKey("", VULTR.name)] == setup.poller.of_request(None, a_record(1, an_attempt(1)))
    assert setup.poller.of_request(None, a_record(2, an_attempt(2, account="vultr-unknown"))) == []
    assert setup.poller.of_class(a_class(), a_class(version=2)) == []
