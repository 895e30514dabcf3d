"""`tgp down`: everything goes, the providers themselves say so, and nothing less is called proof."""

import json

from tests.cli.money_world import CONTEXT, MoneyWorld, hold_a_pod
from tests.sim.an_operator import a_class, a_pool
from tgp.api.resource import GPU_REQUEST, POD
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb


def down(money: MoneyWorld, *words: str) -> dict:
    result = money.tgp("down", "--yes", "-o", "json", *words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    document = json.loads(result.stdout)
    assert result.exit_code == document["exitCode"]
    return document


def test_the_operator_gives_everything_back_and_the_providers_prove_it(money):
    money.request("one")
    money.request("two")
    money.start_operator()
    document = down(money)

    assert document["proven"]
    assert money.alive() == []
    assert money.found("one") is None
    assert document["left"] == []
    assert {machine["request"] for machine in document["bill"]} == {"default/one", "default/two"}
    assert document["billUsd"] > 0
    assert money.hold_text().startswith("tgp down; since"), "nothing is bought meanwhile, nor afterwards"


def test_the_clusters_name_must_be_typed(money):
    money.request()
    money.start_operator()

    assert money.tgp("down", typed="yes\n").exit_code == 2
    assert money.tgp("down").exit_code == 2
    assert len(money.alive()) == 1
    assert money.hold_text() is None
    result = money.tgp("down", typed=f"{CONTEXT}\n")
    assert result.exit_code == 0, result.output
    assert "Every machine is terminated" in result.output
    assert "tgp release" in result.output


def test_without_an_operator_machines_are_ended_from_here_after_another_yes(money):
    money.request()
    began = money.world.loop.time()
    refused = money.tgp("down", typed=f"{CONTEXT}\nn\n")

    assert refused.exit_code == 1
    assert "the operator did not terminate everything in time" in refused.output
    assert "an hour" in refused.output
    assert money.world.loop.time() - began > 600
    assert len(money.alive()) == 1

    assert money.tgp("down", typed=f"{CONTEXT}\ny\n").exit_code == 0
    assert money.alive() == []


def test_direct_does_not_wait_for_the_operator(money):
    money.request()
    money.orphan()
    began = money.world.loop.time()
    document = down(money, "--direct")

    assert document["proven"]
    assert money.alive() == []
    assert money.world.loop.time() - began < 300
    assert document["requests"] == ["default/train"], "the operator's finalizer is the operator's"


def test_an_end_that_is_ignored_is_no_proof_and_says_what_is_left_and_costs(money):
    money.request()
    money.simulated.faults.aim(CloudFault.DELETE_IGNORED, CloudVerb.TERMINATE, 1000)
    document = down(money, "--direct")

    assert not document["proven"]
    assert document["left"][0]["request"] == "default/train"
    assert document["leftUsdPerHour"] > 0
    assert "Not proven" in document["message"]


def test_a_silent_provider_is_no_proof(money):
    money.simulated.faults.aim(CloudFault.ERROR, CloudVerb.LIST, 100_000)
    document = down(money)

    assert not document["proven"]
    assert [one["provider"] for one in document["notAsked"]] == ["Simulated"]


def test_a_key_that_is_not_there_is_no_proof_and_is_not_waited_for(money):
    a_class(money.world, "keyless", providers=[{"name": "vultr"}])
    money.request()
    money.start_operator()
    began = money.world.loop.time()
    document = down(money)

    assert not document["proven"]
    assert document["left"] == []
    assert "an API key is missing" in document["message"]
    assert "Machines may still run there" in document["message"]
    assert money.world.loop.time() - began < 300, "what can be asked has answered"


def test_a_provider_that_answers_again_in_time_is_believed_again(money):
    money.request()
    money.start_operator()
    money.simulated.faults.aim(CloudFault.ERROR, CloudVerb.LIST, 12)

    assert down(money)["proven"]


def test_what_would_buy_again_is_named_before_and_after(money):
    a_pool(money.world, "fixed", "box", replicas=2)
    money.request("kept", labels={"kustomize.toolkit.fluxcd.io/name": "apps"})
    money.start_operator()
    result = money.tgp("down", typed=f"{CONTEXT}\n")

    assert result.exit_code == 0, result.output
    before, _, after = result.output.partition("Every machine is terminated")
    for words in (before, after):
        assert "request/default/kept" in words
        assert "Flux would create it again" in words
        assert "pool/default/fixed: buys a machine when a pod waits for a GPU, and keeps 2 machines" in words


def test_ended_requests_stay_so_that_no_tool_creates_them_again(money):
    money.request("over", machine=False)
    money.world.api.local_api.merge_patch(GPU_REQUEST, "default", "over", {"status": {"phase": "Finished"}}, "status")

    assert down(money)["proven"]
    assert money.found("over") is not None


def test_a_request_that_is_written_meanwhile_goes_too(money):
    money.request()
    money.start_operator()
    money.world.loop.call_later(15, lambda: money.request("late", machine=False))

    assert down(money)["proven"]
    assert money.found("late") is None


def test_an_order_that_may_be_under_way_is_waited_for(money):
    """A reservation without a machine: no list proves anything before the order has settled."""
    money.request("ordering", machine=False)
    reserved = {
        "number": 1,
        "token": f"tgp-{money.identity}-{money.found('ordering')['metadata']['uid'].replace('-', '')}-1",
        "reservedAt": money.world.clock.now().isoformat(),
        "offer": {"provider": "simulated", "instanceType": "x"},
    }
    money.world.api.local_api.merge_patch(
        GPU_REQUEST, "default", "ordering", {"metadata": {"finalizers": ["tgp.io/machine"]}}
    )
    money.world.api.local_api.merge_patch(
        GPU_REQUEST, "default", "ordering", {"status": {"attempts": [reserved]}}, "status"
    )
    began = money.world.loop.time()

    assert down(money)["proven"]
    assert money.world.loop.time() - began > 300


def test_where_nothing_is_left_nothing_is_said_to_be_lost(money):
    result = money.tgp("down", typed="no\n")

    assert "No GPURequest is left to delete." in result.output
    assert "is lost" not in result.output


def test_an_empty_cluster_is_proven_empty(money):
    document = down(money)

    assert document["proven"]
    assert document["bill"] == []


def test_pods_that_a_budget_holds_are_freed(money):
    hold_a_pod(money.world)
    document = down(money)

    assert document["freedPods"] == 1
    assert money.world.api.local_api.get(POD, "default", "held") is None
