"""Finding again and sweeping: complete lists or an error, whatever is asked of them."""

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import msgspec

from tests.contracts.clouds.promises.offers import NO_ANSWER, keyless
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import Stage
from tests.contracts.clouds.suite import promise
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, KeyRefused
from tgp.core.model.instance import Instance
from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb

OTHER_CLUSTER = "deadbeef42"


def no_pages(provider: Provider) -> str:
    return "" if provider.page_rows else "its lists have no pages"


def names_are_unique(provider: Provider) -> str:
    return "it refuses a second machine of one name" if provider.unique_names else ""


def ids(machines: tuple[Instance, ...]) -> list[str]:
    return [machine.id for machine in machines]


def fill_a_page(stage: Stage) -> None:
    """So many machines of others that ours stands on a later page."""
    stage.fleet.add_foreign(stage.tenant, stage.provider.page_rows + 3)


# -- find --------------------------------------------------------------------------------------------------------------


@promise("find: nothing is under a token that was never used")
async def _(stage: Stage) -> None:
    await stage.launched(stage.token(1))

    assert await stage.cloud.find(stage.token(2)) == ()


@promise("find: only exactly this token is found")
async def _(stage: Stage) -> None:
    """Attempt 1 is not attempt 11, though the one begins as the other does."""
    await stage.launched(stage.token(1, attempt=11))
    await stage.launched(stage.token(1, attempt=12))

    assert await stage.cloud.find(stage.token(1, attempt=1)) == ()
    assert await stage.cloud.find(stage.prefix) == ()


@promise("find: two machines under one token are both found", unfit=names_are_unique)
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.MADE_TWICE, CloudVerb.LAUNCH)
    await stage.cloud.launch(order)
    await stage.settle()
    found = await stage.cloud.find(order.token)

    assert len(found) == len(set(ids(found))) == 2
    assert ids(found) == sorted(ids(found))


@promise("find: what the list hides for long is found when the lag is over")
async def _(stage: Stage) -> None:
    order = await stage.order()
    stage.aim(CloudFault.LIST_LAGS, CloudVerb.LAUNCH)
    await stage.cloud.launch(order)

    assert await stage.cloud.find(order.token) == ()
    await stage.outlast_the_longest_lag()
    assert len(await stage.cloud.find(order.token)) == 1


@promise("find: other people's machines are never found")
async def _(stage: Stage) -> None:
    stage.fleet.add_foreign(stage.tenant, 3)
    made = await stage.launched()

    assert ids(await stage.cloud.find(stage.token())) == [made.id]
    assert await stage.cloud.find("") == ()


@promise("find: under another account the machine is not shown, and the identity differs", unfit=keyless)
async def _(stage: Stage) -> None:
    await stage.launched()
    before = await stage.cloud.identity()
    stranger = stage.other_cloud()

    assert await stranger.find(stage.token()) == ()
    assert await stranger.identity() != before


# -- owned -------------------------------------------------------------------------------------------------------------


@promise("owned: everything of our cluster, by id, and nothing else")
async def _(stage: Stage) -> None:
    stage.fleet.add_foreign(stage.tenant, 3)
    ours = [await stage.launched(stage.token(number)) for number in (1, 2, 3)]
    await stage.launched(stage.token(4, cluster=OTHER_CLUSTER))
    owned = await stage.cloud.owned(stage.prefix)

    assert ids(owned) == sorted(machine.id for machine in ours)
    assert sorted(machine.token for machine in owned) == [stage.token(number) for number in (1, 2, 3)]


@promise("owned: an empty account owns nothing")
async def _(stage: Stage) -> None:
    assert await stage.cloud.owned(stage.prefix) == ()


@promise("owned: every page is read", unfit=no_pages)
async def _(stage: Stage) -> None:
    first = await stage.launched(stage.token(1))
    fill_a_page(stage)
    last = await stage.launched(stage.token(2))

    assert ids(await stage.cloud.owned(stage.prefix)) == sorted([first.id, last.id])


@promise("owned: a machine that was lost is still listed")
async def _(stage: Stage) -> None:
    made = await stage.running()
    stage.fleet.lose(stage.machine(), stage.clock.now())

    assert ids(await stage.cloud.owned(stage.prefix)) == [made.id]


@promise("owned: a row that comes twice is one machine, or no answer")
async def _(stage: Stage) -> None:
    made = await stage.launched()
    stage.rewrite(CloudVerb.LIST, _rows_twice)
    try:
        owned = await stage.cloud.owned(stage.prefix)
    except CannotTell:
        return
    assert ids(owned) == [made.id]


def _rows_twice(reply: Reply) -> Reply:
    return replace(reply, content=msgspec.json.encode(_doubled(msgspec.json.decode(reply.content))))


def _doubled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _doubled(each) for key, each in value.items()}
    if isinstance(value, list):
        rows = [_doubled(each) for each in value]
        return rows * 2 if rows and all(isinstance(row, dict) and "id" in row for row in rows) else rows
    return value


@promise("owned: a row whose name cannot be read may be ours, so it is an error")
async def _(stage: Stage) -> None:
    await stage.launched()
    stage.spoil(CloudVerb.LIST, stage.provider.name_slots, {"unexpected": 7})

    await stage.raises(NO_ANSWER, stage.cloud.owned(stage.prefix))


@promise("owned: an answer without its list is not an empty list")
async def _(stage: Stage) -> None:
    await stage.launched()
    for body in (b"{}", b"null", b"[]", b'""', b"0"):
        stage.instead(CloudVerb.LIST, 200, body)
        await stage.raises(NO_ANSWER, stage.cloud.owned(stage.prefix))


@promise("owned: an endless list ends in an error", unfit=no_pages)
async def _(stage: Stage) -> None:
    """A cursor that leads back to itself must not keep us for ever."""
    await stage.launched()
    fill_a_page(stage)
    first: list[Reply] = []

    def again(reply: Reply) -> Reply:
        first.append(reply)
        return first[0]

    stage.rewrite(CloudVerb.LIST, again)
    await stage.raises(NO_ANSWER, stage.cloud.owned(stage.prefix))


# -- both --------------------------------------------------------------------------------------------------------------


def look(stage: Stage, verb: str) -> Awaitable[tuple[Instance, ...]]:
    return stage.cloud.find(stage.token()) if verb == "find" else stage.cloud.owned(stage.prefix)


def promise_of_both(sentence: str, cloud_fault: CloudFault, kinds: Any, unfit: Any = lambda _provider: "") -> None:
    """A fault of lists, promised for `find` and for `owned`: each has its own way to get it wrong."""
    for verb in ("find", "owned"):

        async def script(stage: Stage, verb: str = verb) -> None:
            await stage.launched()
            stage.aim(cloud_fault, CloudVerb.LIST)
            await stage.raises(kinds, look(stage, verb))

        promise(f"{verb}: {sentence}", unfit=unfit)(script)


promise_of_both("a page of a proxy is unknown, never nothing", CloudFault.HTML, NO_ANSWER)
promise_of_both("an empty body is unknown, never nothing", CloudFault.EMPTY_BODY, NO_ANSWER)
promise_of_both("another shape is unknown, never nothing", CloudFault.GARBAGE, NO_ANSWER)
promise_of_both("a retired list is unknown, never nothing", CloudFault.LIST_GONE, NO_ANSWER)
promise_of_both("half a list is unknown, never the half", CloudFault.LIST_PARTIAL, NO_ANSWER, no_pages)
promise_of_both("an error is unknown, never nothing", CloudFault.ERROR, NO_ANSWER)
promise_of_both("silence is told as busy", CloudFault.HANG_UP, CloudBusy)
promise_of_both("too many requests is told as busy", CloudFault.BUSY, CloudBusy)
promise_of_both("too many requests in plain text is told as busy", CloudFault.BUSY_TEXT, CloudBusy)
promise_of_both("a revoked key is refused as a key, never nothing", CloudFault.KEY_REVOKED, KeyRefused, keyless)
