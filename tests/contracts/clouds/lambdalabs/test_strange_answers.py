"""Answers of another server than our simulator: an older Lambda, a newer one, one that means ill."""

from typing import Any

import pytest

from tests.contracts.clouds.lambdalabs.answers import ID, NOW, TOKEN, a_machine, a_type, an_order, reply
from tgp.adapters.clouds.lambdalabs import wire
from tgp.adapters.clouds.lambdalabs.listing import read_types
from tgp.adapters.clouds.lambdalabs.machines import read_machine, read_machines
from tgp.core.model.cloud_errors import CannotTell, OutcomeUnknown
from tgp.core.model.instance import InstanceState


@pytest.mark.parametrize("described", [None, ""])
@pytest.mark.parametrize(
    ("description", "gpu"),
    [
        ("1x A10 (24 GB PCIe)", "A10"),
        ("8x A100 (80 GB SXM4)", "A100-80GB-SXM"),
        ("2x H100 (80 GB SXM5)", "H100-SXM"),
        ("8x Tesla V100 (16 GB)", "V100-16GB"),
    ],
)
def test_a_type_whose_gpu_stands_in_its_description_alone_is_read(described, description: str, gpu: str):
    """Others read it from there, too: a server that leaves `gpu_description` out is still understood."""
    (offer,) = read_types({"any": a_type(gpu_description=described, description=description)}).offers

    assert offer.gpu == gpu


def test_a_type_that_describes_no_gpu_is_left_out_and_counted():
    listing = read_types({"any": a_type(gpu_description=None, description=None)})

    assert (listing.offers, listing.dropped) == ((), {"unknown GPU": 1})


@pytest.mark.parametrize("data", [[], [a_machine()]])
def test_an_error_beside_the_data_makes_the_answer_worthless(data: Any):
    """Success has `data`, failure has `error`: an answer with both proves nothing, least of all an empty list."""
    told = {"data": data, "error": {"code": "provider/internal-unavailable", "message": "Provider unavailable"}}
    with pytest.raises(CannotTell, match="provider/internal-unavailable"):
        wire.read_data(reply(200, told), "owned")

    assert wire.read_data(reply(200, {"data": data, "error": None, "more": 1}), "owned") == data


def test_an_odd_foreign_tag_hides_no_machine():
    odd = [{"key": "team", "value": None}, {"key": "cost-centre", "value": 7}, {"key": "zone"}]
    theirs, ours = a_machine(id="ab" * 16, name="theirs", tags=odd), a_machine()

    assert [each.token for each in read_machines([theirs, ours])] == [TOKEN, "theirs"]


@pytest.mark.parametrize("tag", [{"key": "tgp-token", "value": None}, {"key": None, "value": TOKEN}, None, "x"])
def test_a_tag_that_may_say_whose_a_machine_is_must_be_readable(tag: Any):
    with pytest.raises(CannotTell):
        read_machines([a_machine(name="renamed", tags=[tag])])


@pytest.mark.parametrize(
    "place",
    [
        {"data": [{"instance_ids": [ID]}]},
        {"errors": [{"code": "x"}, {"instance_id": ID}]},
        {"data": {"instances": [{"id": ID, "status": "booting"}]}},
        {"data": {"launched": {"instance": {"id": ID}}}},
    ],
)
def test_an_id_is_a_machine_wherever_an_answer_names_it(place: dict[str, Any]):
    error = {"error": {"code": "instance-operations/launch/insufficient-capacity", "message": "no"}}
    with pytest.raises(OutcomeUnknown) as caught:
        wire.read_launch(reply(400, error | place), an_order(), NOW)

    assert caught.value.instance_id == ID
    assert wire.read_launch(reply(200, place), an_order(), NOW).id == ID


@pytest.mark.parametrize("field", ["name", "ip", "private_ip", "hostname", "tags", "file_system_mounts", "actions"])
def test_null_is_taken_for_every_field_that_may_be_missing(field: str):
    assert read_machine(a_machine(**{field: None})).state is InstanceState.RUNNING


def test_unknown_fields_and_words_are_taken_as_they_are():
    machine = read_machine(a_machine(status="hibernating", is_reserved=True, gpu_health={"xid": [79]}))

    assert (machine.state, machine.said, machine.token) == (InstanceState.UNKNOWN, "hibernating", TOKEN)


def test_a_machine_listed_twice_is_one_machine_and_its_living_row_counts():
    listed = read_machines([a_machine(), a_machine(status="terminated"), a_machine()])

    assert [(each.id, each.state) for each in listed] == [(ID, InstanceState.RUNNING)]


def test_a_bill_above_the_offer_is_told():
    dearer = a_type(price_cents_per_hour=112)["instance_type"]

    assert read_machine(a_machine(instance_type=dearer)).hourly_microusd == 1_120_000
    assert read_machine(a_machine(instance_type=None)).hourly_microusd is None
