"""How one machine is: absence is a value, and stopped is not gone."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from tests.contracts.clouds.promises.launch import no_spot
from tests.contracts.clouds.promises.offers import NO_ANSWER, keyless
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import Stage
from tests.contracts.clouds.suite import promise
from tgp.core.model.cloud_errors import CloudBusy, CloudError, KeyRefused
from tgp.core.model.instance import Instance, InstanceState
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb

HOSTILE_IDS = ("../account", "a/b", "..", "", "a?b=c", "a#b", "a\r\nHost: evil", "x" * 300, "%2e%2e%2fa")
CREATED_TAG = "tgp-created"  # where an adapter keeps the moment that the provider does not tell
TROUBLE_IS_OVER = 2_400.0  # seconds after a launch: boot and the longest wait for trouble


def tells_no_creation(provider: Provider) -> str:
    told = provider.tells_creation or CREATED_TAG in provider.own_tags
    return "" if told else "its lists do not tell when a machine was made"


def announces_no_end(provider: Provider) -> str:
    return "" if provider.announces_ends else "its lists announce no end of a machine"


async def seen(stage: Stage, instance_id: str) -> Instance:
    found = await stage.cloud.status(instance_id)
    assert found is not None
    return found


@promise("status: a new machine starts, and then runs")
async def _(stage: Stage) -> None:
    made = await stage.launched()
    first = await seen(stage, made.id)
    await asyncio.sleep(stage.slowest_boot)
    then = await seen(stage, made.id)

    assert first.state in (InstanceState.STARTING, InstanceState.RUNNING)
    assert then.state is InstanceState.RUNNING


@promise("status: a stuck machine stays starting")
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.STUCK, CloudVerb.LAUNCH)
    made = await stage.running()

    assert (await seen(stage, made.id)).state is InstanceState.STARTING


@promise("status: a stopped machine is ours and not gone")
async def _(stage: Stage) -> None:
    """Stop is not terminate: its disk is on the bill."""
    made = await stage.running()
    stage.fleet.stop(stage.machine(), stage.clock.now(), "asked for")

    assert (await seen(stage, made.id)).state is InstanceState.STOPPED
    assert [machine.id for machine in await stage.cloud.owned(stage.prefix)] == [made.id]
    assert len(await stage.cloud.find(stage.token())) == 1


@promise("status: an outbid machine says that it was interrupted", unfit=no_spot)
async def _(stage: Stage) -> None:
    made = await stage.running(spot=True)
    stage.fleet.interrupt(stage.machine(), stage.clock.now())
    found = await stage.cloud.status(made.id)

    if stage.fleet.habits.outbid_deletes:
        assert found is None
    else:
        assert found is not None
        assert (found.state, found.interrupted, found.spot) == (InstanceState.STOPPED, True, True)


@promise("status: a machine whose host is lost does not run")
async def _(stage: Stage) -> None:
    made = await stage.running()
    stage.fleet.lose(stage.machine(), stage.clock.now())

    assert (await seen(stage, made.id)).state in (
        InstanceState.BROKEN,
        InstanceState.STOPPED,
        InstanceState.UNKNOWN,
    )


@promise("status: a machine that vanished is absent")
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.VANISHED, CloudVerb.LAUNCH)
    made = await stage.launched()
    await asyncio.sleep(TROUBLE_IS_OVER)

    assert await stage.cloud.status(made.id) is None
    assert await stage.cloud.owned(stage.prefix) == ()


@promise("status: a machine that was terminated is on its way out, and then absent")
async def _(stage: Stage) -> None:
    made = await stage.running()
    await stage.cloud.terminate(made.id)
    leaving = await stage.cloud.status(made.id)
    await stage.wait_for_endings()

    assert leaving is None or leaving.state is InstanceState.ENDING
    assert await stage.cloud.status(made.id) is None


@promise("status: unknown states are unknown, not gone")
async def _(stage: Stage) -> None:
    made = await stage.running()
    stage.spoil(stage.provider.status_by, stage.provider.state_slots, "transmogrifying")

    assert (await seen(stage, made.id)).state is InstanceState.UNKNOWN


@promise("status: a running machine has an address")
async def _(stage: Stage) -> None:
    made = await stage.running()
    found = await seen(stage, made.id)

    assert found.public_ip or found.private_ip


@promise("status: a machine without an address is shown all the same")
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.NO_ADDRESS, CloudVerb.LAUNCH)
    made = await stage.running()

    assert (await seen(stage, made.id)).public_ip == ""


@promise("status: it says when the machine was made", unfit=tells_no_creation)
async def _(stage: Stage) -> None:
    made = await stage.launched()
    told = (await seen(stage, made.id)).created_at

    assert told is not None
    assert abs((told - stage.machine().created_at).total_seconds()) < 2


@promise("status: an end that is announced after the order is shown", unfit=announces_no_end)
async def _(stage: Stage) -> None:
    made = await stage.running()
    machine = stage.machine()
    end = machine.created_at.replace(microsecond=0, second=0) + timedelta(hours=3)
    stage.fleet.announce(machine, end)

    assert (await seen(stage, made.id)).ends_at == end
    stage.fleet.announce(machine, None)
    assert (await seen(stage, made.id)).ends_at != end


@promise("status: the machines of a list are the machines one by one")
async def _(stage: Stage) -> None:
    made = await stage.running()
    (listed,) = await stage.cloud.owned(stage.prefix)
    one = await seen(stage, made.id)

    assert (listed.id, listed.token, listed.state) == (one.id, one.token, one.state)


@promise("status: an id that is none asks nothing of the provider")
async def _(stage: Stage) -> None:
    """A slash or a blank in an id would ask for another page, or end another machine."""
    made = await stage.launched()
    before = len(stage.calls)
    for hostile in HOSTILE_IDS:
        with suppress(CloudError):
            assert await stage.cloud.status(hostile) is None
    strange = [
        call.path for _, call in stage.calls[before:] if any(word in call.path for word in ("..", "evil", "%2e"))
    ]
    assert strange == []
    assert await stage.cloud.status(made.id) is not None


@promise("status: a page of a proxy is unknown, never absent")
async def _(stage: Stage) -> None:
    made = await stage.launched()
    stage.aim(CloudFault.HTML, stage.provider.status_by)

    await stage.raises(NO_ANSWER, stage.cloud.status(made.id))


@promise("status: a 404 page of a proxy is unknown, never absent")
async def _(stage: Stage) -> None:
    """The provider says in its own words that a machine is no more; a page in HTML says that a proxy answered."""
    made = await stage.launched()
    page = b"<html><body>404 page not found</body></html>"
    stage.instead(stage.provider.status_by, 404, page, (("Content-Type", "text/html"),))
    try:
        found = await stage.cloud.status(made.id)  # some look elsewhere then, and see it
    except NO_ANSWER:
        return
    assert found is not None


@promise("status: an empty body is unknown, never absent")
async def _(stage: Stage) -> None:
    made = await stage.launched()
    stage.aim(CloudFault.EMPTY_BODY, stage.provider.status_by)

    await stage.raises(NO_ANSWER, stage.cloud.status(made.id))


@promise("status: another shape is unknown, never absent")
async def _(stage: Stage) -> None:
    made = await stage.launched()
    stage.aim(CloudFault.GARBAGE, stage.provider.status_by)

    await stage.raises(NO_ANSWER, stage.cloud.status(made.id))


@promise("status: an error is unknown, never absent")
async def _(stage: Stage) -> None:
    made = await stage.launched()
    stage.aim(CloudFault.ERROR, stage.provider.status_by)

    await stage.raises(NO_ANSWER, stage.cloud.status(made.id))


@promise("status: silence is told as busy")
async def _(stage: Stage) -> None:
    made = await stage.launched()
    stage.aim(CloudFault.HANG_UP, stage.provider.status_by)

    await stage.raises(CloudBusy, stage.cloud.status(made.id))


@promise("status: too many requests is told as busy")
async def _(stage: Stage) -> None:
    made = await stage.launched()
    stage.aim(CloudFault.BUSY, stage.provider.status_by)

    await stage.raises(CloudBusy, stage.cloud.status(made.id))


@promise("status: a revoked key is refused as a key, never absent", unfit=keyless)
async def _(stage: Stage) -> None:
    made = await stage.launched()
    stage.aim(CloudFault.KEY_REVOKED, stage.provider.status_by)

    await stage.raises(KeyRefused, stage.cloud.status(made.id))
