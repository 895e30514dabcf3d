"""The adapter over its simulator, in virtual time: pages, pace, bids, and what a key may do."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from tests.contracts.clouds.providers.vast import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tests.contracts.clouds.vast.answers import a_machine
from tgp.adapters.clouds.vast import wire_offers
from tgp.adapters.clouds.vast.client import LIST_PAGES
from tgp.core.model.cloud_errors import CannotTell, KeyRefused, OutcomeUnknown, QuotaExhausted, SoldOut
from tgp.core.model.instance import InstanceState
from tgp.core.model.prices import MICRO
from tgp.ports.cloud import Container
from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudVerb


def on_stage(script):
    """Play the test on a stage of its own, in virtual time."""

    def test():
        play(PROVIDER, script)

    test.__name__, test.__doc__ = script.__name__, script.__doc__
    return test


@on_stage
async def test_a_market_larger_than_one_answer_is_read_to_its_end(stage: Stage):
    whole = await stage.cloud.offers()
    stage.simulator.most_asks = 60
    stage.calls.clear()
    in_pages = await stage.cloud.offers()

    assert in_pages == whole
    assert stage.count(CloudVerb.OFFERS) == 2, "one search tells both prices"


@on_stage
async def test_a_market_beyond_the_bound_is_no_listing(stage: Stage):
    """A part of the market would look like a market that sold out."""
    stage.simulator.most_asks = 5

    await stage.raises(CannotTell, stage.cloud.offers())
    assert stage.count(CloudVerb.OFFERS) == 4


@on_stage
async def test_a_bid_is_for_machine_and_disk_together(stage: Stage):
    """Vast adds the disk to the bid. What is billed in the end is the bid that was ordered, and no more."""
    order = await stage.order(spot=True)
    made = await stage.launched(spot=True)
    machine = stage.machine()
    sent = msgspec.json.decode(stage.paying_calls[0].body)["price"] * MICRO

    assert sent < order.bid_microusd
    assert order.bid_microusd - 2 <= machine.rate_microusd <= order.bid_microusd
    seen = await stage.cloud.status(made.id)
    assert seen.hourly_microusd <= order.bid_microusd
    assert seen.spot


@on_stage
async def test_a_bid_never_exceeds_the_price_cap(stage: Stage):
    order = await stage.order(spot=True)
    capped = replace(order, max_hourly_microusd=order.offer.hourly_microusd + 1_000, bid_microusd=order.bid_microusd)
    await stage.cloud.launch(capped)

    assert stage.machine().rate_microusd <= capped.max_hourly_microusd


@on_stage
async def test_a_bid_for_an_ask_of_an_older_listing_looks_it_up_first(stage: Stage):
    order = await stage.order(spot=True)
    fresh = stage.cloud_of(stage.key)
    stage.calls.clear()
    await fresh.launch(order)

    assert [verb for verb, _ in stage.calls] == [CloudVerb.OFFERS, CloudVerb.LAUNCH]
    assert stage.machine().rate_microusd <= order.bid_microusd


@on_stage
async def test_a_bid_for_an_ask_that_is_gone_is_not_sent(stage: Stage):
    order = await stage.order(spot=True)
    stage.fleet.restock(f"{order.offer.sku}@{order.offer.place}", 0)

    await stage.raises(SoldOut, stage.cloud_of(stage.key).launch(order))
    assert stage.paying_calls == []


@on_stage
async def test_a_bid_below_the_market_makes_nothing(stage: Stage):
    """`cancel_unavail` is always sent: without it this would leave a stopped machine whose disk costs."""
    order = await stage.order(spot=True)
    low = replace(order, bid_microusd=order.offer.hourly_microusd * 9 // 10)

    await stage.raises(SoldOut, stage.cloud.launch(low))
    assert stage.machines() == []


@on_stage
async def test_an_outbid_machine_is_stopped_interrupted_and_still_ours(stage: Stage):
    made = await stage.running(spot=True)
    machine = stage.machine()
    stage.fleet.reprice(machine.product.id, machine.rate_microusd * 8, machine.rate_microusd * 6)
    await asyncio.sleep(300)
    (seen,) = await stage.cloud.find(stage.token())

    assert (seen.id, seen.state, seen.interrupted) == (made.id, InstanceState.STOPPED, True)
    assert machine.charged_microusd == machine.idle_rate_microusd > 0


@on_stage
async def test_a_virtual_machine_is_ordered_as_one(stage: Stage):
    offers = (await stage.cloud.offers()).offers
    offer = next(each for each in offers if each.sku.endswith(":vm") and not each.spot)
    order = replace(await stage.order(), offer=offer, container=None, user_data=b"#!/bin/sh\n")
    await stage.cloud.launch(order)

    assert stage.machine().detail["vm"] is True
    assert stage.machine().user_data == b"#!/bin/sh\n"


@on_stage
async def test_the_containers_settings_arrive(stage: Stage):
    container = Container("registry.test/work:1", (("MODE", "train"),), ("serve", "--port", "80"), ("/bin/sh", "-c"))
    await stage.cloud.launch(await stage.order(container=container, user_data=b""))
    detail = stage.machine().detail

    assert (detail["image"], detail["env"]) == ("registry.test/work:1", (("MODE", "train"),))
    assert (detail["entrypoint"], detail["args"]) == ("/bin/sh", ("-c", "serve", "--port", "80"))
    assert detail["disk"] == wire_offers.DISK_GIB


@on_stage
async def test_lists_and_searches_keep_within_vasts_limits(stage: Stage):
    """Three pages in a row under the real intervals: none is refused for coming too soon."""
    stage.fleet.add_foreign(stage.tenant, 60)
    await stage.settle()
    stage.simulator.pace.on = True

    assert await stage.cloud.owned("another-owners-") != ()
    assert stage.count(CloudVerb.LIST) == 3
    await stage.cloud.offers()


@on_stage
async def test_a_list_that_never_ends_is_given_up(stage: Stage):
    stage.instead(CloudVerb.LIST, 200, b'{"instances": [], "next_token": "x"}')
    await stage.raises(CannotTell, stage.cloud.owned("tgp-"))
    for number in range(LIST_PAGES):
        body = {"instances": [a_machine(id=number + 1)], "next_token": f"t{number}"}
        stage.instead(CloudVerb.LIST, 200, msgspec.json.encode(body))
    stage.calls.clear()
    await stage.raises(CannotTell, stage.cloud.owned("tgp-"))
    assert stage.count(CloudVerb.LIST) == LIST_PAGES


@on_stage
async def test_fewer_machines_than_the_account_has_are_no_list(stage: Stage):
    await stage.launched()

    def hide(reply: Reply) -> Reply:
        return replace(reply, content=msgspec.json.encode({**msgspec.json.decode(reply.content), "instances": []}))

    stage.rewrite(CloudVerb.LIST, hide)

    await stage.raises(CannotTell, stage.cloud.find(stage.token()))


@on_stage
async def test_a_check_names_the_right_that_is_missing(stage: Stage):
    stage.instead(CloudVerb.LIST, 403, b'{"success": false, "error": "permission", "msg": "instance_read is missing"}')
    report = await stage.cloud.check()
    held = {right.name: right.held for right in report.rights}

    assert held == {"user_read": True, "instance_read": False, "misc": True, "instance_write": None}
    assert report.can_buy is False


@on_stage
async def test_an_account_without_credit_cannot_buy(stage: Stage):
    stage.tenant.balance_microusd = 0
    report = await stage.cloud.check()

    assert (report.balance_microusd, report.can_buy) == (0, False)
    assert "credit" in report.notes[0]


@on_stage
async def test_without_a_key_nothing_but_the_market_is_asked(stage: Stage):
    stranger = stage.cloud_of(None)
    order = await stage.order()
    assert (await stranger.offers()).offers != ()
    stage.calls.clear()
    for doing in (stranger.identity(), stranger.check(), stranger.find("x"), stranger.status("1"), stranger.owned("x")):
        await stage.raises(KeyRefused, doing)
    await stage.raises(KeyRefused, stranger.terminate("1"))
    await stage.raises(KeyRefused, stranger.launch(order))

    assert stage.calls == []


@on_stage
async def test_a_refusal_that_quotes_the_key_is_told_without_it(stage: Stage):
    text = msgspec.json.encode({"error": "auth_error", "msg": f"Invalid user key {stage.key}"})
    stage.instead(CloudVerb.ACCOUNT, 401, text)
    error = await stage.raises(KeyRefused, stage.cloud.identity())

    assert stage.key not in str(error)


@on_stage
async def test_the_search_quota_of_the_day_is_busy_until_midnight(stage: Stage):
    stage.simulator.pace.searches_left = 1
    await stage.cloud.offers()
    error = await stage.raises(QuotaExhausted, stage.cloud.offers())

    assert "daily search quota is used up until" in str(error)
    assert error.retry_after.total_seconds() > 60


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_failure_after_the_order_is_unknown(status):
    async def script(stage: Stage) -> None:
        order = await stage.order()
        stage.instead(CloudVerb.LAUNCH, status, b"upstream")
        await stage.raises(OutcomeUnknown, stage.cloud.launch(order))

    play(PROVIDER, script)
