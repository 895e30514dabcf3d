"""The life of owned machines: what they cost, whether they are on, and for whom."""

from dataclasses import replace

import pytest

from tests.contracts.clouds.webhook.bench import (
    OTHER_TOKEN,
    SIGNING,
    TOKEN,
    Bench,
    a_machine,
    an_order,
    instance,
    said,
)
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, CloudError, KeyRefused, OrderRefused, SoldOut
from tgp.core.model.instance import InstanceState
from tgp.core.model.offer import BootMode, Stock
from tgp.core.model.secret import Secret
from tgp.ports.http import Call, Reply

OFF = said(state="off", token="")


def by_machine(**replies: Reply):
    """A status per machine: box_1=…"""
    return lambda call: replies[call.path.split("/")[1].replace("-", "_")]


# -- offers ------------------------------------------------------------------------------------------------------------

PRICES = {
    "its own price": ({"price_per_hour": "0.125"}, {}, 125_000),
    "its electricity": ({"watts": 650}, {"electricity_price_per_kwh": "0.30"}, 195_000),
    "electricity, rounded up": ({"watts": 1}, {"electricity_price_per_kwh": "0.0001"}, 1),
    "watts without a price of electricity": ({"watts": 650}, {}, 4),
    "nothing told": ({}, {"electricity_price_per_kwh": "0.30"}, 4),
    "free electricity": ({"watts": 650}, {"electricity_price_per_kwh": "0"}, 4),
    "a price of nothing": ({"price_per_hour": "0.00"}, {}, 4),
}


@pytest.mark.parametrize("case", PRICES.values(), ids=PRICES)
async def test_what_an_hour_costs(case):
    machine, settings, price = case
    (offer,) = (await Bench({"status": OFF}).cloud(a_machine(**machine), **settings).offers()).offers

    assert offer.hourly_microusd == price


@pytest.mark.parametrize("text", ["-1", "NaN", "Infinity", "1e9", "words", ""])
async def test_a_price_that_is_none_is_dropped_and_counted(text: str):
    """The schema refuses it; an object that came round the schema is not bought by."""
    listing = await Bench({"status": OFF}).cloud(a_machine(price_per_hour=text), a_machine("box-2")).offers()

    assert [offer.sku for offer in listing.offers] == ["box-2"]
    assert listing.dropped == {"bad price": 1}


async def test_without_prices_the_smallest_that_suffices_goes_first():
    sizes = {"eight": 8, "one": 1, "four": 4}
    cloud = Bench({"status": OFF}).cloud(*(a_machine(name, gpu_count=count) for name, count in sizes.items()))
    ranked = sorted((await cloud.offers()).offers, key=lambda offer: offer.hourly_microusd)

    assert [offer.sku for offer in ranked] == ["one", "four", "eight"]


async def test_an_offer_is_what_the_class_says():
    machine = a_machine(gpu_type="rtx 4090", cpu="31500m", memory="100G")
    (offer,) = (await Bench({"status": OFF}).cloud(machine).offers()).offers

    assert (offer.gpu, offer.gpu_count, offer.gpu_memory_gib) == ("RTX4090", 4, 24)
    assert (offer.vcpus, offer.memory_gib, offer.boot, offer.key) == (
        31,
        93,
        BootMode.POWER,
        "webhook/box-1/owned/on-demand",
    )


@pytest.mark.parametrize("gpu_type", [None, "Quantum Abacus 9000"])
async def test_an_unknown_gpu_is_unknown_until_the_node_tells(gpu_type: str | None):
    (offer,) = (await Bench({"status": OFF}).cloud(a_machine(gpu_type=gpu_type)).offers()).offers

    assert (offer.gpu, offer.gpu_memory_gib) == ("unknown", 0)


@pytest.mark.parametrize(
    ("reply", "stock", "left"),
    [
        (OFF, Stock.CONFIRMED, 1),
        (said(state="on"), Stock.NONE, 0),
        (said(state="starting"), Stock.NONE, 0),
        (said(state="stopping"), Stock.NONE, 0),
        (said(state="fault"), Stock.UNKNOWN, 1),
    ],
)
async def test_a_machine_that_is_on_is_not_for_sale(reply: Reply, stock: Stock, left: int):
    (offer,) = (await Bench({"status": reply}).cloud().offers()).offers

    assert (offer.stock, offer.left) == (stock, left)


async def test_a_machine_that_cannot_be_asked_is_listed_as_unknown():
    bench = Bench()
    (offer,) = (await bench.cloud(a_machine(status_endpoint=None)).offers()).offers

    assert (offer.stock, bench.calls) == (Stock.UNKNOWN, [])


@pytest.mark.parametrize("bad", [said(500), said(401), said(404), Reply(200, b"<html>"), Reply(200)])
async def test_one_that_does_not_answer_spoils_no_list_and_all_of_them_do(bad: Reply):
    one = Bench({"status": by_machine(box_1=bad, box_2=OFF)}).cloud(a_machine(), a_machine("box-2"))
    every = Bench({"status": bad}).cloud(a_machine(), a_machine("box-2"))

    assert [offer.stock for offer in (await one.offers()).offers] == [Stock.UNKNOWN, Stock.CONFIRMED]
    for asking in (every.offers(), every.check()):
        with pytest.raises((CloudBusy, KeyRefused, CannotTell)):
            await asking


async def test_no_more_than_a_few_are_asked_at_once():
    bench = Bench({"status": OFF})
    cloud = bench.cloud(*(a_machine(f"box-{n}") for n in range(64)))

    assert len((await cloud.offers()).offers) == 64
    assert cloud._few._value == 8


# -- looking -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "state"),
    [
        (said(state="on"), InstanceState.RUNNING),
        (said(state="on", token=TOKEN), InstanceState.RUNNING),
        (said(state="on", token=""), InstanceState.RUNNING),
        (said(state="starting"), InstanceState.STARTING),
        (said(state="stopping"), InstanceState.ENDING),
        (said(state="fault"), InstanceState.UNKNOWN),
        (said(state="off"), None),
        (said(state="off", token=TOKEN), None),
        (said(state="on", token=OTHER_TOKEN), None),
    ],
)
async def test_one_machine(reply: Reply, state: InstanceState | None):
    """Absent is what is off, or on for another order: this order's machine is not there any more."""
    found = await Bench({"status": reply}).cloud().status(instance())

    assert (found.state if found else None) == state
    assert found is None or (found.id, found.token) == (instance(), TOKEN)


async def test_without_a_status_its_node_tells():
    found = await Bench().cloud(a_machine(status_endpoint=None)).status(instance())

    assert found is not None
    assert (found.state, found.token) == (InstanceState.UNKNOWN, TOKEN)


async def test_a_machine_that_the_class_no_longer_names_is_not_absent():
    """Taking it out of the class must not look as if it had been terminated."""
    bench = Bench({"status": OFF})
    cloud = bench.cloud()

    with pytest.raises(CannotTell):
        await cloud.status(instance("box-9"))
    with pytest.raises(CloudBusy, match="power it off by hand"):
        await cloud.terminate(instance("box-9"))
    with pytest.raises(OrderRefused):
        await cloud.launch(an_order("box-9"))
    with pytest.raises(CannotTell):
        await WITHOUT_MACHINES.find(TOKEN)
    assert bench.calls == []


WITHOUT_MACHINES = Bench().cloud()
WITHOUT_MACHINES._machines.clear()


async def test_a_token_is_looked_for_everywhere():
    statuses = by_machine(
        box_1=said(state="on", token=TOKEN), box_2=OFF, box_3=said(state="stopping", token=OTHER_TOKEN)
    )
    cloud = Bench({"status": statuses}).cloud(a_machine(), a_machine("box-2"), a_machine("box-3"))

    assert [one.id for one in await cloud.find(TOKEN)] == [instance()]
    assert [one.id for one in await cloud.owned("tgp-c0ffee0123-")] == [instance(), instance("box-3", OTHER_TOKEN)]
    assert await cloud.find("") == await cloud.owned("tgp-another") == ()


@pytest.mark.parametrize(
    "doubtful",
    [
        a_machine("box-2", status_endpoint=None),
        a_machine("box-2", status_endpoint="http://power-api/silent"),
        a_machine("box-2", status_endpoint="http://power-api/tokenless"),
        a_machine("box-2", status_endpoint="http://power-api/nowhere"),
    ],
)
async def test_one_machine_that_does_not_tell_makes_the_answer_unknown(doubtful):
    bench = Bench({"status": said(state="on", token=TOKEN), "silent": said(500), "tokenless": said(state="on")})
    cloud = bench.cloud(a_machine(), doubtful)

    for asking in (cloud.find(TOKEN), cloud.owned("tgp-")):
        with pytest.raises((CannotTell, CloudBusy)):
            await asking


# -- a status that is a ping -------------------------------------------------------------------------------------------


async def test_what_was_switched_on_is_starting_until_it_is_up():
    """A ping says off while the system boots: that is no absence, for as long as a boot may take."""
    bench = Bench({"on": said(202), "off": said(202), "status": said(state="off")})
    cloud = bench.cloud(a_machine(boot_timeout="5m"))
    await cloud.launch(an_order())
    bench.clock.seconds += 299
    starting = await cloud.status(instance())
    found = await cloud.find(TOKEN)
    (offer,) = (await cloud.offers()).offers
    bench.clock.seconds += 2

    assert starting is not None
    assert starting.state is InstanceState.STARTING
    assert [one.id for one in found] == [instance()]
    assert offer.stock is Stock.NONE
    assert await cloud.status(instance()) is None


async def test_once_seen_on_its_own_word_counts():
    bench = Bench({"on": said(202), "status": said(state="on")})
    cloud = bench.cloud()
    await cloud.launch(an_order())
    assert await cloud.status(instance()) is not None
    bench.answers["status"] = said(state="off")

    assert await cloud.status(instance()) is None


async def test_once_switched_off_it_is_not_starting_any_more():
    bench = Bench({"on": said(202), "off": said(202), "status": said(state="off")})
    cloud = bench.cloud()
    await cloud.launch(an_order())
    await cloud.terminate(instance())

    assert await cloud.status(instance()) is None


# -- ending ------------------------------------------------------------------------------------------------------------


async def test_a_machine_that_is_on_for_another_order_is_left_alone():
    bench = Bench({"off": said(202), "status": said(state="on", token=OTHER_TOKEN)})
    await bench.cloud().terminate(instance())

    assert bench.paths == ["GET /box-1/status"]


@pytest.mark.parametrize(
    "status", [said(500), said(401), said(429), said(state="fault"), said(302), Reply(200, b"<p>")]
)
async def test_a_machine_whose_state_is_unknown_is_not_switched_off(status: Reply):
    bench = Bench({"off": said(202), "status": status})
    with pytest.raises(CloudError):
        await bench.cloud().terminate(instance())

    assert bench.paths == ["GET /box-1/status"]


async def test_a_machine_without_a_status_is_switched_off():
    bench = Bench({"off": said(202)})
    await bench.cloud(a_machine(status_endpoint=None)).terminate(instance())

    assert bench.paths == ["POST /box-1/off"]


@pytest.mark.parametrize("status", [said(state="off"), said(state="on"), said(state="on", token="")])
async def test_otherwise_it_is_switched_off_whatever_its_status(status: Reply):
    """A ping may say off of a machine that is about to be on."""
    bench = Bench({"off": said(202), "status": status})
    await bench.cloud().terminate(instance())

    assert bench.paths[-1] == "POST /box-1/off"


# -- checking ----------------------------------------------------------------------------------------------------------


async def test_a_check_switches_nothing_and_says_what_it_found():
    bench = Bench(
        {"status": by_machine(box_1=OFF, box_2=said(401), box_3=said(state="fault"))},
        secrets={("power", "signing"): Secret("short")},
    )
    cloud = bench.cloud(
        a_machine(watts=100, gpu_type="RTX 490"),
        a_machine("box-2", scale_up_endpoint="http://169.254.169.254/"),
        a_machine("box-3", signing_secret_ref=SIGNING),
    )
    report = await cloud.check()
    held = {right.name: right.held for right in report.rights}
    notes = " ".join(report.notes)

    assert [path for path in bench.paths if not path.startswith("GET")] == []
    assert held["switch box-1"] is held["switch box-3"] is None
    assert (held["switch box-2"], held["ask box-1"], held["ask box-2"]) == (False, True, False)
    assert report.can_buy
    assert "unknown GPU model RTX 490" in notes
    assert "box-1: no price is set" in notes
    assert "box-3: its signing secret is shorter" in notes


async def test_a_class_whose_machines_cannot_be_switched_cannot_buy():
    report = await Bench().cloud(a_machine(scale_down_endpoint="http://localhost/", status_endpoint=None)).check()

    assert not report.can_buy


async def test_the_account_is_the_same_for_every_secret():
    assert (await Bench().cloud().identity()).id == "webhook:owned"


def test_calls_print_nothing_of_their_headers():
    assert "hunter2" not in repr(Call("POST", "/", headers=(("Authorization", "hunter2"),)))


# -- taken over: on already, without an order --------------------------------------------------------------------------

FOUND = {
    "on, for no order": said(state="on", token=""),
    "on, and it does not tell for whom": said(state="on"),
    "on, for this order": said(state="on", token=TOKEN),
}
NOT_TAKEN = {
    "off": OFF,
    "starting": said(state="starting"),
    "stopping": said(state="stopping"),
    "a word that is not known": said(state="dancing"),
    "on for another order": said(state="on", token=OTHER_TOKEN),
}


@pytest.mark.parametrize("status", FOUND.values(), ids=FOUND)
async def test_a_machine_that_is_on_is_taken_over_without_a_power_call(status: Reply):
    bench = Bench({"status": status})
    taken = await bench.cloud(a_machine()).launch(replace(an_order(), takes_over=True))

    assert (taken.token, taken.state) == (TOKEN, InstanceState.RUNNING)
    assert [call.method for _, call in bench.calls] == ["GET"]


@pytest.mark.parametrize("status", NOT_TAKEN.values(), ids=NOT_TAKEN)
async def test_a_machine_that_is_off_or_on_for_others_is_not_taken_over_and_not_switched_on(status: Reply):
    bench = Bench({"status": status})
    with pytest.raises(SoldOut, match="is not taken over"):
        await bench.cloud(a_machine()).launch(replace(an_order(), takes_over=True))

    assert [call.method for _, call in bench.calls] == ["GET"]


async def test_a_machine_whose_status_cannot_be_read_is_not_taken_over_yet():
    bench = Bench({"status": Reply(200, b"<!doctype html>")})
    with pytest.raises(CloudBusy, match="is not taken over yet"):
        await bench.cloud(a_machine()).launch(replace(an_order(), takes_over=True))

    assert [call.method for _, call in bench.calls] == ["GET"]


async def test_a_machine_without_a_status_is_taken_over_by_its_node_alone():
    bench = Bench({})
    taken = await bench.cloud(a_machine(status_endpoint=None)).launch(replace(an_order(), takes_over=True))

    assert taken.token == TOKEN
    assert bench.calls == []
