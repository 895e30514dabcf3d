"""Keys and join secrets: sent to whom they belong, and shown to nobody."""

from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

from tests.contracts.clouds.fuzz import decoded, encoded, spots_of
from tests.contracts.clouds.promises.launch import containers_only
from tests.contracts.clouds.promises.offers import keyless
from tests.contracts.clouds.stage import USER_DATA, Stage
from tests.contracts.clouds.suite import promise
from tgp.core.model.cloud_errors import CloudError
from tgp.ports.cloud import LaunchOrder
from tgp.ports.http import Reply
from tgp.sim.clouds.mishaps import Mishap, Verb

FAULTS = (
    Mishap.HANG_UP,
    Mishap.ERROR,
    Mishap.BUSY,
    Mishap.BUSY_TEXT,
    Mishap.HTML,
    Mishap.EMPTY_BODY,
    Mishap.GARBAGE,
    Mishap.LIST_GONE,
    Mishap.LIST_PARTIAL,
    Mishap.HANG_UP_AFTER,
    Mishap.ERROR_AFTER,
    Mishap.ERROR_WITH_ID,
    Mishap.SOLD_OUT,
    Mishap.BROKE,
)
CAUSES_SHOWN = 8
JOIN_SECRET = "join-secret-of-the-cluster"


@promise("secrets: the key is in no text that the adapter or its door prints", unfit=keyless)
async def _(stage: Stage) -> None:
    texts = (
        repr(stage.cloud),
        str(stage.cloud),
        repr(stage.door(stage.key)),
        repr(getattr(stage.cloud, "__dict__", {})),
    )

    assert [text for text in texts if leaks(stage, text)] == []


@promise("secrets: the key is in no address", unfit=keyless)
async def _(stage: Stage) -> None:
    """Addresses end up in the logs of everybody on the way."""
    await walk(stage, await stage.order())

    assert [call.path for _, call in stage.calls if leaks(stage, call.path + repr(call.query))] == []


@promise("secrets: the key is in no error", unfit=keyless)
async def _(stage: Stage) -> None:
    texts = [text async for text in errors_of_everything(stage)]

    assert len(texts) > len(FAULTS)
    assert [text for text in texts if leaks(stage, text)] == []


@promise("secrets: user data is in no error and no address", unfit=containers_only)
async def _(stage: Stage) -> None:
    texts = [text async for text in errors_of_everything(stage)]
    addresses = [call.path + repr(call.query) for _, call in stage.calls]

    assert USER_DATA.decode().count(JOIN_SECRET) == 1
    hidden = (JOIN_SECRET, b64encode(USER_DATA).decode().rstrip("="))
    assert [text for text in (*texts, *addresses) if any(each in text for each in hidden)] == []


@promise("secrets: user data is in no name, label or tag", unfit=containers_only)
async def _(stage: Stage) -> None:
    made = await stage.launched()
    (found,) = await stage.cloud.find(stage.token())
    machine = stage.machine()

    assert JOIN_SECRET not in repr((made, found, machine.name, machine.tags))


@promise("secrets: errors name the provider")
async def _(stage: Stage) -> None:
    """Whoever reads a condition must know who said so."""
    texts = [text async for text in errors_of_everything(stage)]
    names = (stage.cloud.facts.title.lower(), stage.cloud.facts.provider)

    assert [text for text in texts if not any(name in text.lower() for name in names)] == []


REFUSALS = (Mishap.SOLD_OUT, Mishap.BROKE, Mishap.ERROR, Mishap.KEY_REVOKED)


async def refusals_that_quote(stage: Stage, secret: str) -> list[str]:
    """The texts of our errors where a provider's refusal of an order quotes something back, in its longest sentence."""
    order = await stage.order()
    stage.retell(Verb.LAUNCH, lambda reply: quoting(reply, secret))
    texts = []
    for mishap in REFUSALS:
        if mishap is Mishap.KEY_REVOKED and not stage.provider.keyed:
            continue
        stage.aim(mishap, Verb.LAUNCH)
        try:
            await stage.cloud.launch(order)
        except CloudError as error:
            texts.append(told_by(error))
    assert len(texts) >= 3
    return texts


def quoting(reply: Reply, secret: str) -> Reply:
    body = decoded(reply)
    sentences = [(place, key) for place, key in spots_of(body) if isinstance(place[key], str)]
    if not sentences:
        return replace(reply, content=f"cannot do this with {secret}".encode())
    place, key = max(sentences, key=lambda found: len(found[0][found[1]]))
    place[key] = f"{place[key]}: cannot do this with {secret} here"
    return encoded(reply, body)


@promise("secrets: a refusal that quotes user data is not passed on with it", unfit=containers_only)
async def _(stage: Stage) -> None:
    """Some providers show what they could not read; a condition must not."""
    texts = await refusals_that_quote(stage, JOIN_SECRET)

    assert [text for text in texts if JOIN_SECRET in text] == []


@promise("secrets: a refusal that quotes the key is not passed on with it", unfit=keyless)
async def _(stage: Stage) -> None:
    secret = min(stage.provider.secret_parts(stage.key), key=len)
    texts = await refusals_that_quote(stage, secret)

    assert [text for text in texts if leaks(stage, text)] == []


def leaks(stage: Stage, text: str) -> bool:
    """Is the key, or the secret part of a key that is a document, in that text?"""
    return any(part in text for part in stage.provider.secret_parts(stage.key))


def verbs(stage: Stage, order: LaunchOrder, instance_id: str) -> tuple[Callable[[], Awaitable[Any]], ...]:
    cloud = stage.cloud
    return (
        cloud.offers,
        cloud.identity,
        cloud.check,
        lambda: cloud.launch(order),
        lambda: cloud.find(order.token),
        lambda: cloud.owned(stage.prefix),
        lambda: cloud.status(instance_id),
        lambda: cloud.terminate(instance_id),
    )


async def walk(stage: Stage, order: LaunchOrder) -> None:
    """Each verb once, with an id that the adapter itself has told."""
    made = await stage.launched(stage.token(7))
    for verb in verbs(stage, order, made.id):
        await verb()


async def errors_of_everything(stage: Stage) -> AsyncIterator[str]:
    """The texts of every error, with their causes, that any verb raises under any of the faults."""
    order = await stage.order()
    made = await stage.launched(stage.token(7))
    for mishap in FAULTS:
        for verb in verbs(stage, order, made.id):
            stage.simulator.mishaps.calm()
            stage.simulator.mishaps.chances[mishap] = 1.0
            try:
                await verb()
            except CloudError as error:
                yield told_by(error)
    stage.simulator.mishaps.calm()


def told_by(error: BaseException) -> str:
    """Its text with those of what caused it, as a traceback would show them."""
    texts: list[str] = []
    cause: BaseException | None = error
    for _ in range(CAUSES_SHOWN):
        if cause is None:
            break
        texts.append(f"{cause} {cause!r}")
        cause = cause.__cause__
    return " because ".join(texts)
