"""A hostile provider that sends back what it was sent, in every spelling and place: none of it is ever shown."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from tests.contracts.clouds.everything import all_providers
from tests.contracts.clouds.fuzz import decoded
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import USER_DATA, Stage, play
from tests.contracts.clouds.test_fuzz import as_it_was, questions
from tgp.adapters.image_factory.wire import trouble
from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.instance import Instance
from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudVerb

STATUSES = (200, 400, 401, 402, 403, 404, 409, 422, 429, 500)
JOIN_SECRET = "join-secret-of-the-cluster"
LOOKS_REAL = "rpa_9K2LQ7Z8WX4V6T1N3M5B0C8D2F4G6H8J"  # a key as vendors make them: in good answers it is known by that
HALF = 12  # characters of a secret in a row: half of it is too much


def _echoes(key: str) -> Iterator[str]:
    yield f"the key {key} is not valid"
    yield f"the key {key.upper()} is not valid"
    yield f"the key {key[: len(key) * 3 // 4]}... is not valid"
    yield f"https://{key}@acme.test/v1?api_key={quote(key)}"
    for coded in (b64encode(f"{before}{key}".encode()).decode() for before in ("Bearer ", "x", "xx")):
        yield from (coded, coded.upper(), coded.lower())
    yield f"Basic {b64encode(f'{key}:'.encode()).decode()}"
    yield f'cannot parse {{"authorization":"Bearer {key}"}}'


def _spoken(value: Any, words: str) -> Any:
    """Every text inside says `words`, but for those by which rows are told apart."""
    match value:
        case dict():
            named = {name: _spoken(each, words) for name, each in value.items() if name != "id"}
            return named | ({"id": value["id"]} if "id" in value else {})
        case list():
            return [_spoken(each, words) for each in value]
        case str():
            return words
        case _:
            return value


def _errors(words: str) -> dict[str, Any]:
    """As vendors spell them, all at once."""
    inner = {"code": words, "message": words, "reason": words, "status": words, "suggestion": words}
    return {
        "error": inner | {"errors": [inner]},
        "errors": [words],
        "message": words,
        "msg": words,
        "detail": words,
        "title": words,
    }


def _forms(key: str) -> set[str]:
    """What must not be seen, in small letters: the secret, and base64 of it wherever it begins."""
    plain = {secret[start : start + HALF] for secret in (key, JOIN_SECRET) for start in range(len(secret) - HALF + 1)}
    coded = {
        b64encode(f"{'x' * before}{secret}".encode()).decode()[4:-4]
        for secret in (key, JOIN_SECRET)
        for before in range(3)
    }
    return {form.lower() for form in plain | coded}


@pytest.mark.parametrize("words", [*_echoes(LOOKS_REAL), f"https://user:pw@h/x?token={LOOKS_REAL}"])
def test_nor_by_an_image_factory(words: str) -> None:
    said = str(trouble(Reply(400, words.encode(), ()), "the schematic"))

    assert said.startswith("the image factory refused the schematic: ")
    assert not [form for form in _forms(LOOKS_REAL) if form in said.lower()], said
    assert "user" not in said


@pytest.mark.parametrize("provider", all_providers(), ids=lambda provider: provider.name)
def test_what_was_sent_in_confidence_is_never_shown(provider: Provider) -> None:
    assert play(provider, _poller, seed="echo") > 500


@dataclass
class _Echo:
    """Changes every answer to one verb."""

    aimed: CloudVerb | None = None
    status: int = 200
    words: str = ""

    def of(self, verb: CloudVerb) -> Callable[[Reply], Reply]:
        return lambda reply: self._changed(reply) if verb is self.aimed else reply

    def _changed(self, reply: Reply) -> Reply:
        body = _spoken(decoded(reply), self.words) if self.status == 200 else _errors(self.words)
        headers = (("Content-Type", self.words[:80]), ("Retry-After", self.words[:80]))
        return replace(reply, status=self.status, content=msgspec.json.encode(body), headers=headers)


async def _poller(stage: Stage) -> int:
    echo, asked = _Echo(), 0
    for verb in CloudVerb:
        stage.rewrite(verb, echo.of(verb))
        stage.retell(verb, echo.of(verb))
    made = await stage.running()
    first, order = stage.machine(), await stage.order(stage.token(2))
    secrets = stage.provider.secret_parts(stage.key) if stage.provider.keyed else (JOIN_SECRET,)
    hidden = set[str]().union(*(_forms(each) for each in (*secrets, JOIN_SECRET, LOOKS_REAL) if len(each) >= HALF))
    spoken = [words for secret in secrets[:3] for words in _echoes(secret)]
    ordered = [f"cannot parse token: {JOIN_SECRET}", f"cannot parse {b64encode(USER_DATA).decode()[8:]}"]
    for question in questions(stage, order, made):
        told = [*spoken, *(ordered if question.verb is CloudVerb.LAUNCH and order.user_data else ())]
        for status in STATUSES:
            for words in _echoes(LOOKS_REAL) if status == 200 else told:
                as_it_was(stage, first)
                echo.aimed, echo.status, echo.words = question.verb, status, words
                said = await _said(question.ask)
                echo.aimed = None
                found = [form for form in hidden if form in said.lower()]
                assert not found, f"{question.verb} {status} {words!r}: {said}"
                asked += 1
    return asked


async def _said(ask: Callable[[], Any]) -> str:
    """All that people may read of an answer: what came, or the error and its causes."""
    try:
        return repr(_without_names(await ask()))
    except CloudError as error:
        told, cause = "", error
        while cause is not None:
            told += f" | {cause!r} {cause}"
            cause = cause.__cause__
        return told


def _without_names(value: Any) -> Any:
    """The name and tags of a machine are compared, never shown."""
    match value:
        case Instance():
            return replace(value, token="", tags={})
        case tuple():
            return [_without_names(each) for each in value]
        case _:
            return value
