"""What Lambda lists, read with care: types on sale, machines, SSH keys."""

from datetime import UTC, datetime

import pytest

from tests.contracts.clouds.lambdalabs.answers import ID, TOKEN, a_machine, a_type, refused, reply
from tgp.adapters.clouds.lambdalabs import wire
from tgp.adapters.clouds.lambdalabs.client import report
from tgp.adapters.clouds.lambdalabs.listing import read_types
from tgp.adapters.clouds.lambdalabs.machines import read_machine, read_machines
from tgp.core.model.cloud_errors import AccountExhausted, CannotTell, CloudBusy, KeyRefused
from tgp.core.model.instance import InstanceState
from tgp.core.model.offer import BootMode, Stock
from tgp.ports.cloud import Account


def test_an_offer_says_what_lambda_says():
    (offer,) = read_types({"gpu_1x_a10": a_type()}).offers

    assert (offer.sku, offer.place, offer.region, offer.country) == ("gpu_1x_a10", "us-west-1", "us-west", "US")
    assert (offer.gpu, offer.gpu_count, offer.gpu_memory_gib) == ("A10", 1, 24)
    assert (offer.vcpus, offer.memory_gib, offer.disk_gib, offer.arch) == (30, 200, 1400, "amd64")
    assert (offer.hourly_microusd, offer.spot, offer.stock) == (750_000, False, Stock.CONFIRMED)
    assert offer.boot is BootMode.TAKEOVER


@pytest.mark.parametrize(
    ("words", "gpu", "arch"),
    [
        ("A100 (40 GB PCIe)", "A100-40GB-PCIE", "amd64"),
        ("A100 (40 GB SXM4)", "A100-40GB-SXM", "amd64"),
        ("A100 (80 GB SXM4)", "A100-80GB-SXM", "amd64"),
        ("H100 (80 GB PCIe)", "H100-PCIE", "amd64"),
        ("H100 (80 GB SXM5)", "H100-SXM", "amd64"),
        ("RTX 6000 (24 GB)", "RTX6000", "amd64"),
        ("Tesla V100 (16 GB)", "V100-16GB", "amd64"),
        ("L40S (48 GB)", "L40S", "amd64"),  # not sold at the time of writing: the words before the bracket will do
        ("GH200 (96 GB)", "GH200", "arm64"),
    ],
)
def test_the_description_names_the_gpu_and_grace_is_arm(words: str, gpu: str, arch: str):
    (offer,) = read_types({"any": a_type(words)}).offers

    assert (offer.gpu, offer.arch) == (gpu, arch)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (a_type("Abacus (9000 GB)"), "unknown GPU"),
        (a_type("A10 (80 GB PCIe)"), "unknown GPU"),  # the memory belongs to another card: not guessed
        (a_type(price_cents_per_hour="75"), ""),  # a number in words is still one
        (a_type(price_cents_per_hour=None), "bad price"),
        (a_type(price_cents_per_hour=-1), "bad price"),
        (a_type(specs={"gpus": 0}), "no GPU"),
        (a_type(specs={"gpus": 1}), "bad shape"),
        (a_type(specs=None), "bad shape"),
        (a_type(name=""), "bad shape"),
        (a_type() | {"regions_with_capacity_available": []}, "sold out"),
        (a_type() | {"regions_with_capacity_available": None}, "bad shape"),
        (a_type() | {"regions_with_capacity_available": [{}]}, "bad shape"),
        ([], "bad shape"),
        (None, "bad shape"),
    ],
)
def test_a_bad_row_is_left_out_and_counted_and_spoils_no_other(item, reason: str):
    listing = read_types({"bad": item, "good": a_type(name="other")})

    assert "other" in [offer.sku for offer in listing.offers]
    assert listing.dropped == ({reason: 1} if reason else {})


@pytest.mark.parametrize("data", [None, [], "x", 7, {str(n): 0 for n in range(1001)}])
def test_a_market_of_another_shape_proves_nothing(data):
    with pytest.raises(CannotTell):
        read_types(data)


def test_a_machine_says_what_lambda_says():
    machine = read_machine(a_machine())

    assert (machine.id, machine.token, machine.state) == (ID, TOKEN, InstanceState.RUNNING)
    assert (machine.sku, machine.place, machine.hourly_microusd) == ("gpu_1x_a10", "us-west-1", 750_000)
    assert machine.created_at == datetime(2026, 11, 15, 12, 30, 5, tzinfo=UTC)
    assert (machine.public_ip, machine.private_ip) == ("203.0.113.7", "")


@pytest.mark.parametrize(
    ("said", "state", "interrupted"),
    [
        ("booting", InstanceState.STARTING, False),
        ("active", InstanceState.RUNNING, False),
        ("unhealthy", InstanceState.BROKEN, False),
        ("preempted", InstanceState.BROKEN, True),
        ("terminating", InstanceState.ENDING, False),
        ("hibernating", InstanceState.UNKNOWN, False),
        (7, InstanceState.UNKNOWN, False),
        (None, InstanceState.UNKNOWN, False),
    ],
)
def test_every_state_but_the_last_is_a_machine(said, state: InstanceState, interrupted: bool):
    machine = read_machine(a_machine(status=said))

    assert (machine.state, machine.interrupted) == (state, interrupted)


def test_a_terminated_machine_is_over():
    """Lambda may show it by its id for a while; it costs nothing any more."""
    gone = a_machine(status="terminated")

    assert read_machines([gone]) == ()
    assert wire.read_status(reply(200, {"data": gone}), ID) is None


def test_a_renamed_machine_is_still_ours():
    assert read_machine(a_machine(name="my favourite")).token == TOKEN
    assert read_machine(a_machine(tags=None)).token == TOKEN
    assert read_machine(a_machine(name=None)).token == TOKEN
    assert read_machine(a_machine(name="theirs", tags=[])).token == "theirs"


@pytest.mark.parametrize(
    "row",
    [
        None,
        [],
        a_machine(id=None),
        a_machine(id="../x"),
        a_machine(id=None, name=None, tags=[]),
        a_machine(name=7),
        a_machine(tags="x"),
        a_machine(tags=[{"key": "tgp-token"}]),
    ],
)
def test_a_row_that_may_be_ours_and_cannot_be_read_spoils_the_list(row):
    with pytest.raises(CannotTell):
        read_machines([a_machine(), row])


def test_an_unreadable_foreign_row_spoils_nothing():
    assert [each.id for each in read_machines([a_machine(), a_machine(id=None, name="theirs", tags=[])])] == [ID]


def test_only_the_code_says_that_a_machine_is_absent():
    assert wire.read_status(refused(404, "global/object-does-not-exist"), ID) is None
    for answer in (refused(404, "global/other"), reply(404, {}), reply(200, {}), reply(200, {"data": None})):
        with pytest.raises(CannotTell):
            wire.read_status(answer, ID)
    with pytest.raises(CannotTell):
        wire.read_status(reply(200, {"data": a_machine(id="ab" * 16)}), ID)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused(401, "global/invalid-api-key"), KeyRefused),
        (refused(401, "something else"), CannotTell),
        (refused(403, "global/account-inactive"), AccountExhausted),
        (refused(429, ""), CloudBusy),
        (refused(500, "global/internal-error"), CloudBusy),
        (refused(400, "provider/internal-unavailable"), CloudBusy),
        (refused(404, "global/object-does-not-exist"), CannotTell),
        (refused(410, ""), CannotTell),
        (reply(302, {}), CannotTell),
    ],
)
def test_a_failed_look_is_never_nothing(answer, error: type):
    with pytest.raises(error):
        wire.read_data(answer, "owned")


@pytest.mark.parametrize(
    ("names", "wanted", "held", "note"),
    [
        (["mine"], "mine", True, ""),
        (["mine"], "yours", False, "no SSH key named yours"),
        (
            ["mine", "other"],
            None,
            None,
            "sshKeyName of the provider lambdalabs in a class; the account has mine, other",
        ),
        ([], None, False, "add one"),
    ],
)
def test_the_check_says_whether_a_launch_could_log_in(names: list[str], wanted: str | None, held: bool, note: str):
    told = report([{"id": "1", "name": name, "public_key": "ssh"} for name in names], wanted, Account("key:x"))

    assert told.rights[-1].held is held
    assert note in told.rights[-1].note
    assert told.notes == ((told.rights[-1].note,) if note else ())


@pytest.mark.parametrize("answer", [{}, None, "x", [{}] * 10_001])
def test_a_list_of_keys_of_another_shape_proves_nothing(answer):
    with pytest.raises(CannotTell):
        report(answer, "mine", Account("key:x"))
