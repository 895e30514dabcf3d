"""Vast's own command line works with our simulator of Vast as with Vast: search, rent, list, look, label, destroy."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.clients.vast.shop import REQUIREMENT, Shop, Spoil, open_shop
from tgp.sim.clouds.machine import Phase
from tools.clients import client_environment

PAINT = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def environment() -> Path:
    return client_environment("vastai", REQUIREMENT)


@pytest.fixture
async def shop(environment: Path, tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(environment, tmp_path) as opened:
        yield opened


async def test_a_search_shows_a_table_of_what_is_on_sale(shop: Shop):
    said = await shop.vastai("search", "offers", "gpu_name=RTX_4090", "reliability>0.9")

    assert said.code == 0, said.err
    header, *rows = PAINT.sub("", said.out).strip().splitlines()
    assert header.split()[:5] == ["#", "ID", "CUDA", "N", "Model"]
    assert rows
    assert all("RTX_4090" in row for row in rows)


async def test_filters_order_and_limit_of_a_search_hold(shop: Shop):
    """The client sends numbers as text and memory in thousands: the answer is still what was asked for."""
    found = await shop.raw(
        "search", "offers", "num_gpus>=2", "gpu_ram>=40", "geolocation in [US,DE,JP]", "-o", "dph-", "--limit", "5"
    )

    assert 0 < len(found) <= 5
    assert all(row["num_gpus"] >= 2 and row["gpu_ram"] >= 40_000 for row in found)
    assert all(row["geolocation"].endswith(("US", "DE", "JP")) for row in found)
    assert found == sorted(found, key=lambda row: -row["dph_total"])


async def test_a_search_prices_the_disk_it_names(shop: Shop):
    (small,) = await shop.raw("search", "offers", "-o", "id", "--limit", "1", "--storage", "10")
    (large,) = await shop.raw("search", "offers", "-o", "id", "--limit", "1", "--storage", "100")

    assert small["id"] == large["id"]
    assert large["dph_total"] - small["dph_total"] == pytest.approx(90 * small["storage_cost"] / 720)


async def test_bids_are_searched_apart(shop: Shop):
    on_demand = await shop.raw("search", "offers", "-o", "id", "--limit", "3")
    bids = await shop.raw("search", "offers", "--bid", "-o", "id", "--limit", "3")

    assert [row["id"] for row in bids] == [row["id"] for row in on_demand]
    assert all(bid["dph_total"] < whole["dph_total"] for bid, whole in zip(bids, on_demand, strict=True))


async def test_the_newer_search_answers_alike(shop: Shop):
    assert await shop.raw("search", "offers", "--new", "-o", "id", "--limit", "3") == await shop.raw(
        "search", "offers", "-o", "id", "--limit", "3"
    )


async def test_a_machine_lives_from_create_to_destroy(shop: Shop):
    """Search, rent, list, look, label, destroy, and it is gone."""
    number = await shop.rented("first-words")
    machine = shop.simulator.fleet.machines[str(number)]
    assert (machine.name, machine.detail["image"], machine.detail["disk"]) == ("first-words", "ubuntu:24.04", 32.0)

    shop.watch.skip(machine.product.boot_seconds * 1.5)
    seen = await shop.raw("show", "instance", str(number))
    assert (seen["id"], seen["actual_status"], seen["label"]) == (number, "running", "first-words")
    assert seen["public_ipaddr"].strip() == machine.public_ip

    said = await shop.vastai("label", "instance", str(number), "second-words")
    assert f"label for {number} set to second-words" in said.out
    assert [row["label"] for row in await shop.raw("show", "instances")] == ["second-words"]

    said = await shop.vastai("destroy", "instance", str(number), "--yes")
    assert f"destroying instance {number}" in said.out
    shop.watch.skip(30)
    assert await shop.raw("show", "instances") == []
    assert machine.phase is Phase.GONE
    assert await shop.raw("show", "instance", str(number)) == {"instances": None}


async def test_the_tables_of_machines_are_drawn(shop: Shop):
    number = await shop.rented("in-a-table")

    several = await shop.vastai("show", "instances")
    one = await shop.vastai("show", "instance", str(number))

    assert (several.code, one.code) == (0, 0), several.err + one.err
    assert str(number) in several.out
    assert "in-a-table" in several.out
    assert str(number) in one.out


async def test_more_machines_than_a_page_are_all_listed(shop: Shop):
    tenant = next(iter(shop.simulator.fleet.accounts))
    shop.simulator.fleet.add_foreign(tenant, 60)
    shop.watch.skip(10)

    listed = await shop.raw("show", "instances")

    assert len({row["id"] for row in listed}) == 60
    assert sum(call.path == "/api/v1/instances/" for call in shop.calls) == 3


async def test_machines_are_listed_by_label(shop: Shop):
    await shop.rented("mine")
    await shop.rented("yours")

    assert [row["label"] for row in await shop.raw("show", "instances", "--label", "yours")] == ["yours"]


async def test_a_bid_rents_an_interruptible_machine(shop: Shop):
    (ask,) = await shop.raw("search", "offers", "--bid", "num_gpus=1", "-o", "dph", "--limit", "1")
    made = await shop.raw(
        "create", "instance", str(ask["id"]), "--image", "ubuntu:24.04", "--bid_price", str(ask["min_bid"] + 0.01)
    )

    machine = shop.simulator.fleet.machines[str(made["new_contract"])]
    assert machine.spot


async def test_stop_is_not_destroy(shop: Shop):
    number = await shop.rented()
    shop.watch.skip(600)

    said = await shop.vastai("stop", "instance", str(number))

    assert "stopping instance" in said.out
    (row,) = await shop.raw("show", "instances")
    assert (row["actual_status"], row["cur_state"]) == ("stopped", "stopped")


async def test_an_offer_that_is_gone_is_refused_in_words(shop: Shop):
    said = await shop.vastai("--raw", "create", "instance", "4711", "--image", "ubuntu:24.04")

    assert '"status_code": 404' in said.err
    assert "no_such_ask" in said.err
    assert shop.simulator.fleet.machines == {}


async def test_a_wrong_key_is_refused_in_words(shop: Shop):
    said = await shop.vastai("show", "instances", key="nobodys-key")

    assert "Failed with error 401: Invalid user key" in said.err


async def test_an_account_shows_its_credit(shop: Shop):
    assert (await shop.raw("show", "user"))["credit"] == pytest.approx(2000)


@pytest.mark.parametrize(
    ("path", "field", "words"),
    [
        ("/api/v0/bundles/", "offers", ("search", "offers")),
        ("/api/v1/instances/", "start_date", ("show", "instances")),
        ("/api/v1/instances/", "extra_env", ("show", "instances")),
    ],
)
async def test_the_client_notices_an_answer_that_lacks_what_it_needs(
    environment: Path, tmp_path: Path, path: str, field: str, words: tuple[str, ...]
):
    """The judge is awake: a simulator that answered so would fail the tests above."""
    async with open_shop(environment, tmp_path, Spoil(path, field)) as shop:
        tenant = next(iter(shop.simulator.fleet.accounts))
        shop.simulator.fleet.add_foreign(tenant, 1)
        shop.watch.skip(10)

        assert (await shop.vastai("--raw", *words)).code != 0
