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
from tgp.sim.clouds.mishaps import Verb


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
        ({"gpu_type": "NVIDIA_A16", "gpu_vram_gb": 2}, "fractional GPU"),
        ({"gpu_type": "NVIDIA_A16", "gpu_vram_gb": 8}, "fractional GPU"),
        ({"gpu_type": "NVIDIA_A100", "gpu_vram_gb": 40}, "fractional GPU"),
        ({"gpu_vram_gb": 24}, "fractional GPU"),
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
    with pytest.raises(CannotTell, match="no end"):
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
        stage.instead(Verb.STATUS, 404, b'{"error": "Not found.", "status": 404}')

        seen = await stage.cloud.status(made.id)

        assert seen is not None
        assert seen.id == made.id
        stage.instead(Verb.STATUS, 404, b"<html>")
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
