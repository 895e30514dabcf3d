"""Answers that our simulator never gives and a real server might: pages in odd places, nulls, refusals of an end."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.contracts.clouds.gcp.gcp_stage import (
    PROJECT,
    TOKEN,
    ZONE,
    a_failure,
    a_reply,
    an_error,
    an_operation,
    played,
)
from tests.contracts.clouds.gcp.test_looking import MACHINE, a_list, a_row
from tests.contracts.clouds.stage import JSON, Stage
from tgp.adapters.clouds.gcp import wire
from tgp.adapters.clouds.gcp.catalogue import catalogue
from tgp.adapters.clouds.gcp.names import labels
from tgp.adapters.clouds.gcp.offers import PriceReader
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, KeyRefused
from tgp.core.model.instance import InstanceState
from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.gcp import GcpSimulator
from tgp.sim.clouds.machine import Phase

GONE = an_error(404, "notFound", f"The resource 'projects/p/zones/{ZONE}/instances/{TOKEN}' was not found")


def operations(*rows: dict[str, Any], **changes: Any) -> Reply:
    return a_reply({"kind": "compute#operationList", "items": list(rows)} | changes)


def test_operations_go_on_where_a_page_says_so():
    """Google filters after it pages: an empty page with a next one proves nothing."""
    for empty in (operations(nextPageToken="abc"), a_reply({"kind": "compute#operationList", "nextPageToken": "abc"})):
        assert (wire.read_making(empty, MACHINE), wire.goes_on(empty)) == (None, "abc")
    assert ("pageToken", "abc") in wire.operations(PROJECT, MACHINE, "abc").query


def test_a_making_on_the_second_page_is_found_by_status():
    async def script(stage: Stage, simulator: GcpSimulator) -> None:
        simulator.late_errors = True
        order = await stage.order()
        simulator.faults.aim(CloudFault.SOLD_OUT, CloudVerb.LAUNCH)
        made = await stage.cloud.launch(order)
        stage.rewrite(CloudVerb.OTHER, _first_page_is_empty())

        seen = await stage.cloud.status(made.id)

        assert seen is not None
        assert seen.state is InstanceState.STARTING

    played(script)


def test_operations_without_an_end_do_not_make_a_machine_absent():
    async def script(stage: Stage, _simulator: GcpSimulator) -> None:
        await stage.cloud.identity()
        stage.rewrite(CloudVerb.OTHER, lambda _reply: operations(nextPageToken="abc"))
        await stage.raises(CannotTell, stage.cloud.status(f"{ZONE}:{stage.token()}"))

    played(script)


def _first_page_is_empty() -> Callable[[Reply], Reply]:
    asked: list[Reply] = []

    def answer(reply: Reply) -> Reply:
        asked.append(reply)
        return operations(nextPageToken="YmVnaW49MA==") if len(asked) == 1 else reply

    return answer


def test_the_making_of_another_machine_is_not_ours():
    """A server that knows no filter lists all machines."""
    other = an_operation(targetLink=f"https://x/projects/p/zones/{ZONE}/instances/another-owners")

    assert wire.read_making(operations(other), MACHINE) is None
    assert wire.read_making(operations(other, an_operation()), MACHINE) is not None


@pytest.mark.parametrize(
    "odd", [{"creationTimestamp": []}, {"creationTimestamp": {}}, {"creationTimestamp": "yesterday"}]
)
def test_a_moment_that_cannot_be_read_hides_no_machine(odd: dict[str, Any]):
    (machine,), _ = wire.read_instances(a_list(a_row(**odd)))

    assert (machine.id, machine.created_at) == (MACHINE, None)


def test_a_machine_with_nothing_but_name_and_zone_is_a_machine():
    bare = dict.fromkeys(a_row()) | {"name": TOKEN, "zone": a_row()["zone"], "brandNew": [1]}
    (machine,), _ = wire.read_instances(a_list(bare))

    assert (machine.id, machine.state, machine.spot) == (MACHINE, InstanceState.UNKNOWN, False)


def test_null_means_that_a_list_ends():
    machines, after = wire.read_instances(a_list(a_row(), nextPageToken=None, unreachables=None, warning=None))

    assert (len(machines), after) == (1, "")


def test_a_machine_type_may_be_silent_about_what_is_optional():
    row = {
        "name": "n1-standard-8", "guestCpus": 8, "memoryMb": 30720, "accelerators": None, "architecture": None,
        "deprecated": None, "brandNew": {},
    }  # fmt: skip
    shop = PriceReader(catalogue(), {})
    shop.take_machine_types([(f"zones/{ZONE}", row)])
    shop.take_accelerators([(f"zones/{ZONE}", {"name": "nvidia-tesla-t4", "maximumCardsPerInstance": None})])

    assert {offer.gpu for offer in shop.listing().offers} == {"T4"}
    assert "bad shape" not in shop.dropped


@pytest.mark.parametrize(
    "answer",
    [
        an_error(400, "badRequest", "deletion protection is on"),
        an_error(412, "conditionNotMet"),
        a_reply(a_failure("INVALID_USAGE", operationType="delete")),
        an_error(403, "quotaExceeded", "Queries per minute"),
    ],
)
def test_an_end_that_is_refused_is_asked_for_again(answer: Reply):
    """A refusal of an order ends the asking; here the machine would cost on."""

    async def script(stage: Stage, _simulator: GcpSimulator) -> None:
        made = await stage.launched()
        stage.instead(CloudVerb.TERMINATE, answer.status, answer.content, JSON)

        await stage.raises(CloudBusy, stage.cloud.terminate(made.id))
        assert stage.machine().phase is not Phase.ENDING

    played(script)


def test_an_end_without_the_right_to_it_is_still_the_keys_fault():
    async def script(stage: Stage, _simulator: GcpSimulator) -> None:
        made = await stage.launched()
        stage.instead(CloudVerb.TERMINATE, 403, an_error(403, "forbidden").content, JSON)
        await stage.raises(KeyRefused, stage.cloud.terminate(made.id))

    played(script)


def test_no_tag_is_lost_for_the_letter_it_begins_with():
    made = labels((("1st", "x"), ("_hidden", "y"), ("Größe", "z")), TOKEN)

    assert made == {"tag-1st": "x", "tag-_hidden": "y", "gr--e": "z", "tgp-token": TOKEN}


def test_a_404_of_this_machine_and_no_making_of_it_is_an_absence():
    assert wire.read_instance(GONE, MACHINE) is None
    assert wire.read_making(a_reply({"kind": "compute#operationList", "items": None}), MACHINE) is None
