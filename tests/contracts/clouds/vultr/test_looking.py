"""What Vultr lists, read with care: plans, machines in pages, the account."""

from datetime import UTC, datetime

import pytest

from tests.contracts.clouds.providers.vultr import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tests.contracts.clouds.vultr.answers import ID, TOKEN, a_machine, a_plan, page, refused, reply
from tgp.adapters.clouds.vultr import wire
from tgp.adapters.clouds.vultr.check import identity, report
from tgp.adapters.clouds.vultr.listing import read_plans, read_regions
from tgp.adapters.clouds.vultr.machines import read_machine, read_machines
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, KeyRefused
from tgp.core.model.instance import InstanceState
from tgp.core.model.offer import BootMode, Stock
from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudVerb


def test_an_offer_per_location_says_what_vultr_says():
    offers = read_plans([a_plan()], {"lax": "US", "blr": "IN"}).offers

    assert [(offer.place, offer.region, offer.country) for offer in offers] == [
        ("blr", "ap-south", "IN"),
        ("lax", "us-west", "US"),
    ]
    assert {(offer.gpu, offer.gpu_count, offer.gpu_memory_gib) for offer in offers} == {("A40", 1, 48)}
    assert {(offer.vcpus, offer.memory_gib, offer.disk_gib) for offer in offers} == {(24, 120, 1400)}
    assert {(offer.hourly_microusd, offer.stock, offer.boot) for offer in offers} == {
        (1_710_000, Stock.LIKELY, BootMode.NATIVE)
    }


def test_a_location_that_no_table_knows_is_placed_by_its_country():
    regions = read_regions([{"id": "xyz", "country": "SE"}, {"id": 7}, None, {"id": "abc", "country": "Sweden"}])
    (offer,) = read_plans([a_plan(locations=["xyz"])], regions).offers

    assert regions == {"xyz": "SE"}
    assert (offer.region, offer.country) == ("eu-north", "SE")


@pytest.mark.parametrize(
    ("gpu_type", "vram", "count"),
    [
        ("NVIDIA_A16", 16, 1),
        ("NVIDIA_A16", 64, 4),
        ("NVIDIA_A100", 80, 1),
        ("NVIDIA_A100", 320, 4),
        ("NVIDIA_L40S", 96, 2),
    ],
)
def test_the_memory_of_a_plan_counts_its_cards(gpu_type: str, vram: int, count: int):
    (offer,) = read_plans([a_plan(gpu_type=gpu_type, gpu_vram_gb=vram, locations=["ewr"])], {}).offers

    assert offer.gpu_count == count


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"gpu_type": "NVIDIA_L40S", "gpu_vram_gb": 24}, "fractional GPU"),
        ({"type": "vdm"}, "region unknown without an API key"),
        ({"type": "vdm", "id": "vcg-abacus-2c-8g-16vram"}, "unknown GPU"),
        ({"type": "vdm", "id": "vdm-by-another-rule"}, "unknown GPU"),
        ({"type": "vdm", "id": "vcg-mi325x-252c-2872g-1536vram"}, "unknown GPU"),
        ({"type": "vdm", "id": "vcg-a40-12c-60g-24vram"}, "fractional GPU"),
        ({"type": "vdm", "deploy_ondemand": False}, "not rentable"),
        ({"gpu_vram_gb": 72}, "fractional GPU"),
        ({"gpu_vram_gb": 0}, "fractional GPU"),
        ({"gpu_type": "NVIDIA_ABACUS"}, "unknown GPU"),
        ({"gpu_type": None}, "bad shape"),
        ({"gpu_vram_gb": "48"}, "bad shape"),
        ({"gpu_vram_gb": 48 * 65}, "bad shape"),
        ({"hourly_cost": None}, "bad price"),
        ({"hourly_cost": 0}, "bad price"),
        ({"hourly_cost": 1e9}, "bad price"),
        ({"deploy_ondemand": False}, "not rentable"),
        ({"locations": []}, "sold out"),
        ({"locations": [""]}, "sold out"),
        ({"locations": None}, "bad shape"),
        ({"locations": ["../x"]}, "bad shape"),
        ({"id": "a/b"}, "bad shape"),
        ({"ram": -1}, "bad shape"),
    ],
)
def test_a_bad_plan_is_left_out_and_counted_and_spoils_no_other(change: dict, reason: str):
    listing = read_plans([a_plan(**change), a_plan(id="good", locations=["lax"])], {})

    assert [offer.sku for offer in listing.offers] == ["good"]
    assert listing.dropped == {reason: 1}


@pytest.mark.parametrize(
    ("gpu_type", "vram", "count", "memory"),
    [("NVIDIA_A16", 2, 1, 2), ("NVIDIA_A40", 24, 1, 24), ("NVIDIA_A100", 80, 1, 80), ("NVIDIA_A16", 64, 4, 16)],
)
def test_a_shared_card_of_the_vgpu_models_says_that_no_driver_of_talos_drives_it(gpu_type, vram, count, memory):
    (offer,) = read_plans([a_plan(gpu_type=gpu_type, gpu_vram_gb=vram, locations=["ewr"])], {}).offers

    assert (offer.gpu_count, offer.gpu_memory_gib) == (count, memory)
    assert "vGPU" in offer.no_driver
    assert offer.no_node == offer.no_driver


def test_whole_cards_can_be_driven_whether_they_are_shared_out_or_dedicated():
    plans = [a_plan(gpu_type="NVIDIA_L40S", locations=["ewr"]), dedicated("vcg-a100-12c-120g-80vram")]
    offers = read_plans(plans, {}, {"fra": frozenset({"vcg-a100-12c-120g-80vram"})}).offers

    assert {(offer.gpu, offer.place, offer.no_node) for offer in offers} == {
        ("L40S", "ewr", ""),
        ("A100-80GB-PCIE", "fra", ""),
    }


@pytest.mark.parametrize(
    ("plan", "gpu", "count", "memory"),
    [
        ("vcg-a16-6c-64g-16vram", "A16", 1, 16),
        ("vcg-a16-96c-960g-256vram", "A16", 16, 16),
        ("vcg-a40-96c-480g-192vram", "A40", 4, 48),
        ("vcg-a100-96c-960g-640vram", "A100-80GB-PCIE", 8, 80),
        ("vcg-h100-216c-1914gb-640vram", "H100-SXM", 8, 80),
        ("vcg-b200-248c-2826g-1536vram", "B200", 8, 180),
        ("vcg-mi355x-252c-2872g-2304vram", "MI355X", 8, 288),
    ],
)
def test_a_dedicated_plan_is_known_by_its_id_and_stands_where_the_regions_say(plan, gpu, count, memory):
    available = {"ord": frozenset({plan, "other"}), "ewr": frozenset({"other"}), "nrt": frozenset({plan})}
    offers = read_plans([dedicated(plan)], {"ord": "US", "nrt": "JP"}, available).offers

    assert {(offer.gpu, offer.gpu_count, offer.gpu_memory_gib) for offer in offers} == {(gpu, count, memory)}
    assert [offer.place for offer in offers] == ["nrt", "ord"]
    assert read_plans([dedicated(plan)], {}, {"ewr": frozenset()}).dropped == {"sold out": 1}


def dedicated(plan: str) -> dict:
    row = a_plan(id=plan, type="vdm", locations=[])
    return {name: value for name, value in row.items() if not name.startswith("gpu_")}


def test_dedicated_plans_are_listed_with_a_key():
    """A refused key, or none, leaves them out and says so: the shared plans are public."""

    async def script(stage: Stage) -> None:
        mine, strangers = await stage.cloud.offers(), await stage.cloud_of("refused").offers()

        whole = {offer.gpu_count for offer in mine.offers if offer.gpu in ("H100-SXM", "B200")}
        assert whole == {8}
        assert "region unknown without an API key" not in mine.dropped
        plans = {stand.product.sku: stand.product.detail["type"] for stand in stage.fleet.stands.values()}
        assert strangers.dropped["region unknown without an API key"] == list(plans.values()).count("vdm")
        assert (await stage.cloud_of(None).offers()).dropped == strangers.dropped
        assert strangers.offers

    play(PROVIDER, script)


def test_a_region_that_does_not_answer_spoils_the_listing():
    """What it has is unknown, and that is not nothing."""

    async def script(stage: Stage) -> None:
        stage.instead(CloudVerb.OTHER, 200, page("regions", [{"id": "ewr", "country": "US"}]).content)
        stage.instead(CloudVerb.OTHER, 500)
        with pytest.raises(CloudBusy):
            await stage.cloud.offers()

    play(PROVIDER, script)


def test_a_machine_says_what_vultr_says():
    machine = read_machine(a_machine())

    assert (machine.id, machine.token, machine.state) == (ID, TOKEN, InstanceState.RUNNING)
    assert (machine.sku, machine.place, machine.hourly_microusd) == ("vcg-a40-24c-120g-48vram", "lax", None)
    assert machine.created_at == datetime(2026, 11, 15, 12, 30, 5, tzinfo=UTC)
    assert (machine.public_ip, machine.tags) == ("203.0.113.7", {"team": "ml", TOKEN: ""})


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("pending", "running", "none"), InstanceState.STARTING),
        (("active", "running", "installingbooting"), InstanceState.STARTING),
        (("active", "running", "locked"), InstanceState.STARTING),
        (("active", "running", "ok"), InstanceState.RUNNING),
        (("active", "stopped", "ok"), InstanceState.STOPPED),
        (("suspended", "stopped", "ok"), InstanceState.STOPPED),
        (("resizing", "stopped", "ok"), InstanceState.STARTING),
        (("failed", "stopped", "none"), InstanceState.BROKEN),
        (("halted", "stopped", "ok"), InstanceState.UNKNOWN),
        ((7, None, {}), InstanceState.UNKNOWN),
    ],
)
def test_three_words_make_one_state(words: tuple, state: InstanceState):
    """A machine that is switched off is ours, and billed on."""
    status, power, server = words

    assert read_machine(a_machine(status=status, power_status=power, server_status=server)).state is state


def test_the_address_of_a_machine_that_starts_is_none():
    assert read_machine(a_machine(main_ip="0.0.0.0")).public_ip == ""  # noqa: S104 - what Vultr sends


def test_a_relabelled_machine_is_still_ours():
    assert read_machine(a_machine(label="my favourite")).token == TOKEN
    assert read_machine(a_machine(tags=None)).token == TOKEN
    assert read_machine(a_machine(label="theirs", tags=["x"])).token == "theirs"


@pytest.mark.parametrize(
    "row",
    [None, a_machine(id=None), a_machine(id="../x"), a_machine(label=7), a_machine(tags="x"), a_machine(tags=[7])],
)
def test_a_row_that_may_be_ours_and_cannot_be_read_spoils_the_list(row):
    with pytest.raises(CannotTell):
        read_machines([a_machine(), row])


def test_a_row_that_two_pages_show_is_one_machine():
    assert len(read_machines([a_machine(), a_machine()])) == 1
    assert read_machines([a_machine(id=None, label="theirs", tags=[])]) == ()


def test_pages_follow_the_cursor_to_the_end():
    pages = wire.machines()
    assert pages.take(page("instances", [1], total=2, following="abc"), "owned")
    assert pages.call().query == (("per_page", "500"), ("cursor", "abc"))
    assert not pages.take(page("instances", [2], total=2), "owned")
    assert pages.rows == [1, 2]


@pytest.mark.parametrize(
    "answer",
    [
        reply(200, {"instances": []}),
        reply(200, {"instances": [], "meta": {}}),
        reply(200, {"instances": [], "meta": {"total": 0}}),
        reply(200, {"instances": [], "meta": {"total": "0", "links": {"next": ""}}}),
        reply(200, {"instances": [], "meta": {"total": 0, "links": {"next": None}}}),
        reply(200, {"instances": None, "meta": {"total": 0, "links": {"next": ""}}}),
        page("instances", [], total=3),
        page("instances", [], following="x" * 513),
        Reply(200, b"<html>"),
        refused(404),
        refused(410),
    ],
)
def test_a_list_that_does_not_prove_itself_whole_proves_nothing(answer: Reply):
    with pytest.raises(CannotTell):
        wire.machines().take(answer, "owned")


def test_a_cursor_that_leads_back_ends_in_an_error():
    pages = wire.machines()
    pages.take(page("instances", [1], following="abc"), "owned")
    with pytest.raises(CannotTell, match="repeats a cursor"):
        pages.take(page("instances", [1], following="abc"), "owned")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused(401), KeyRefused),
        (refused(403), KeyRefused),
        (Reply(401, b"<html>"), CannotTell),
        (refused(429), CloudBusy),
        (Reply(502, b"<html>"), CloudBusy),
        (refused(400), CannotTell),
    ],
)
def test_a_failed_look_is_never_nothing(answer: Reply, error: type):
    with pytest.raises(error):
        wire.machines().take(answer, "owned")


def test_a_404_is_believed_only_with_the_list_beside_it():
    """It has no code: a gateway that lost the path answers the same."""

    async def script(stage: Stage) -> None:
        made = await stage.launched()
        stage.instead(CloudVerb.STATUS, 404, b'{"error": "Not found.", "status": 404}')

        seen = await stage.cloud.status(made.id)

        assert seen is not None
        assert seen.id == made.id
        stage.instead(CloudVerb.STATUS, 404, b"<html>")
        await stage.raises(CannotTell, stage.cloud.status(made.id))

    play(PROVIDER, script)


def an_account(**changes):
    return {
        "name": "Some Company",
        "email": "ops@example.com",
        "acls": ["provisioning", "subscriptions"],
        "balance": -50.5,
        "pending_charges": 0.25,
    } | changes


def test_a_balance_below_zero_is_a_credit():
    told = report(an_account(), image="")

    assert (told.balance_microusd, told.can_buy) == (50_250_000, True)
    owes = report(an_account(balance=10, pending_charges=2.5), image="")
    assert (owes.balance_microusd, owes.can_buy) == (None, True)
    assert "$12.50" in owes.notes[0]
    for nonsense in ("10", None, float("inf"), 1e300, True):
        assert report(an_account(balance=nonsense), image="").balance_microusd is None


def test_rights_are_read_from_the_account():
    weak = report(an_account(acls=["billing"]), image="")
    silent = report(an_account(acls=None), image="")

    assert [right.held for right in weak.rights] == [False, False, False]
    assert not weak.can_buy
    assert [right.held for right in silent.rights] == [None, None, None]
    assert silent.can_buy


def test_an_account_is_known_by_name_and_mail_and_shows_neither_key_nor_mail():
    ours = identity(an_account())

    assert ours == identity(an_account(balance=0))
    assert ours.id != identity(an_account(email="other@example.com")).id
    assert "example.com" not in repr(ours)
    for nameless in (an_account(email=""), an_account(email=None), an_account(name=7)):
        with pytest.raises(CannotTell):
            identity(nameless)
