"""The whole operator and simulated providers: what a class says of its keys and offers, and how quietly."""

import asyncio
from datetime import timedelta

import pytest

from tests.sim.an_operator import (
    ALONE,
    NAMESPACE_NAME,
    a_class,
    a_pool,
    a_secret,
    create,
    furnish,
    open_market,
    operator_main,
    settle,
    writes,
)
from tgp.adapters.clouds.registry import facts_of
from tgp.api.resource import EVENT, GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, SECRET
from tgp.core.model.offer import CONTAINER_ONLY
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.http_factory import origin_of
from tgp.sim.world import World

KEY = "RUNPOD_API_KEY"


def condition(world: World, name: str, kind: str) -> tuple[str, str, str]:
    """(status, reason, message)."""
    found = world.api.local_api.get(GPU_NODE_CLASS, "", name)
    rows = (found or {}).get("status", {}).get("conditions", [])
    return next(((row["status"], row["reason"], row["message"]) for row in rows if row["type"] == kind), ("", "", ""))


def status(world: World, name: str) -> dict:
    found = world.api.local_api.get(GPU_NODE_CLASS, "", name)
    return (found or {}).get("status", {})


def change_key(world: World, value: str) -> None:
    world.api.local_api.merge_patch(SECRET, NAMESPACE_NAME, "tgp-operator-secret", {"stringData": {KEY: value}})


def test_a_class_shows_what_it_could_buy_and_is_quiet_about_it():
    """Prices stand still: after the first look nothing is written for an hour."""
    with World("shop") as world:
        furnish(world)
        open_market(world, "simulated")
        a_class(world, "trial", instanceRequirements={"gpuTypes": ["RTX4090", "H100"], "spotAllowed": True})
        world.process("operator", operator_main(ALONE))
        settle(world)
        seen = status(world, "trial")

        assert condition(world, "trial", "OffersFresh")[:2] == ("True", "Fresh")
        assert seen["providers"]["simulated"]["bootMode"] == "native"
        assert seen["providers"]["simulated"]["offers"] > 3
        assert {row["gpuType"] for row in seen["availableGPUs"]} == {"RTX4090", "H100-SXM"}
        assert {row["spot"] for row in seen["availableGPUs"]} == {True, False}

        before = len(writes(world))
        world.run(hours=1)
        assert len(writes(world)) == before


def test_moving_prices_are_written_every_five_minutes_at_most():
    with World("moving") as world:
        furnish(world)
        open_market(world, "simulated", moves=True)
        a_class(world, "trial")
        world.process("operator", operator_main(ALONE))
        settle(world)
        before = len([line for line in writes(world) if "gpunodeclasses" in line])
        world.run(hours=1)
        written = len([line for line in writes(world) if "gpunodeclasses" in line]) - before

        assert 1 <= written <= 12


def test_a_refused_key_is_named_and_asked_about_seldom_and_a_new_one_is_tried_within_a_minute():
    with World("refused") as world:
        furnish(world)
        runpod = open_market(world, "runpod")
        a_class(world, "rented", providers=[{"name": "runpod"}])
        a_secret(world, "tgp-operator-secret", RUNPOD_API_KEY="a-wrong-key")
        world.process("operator", operator_main(ALONE))
        settle(world)
        found, reason, message = condition(world, "rented", "CredentialsValid")

        assert (found, reason) == ("False", "KeyRefused")
        assert "runpod" in message
        assert f"key {KEY} of Secret tgp-operator-secret" in message
        assert condition(world, "rented", "Ready")[:2] == ("False", "KeyRefused"), "no provider is left to buy from"
        asked = sum(runpod.calls.values())
        world.run(hours=1)
        assert sum(runpod.calls.values()) - asked <= 8, "a refused key must not cause many calls"

        change_key(world, runpod.key)
        world.until(asyncio.sleep(60))
        assert condition(world, "rented", "CredentialsValid")[:2] == ("True", "Accepted")
        assert condition(world, "rented", "Ready")[:2] == ("False", "CannotBuy"), "a good key for containers alone"


def test_spot_that_no_provider_sells_is_reported_and_so_is_what_cannot_boot_talos():
    with World("inert") as world:
        furnish(world)
        runpod = open_market(world, "runpod")
        a_class(world, "rented", providers=[{"name": "runpod"}], instanceRequirements={"spotAllowed": True})
        a_secret(world, "tgp-operator-secret", RUNPOD_API_KEY=runpod.key)
        world.process("operator", operator_main(ALONE))
        settle(world)

        assert condition(world, "rented", "SpotUnavailable")[:2] == ("True", "NoSpotProvider")
        found, reason, message = condition(world, "rented", "OffersFresh")
        assert (found, reason) == ("True", "NothingFits")
        assert "cannot boot Talos" in message


def test_a_class_that_can_buy_nothing_is_not_green_and_neither_is_what_waits_for_it():
    """One Warning, the reasons counted, what would help; a provider that could serve fixes it."""
    with World("cannot buy") as world:
        furnish(world)
        vast, vultr = open_market(world, "vast"), open_market(world, "vultr")
        a_class(world, "rented", providers=[{"name": "vast"}], instanceRequirements={"gpuTypes": ["L40S"]})
        a_pool(world, "pool", "rented")
        a_secret(world, "tgp-operator-secret", VAST_API_KEY=vast.key, VULTR_API_KEY=vultr.key)
        world.process("operator", operator_main(ALONE))
        settle(world)
        found, reason, message = condition(world, "rented", "CanBuy")

        assert (found, reason) == ("False", "CannotBuy")
        assert f" offers): {CONTAINER_ONLY}" in message
        assert message.endswith("To fix: add provider vultr: L40S from $1.67/h.")
        assert condition(world, "rented", "Ready") == ("False", "CannotBuy", message)
        pool = world.api.local_api.get(GPU_NODE_POOL, "default", "pool") or {}
        (ready,) = [row for row in pool["status"]["conditions"] if row["type"] == "Ready"]
        assert (ready["status"], ready["reason"]) == ("False", "NodeClassCannotBuy")
        assert message in ready["message"]
        told = [event for event in world.api.local_api.objects(EVENT) if event["reason"] == "CannotBuy"]
        assert {event["type"] for event in told} == {"Warning"}
        written = len([line for line in writes(world) if "gpunodeclasses" in line])
        world.run(hours=1)
        assert len([line for line in writes(world) if "gpunodeclasses" in line]) - written <= 12, "numbers move all day"

        both = {"spec": {"providers": [{"name": "vast"}, {"name": "vultr"}]}}
        world.api.local_api.merge_patch(GPU_NODE_CLASS, "", "rented", both)
        world.run(minutes=1)
        assert condition(world, "rented", "CanBuy")[:2] == ("True", "OffersFit")
        assert condition(world, "rented", "Ready")[:2] == ("True", "Valid")


def test_a_provider_that_counts_searches_is_asked_seldom_until_a_request_waits_for_it():
    with World("seldom") as world:
        furnish(world)
        vast, vultr = open_market(world, "vast"), open_market(world, "vultr")
        a_class(world, "rented", providers=[{"name": "vast"}, {"name": "vultr"}])
        a_secret(world, "tgp-operator-secret", VAST_API_KEY=vast.key, VULTR_API_KEY=vultr.key)
        world.process("operator", operator_main(ALONE))
        settle(world)
        asked = vast.calls[CloudVerb.OFFERS]
        world.run(hours=2)
        assert 4 <= vast.calls[CloudVerb.OFFERS] - asked <= 8, "every twenty minutes"

        asked = vast.calls[CloudVerb.OFFERS]
        while vast.calls[CloudVerb.OFFERS] == asked:
            world.run(minutes=1)
        world.run(minutes=10)
        asked = vast.calls[CloudVerb.OFFERS]
        create(world, GPU_REQUEST, "train", "default", spec={"gpuType": "H200", "nodeClassRef": {"name": "rented"}})
        world.run(seconds=5)
        # A check of the key, where one is due, is a small search, too.
        assert 1 <= vast.calls[CloudVerb.OFFERS] - asked <= 2, "at once: it was asked long ago"
        world.run(hours=1)
        assert vast.calls[CloudVerb.OFFERS] - asked >= 20


def test_a_search_quota_that_is_used_up_is_said_as_such_and_hardly_asked_about():
    with World("quota") as world:
        furnish(world)
        vast = open_market(world, "vast")
        a_class(world, "rented", providers=[{"name": "vast"}])
        a_secret(world, "tgp-operator-secret", VAST_API_KEY=vast.key)
        world.process("operator", operator_main(ALONE))
        settle(world)
        vast.pace.searches_left = 0
        world.run(minutes=25)
        found, reason, message = condition(world, "rented", "OffersFresh")

        assert (found, reason) == ("False", "QuotaExhausted")
        assert "daily search quota is used up" in message
        asked = vast.calls[CloudVerb.OFFERS]
        world.run(hours=4)
        assert vast.calls[CloudVerb.OFFERS] - asked <= 10, "once an hour, and once to see what the key may do"


@pytest.mark.parametrize(
    "cloud_fault", [CloudFault.HTML, CloudFault.ERROR, CloudFault.EMPTY_BODY, CloudFault.GARBAGE, CloudFault.BUSY_TEXT]
)
def test_a_provider_that_errs_is_unknown_and_its_last_offers_are_served_on(cloud_fault):
    with World(f"errs-{cloud_fault}") as world:
        furnish(world)
        simulator = open_market(world, "simulated")
        a_class(world, "trial")
        world.process("operator", operator_main(ALONE))
        settle(world)
        known = status(world, "trial")["availableGPUs"]
        simulator.faults.aim(cloud_fault, CloudVerb.OFFERS, times=200)
        world.run(minutes=25)
        found, reason, message = condition(world, "trial", "OffersFresh")

        assert (found, reason) == ("False", "Stale")
        assert "Offers of simulated could not be read since" in message
        assert status(world, "trial")["availableGPUs"] == known
        assert status(world, "trial")["providers"]["simulated"]["error"]

        simulator.faults.calm()
        world.run(minutes=20)
        assert condition(world, "trial", "OffersFresh")[:2] == ("True", "Fresh")
        assert "error" not in status(world, "trial")["providers"]["simulated"]


def test_a_slow_provider_delays_no_other():
    with World("slow") as world:
        furnish(world)
        simulator = open_market(world, "simulated")

        async def never(_call):
            await asyncio.sleep(timedelta(days=1).total_seconds())

        world.mount(origin_of(facts_of("vultr").endpoint), never)
        a_class(world, "both", providers=[{"name": "simulated"}, {"name": "vultr"}])
        a_secret(world, "tgp-operator-secret", VULTR_API_KEY="some-key-or-other")
        world.process("operator", operator_main(ALONE))
        settle(world)
        asked = simulator.calls[CloudVerb.OFFERS]
        world.run(hours=1)

        assert 25 <= simulator.calls[CloudVerb.OFFERS] - asked <= 36, "every two minutes, give or take a tenth"
        assert status(world, "both")["availableGPUs"]


def test_a_provider_that_a_class_no_longer_names_is_no_longer_asked():
    with World("gone") as world:
        furnish(world)
        simulator = open_market(world, "simulated")
        a_class(world, "trial")
        world.process("operator", operator_main(ALONE))
        settle(world)
        world.api.local_api.delete(GPU_NODE_CLASS, "", "trial")
        settle(world)
        priced = simulator.calls[CloudVerb.OFFERS]
        world.run(minutes=65)  # for an hour it is still looked at whether anything was left there
        assert simulator.calls[CloudVerb.OFFERS] == priced
        asked = sum(simulator.calls.values())
        world.run(hours=1)

        assert sum(simulator.calls.values()) == asked


def test_a_key_that_may_not_do_everything_is_told_apart_from_one_that_is_refused():
    """Prices are read on with it; what it lacks is said."""
    with World("weak") as world:
        furnish(world)
        simulator = open_market(world, "lambdalabs")
        settings = {"sshKeyName": "a-key-never-added"}
        a_class(world, "rented", providers=[{"name": "lambdalabs", "settings": settings}])
        a_secret(world, "tgp-operator-secret", LAMBDA_LABS_API_KEY=simulator.key)
        world.process("operator", operator_main(ALONE))
        settle(world)
        found, reason, message = condition(world, "rented", "CredentialsValid")

        assert (found, reason) == ("False", "KeyTooWeak")
        assert "a-key-never-added" in message
        asked = simulator.calls[CloudVerb.OFFERS]
        world.run(minutes=30)
        assert simulator.calls[CloudVerb.OFFERS] - asked >= 12


def test_used_up_credit_is_said_as_such():
    with World("used up") as world:
        furnish(world)
        vast = open_market(world, "vast")
        for tenant in vast.fleet.accounts:
            tenant.balance_microusd = 0
        a_class(world, "rented", providers=[{"name": "vast"}])
        a_secret(world, "tgp-operator-secret", VAST_API_KEY=vast.key)
        world.process("operator", operator_main(ALONE))
        settle(world)
        found, reason, message = condition(world, "rented", "CredentialsValid")

        assert (found, reason) == ("True", "AccountExhausted")
        assert "credit is used up" in message
