"""The collector: what nobody owns is given back, slowly, and never on the word of one list or of an old view."""

import asyncio

import pytest

from tests.core.controllers.tills import (
    LAG,
    VULTR,
    Provider,
    Scene,
    a_machine,
    a_record,
    a_token,
    an_attempt,
)
from tgp.controllers import collector
from tgp.controllers.collector import MOST_ENDS, RIPE_AFTER
from tgp.core.model.cloud_errors import CloudBusy, OutcomeUnknown
from tgp.core.model.facts import OrphanFound, OrphanReturned, SweepHalted
from tgp.core.model.secret import Secret
from tgp.ports.cluster import ClusterBusy


async def test_a_machine_without_a_request_is_given_back():
    """Its finalizer was stripped by force; the bill is the truth."""
    scene = Scene(Provider(a_machine(1)))
    await scene.turn()
    await scene.turn(after=RIPE_AFTER)

    assert scene.provider.ended == ["i-1-1"]
    assert [OrphanFound(VULTR.name, "i-1-1", a_token(1), "no request has its uid")] == scene.facts(OrphanFound)


async def test_an_orphan_is_returned_when_it_is_shown_absent_twice_a_lag_apart():
    scene = Scene(Provider(a_machine(1)))
    await scene.turns(2, every=RIPE_AFTER)
    await scene.turn(after=15)
    assert scene.facts(OrphanReturned) == []
    assert [orphan.instance.id for orphan in scene.rounds.orphans_of(VULTR.name)] == ["i-1-1"]

    await scene.turn(after=LAG.total_seconds())
    assert [OrphanReturned(VULTR.name, "i-1-1", a_token(1))] == scene.facts(OrphanReturned)
    assert scene.rounds.orphans_of(VULTR.name) == ()


async def test_one_list_is_not_enough_and_two_in_a_hurry_are_not_either():
    scene = Scene(Provider(a_machine(1)))
    await scene.turn()
    await scene.turn(after=RIPE_AFTER - 1)

    assert scene.provider.ended == []


async def test_the_next_look_comes_when_the_orphan_is_ripe():
    scene = Scene(Provider(a_machine(1)))

    assert await scene.turn() == pytest.approx(RIPE_AFTER, abs=0.2)


async def test_the_requests_are_listed_again_after_the_provider_was():
    """The reservation was written, and the view had not heard of it yet."""
    scene = Scene(Provider(a_machine(1)))
    await scene.turn()
    scene.late = [a_record(1, an_attempt(1))]
    await scene.turn(after=RIPE_AFTER)

    assert scene.refreshes == 1
    assert scene.provider.ended == []
    assert scene.journal == []
    assert scene.rounds.orphans_of(VULTR.name) == ()


@pytest.mark.parametrize("outcome", [ClusterBusy("503"), None])
async def test_without_a_fresh_view_of_requests_nothing_is_ended(outcome, monkeypatch):
    """The API server refuses, or does not answer at all."""
    scene = Scene(Provider(a_machine(1)))
    monkeypatch.setattr(collector, "REFRESHED_WITHIN", 0.0)

    async def refresh():
        if outcome is not None:
            raise outcome
        await asyncio.Event().wait()

    scene.refresh = refresh
    scene.__post_init__()
    await scene.turns(3, every=RIPE_AFTER)

    assert scene.provider.ended == []


async def test_owned_machines_and_strangers_stay():
    scene = Scene(Provider(a_machine(1), a_machine(2, token="pet"), a_machine(3, token=a_token(3, 1, "9876543210"))))
    scene.hold(a_record(1, an_attempt(1)))
    await scene.turns(5, every=RIPE_AFTER)

    assert scene.provider.ended == []


async def test_an_older_attempt_and_a_twin_are_given_back():
    scene = Scene(Provider(a_machine(1, 1), a_machine(1, 2), a_machine(1, 2, id="twin")))
    record = a_record(1, an_attempt(1, 1, endedAt="2026-01-05T10:00:00Z"), an_attempt(1, 2, instanceId="i-1-2"))
    scene.hold(record)
    await scene.turns(2, every=RIPE_AFTER)

    assert scene.provider.ended == ["i-1-1", "twin"]


async def test_a_failed_list_between_two_good_ones_ends_nothing_by_itself():
    scene = Scene(Provider(a_machine(1)))
    await scene.turn()
    scene.provider.error = CloudBusy("busy")
    await scene.turns(3, every=300)

    assert scene.provider.ended == []


async def test_a_list_that_lied_ends_nothing():
    scene = Scene(Provider(a_machine(1), a_machine(2)))
    scene.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    scene.presence(1)
    await scene.turn(after=1)
    scene.provider.hidden = {"i-1-1"}
    await scene.turns(5, every=RIPE_AFTER)

    assert scene.provider.ended == []


async def test_too_many_at_once_stop_the_sweep_and_it_shows():
    """Rather somebody's view is wrong than that all of them are nobody's."""
    scene = Scene(Provider(*(a_machine(number) for number in range(1, 6))))
    scene.hold(a_record(1, an_attempt(1)), a_record(2, an_attempt(2)))
    await scene.turns(5, every=RIPE_AFTER)

    assert scene.provider.ended == []
    assert [SweepHalted(VULTR.name, 3, 5)] == scene.facts(SweepHalted)
    assert "3 of 5 machines" in scene.rounds.halted[VULTR.name]
    assert scene.announced.count(VULTR.name) == 2  # the first look, and the halt


async def test_a_halted_sweep_goes_on_once_few_are_left():
    """Somebody looked, and ended or claimed them."""
    scene = Scene(Provider(*(a_machine(number) for number in range(1, 6))))
    await scene.turns(3, every=RIPE_AFTER)
    scene.hold(*(a_record(number, an_attempt(number)) for number in (1, 2, 3, 4)))
    await scene.turns(1, every=RIPE_AFTER)

    assert scene.provider.ended == ["i-5-1"]
    assert scene.rounds.halted == {}


async def test_an_end_is_asked_for_again_every_round_until_it_comes():
    scene = Scene(Provider(a_machine(1)))
    scene.provider.unending = OutcomeUnknown("vultr answered 500")
    await scene.turn()
    assert await scene.turn(after=RIPE_AFTER) == 15
    await scene.turns(2)

    assert scene.provider.ended == ["i-1-1"] * 3
    (orphan,) = scene.rounds.orphans_of(VULTR.name)
    assert orphan.why == "no request has its uid; asked to end 3 times: vultr answered 500"
    assert len(scene.facts(OrphanFound)) == 1


async def test_only_so_many_begin_to_end_in_a_minute():
    owned, lost = range(1, 61), range(61, 73)
    scene = Scene(Provider(*(a_machine(number) for number in (*owned, *lost))))
    scene.hold(*(a_record(number, an_attempt(number)) for number in owned))
    await scene.turns(2, every=RIPE_AFTER)
    assert len(scene.provider.ended) == MOST_ENDS

    await scene.turns(2, every=RIPE_AFTER)
    assert len(scene.provider.ended) == len(lost)


async def test_a_replica_that_only_looks_ends_nothing_and_says_what_it_sees():
    scene = Scene(Provider(a_machine(1)), observing=True)
    await scene.turns(4, every=RIPE_AFTER)

    assert scene.provider.ended == []
    assert len(scene.facts(OrphanFound)) == 1


async def test_a_machine_that_is_claimed_while_it_was_suspected_stays():
    scene = Scene(Provider(a_machine(1)))
    await scene.turn()
    scene.hold(a_record(1, an_attempt(1)))
    await scene.turns(3, every=RIPE_AFTER)

    assert scene.provider.ended == []
    assert scene.rounds.orphans_of(VULTR.name) == ()


async def test_an_orphan_that_is_still_listed_or_listed_again_is_not_returned():
    scene = Scene(Provider(a_machine(1)))
    await scene.turns(2, every=RIPE_AFTER)
    await scene.turn(after=15)
    scene.provider.machines["i-1-1"] = a_machine(1)  # lists of two minds
    await scene.turn(after=LAG.total_seconds())
    await scene.turn(after=LAG.total_seconds() - 1)
    assert scene.facts(OrphanReturned) == []

    await scene.turn(after=LAG.total_seconds())
    assert len(scene.facts(OrphanReturned)) == 1


async def test_a_key_of_another_account_returns_nothing():
    scene = Scene(Provider(a_machine(1)))
    scene.provider.unending = OutcomeUnknown("vultr answered 500")
    await scene.turns(2, every=RIPE_AFTER)
    scene.provider.account, scene.provider.machines = "other", {}
    scene.vault.secrets["keys"] = {"VULTR": Secret("k2")}
    await scene.turns(5, every=LAG.total_seconds())

    assert scene.facts(OrphanReturned) == []
    assert [orphan.instance.id for orphan in scene.rounds.orphans_of(VULTR.name)] == ["i-1-1"]


async def test_a_replica_that_only_looks_claims_no_return():
    scene = Scene(Provider(a_machine(1)), observing=True)
    await scene.turns(3, every=RIPE_AFTER)
    scene.provider.machines.clear()
    await scene.turns(3, every=LAG.total_seconds())

    assert scene.facts(OrphanReturned) == []
    assert scene.rounds.orphans_of(VULTR.name) == ()
