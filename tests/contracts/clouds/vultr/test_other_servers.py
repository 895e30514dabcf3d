"""Answers that our simulator never gives and a real server might: rows twice, tags of strangers, odd words."""

from dataclasses import replace

import pytest

from tests.contracts.clouds.providers.vultr import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tests.contracts.clouds.vultr.answers import ID, TOKEN, a_machine, a_plan, page
from tgp.adapters.clouds.vultr import wire
from tgp.adapters.clouds.vultr.listing import read_plans
from tgp.adapters.clouds.vultr.machines import read_machine
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.instance import InstanceState
from tgp.sim.clouds.vultr import SNAPSHOT_ID

OTHER = "0f7e2c1a-52f3-4c43-9d7f-6a5b3c2d1e0f"


def test_a_row_that_is_listed_twice_does_not_stand_in_for_one_that_is_missing():
    """Two rows came and two are counted, and yet one machine was not shown."""
    pages = wire.machines()
    pages.take(page("instances", [a_machine()], total=2, following="abc"), "owned")

    with pytest.raises(CannotTell, match="the list is incomplete"):
        pages.take(page("instances", [a_machine()], total=2), "owned")


def test_a_row_that_the_next_page_repeats_spoils_nothing():
    pages = wire.machines()
    pages.take(page("instances", [a_machine()], total=2, following="abc"), "owned")

    assert not pages.take(page("instances", [a_machine(), a_machine(id=OTHER)], total=2), "owned")


def test_a_last_page_that_is_exactly_full_ends_the_list():
    rows = [a_machine(id=f"{number:08x}-66fd-4dfb-b839-443f2e6c0b60") for number in range(1000)]
    pages = wire.machines()

    assert pages.take(page("instances", rows[:500], total=1000, following="abc"), "owned")
    assert not pages.take(page("instances", rows[500:], total=1000), "owned")
    assert len(pages.rows) == 1000


@pytest.mark.parametrize("tags", [["tgp-a-demo", TOKEN], [TOKEN, "tgp-a-demo"], ["tgp-a-demo", "team:ml", TOKEN]])
def test_a_tag_that_a_user_added_and_looks_like_ours_does_not_hide_a_machine(tags: list[str]):
    """Hidden, the order would be taken for lost, and sent again."""
    assert read_machine(a_machine(tags=tags)).token == TOKEN
    assert read_machine(a_machine(tags=tags, label="")).token == TOKEN


@pytest.mark.parametrize("server", ["locked", "installingbooting"])
def test_a_machine_that_is_being_written_is_not_one_that_was_switched_off(server: str):
    """While a snapshot is written to its disk a machine is dark and locked: it starts."""
    row = a_machine(status="active", power_status="stopped", server_status=server)

    assert read_machine(row).state is InstanceState.STARTING


def test_a_machine_with_nothing_but_its_id_and_its_label_is_a_machine():
    row = dict.fromkeys(a_machine()) | {"id": ID, "label": TOKEN, "brand_new": {"x": [1]}}
    machine = read_machine(row)

    assert (machine.id, machine.token, machine.state) == (ID, TOKEN, InstanceState.UNKNOWN)
    assert (machine.created_at, machine.public_ip, machine.sku) == (None, "", "")


@pytest.mark.parametrize("field", ["disk_count", "deploy_ondemand", "monthly_cost", "type", "bandwidth"])
def test_a_plan_may_be_silent_about_what_is_optional(field: str):
    assert len(read_plans([a_plan(**{field: None, "brand_new": 1})], {}).offers) == 2


def test_a_check_says_how_an_image_with_drivers_will_come_there():
    """Said before money is spent: a GPU without a driver is no GPU to Kubernetes."""

    async def script(stage: Stage) -> None:
        told = await stage.cloud.check()
        assert any("NVIDIA" in note and "snapshotId" in note for note in told.notes)

    play(PROVIDER, script)


def test_a_snapshot_of_ones_own_is_not_doubted():
    async def script(stage: Stage) -> None:
        told = await stage.cloud.check()
        assert not any("NVIDIA" in note for note in told.notes)

    def with_snapshot(url: str) -> ProviderSettings:
        return ProviderSettings(endpoint=url, snapshot_id=SNAPSHOT_ID)

    play(replace(PROVIDER, settings=with_snapshot), script)
