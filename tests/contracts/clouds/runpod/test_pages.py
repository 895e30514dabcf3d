"""RunPod's list of pods has pages since September 2026: it is read to its end, or nothing is concluded from it."""

from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.providers.runpod import PAGE_ROWS, PROVIDER
from tests.contracts.clouds.runpod.answers import a_pod, reply
from tests.contracts.clouds.runpod.test_simulator import ask
from tests.contracts.clouds.stage import Stage, play
from tgp.adapters.clouds.runpod.paging import MOST_PAGES, PER_PAGE, PodPages
from tgp.core.model.cloud_errors import CannotTell
from tgp.ports.http import Call

END = {"nextCursor": None, "hasNextPage": False}


def page(pagination: Any, *rows: Any) -> Any:
    return reply(200, {"pods": list(rows), "pagination": pagination})


# -- the reader --------------------------------------------------------------------------------------------------------


def test_every_page_is_asked_for_by_the_cursor_of_the_one_before():
    pages = PodPages()

    assert pages.call().query == (("limit", str(PER_PAGE)),)
    assert pages.take(page({"nextCursor": "c2", "hasNextPage": True}, a_pod(id="b")))
    assert pages.call().query == (("limit", str(PER_PAGE)), ("cursor", "c2"))
    assert pages.take(page({"nextCursor": "c3", "hasNextPage": True}))  # a page may be shorter, and empty
    assert not pages.take(page(END, a_pod(id="a")))
    assert [row["id"] for row in pages.rows] == ["b", "a"]


@pytest.mark.parametrize(
    "pagination",
    [
        None,
        [],
        {},
        {"nextCursor": None},
        {"nextCursor": "c2"},
        {"hasNextPage": True},
        {"nextCursor": None, "hasNextPage": True},
        {"nextCursor": "", "hasNextPage": True},
        {"nextCursor": 7, "hasNextPage": True},
        {"nextCursor": "c" * 5000, "hasNextPage": True},
        {"nextCursor": "c2", "hasNextPage": False},
        {"nextCursor": None, "hasNextPage": 0},
        {"nextCursor": None, "hasNextPage": "false"},
    ],
)
def test_a_page_that_does_not_say_whether_the_list_goes_on_proves_nothing(pagination: Any):
    with pytest.raises(CannotTell):
        PodPages().take(page(pagination, a_pod()))


@pytest.mark.parametrize(
    ("pagination", "words"),
    [
        (
            {"nextCursor": "c2", "hasNextPage": False},
            "`hasNextPage` is false, and there is a `nextCursor` (one that was",
        ),
        ({"nextCursor": "c9", "hasNextPage": False}, "`hasNextPage` is false, and there is a `nextCursor` (a new one)"),
        ({"nextCursor": "", "hasNextPage": True}, "`hasNextPage` is true, and there is no `nextCursor`"),
    ],
)
def test_what_the_two_fields_said_is_in_the_message(pagination: Any, words: str):
    pages = PodPages()
    pages.take(page({"nextCursor": "c2", "hasNextPage": True}))

    with pytest.raises(CannotTell) as told:
        pages.take(page(pagination))
    assert f"inconsistent on page 2: {words}" in str(told.value)


def test_a_list_in_a_circle_is_not_walked_twice():
    pages = PodPages()
    for cursor in ("c2", "c3"):
        pages.take(page({"nextCursor": cursor, "hasNextPage": True}))

    with pytest.raises(CannotTell, match="same page cursor twice"):
        pages.take(page({"nextCursor": "c2", "hasNextPage": True}))


def test_a_list_without_end_ends_in_an_error():
    pages = PodPages()
    for number in range(1, MOST_PAGES):
        pages.take(page({"nextCursor": f"c{number}", "hasNextPage": True}))

    with pytest.raises(CannotTell, match=str(MOST_PAGES)):
        pages.take(page({"nextCursor": "one more", "hasNextPage": True}))


def test_a_page_with_more_rows_than_were_asked_for_is_not_believed():
    with pytest.raises(CannotTell):
        PodPages().take(page(END, *[None] * (PER_PAGE + 1)))


# -- the simulator -----------------------------------------------------------------------------------------------------


def test_pods_come_newest_first_and_a_cursor_goes_on_behind_what_was_shown():
    async def script(stage: Stage) -> None:
        made = [(await stage.launched(stage.token(number))).id for number in range(1, 6)]
        shown: list[str] = []
        cursor: tuple[tuple[str, str], ...] = ()
        for rows in (PAGE_ROWS, PAGE_ROWS, 1):
            body = msgspec.json.decode((await ask(stage, Call("GET", "/v2/pods", query=cursor))).content)
            assert len(body["pods"]) == rows
            shown += [pod["id"] for pod in body["pods"]]
            cursor = (("cursor", body["pagination"]["nextCursor"] or ""),)
            assert body["pagination"]["hasNextPage"] == bool(body["pagination"]["nextCursor"])

        assert shown == made[::-1]

    play(PROVIDER, script)


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "1001"},
        {"limit": "many"},
        {"limit": "-1"},
        {"cursor": "foreign"},
        {"cursor": "c29tZWJvZHl8MjAyNi0wNi0wMVQxMjowMDowMCswMDowMHx4"},  # of another account
    ],
)
def test_a_foreign_cursor_and_a_limit_out_of_bounds_are_refused(query: dict[str, str]):
    async def script(stage: Stage) -> None:
        answer = await ask(stage, Call("GET", "/v2/pods", query=tuple(query.items())))

        assert answer.status == 422
        assert msgspec.json.decode(answer.content)["errors"][0].startswith(f"$.{next(iter(query))}: ")

    play(PROVIDER, script)


def test_a_pod_that_is_made_between_two_pages_hides_no_other():
    async def script(stage: Stage) -> None:
        tokens = [stage.token(number) for number in range(1, 5)]
        for token in tokens:
            await stage.launched(token)
        first = await ask(stage, Call("GET", "/v2/pods"))
        await stage.launched(stage.token(99))
        cursor = msgspec.json.decode(first.content)["pagination"]["nextCursor"]
        rest = await ask(stage, Call("GET", "/v2/pods", query=(("cursor", cursor),)))
        names = [pod["name"] for answer in (first, rest) for pod in msgspec.json.decode(answer.content)["pods"]]

        assert names == tokens[::-1]

    play(PROVIDER, script)
