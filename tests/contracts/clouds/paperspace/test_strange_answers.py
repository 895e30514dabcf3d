"""Answers of another server than our simulator: a newer Paperspace, a recorded one, one that means ill."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.paperspace.answers import TOKEN, a_machine, an_order, refusal, reply
from tests.contracts.clouds.providers.paperspace import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tgp.adapters.clouds.paperspace import FACTS, scripts, wire
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.cloud_errors import CannotTell, OrderRefused, OutcomeUnknown
from tgp.core.model.instance import InstanceState
from tgp.core.model.secret import Secret
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudVerb


@pytest.mark.parametrize(
    ("body", "obstacle"),
    [
        ({"isInGoodStanding": True, "messages": []}, ""),
        ({"isInGoodStanding": True, "messages": ["Your card expires soon"]}, ""),
        ({"isInGoodStanding": False, "messages": ["Add a credit card"]}, "Add a credit card"),
        ({"isInGoodStanding": False, "messages": []}, "isInGoodStanding"),
        ({"isInGoodStanding": False, "messages": None}, "isInGoodStanding"),
        ({"isInGoodStanding": False, "messages": [7, "Pay the bill"]}, "Pay the bill"),
        ({"something": False}, ""),
        ([], ""),
    ],
)
def test_the_standing_of_an_account_is_told_in_its_own_words(body: Any, obstacle: str):
    assert wire.read_standing(reply(200, body)) == obstacle


def test_user_data_beyond_the_limit_is_refused_with_the_limit_and_nothing_is_sent():
    async def script(stage: Stage) -> None:
        order = await stage.order(user_data=b"x" * (FACTS.user_data_bytes + 1))
        error = await stage.raises(OrderRefused, stage.cloud.launch(order))

        assert str(FACTS.user_data_bytes) in str(error)
        assert [call.method for _, call in stage.calls if call.changes_things] == []

    play(PROVIDER, script)


def test_an_end_is_taken_on_only_where_the_machine_itself_is_named():
    ending = {"event": {"id": "e1", "name": "deactivate", "machineId": "ps3kd81ma"}}

    assert wire.read_terminate(reply(200, {"data": a_machine(), **ending}), "ps3kd81ma") is None
    assert wire.read_terminate(reply(200, {"data": None, **ending}), "ps3kd81ma") is None
    for other in ({"data": a_machine(id="psother1")}, {"data": a_machine(id=None)}, {}):
        assert type(wire.read_terminate(reply(200, other), "ps3kd81ma")) is OutcomeUnknown


@pytest.mark.parametrize(
    "more",
    [
        {"details": [{"machineId": "ps3kd81ma"}]},
        {"details": {"machine": {"id": "ps3kd81ma"}}},
        {"details": {"cause": {"machineId": "ps3kd81ma"}}},
        {"issues": [{"message": "no", "machineId": "ps3kd81ma"}]},
        {"data": {"machine": {"id": "ps3kd81ma"}}},
    ],
)
def test_an_id_is_a_machine_wherever_an_error_names_it(more: dict[str, Any]):
    with pytest.raises(OutcomeUnknown) as caught:
        wire.read_launch(refusal(400, "BAD_REQUEST", "Input validation failed", **more), an_order())

    assert caught.value.instance_id == "ps3kd81ma"


def test_a_refusal_that_speaks_of_a_machine_is_not_definite():
    """In plain words an id is not enough to act on, and too much to believe that nothing was made."""
    with pytest.raises(OutcomeUnknown) as caught:
        wire.read_launch(refusal(412, "PRECONDITION_FAILED", "machine ps3kd81ma: out of capacity"), an_order())

    assert caught.value.instance_id == ""


def test_our_own_words_in_a_refusal_are_no_machine():
    order = an_order(image="ps0image00")
    with pytest.raises(OrderRefused):
        wire.read_launch(refusal(404, "NOT_FOUND", f"{TOKEN}: template ps0image00 not found"), order)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([("create", "error", 1), ("start", "done", 2), ("stop", "done", 3)], ""),
        ([("stop", "done", 3), ("start", "done", 2), ("create", "error", 1)], ""),
        ([("create", "done", 1), ("start", "error", 2)], "no host"),
        ([("start", "error", 2), ("create", "done", 1)], "no host"),
        ([("create", "done", 1), ("restart", "error", 2)], "no host"),
        ([("create", "error", None)], "no host"),
    ],
)
def test_the_last_start_tells_whether_a_machine_that_is_off_has_failed(events: list[Any], why: str):
    """A user may have started and stopped it again since: then it is stopped, not broken."""
    rows = tuple(
        {
            "name": name,
            "state": state,
            "machineId": "ps1",
            "error": "no host" if state == "error" else None,
            "dtCreated": f"2026-06-01T12:0{minute}:00.000Z" if minute else None,
        }
        for name, state, minute in events
    )

    assert wire.failed_start(rows, "ps1") == why


def test_an_unreadable_foreign_row_hides_no_machine():
    (ours,) = wire.read_machines([{"id": None, "name": "theirs"}, a_machine()])

    assert ours.token == TOKEN


@pytest.mark.parametrize("row", [{"id": None, "name": TOKEN}, {"id": None, "name": None}, {"id": None}, {}, None, 7])
def test_a_row_that_may_be_ours_and_cannot_be_read_spoils_the_list(row: Any):
    with pytest.raises(CannotTell):
        wire.read_machines([a_machine(), row])


@pytest.mark.parametrize(
    "field", ["publicIp", "privateIp", "usageRate", "storageRate", "machineType", "region", "dtCreated", "state"]
)
def test_null_is_taken_for_every_field_but_id_and_name(field: str):
    (machine,) = wire.read_machines([a_machine(**{field: None})])

    assert machine.token == TOKEN


def test_unknown_fields_and_states_are_taken_as_they_are():
    (machine,) = wire.read_machines([a_machine(state="hibernating", tags=[{"x": 1}], usageRate="0.9512")])

    assert (machine.state, machine.said) == (InstanceState.UNKNOWN, "hibernating")
    assert machine.hourly_microusd == 951_200  # above the offer, and told


@pytest.mark.parametrize("path", ["/v1", "/v1/", "", "/"])
def test_the_address_may_be_told_with_the_version_or_without(path: str):
    """The vendor writes its base with `/v1`, and so does its own client."""

    def settings(url: str) -> ProviderSettings:
        return ProviderSettings(endpoint=url + path)

    async def script(stage: Stage) -> None:
        made = await stage.launched()
        assert await stage.cloud.status(made.id) is not None
        assert {call.path.split("/")[1] for _, call in stage.calls} == {"v1"}
        assert not [call.path for _, call in stage.calls if call.path.startswith("/v1/v1")]

    play(replace(PROVIDER, settings=settings), script)


def test_a_full_last_page_with_an_empty_one_behind_it_is_a_whole_list():
    async def script(stage: Stage) -> None:
        await stage.launched()
        full = {"items": [a_machine(id=f"ps{n:07d}", name=f"x{n}") for n in range(120)], "hasMore": True}
        stage.instead(CloudVerb.LIST, 200, msgspec.json.encode({**full, "nextPage": "c"}))
        stage.instead(CloudVerb.LIST, 200, b'{"items": [], "hasMore": false}')

        assert await stage.cloud.owned(stage.prefix) == ()

    play(PROVIDER, script)


def test_a_script_that_is_deleted_is_not_deleted_again():
    gone = {"id": "su1", "name": TOKEN, "assignedMachineIds": [], "dtDeleted": "2026-06-01T12:00:00.000Z"}

    assert scripts.read((gone,)) == ()


NOT_FOUND = b'{"code": "NOT_FOUND", "message": "Not found"}'


def test_a_machine_that_is_not_found_by_its_id_and_listed_is_not_gone():
    """The body of a 404 is not published, and an unknown path has the same: the list decides."""

    async def script(stage: Stage) -> None:
        made = await stage.launched()
        stage.instead(CloudVerb.STATUS, 404, NOT_FOUND)
        seen = await stage.cloud.status(made.id)

        assert seen is not None
        assert (seen.id, seen.token) == (made.id, stage.token())

    play(PROVIDER, script)


def test_a_server_that_knows_no_path_shows_no_machine_absent():
    async def script(stage: Stage) -> None:
        made = await stage.launched()
        stage.instead(CloudVerb.STATUS, 404, NOT_FOUND)
        stage.instead(CloudVerb.LIST, 404, NOT_FOUND)

        await stage.raises(CannotTell, stage.cloud.status(made.id))

    play(PROVIDER, script)


def test_neither_the_standing_nor_an_event_tells_the_key():
    key = Secret("ps0secret0key")
    standing = reply(200, {"isInGoodStanding": False, "messages": ["ps0secret0key is overdue"]})
    event = {"name": "create", "state": "error", "machineId": None, "error": "ps0secret0key has no host"}

    assert wire.read_standing(standing, key) == "*** is overdue"
    assert wire.failed_start((event,), "ps1", key) == "*** has no host"


def test_a_machine_is_found_by_its_token_however_the_server_reads_a_filter():
    """What `name=` compares is not published. A machine that a filter leaves out would be bought a second time."""

    async def script(stage: Stage) -> None:
        made = await stage.launched()
        unfiltered = stage.simulator.route

        def route(call: Call, verb: CloudVerb, tenant: Tenant | None) -> Reply:
            if call.parameter("name"):
                return reply(200, {"items": [], "hasMore": False, "nextPage": None})
            return unfiltered(call, verb, tenant)

        stage.simulator.route = route

        assert [each.id for each in await stage.cloud.find(stage.token())] == [made.id]

    play(PROVIDER, script)
