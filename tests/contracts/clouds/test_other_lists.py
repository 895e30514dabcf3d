"""Lists beside those of machines that an absence is concluded from: Vultr's images, Paperspace's start-up scripts."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from tests.contracts.clouds.promises.offers import NO_ANSWER
from tests.contracts.clouds.promises.pages import FAILURES, ROWS, last, only
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.providers.paperspace import PROVIDER as PAPERSPACE
from tests.contracts.clouds.providers.vultr import PROVIDER as VULTR
from tests.contracts.clouds.stage import Stage, play
from tgp.adapters.clouds.vultr.facts import FACTS
from tgp.adapters.clouds.vultr.snapshots import VultrImageStore
from tgp.ports.cloud import HasLeftovers
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb

URL = "https://factory.test/image/0123/v1.13.0/vultr-amd64.raw"
OBJECTS = 5  # three pages
Fill: TypeAlias = Callable[[Stage], Awaitable[None]]
Look: TypeAlias = Callable[[Stage], Awaitable[object]]


def product(stage: Stage) -> VultrImageStore:
    context = stage.context(stage.key)
    return VultrImageStore(context.http(FACTS), context.key)


async def some_images(stage: Stage) -> None:
    for number in range(OBJECTS):
        await product(stage).make(f"image-{number}", URL)


async def images(stage: Stage) -> list[str]:
    return sorted(image.mark for image in await product(stage).list() if image.mark.startswith("image-"))


async def some_scripts(stage: Stage) -> None:
    """Left behind by orders that were sold out after their script was written, of requests that are not cleaned up."""
    for number in range(1, OBJECTS + 1):
        order = await stage.order(stage.token(number))
        stage.aim(CloudFault.HANG_UP, CloudVerb.LAUNCH)
        with pytest.raises(Exception, match="answer"):
            await stage.cloud.launch(order)


async def cleanup(stage: Stage) -> int:
    """How many scripts are left when each request was cleaned up."""
    assert isinstance(stage.cloud, HasLeftovers)
    for number in range(1, OBJECTS + 1):
        await stage.cloud.cleanup(stage.token(number))
    return len(stage.simulator.scripts)  # type: ignore[attr-defined] - of Paperspace's alone


LISTS = [(VULTR, some_images, images), (PAPERSPACE, some_scripts, cleanup)]
EVERY = pytest.mark.parametrize(("provider", "fill", "ask"), LISTS, ids=["vultr-images", "paperspace-scripts"])


@EVERY
def test_what_stands_on_the_last_of_many_pages_is_seen(provider: Provider, fill: Fill, ask: Look) -> None:
    async def script(stage: Stage) -> None:
        await fill(stage)
        asked = stage.count(CloudVerb.OTHER)
        stage.page_by(ROWS, CloudVerb.OTHER)
        found = await ask(stage)

        assert found in ([f"image-{number}" for number in range(OBJECTS)], 0)
        assert stage.count(CloudVerb.OTHER) - asked >= OBJECTS // ROWS, "there were no further pages"

    play(provider, script)


@EVERY
def test_a_second_page_that_fails_is_unknown(provider: Provider, fill: Fill, ask: Look) -> None:
    async def script(stage: Stage) -> None:
        await fill(stage)
        stage.page_by(ROWS, CloudVerb.OTHER)
        for failure in FAILURES:
            stage.rewrite(CloudVerb.OTHER, only(stage, 2, lambda _reply, failure=failure: failure))
            await stage.raises(NO_ANSWER, ask(stage))

    play(provider, script)


def test_a_page_of_images_that_lies_about_being_the_last_is_unknown() -> None:
    async def script(stage: Stage) -> None:
        await some_images(stage)
        stage.page_by(ROWS, CloudVerb.OTHER)
        stage.rewrite(CloudVerb.OTHER, only(stage, 2, last(VULTR)))

        await stage.raises(NO_ANSWER, images(stage))

    play(VULTR, script)
