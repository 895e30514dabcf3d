"""Asks as offers: what they cost with their disk, what the renter gets, and what is left out."""

from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest

from tests.contracts.clouds.vast.answers import NOW, an_ask, refused, reply
from tgp.adapters.clouds.vast import wire_offers
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, KeyRefused
from tgp.core.model.offer import BootMode, Offer, Stock, Trust

PLAIN = ProviderSettings()


def listed(*asks: object, settings: ProviderSettings = PLAIN) -> wire_offers.OfferMarket:
    return wire_offers.read_market(asks, settings, NOW)


def on_demand(*asks: object, settings: ProviderSettings = PLAIN) -> list[Offer]:
    return [offer for offer in listed(*asks, settings=settings).listing.offers if not offer.spot]


def one(ask: object, settings: ProviderSettings = PLAIN) -> Offer:
    (offer,) = on_demand(ask, settings=settings)
    return offer


def dropped(ask: object, settings: ProviderSettings = PLAIN) -> dict[str, int]:
    listing = listed(ask, settings=settings).listing
    assert listing.offers == ()
    return dict(listing.dropped)


def test_an_ask_is_an_offer():
    offer = one(an_ask())

    assert offer == Offer(
        provider="vast",
        sku="12345678",
        place="Oregon, US",
        region="us-west",
        country="US",
        gpu="RTX4090",
        gpu_count=2,
        gpu_memory_gib=24,
        vcpus=32,
        memory_gib=125,  # half of the machine's, as of its cores
        disk_gib=64,
        hourly_microusd=660_000,
        stock=Stock.CONFIRMED,
        left=1,
        trust=Trust.VERIFIED,
        boot=BootMode.CONTAINER,
        host="88888",
        until=datetime(2027, 1, 15, 8, 0, tzinfo=UTC),
        open_ports=124,
        cuda="12.8",
        download_mbps=2400,
        type_name="2x-RTX4090",
    )


@pytest.mark.parametrize(
    ("told", "place", "region", "country"),
    [
        ("Sweden, SE", "Sweden, SE", "eu-north", "SE"),
        (", US", ", US", "unknown", "US"),
        (None, "unknown", "unknown", ""),
        ("", "unknown", "unknown", ""),
    ],
)
def test_a_place_is_free_text_that_ends_in_a_country(told, place, region, country):
    offer = one(an_ask(geolocation=told))

    assert (offer.place, offer.region, offer.country) == (place, region, country)


def test_the_price_is_never_below_what_we_add_up_ourselves():
    """A server that forgot the disk we named must not make a machine look cheaper than it will be billed."""
    assert one(an_ask(dph_total=0.60)).hourly_microusd == 660_000


def test_a_bid_is_the_lowest_that_wins_with_the_disk_and_knows_the_price_without_the_risk():
    whole, spot = listed(an_ask()).listing.offers

    assert (whole.spot, spot.spot) == (False, True)
    assert spot.hourly_microusd == 360_000
    assert spot.on_demand_microusd == whole.hourly_microusd
    assert whole.key != spot.key


@pytest.mark.parametrize("lowest", [0, -0.1, None, "call us", 1e30, True])
def test_a_bid_that_is_no_price_is_left_out_whatever_its_disk_costs(lowest):
    """The machine is sold on demand all the same; where it takes no bids nothing is left out."""
    listing = listed(an_ask(min_bid=lowest)).listing

    assert [offer.spot for offer in listing.offers] == [False]
    assert listing.dropped == ({} if lowest is None else {"bad price": 1})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"direct_port_count": None, "cuda_max_good": None, "inet_down": None}, (0, "", 0)),
        ({"direct_port_count": 3, "cuda_max_good": 13, "inet_down": 812.7}, (3, "13.0", 812)),
        ({"cuda_max_good": 1e9}, (124, "", 2400)),
    ],
)
def test_a_host_tells_its_ports_its_driver_and_how_fast_it_downloads(changes, told):
    offer = one(an_ask(**changes))

    assert (offer.open_ports, offer.cuda, offer.download_mbps) == told


def test_a_host_that_runs_virtual_machines_is_listed_twice():
    container, vm = on_demand(an_ask(vms_enabled=True))

    assert (container.sku, vm.sku) == ("12345678", "12345678:vm")
    assert (container.type_name, vm.type_name) == ("2x-RTX4090", "2x-RTX4090-VM")
    assert container.boot is vm.boot is BootMode.CONTAINER
    assert container.key != vm.key


def test_a_host_whose_virtual_machines_failed_their_test_is_listed_once():
    assert len(on_demand(an_ask(vms_enabled=True, is_vm_deverified=True))) == 1


@pytest.mark.parametrize(
    ("changes", "trust"),
    [
        ({"verification": "verified", "hosting_type": 1}, Trust.DATACENTER),
        ({"verification": "verified", "hosting_type": 0}, Trust.VERIFIED),
        ({"verification": "verified", "hosting_type": None}, Trust.VERIFIED),
        ({"verification": "unverified", "hosting_type": 1}, Trust.ANY),
        ({"verification": "deverified"}, Trust.ANY),
        ({"verification": None}, Trust.ANY),
    ],
)
def test_trust_is_what_vast_says_of_the_host(changes, trust):
    assert one(an_ask(**changes), ProviderSettings(verified_only=False)).trust is trust


@pytest.mark.parametrize(
    ("changes", "gib"),
    [
        ({"cpu_cores": 64, "cpu_cores_effective": 16.0}, 62),
        ({"cpu_cores": 64, "cpu_cores_effective": 0.5}, 1),
        ({"cpu_cores": None}, 0),
        ({"cpu_cores": 0}, 0),
        ({"cpu_cores": 16, "cpu_cores_effective": 32.0}, 251),  # no more than there is
        ({"cpu_ram": None}, 0),
    ],
)
def test_the_renter_gets_a_share_of_the_memory(changes, gib):
    assert one(an_ask(**changes)).memory_gib == gib


@pytest.mark.parametrize(
    ("changes", "until"),
    [
        ({"end_date": None, "duration": 3600.0}, datetime(2026, 11, 15, 13, 0, tzinfo=UTC)),
        ({"end_date": None, "duration": None}, None),
        ({"end_date": None, "duration": float("1e300")}, None),
        ({"end_date": "soon", "duration": True}, None),
    ],
)
def test_the_end_of_an_ask_is_told_or_not_at_all(changes, until):
    assert one(an_ask(**changes)).until == until


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dph_total": -1}, "bad price"),
        ({"dph_total": "call us"}, "bad price"),
        ({"dph_total": None}, "bad price"),
        ({"dph_total": 1e30}, "bad price"),
        ({"dph_base": "free"}, "bad price"),
        ({"storage_cost": None}, "bad price"),
        ({"storage_cost": -0.1}, "bad price"),
        ({"storage_cost": 1e9}, "bad price"),
        ({"gpu_name": "Abacus 9000"}, "unknown GPU"),
        ({"gpu_ram": 99}, "unknown GPU"),
        ({"num_gpus": 0.5}, "fractional GPU"),
        ({"num_gpus": 0}, "bad shape"),
        ({"num_gpus": "two"}, "bad shape"),
        ({"num_gpus": 4000}, "bad shape"),
        ({"id": "../../users"}, "bad shape"),
        ({"id": None}, "bad shape"),
        ({"id": True}, "bad shape"),
        ({"cpu_arch": "abacus"}, "bad shape"),
        ({"geolocation": 7}, "bad shape"),
        ({"rentable": False}, "not rentable"),
        ({"rented": True}, "not rentable"),
        ({"end_date": 1.0}, "not rentable"),
        ({"verification": "unverified"}, "not verified"),
        ({"disk_space": 30}, "small disk"),
    ],
)
def test_what_makes_no_sense_is_left_out_and_counted(changes, reason):
    assert dropped(an_ask(**changes)) == {reason: 1}


def test_one_bad_row_spoils_no_listing():
    market = listed(None, [], an_ask(), "row", an_ask(id=2, dph_total=None))

    assert {offer.sku for offer in market.listing.offers} == {"12345678"}
    assert market.listing.dropped == {"bad shape": 3, "bad price": 1}


def test_the_storage_of_each_ask_is_kept_for_its_bids():
    assert listed(an_ask()).storage == {"12345678": Decimal("0.0009375")}


def test_the_class_decides_how_reliable_a_host_must_be():
    """Asked of the search, and looked at again: a filter that is ignored costs money."""
    strict = ProviderSettings(min_reliability=0.999)
    asked = msgspec.json.decode(wire_offers.search(0, strict).body)

    assert asked["reliability"] == {"gte": 0.999}
    assert dropped(an_ask(), strict) == {"unreliable": 1}
    assert dropped(an_ask(reliability=None), strict) == {"bad shape": 1}


def test_a_search_names_the_disk_we_order_and_only_verified_hosts():
    call = wire_offers.search(0, PLAIN)
    asked = msgspec.json.decode(call.body)

    assert (call.method, call.path) == ("POST", "/api/v0/bundles/")
    assert asked["allocated_storage"] == wire_offers.DISK_GIB
    assert asked["verified"] == {"eq": True}
    assert asked["order"] == [["id", "asc"]]
    assert "id" not in asked


def test_a_class_can_ask_for_every_host():
    asked = msgspec.json.decode(wire_offers.search(77, ProviderSettings(verified_only=False)).body)

    assert "verified" not in asked
    assert asked["id"] == {"gt": 77}


def page(*numbers: int, truncated: bool = False) -> wire_offers.OfferPage:
    rows = [an_ask(id=number) for number in numbers]
    return wire_offers.read_page(reply({"offers": rows, "truncated": truncated}), 10, NOW)


def test_a_cut_answer_goes_on_beyond_its_last_number():
    assert page(11, 15, truncated=True).beyond == 15
    assert page(11, 15).beyond is None


@pytest.mark.parametrize("numbers", [(15, 11), (11, 11), (9, 12), ()])
def test_a_cut_answer_that_does_not_ascend_is_no_listing(numbers):
    """The next page would leave asks out, or never end."""
    with pytest.raises(CannotTell):
        page(*numbers, truncated=True)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused(404, "auth_error", "Invalid user key"), KeyRefused),
        (refused(401, "", "whatever"), KeyRefused),
        (refused(403, "forbidden", "missing permission misc"), KeyRefused),
        (refused(404, "not_found"), CannotTell),
        (refused(410, "deprecated_endpoint"), CannotTell),
        (refused(400, "bad_request"), CannotTell),
        (reply({"detail": "API requests too frequent"}, 429), CloudBusy),
        (refused(500, "server_error"), CloudBusy),
        (reply({"offers": None}), CannotTell),
        (reply({}), CannotTell),
        (reply([]), CannotTell),
    ],
)
def test_a_search_that_fails_is_no_empty_market(answer, error):
    with pytest.raises(error):
        wire_offers.read_page(answer, 0, NOW)


def test_a_used_up_quota_is_left_alone_until_it_is_given_back():
    quota = {"error": "search_quota_exceeded", "msg": "Daily search quota exceeded"}
    reset = str(int(NOW.timestamp()) + 7200)

    with pytest.raises(CloudBusy) as told:
        wire_offers.read_page(reply(quota, 429, ("X-RateLimit-Reset", reset)), 0, NOW)
    with pytest.raises(CloudBusy) as untold:
        wire_offers.read_page(reply(quota, 429), 0, NOW)

    assert told.value.retry_after.total_seconds() == 7200
    assert untold.value.retry_after.total_seconds() == 12 * 3600 - 30  # midnight UTC


@pytest.mark.parametrize(
    "number",
    [10**400, -(10**400), 1e308, float("inf"), float("nan")],
    ids=["400 digits", "400 digits below zero", "1e308", "infinity", "NaN"],
)
@pytest.mark.parametrize("field", ["disk_space", "reliability", "cpu_cores", "cpu_cores_effective"])
def test_a_number_beyond_any_machine_spoils_one_ask_and_not_the_market(field, number):
    """JSON bounds no number: one that no float can hold must not end the reading of three thousand other asks."""
    settings = ProviderSettings(min_reliability=0.9)
    market = listed(an_ask(id=1, **{field: number}), an_ask(id=2), settings=settings)

    assert {offer.sku for offer in market.listing.offers} == {"2"}
    assert market.listing.dropped == {"bad shape": 1}
