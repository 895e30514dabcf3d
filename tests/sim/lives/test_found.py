"""Lives that once went wrong, each with what was lost by it."""

import asyncio
from datetime import datetime, timedelta

import pytest

from tests.sim.an_operator import NAMESPACE_NAME, a_class, operator_main
from tests.sim.lives.an_estate import lives
from tgp.api.resource import NAMESPACE
from tgp.controllers.till_desk import TillDesk
from tgp.sim.checkers.objects import Quiet
from tgp.sim.clouds.mishaps import Mishap, Verb


def begin(stage, **spec):
    a_class(stage.world, "rented", **spec)
    operator = stage.world.process("operator", operator_main())
    stage.world.run(minutes=2)
    return operator


def test_a_machine_that_came_up_while_the_operator_was_away_is_kept():
    """Its deadlines passed with nobody looking; it was in time, and pods run there."""
    with lives("away") as stage:
        operator = begin(stage)
        stage.wants(idleTimeout="Never")
        stage.works(run_for="10h")
        stage.until(lambda: stage.living() != [] and stage.attempts()[-1].get("launchedAt"), minutes=15, step=1.0)
        operator.crash(restart_after=3 * 3600.0)
        stage.world.run(hours=3)
        assert stage.running_pods() != []
        stage.until(lambda: stage.phase() == "Ready", minutes=15)

        assert len(stage.attempts()) == 1
        assert stage.running_pods() != []


def test_a_request_that_waits_survives_a_restart_where_some_provider_has_no_key():
    """Nothing was ever ordered for it: a key that nobody has must neither keep it from buying nor from going."""
    with lives("keyless neighbour") as stage:
        operator = begin(stage, providers=[{"name": "simulated"}, {"name": "vultr"}])
        stage.wants("never", maxHourlyPrice="0.001")
        stage.wants("later", maxHourlyPrice="0.01")
        stage.world.run(minutes=5)
        operator.crash()
        stage.world.run(minutes=10)
        assert stage.condition("Launched", "never")[1] == "NoOfferFits", stage.told()

        stage.drops("never")
        stage.until(lambda: stage.request("never") is None, minutes=15)
        for stand in stage.shop.fleet.stands.values():
            if stand.shelf.gpu == "RTX4090":
                stage.shop.fleet.reprice(stand.shelf.id, 9_000)
        stage.until(lambda: stage.phase("later") == "Ready", minutes=30)


def test_pods_leave_a_machine_that_became_too_dear():
    """It was of use, so it is drained as any other: nobody's work is cut off for a price."""
    with lives("dearer in use") as stage:
        begin(stage)
        stage.wants(maxHourlyPrice="0.60", idleTimeout="Never")
        stage.works(run_for="10h")
        stage.until(lambda: stage.phase() == "Ready" and stage.running_pods() != [], minutes=15)
        (machine,) = stage.living()
        machine.rate_microusd = 5_000_000
        stage.until(lambda: stage.phase() == "Terminating", minutes=15, step=1.0)

        assert stage.condition("Terminating")[1] == "TooDear"
        assert stage.condition("Drained")[0] != ""


@pytest.mark.parametrize("who", ["an administrator", "its owner"])
def test_an_order_is_not_sent_once_somebody_said_stop(who, monkeypatch):
    """Preparing an order takes a call to the provider: a stop that is seen by then counts."""

    async def slowly(desk, attempt, papers):
        prepared = await prepare(desk, attempt, papers)
        if who == "its owner":
            stage.drops()
        else:
            change = {"metadata": {"annotations": {"tgp.io/hold": "stop"}}}
            stage.world.api.backstage.merge_patch(NAMESPACE, "", NAMESPACE_NAME, change)
        await asyncio.sleep(2)
        return prepared

    prepare = TillDesk.prepare
    monkeypatch.setattr(TillDesk, "prepare", slowly)
    with lives(f"stopped by {who}") as stage:
        begin(stage)
        stage.wants()
        stage.world.run(minutes=10)

        assert stage.shop.calls[Verb.LAUNCH] == 0
        assert who == "its owner" or stage.condition("Launched")[1] == "Held"
        assert who == "an administrator" or stage.request() is None


def test_a_machine_in_use_whose_provider_talks_on_costs_no_write():
    """A status text that changes for ever is progress only while a start goes on."""
    with lives("talkative") as stage:
        begin(stage)
        stage.wants(idleTimeout="Never")
        stage.until(lambda: stage.phase() == "Ready", minutes=15)
        stage.world.run(minutes=15)
        (machine,) = stage.living()
        with Quiet(stage.world, stage.witness):
            for minute in range(20):
                machine.why = f"up for {minute} min"
                stage.world.run(minutes=2)


def test_a_machine_found_again_after_long_costs_from_its_beginning():
    """Its order's answer was lost with the process: the bill does not wait until somebody comes back."""
    with lives("adopted late") as stage:
        operator = begin(stage)
        stage.shop.mishaps.aim(Mishap.HANG_UP_AFTER, Verb.LAUNCH)
        stage.wants(idleTimeout="Never")
        stage.until(lambda: stage.living() != [], minutes=15, step=0.25)
        operator.crash(restart_after=3600.0)
        stage.world.run(hours=1)
        stage.until(lambda: stage.attempts()[-1].get("launchedAt"), minutes=15)
        (machine,) = stage.living()
        (attempt,) = stage.attempts()

        launched = datetime.fromisoformat(attempt["launchedAt"])
        assert abs(launched - machine.created_at) < timedelta(minutes=1)
