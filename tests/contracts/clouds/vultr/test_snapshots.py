"""Vultr's store of images: what is listed, what an import ends in, what its end does."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.contracts.clouds.providers.vultr import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tests.contracts.clouds.vultr.answers import page, refused, reply
from tgp.adapters.clouds.vultr.facts import FACTS
from tgp.adapters.clouds.vultr.snapshots import VultrImageStore, read_made, read_removed, read_snapshots
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    CloudBusy,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
)
from tgp.core.model.image_mark import ImageMark, read_mark
from tgp.core.model.talos import TalosVersion
from tgp.ports.http import Reply
from tgp.ports.images import StoredImage
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.vultr import SNAPSHOT_ID

URL = "https://factory.test/image/0123/v1.13.0/vultr-amd64.raw"
MARK = ImageMark("c0ffee0123", TalosVersion(13, 0), "amd64", "0123456789abcdef" * 4)
ID = "cb676a46-66fd-4dfb-b839-443f2e6c0b60"


def a_snapshot(**changes: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "date_created": "2026-11-15T12:30:05+00:00",
        "description": str(MARK),
        "size": 0,
        "status": "pending",
    } | changes


def on_a_shelf(script: Callable[[Stage, VultrImageStore], Awaitable[None]]) -> None:
    async def begin(stage: Stage) -> None:
        context = stage.context(stage.key)
        await script(stage, VultrImageStore(context.http(FACTS), context.key))

    play(PROVIDER, begin)


def test_an_image_is_fetched_for_a_while_then_ready_then_removed_for_good():
    async def script(stage: Stage, store: VultrImageStore) -> None:
        made = await store.make(str(MARK), URL)
        assert (made.mark, made.ready) == (str(MARK), False)
        await asyncio.sleep(600)
        assert {image.id: image.ready for image in await store.list()} == {made.id: True, SNAPSHOT_ID: True}
        await store.remove(made.id)
        await store.remove(made.id)

        assert [image.id for image in await store.list()] == [SNAPSHOT_ID]

    on_a_shelf(script)


def test_a_packed_image_is_refused_as_vultr_refuses_it():
    async def script(stage: Stage, store: VultrImageStore) -> None:
        with pytest.raises(OrderRefused, match="raw disk image"):
            await store.make(str(MARK), f"{URL}.xz")

        assert len(await store.list()) == 1

    on_a_shelf(script)


def test_a_machine_cannot_be_ordered_from_an_image_that_is_still_fetched():
    async def script(stage: Stage, store: VultrImageStore) -> None:
        made = await store.make(str(MARK), URL)
        with pytest.raises(OrderRefused, match="snapshot"):
            await stage.cloud.launch(await stage.order(image=made.id))
        await asyncio.sleep(600)

        assert await stage.cloud.launch(await stage.order(image=made.id))

    on_a_shelf(script)


@pytest.mark.parametrize(
    "fault",
    [CloudFault.HANG_UP, CloudFault.ERROR, CloudFault.BUSY, CloudFault.HTML, CloudFault.EMPTY_BODY, CloudFault.GARBAGE],
)
def test_a_list_that_failed_is_never_an_empty_one(fault: CloudFault):
    async def script(stage: Stage, store: VultrImageStore) -> None:
        stage.aim(fault, CloudVerb.OTHER)
        with pytest.raises((CloudBusy, CannotTell)):
            await store.list()

    on_a_shelf(script)


def test_half_a_list_is_none():
    async def script(stage: Stage, store: VultrImageStore) -> None:
        answer = page("snapshots", [a_snapshot()], total=2)
        stage.instead(CloudVerb.OTHER, 200, answer.content)
        with pytest.raises(CannotTell, match="the list is incomplete"):
            await store.list()

    on_a_shelf(script)


@pytest.mark.parametrize("row", [None, {}, {"id": 7.5}, {"id": "a/b"}, a_snapshot(id="")])
def test_a_row_that_cannot_be_read_makes_the_list_worthless(row: Any):
    with pytest.raises(CannotTell):
        read_snapshots([a_snapshot(id="other"), row])


def test_rows_are_read_as_they_are():
    rows = [a_snapshot(), a_snapshot(id="b", status="complete", description=None), a_snapshot(id="c", status="deleted")]

    assert read_snapshots(rows) == (
        StoredImage("b", "", ready=True, made_at=datetime(2026, 11, 15, 12, 30, 5, tzinfo=UTC)),
        StoredImage(ID, str(MARK), ready=False, made_at=datetime(2026, 11, 15, 12, 30, 5, tzinfo=UTC)),
    )


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused(400, "Invalid url"), OrderRefused),
        (refused(400, "You have reached the limit of snapshots"), AccountExhausted),
        (refused(401, "Invalid API token."), KeyRefused),
        (refused(429, "slow down"), CloudBusy),
        (refused(500, "oops"), OutcomeUnknown),
        (Reply(201, b""), OutcomeUnknown),
        (Reply(201, b"<html></html>"), OutcomeUnknown),
        (reply(400, {"error": "odd", "status": 400, "snapshot": a_snapshot()}), OutcomeUnknown),
        (reply(201, {"snapshot": {"id": "a/b"}}), OutcomeUnknown),
    ],
)
def test_what_an_import_ends_in(answer: Reply, error: type[Exception]):
    with pytest.raises(error):
        read_made(answer)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused(400, "locked"), CloudBusy),
        (refused(403, "no"), KeyRefused),
        (Reply(404, b"<html></html>"), OutcomeUnknown),
        (refused(503, "later"), OutcomeUnknown),
    ],
)
def test_an_end_that_was_not_taken_is_asked_for_again(answer: Reply, error: type[Exception]):
    with pytest.raises(error):
        read_removed(answer)


@pytest.mark.parametrize("answer", [Reply(204), refused(404, "Invalid snapshot.")])
def test_gone_is_gone(answer: Reply):
    read_removed(answer)


def test_no_error_shows_the_key():
    async def script(stage: Stage, store: VultrImageStore) -> None:
        stage.instead(CloudVerb.OTHER, 400, refused(400, f"Invalid token {stage.key}").content)
        with pytest.raises(OrderRefused) as caught:
            await store.make(str(MARK), URL)
        assert stage.key not in str(caught.value)

    on_a_shelf(script)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Talos with NVIDIA extensions",
        f"{MARK} ",
        f"x{MARK}",
        str(MARK).replace("amd64", "riscv"),
        str(MARK).replace("v1.13.0", "1.13.0"),
        str(MARK).replace("v1.13.0", "v2.13.0"),
        str(MARK).upper(),
    ],
)
def test_what_is_not_ours_has_no_mark(text: str):
    assert read_mark(text) is None


def test_a_mark_is_read_as_it_was_written():
    candidate = ImageMark("c0ffee0123", TalosVersion(14, 0, final=False, suffix="-rc.1"), "arm64", MARK.schematic)

    assert [read_mark(str(mark)) for mark in (MARK, candidate)] == [MARK, candidate]
