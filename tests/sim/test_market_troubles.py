"""What could wear the market down: Secrets that come late, clocks that jump, classes that come and go, odd answers."""

import asyncio
import json
import logging
from datetime import timedelta
from ipaddress import ip_address

import pytest

from tests.sim.an_operator import (
    ALONE,
    NAMESPACE_NAME,
    a_class,
    a_secret,
    create,
    furnish,
    open_market,
    operator_main,
    settle,
    writes,
)
from tests.sim.test_leadership_status import FORBIDDEN, Replica
from tests.sim.test_market import condition, status
from tgp.adapters.clouds.registry import facts_of
from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, GPU_NODE_CLASS, NAMESPACE, SECRET
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.http_factory import origin_of
from tgp.sim.world import KUBERNETES, World


def class_writes(world: World) -> int:
    return len([line for line in writes(world) if "gpunodeclasses" in line])


def test_a_secret_that_comes_hours_later_is_noticed_all_the_same():
    """A class that cannot buy anything is not polled; its Secret is watched nevertheless."""
    with World("late") as world:
        furnish(world)
        runpod = open_market(world, "runpod")
        a_class(world, "rented", providers=[{"name": "runpod"}])
        world.process("operator", operator_main(ALONE))
        world.run(hours=3)
        assert condition(world, "rented", "CredentialsValid")[:2] == ("False", "CredentialsMissing")

        a_secret(world, "tgp-operator-secret", RUNPOD_API_KEY=runpod.key)
        world.run(seconds=90)
        assert condition(world, "rented", "CredentialsValid")[:2] == ("True", "Accepted")


def test_a_provider_that_only_a_newer_version_knows_is_ignored():
    """An older replica during an upgrade: it leaves the new provider alone and goes on with the others."""
    with World("newer") as world:
        for crd in crds(legacy=True):
            newer = json.loads(json.dumps(crd).replace('"simulated"', '"simulated", "coreweave"'))
            world.api.local_api.create(CUSTOM_RESOURCE_DEFINITION, newer)
        create(world, NAMESPACE, NAMESPACE_NAME)
        open_market(world, "simulated")
        a_class(world, "mixed", providers=[{"name": "simulated"}, {"name": "coreweave"}])
        world.process("operator", operator_main(ALONE))
        settle(world)

        assert status(world, "mixed")["availableGPUs"]
        assert condition(world, "mixed", "OffersFresh")[:2] == ("True", "Fresh")
        assert "coreweave" not in status(world, "mixed")["providers"], "nothing is known of it"


def test_a_foreign_write_into_a_status_does_not_keep_the_class_from_being_judged():
    with World("legacy") as world:
        furnish(world)
        open_market(world, "simulated")
        a_class(world, "trial")
        world.process("operator", operator_main(ALONE))
        settle(world)
        left = {
            "providers": {"simulated": {"lastPricingUpdate": None}},
            "availableGPUs": [{"gpuType": "H100-SXM", "provider": "simulated", "pricePerHour": "NaN"}],
        }
        world.api.local_api.merge_patch(GPU_NODE_CLASS, "", "trial", {"status": left}, "status")
        world.run(minutes=5)

        assert condition(world, "trial", "OffersFresh")[:2] == ("True", "Fresh")
        assert len(status(world, "trial")["availableGPUs"]) > 3


@pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(days=-1)], ids=str)
def test_prices_are_written_on_after_the_clock_jumped(jump):
    with World(f"jump-{jump}") as world:
        furnish(world)
        open_market(world, "simulated", moves=True)
        a_class(world, "trial")
        operator = world.process("operator", operator_main(ALONE))
        settle(world)
        operator.clock.jump(jump)
        world.run(minutes=5)
        before = class_writes(world)
        world.run(hours=2)

        assert 6 <= class_writes(world) - before <= 24
        assert condition(world, "trial", "OffersFresh")[:2] == ("True", "Fresh")


def test_a_refused_key_is_tried_again_within_the_quarter_hour_also_when_the_clock_was_set_back():
    with World("back") as world:
        furnish(world)
        runpod = open_market(world, "runpod")
        a_class(world, "rented", providers=[{"name": "runpod"}])
        a_secret(world, "tgp-operator-secret", RUNPOD_API_KEY="a-wrong-key")
        operator = world.process("operator", operator_main(ALONE))
        settle(world)
        operator.clock.jump(timedelta(days=-1))
        asked = sum(runpod.calls.values())
        world.run(minutes=61)

        assert 3 <= sum(runpod.calls.values()) - asked <= 8


def test_a_provider_that_fails_after_the_clock_was_set_back_grows_stale_all_the_same():
    with World("back-and-silent") as world:
        furnish(world)
        simulator = open_market(world, "simulated")
        a_class(world, "trial")
        operator = world.process("operator", operator_main(ALONE))
        settle(world)
        operator.clock.jump(timedelta(days=-1))
        simulator.faults.aim(CloudFault.HTML, CloudVerb.OFFERS, times=200)
        world.run(minutes=40)

        assert condition(world, "trial", "OffersFresh")[:2] == ("False", "Stale")


def test_a_hand_over_while_a_provider_hiccups_changes_nothing():
    """What the last leader knew stands until this one knows better: a provider that errs is unknown, not empty."""
    with World("hand-over") as world:
        furnish(world)
        simulator = open_market(world, "simulated")
        a_class(world, "trial")
        operator = world.process("operator", operator_main(ALONE))
        settle(world)
        before, known = class_writes(world), status(world, "trial")
        simulator.faults.aim(CloudFault.HTML, CloudVerb.OFFERS, times=2)
        operator.stop()
        operator.start()
        world.run(minutes=8)

        assert status(world, "trial")["availableGPUs"] == known["availableGPUs"]
        assert condition(world, "trial", "OffersFresh")[:2] == ("True", "Fresh")
        assert class_writes(world) == before


def test_a_provider_that_never_answers_a_new_leader_is_said_to_be_stale():
    with World("hand-over-silent") as world:
        furnish(world)
        simulator = open_market(world, "simulated")
        a_class(world, "trial")
        operator = world.process("operator", operator_main(ALONE))
        settle(world)
        known = status(world, "trial")["availableGPUs"]
        simulator.faults.aim(CloudFault.HTML, CloudVerb.OFFERS, times=500)
        operator.stop()
        operator.start()
        world.run(minutes=20)

        assert condition(world, "trial", "OffersFresh")[:2] == ("False", "Stale")
        assert status(world, "trial")["availableGPUs"] == known, "unknown is not empty"


def test_classes_that_come_and_go_do_not_make_a_provider_be_asked_more_often():
    with World("churn") as world:
        furnish(world)
        simulator = open_market(world, "simulated")
        a_class(world, "stays")
        world.process("operator", operator_main(ALONE))
        settle(world)
        asked = simulator.calls[CloudVerb.OFFERS]
        for number in range(30):
            a_class(world, f"passing-{number}")
            world.run(seconds=10)
            world.api.local_api.delete(GPU_NODE_CLASS, "", f"passing-{number}")
            world.run(seconds=10)

        assert simulator.calls[CloudVerb.OFFERS] - asked <= 7, "ten minutes at two minutes each, and a little more"


@pytest.mark.parametrize("cloud_fault", [CloudFault.HTML, CloudFault.GARBAGE, CloudFault.ERROR])
def test_a_check_that_never_works_does_not_keep_the_offers_away(cloud_fault):
    with World(f"check-{cloud_fault}") as world:
        furnish(world)
        vultr = open_market(world, "vultr")
        vultr.faults.aim(cloud_fault, CloudVerb.ACCOUNT, times=500)
        a_class(world, "rented", providers=[{"name": "vultr"}])
        a_secret(world, "tgp-operator-secret", VULTR_API_KEY=vultr.key)
        world.process("operator", operator_main(ALONE))
        settle(world)

        assert status(world, "rented")["availableGPUs"]
        assert condition(world, "rented", "CredentialsValid")[0] == "Unknown"


def test_answers_that_alternate_and_errors_that_never_repeat_do_not_become_a_flood_of_writes():
    with World("moody") as world:
        furnish(world)
        simulator = open_market(world, "simulated")
        turns = 0

        async def moody(call: Call) -> Reply:
            nonlocal turns
            turns += 1
            if turns % 2 and "/offers" in call.path:
                return Reply(
                    500, f"trace \x1b[31m {turns} \x00 {'x' * 100_000}".encode(), (("Content-Type", "text/plain"),)
                )
            return await simulator.handle(call)

        world.mount(origin_of(facts_of("simulated").endpoint), moody)
        a_class(world, "trial")
        world.process("operator", operator_main(ALONE))
        settle(world)
        before = len(writes(world))
        world.run(hours=6)

        assert len(writes(world)) - before <= 6
        assert "\x1b" not in json.dumps(status(world, "trial"))


def test_a_secret_that_may_not_be_read_is_reported_and_stops_no_other_class():
    """A role that names its Secrets one by one forgot one: a condition for the administrator, not silence."""
    with World("forbidden") as world:
        furnish(world)
        open_market(world, "simulated")

        async def strict(call: Call):
            return Reply(403, FORBIDDEN) if call.path.endswith("/secrets/other") else await world.api.handle(call)

        world.mount(KUBERNETES, strict)
        a_class(
            world,
            "both",
            providers=[{"name": "simulated"}, {"name": "runpod", "credentialsRef": {"name": "other", "key": "k"}}],
        )
        world.process("operator", operator_main(ALONE))
        settle(world)

        found, _, message = condition(world, "both", "CredentialsValid")
        assert found == "False"
        assert "other" in message
        assert status(world, "both")["availableGPUs"]


def test_a_source_that_no_class_uses_any_more_leaves_nothing_behind():
    with World("leftovers") as world:
        furnish(world)
        replica = Replica(world, "one", ALONE)
        for number in range(20):
            ref = {"name": f"s-{number}", "key": "k"}
            a_secret(world, f"s-{number}", k=f"some-key-{number}")
            a_class(world, f"passing-{number}", providers=[{"name": "runpod", "credentialsRef": ref}])
            world.run(seconds=10)
            world.api.local_api.delete(GPU_NODE_CLASS, "", f"passing-{number}")
            world.run(seconds=10)
        world.run(minutes=2)  # a turn may be under way

        assert replica.operator is not None
        assert len(replica.operator.stores.sources.store) == 0
        assert replica.operator.stores.market.source_statuses == {}
        assert replica.operator.stores.market.book.sources == ()
        assert len(replica.operator.deps.secrets.changes.store) == 20
        world.run(minutes=105)  # for an hour they are still looked at whether anything was left there
        assert len(replica.operator.deps.secrets.changes.store) == 0, "a Secret that is not read is dropped completely"


def test_a_key_that_is_accepted_and_whose_listing_is_refused_is_told_once(caplog):
    """A check that passes and a listing that is refused, hour after hour: one refusal, not a rhythm."""
    caplog.set_level(logging.INFO)
    with World("half-hearted") as world:
        furnish(world)
        lambdalabs = open_market(world, "lambdalabs")

        async def half(call: Call) -> Reply:
            verb = lambdalabs.verb_of(call)
            return lambdalabs.stranger(call) if verb is CloudVerb.OFFERS else await lambdalabs.handle(call)

        world.mount(origin_of(facts_of("lambdalabs").endpoint), half)
        a_class(world, "rented", providers=[{"name": "lambdalabs"}])
        a_secret(world, "tgp-operator-secret", LAMBDA_LABS_API_KEY=lambdalabs.key)
        world.process("operator", operator_main(ALONE))
        settle(world)
        assert condition(world, "rented", "CredentialsValid")[:2] == ("False", "KeyRefused")
        before = len(writes(world))
        world.run(hours=3)

        assert len(writes(world)) == before
        told = [line.getMessage() for line in caplog.records]
        assert (told.count("KeyWasRefused"), told.count("KeyAccepted")) == (1, 1)


def test_a_secret_that_goes_and_comes_while_a_provider_is_slow_ends_with_the_truth():
    with World("in-between") as world:
        furnish(world)
        runpod = open_market(world, "runpod")

        async def slow(call: Call):
            await asyncio.sleep(20)
            return await runpod.handle(call)

        world.mount(origin_of(facts_of("runpod").endpoint), slow)
        a_class(world, "rented", providers=[{"name": "runpod"}])
        a_secret(world, "tgp-operator-secret", RUNPOD_API_KEY=runpod.key)
        world.process("operator", operator_main(ALONE))
        for pause in (5, 13, 31, 47, 62):
            world.run(seconds=pause)
            world.api.local_api.delete(SECRET, NAMESPACE_NAME, "tgp-operator-secret")
            world.run(seconds=pause)
            a_secret(world, "tgp-operator-secret", RUNPOD_API_KEY="wrong" if pause == 31 else runpod.key)
        world.run(minutes=3)
        assert condition(world, "rented", "CredentialsValid")[:2] == ("True", "Accepted")

        world.api.local_api.delete(SECRET, NAMESPACE_NAME, "tgp-operator-secret")
        world.run(minutes=3)
        assert condition(world, "rented", "CredentialsValid")[:2] == ("False", "CredentialsMissing")
        assert "offers" not in status(world, "rented")["providers"]["runpod"]


def test_a_key_that_is_there_but_empty_is_a_key_that_is_missing():
    with World("empty") as world:
        furnish(world)
        runpod = open_market(world, "runpod")
        a_class(world, "rented", providers=[{"name": "runpod"}])
        a_secret(world, "tgp-operator-secret", RUNPOD_API_KEY="  \n", OTHER="x")
        world.process("operator", operator_main(ALONE))
        settle(world)

        assert condition(world, "rented", "CredentialsValid")[:2] == ("False", "CredentialsMissing")
        assert sum(runpod.calls.values()) == 0, "no provider was called without a key"


def test_two_classes_share_a_source_unless_their_settings_differ():
    with World("shared") as world:
        furnish(world)
        vast = open_market(world, "vast")
        a_secret(world, "tgp-operator-secret", VAST_API_KEY=vast.key)
        replica = Replica(world, "one", ALONE)
        a_class(world, "one", providers=[{"name": "vast"}])
        a_class(world, "two", providers=[{"name": "vast.ai", "priority": 3}])
        a_class(world, "other", providers=[{"name": "vast", "settings": {"bidMargin": 2}}])
        settle(world)

        assert replica.operator is not None
        sources = [state.source for state in replica.operator.stores.market.book.sources]
        assert len(sources) == 2, sources
        world.api.local_api.delete(GPU_NODE_CLASS, "", "one")
        world.run(minutes=5)
        assert [state.source for state in replica.operator.stores.market.book.sources] == sources
        assert "vast.ai" in status(world, "two")["providers"]


def test_a_provider_that_is_switched_off_and_on_is_forgotten_and_asked_again():
    with World("switch") as world:
        furnish(world)
        open_market(world, "simulated")
        vultr = open_market(world, "vultr")
        a_secret(world, "tgp-operator-secret", VULTR_API_KEY=vultr.key)

        def switch(*, on: bool) -> None:
            spec = {"providers": [{"name": "simulated"}, {"name": "vultr", "enabled": on}]}
            world.api.local_api.merge_patch(GPU_NODE_CLASS, "", "both", {"spec": spec})

        a_class(world, "both", providers=[{"name": "simulated"}, {"name": "vultr"}])
        world.process("operator", operator_main(ALONE))
        settle(world)
        source_statuses = {row["provider"] for row in status(world, "both")["availableGPUs"]}
        switch(on=False)
        world.run(seconds=30)
        assert {row["provider"] for row in status(world, "both")["availableGPUs"]} == {"simulated"}
        assert set(status(world, "both")["providers"]) == {"simulated"}
        switch(on=True)
        world.run(seconds=30)
        assert (
            source_statuses
            == {row["provider"] for row in status(world, "both")["availableGPUs"]}
            == {"simulated", "vultr"}
        )


def test_one_machine_that_may_not_be_switched_does_not_make_the_others_grow_old():
    """A lack is told; what else can be had there is asked about as often as ever."""
    with World("one-of-two") as world:
        furnish(world)
        world.resolver.point("power.home.example", ip_address("10.1.2.3"))
        machines = [
            {"name": name, "gpuCount": 1, "gpuType": "RTX3090", "scaleUpEndpoint": f"http://{host}/on"}
            | {"scaleDownEndpoint": f"http://{host}/off"}
            for name, host in (("good", "power.home.example"), ("bad", "metadata.home.example"))
        ]
        world.resolver.point("metadata.home.example", ip_address("169.254.169.254"))
        a_class(world, "owned", providers=[{"name": "webhook", "settings": {"machines": machines}}])
        replica = Replica(world, "one", ALONE)
        world.run(minutes=31)

        assert replica.operator is not None
        (state,) = replica.operator.stores.market.book.sources
        age = state.age(world.clock.now())
        assert age is not None
        assert age <= facts_of("webhook").refresh_every * 1.2
        (source_status,) = replica.operator.stores.market.source_statuses.values()
        assert "bad" in source_status.key.why
        assert "169.254" in source_status.key.why, "it says what is wrong with it"
