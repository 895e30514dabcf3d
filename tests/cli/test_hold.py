"""`tgp hold` and `tgp release`: what is paused, and what continues."""

import json

import pytest

from tests.cli.money_world import MoneyWorld
from tests.sim.an_operator import a_pool
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE


def suspended(money: MoneyWorld) -> bool:
    return money.world.api.local_api.get(GPU_NODE_CLASS, "", "box")["spec"].get("suspend", False)


def test_a_hold_is_written_where_the_operator_reads_it_with_its_reason(money):
    money.request()
    result = money.tgp("hold", "the", "invoice", "is", "odd")

    assert result.exit_code == 0, result.output
    assert money.hold_text().startswith("the invoice is odd; since 20")
    assert "Purchases are paused from now on" in result.output
    assert "1 machine costs $" in result.output, "what runs costs on, and that is said"
    assert "STATE" not in result.output, "no provider was asked for the state"
    assert "next: tgp release" in result.output


def test_a_second_hold_changes_nothing_and_says_how_things_stand(money):
    money.tgp("hold", "audit")
    before = money.hold_text()
    money.world.run(minutes=5)
    result = money.tgp("hold")

    assert money.hold_text() == before
    assert "Purchases are paused since" in result.output
    assert "audit" in result.output


def test_a_new_reason_keeps_the_moment_it_began(money):
    money.tgp("hold", "audit")
    since = money.hold_text().partition("; since ")[2]
    money.world.run(minutes=5)
    money.tgp("hold", "holidays")

    assert money.hold_text() == f"holidays; since {since}"


def test_to_look_changes_nothing(money):
    result = money.tgp("hold", "--status")

    assert result.exit_code == 0
    assert "Purchases are not paused" in result.output
    assert money.hold_text() is None


def test_one_class_can_be_held_and_released(money):
    assert "class/box is suspended" in money.tgp("hold", "class/box").output
    assert suspended(money)
    assert money.hold_text() is None
    assert "was suspended already" in money.tgp("hold", "gnc/box").output

    assert money.tgp("release", "class/box").exit_code == 0
    assert not suspended(money)


def test_a_class_that_is_not_there_is_refused_with_the_nearest_name(money):
    result = money.tgp("hold", "class/bax")

    assert result.exit_code == 2
    assert "Did you mean box?" in result.output


def test_released_it_says_what_buys_again_and_asks_before(money):
    money.tgp("hold", "audit")
    money.request("waiting", machine=False)
    a_pool(money.world, "fixed", "box", replicas=2)

    refused = money.tgp("release")
    assert refused.exit_code == 2
    assert money.hold_text() is not None, "there was no terminal to confirm"
    assert money.tgp("release", typed="n\n").exit_code == 2
    result = money.tgp("release", typed="y\n")

    assert result.exit_code == 0, result.output
    assert money.hold_text() is None
    assert "request/default/waiting: waits for a machine" in result.output
    assert "pool/default/fixed: buys a machine when a pod waits for a GPU, and keeps 2 machines" in result.output


def test_a_pool_that_observes_or_whose_class_is_suspended_buys_nothing_after_a_release(money):
    a_pool(money.world, "watching", "box", mode="Observe")
    a_pool(money.world, "buying", "box")
    assert "pool/default/buying: buys a machine" in money.tgp("hold", "--status").output
    money.tgp("hold", "class/box")
    said = money.tgp("hold", "--status").output

    assert "pool/" not in said, said
    report = json.loads(money.tgp("hold", "--status", "-o", "json").output)
    assert report["pendingPurchases"] == []
    money.tgp("hold")
    assert "pool/" not in money.tgp("hold", "--status").output, "tgp release does not release the class"


def waiting(money: MoneyWorld, name: str, reason: str) -> None:
    money.request(name, machine=False)
    said = {"type": "Launched", "status": "False", "reason": reason, "message": "", "observedGeneration": 1}
    money.world.api.local_api.merge_patch(
        GPU_REQUEST,
        "default",
        name,
        {"status": {"phase": "Pending", "conditions": [{**said, "lastTransitionTime": "2026-01-05T09:00:00Z"}]}},
        "status",
    )


def test_who_waits_for_something_else_does_not_buy_at_once(money):
    money.tgp("hold", "audit")
    waiting(money, "typo", "InvalidSpec")
    waiting(money, "cheap", "NoOfferFits")
    waiting(money, "eager", "PurchasesPaused")
    asked = money.tgp("release", typed="n\n")
    done = money.tgp("release", typed="y\n")

    assert "typo" not in asked.output
    assert "request/default/cheap: waits for a machine (NoOfferFits)." in asked.output
    assert "request/default/eager: waits for a machine." in asked.output
    assert "request/default/typo: waits for a machine (InvalidSpec)." in done.output


def test_there_is_no_question_if_nothing_would_buy_at_once(money):
    money.tgp("hold")

    assert money.tgp("release").exit_code == 0
    assert money.hold_text() is None


def test_a_class_that_is_released_under_a_hold_buys_nothing_yet(money):
    money.tgp("hold", "audit")
    money.tgp("hold", "class/box")
    money.request("waiting", machine=False, spec={"nodeClassRef": {"name": "box"}})

    assert money.tgp("release", "class/box").exit_code == 0


def test_programs_read_how_things_stand(money):
    money.request()
    document = json.loads(money.tgp("hold", "audit", "-o", "json").output)

    assert (document["kind"], document["purchasesPaused"], document["reason"]) == ("HoldReport", True, "audit")
    assert document["usdPerHour"] == document["machines"][0]["usdPerHour"] > 0
    assert document["machines"][0]["request"] == "default/train"


def test_a_hold_annotation_written_by_hand_pauses_whatever_it_says(money):
    money.world.api.local_api.merge_patch(
        NAMESPACE, "", "tgp-system", {"metadata": {"annotations": {"tgp.io/hold": ""}}}
    )

    assert "Purchases are paused (no reason given)" in money.tgp("hold", "--status").output


def test_a_reason_cannot_smuggle_anything_into_a_terminal(money):
    money.tgp("hold", "red\x1b[31m\nalert")

    assert "\x1b" not in money.hold_text()


@pytest.mark.parametrize("words", [("release", "box"), ("release", "node/x")])
def test_only_classes_and_everything_can_be_released(money, words):
    assert money.tgp(*words).exit_code == 2


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("class/box", "testing"), "tgp hold class/box"),
        (("pool/ml/big",), "tgp hold class/NAME"),
        (("request/train",), "tgp hold class/NAME"),
    ],
)
def test_who_names_one_thing_does_not_stop_everything(money, words, hint):
    result = money.tgp("hold", *words)

    assert result.exit_code == 2
    assert hint in result.output
    assert money.hold_text() is None
    assert not suspended(money)


def test_a_reason_may_speak_of_anything(money):
    assert money.tgp("hold", "pool/big", "bought", "too", "much").exit_code == 0
    assert money.hold_text().startswith("pool/big bought too much; since ")
    assert money.tgp("hold", "pool/big bought far too much").exit_code == 0


def test_a_class_that_was_not_held_by_itself_is_told_that_everything_is(money):
    money.tgp("hold", "audit")
    result = money.tgp("release", "class/box")

    assert "class/box is not suspended. Purchases are paused since" in " ".join(result.output.split())
    assert "next: tgp release" in result.output


def test_a_person_says_that_a_provider_is_right_and_when(money):
    result = money.tgp("release", "provider/vast.ai")

    assert result.exit_code == 0, result.output
    assert "Provider vast is trusted again" in result.output
    found = money.world.api.local_api.get(NAMESPACE, "", "tgp-system")["metadata"]["annotations"]
    assert found["tgp.io/trust-vast"] in result.output
    assert money.hold_text() is None


def test_an_unknown_provider_is_not_released(money):
    result = money.tgp("release", "provider/vastt")

    assert result.exit_code == 2
    assert "There is no provider 'vastt'" in result.output
