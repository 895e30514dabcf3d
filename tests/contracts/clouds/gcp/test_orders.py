"""The order for a machine, field by field, and what every answer to it means."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.contracts.clouds.gcp.gcp_stage import (
    PROJECT,
    TOKEN,
    ZONE,
    a_failure,
    a_reply,
    an_error,
    an_operation,
    an_order,
    settings,
)
from tgp.adapters.clouds.gcp.launching import launch, read_launch
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CloudBusy,
    CloudError,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.core.model.instance import InstanceState
from tgp.ports.cloud import LaunchOrder
from tgp.ports.http import Reply

MACHINE = f"{ZONE}:{TOKEN}"


def body(order: LaunchOrder, **changes: Any) -> dict[str, Any]:
    return dict(json.loads(launch(order, PROJECT, settings(**changes)).body))


def test_an_order_says_everything_once():
    call = launch(an_order(not_after=7.0), PROJECT, settings())

    assert (call.method, call.path) == ("POST", f"/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances")
    assert call.not_after == 7.0
    assert json.loads(call.body) == {
        "name": TOKEN,
        "machineType": f"zones/{ZONE}/machineTypes/g2-standard-4",
        "labels": {"tgp-token": TOKEN},
        "disks": [
            {
                "boot": True,
                "autoDelete": True,
                "initializeParams": {
                    "sourceImage": f"projects/{PROJECT}/global/images/talos-1-11",
                    "diskSizeGb": "100",
                    "diskType": f"zones/{ZONE}/diskTypes/pd-balanced",
                },
            }
        ],
        "networkInterfaces": [
            {
                "network": "global/networks/default",
                "accessConfigs": [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}],
            }
        ],
        "metadata": {"items": [{"key": "user-data", "value": "version: v1alpha1"}]},
        "scheduling": {"provisioningModel": "STANDARD", "onHostMaintenance": "TERMINATE", "automaticRestart": False},
    }


def test_the_request_id_is_the_tokens_own_for_ever():
    """Once released it never changes: an order sent again by a later version must still be the same order."""
    first, again = (launch(an_order(), PROJECT, settings()).parameter("requestId") for _ in range(2))
    other = launch(an_order(token=TOKEN[:-1] + "2"), PROJECT, settings()).parameter("requestId")

    assert first == again == "e5b756d7-c003-5325-a4d5-8f184000524f"
    assert UUID(first).version == 5
    assert other != first


def test_gpus_are_attached_where_they_are_no_part_of_the_machine_type():
    said = body(an_order("n1-standard-8+2x-nvidia-tesla-t4"))

    assert said["machineType"] == f"zones/{ZONE}/machineTypes/n1-standard-8"
    assert said["guestAccelerators"] == [
        {"acceleratorType": f"zones/{ZONE}/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 2}
    ]


def test_a_spot_machine_is_deleted_when_it_is_taken_back():
    said = body(an_order(spot=True))["scheduling"]

    assert (said["provisioningModel"], said["instanceTerminationAction"]) == ("SPOT", "DELETE")


@pytest.mark.parametrize("spot", [False, True])
def test_google_deletes_a_machine_after_its_longest_run(spot: bool):
    said = body(an_order(spot=spot, max_run=timedelta(hours=2)))["scheduling"]

    assert said["maxRunDuration"] == {"seconds": "7200"}
    assert said["instanceTerminationAction"] == "DELETE"


def test_without_a_longest_run_google_is_told_none():
    assert body(an_order())["scheduling"].keys() == {"provisioningModel", "onHostMaintenance", "automaticRestart"}


@pytest.mark.parametrize(
    ("told", "sent"),
    [
        ("talos", f"projects/{PROJECT}/global/images/talos"),
        ("projects/other/global/images/talos", "projects/other/global/images/talos"),
        ("global/images/family/talos", "global/images/family/talos"),
        ("https://www.googleapis.com/compute/v1/projects/o/global/images/t", "projects/o/global/images/t"),
    ],
)
def test_an_image_is_named_in_any_way_that_google_knows(told: str, sent: str):
    assert body(an_order(image=told))["disks"][0]["initializeParams"]["sourceImage"] == sent
    assert body(an_order(), image=told)["disks"][0]["initializeParams"]["sourceImage"] == sent


def test_without_an_image_nothing_is_ordered():
    with pytest.raises(OrderRefused, match=r"settings\.image"):
        launch(an_order(), PROJECT, settings(image=None))


@pytest.mark.parametrize("image", ["../secret", "a b", "https://evil.test/x", "image?x", "/x"])
def test_an_image_that_is_no_name_is_refused(image: str):
    with pytest.raises(OrderRefused, match="image"):
        launch(an_order(image=image), PROJECT, settings())


@pytest.mark.parametrize(
    ("told", "sent"),
    [
        ("private", {"network": "global/networks/private"}),
        ("projects/host/global/networks/shared", {"network": "projects/host/global/networks/shared"}),
        ("subnetworks/gpu", {"subnetwork": "regions/us-central1/subnetworks/gpu"}),
        (
            "projects/host/regions/us-central1/subnetworks/gpu",
            {"subnetwork": "projects/host/regions/us-central1/subnetworks/gpu"},
        ),
    ],
)
def test_a_network_or_a_subnetwork_of_ours_or_of_a_host_project(told: str, sent: dict[str, str]):
    said = body(an_order(), network=told)["networkInterfaces"][0]

    assert {name: value for name, value in said.items() if name != "accessConfigs"} == sent


def test_the_classes_tags_become_labels_and_never_win_over_ours():
    tags = (("tgp.io/Team", "Vision & Co"), ("tgp-token", "stolen"), ("1st", "x"), ("", "y"), ("long", "v" * 80))
    labels = body(an_order(tags=tags))["labels"]

    assert labels == {"tgp-io-team": "vision---co", "tag-1st": "x", "tag-": "y", "long": "v" * 63, "tgp-token": TOKEN}


def test_more_labels_than_google_takes_leave_room_for_ours():
    labels = body(an_order(tags=tuple((f"k{number}", "v") for number in range(100))))["labels"]

    assert len(labels) == 64
    assert labels["tgp-token"] == TOKEN


@pytest.mark.parametrize("data", [b"\xff\xfe", b"x" * ((256 << 10) + 1)])
def test_user_data_that_google_cannot_hold_is_not_sent(data: bytes):
    with pytest.raises(OrderRefused, match="machine config"):
        launch(an_order(user_data=data), PROJECT, settings())


@pytest.mark.parametrize("status", ["PENDING", "RUNNING", "DONE"])
def test_an_operation_without_an_error_is_a_machine_on_its_way(status: str):
    made = read_launch(a_reply(an_operation(status=status)), an_order(spot=True))

    assert (made.id, made.token, made.state) == (MACHINE, TOKEN, InstanceState.STARTING)
    assert (made.sku, made.place, made.spot) == ("g2-standard-4", ZONE, True)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (a_reply(a_failure("ZONE_RESOURCE_POOL_EXHAUSTED")), SoldOut),
        (a_reply(a_failure("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS")), SoldOut),
        (a_reply(a_failure("QUOTA_EXCEEDED")), AccountExhausted),
        (a_reply(a_failure("RESOURCE_OPERATION_RATE_EXCEEDED")), CloudBusy),
        (a_reply(a_failure("INVALID_FIELD_VALUE")), OrderRefused),
        (a_reply(a_failure("PERMISSIONS_ERROR")), KeyRefused),
        (an_error(400, "invalid"), OrderRefused),
        (an_error(403, "quotaExceeded"), AccountExhausted),
        (an_error(403, "rateLimitExceeded"), CloudBusy),
        (an_error(403, "forbidden"), KeyRefused),
        (an_error(403, "accessNotConfigured"), KeyRefused),
        (an_error(404, "notFound", "The resource 'projects/p/global/images/x' was not found"), OrderRefused),
        (an_error(412, "conditionNotMet"), OrderRefused),
        (an_error(429, "rateLimitExceeded"), CloudBusy),
        (Reply(429, b"slow down"), CloudBusy),
    ],
)
def test_a_definite_refusal_says_that_nothing_was_made(reply: Reply, kind: type[CloudError]):
    with pytest.raises(kind) as refused:
        read_launch(reply, an_order())

    assert type(refused.value) is kind


@pytest.mark.parametrize(
    ("reply", "named"),
    [
        (a_reply(a_failure("ZONE_RESOURCE_POOL_EXHAUSTED", status="RUNNING")), True),
        (a_reply(a_failure("SOMETHING_NEW")), True),
        (a_reply(an_operation(status="DONE", error={})), True),
        (a_reply(an_operation(status="DONE", error="odd")), True),
        (a_reply(an_operation(status="LOST")), True),
        (a_reply(an_operation(operationType="delete")), True),
        (a_reply(an_operation(targetLink="https://x/zones/us-central1-a/instances/other")), True),
        (a_reply({"kind": "compute#instance"}), False),
        (an_error(409, "alreadyExists"), True),
        (an_error(409, "resourceInUse"), False),
        (an_error(500, "backendError"), False),
        (an_error(503, "backendError", f"made /instances/{TOKEN} and lost it"), True),
        (an_error(403, "quotaExceeded", f"see projects/p/zones/z/instances/{TOKEN}"), True),
        (Reply(403, b"<html>"), False),
        (Reply(200, b""), False),
        (Reply(200, b"<html>"), False),
        (Reply(302, b""), False),
        (a_reply([]), False),
    ],
)
def test_everything_else_leaves_the_outcome_open(reply: Reply, named: bool):
    with pytest.raises(OutcomeUnknown) as unknown:
        read_launch(reply, an_order())

    assert unknown.value.instance_id == (MACHINE if named else "")


def test_several_errors_are_a_refusal_only_if_all_are_known():
    errors = [{"code": "QUOTA_EXCEEDED", "message": "a"}, {"code": "SOMETHING_NEW", "message": "b"}]

    with pytest.raises(OutcomeUnknown):
        read_launch(a_reply(an_operation(status="DONE", error={"errors": errors})), an_order())


def test_the_quota_of_the_whole_project_is_said_as_such():
    message = "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally."

    with pytest.raises(AccountExhausted, match="quota of the whole project"):
        read_launch(a_reply(a_failure("QUOTA_EXCEEDED", message)), an_order())


@pytest.mark.parametrize(
    "message",
    [
        "Invalid value for field 'resource.metadata.items[0].value': 'machine: {token: join-secret-of-ours}'.",
        "Parse error near join-secret-of-ours",
        'Bad value "join-secret-of-ours"',
    ],
)
def test_a_refusal_that_repeats_the_machine_config_is_not_shown(message: str):
    order = an_order(user_data=b"machine:\n  token: join-secret-of-ours\n")

    with pytest.raises(OrderRefused) as refused:
        read_launch(an_error(400, "invalid", message), order)

    assert "join-secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["Not-Lower", "tgp_x", "x" * 64, "a/b", "", "-a"])
def test_a_token_or_a_zone_that_would_change_the_path_is_refused(name: str):
    with pytest.raises(OrderRefused):
        launch(an_order(token=name), PROJECT, settings())
