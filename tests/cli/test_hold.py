"""`tgp hold` and `tgp release`: the brake, what it stops, and what it lets go."""

import json

import pytest

from tests.cli.money_world import Town
from tests.sim.an_operator import a_pool
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE


def suspended(town: Town) -> bool:
    return town.world.api.backstage.get(GPU_NODE_CLASS, "", "box")["spec"].get("suspend", False)


def test_a_hold_is_written_where_the_operator_reads_it_with_its_reason(town):
    town.request()
    result = town.tgp("hold", "the", "invoice", "is", "odd")

    assert result.exit_code == 0, result.output
    assert town.hold_text().startswith("the invoice is odd; since 20")
    assert "nothing is bought from now on" in result.output
    assert "1 machine costs $" in result.output, "what runs costs on, and that is said"
    assert "STATE" not in result.output, "nobody was asked how it is"
    assert "next: tgp release" in result.output


def test_a_second_hold_changes_nothing_and_says_how_things_stand(town):
    town.tgp("hold", "audit")
    before = town.hold_text()
    town.world.run(minutes=5)
    result = town.tgp("hold")

    assert town.hold_text() == before
    assert "Held since" in result.output
    assert "audit" in result.output


def test_a_new_reason_keeps_the_moment_it_began(town):
    town.tgp("hold", "audit")
    since = town.hold_text().partition("; since ")[2]
    town.world.run(minutes=5)
    town.tgp("hold", "holidays")

    assert town.hold_text() == f"holidays; since {since}"


def test_to_look_changes_nothing(town):
    result = town.tgp("hold", "--status")

    assert result.exit_code == 0
    assert "Not held" in result.output
    assert town.hold_text() is None


def test_one_class_can_be_held_and_released(town):
    assert "class/box is held" in town.tgp("hold", "class/box").output
    assert suspended(town)
    assert town.hold_text() is None
    assert "was held already" in town.tgp("hold", "gnc/box").output

    assert town.tgp("release", "class/box").exit_code == 0
    assert not suspended(town)


def test_a_class_that_is_not_there_is_refused_with_the_nearest_name(town):
    result = town.tgp("hold", "class/bax")

    assert result.exit_code == 2
    assert "Did you mean box?" in result.output


def test_released_it_says_what_buys_again_and_asks_before(town):
    town.tgp("hold", "audit")
    town.request("waiting", machine=False)
    a_pool(town.world, "fixed", "box", replicas=2)

    refused = town.tgp("release")
    assert refused.exit_code == 2
    assert town.hold_text() is not None, "nobody was there to agree"
    assert town.tgp("release", typed="n\n").exit_code == 2
    result = town.tgp("release", typed="y\n")

    assert result.exit_code == 0, result.output
    assert town.hold_text() is None
    assert "request/default/waiting: waits for a machine" in result.output
    assert "pool/" not in result.output, "a pool buys nothing in this version"


def waiting(town: Town, name: str, reason: str) -> None:
    town.request(name, machine=False)
    said = {"type": "Launched", "status": "False", "reason": reason, "message": "", "observedGeneration": 1}
    town.world.api.backstage.merge_patch(
        GPU_REQUEST,
        "default",
        name,
        {"status": {"phase": "Pending", "conditions": [{**said, "lastTransitionTime": "2026-01-05T09:00:00Z"}]}},
        "status",
    )


def test_who_waits_for_something_else_does_not_buy_at_once(town):
    town.tgp("hold", "audit")
    waiting(town, "typo", "InvalidSpec")
    waiting(town, "cheap", "NoOfferFits")
    waiting(town, "eager", "Held")
    asked = town.tgp("release", typed="n\n")
    done = town.tgp("release", typed="y\n")

    assert "typo" not in asked.output
    assert "request/default/cheap: waits for a machine (NoOfferFits)." in asked.output
    assert "request/default/eager: waits for a machine." in asked.output
    assert "request/default/typo: waits for a machine (InvalidSpec)." in done.output


def test_nobody_is_asked_where_nothing_would_buy_at_once(town):
    town.tgp("hold")

    assert town.tgp("release").exit_code == 0
    assert town.hold_text() is None


def test_a_class_that_is_released_under_a_hold_buys_nothing_yet(town):
    town.tgp("hold", "audit")
    town.tgp("hold", "class/box")
    town.request("waiting", machine=False, spec={"nodeClassRef": {"name": "box"}})

    assert town.tgp("release", "class/box").exit_code == 0


def test_programs_read_how_things_stand(town):
    town.request()
    document = json.loads(town.tgp("hold", "audit", "-o", "json").output)

    assert (document["kind"], document["held"], document["reason"]) == ("HoldReport", True, "audit")
    assert document["usdPerHour"] == document["machines"][0]["usdPerHour"] > 0
    assert document["machines"][0]["request"] == "default/train"


def test_a_brake_that_somebody_pulled_by_hand_holds_whatever_it_says(town):
    town.world.api.backstage.merge_patch(
        NAMESPACE, "", "tgp-system", {"metadata": {"annotations": {"tgp.io/hold": ""}}}
    )

    assert "Held: nothing is bought (no reason given)" in town.tgp("hold", "--status").output


def test_a_reason_cannot_smuggle_anything_into_a_terminal(town):
    town.tgp("hold", "red\x1b[31m\nalert")

    assert "\x1b" not in town.hold_text()


@pytest.mark.parametrize("words", [("release", "box"), ("release", "node/x")])
def test_only_classes_and_everything_can_be_released(town, words):
    assert town.tgp(*words).exit_code == 2


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("class/box", "testing"), "tgp hold class/box"),
        (("pool/ml/big",), "tgp hold class/NAME"),
        (("request/train",), "tgp hold class/NAME"),
    ],
)
def test_who_names_one_thing_does_not_stop_everything(town, words, hint):
    result = town.tgp("hold", *words)

    assert result.exit_code == 2
    assert hint in result.output
    assert town.hold_text() is None
    assert not suspended(town)


def test_a_reason_may_speak_of_anything(town):
    assert town.tgp("hold", "pool/big", "bought", "too", "much").exit_code == 0
    assert town.hold_text().startswith("pool/big bought too much; since ")
    assert town.tgp("hold", "pool/big bought far too much").exit_code == 0


def test_a_class_that_was_not_held_by_itself_is_told_that_everything_is(town):
    town.tgp("hold", "audit")
    result = town.tgp("release", "class/box")

    assert "class/box is not held by itself. Held since" in " ".join(result.output.split())
    assert "next: tgp release" in result.output


def test_a_person_says_that_a_provider_is_right_and_when(town):
    result = town.tgp("release", "provider/vast.ai")

    assert result.exit_code == 0, result.output
    assert "Provider vast is trusted again" in result.output
    found = town.world.api.backstage.get(NAMESPACE, "", "tgp-system")["metadata"]["annotations"]
    assert found["tgp.io/trust-vast"] in result.output
    assert town.hold_text() is None


def test_a_provider_that_nobody_knows_is_not_released(town):
    result = town.tgp("release", "provider/vastt")

    assert result.exit_code == 2
    assert "there is no provider 'vastt'" in result.output
