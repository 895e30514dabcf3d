"""The dated table: complete, near what Google's own pages say, and beaten by what a class says."""

from decimal import Decimal
from typing import Any

import pytest

from tgp.adapters.clouds.gcp.catalogue import catalogue, parts_of, sku_of
from tgp.adapters.clouds.gcp.offers import PriceReader
from tgp.core.model import gpus
from tgp.core.model.offer import Offer, Stock

G2 = {
    "guestCpus": 4,
    "memoryMb": 16384,
    "accelerators": [{"guestAcceleratorType": "nvidia-l4", "guestAcceleratorCount": 1}],
}
N1 = {"guestCpus": 8, "memoryMb": 30720}


def shop(**prices: str) -> PriceReader:
    return PriceReader(
        catalogue(), {name.replace("__", ":").replace("_", "-"): price for name, price in prices.items()}
    )


def a_type(name: str = "g2-standard-4", zone: str = "us-central1-a", **changes: Any) -> tuple[str, dict[str, Any]]:
    return f"zones/{zone}", {"name": name, "architecture": "X86_64"} | (
        N1 if str(name).startswith("n1") else G2
    ) | changes


def offers(selling: PriceReader) -> dict[tuple[str, bool], Offer]:
    return {(offer.sku, offer.spot): offer for offer in selling.listing().offers}


def test_every_gpu_of_the_table_is_one_we_know():
    assert [name for name in catalogue().gpus if gpus.find(name, provider="gcp") is None] == []


def test_every_attachment_can_be_priced_wherever_its_gpu_is():
    table = catalogue()
    missing = [
        (each, region)
        for each in table.attachments
        for region in table.gpus[each.gpu]
        if table.price(each.machine_type, 8, each.gpu, each.count, region, spot=True) is None
    ]

    assert missing == []


@pytest.mark.parametrize(
    ("machine_type", "vcpus", "gpu", "count", "dollars"),
    [
        ("g2-standard-4", 4, "nvidia-l4", 1, "0.7068"),
        ("g2-standard-96", 96, "nvidia-l4", 8, "8.0037"),
        ("a2-highgpu-1g", 12, "nvidia-tesla-a100", 1, "3.6734"),
        ("a2-ultragpu-1g", 12, "nvidia-a100-80gb", 1, "5.0688"),
        ("a3-highgpu-8g", 208, "nvidia-h100-80gb", 8, "88.4900"),
        ("n1-standard-8", 8, "nvidia-tesla-t4", 1, "0.7300"),
    ],
)
def test_the_table_says_what_googles_list_says_and_a_boot_disk(
    machine_type: str, vcpus: int, gpu: str, count: int, dollars: str
):
    """On demand in Iowa; the disk of 100 GiB is 1.37 cents."""
    price = catalogue().price(machine_type, vcpus, gpu, count, "us-central1", spot=False)

    assert price is not None
    assert abs(price - Decimal("0.0137") - Decimal(dollars)) < Decimal("0.004")


def test_a_machine_is_offered_on_demand_and_as_spot_with_what_the_api_says_of_it():
    selling = shop()
    selling.take_machine_types([a_type()])
    found = offers(selling)
    plain, spot = found["g2-standard-4", False], found["g2-standard-4", True]

    assert (plain.gpu, plain.gpu_count, plain.gpu_memory_gib, plain.vcpus, plain.memory_gib) == ("L4", 1, 24, 4, 16)
    assert (plain.place, plain.region, plain.country) == ("us-central1-a", "us-central", "US")
    assert spot.hourly_microusd < plain.hourly_microusd == spot.on_demand_microusd
    assert plain.stock is Stock.UNKNOWN
    assert {offer.priced_on for offer in selling.listing().offers} == {catalogue().priced_on}


def test_gpus_are_attached_only_where_the_zone_has_them_and_so_many():
    selling = shop()
    selling.take_machine_types([a_type("n1-standard-8"), a_type("n1-standard-8", "us-east1-b")])
    selling.take_accelerators([("zones/us-central1-a", {"name": "nvidia-tesla-t4", "maximumCardsPerInstance": 1})])

    assert [sku for sku, _ in offers(selling)] == ["n1-standard-8+1x-nvidia-tesla-t4"] * 2


def test_a_region_without_a_price_is_not_guessed():
    selling = shop()
    selling.take_machine_types([a_type(zone="europe-southwest1-b")])

    assert selling.listing().offers == ()
    assert selling.listing().dropped["no price"] > 0


def test_a_class_knows_its_own_prices_better():
    """Also where the table knows none."""
    selling = shop(g2_standard_4="0.50", g2_standard_4__spot="0.11")
    selling.take_machine_types([a_type(), a_type(zone="europe-southwest1-b")])
    prices = {(offer.place, offer.spot): offer.hourly_microusd for offer in selling.listing().offers}

    assert prices == {
        ("us-central1-a", False): 500_000,
        ("us-central1-a", True): 110_000,
        ("europe-southwest1-b", False): 500_000,
        ("europe-southwest1-b", True): 110_000,
    }


def test_a_price_of_a_class_that_is_none_sells_nothing():
    selling = shop(g2_standard_4="0", g2_standard_4__spot="1")
    selling.take_machine_types([a_type()])

    assert selling.listing().offers == ()
    assert selling.listing().dropped["bad price"] >= 2


def test_sizes_that_google_sells_as_spot_alone_are_not_offered_on_demand():
    h100 = [{"guestAcceleratorType": "nvidia-h100-80gb", "guestAcceleratorCount": 1}]
    selling = shop()
    selling.take_machine_types([a_type("a3-highgpu-1g", accelerators=h100, guestCpus=26)])

    assert [spot for _, spot in offers(selling)] == [True]


@pytest.mark.parametrize(
    "changes",
    [
        {"guestCpus": "4"},
        {"guestCpus": -1},
        {"memoryMb": None},
        {"name": "../x"},
        {"name": 7},
        {"accelerators": {}},
        {"accelerators": [{}, {}]},
        {"accelerators": [{"guestAcceleratorType": "nvidia-l4", "guestAcceleratorCount": 0}]},
        {"architecture": "SPARC"},
    ],
)
def test_a_machine_type_that_makes_no_sense_is_dropped_and_counted(changes: dict[str, Any]):
    selling = shop()
    selling.take_machine_types([a_type(**changes), a_type("g2-standard-8")])

    assert {offer.sku for offer in selling.listing().offers} == {"g2-standard-8"}
    assert selling.dropped["bad shape"] == 1


def test_what_is_no_longer_sold_and_what_is_unknown_is_counted_apart():
    card = [{"guestAcceleratorType": "nvidia-imaginary-9000", "guestAcceleratorCount": 1}]
    selling = shop()
    selling.take_machine_types([a_type(deprecated={"state": "OBSOLETE"}), a_type("g2-standard-8", accelerators=card)])

    assert selling.listing().offers == ()
    assert selling.dropped["not rentable"] == 1
    assert selling.dropped["unknown GPU"] >= 1


def test_what_is_ordered_can_be_told_from_its_name():
    assert parts_of(sku_of("n1-standard-8", "nvidia-tesla-t4", 2, attached=True)) == (
        "n1-standard-8",
        "nvidia-tesla-t4",
        2,
    )
    assert parts_of("a2-highgpu-1g") == ("a2-highgpu-1g", "", 0)
