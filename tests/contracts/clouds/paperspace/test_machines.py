"""Machines as instances, templates, and the order itself."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.paperspace.answers import PLACE, TOKEN, a_machine, an_order, refusal, reply
from tgp.adapters.clouds.paperspace import templates, wire
from tgp.core.model.cloud_errors import CannotTell, KeyRefused
from tgp.core.model.instance import Instance, InstanceState
from tgp.ports.cloud import Account
from tgp.ports.http import Reply


def read(**changes: Any) -> Instance:
    (one,) = wire.read_machines([a_machine(**changes)])
    return one


def test_a_machine_says_all_that_is_asked():
    assert read() == Instance(
        id="ps3kd81ma",
        token=TOKEN,
        state=InstanceState.RUNNING,
        said="ready",
        sku="A4000",
        place=PLACE,
        hourly_microusd=760_000,
        created_at=datetime(2026, 6, 1, 12, tzinfo=UTC),
        public_ip="203.0.113.9",
        private_ip="10.19.0.4",
    )


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ("off", InstanceState.STOPPED),
        ("stopping", InstanceState.STOPPED),
        ("provisioning", InstanceState.STARTING),
        ("starting", InstanceState.STARTING),
        ("restarting", InstanceState.STARTING),
        ("upgrading", InstanceState.STARTING),
        ("serviceready", InstanceState.RUNNING),
        ("ready", InstanceState.RUNNING),
        ("pondering", InstanceState.UNKNOWN),
        (None, InstanceState.UNKNOWN),
    ],
)
def test_every_state_is_still_ours(told: Any, state: InstanceState):
    """An earlier version took `off` for gone, and forgot machines that were paid for."""
    assert read(state=told).state is state


def test_a_machine_that_is_off_does_not_claim_its_hourly_rate():
    assert read(state="off").hourly_microusd is None


def test_a_machine_with_a_date_of_deletion_is_ending_until_it_is_no_longer_listed():
    assert read(dtDeleted="2026-06-01T13:00:00.000Z").state is InstanceState.ENDING


@pytest.mark.parametrize("changes", [{"id": None}, {"id": "a/b"}, {"name": None}, {"name": 7}])
def test_a_row_that_cannot_be_read_may_be_ours(changes: dict[str, Any]):
    with pytest.raises(CannotTell):
        read(**changes)


def test_a_row_that_two_pages_show_is_one_machine():
    assert len(wire.read_machines([a_machine(), a_machine()])) == 1


def test_another_machine_than_the_one_asked_for_proves_nothing():
    with pytest.raises(CannotTell):
        wire.read_machine(reply(200, a_machine()), "another")


def test_the_order_switches_off_what_costs_or_tells():
    call = wire.launch(an_order(), "t0nspur5", "su1", nvlink=True)

    assert (call.method, call.path) == ("POST", "/v1/machines")
    assert msgspec.json.decode(call.body) == {
        "name": TOKEN,
        "machineType": "A4000",
        "templateId": "t0nspur5",
        "region": PLACE,
        "diskSize": 100,
        "publicIpType": "dynamic",
        "startOnCreate": True,
        "emailPassword": False,
        "autoShutdownEnabled": False,
        "autoSnapshotEnabled": False,
        "restorePointEnabled": False,
        "takeInitialSnapshot": False,
        "enableNvlink": True,
        "startupScriptId": "su1",
    }


def test_an_answer_with_an_id_is_a_machine_whatever_else_it_lacks():
    made = wire.read_launch(reply(200, {"data": {"id": "ps3kd81ma"}, "event": {"id": "e1"}}), an_order())

    assert (made.id, made.token, made.state) == ("ps3kd81ma", TOKEN, InstanceState.STARTING)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"name": "create", "state": "error", "machineId": "ps1", "error": "out of capacity"}, "out of capacity"),
        ({"name": "start", "state": "error", "machineId": "ps1", "error": None}, "the machine failed to start"),
        ({"name": "create", "state": "done", "machineId": "ps1", "error": None}, ""),
        ({"name": "stop", "state": "error", "machineId": "ps1", "error": "x"}, ""),
        ({"name": "create", "state": "error", "machineId": "ps2", "error": "x"}, ""),
        (None, ""),
    ],
)
def test_events_tell_why_a_machine_is_off(event: Any, why: str):
    assert wire.failed_start((event,), "ps1") == why


def a_template(template: str, label: str, *types: str, **more: Any) -> dict[str, Any]:
    fitting = [{"machineTypeLabel": each, "isAvailable": True} for each in types]
    return {"id": template, "name": label, "operatingSystemLabel": label, "availableMachineTypes": fitting, **more}


LISTED = templates.read(
    (
        a_template("told", "Ubuntu 20.04", "A4000", "V100"),
        a_template("tnew", "Ubuntu 22.04", "A4000", "H100"),
        a_template("twin", "Windows 11", "P4000"),
        a_template("tno", "Ubuntu 24.04", availableMachineTypes=[{"machineTypeLabel": "A4000", "isAvailable": False}]),
        {"id": "todd"},
        None,
    )
)


@pytest.mark.parametrize(
    ("machine_type", "chosen", "template"),
    [
        ("A4000", "", "tnew"),
        ("V100", "", "told"),
        ("P4000", "", ""),
        ("A4000", "told", "told"),
        ("H100", "told", ""),
        ("H100", "tmine-custom", "tmine-custom"),
    ],
)
def test_the_newest_ubuntu_that_fits_is_taken_unless_the_class_chose(machine_type: str, chosen: str, template: str):
    assert templates.best_for(machine_type, LISTED, chosen) == template


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply(200, None), KeyRefused),
        (refusal(401, "UNAUTHORIZED", "Invalid API key"), KeyRefused),
        (reply(200, {}), CannotTell),
        (reply(200, {"team": {"handle": "x"}}), CannotTell),
        (Reply(200, b""), CannotTell),
    ],
)
def test_a_session_without_a_user_is_no_account(answer: Reply, error: type[Exception]):
    with pytest.raises(error):
        wire.read_session(answer)


def test_the_team_that_pays_is_the_account():
    session = reply(200, {"team": {"id": 184467, "handle": "blue", "namespace": "n"}, "user": {"id": 1}})

    assert wire.read_session(session) == Account("team:184467", "blue")
