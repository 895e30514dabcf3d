"""Answers that our own simulator never gives: the adapter believes no more of them than they prove."""

from decimal import Decimal
from typing import Any

import pytest

from tests.contracts.clouds.providers.vast import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tests.contracts.clouds.vast.answers import NOW, a_machine, an_offer, an_order, refused, reply
from tgp.adapters.clouds.vast import wire, wire_launch, wire_offers
from tgp.core.model.cloud_errors import CannotTell, KeyRefused, OrderRefused, OutcomeUnknown
from tgp.ports.cloud import Container
from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudVerb


def on_stage(script):
    """Play the test on a stage of its own, in virtual time."""

    def test():
        play(PROVIDER, script)

    test.__name__, test.__doc__ = script.__name__, script.__doc__
    return test


def lists(stage: Stage, *pages: Reply) -> None:
    """The list answers so, in turn."""
    for page in pages:
        stage.instead(CloudVerb.LIST, page.status, page.content)


# -- the list ----------------------------------------------------------------------------------------------------------


def a_page(rows: list[dict[str, Any]], token: str | None, total: Any) -> Reply:
    return reply({"success": True, "instances": rows, "next_token": token, "total_instances": total})


@on_stage
async def test_a_machine_listed_twice_does_not_stand_for_one_that_is_missing(stage: Stage):
    """Three rows of an account of three, two of them the same: one machine was not shown, and it may be ours."""
    first, again = a_machine(id=1), a_machine(id=2)
    lists(stage, a_page([first, again], "on", 3), a_page([again], None, 3))

    failure = await stage.raises(CannotTell, stage.cloud.owned("tgp-"))
    assert "2 of 3 machines" in str(failure)


@on_stage
async def test_a_machine_listed_twice_is_one_machine(stage: Stage):
    lists(stage, a_page([a_machine(id=1), a_machine(id=2)], "on", 2), a_page([a_machine(id=2)], None, 2))

    assert [machine.id for machine in await stage.cloud.owned("tgp-")] == ["1", "2"]


@on_stage
async def test_strangers_that_cannot_be_read_are_counted_all_the_same(stage: Stage):
    strange = {"label": "another-owners", "id": "?"}
    lists(stage, a_page([a_machine(id=1), strange, strange], None, 3))

    assert [machine.id for machine in await stage.cloud.owned("tgp-")] == ["1"]


@pytest.mark.parametrize("success", [None, "false", 0, 1, "true", {}], ids=repr)
def test_a_list_whose_success_is_no_plain_yes_proves_nothing(success):
    with pytest.raises(CannotTell):
        wire.read_page(reply({"success": success, "instances": [], "total_instances": 0}), NOW)
    with pytest.raises(CannotTell):
        wire.read_status(reply({"success": success, "instances": None}), "312", NOW)


def test_a_total_told_as_text_counts():
    assert wire.read_page(a_page([], None, "7"), NOW).total == 7


@pytest.mark.parametrize("total", ["many", -1, 1.5, True, [7]], ids=repr)
def test_a_total_that_is_none_makes_the_list_worthless(total):
    """It is there to be counted by; what cannot be counted cannot be whole."""
    with pytest.raises(CannotTell):
        wire.read_page(a_page([], None, total), NOW)


@pytest.mark.parametrize(
    "body",
    [
        {"success": False, "offers": []},
        {"success": None, "offers": []},
        {"error": "server_busy", "msg": "try later", "offers": []},
    ],
    ids=["no success", "no plain yes", "an error"],
)
def test_a_market_that_comes_with_an_error_is_no_empty_market(body):
    with pytest.raises(CannotTell):
        wire_offers.read_page(reply(body), 0, NOW)


# -- the order ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        reply([{"success": False, "new_contract": 4242}], 429),
        refused(400, "invalid_args", result={"new_contract": 4242}),
        refused(410, "no_such_ask", results=[{"success": False}, {"new_contract": 4242}]),
        refused(401, "auth_error", data={"instance": {"instance_id": "4242"}}),
    ],
)
def test_a_machine_is_seen_wherever_in_the_answer_it_is_named(answer):
    with pytest.raises(OutcomeUnknown) as unknown:
        wire_launch.read_launch(answer, an_order(), NOW)

    assert unknown.value.instance_id == "4242"


@pytest.mark.parametrize("number", ["new-4242", -4242, 4242.5, [4242], {"a": "b"}, True], ids=repr)
@pytest.mark.parametrize("status", [400, 401, 410, 429])
def test_an_error_that_names_a_machine_illegibly_is_no_refusal(status, number):
    """Something was made, under a number that cannot be read: the token will find it."""
    with pytest.raises(OutcomeUnknown) as unknown:
        wire_launch.read_launch(refused(status, "no_such_ask", new_contract=number), an_order(), NOW)

    assert unknown.value.instance_id == ""


def test_a_virtual_machine_of_a_repository_that_only_begins_alike_never_leaves():
    """Vast would make a container of it, silently."""
    order = an_order(offer=an_offer(sku="12345678:vm"), container=Container("docker.io/vastai/kvm-of-mine:1"))

    with pytest.raises(OrderRefused, match=r"docker\.io/vastai/kvm"):
        wire_launch.launch(order, None)


@pytest.mark.parametrize(
    "image", ["docker.io/vastai/kvm", "docker.io/vastai/kvm:tag", "docker.io/vastai/kvm@sha256:ab"]
)
def test_a_virtual_machine_of_the_repository_itself_is_ordered(image):
    order = an_order(offer=an_offer(sku="12345678:vm"), container=Container(image))

    assert image.encode() in wire_launch.launch(order, None).body


def test_a_command_for_a_virtual_machine_is_refused_and_not_forgotten():
    """It boots its own system: a command would be dropped in silence, and the machine paid for doing nothing."""
    order = an_order(offer=an_offer(sku="12345678:vm"), container=Container("docker.io/vastai/kvm", command=("serve",)))

    with pytest.raises(OrderRefused, match="command"):
        wire_launch.launch(order, None)


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_a_wrong_key_told_in_plain_text_is_a_wrong_key():
    """Some endpoints answer plain text, and a wrong key comes as 404."""
    with pytest.raises(KeyRefused):
        wire.read_page(Reply(404, b"Invalid user key\n", (("Content-Type", "text/plain"),)), NOW)


@pytest.mark.parametrize("kind", ["text/html", ""])
def test_a_page_that_speaks_of_sessions_says_nothing_about_the_key(kind):
    with pytest.raises(CannotTell):
        wire.read_page(Reply(404, b"<html>session expired</html>", (("Content-Type", kind),)), NOW)


def test_a_gateways_not_found_is_no_end():
    """Some gateways answer in plain text, in Vast's very words; the machine was not looked up."""
    answer = Reply(404, b"The page could not be found\n\nNOT_FOUND\n", (("Content-Type", "text/plain"),))

    with pytest.raises(OutcomeUnknown):
        wire.read_terminate(answer, "312", NOW)


def test_a_price_in_text_is_read_as_one():
    """Some answers carry decimals as text; a bill is a bill."""
    machine = wire.machine(a_machine(dph_total="0.66"))

    assert machine.hourly_microusd == int(Decimal("0.66") * 1_000_000)
