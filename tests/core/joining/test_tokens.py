"""Bootstrap tokens: one per machine, found again by its launch token alone, and deleted when unused."""

from base64 import b64encode
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from tests.core.controllers.account_access import a_token
from tests.core.joining.csr_world import FOR, TOKEN, Court
from tests.core.joining.requests import NODE
from tgp.api.resource import SECRET
from tgp.api.values import rfc3339
from tgp.controllers.joining.tokens import CHOICES, ids_of
from tgp.core.model.secret import Secret
from tgp.ports.boot import BootRefused
from tgp.ports.cluster import Conflict, WriteUnknown
from tgp.sim.loop import VirtualLoop

Scene = Callable[[Court], Awaitable[None]]
FIRST, SECOND, THIRD = ids_of(TOKEN)


def played(scene: Scene) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(scene(Court(loop)))
    finally:
        loop.close()


def scene(play: Scene) -> Callable[[], None]:
    def test() -> None:
        played(play)

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


def strangers(court: Court, *token_ids: str) -> None:
    for token_id in token_ids:
        metadata = {"namespace": "kube-system", "name": f"bootstrap-token-{token_id}"}
        court.server.local_api.create(
            SECRET,
            {"metadata": metadata, "type": "bootstrap.kubernetes.io/token", "data": {"token-id": _coded(token_id)}},
        )


def _coded(text: str) -> str:
    return b64encode(text.encode()).decode()


@scene
async def test_a_token_is_what_the_api_server_expects_of_one(court):
    token = await court.minted()

    token_id, _, secret = token.partition(".")
    assert token_id == FIRST
    assert len(secret) == 16
    assert set(secret) <= set("0123456789abcdefghijklmnopqrstuvwxyz")
    assert court.data(token_id) == {
        "token-id": token_id,
        "token-secret": secret,
        "expiration": rfc3339(court.now + FOR),
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:tgp",
        "description": f"for Node {NODE}, made by tgp",
    }
    stored = court.secret(token_id)
    assert stored["type"] == "bootstrap.kubernetes.io/token"
    assert stored["metadata"]["annotations"] == {"tgp.io/node": NODE, "tgp.io/token": TOKEN}
    assert court.learnt == [Secret(token)], "the redactor knows it before it can be printed"


@scene
async def test_its_bearer_may_ask_for_certificates_and_for_nothing_else(court):
    """Under the shipped role: who reads user data gets this, and no more."""
    bearer = await court.minted()
    user = court.server.authentication.user_of(bearer)

    assert user.name == f"system:bootstrap:{FIRST}"
    assert set(user.groups) == {"system:bootstrappers", "system:bootstrappers:tgp", "system:authenticated"}
    assert (await court.asks(bearer)).status == 201


@scene
async def test_asked_again_it_is_the_same_token(court):
    """A crash after the write, or an order that is made up twice, leaves one Secret and no unknown one."""
    first = await court.minted()
    court.new_judge()

    assert await court.minted() == first


@scene
async def test_a_lost_answer_is_found_again_by_name(court):
    court.line.breaks = lambda call: "after" if call.method == "POST" else ""
    with pytest.raises(WriteUnknown):
        await court.minted()
    court.line.breaks = lambda _call: ""

    token = await court.minted()
    assert court.data(FIRST)["token-secret"] == token.partition(".")[2]


@scene
async def test_asked_again_for_later_it_lasts_longer(court):
    await court.minted()
    await court.minted(lasts=2 * FOR)

    assert court.data(FIRST)["expiration"] == rfc3339(court.now + 2 * FOR)


@scene
async def test_a_foreign_secret_is_left_alone(court):
    strangers(court, FIRST)
    before = court.secret(FIRST)

    token = await court.minted()

    assert token.startswith(f"{SECOND}.")
    assert await court.minted() == token
    await court.tokens.remove(TOKEN)
    assert court.secret(FIRST) == before
    assert court.secret(SECOND) is None


@scene
async def test_where_strangers_stand_everywhere_nothing_is_bought(court):
    strangers(court, FIRST, SECOND, THIRD)

    with pytest.raises(BootRefused, match="use every bootstrap token id"):
        await court.minted()


@scene
async def test_a_token_of_another_launch_is_foreign_too(court):
    """Two launch tokens of one id: as good as impossible, and still no machine gets the other's."""
    await court.minted()
    court.server.local_api.merge_patch(
        SECRET,
        "kube-system",
        f"bootstrap-token-{FIRST}",
        {"metadata": {"annotations": {"tgp.io/token": a_token(2)}}},
    )

    assert (await court.minted()).startswith(f"{SECOND}.")


@scene
async def test_an_expired_one_is_made_anew(court):
    """The cluster's own cleaner may be about to remove it."""
    first = await court.minted(lasts=timedelta(seconds=-1))

    second = await court.minted()

    assert first.partition(".")[0] == second.partition(".")[0]
    assert first != second


@scene
async def test_one_that_was_used_is_not_given_out_again(court):
    await court.minted()
    await court.tokens.use(await court.tokens.look(FIRST), "uid-1", "node-csr-1")

    with pytest.raises(BootRefused, match="has joined"):
        await court.minted()


@scene
async def test_it_is_extended_and_never_shortened(court):
    await court.minted()

    assert await court.tokens.extend(TOKEN, court.now + 2 * FOR)
    assert await court.tokens.extend(TOKEN, court.now + FOR)
    assert court.data(FIRST)["expiration"] == rfc3339(court.now + 2 * FOR)
    assert not await court.tokens.extend(a_token(2), court.now + FOR)


@scene
async def test_extending_by_nothing_writes_nothing(court):
    await court.minted()
    before = len(court.line.changes)

    await court.tokens.extend(TOKEN, court.now + FOR)

    assert len(court.line.changes) == before


@scene
async def test_removed_it_opens_nothing_and_may_be_removed_again(court):
    token = await court.minted()

    await court.tokens.remove(TOKEN)
    await court.tokens.remove(TOKEN)

    assert court.secret(FIRST) is None
    assert (await court.asks(token)).status == 401
    await court.tokens.remove(a_token(7))


@scene
async def test_expired_it_opens_nothing(court):
    token = await court.minted(lasts=timedelta(seconds=-1))

    assert (await court.asks(token)).status == 401


@scene
async def test_its_owner_is_known_by_its_id(court):
    await court.minted()
    strangers(court, SECOND)

    assert await court.tokens.owner_of(FIRST) == NODE
    assert await court.tokens.owner_of(SECOND) is None
    assert await court.tokens.owner_of(THIRD) is None


@scene
async def test_it_can_be_used_for_one_request_only(court):
    await court.minted()
    found = await court.tokens.look(FIRST)

    await court.tokens.use(found, "uid-1", "node-csr-1")
    with pytest.raises(Conflict):
        await court.tokens.use(found, "uid-2", "node-csr-2")

    assert (await court.tokens.look(FIRST)).bearer.used_by == "uid-1"


@scene
async def test_secrets_are_asked_for_by_name_and_in_one_namespace(court):
    await court.minted()
    await court.tokens.extend(TOKEN, court.now + 2 * FOR)
    await court.tokens.remove(TOKEN)

    paths = {path for _, path in court.line.changes}
    place = "/api/v1/namespaces/kube-system/secrets"
    assert paths == {place, f"{place}/bootstrap-token-{FIRST}"}


def test_ids_differ_and_say_nothing_of_one_another():
    every = [token_id for number in range(500) for token_id in ids_of(a_token(number))]

    assert len(set(every)) == len(every) == 500 * CHOICES
    assert all(len(token_id) == 6 and token_id.isascii() and token_id.isalnum() for token_id in every)
    assert ids_of(TOKEN) == ids_of(TOKEN)


def test_a_token_does_not_show_itself():
    async def play(court: Court) -> None:
        token = await court.minted()
        found = await court.tokens.look(FIRST)
        assert token.partition(".")[2] not in repr(found)

    played(play)
