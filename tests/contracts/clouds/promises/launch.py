"""Buying: one request that pays, and an honest word about how it ended."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from tests.contracts.clouds.promises.offers import BEYOND_ANY_BOUND, keyless
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import USER_DATA, Stage
from tests.contracts.clouds.suite import promise
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CloudBusy,
    CloudError,
    KeyRefused,
    NotConfirmed,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.core.requests.chosen_offer import offer_of, recorded
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb

PAGE = b"<html><body>Just a moment...</body></html>"
EVIL = "tgp-0000000bad-00000000000000000000000000000bad-1"


def no_spot(provider: Provider) -> str:
    return "" if provider.facts.sells_spot else "it sells no spot machines"


def takes_no_user_data(provider: Provider) -> str:
    return "" if provider.facts.user_data_bytes else "its machines are handed no user data"


def tells_no_bill(provider: Provider) -> str:
    return "" if provider.facts.tells_billed_price else "its machines do not say what they cost"


def ends_nothing_itself(provider: Provider) -> str:
    return "" if provider.facts.longest_run is not None else "it ends no machine by itself"


async def nothing_was_made(stage: Stage) -> None:
    assert stage.machines() == []
    await stage.outlast_the_longest_lag()
    assert await stage.cloud.find(stage.token()) == ()


@promise("launch: exactly one request pays for one machine")
async def _(stage: Stage) -> None:
    await stage.cloud.launch(await stage.order())

    assert stage.count(CloudVerb.LAUNCH) == 1
    assert len(stage.machines()) == 1


@promise("launch: the answer names the machine that was made")
async def _(stage: Stage) -> None:
    made = await stage.launched()

    seen = await stage.cloud.status(made.id)
    assert seen is not None
    assert (seen.id, seen.token) == (made.id, stage.token())
    assert made.token == stage.token()


@promise("launch: what was ordered is what was made")
async def _(stage: Stage) -> None:
    order = await stage.order()
    made = await stage.cloud.launch(order)
    machine = stage.machine()

    assert machine.product.gpu == order.offer.gpu
    assert machine.product.gpu_count == order.offer.gpu_count
    assert (machine.spot, made.spot) == (False, False)


@promise("launch: a spot machine is ordered as one, at the bid", unfit=no_spot)
async def _(stage: Stage) -> None:
    order = await stage.order(spot=True)
    await stage.cloud.launch(order)
    machine = stage.machine()

    assert machine.spot
    assert machine.rate_microusd <= order.max_hourly_microusd


@promise("launch: an order by the record of an offer is the same as by the listed offer")
async def _(stage: Stage) -> None:
    """Between the choice and the order an offer is kept in the status of its request."""
    sent = []
    for keep in (lambda offer: offer, lambda offer: offer_of(recorded(offer))):
        alike = Stage(stage.provider, "alike", stage.loop)
        order = await alike.order()
        await alike.cloud.launch(replace(order, offer=keep(order.offer)))
        sent += [(call.method, call.path, call.query, call.body) for call in alike.paying_calls]
    one, other = sent

    assert one == other


@promise("launch: the token is the machine's name at the provider")
async def _(stage: Stage) -> None:
    await stage.cloud.launch(await stage.order())

    assert stage.machine().name == stage.token()


@promise("launch: the token is in every field that the machine can be found again by")
async def _(stage: Stage) -> None:
    await stage.cloud.launch(await stage.order())
    (call,) = stage.paying_calls
    sent = f"{call.path} {call.query} {call.headers} {call.body.decode()}"

    assert sent.count(stage.token()) == stage.provider.token_fields


@promise("launch: a class's tags cannot take the ownership away")
async def _(stage: Stage) -> None:
    """Tags that spell the adapter's own keys are sent by a user who wants our sweeper to miss the machine."""
    await stage.launched(stage.token(1))
    keys = dict.fromkeys((*stage.provider.own_tags, *stage.machine().tags, "name", "Name", "label"))
    made = await stage.launched(stage.token(2), tags=tuple((key, EVIL) for key in keys))

    assert [found.id for found in await stage.cloud.find(stage.token(2))] == [made.id]
    assert made.id in [found.id for found in await stage.cloud.owned(stage.prefix)]
    assert await stage.cloud.owned(EVIL) == ()


@promise("launch: user data arrives unchanged", unfit=takes_no_user_data)
async def _(stage: Stage) -> None:
    await stage.cloud.launch(await stage.order())

    assert stage.provider.user_data_of(stage.machine()) == USER_DATA


@promise("launch: two orders are two machines, each found by its own token")
async def _(stage: Stage) -> None:
    one = await stage.launched(stage.token(1))
    other = await stage.launched(stage.token(2))

    assert one.id != other.id
    assert [found.id for found in await stage.cloud.find(stage.token(1))] == [one.id]
    assert [found.id for found in await stage.cloud.find(stage.token(2))] == [other.id]


@promise("launch: a lost answer is found again by its token")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.HANG_UP_AFTER, CloudVerb.LAUNCH)
    await stage.raises(OutcomeUnknown, stage.cloud.launch(order))
    await stage.settle()

    assert len(await stage.cloud.find(order.token)) == 1
    assert stage.count(CloudVerb.LAUNCH) == 1


@promise("launch: a 5xx after it was made is unknown, and found again by its token")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.ERROR_AFTER, CloudVerb.LAUNCH)
    await stage.raises(OutcomeUnknown, stage.cloud.launch(order))
    await stage.settle()

    assert len(await stage.cloud.find(order.token)) == 1
    assert stage.count(CloudVerb.LAUNCH) == 1


@promise("launch: an error that names an id is a machine")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.ERROR_WITH_ID, CloudVerb.LAUNCH)
    error = await stage.raises(OutcomeUnknown, stage.cloud.launch(order))
    await stage.settle()

    assert error.instance_id
    assert [found.id for found in await stage.cloud.find(order.token)] == [error.instance_id]


@promise("launch: a 5xx before anything was made is unknown, too")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.ERROR, CloudVerb.LAUNCH)
    await stage.raises(OutcomeUnknown, stage.cloud.launch(order))

    await nothing_was_made(stage)


@promise("launch: a connection that drops is unknown, and the order is not sent again")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.HANG_UP, CloudVerb.LAUNCH)
    await stage.raises(OutcomeUnknown, stage.cloud.launch(order))

    assert stage.count(CloudVerb.LAUNCH) == 1


@promise("launch: a page of a proxy is unknown")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.HTML, CloudVerb.LAUNCH)

    await stage.raises(OutcomeUnknown, stage.cloud.launch(order))


@promise("launch: an error page of a proxy is unknown")
async def _(stage: Stage) -> None:
    """A 502 or 504 comes from in front of the provider, which may be at work all the same."""
    order = await stage.order()
    stage.instead(CloudVerb.LAUNCH, 504, PAGE, (("Content-Type", "text/html"),))

    await stage.raises(OutcomeUnknown, stage.cloud.launch(order))


@promise("launch: an empty body is unknown")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.EMPTY_BODY, CloudVerb.LAUNCH)

    await stage.raises(OutcomeUnknown, stage.cloud.launch(order))


@promise("launch: a success of another shape is unknown")
async def _(stage: Stage) -> None:
    order = await stage.order()
    for status in (200, 201, 202, 204):
        stage.instead(CloudVerb.LAUNCH, status, b'[["unexpected"], null, 7]')
        await stage.raises(OutcomeUnknown, stage.cloud.launch(order))


@promise("launch: an answer beyond any bound is unknown")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.instead(CloudVerb.LAUNCH, 200, BEYOND_ANY_BOUND)

    await stage.raises(OutcomeUnknown, stage.cloud.launch(order))


@promise("launch: a redirect is not followed")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.instead(CloudVerb.LAUNCH, 307, b"", (("Location", f"{stage.url}/elsewhere"),))

    await stage.raises(OutcomeUnknown, stage.cloud.launch(order))
    assert stage.count(CloudVerb.LAUNCH) == 1
    assert stage.machines() == []


@promise("launch: an unlisted refusal is unknown")
async def _(stage: Stage) -> None:
    """Only what is known to mean no means no; a provider may have said so of a whole status (RunPod's 422)."""
    order = await stage.order()
    for status in (400, 409, 418, 422):
        stage.instead(CloudVerb.LAUNCH, status, b'{"error": "the moon is in the wrong house"}')
        await stage.raises((OutcomeUnknown, OrderRefused), stage.cloud.launch(order))
    stage.instead(CloudVerb.LAUNCH, 418, b'{"error": "the moon is in the wrong house"}')
    await stage.raises(OutcomeUnknown, stage.cloud.launch(order))


@promise("launch: a sold-out offer is told as such, and nothing is made")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.SOLD_OUT, CloudVerb.LAUNCH)
    await stage.raises(SoldOut, stage.cloud.launch(order))

    await nothing_was_made(stage)


@promise("launch: an offer that is no more makes nothing")
async def _(stage: Stage) -> None:
    order = await stage.order()
    gone = replace(order, offer=_renamed(order.offer))
    await stage.raises((SoldOut, OrderRefused, OutcomeUnknown), stage.cloud.launch(gone))

    await nothing_was_made(stage)


def _renamed(offer):
    """Of the same form, and not on sale."""
    sku = str(int(offer.sku) + 900_000_000) if offer.sku.isdigit() else f"{offer.sku}-discontinued"
    return type(offer)(**{name: getattr(offer, name) for name in offer.__struct_fields__} | {"sku": sku})


@promise("launch: an exhausted account is told as such, and nothing is made")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.BROKE, CloudVerb.LAUNCH)
    await stage.raises(AccountExhausted, stage.cloud.launch(order))

    await nothing_was_made(stage)


@promise("launch: a revoked key is refused as a key, and nothing is made", unfit=keyless)
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.KEY_REVOKED, CloudVerb.LAUNCH)
    await stage.raises(KeyRefused, stage.cloud.launch(order))

    assert stage.machines() == []


@promise("launch: too many requests is told as busy, and nothing is made")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.BUSY, CloudVerb.LAUNCH)
    error = await stage.raises(CloudBusy, stage.cloud.launch(order))

    assert error.retry_after is not None
    assert stage.count(CloudVerb.LAUNCH) == 1
    await nothing_was_made(stage)


@promise("launch: too many requests in plain text is told as busy, and nothing is made")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.BUSY_TEXT, CloudVerb.LAUNCH)
    await stage.raises(CloudBusy, stage.cloud.launch(order))

    assert stage.count(CloudVerb.LAUNCH) == 1
    await nothing_was_made(stage)


@promise("launch: past its fence no order leaves")
async def _(stage: Stage) -> None:
    order = await stage.order(not_after=stage.clock.boottime() - 1)
    await stage.raises(CloudBusy, stage.cloud.launch(order))

    assert stage.count(CloudVerb.LAUNCH) == 0


@promise("launch: the request that pays carries the fence")
async def _(stage: Stage) -> None:
    order = await stage.order(not_after=stage.clock.boottime() + 3_600)
    await stage.cloud.launch(order)

    assert [call.not_after for call in stage.paying_calls] == [order.not_after]


@promise("launch: the request that pays waits as long as the provider's facts say, which doubt is measured by")
async def _(stage: Stage) -> None:
    await stage.cloud.launch(await stage.order())

    assert [call.timeout for call in stage.paying_calls] == [stage.provider.facts.launch_timeout]


@promise("launch: the provider ends a machine after the longest run of its order", unfit=ends_nothing_itself)
async def _(stage: Stage) -> None:
    made = await stage.launched(max_run=timedelta(minutes=30))
    await asyncio.sleep(stage.slowest_boot + 1_200)
    assert await stage.cloud.status(made.id) is not None
    await asyncio.sleep(600)
    await stage.wait_for_endings()

    assert stage.machines() == []
    assert await stage.cloud.status(made.id) is None
    assert stage.count(CloudVerb.TERMINATE) == 0


@promise("launch: the last look comes after everything else, and binds the request that pays")
async def _(stage: Stage) -> None:
    before: list[int] = []
    until = stage.clock.boottime() + 60

    async def confirm() -> float:
        before.append(len(stage.calls))
        return until

    await stage.cloud.launch(await stage.order(confirm=confirm))

    assert len(before) == 1
    seen = before[0]
    assert [verb for verb, call in stage.calls[seen:] if call.changes_things] == [CloudVerb.LAUNCH]
    assert stage.calls[seen][0] is CloudVerb.LAUNCH, "something was asked for between the last look and the order"
    assert [call.not_after for call in stage.paying_calls] == [until]


@promise("launch: what the last look forbids is never sent")
async def _(stage: Stage) -> None:
    async def confirm() -> float:
        raise NotConfirmed("every purchase is stopped")

    await stage.raises(NotConfirmed, stage.cloud.launch(await stage.order(confirm=confirm)))

    assert stage.count(CloudVerb.LAUNCH) == 0
    await nothing_was_made(stage)


@promise("launch: an order that never left is busy, not unknown")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.unplug()

    await stage.raises(CloudBusy, stage.cloud.launch(order))


@promise("launch: the billed price is read again from the machine", unfit=tells_no_bill)
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.OVERBILLED, CloudVerb.LAUNCH)
    made = await stage.cloud.launch(order)
    await stage.settle()
    seen = await stage.cloud.status(made.id)

    assert seen is not None
    assert seen.hourly_microusd is not None
    assert seen.hourly_microusd > order.offer.hourly_microusd
    assert abs(seen.hourly_microusd - stage.machine().rate_microusd) <= stage.machine().rate_microusd // 50


@promise("launch: whatever happens, nothing but a typed error escapes")
async def _(stage: Stage) -> None:
    """Every fault that can befall a launch, one after the other, on one adapter."""
    for number, cloud_fault in enumerate(CloudFault):
        order = await stage.order(stage.token(number))
        if cloud_fault is CloudFault.KEY_REVOKED or not stage.can_befall(cloud_fault, CloudVerb.LAUNCH):
            continue
        stage.aim(cloud_fault, CloudVerb.LAUNCH)
        with suppress(CloudError):
            await stage.cloud.launch(order)
        stage.simulator.faults.calm()
    assert stage.count(CloudVerb.LAUNCH) > 10
