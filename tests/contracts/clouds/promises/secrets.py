"""Keys and join secrets: sent to whom they belong, and never shown."""

from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from tests.contracts.clouds.fuzz import decoded, encoded, spots_of
from tests.contracts.clouds.promises.launch import takes_no_user_data
from tests.contracts.clouds.promises.offers import keyless
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import USER_DATA, Stage
from tests.contracts.clouds.suite import promise
from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.offer import BootMode
from tgp.ports.cloud import Container, LaunchOrder
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb

FAULTS = (
    CloudFault.HANG_UP,
    CloudFault.ERROR,
    CloudFault.BUSY,
    CloudFault.BUSY_TEXT,
    CloudFault.HTML,
    CloudFault.EMPTY_BODY,
    CloudFault.GARBAGE,
    CloudFault.LIST_GONE,
    CloudFault.LIST_PARTIAL,
    CloudFault.HANG_UP_AFTER,
    CloudFault.ERROR_AFTER,
    CloudFault.ERROR_WITH_ID,
    CloudFault.SOLD_OUT,
    CloudFault.BROKE,
)
CAUSES_SHOWN = 8
JOIN_SECRET = "join-secret-of-the-cluster"


@promise("secrets: the key is in no text that the adapter or its context prints", unfit=keyless)
async def _(stage: Stage) -> None:
    texts = (
        repr(stage.cloud),
        str(stage.cloud),
        repr(stage.context(stage.key)),
        repr(getattr(stage.cloud, "__dict__", {})),
    )

    assert [text for text in texts if leaks(stage, text)] == []


@promise("secrets: the key is in no address", unfit=keyless)
async def _(stage: Stage) -> None:
    """Addresses end up in the logs of every proxy."""
    await walk(stage)

    assert [call.path for _, call in stage.calls if leaks(stage, call.path + repr(call.query))] == []


@promise("secrets: the key is in no error", unfit=keyless)
async def _(stage: Stage) -> None:
    texts = [text async for text in errors_of_everything(stage)]

    assert len(texts) > len(FAULTS)
    assert [text for text in texts if leaks(stage, text)] == []


@promise("secrets: user data is in no error and no address", unfit=takes_no_user_data)
async def _(stage: Stage) -> None:
    texts = [text async for text in errors_of_everything(stage)]
    addresses = [call.path + repr(call.query) for _, call in stage.calls]

    assert USER_DATA.decode().count(JOIN_SECRET) == 1
    hidden = (JOIN_SECRET, b64encode(USER_DATA).decode().rstrip("="))
    assert [text for text in (*texts, *addresses) if any(each in text for each in hidden)] == []


@promise("secrets: user data is in no name, label or tag", unfit=takes_no_user_data)
async def _(stage: Stage) -> None:
    made = await stage.launched()
    (found,) = await stage.cloud.find(stage.token())
    machine = stage.machine()

    assert JOIN_SECRET not in repr((made, found, machine.name, machine.tags))


@promise("secrets: errors name the provider")
async def _(stage: Stage) -> None:
    """A condition must name its source."""
    texts = [text async for text in errors_of_everything(stage)]
    names = (stage.cloud.facts.title.lower(), stage.cloud.facts.provider)

    assert [text for text in texts if not any(name in text.lower() for name in names)] == []


# -- what a provider quotes back ---------------------------------------------------------------------------------------

REFUSALS = (
    CloudFault.SOLD_OUT,
    CloudFault.BROKE,
    CloudFault.LIST_GONE,
    CloudFault.ERROR,
    CloudFault.KEY_REVOKED,
)  # the last one stays
STATUSES = (0, 400, 401, 402, 403, 404, 409, 412, 422)  # of a refusal that quotes; 0: as it came
VARIABLE = ("HF_TOKEN", "hf_of-stranger-who-pays")
BEARER = "Bearer "
WITH_AN_ORDER = (CloudVerb.OTHER, CloudVerb.LAUNCH)  # some are told the user data in a call of its own before


def no_containers(provider: Provider) -> str:
    return "" if BootMode.CONTAINER in provider.facts.boot else "it starts no containers"


@promise("secrets: a refusal that quotes user data is not passed on with it", unfit=takes_no_user_data)
async def _(stage: Stage) -> None:
    """Some providers show what they could not read; a condition must not."""
    secrets = [JOIN_SECRET, b64encode(USER_DATA).decode(), repr(USER_DATA.decode())]
    texts = await orders_refused_with(stage, await stage.order(), " or ".join(secrets), JOIN_SECRET)

    assert [text for text in texts if any(secret in text for secret in (*secrets, JOIN_SECRET[:20]))] == []


@promise("secrets: a refusal that quotes a container's variables is not passed on with them", unfit=no_containers)
async def _(stage: Stage) -> None:
    """People keep their keys in them."""
    order = await stage.order()
    assert order.container is not None
    container = Container(order.container.image, env=(VARIABLE,))
    texts = await orders_refused_with(stage, replace(order, container=container), "=".join(VARIABLE), VARIABLE[1])

    assert [text for text in texts if VARIABLE[1] in text] == []


@promise("secrets: a refusal that quotes the key is not passed on with it", unfit=keyless)
async def _(stage: Stage) -> None:
    """Whatever was asked, and whatever was sent in the key's stead: a token that was bought with it opens as much."""
    made = await stage.launched(stage.token(7))
    order = await stage.order()
    parrot = Parrot(credentials_of)
    for verb in CloudVerb:
        stage.retell(verb, lambda reply: parrot.quoting(reply, stage.calls[-1][1]))
    texts = []
    for cloud_fault, parrot.status in product(REFUSALS, STATUSES):
        for ask in verbs(stage, order, made.id):
            stage.simulator.faults.calm()
            stage.simulator.faults.chances[cloud_fault] = 1.0
            texts += await told_by_asking(ask)

    assert len(texts) > len(REFUSALS) * len(STATUSES)
    assert parrot.quoted
    assert [text for text in texts if leaks(stage, text) or any(each in text for each in parrot.quoted)] == []


async def orders_refused_with(stage: Stage, order: LaunchOrder, secret: str, sent: str) -> list[str]:
    """The texts of our errors where a secret is quoted: by a refusal of the order, or of a call that was `sent` it."""
    parrot = Parrot(lambda call: [secret] if call in stage.paying_calls or sent.encode() in call.body else [])
    for verb in WITH_AN_ORDER:
        stage.rewrite(verb, lambda reply: parrot.quoting(reply, stage.calls[-1][1]))
        stage.retell(verb, lambda reply: parrot.quoting(reply, stage.calls[-1][1]))
    texts = []
    for cloud_fault, parrot.status, verb in product(REFUSALS, STATUSES, WITH_AN_ORDER):
        if stage.can_befall(cloud_fault, verb):
            stage.simulator.faults.calm()
            stage.aim(cloud_fault, verb)
            texts += await told_by_asking(lambda: stage.cloud.launch(order))
    assert len(texts) > len(STATUSES) * 3
    assert parrot.quoted
    return texts


@dataclass
class Parrot:
    """Puts what was told in confidence into every sentence of a refusal, and has it come under another status."""

    heard: Callable[[Call], list[str]]  # in a call
    status: int = 0  # 0: as it came
    quoted: list[str] = field(default_factory=list)

    def quoting(self, reply: Reply, call: Call) -> Reply:
        secrets = self.heard(call)
        self.quoted += [secret for secret in secrets if secret not in self.quoted]
        body, sentences = decoded(reply), 0
        for place, key in spots_of(body):
            value = place[key]
            if isinstance(value, str) and " " in value:
                place[key] = f"cannot do this with {' or '.join(secrets)} here: {value}"
                sentences += 1
            elif self.status and not reply.ok and type(value) is int and value == reply.status:
                place[key] = self.status
        if reply.ok:  # an operation may be told of, and have failed
            return encoded(reply, body) if sentences else reply
        reply = replace(reply, status=self.status or reply.status)
        return encoded(reply, body) if sentences else replace(reply, content=" or ".join(secrets).encode())


async def told_by_asking(ask: Callable[[], Awaitable[Any]]) -> list[str]:
    try:
        await ask()
    except CloudError as error:
        return [told_by(error)]
    return []


def credentials_of(call: Call) -> list[str]:
    """What came with a call to prove whose it is."""
    told = [value for name, value in call.headers if name == "Authorization"]
    return [value.removeprefix(BEARER) for value in told]


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


async def walk(stage: Stage) -> None:
    """Each verb once, with an id that the adapter itself has told."""
    made = await stage.launched(stage.token(7))
    for verb in verbs(stage, await stage.order(), made.id):
        await verb()


async def errors_of_everything(stage: Stage) -> AsyncIterator[str]:
    """The texts of every error, with their causes, that any verb raises under any of the faults."""
    made = await stage.launched(stage.token(7))
    order = await stage.order()
    for cloud_fault in FAULTS:
        for verb in verbs(stage, order, made.id):
            stage.simulator.faults.calm()
            stage.simulator.faults.chances[cloud_fault] = 1.0
            try:
                await verb()
            except CloudError as error:
                yield told_by(error)
    stage.simulator.faults.calm()


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
