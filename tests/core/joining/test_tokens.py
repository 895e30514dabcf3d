"""Bootstrap tokens: one per machine, found again by its launch token alone, and deleted when unused."""

from base64 import b64encode
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from tests.core.controllers.account_access import a_token
from tests.core.joining.csr_world import FOR, TOKEN, CsrEnv
from tests.core.joining.requests import NODE
from tgp.api.resource import SECRET
from tgp.api.values import rfc3339
from tgp.controllers.joining.tokens import CHOICES, ids_of
from tgp.core.model.secret import Secret
from tgp.ports.boot import BootRefused
from tgp.ports.cluster import Conflict, WriteUnknown
from tgp.sim.loop import VirtualLoop

AccountSetup = Callable[[CsrEnv], Awaitable[None]]
FIRST, SECOND, THIRD = ids_of(TOKEN)


def played(setup: AccountSetup) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(setup(CsrEnv(loop)))
    finally:
        loop.close()


def setup(play: AccountSetup) -> Callable[[], None]:
    def test() -> None:
        played(play)

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


def strangers(env: CsrEnv, *token_ids: str) -> None:
    for token_id in token_ids:
        metadata = {"namespace": "kube-system", "name": f"bootstrap-token-{token_id}"}
        env.server.local_api.create(
            SECRET,
            {"metadata": metadata, "type": "bootstrap.kubernetes.io/token", "data": {"token-id": _coded(token_id)}},
        )


def _coded(text: str) -> str:
    return b64encode(text.encode()).decode()


@setup
async def test_a_token_is_what_the_api_server_expects_of_one(env):
    token = await env.minted()

    token_id, _, secret = token.partition(".")
    assert token_id == FIRST
    assert len(secret) == 16
    assert set(secret) <= set("0123456789abcdefghijklmnopqrstuvwxyz")
    assert env.data(token_id) == {
        "token-id": token_id,
        "token-secret": secret,
        "expiration": rfc3339(env.now + FOR),
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:tgp",
        "description": f"for Node {NODE}, made by tgp",
    }
    stored = env.secret(token_id)
    assert stored["type"] == "bootstrap.kubernetes.io/token"
    assert stored["metadata"]["annotations"] == {"tgp.io/node": NODE, "tgp.io/token": TOKEN}
    assert env.learnt == [Secret(token)], "the redactor knows it before it can be printed"


@setup
async def test_its_bearer_may_ask_for_certificates_and_for_nothing_else(env):
    """Under the shipped role: who reads user data gets this, and no more."""
    bearer = await env.minted()
    user = env.server.authentication.user_of(bearer)

    assert user.name == f"system:bootstrap:{FIRST}"
    assert set(user.groups) == {"system:bootstrappers", "system:bootstrappers:tgp", "system:authenticated"}
    assert (await env.asks(bearer)).status == 201


@setup
async def test_asked_again_it_is_the_same_token(env):
    """A crash after the write, or an order that is made up twice, leaves one Secret and no unknown one."""
    first = await env.minted()
    env.new_judge()

    assert await env.minted() == first


@setup
async def test_a_lost_answer_is_found_again_by_name(env):
    env.line.breaks = lambda call: "after" if call.method == "POST" else ""
    with pytest.raises(WriteUnknown):
        await env.minted()
    env.line.breaks = lambda _call: ""

    token = await env.minted()
    assert env.data(FIRST)["token-secret"] == token.partition(".")[2]


@setup
async def test_asked_again_for_later_it_lasts_longer(env):
    await env.minted()
    await env.minted(lasts=2 * FOR)

    assert env.data(FIRST)["expiration"] == rfc3339(env.now + 2 * FOR)


@setup
async def test_a_foreign_secret_is_left_alone(env):
    strangers(env, FIRST)
    before = env.secret(FIRST)

    token = await env.minted()

    assert token.startswith(f"{SECOND}.")
    assert await env.minted() == token
    await env.tokens.remove(TOKEN)
    assert env.secret(FIRST) == before
    assert env.secret(SECOND) is None


@setup
async def test_where_strangers_stand_everywhere_nothing_is_bought(env):
    strangers(env, FIRST, SECOND, THIRD)

    with pytest.raises(BootRefused, match="use every bootstrap token id"):
        await env.minted()


@setup
async def test_a_token_of_another_launch_is_foreign_too(env):
    """Two launch tokens of one id: as good as impossible, and still no machine gets the other's."""
    await env.minted()
    env.server.local_api.merge_patch(
        SECRET,
        "kube-system",
        f"bootstrap-token-{FIRST}",
        {"metadata": {"annotations": {"tgp.io/token": a_token(2)}}},
    )

    assert (await env.minted()).startswith(f"{SECOND}.")


@setup
async def test_an_expired_one_is_made_again(env):
    """The cluster's own cleaner may be about to remove it."""
    first = await env.minted(lasts=timedelta(seconds=-1))

    second = await env.minted()

    assert first.partition(".")[0] == second.partition(".")[0]
    assert first != second


@setup
async def test_one_that_was_used_is_not_given_out_again(env):
    await env.minted()
    await env.tokens.use(await env.tokens.look(FIRST), "uid-1", "node-csr-1")

    with pytest.raises(BootRefused, match="has joined"):
        await env.minted()


@setup
async def test_it_is_extended_and_never_shortened(env):
    await env.minted()

    assert await env.tokens.extend(TOKEN, env.now + 2 * FOR)
    assert await env.tokens.extend(TOKEN, env.now + FOR)
    assert env.data(FIRST)["expiration"] == rfc3339(env.now + 2 * FOR)
    assert not await env.tokens.extend(a_token(2), env.now + FOR)


@setup
async def test_extending_by_nothing_writes_nothing(env):
    await env.minted()
    before = len(env.line.changes)

    await env.tokens.extend(TOKEN, env.now + FOR)

    assert len(env.line.changes) == before


@setup
async def test_removed_it_opens_nothing_and_may_be_removed_again(env):
    token = await env.minted()

    await env.tokens.remove(TOKEN)
    await env.tokens.remove(TOKEN)

    assert env.secret(FIRST) is None
    assert (await env.asks(token)).status == 401
    await env.tokens.remove(a_token(7))


@setup
async def test_what_this_process_made_is_removed_without_a_read(env):
    await env.minted()
    calls: list[str] = []
    env.line.breaks = lambda call: calls.append(call.method) or ""

    await env.tokens.remove(TOKEN)

    assert env.secret(FIRST) is None
    assert calls == ["DELETE"]


@pytest.mark.parametrize("lost", ["before", "after"])
def test_after_a_lost_answer_every_id_is_looked_at(lost):
    """The first create may have taken effect under another id than the second."""

    async def play(env: CsrEnv) -> None:
        strangers(env, FIRST)
        env.line.breaks = lambda call: lost if call.method == "POST" and SECOND in call.body.decode() else ""
        with pytest.raises(WriteUnknown):
            await env.minted()
        env.line.breaks = lambda _call: ""
        env.server.local_api.delete(SECRET, "kube-system", f"bootstrap-token-{FIRST}")
        await env.minted()
        assert env.secret(FIRST) is not None

        await env.tokens.remove(TOKEN)
        assert [each for each in (FIRST, SECOND, THIRD) if env.secret(each) is not None] == []

    played(play)


@setup
async def test_expired_it_opens_nothing(env):
    token = await env.minted(lasts=timedelta(seconds=-1))

    assert (await env.asks(token)).status == 401


@setup
async def test_its_owner_is_known_by_its_id(env):
    await env.minted()
    strangers(env, SECOND)

    assert await env.tokens.owner_of(FIRST) == NODE
    assert await env.tokens.owner_of(SECOND) is None
    assert await env.tokens.owner_of(THIRD) is None


@setup
async def test_it_can_be_used_for_one_request_only(env):
    await env.minted()
    found = await env.tokens.look(FIRST)

    await env.tokens.use(found, "uid-1", "node-csr-1")
    with pytest.raises(Conflict):
        await env.tokens.use(found, "uid-2", "node-csr-2")

    assert (await env.tokens.look(FIRST)).bearer.used_by == "uid-1"


@setup
async def test_secrets_are_asked_for_by_name_and_in_one_namespace(env):
    await env.minted()
    await env.tokens.extend(TOKEN, env.now + 2 * FOR)
    await env.tokens.remove(TOKEN)

    paths = {path for _, path in env.line.changes}
    place = "/api/v1/namespaces/kube-system/secrets"
    assert paths == {place, f"{place}/bootstrap-token-{FIRST}"}


def test_ids_differ_and_say_nothing_of_one_another():
    every = [token_id for number in range(500) for token_id in ids_of(a_token(number))]

    assert len(set(every)) == len(every) == 500 * CHOICES
    assert all(len(token_id) == 6 and token_id.isascii() and token_id.isalnum() for token_id in every)
    assert ids_of(TOKEN) == ids_of(TOKEN)


def test_a_token_does_not_show_itself():
    async def play(env: CsrEnv) -> None:
        token = await env.minted()
        found = await env.tokens.look(FIRST)
        assert token.partition(".")[2] not in repr(found)

    played(play)
