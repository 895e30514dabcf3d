"""The pretend Vast before clients that are not ours: older command lines, curl, and people who try things."""

from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.vast.test_simulator import GOOD, Desk, said
from tgp.ports.http import Call, Reply, json_call


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def bare(desk: Desk, method: str, path: str, body: bytes = b"", *, query: tuple = (), key: str = "") -> Reply:
    headers = (("authorization", f"BEARER {key}"),) if key else ()
    return await desk.vast.handle(Call(method, path, query=query, headers=headers, body=body))


# -- keys and addresses ------------------------------------------------------------------------------------------------


async def test_a_key_in_the_address_opens_the_account_too(desk):
    """As older command lines send it."""
    right = await bare(desk, "GET", "/api/v0/users/current", query=(("api_key", desk.vast.key), ("owner", "me")))
    wrong = await bare(desk, "GET", "/api/v0/users/current", query=(("api_key", "guessed"),))

    assert (right.status, wrong.status) == (200, 401)


async def test_an_account_names_the_key_it_was_asked_with(desk):
    """Older command lines take it out of the answer before they show it, and fail where it is missing."""
    account = said(await desk.send("GET", "/api/v0/users/current"))

    assert account["api_key"] == desk.vast.key


async def test_slashes_at_the_end_and_letters_of_headers_make_no_difference(desk):
    for path in ("/api/v1/instances", "/api/v1/instances/"):
        assert (await bare(desk, "GET", path, key=desk.vast.key)).status == 200


async def test_unknown_parameters_are_left_alone(desk):
    reply = await desk.send("GET", "/api/v1/instances/", query=(("owner", "me"), ("colour", "green")))

    assert reply.status == 200


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH"])
async def test_methods_that_nothing_takes_are_refused_and_not_obeyed(desk, method):
    made = said(await desk.rent())["new_contract"]
    reply = await desk.send(method, f"/api/v0/instances/{made}/")

    assert 400 <= reply.status < 500
    assert said(reply)["success"] is False
    assert len(desk.vast.fleet.machines) == 1


async def test_a_delete_without_a_body_is_a_delete(desk):
    made = said(await desk.rent())["new_contract"]
    desk.skip(10)
    reply = await bare(desk, "DELETE", f"/api/v0/instances/{made}/", key=desk.vast.key)

    assert (reply.status, said(reply)) == (200, {"success": True})


# -- searches ----------------------------------------------------------------------------------------------------------


async def search(desk: Desk, body: dict[str, Any]) -> Reply:
    return await bare(desk, "POST", "/api/v0/bundles/", msgspec.json.encode(body))


DEEP = b'{"gpu_name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
STRANGE_SEARCHES = [
    {"limit": "nan"},
    {"limit": "inf"},
    {"limit": 10**400},
    {"limit": True},
    {"allocated_storage": "nan"},
    {"allocated_storage": -5},
    {"num_gpus": {"eq": 10**400}},
    {"num_gpus": {"gte": "many"}},
    {"gpu_name": {"gt": 5}},
    {"geolocation": {"lt": None}},
    {"gpu_name": {"in": "RTX 4090"}},
    {"order": [[["id"], "asc"]]},
    {"order": [["id"]]},
    {"order": [["search", "asc"]]},
    {"order": "id"},
    {"type": ["bid"]},
]


@pytest.mark.parametrize("body", STRANGE_SEARCHES, ids=[str(each)[:40] for each in STRANGE_SEARCHES])
async def test_a_search_that_makes_no_sense_is_refused_in_the_envelope(desk, body):
    reply = await search(desk, body)

    assert reply.status == 400
    assert {"error", "msg"} <= set(said(reply))


@pytest.mark.parametrize("body", [DEEP, b"\xff\xfe", b"{", b"7"], ids=["deep", "no UTF-8", "half", "a number"])
async def test_a_body_that_is_no_object_is_refused(desk, body):
    for method, path in (("POST", "/api/v0/bundles/"), ("PUT", f"/api/v0/asks/{desk.ask}/")):
        assert (await bare(desk, method, path, body, key=desk.vast.key)).status == 400


@pytest.mark.parametrize("field", ["hostname", "discount_rate", "cluster_id", "gpu_name", "rentable", "dph_total"])
async def test_any_plain_field_can_be_sorted_by(desk, field):
    rows = said(await search(desk, {"order": [[field, "desc"]]}))["offers"]

    assert rows


@pytest.mark.parametrize(
    ("name", "conditions"),
    [
        ("reliability2", {"gte": "0.5"}),
        ("hosting_type", {"in": [0, 1]}),
        ("driver_version", {"gte": 535_000_000}),  # as the command line sends `driver_version >= 535.0.0`
        ("driver_version", {"neq": "1.2.3"}),
        ("cluster_id", {"eq": None}),
        ("cuda_max_good", {"gte": "12"}),
        ("vms_enabled", {"in": [True, False]}),
    ],
    ids=str,
)
async def test_filters_of_other_clients_are_understood(desk, name, conditions):
    every = said(await search(desk, {"limit": 5000}))["offers"]

    assert said(await search(desk, {name: conditions, "limit": 5000}))["offers"] == every


async def test_a_driver_is_compared_by_its_parts(desk):
    rows = said(await search(desk, {"driver_version": {"gte": 565_000_000}, "limit": 5000}))["offers"]

    assert rows
    assert {row["driver_version"].partition(".")[0] for row in rows} == {"565", "570", "580"}


DOCUMENTED = """
id ask_contract_id bundle_id bundled_results machine_id host_id hosting_type hostname num_gpus gpu_name gpu_ram
gpu_total_ram gpu_frac gpu_arch gpu_ids gpu_lanes gpu_mem_bw gpu_max_power gpu_max_temp gpu_display_active compute_cap
cuda_max_good driver_version driver_vers bw_nvlink cpu_name cpu_cores cpu_cores_effective cpu_ghz cpu_ram cpu_arch
has_avx mobo_name os_version pci_gen pcie_bw disk_space disk_bw disk_name inet_up inet_down inet_up_cost inet_down_cost
internet_up_cost_per_tb internet_down_cost_per_tb direct_port_count public_ipaddr static_ip geolocation geolocode
dph_base dph_total dph_total_adj discounted_dph_total discount_rate discounted_hourly credit_discount_max min_bid is_bid
storage_cost storage_total_cost vram_costperhour platform_fee dlperf dlperf_per_dphtotal flops_per_dphtotal total_flops
score reliability reliability2 reliability_mult expected_reliability verification vericode rentable rented external
vms_enabled is_vm_deverified resource_type cluster_id start_date end_date duration time_remaining time_remaining_isbid
avail_vol_ask_id avail_vol_dph avail_vol_size nw_disk_min_bw nw_disk_max_bw nw_disk_avg_bw logo webpage rn search
instance
"""


async def test_an_ask_has_every_field_that_is_documented(desk):
    rows = said(await search(desk, {"limit": 5000}))["offers"]

    assert [set(DOCUMENTED.split()) - set(row) for row in rows] == [set()] * len(rows)


async def test_the_hourly_sums_of_an_ask_are_its_price(desk):
    row = said(await search(desk, {"limit": 1, "allocated_storage": 64}))["offers"][0]

    assert row["search"]["totalHour"] == pytest.approx(row["dph_total"])
    assert row["search"]["gpuCostPerHour"] + row["search"]["diskHour"] == pytest.approx(row["dph_total"])


# -- machines ----------------------------------------------------------------------------------------------------------


async def listed(desk: Desk, **query: str) -> Reply:
    return await desk.send("GET", "/api/v1/instances/", query=tuple(query.items()))


async def test_a_star_selects_all_columns(desk):
    await desk.rent()
    desk.skip(10)
    every = said(await listed(desk))["instances"]

    assert said(await listed(desk, select_cols='["*"]'))["instances"] == every
    assert said(await listed(desk, select_cols='["id"]'))["instances"] == [{"id": every[0]["id"]}]


@pytest.mark.parametrize(
    "query",
    [
        {"select_cols": "[[1]]"},
        {"order_by": '[{"col": "ports"}]'},
        {"order_by": '[{"col": ["id"]}]'},
        {"order_by": '[{"col": "id", "dir": "sideways"}]'},
        {"after_token": "e30="},
        {"after_token": "eyJ2YWx1ZXMiOnsiaWQiOjFlOTk5fX0="},
        {"select_filters": "[" * 100_000},
        {"limit": "9" * 5000},
    ],
    ids=lambda query: str(query)[:40],
)
async def test_a_list_that_makes_no_sense_is_refused_in_the_envelope(desk, query):
    await desk.rent()
    await desk.send("PUT", f"/api/v0/asks/{other(desk)}/", GOOD)
    desk.skip(10)
    reply = await listed(desk, **query)

    assert reply.status == 400
    assert said(reply)["error"] == "invalid_args"


@pytest.mark.parametrize("number", ["9" * 5000, "0", "-1", "%2e%2e", "1e3"])
async def test_numbers_that_are_none_are_no_machines(desk, number):
    for method, path in (("PUT", f"/api/v0/asks/{number}/"), ("DELETE", f"/api/v0/instances/{number}/")):
        reply = await desk.send(method, path, GOOD if method == "PUT" else {})
        assert reply.status in (400, 404)
        assert said(reply)["success"] is False


async def test_a_list_whose_last_page_is_full_ends_there(desk):
    desk.vast.fleet.add_foreign(desk.vast.fleet.accounts.of(desk.vast.key), 50)
    first = said(await listed(desk, limit="25"))
    last = said(await listed(desk, limit="25", after_token=first["next_token"]))

    assert (len(last["instances"]), last["next_token"]) == (25, None)


def other(desk: Desk) -> str:
    return next(s.product.sku for s in desk.vast.fleet.selling() if s.stock and s.product.sku != desk.ask)


async def test_fields_of_older_clients_that_say_nothing_are_left_alone(desk):
    """The command line sends every field it knows, most of them null."""
    assert (await desk.rent(create_from=None, entrypoint=None, volume_info=None)).status == 200


async def test_an_order_without_a_content_type_is_an_order(desk):
    body = json_call("PUT", "/", GOOD).body
    reply = await bare(desk, "PUT", f"/api/v0/asks/{desk.ask}/", body, key=desk.vast.key)

    assert said(reply)["success"] is True
