"""`tgp doctor`: the providers are asked, nothing is concluded from silence, and only orphans are ended."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.cli.money_world import NOBODYS_UID, Town
from tests.sim.an_operator import a_class, create
from tgp.api.resource import GPU_NODE_CLASS as _CLASS
from tgp.api.resource import GPU_REQUEST as _REQUEST
from tgp.api.resource import SECRET as _SECRET
from tgp.app.patrol import NotAgreed
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.presence import Trouble
from tgp.core.model.survey import Inspection, Lack, Survey
from tgp.core.model.till import Till
from tgp.core.model.token import token_for
from tgp.core.rules.checkup import findings
from tgp.sim.clouds.mishaps import Mishap, Verb
from tgp.surfaces.cli.confirming import Confirmed


def report(town: Town, *words: str) -> dict:
    return json.loads(town.tgp("doctor", "-o", "json", *words).output)


def problems(town: Town, *words: str) -> list[str]:
    return [finding["problem"] for finding in report(town, *words)["findings"]]


def test_a_cluster_where_everything_fits_is_well(town):
    town.request()
    result = town.tgp("doctor")

    assert result.exit_code == 0, result.output
    assert "All well" in result.output
    assert "1 machine costs $" in result.output


def test_a_machine_that_no_request_has_is_found_with_its_price(town):
    machine = town.orphan()
    result = town.tgp("doctor")
    found = report(town)["findings"]

    assert result.exit_code == 1
    assert machine.id in result.output
    assert "tgp doctor --orphans --fix" in result.output
    assert [one["problem"] for one in found] == ["Orphan"]
    assert found[0]["usdPerHour"] == machine.rate_microusd / 1_000_000
    assert town.alive() == [machine.id], "looking ends nothing"


def test_machines_of_others_are_none_of_its_business(town):
    fleet = town.simulated.fleet
    fleet.add_foreign(next(iter(fleet.accounts)), 3)
    town.machine(token_for("0123456789", NOBODYS_UID, 1))

    assert town.tgp("doctor", "--fix", "--yes").exit_code == 0
    assert len(town.alive()) == 4


def test_an_orphan_is_ended_after_a_yes_and_shown_to_be_gone(town):
    town.request()
    orphan = town.orphan()
    refused = town.tgp("doctor", typed="n\n")
    assert refused.exit_code == 1
    assert orphan.id in town.alive()

    result = town.tgp("doctor", typed="y\n")

    assert result.exit_code == 0, result.output
    assert f"The end of {orphan.id} (simulated) was asked for." in result.output
    assert orphan.id not in town.alive()
    assert len(town.alive()) == 1, "the machine of a request stays"


def test_scripts_say_yes_and_nobody_is_asked(town):
    town.orphan()

    assert town.tgp("doctor", "--fix").exit_code == 2
    assert len(town.alive()) == 1
    result = town.tgp("doctor", "--orphans", "--fix", "--yes", "-o", "json")
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.output)["done"]) == 1
    assert town.alive() == []


def test_a_machine_that_its_request_does_not_want_is_told_and_ended(town):
    request = town.request()
    stray = town.machine(token_for(town.cluster, request["metadata"]["uid"], 2))
    (found,) = report(town, "--orphans")["findings"]
    assert (found["problem"], found["mend"]) == ("Stray", "tgp doctor --orphans --fix")
    result = town.tgp("doctor", "--orphans", "--fix", "--yes")

    assert result.exit_code == 0, result.output
    assert stray.id not in town.alive()
    assert len(town.alive()) == 1, "the machine of its request stays"


def test_strays_of_many_requests_are_no_halt_and_all_of_them_can_be_ended(town):
    """Four requests whose attempts somebody declared over: nothing but their own machines is left."""
    for number in range(4):
        request = town.request(f"train-{number}")
        rows = [{**row, "endedAt": row["launchedAt"], "outcome": "Failed"} for row in request["status"]["attempts"]]
        town.world.api.backstage.merge_patch(
            _REQUEST, "default", f"train-{number}", {"status": {"attempts": rows}}, "status"
        )
    assert problems(town) == ["Stray"] * 4

    assert town.tgp("doctor", "--orphans", "--fix", "--yes").exit_code == 0
    assert town.alive() == []


def test_machines_of_wiped_requests_are_told_and_left_to_be_adopted(town):
    for number in range(4):
        nothing = dict.fromkeys(town.request(f"train-{number}")["status"])
        town.world.api.backstage.merge_patch(_REQUEST, "default", f"train-{number}", {"status": nothing}, "status")
    assert problems(town) == ["NotOnRecord"] * 4

    town.tgp("doctor", "--orphans", "--fix", "--yes")
    assert len(town.alive()) == 4


def test_an_end_that_the_provider_ignores_is_told_as_left(town):
    town.orphan()
    town.simulated.mishaps.aim(Mishap.DELETE_IGNORED, Verb.TERMINATE, 100)
    result = town.tgp("doctor", "--fix", "--yes")

    assert result.exit_code == 1
    assert "Orphan" in result.output


def test_a_provider_that_does_not_answer_is_unknown_and_not_empty(town):
    town.request()
    town.simulated.mishaps.aim(Mishap.HTML, Verb.LIST, 100)
    result = town.tgp("doctor")

    assert result.exit_code == 2
    assert "unknown is not none" in result.output
    assert "unknown, not absent" in result.output
    assert "MachineNotListed" not in result.output


def test_a_key_that_is_missing_is_named_and_nothing_is_concluded(town):
    a_class(town.world, "cloud", providers=[{"name": "vultr"}])
    result = town.tgp("doctor")

    assert result.exit_code == 2
    assert "SecretMissing" in result.output
    assert "tgp-operator-secret" in result.output


def mends(town: Town) -> list[str]:
    return [one["mend"] for one in report(town)["findings"] if one["problem"] == "SecretMissing"]


def test_a_secret_that_is_not_there_is_mended_by_creating_it(town):
    """There is nothing to describe yet."""
    a_class(town.world, "cloud", providers=[{"name": "vultr"}])

    assert mends(town) == [
        "kubectl -n tgp-system create secret generic tgp-operator-secret --from-literal=VULTR_API_KEY=…"
    ]


def test_a_key_that_is_a_file_is_taken_from_one(town):
    a_class(town.world, "cloud", providers=[{"name": "gcp", "credentialsRef": {"name": "google", "key": "sa"}}])

    assert mends(town) == ["kubectl -n tgp-system create secret generic google --from-file=sa=FILE"]


def test_a_secret_without_the_key_is_mended_by_adding_it(town):
    create(town.world, _SECRET, "mine", "tgp-system", stringData={"other": "x"})
    ref = {"name": "mine", "key": "api-key"}
    a_class(town.world, "cloud", providers=[{"name": "vultr", "credentialsRef": ref}])

    assert mends(town) == [
        """kubectl -n tgp-system patch secret mine --type merge -p '{"stringData":{"api-key":"…"}}'"""
    ]


def test_who_may_not_read_a_secret_is_not_told_to_create_it(town):
    """It may well be there."""
    till = Till("vultr", "mine", "api-key")
    silent = Inspection(till, "Vultr", timedelta(), trouble=Trouble.CREDENTIALS_MISSING, lack=Lack.RIGHT)
    survey = Survey(town.cluster, "tgp-system", town.world.clock.now(), inspections=(silent,))

    assert [one.mend for one in findings(survey)] == ["kubectl -n tgp-system auth can-i get secret/mine"]


def test_a_key_in_the_operators_secret_is_asked_although_no_class_names_it(town):
    simulator = town.open("vultr", "tgp-operator-secret", VULTR_API_KEY="")
    del simulator
    town.world.api.backstage.merge_patch(
        _SECRET, "tgp-system", "tgp-operator-secret", {"stringData": {"VULTR_API_KEY": town.simulators["vultr"].key}}
    )
    town.machine(token_for(town.cluster, NOBODYS_UID, 1), "vultr")

    assert problems(town) == ["Orphan"]


def test_a_key_of_another_account_makes_its_machine_unknown(town):
    town.request(identity="somebody-else")
    fleet = town.simulated.fleet
    for machine in fleet.machines.values():
        fleet.end(machine)
    town.world.run(minutes=5)
    result = town.tgp("doctor")

    assert result.exit_code == 2
    assert "AccountChanged" in result.output


def test_a_record_that_does_not_say_where_its_machine_is_leaves_it_unknown(town):
    town.request(attempt={"account": "simulated-000000000000"})
    result = town.tgp("doctor")

    assert result.exit_code == 2
    assert "in account simulated-000000000000, which is not in ConfigMap tgp-system/tgp-accounts" in result.output


def test_a_request_whose_machine_is_not_listed_is_told(town):
    town.request()
    fleet = town.simulated.fleet
    for machine in fleet.machines.values():
        fleet.end(machine)
    town.world.run(minutes=10)

    assert problems(town) == ["MachineNotListed"]


def test_a_node_without_request_and_machine_is_deleted_by_the_fix(town):
    town.node("left-over", token_for(town.cluster, NOBODYS_UID, 1))
    town.node("of-another-cluster", token_for("0123456789", NOBODYS_UID, 1))
    assert problems(town) == ["LeftoverNode"]
    result = town.tgp("doctor", "--fix", "--yes")

    assert result.exit_code == 0, result.output
    assert town.nodes() == {"of-another-cluster"}


def test_a_node_is_not_deleted_where_its_provider_is_silent(town):
    town.node("left-over", token_for(town.cluster, NOBODYS_UID, 1))
    town.simulated.mishaps.aim(Mishap.ERROR, Verb.LIST, 100)

    assert town.tgp("doctor", "--fix", "--yes").exit_code == 2
    assert town.nodes() == {"left-over"}


def test_a_hold_and_a_suspended_class_are_notes(town):
    town.tgp("hold", "audit")
    town.tgp("hold", "class/box")
    found = report(town)

    assert found["exitCode"] == 0
    assert [(one["problem"], one["kind"]) for one in found["findings"]] == [("Held", "note"), ("Suspended", "note")]


def test_a_restored_copy_is_told_and_owns_nothing(town):
    """Its status came along: the tokens there are another object's."""
    (row,) = town.request()["status"]["attempts"]
    theirs = {**row, "token": token_for(town.cluster, NOBODYS_UID, 1)}
    town.world.api.backstage.merge_patch(_REQUEST, "default", "train", {"status": {"attempts": [theirs]}}, "status")

    assert "RestoredCopy" in problems(town)


def test_only_orphans_are_shown_when_only_they_are_asked_for(town):
    town.node("left-over", token_for(town.cluster, NOBODYS_UID, 2))
    town.orphan()

    assert problems(town, "--orphans") == ["Orphan"]


@pytest.mark.parametrize("words", [("--yes",), ("--fix",)])
def test_wrong_use_ends_with_two_and_changes_nothing(town, words):
    town.orphan()

    assert town.tgp("doctor", *words).exit_code == 2
    assert len(town.alive()) == 1


def test_an_end_that_lasts_too_long_is_told_with_its_price(town):
    request = town.request()
    began = request["status"]["attempts"][0]["launchedAt"]
    drained = {"type": "Drained", "status": "True", "reason": "Empty", "message": "", "lastTransitionTime": began}
    town.world.api.backstage.merge_patch(
        _REQUEST, "default", "train", {"status": {"phase": "Terminating", "conditions": [drained]}}, "status"
    )
    assert problems(town) == []
    town.world.run(minutes=20)
    found = report(town)["findings"]

    assert [one["problem"] for one in found] == ["TerminationFailing"]
    assert found[0]["usdPerHour"] > 0


def test_a_sweep_that_halted_is_told(town):
    halted = {
        "type": "SweepHalted",
        "status": "True",
        "reason": "TooMany",
        "message": "4 of 5 would go",
        "lastTransitionTime": "2026-01-05T12:00:00Z",
    }
    town.world.api.backstage.merge_patch(_CLASS, "", "box", {"status": {"conditions": [halted]}}, "status")

    assert problems(town) == ["SweepHalted"]


def test_an_orphan_that_the_operator_cannot_end_is_told_in_its_words(town):
    words = "no request owns machine i-1 at simulated: costs $1.67/h and does not end; asked to end 3 times: 500"
    stays = {
        "type": "OrphanStays",
        "status": "True",
        "reason": "TerminationFailing",
        "message": words,
        "lastTransitionTime": "2026-01-05T12:00:00Z",
    }
    town.world.api.backstage.merge_patch(_CLASS, "", "box", {"status": {"conditions": [stays]}}, "status")
    (found,) = report(town, "--orphans")["findings"]

    assert (found["problem"], found["about"], found["message"]) == ("OrphanStays", "class/box", words)


def test_more_orphans_than_the_operator_ends_by_itself_are_told_and_ended_after_a_yes(town):
    for attempt in range(1, 5):
        town.orphan(attempt)
    assert problems(town) == ["Orphan"] * 4 + ["SweepHalted"]

    assert town.tgp("doctor", "--fix", "--yes").exit_code == 0
    assert town.alive() == []


def test_a_machine_of_ones_own_that_cannot_tell_is_a_note_while_nothing_switched_it_on(town):
    machine = {
        "name": "cellar-1",
        "gpuCount": 1,
        "scaleUpEndpoint": "http://10.0.0.9/on",
        "scaleDownEndpoint": "http://10.0.0.9/off",
    }
    a_class(town.world, "own", providers=[{"name": "webhook", "settings": {"machines": [machine]}}])
    found = report(town)

    assert [one["problem"] for one in found["findings"]] == ["OwnedMachineSilent"]
    assert found["exitCode"] == 0


def test_nothing_ends_that_nobody_agreed_to(town):
    """The gate of the command line: exactly the machines of the question, and only with this cluster's mark."""
    agreed_to, other = town.orphan(1), town.orphan(2)
    foreign = town.machine("somebody-elses")

    async def walk() -> None:
        async with town.premises("", "", "") as premises:
            survey = await premises.survey()
            (inspection,) = survey.inspections
            till = inspection.till.name
            agreement = Confirmed(town.cluster, frozenset({(till, agreed_to.id), (till, foreign.id)}))
            machines = {instance.id: instance for instance in inspection.machines}
            with pytest.raises(NotAgreed):
                await premises.end(till, machines[other.id], agreement)
            with pytest.raises(NotAgreed):
                await premises.end(till, Instance(foreign.id, foreign.name, InstanceState.RUNNING), agreement)
            with pytest.raises(NotAgreed):
                await premises.end(till, machines[agreed_to.id], replace(agreement, cluster="0123456789"))
            await premises.end(till, machines[agreed_to.id], agreement)

    town.world.until(walk())
    town.world.run(minutes=1)

    assert set(town.alive()) == {other.id, foreign.id}
