"""The pretend Vast before clients that are not ours: older command lines, curl, and people who try things."""

from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.vast.test_simulator import GOOD, VastCustomer, said
from tgp.ports.http import Call, Reply, json_call


@pytest.fixture
def customer() -> VastCustomer:
    return VastCustomer()


async def bare(
    customer: VastCustomer, method: str, path: str, body: bytes = b"", *, query: tuple = (), key: str = ""
) -> Reply:
    headers = (("authorization", f"BEARER {key}"),) if key else ()
    return await customer.vast.handle(Call(method, path, query=query, headers=headers, body=body))


# -- keys and addresses ------------------------------------------------------------------------------------------------


async def test_a_key_in_the_address_opens_the_account_too(customer):
    """As older command lines send it."""
    right = await bare(
        customer, "GET", "/api/v0/users/current", query=(("api_key", customer.vast.key), ("owner", "me"))
    )
    wrong = await bare(customer, "GET", "/api/v0/users/current", query=(("api_key", "guessed"),))

    assert (right.status, wrong.status) == (200, 401)


async def test_an_account_names_the_key_it_was_asked_with(customer):
    """Older command lines take it out of the answer before they show it, and fail where it is missing."""
    account = said(await customer.send("GET", "/api/v0/users/current"))

    assert account["api_key"] == customer.vast.key


async def test_slashes_at_the_end_and_letters_of_headers_make_no_difference(customer):
    for path in ("/api/v1/instances", "/api/v1/instances/"):
        assert (await bare(customer, "GET", path, key=customer.vast.key)).status == 200


async def test_unknown_parameters_are_left_alone(customer):
    reply = await customer.send("GET", "/api/v1/instances/", query=(("owner", "me"), ("colour", "green")))

    assert reply.status == 200


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH"])
async def test_methods_that_nothing_takes_are_refused_and_not_obeyed(customer, method):
    made = said(await customer.rent())["new_contract"]
    reply = await customer.send(method, f"/api/v0/instances/{made}/")

    assert 400 <= reply.status < 500
    assert said(reply)["success"] is False
    assert len(customer.vast.fleet.machines) == 1


async def test_a_delete_without_a_body_is_a_delete(customer):
    made = said(await customer.rent())["new_contract"]
    customer.skip(10)
    reply = await bare(customer, "DELETE", f"/api/v0/instances/{made}/", key=customer.vast.key)

    assert (reply.status, said(reply)) == (200, {"success": True})


# -- searches ----------------------------------------------------------------------------------------------------------


async def search(customer: VastCustomer, body: dict[str, Any]) -> Reply:
    return await bare(customer, "POST", "/api/v0/bundles/", msgspec.json.encode(body))


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
async def test_a_search_that_makes_no_sense_is_refused_in_the_envelope(customer, body):
    reply = await search(customer, body)

    assert reply.status == 400
    assert {"error", "msg"} <= set(said(reply))


@pytest.mark.parametrize("body", [DEEP, b"\xff\xfe", b"{", b"7"], ids=["deep", "no UTF-8", "half", "a number"])
async def test_a_body_that_is_no_object_is_refused(customer, body):
    for method, path in (("POST", "/api/v0/bundles/"), ("PUT", f"/api/v0/asks/{customer.ask}/")):
        assert (await bare(customer, method, path, body, key=customer.vast.key)).status == 400


@pytest.mark.parametrize("field", ["hostname", "discount_rate", "cluster_id", "gpu_name", "rentable", "dph_total"])
async def test_any_plain_field_can_be_sorted_by(customer, field):
    rows = said(await search(customer, {"order": [[field, "desc"]]}))["offers"]

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
async def test_filters_of_other_clients_are_understood(customer, name, conditions):
    every = said(await search(customer, {"limit": 5000}))["offers"]

    assert said(await search(customer, {name: conditions, "limit": 5000}))["offers"] == every


async def test_a_driver_is_compared_by_its_parts(customer):
    rows = said(await search(customer, {"driver_version": {"gte": 565_000_000}, "limit": 5000}))["offers"]

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


async def test_an_ask_has_every_field_that_is_documented(customer):
    rows = said(await search(customer, {"limit": 5000}))["offers"]

    assert [set(DOCUMENTED.split()) - set(row) for row in rows] == [set()] * len(rows)


async def test_the_hourly_sums_of_an_ask_are_its_price(customer):
    row = said(await search(customer, {"limit": 1, "allocated_storage": 64}))["offers"][0]

    assert row["search"]["totalHour"] == pytest.approx(row["dph_total"])
    assert row["search"]["gpuCostPerHour"] + row["search"]["diskHour"] == pytest.approx(row["dph_total"])


# -- machines ----------------------------------------------------------------------------------------------------------


async def listed(customer: VastCustomer, **query: str) -> Reply:
    return await customer.send("GET", "/api/v1/instances/", query=tuple(query.items()))


async def test_a_star_selects_all_columns(customer):
    await customer.rent()
    customer.skip(10)
    every = said(await listed(customer))["instances"]

    assert said(await listed(customer, select_cols='["*"]'))["instances"] == every
    assert said(await listed(customer, select_cols='["id"]'))["instances"] == [{"id": every[0]["id"]}]


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
async def test_a_list_that_makes_no_sense_is_refused_in_the_envelope(customer, query):
    await customer.rent()
    await customer.send("PUT", f"/api/v0/asks/{other(customer)}/", GOOD)
    customer.skip(10)
    reply = await listed(customer, **query)

    assert reply.status == 400
    assert said(reply)["error"] == "invalid_args"


@pytest.mark.parametrize("number", ["9" * 5000, "0", "-1", "%2e%2e", "1e3"])
async def test_numbers_that_are_none_are_no_machines(customer, number):
    for method, path in (("PUT", f"/api/v0/asks/{number}/"), ("DELETE", f"/api/v0/instances/{number}/")):
        reply = await customer.send(method, path, GOOD if method == "PUT" else {})
        assert reply.status in (400, 404)
        assert said(reply)["success"] is False


async def test_a_list_whose_last_page_is_full_ends_there(customer):
    customer.vast.fleet.add_foreign(customer.vast.fleet.accounts.of(customer.vast.key), 50)
    first = said(await listed(customer, limit="25"))
    last = said(await listed(customer, limit="25", after_token=first["next_token"]))

    assert (len(last["instances"]), last["next_token"]) == (25, None)


def other(customer: VastCustomer) -> str:
    return next(s.product.sku for s in customer.vast.fleet.selling() if s.stock and s.product.sku != customer.ask)


async def test_fields_of_older_clients_that_say_nothing_are_left_alone(customer):
    """The command line sends every field it knows, most of them null."""
    assert (await customer.rent(create_from=None, entrypoint=None, volume_info=None)).status == 200


async def test_an_order_without_a_content_type_is_an_order(customer):
    body = json_call("PUT", "/", GOOD).body
    reply = await bare(customer, "PUT", f"/api/v0/asks/{customer.ask}/", body, key=customer.vast.key)

    assert said(reply)["success"] is True
