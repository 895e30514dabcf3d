"""`tgp doctor`: the providers are asked, nothing is concluded from silence, and only orphans are ended."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.cli.money_world import ORPHAN_UID, MoneyWorld, hold_a_pod
from tests.sim.an_operator import a_class, create
from tgp.api.resource import GPU_NODE_CLASS as _CLASS
from tgp.api.resource import GPU_REQUEST as _REQUEST
from tgp.api.resource import SECRET as _SECRET
from tgp.core.model.account_access import AccountAccess
from tgp.core.model.cluster_inventory import AccountInventory, ClusterInventory, MissingCredential
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.presence import AccountProblem
from tgp.core.model.token import token_for
from tgp.core.reports.doctor import findings
from tgp.services.confirmed import Confirmed
from tgp.services.inventory import NotAgreed
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb


def report(money: MoneyWorld, *words: str) -> dict:
    return json.loads(money.tgp("doctor", "-o", "json", *words).output)


def problems(money: MoneyWorld, *words: str) -> list[str]:
    return [finding["problem"] for finding in report(money, *words)["findings"]]


def test_a_cluster_where_everything_fits_is_well(money):
    money.request()
    result = money.tgp("doctor")

    assert result.exit_code == 0, result.output
    assert "No problems" in result.output
    assert "1 machine costs $" in result.output


def test_a_machine_that_no_request_has_is_found_with_its_price(money):
    machine = money.orphan()
    result = money.tgp("doctor")
    found = report(money)["findings"]

    assert result.exit_code == 1
    assert machine.id in result.output
    assert "tgp doctor --orphans --fix" in result.output
    assert [one["problem"] for one in found] == ["Orphan"]
    assert found[0]["usdPerHour"] == machine.rate_microusd / 1_000_000
    assert money.alive() == [machine.id], "looking ends nothing"


def test_machines_of_others_are_none_of_its_business(money):
    fleet = money.simulated.fleet
    fleet.add_foreign(next(iter(fleet.accounts)), 3)
    money.machine(token_for("0123456789", ORPHAN_UID, 1))

    assert money.tgp("doctor", "--fix", "--yes").exit_code == 0
    assert len(money.alive()) == 4


def test_an_orphan_is_ended_after_a_yes_and_shown_to_be_gone(money):
    money.request()
    orphan = money.orphan()
    refused = money.tgp("doctor", typed="n\n")
    assert refused.exit_code == 1
    assert orphan.id in money.alive()

    result = money.tgp("doctor", typed="y\n")

    assert result.exit_code == 0, result.output
    assert f"Termination of machine {orphan.id} (simulated) was requested." in result.output
    assert orphan.id not in money.alive()
    assert len(money.alive()) == 1, "the machine of a request stays"


def test_scripts_say_yes_and_there_is_no_question(money):
    money.orphan()

    assert money.tgp("doctor", "--fix").exit_code == 2
    assert len(money.alive()) == 1
    result = money.tgp("doctor", "--orphans", "--fix", "--yes", "-o", "json")
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.output)["done"]) == 1
    assert money.alive() == []


def test_a_machine_that_its_request_does_not_want_is_told_and_ended(money):
    request = money.request()
    unclaimed = money.machine(token_for(money.identity, request["metadata"]["uid"], 2))
    (found,) = report(money, "--orphans")["findings"]
    assert (found["problem"], found["fix"]) == ("UnclaimedInstance", "tgp doctor --orphans --fix")
    result = money.tgp("doctor", "--orphans", "--fix", "--yes")

    assert result.exit_code == 0, result.output
    assert unclaimed.id not in money.alive()
    assert len(money.alive()) == 1, "the machine of its request stays"


def test_unclaimed_machines_of_many_requests_are_no_halt_and_all_of_them_can_be_ended(money):
    """Four requests whose attempts were declared over: only their own machines are left."""
    for number in range(4):
        request = money.request(f"train-{number}")
        rows = [{**row, "endedAt": row["launchedAt"], "outcome": "Failed"} for row in request["status"]["attempts"]]
        money.world.api.local_api.merge_patch(
            _REQUEST, "default", f"train-{number}", {"status": {"attempts": rows}}, "status"
        )
    assert problems(money) == ["UnclaimedInstance"] * 4

    assert money.tgp("doctor", "--orphans", "--fix", "--yes").exit_code == 0
    assert money.alive() == []


def test_machines_of_wiped_requests_are_told_and_left_to_be_adopted(money):
    for number in range(4):
        nothing = dict.fromkeys(money.request(f"train-{number}")["status"])
        money.world.api.local_api.merge_patch(_REQUEST, "default", f"train-{number}", {"status": nothing}, "status")
    assert problems(money) == ["NotOnRecord"] * 4

    money.tgp("doctor", "--orphans", "--fix", "--yes")
    assert len(money.alive()) == 4


def test_an_end_that_the_provider_ignores_is_told_as_left(money):
    money.orphan()
    money.simulated.faults.aim(CloudFault.DELETE_IGNORED, CloudVerb.TERMINATE, 100)
    result = money.tgp("doctor", "--fix", "--yes")

    assert result.exit_code == 1
    assert "Orphan" in result.output


def test_a_provider_that_does_not_answer_is_unknown_and_not_empty(money):
    money.request()
    money.simulated.faults.aim(CloudFault.HTML, CloudVerb.LIST, 100)
    result = money.tgp("doctor")

    assert result.exit_code == 2
    assert "There may be machines that are not listed here" in result.output
    assert "unknown, not absent" in " ".join(result.output.split())
    assert "MachineNotListed" not in result.output


def test_a_key_that_is_missing_is_named_and_nothing_is_concluded(money):
    a_class(money.world, "cloud", providers=[{"name": "vultr"}])
    result = money.tgp("doctor")

    assert result.exit_code == 2
    assert "SecretMissing" in result.output
    assert "tgp-operator-secret" in result.output


def fixes(money: MoneyWorld) -> list[str]:
    return [one["fix"] for one in report(money)["findings"] if one["problem"] == "SecretMissing"]


def test_a_secret_that_is_not_there_is_mended_by_creating_it(money):
    """There is nothing to describe yet."""
    a_class(money.world, "cloud", providers=[{"name": "vultr"}])

    assert fixes(money) == [
        "kubectl -n tgp-system create secret generic tgp-operator-secret --from-literal=VULTR_API_KEY=…"
    ]


def test_a_key_that_is_a_file_is_taken_from_one(money):
    a_class(money.world, "cloud", providers=[{"name": "gcp", "credentialsRef": {"name": "google", "key": "sa"}}])

    assert fixes(money) == ["kubectl -n tgp-system create secret generic google --from-file=sa=FILE"]


def test_a_secret_without_the_key_is_mended_by_adding_it(money):
    create(money.world, _SECRET, "mine", "tgp-system", stringData={"other": "x"})
    ref = {"name": "mine", "key": "api-key"}
    a_class(money.world, "cloud", providers=[{"name": "vultr", "credentialsRef": ref}])

    assert fixes(money) == [
        """kubectl -n tgp-system patch secret mine --type merge -p '{"stringData":{"api-key":"…"}}'"""
    ]


def test_who_may_not_read_a_secret_is_not_told_to_create_it(money):
    """It may well be there."""
    access = AccountAccess("vultr", "mine", "api-key")
    silent = AccountInventory(
        access, "Vultr", timedelta(), trouble=AccountProblem.CREDENTIALS_MISSING, missing=MissingCredential.RIGHT
    )
    inventory = ClusterInventory(money.identity, "tgp-system", money.world.clock.now(), inspections=(silent,))

    assert [one.fix for one in findings(inventory)] == ["kubectl -n tgp-system auth can-i get secret/mine"]


def test_a_key_in_the_operators_secret_is_asked_although_no_class_names_it(money):
    simulator = money.open("vultr", "tgp-operator-secret", VULTR_API_KEY="")
    del simulator
    money.world.api.local_api.merge_patch(
        _SECRET, "tgp-system", "tgp-operator-secret", {"stringData": {"VULTR_API_KEY": money.simulators["vultr"].key}}
    )
    money.machine(token_for(money.identity, ORPHAN_UID, 1), "vultr")

    assert problems(money) == ["Orphan"]


def test_a_key_of_another_account_makes_its_machine_unknown(money):
    money.request(identity="another-owner")
    fleet = money.simulated.fleet
    for machine in fleet.machines.values():
        fleet.end(machine)
    money.world.run(minutes=5)
    result = money.tgp("doctor")

    assert result.exit_code == 2
    assert "AccountChanged" in result.output


def test_a_record_that_does_not_say_where_its_machine_is_leaves_it_unknown(money):
    money.request(attempt={"account": "simulated-000000000000"})
    result = money.tgp("doctor")

    assert result.exit_code == 2
    assert "in account simulated-000000000000, which is not in ConfigMap tgp-system/tgp-accounts" in result.output


def test_a_request_whose_machine_is_not_listed_is_told(money):
    money.request()
    fleet = money.simulated.fleet
    for machine in fleet.machines.values():
        fleet.end(machine)
    money.world.run(minutes=10)

    assert problems(money) == ["MachineNotListed"]


def test_a_node_without_request_and_machine_is_deleted_by_the_fix(money):
    money.node("left-over", token_for(money.identity, ORPHAN_UID, 1))
    money.node("of-another-cluster", token_for("0123456789", ORPHAN_UID, 1))
    assert problems(money) == ["LeftoverNode"]
    result = money.tgp("doctor", "--fix", "--yes")

    assert result.exit_code == 0, result.output
    assert money.nodes() == {"of-another-cluster"}


def test_a_node_without_request_whose_machine_runs_is_not_to_be_deleted_first(money):
    money.orphan()
    money.node("left-over", token_for(money.identity, ORPHAN_UID, 1))
    (found,) = (one for one in report(money)["findings"] if one["problem"] == "LeftoverNode")

    assert found["message"] == "Node left-over has no request any more, and its machine still runs."
    assert found["fix"] == "tgp doctor --orphans --fix"


def test_a_node_is_not_deleted_where_its_provider_is_silent(money):
    money.node("left-over", token_for(money.identity, ORPHAN_UID, 1))
    money.simulated.faults.aim(CloudFault.ERROR, CloudVerb.LIST, 100)

    assert money.tgp("doctor", "--fix", "--yes").exit_code == 2
    assert money.nodes() == {"left-over"}


def test_a_hold_and_a_suspended_class_are_notes(money):
    money.tgp("hold", "audit")
    money.tgp("hold", "class/box")
    found = report(money)

    assert found["exitCode"] == 0
    assert [(one["problem"], one["kind"]) for one in found["findings"]] == [
        ("PurchasesPaused", "note"),
        ("Suspended", "note"),
    ]


def test_a_restored_copy_is_told_and_owns_nothing(money):
    """Its status came along: the tokens there are another object's."""
    (row,) = money.request()["status"]["attempts"]
    theirs = {**row, "token": token_for(money.identity, ORPHAN_UID, 1)}
    money.world.api.local_api.merge_patch(_REQUEST, "default", "train", {"status": {"attempts": [theirs]}}, "status")

    assert "RestoredCopy" in problems(money)


def test_only_orphans_are_shown_when_only_they_are_asked_for(money):
    money.node("left-over", token_for(money.identity, ORPHAN_UID, 2))
    money.orphan()

    assert problems(money, "--orphans") == ["Orphan"]


@pytest.mark.parametrize("words", [("--yes",), ("--fix",)])
def test_wrong_use_ends_with_two_and_changes_nothing(money, words):
    money.orphan()

    assert money.tgp("doctor", *words).exit_code == 2
    assert len(money.alive()) == 1


def test_an_end_that_lasts_too_long_is_told_with_its_price(money):
    request = money.request()
    began = request["status"]["attempts"][0]["launchedAt"]
    drained = {"type": "Drained", "status": "True", "reason": "Empty", "message": "", "lastTransitionTime": began}
    money.world.api.local_api.merge_patch(
        _REQUEST, "default", "train", {"status": {"phase": "Terminating", "conditions": [drained]}}, "status"
    )
    assert problems(money) == []
    money.world.run(minutes=20)
    found = report(money)["findings"]

    assert [one["problem"] for one in found] == ["TerminationFailing"]
    assert found[0]["usdPerHour"] > 0


def test_a_sweep_that_halted_is_told(money):
    halted = {
        "type": "SweepHalted",
        "status": "True",
        "reason": "TooMany",
        "message": "4 of 5 would go",
        "lastTransitionTime": "2026-01-05T12:00:00Z",
    }
    money.world.api.local_api.merge_patch(_CLASS, "", "box", {"status": {"conditions": [halted]}}, "status")

    assert problems(money) == ["SweepHalted"]


def test_an_orphan_that_the_operator_cannot_end_is_told_in_its_words(money):
    words = (
        "Machine i-1 at simulated: owned by no request and still billed at $1.67/h; termination requested 3 times: 500"
    )
    stays = {
        "type": "OrphanTerminationFailing",
        "status": "True",
        "reason": "TerminationFailing",
        "message": words,
        "lastTransitionTime": "2026-01-05T12:00:00Z",
    }
    money.world.api.local_api.merge_patch(_CLASS, "", "box", {"status": {"conditions": [stays]}}, "status")
    (found,) = report(money, "--orphans")["findings"]

    assert (found["problem"], found["about"], found["message"]) == ("OrphanTerminationFailing", "class/box", words)


def test_more_orphans_than_the_operator_ends_by_itself_are_told_and_ended_after_a_yes(money):
    for attempt in range(1, 5):
        money.orphan(attempt)
    assert problems(money) == ["Orphan"] * 4 + ["SweepHalted"]

    assert money.tgp("doctor", "--fix", "--yes").exit_code == 0
    assert money.alive() == []


def test_a_machine_of_ones_own_that_cannot_tell_is_a_note_while_nothing_switched_it_on(money):
    machine = {
        "name": "cellar-1",
        "gpuCount": 1,
        "scaleUpEndpoint": "http://10.0.0.9/on",
        "scaleDownEndpoint": "http://10.0.0.9/off",
    }
    a_class(money.world, "own", providers=[{"name": "webhook", "settings": {"machines": [machine]}}])
    found = report(money)

    assert [one["problem"] for one in found["findings"]] == ["OwnedMachineSilent"]
    assert found["exitCode"] == 0


def test_only_confirmed_machines_are_terminated(money):
    """The gate of the command line: exactly the machines of the question, and only with this cluster's mark."""
    agreed_to, other = money.orphan(1), money.orphan(2)
    foreign = money.machine("not-ours")

    async def walk() -> None:
        async with money.cluster("", "", "") as cluster:
            inventory = await cluster.inventory()
            (inspection,) = inventory.inspections
            access = inspection.access.name
            agreement = Confirmed(money.identity, frozenset({(access, agreed_to.id), (access, foreign.id)}))
            machines = {instance.id: instance for instance in inspection.machines}
            with pytest.raises(NotAgreed):
                await cluster.end(access, machines[other.id], agreement)
            with pytest.raises(NotAgreed):
                await cluster.end(access, Instance(foreign.id, foreign.name, InstanceState.RUNNING), agreement)
            with pytest.raises(NotAgreed):
                await cluster.end(access, machines[agreed_to.id], replace(agreement, cluster="0123456789"))
            await cluster.end(access, machines[agreed_to.id], agreement)

    money.world.until(walk())
    money.world.run(minutes=1)

    assert set(money.alive()) == {other.id, foreign.id}


def test_a_pod_that_a_budget_holds_after_its_end_is_listed_with_the_line_that_frees_it(money):
    hold_a_pod(money.world)
    money.world.run(seconds=30)
    assert problems(money) == [], "an operator may be about to count it"
    money.world.run(minutes=2)
    assert problems(money) == ["PodHeld"]
    said = money.tgp("doctor").output
    assert "kubectl patch pod held -n default" in said
