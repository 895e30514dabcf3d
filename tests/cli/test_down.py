"""`tgp down`: everything goes, the providers themselves say so, and nothing less is called proof."""

import json

from tests.cli.money_world import CONTEXT, Town
from tests.sim.an_operator import a_class, a_pool
from tgp.api.resource import GPU_REQUEST
from tgp.sim.clouds.mishaps import Mishap, Verb


def down(town: Town, *words: str) -> dict:
    result = town.tgp("down", "--yes", "-o", "json", *words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    document = json.loads(result.stdout)
    assert result.exit_code == document["exitCode"]
    return document


def test_the_operator_gives_everything_back_and_the_providers_prove_it(town):
    town.request("one")
    town.request("two")
    town.start_operator()
    document = down(town)

    assert document["proven"]
    assert town.alive() == []
    assert town.found("one") is None
    assert document["left"] == []
    assert {machine["request"] for machine in document["bill"]} == {"default/one", "default/two"}
    assert document["billUsd"] > 0
    assert town.hold_text().startswith("tgp down; since"), "nothing is bought meanwhile, nor afterwards"


def test_the_clusters_name_must_be_typed(town):
    town.request()
    town.start_operator()

    assert town.tgp("down", typed="yes\n").exit_code == 2
    assert town.tgp("down").exit_code == 2
    assert len(town.alive()) == 1
    assert town.hold_text() is None
    result = town.tgp("down", typed=f"{CONTEXT}\n")
    assert result.exit_code == 0, result.output
    assert "Everything is given back" in result.output
    assert "tgp release" in result.output


def test_without_an_operator_machines_are_ended_from_here_after_another_yes(town):
    town.request()
    began = town.world.loop.time()
    refused = town.tgp("down", typed=f"{CONTEXT}\nn\n")

    assert refused.exit_code == 1
    assert "the operator did not give everything back in time" in refused.output
    assert "an hour" in refused.output
    assert town.world.loop.time() - began > 600
    assert len(town.alive()) == 1

    assert town.tgp("down", typed=f"{CONTEXT}\ny\n").exit_code == 0
    assert town.alive() == []


def test_directly_nobody_waits_for_the_operator(town):
    town.request()
    town.orphan()
    began = town.world.loop.time()
    document = down(town, "--direct")

    assert document["proven"]
    assert town.alive() == []
    assert town.world.loop.time() - began < 300
    assert document["requests"] == ["default/train"], "the operator's finalizer is the operator's"


def test_an_end_that_is_ignored_is_no_proof_and_says_what_is_left_and_costs(town):
    town.request()
    town.simulated.mishaps.aim(Mishap.DELETE_IGNORED, Verb.TERMINATE, 1000)
    document = down(town, "--direct")

    assert not document["proven"]
    assert document["left"][0]["request"] == "default/train"
    assert document["leftUsdPerHour"] > 0
    assert "Not proven" in document["message"]


def test_a_silent_provider_is_no_proof(town):
    town.simulated.mishaps.aim(Mishap.ERROR, Verb.LIST, 100_000)
    document = down(town)

    assert not document["proven"]
    assert [one["provider"] for one in document["unasked"]] == ["Simulated"]


def test_a_key_that_is_not_there_is_no_proof_and_is_not_waited_for(town):
    a_class(town.world, "keyless", providers=[{"name": "vultr"}])
    town.request()
    town.start_operator()
    began = town.world.loop.time()
    document = down(town)

    assert not document["proven"]
    assert document["left"] == []
    assert "a key is missing" in document["message"]
    assert "Unknown is not none" in document["message"]
    assert town.world.loop.time() - began < 300, "what can be asked has answered"


def test_a_provider_that_answers_again_in_time_is_believed_again(town):
    town.request()
    town.start_operator()
    town.simulated.mishaps.aim(Mishap.ERROR, Verb.LIST, 12)

    assert down(town)["proven"]


def test_what_would_buy_again_is_named_before_and_after(town):
    a_pool(town.world, "fixed", "box", replicas=2)
    town.request("kept", labels={"kustomize.toolkit.fluxcd.io/name": "apps"})
    town.start_operator()
    result = town.tgp("down", typed=f"{CONTEXT}\n")

    assert result.exit_code == 0, result.output
    before, _, after = result.output.partition("Everything is given back")
    for words in (before, after):
        assert "request/default/kept" in words
        assert "Flux would write it again" in words
        assert "pool/" not in words, "a pool writes nothing in this version"


def test_what_has_ended_stays_so_that_nobody_writes_it_anew(town):
    town.request("over", machine=False)
    town.world.api.backstage.merge_patch(GPU_REQUEST, "default", "over", {"status": {"phase": "Finished"}}, "status")

    assert down(town)["proven"]
    assert town.found("over") is not None


def test_a_request_that_is_written_meanwhile_goes_too(town):
    town.request()
    town.start_operator()
    town.world.loop.call_later(15, lambda: town.request("late", machine=False))

    assert down(town)["proven"]
    assert town.found("late") is None


def test_an_order_that_may_be_under_way_is_waited_for(town):
    """A reservation without a machine: no list proves anything before the order has settled."""
    town.request("ordering", machine=False)
    reserved = {
        "number": 1,
        "token": f"tgp-{town.cluster}-{town.found('ordering')['metadata']['uid'].replace('-', '')}-1",
        "reservedAt": town.world.clock.now().isoformat(),
        "offer": {"provider": "simulated", "instanceType": "x"},
    }
    town.world.api.backstage.merge_patch(
        GPU_REQUEST, "default", "ordering", {"metadata": {"finalizers": ["tgp.io/machine"]}}
    )
    town.world.api.backstage.merge_patch(
        GPU_REQUEST, "default", "ordering", {"status": {"attempts": [reserved]}}, "status"
    )
    began = town.world.loop.time()

    assert down(town)["proven"]
    assert town.world.loop.time() - began > 300


def test_where_nothing_is_left_nothing_is_said_to_be_lost(town):
    result = town.tgp("down", typed="no\n")

    assert "No GPURequest is left to delete." in result.output
    assert "is lost" not in result.output


def test_an_empty_cluster_is_proven_empty(town):
    document = down(town)

    assert document["proven"]
    assert document["bill"] == []
