"""Lists in pages: all of them, or no answer. What stands on a page that was not read is not absent.

A reader of one page believes that a token on the second was never used, and buys again.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import msgspec

from tests.contracts.clouds.promises.looking import look, no_pages
from tests.contracts.clouds.promises.offers import NO_ANSWER
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import JSON, Stage
from tests.contracts.clouds.suite import promise
from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudVerb

ROWS = 2  # of a page of machines here
MACHINES = 5  # three pages
VERBS = ("find", "owned")
FAILURES = (
    Reply(500, b'{"error": "internal"}', JSON),
    Reply(502, b"<html>Bad Gateway</html>", (("Content-Type", "text/html"),)),
    Reply(404, b'{"error": "not found"}', JSON),
    Reply(429, b"slow down", (("Content-Type", "text/plain"),)),
    Reply(200, b"", JSON),
    Reply(200, b"{}", JSON),
)
MORE = (  # how an API could come to say that a list goes on
    {"pagination": {"nextCursor": "c2", "hasNextPage": True}},
    {"next_cursor": "c2"},
    {"nextPageToken": "c2"},
    {"has_more": True},
    {"links": {"next": "/v1/instances?page=2"}},
)


def no_total(provider: Provider) -> str:
    if no_pages(provider):
        return no_pages(provider)
    return "" if provider.count_page else "its pages carry no total: one that says it is the last cannot be doubted"


def has_pages(provider: Provider) -> str:
    return provider.unpaged or ("it reads its pages to the end" if provider.page_rows else "")


def offers_on_one_page(provider: Provider) -> str:
    return "" if provider.offer_rows else "its offers are not listed in pages that the provider makes"


async def some_pages(stage: Stage) -> list[str]:
    """So many machines of ours that their list has three pages; their tokens."""
    tokens = [stage.token(number) for number in range(1, MACHINES + 1)]
    for token in tokens:
        await stage.launched(token)
    stage.page_by(ROWS)
    return tokens


def names_on(stage: Stage) -> list[set[str]]:
    """Of every page of machines from now on."""
    pages: list[set[str]] = []

    def note(reply: Reply) -> Reply:
        slots = stage.provider.name_slots(msgspec.json.decode(reply.content))
        pages.append({container[key] for container, key in slots})
        return reply

    stage.rewrite(CloudVerb.LIST, note)
    return pages


def only(stage: Stage, number: int, instead: Callable[[Reply], Reply]) -> Callable[[Reply], Reply]:
    """Changes the page of that number of each list and no other."""
    seen: Counter[str] = Counter()

    def change(reply: Reply) -> Reply:
        call = stage.calls[-1][1]
        asked = f"{call.path}?{call.parameter('type')}"  # Vultr's two kinds of plans are two lists at one path
        seen[asked] += 1
        return instead(reply) if seen[asked] == number else reply

    return change


def last(provider: Provider, *, counted: bool = False) -> Callable[[Reply], Reply]:
    """A page that says it is the last; `counted`: and that there are no more rows than its own."""

    def change(reply: Reply) -> Reply:
        body = msgspec.json.decode(reply.content)
        assert provider.end_page is not None, "the provider's file does not say how a last page looks"
        provider.end_page(body)
        if counted and provider.count_page is not None:
            provider.count_page(body)
        return replace(reply, content=msgspec.json.encode(body))

    return change


for each in VERBS:

    @promise(f"pages: {each}: the token is on the last of many pages", unfit=no_pages)
    async def _(stage: Stage, verb: str = each) -> None:
        tokens = await some_pages(stage)
        pages = names_on(stage)
        if verb == "owned":
            assert sorted(machine.token for machine in await stage.cloud.owned(stage.prefix)) == tokens
        else:
            assert [len(await stage.cloud.find(token)) for token in tokens] == [1] * len(tokens)

        assert len(pages) >= MACHINES // ROWS, "the list has no pages"
        assert set(tokens) & pages[-1] - pages[0], "the last page shows none of ours"

    @promise(f"pages: {each}: a second page that fails is unknown, never the first page", unfit=no_pages)
    async def _(stage: Stage, verb: str = each) -> None:
        await some_pages(stage)
        for failure in FAILURES:
            stage.rewrite(CloudVerb.LIST, only(stage, 2, lambda _reply, failure=failure: failure))
            await stage.raises(NO_ANSWER, look(stage, verb))

    @promise(f"pages: {each}: a page that lies about being the last is unknown", unfit=no_total)
    async def _(stage: Stage, verb: str = each) -> None:
        await some_pages(stage)
        stage.rewrite(CloudVerb.LIST, only(stage, 2, last(stage.provider)))

        await stage.raises(NO_ANSWER, look(stage, verb))

    @promise(f"pages: {each}: a list that comes to have pages is unknown", unfit=has_pages)
    async def _(stage: Stage, verb: str = each) -> None:
        """As a provider's did, overnight and without another version: its old readers saw the first page alone."""
        await stage.launched()
        for more in MORE:
            stage.rewrite(CloudVerb.LIST, only(stage, 1, lambda reply, more=more: _with(reply, more)))
            await stage.raises(NO_ANSWER, look(stage, verb))


def _with(reply: Reply, more: dict[str, object]) -> Reply:
    return replace(reply, content=msgspec.json.encode(msgspec.json.decode(reply.content) | more))


@promise("pages: offers: what stands on the last of many pages is offered", unfit=offers_on_one_page)
async def _(stage: Stage) -> None:
    whole = await stage.cloud.offers()
    asked = stage.count(CloudVerb.OFFERS)
    stage.page_by(stage.provider.offer_rows, CloudVerb.OFFERS)

    assert await stage.cloud.offers() == whole
    assert stage.count(CloudVerb.OFFERS) - asked > asked, "there were no further pages"


@promise("pages: offers: a second page that fails is unknown, never the first page", unfit=offers_on_one_page)
async def _(stage: Stage) -> None:
    stage.page_by(stage.provider.offer_rows, CloudVerb.OFFERS)
    for failure in FAILURES:
        stage.rewrite(CloudVerb.OFFERS, only(stage, 2, lambda _reply, failure=failure: failure))
        await stage.raises(NO_ANSWER, stage.cloud.offers())
