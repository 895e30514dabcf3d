"""Giving back: asked for once, a success when it is already gone, and proven only by absence."""

import asyncio
from contextlib import suppress

from tests.contracts.clouds.promises.offers import keyless
from tests.contracts.clouds.promises.status import HOSTILE_IDS
from tests.contracts.clouds.stage import Stage
from tests.contracts.clouds.suite import promise
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, CloudError, KeyRefused, OutcomeUnknown
from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb

NOT_A_SUCCESS = (OutcomeUnknown, CloudBusy, CannotTell)


@promise("terminate: the machine ends, and so does its bill")
async def _(stage: Stage) -> None:
    made = await stage.running()
    await stage.cloud.terminate(made.id)
    await stage.wait_for_endings()
    after = stage.fleet.bill_microusd(stage.tenant, stage.fleet.advance())
    await asyncio.sleep(3_600)

    assert stage.machines() == []
    assert stage.fleet.bill_microusd(stage.tenant, stage.fleet.advance()) == after > 0


@promise("terminate: a machine that still starts ends, too")
async def _(stage: Stage) -> None:
    made = await stage.launched()
    await stage.cloud.terminate(made.id)
    await stage.wait_for_endings()

    assert stage.machines() == []


@promise("terminate: a stopped machine ends, too")
async def _(stage: Stage) -> None:
    made = await stage.running()
    stage.fleet.stop(stage.machine(), stage.clock.now(), "asked for")
    await stage.cloud.terminate(made.id)
    await stage.wait_for_endings()

    assert stage.machines() == []


@promise("terminate: only that one machine ends")
async def _(stage: Stage) -> None:
    stage.fleet.add_foreign(stage.tenant, 2)
    one = await stage.running(stage.token(1))
    other = await stage.running(stage.token(2))
    await stage.cloud.terminate(one.id)
    await stage.wait_for_endings()

    assert await stage.cloud.status(one.id) is None
    assert await stage.cloud.status(other.id) is not None
    assert sum(machine.alive for machine in stage.fleet.machines.values()) == 3


@promise("terminate: asking again is a success")
async def _(stage: Stage) -> None:
    made = await stage.running()
    await stage.cloud.terminate(made.id)
    await stage.cloud.terminate(made.id)
    await stage.wait_for_endings()

    assert stage.machines() == []


@promise("terminate: a machine that is gone already is a success")
async def _(stage: Stage) -> None:
    made = await stage.running()
    await stage.cloud.terminate(made.id)
    await stage.wait_for_endings()
    await stage.cloud.terminate(made.id)

    assert await stage.cloud.status(made.id) is None


@promise("terminate: a machine that the provider denies is still shown by its status")
async def _(stage: Stage) -> None:
    """A 404 to the request is a success; only absence proves the end."""
    made = await stage.running()
    stage.aim(CloudFault.DELETE_UNKNOWN, CloudVerb.TERMINATE)
    await stage.cloud.terminate(made.id)

    assert await stage.cloud.status(made.id) is not None
    assert stage.simulator.faults.seen[CloudFault.DELETE_UNKNOWN] == 1


@promise("terminate: an end that was ignored leaves the machine listed")
async def _(stage: Stage) -> None:
    made = await stage.running()
    stage.aim(CloudFault.DELETE_IGNORED, CloudVerb.TERMINATE)
    await stage.cloud.terminate(made.id)
    await stage.wait_for_endings()

    assert await stage.cloud.status(made.id) is not None
    assert [machine.id for machine in await stage.cloud.owned(stage.prefix)] == [made.id]


@promise("terminate: a lost answer is unknown, and the end may have come")
async def _(stage: Stage) -> None:
    made = await stage.running()
    stage.aim(CloudFault.HANG_UP_AFTER, CloudVerb.TERMINATE)
    await stage.raises((OutcomeUnknown, CloudBusy), stage.cloud.terminate(made.id))
    await stage.wait_for_endings()

    assert stage.machines() == []


@promise("terminate: an error is not a success")
async def _(stage: Stage) -> None:
    made = await stage.running()
    stage.aim(CloudFault.ERROR, CloudVerb.TERMINATE)
    await stage.raises(NOT_A_SUCCESS, stage.cloud.terminate(made.id))

    assert await stage.cloud.status(made.id) is not None


@promise("terminate: a page of a proxy is not a success")
async def _(stage: Stage) -> None:
    made = await stage.running()
    stage.aim(CloudFault.HTML, CloudVerb.TERMINATE)
    await stage.raises(NOT_A_SUCCESS, stage.cloud.terminate(made.id))

    assert await stage.cloud.status(made.id) is not None


@promise("terminate: a 404 page of a proxy is not a success")
async def _(stage: Stage) -> None:
    made = await stage.running()
    page = b"<html><body>404 page not found</body></html>"
    stage.instead(CloudVerb.TERMINATE, 404, page, (("Content-Type", "text/html"),))

    await stage.raises(NOT_A_SUCCESS, stage.cloud.terminate(made.id))


@promise("terminate: a refusal in the provider's own words is to be asked again, never a refused order")
async def _(stage: Stage) -> None:
    """`OrderRefused` and its like say that nothing was made and not to repeat it: a machine would cost on for ever."""
    made = await stage.running()
    for status in (400, 402, 405, 409, 412, 422):
        stage.instead(CloudVerb.TERMINATE, status, stage.provider.own_words(status))
        await stage.raises(NOT_A_SUCCESS, stage.cloud.terminate(made.id))

    assert await stage.cloud.status(made.id) is not None


@promise("terminate: what refuses an order refuses no end for good")
async def _(stage: Stage) -> None:
    """Whatever the provider has to say against an order, said in answer to an end."""
    made = await stage.running()
    refusals: list[Reply] = []
    stage.retell(CloudVerb.LAUNCH, lambda reply: refusals.append(reply) or reply)
    for cloud_fault in (CloudFault.SOLD_OUT, CloudFault.BROKE):
        stage.aim(cloud_fault, CloudVerb.LAUNCH)
        with suppress(CloudError):
            await stage.cloud.launch(await stage.order(stage.token(2)))
    assert refusals
    for reply in refusals:
        stage.instead(CloudVerb.TERMINATE, reply.status, reply.content, reply.headers)
        await stage.raises((*NOT_A_SUCCESS, KeyRefused), stage.cloud.terminate(made.id))


@promise("terminate: too many requests is told as busy")
async def _(stage: Stage) -> None:
    made = await stage.running()
    stage.aim(CloudFault.BUSY, CloudVerb.TERMINATE)
    error = await stage.raises(CloudBusy, stage.cloud.terminate(made.id))

    assert error.retry_after is not None
    assert await stage.cloud.status(made.id) is not None


@promise("terminate: a revoked key is refused as a key", unfit=keyless)
async def _(stage: Stage) -> None:
    made = await stage.running()
    stage.aim(CloudFault.KEY_REVOKED, CloudVerb.TERMINATE)
    await stage.raises(KeyRefused, stage.cloud.terminate(made.id))

    assert len(stage.machines()) == 1


@promise("terminate: under another account nothing of ours ends", unfit=keyless)
async def _(stage: Stage) -> None:
    made = await stage.running()
    with suppress(CloudError):
        await stage.other_cloud().terminate(made.id)
    await stage.wait_for_endings()

    assert len(stage.machines()) == 1


@promise("terminate: an id that is none ends nothing")
async def _(stage: Stage) -> None:
    await stage.running()
    for hostile in HOSTILE_IDS:
        with suppress(CloudError):
            await stage.cloud.terminate(hostile)
    await stage.wait_for_endings()

    assert len(stage.machines()) == 1
    assert stage.count(CloudVerb.TERMINATE) == 0
