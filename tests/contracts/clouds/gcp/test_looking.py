"""Lists count only when they are whole; a machine is called absent only when Google says so of that very machine."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.contracts.clouds.gcp.gcp_stage import TOKEN, ZONE, a_failure, a_reply, an_error, an_operation, played
from tests.contracts.clouds.stage import JSON, Stage
from tgp.adapters.clouds.gcp import wire
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, KeyRefused, OutcomeUnknown
from tgp.core.model.instance import InstanceState
from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.gcp import GcpSimulator
from tgp.sim.clouds.machine import Phase

MACHINE = f"{ZONE}:{TOKEN}"
NOTHING: dict[str, Any] = {"warning": {"code": "NO_RESULTS_ON_PAGE"}}


def a_row(**changes: Any) -> dict[str, Any]:
    row = {
        "name": TOKEN,
        "zone": f"https://www.googleapis.com/compute/v1/projects/p/zones/{ZONE}",
        "status": "RUNNING",
        "creationTimestamp": "2026-11-15T01:02:03.456-08:00",
        "machineType": f"https://www.googleapis.com/compute/v1/projects/p/zones/{ZONE}/machineTypes/g2-standard-4",
        "labels": {"tgp-token": TOKEN},
        "scheduling": {"provisioningModel": "SPOT"},
        "networkInterfaces": [{"networkIP": "10.0.0.2", "accessConfigs": [{"natIP": "203.0.113.9"}]}],
    }
    return row | changes


def a_list(*rows: Any, **changes: Any) -> Reply:
    here = {"instances": list(rows)} if rows else NOTHING
    body = {"kind": "compute#instanceAggregatedList", "items": {f"zones/{ZONE}": here, "zones/x-y1-a": NOTHING}}
    return a_reply(body | changes)


def test_a_row_is_read_whole():
    (machine,), after = wire.read_instances(a_list(a_row()))

    assert (machine.id, machine.token, machine.state, after) == (MACHINE, TOKEN, InstanceState.RUNNING, "")
    assert (machine.sku, machine.place, machine.spot, machine.interrupted) == ("g2-standard-4", ZONE, True, False)
    assert (machine.public_ip, machine.private_ip) == ("203.0.113.9", "10.0.0.2")
    assert machine.created_at is not None
    assert machine.created_at.isoformat() == "2026-11-15T09:02:03.456000+00:00"
    assert machine.hourly_microusd is None


@pytest.mark.parametrize(
    ("status", "ends"),
    [
        ({}, None),
        ({"scheduling": {"terminationTimestamp": "2026-11-16T01:00:00.000-08:00"}}, "2026-11-16T09:00:00+00:00"),
        ({"upcomingMaintenance": {"windowStartTime": "2026-11-15T12:00:00Z"}}, "2026-11-15T12:00:00+00:00"),
        (
            {
                "scheduling": {"terminationTimestamp": "2026-11-16T09:00:00Z"},
                "upcomingMaintenance": {"windowStartTime": "2026-11-15T12:00:00Z"},
            },
            "2026-11-15T12:00:00+00:00",
        ),
        ({"upcomingMaintenance": ["soon"], "scheduling": {"terminationTimestamp": {"at": 7}}}, None),
        ("odd", None),
    ],
)
def test_an_end_is_read_from_the_run_and_from_the_hosts_maintenance(status, ends):
    (machine,), _ = wire.read_instances(a_list(a_row(resourceStatus=status)))

    assert (machine.ends_at.isoformat() if machine.ends_at is not None else None) == ends


def test_a_users_copy_of_our_machine_is_not_ours():
    """The console copies labels along; the name is another, and names alone say whose a machine is."""
    (machine,), _ = wire.read_instances(a_list(a_row(name="my-experiment")))

    assert machine.token == "my-experiment"


def test_attached_gpus_are_part_of_what_was_ordered():
    cards = [{"acceleratorType": "https://x/zones/z/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 2}]
    kind = "https://x/zones/z/machineTypes/n1-standard-8"
    (machine,), _ = wire.read_instances(a_list(a_row(machineType=kind, guestAccelerators=cards)))

    assert machine.sku == "n1-standard-8+2x-nvidia-tesla-t4"


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("PROVISIONING", InstanceState.STARTING),
        ("STAGING", InstanceState.STARTING),
        ("RUNNING", InstanceState.RUNNING),
        ("STOPPING", InstanceState.ENDING),
        ("STOPPED", InstanceState.STOPPED),
        ("TERMINATED", InstanceState.STOPPED),
        ("SUSPENDED", InstanceState.STOPPED),
        ("REPAIRING", InstanceState.BROKEN),
        ("BRAND_NEW", InstanceState.UNKNOWN),
        (None, InstanceState.UNKNOWN),
    ],
)
def test_terminated_is_googles_word_for_stopped(said: str | None, state: InstanceState):
    """Its disk is still billed: such a machine is ours until it is deleted."""
    (machine,), _ = wire.read_instances(a_list(a_row(status=said)))

    assert machine.state is state
    assert machine.interrupted is (state is InstanceState.STOPPED)


@pytest.mark.parametrize(
    "reply",
    [
        a_list(unreachables=["zones/us-east1-b"]),
        a_list(warning={"code": "UNREACHABLE"}),
        a_list(warning="odd"),
        a_list(items={}),
        a_list(items=None),
        a_list(items=[]),
        a_list(items={"zones/x-y1-a": {"warning": {"code": "UNREACHABLE"}}}),
        a_list(items={"zones/x-y1-a": {}}),
        a_list(items={"zones/x-y1-a": {"instances": {}}}),
        a_list(items={"zones/x-y1-a": None}),
        a_list(kind="compute#instanceList"),
        a_list(nextPageToken=7),
        a_list(a_row(name=None)),
        a_list(a_row(name="../../x")),
        a_list(a_row(zone=None)),
        a_list("text"),
        a_list(*([a_row()] * 501)),
        a_reply({}),
        a_reply([]),
        Reply(200, b""),
        Reply(200, b"<html>"),
        Reply(404, b"<html>"),
        an_error(410, "gone"),
        an_error(400, "invalid"),
        an_error(404, "notFound", "The resource 'projects/p' was not found"),
    ],
)
def test_a_list_that_is_not_whole_proves_nothing(reply: Reply):
    with pytest.raises(CannotTell):
        wire.read_instances(reply)


@pytest.mark.parametrize(
    "row", [a_row(machineType=7), a_row(networkInterfaces="x"), a_row(scheduling=[], status=[]), a_row(labels=[7])]
)
def test_a_row_that_is_odd_where_nothing_is_owed_to_it_is_still_a_machine(row: dict[str, Any]):
    assert wire.read_instances(a_list(row))[0][0].id == MACHINE


def test_zones_that_cannot_be_reached_make_the_whole_list_fail():
    """Partial success is not asked for, so Google answers with an error."""

    async def script(stage: Stage, simulator: GcpSimulator) -> None:
        await stage.launched()
        simulator.unreachable.add("europe-west4-a")

        await stage.raises(CloudBusy, stage.cloud.owned(stage.prefix))
        await stage.raises(CloudBusy, stage.cloud.offers())

    played(script)


def test_a_sold_out_zone_that_accepts_the_order_is_found_out_by_status():
    """Google says yes first. While the operation runs the machine is on its way; when it failed, there is none."""

    async def script(stage: Stage, simulator: GcpSimulator) -> None:
        order = await stage.order()
        simulator.late_errors = True
        simulator.faults.aim(CloudFault.SOLD_OUT, CloudVerb.LAUNCH)
        made = await stage.cloud.launch(order)

        on_its_way = await stage.cloud.status(made.id)
        assert on_its_way is not None
        assert (on_its_way.state, on_its_way.token) == (InstanceState.STARTING, order.token)
        await asyncio.sleep(6)
        assert await stage.cloud.status(made.id) is None
        assert await stage.cloud.find(order.token) == ()

    played(script)


def test_a_machine_that_lists_lag_behind_is_not_called_absent_while_it_is_made():
    async def script(stage: Stage, simulator: GcpSimulator) -> None:
        simulator.operation_takes = timedelta(seconds=600)
        order = await stage.order()
        simulator.faults.aim(CloudFault.LIST_LAGS, CloudVerb.LAUNCH)
        made = await stage.cloud.launch(order)
        await stage.settle()

        seen = await stage.cloud.status(made.id)
        assert seen is not None
        assert seen.state is InstanceState.STARTING

    played(script)


@pytest.mark.parametrize(
    "reply",
    [
        a_reply({"kind": "compute#operationList", "items": {}}),
        a_reply({"kind": "compute#operationList", "items": ["x"]}),
        a_reply({"kind": "compute#operationList", "warning": {"code": "UNREACHABLE"}}),
        a_reply({}),
        Reply(200, b"<html>"),
        an_error(404, "notFound"),
    ],
)
def test_operations_that_cannot_be_read_do_not_make_a_machine_absent(reply: Reply):
    with pytest.raises(CannotTell):
        wire.read_making(reply, MACHINE)


def test_only_a_making_under_way_counts():
    def made(*operations: dict[str, Any]) -> Any:
        return wire.read_making(a_reply({"kind": "compute#operationList", "items": list(operations)}), MACHINE)

    assert made() is None
    assert made(an_operation(status="DONE")) is None
    assert made(a_failure("QUOTA_EXCEEDED")) is None
    assert made(an_operation(operationType="delete")) is None
    assert made(an_operation(status="DONE"), an_operation(status="PENDING")).state is InstanceState.STARTING


@pytest.mark.parametrize("words", ["The resource was not found", "The resource 'projects/p' was not found"])
def test_a_404_in_other_words_is_checked_against_the_whole_list(words: str):
    """A project that is not found says nothing about a machine."""

    async def script(stage: Stage, _simulator: GcpSimulator) -> None:
        made = await stage.launched()
        stage.instead(CloudVerb.STATUS, 404, an_error(404, "notFound", words).content)
        seen = await stage.cloud.status(made.id)
        assert seen is not None

        stage.instead(CloudVerb.TERMINATE, 404, an_error(404, "notFound", words).content, JSON)
        await stage.raises(OutcomeUnknown, stage.cloud.terminate(made.id))
        assert stage.machine().phase is not Phase.ENDING

    played(script)


@pytest.mark.parametrize(
    "odd", ["", "x", ":", "us-central1-a:", ":x", "us-central1-a:../x", "us-central1-a:a:b", "US:x", "a/b:c", "a:b\n"]
)
def test_an_id_that_is_none_is_never_sent(odd: str):
    async def script(stage: Stage, _simulator: GcpSimulator) -> None:
        await stage.cloud.identity()
        before = len(stage.calls)
        await stage.raises(CannotTell, stage.cloud.status(odd))
        await stage.raises(CannotTell, stage.cloud.terminate(odd))
        assert len(stage.calls) == before

    played(script)


def test_another_projects_key_is_refused_for_ours():
    """Replacing the key of a class cannot make its machines look gone."""

    async def script(stage: Stage, simulator: GcpSimulator) -> None:
        await stage.launched()
        simulator.faults.aim(CloudFault.OTHER_ACCOUNT, CloudVerb.LIST)

        await stage.raises(KeyRefused, stage.cloud.find(stage.token()))
        await stage.raises(KeyRefused, stage.cloud.identity())

    played(script)


def test_an_order_sent_again_makes_no_second_machine():
    """Names are unique, and so are request ids: only here may an order simply be repeated."""

    async def script(stage: Stage, simulator: GcpSimulator) -> None:
        order = await stage.order()
        simulator.faults.aim(CloudFault.HANG_UP_AFTER, CloudVerb.LAUNCH)
        await stage.raises(OutcomeUnknown, stage.cloud.launch(order))

        again = await stage.cloud.launch(order)
        assert again.token == order.token
        assert len(simulator.fleet.machines) == 1

    played(script)


def test_the_report_of_a_key_names_rights_and_quotas():
    async def script(stage: Stage, _simulator: GcpSimulator) -> None:
        report = await stage.cloud.check()

        assert report.account.id == "tgp-pretend-project"
        assert report.quota == "0 of 64 GPUs used in all regions"
        assert report.can_buy
        assert all(right.held for right in report.rights)
        assert any("NVIDIA_T4_GPUS" in note for note in report.notes)

    played(script)


@pytest.mark.parametrize(
    "cloud_fault", [CloudFault.ERROR, CloudFault.HTML, CloudFault.EMPTY_BODY, CloudFault.GARBAGE, CloudFault.HANG_UP]
)
def test_unreported_permissions_are_not_called_missing(cloud_fault: CloudFault):
    async def script(stage: Stage, simulator: GcpSimulator) -> None:
        await stage.cloud.identity()
        simulator.faults.aim(cloud_fault, CloudVerb.OTHER, times=2)
        report = await stage.cloud.check()

        assert report.can_buy
        assert report.notes == ()
        assert {right.held for right in report.rights} == {None}

    played(script)


def test_a_key_without_the_right_to_order_cannot_buy():
    async def script(stage: Stage, _simulator: GcpSimulator) -> None:
        stage.rewrite(
            CloudVerb.OTHER, lambda reply: a_reply({}) if b"compute.instances.create" in reply.content else reply
        )
        report = await stage.cloud.check()

        assert not report.can_buy
        assert {right.held for right in report.rights} == {False}

    played(script)
