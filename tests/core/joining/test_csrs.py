"""Who is let in: under the shipped roles, on the in-memory API server, with crashes and lost answers in between."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from tests.core.controllers.account_access import a_record, a_token, an_attempt
from tests.core.joining.csr_world import TOKEN, CsrEnv
from tests.core.joining.requests import NODE, SUBJECT, a_document
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, GPU_REQUEST, SECRET
from tgp.api.resource import NODE as NODE_KIND
from tgp.controllers.joining.csrs import MOST_DENIED
from tgp.controllers.joining.tokens import ids_of
from tgp.core.joining.csr import SEEN_WITHIN
from tgp.core.model.facts import JoinApproved, JoinApprovedByOthers, JoinDenied
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import ClusterError, Conflict, WriteUnknown
from tgp.sim.apiserver.identity import ApiUser
from tgp.sim.loop import VirtualLoop

AccountSetup = Callable[[CsrEnv], Awaitable[None]]
FIRST = ids_of(TOKEN)[0]
ANOTHER = a_document((SUBJECT[0], (SUBJECT[1][0], "system:node:another")))


def setup(play: AccountSetup) -> Callable[[], None]:
    def test() -> None:
        loop = VirtualLoop()
        try:
            loop.run_until_complete(play(CsrEnv(loop)))
        finally:
            loop.close()

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


def used_by(env: CsrEnv) -> str:
    return env.secret(FIRST)["metadata"]["annotations"].get("tgp.io/used-by", "")


def writes(env: CsrEnv) -> list[str]:
    return [path.rpartition("/")[2] for _, path in env.line.changes]


@setup
async def test_a_machine_that_is_waited_for_is_let_in(env):
    env.waits()
    await env.asks(await env.minted())

    assert await env.turn() is None

    assert env.verdict() == "Approved"
    assert used_by(env) == f"{env.csr()['metadata']['uid']} node-csr-1"
    assert writes(env)[-2:] == [f"bootstrap-token-{FIRST}", "approval"], "on paper first"
    (fact,) = env.facts
    assert isinstance(fact, JoinApproved)
    assert (fact.node, fact.signing_request) == (NODE, "node-csr-1")
    assert fact.subject.resource == GPU_REQUEST


@setup
async def test_an_answered_request_is_not_answered_again(env):
    env.waits()
    await env.asks(await env.minted())
    await env.turn()
    before = len(env.line.changes)

    await env.turn()

    assert len(env.line.changes) == before
    assert len(env.facts) == 1


@setup
async def test_a_second_one_with_the_same_token_is_denied(env):
    """Itself twice, or a thief behind it: a token is good for one certificate."""
    env.waits()
    token = await env.minted()
    await env.asks(token)
    await env.turn()
    await env.asks(token, "node-csr-2")

    await env.turn("node-csr-2")

    assert env.verdict("node-csr-2") == "TokenUsed"


@setup
async def test_of_two_at_once_one_is_let_in(env):
    """Both were looked at before either was answered."""
    env.waits()
    token = await env.minted()
    await env.asks(token)
    await env.asks(token, "node-csr-2")
    found = await env.tokens.look(FIRST)
    await env.turn()
    with pytest.raises(Conflict):
        await env.tokens.use(found, "uid-of-the-second", "node-csr-2")
    await env.turn("node-csr-2")

    assert [env.verdict(name) for name in ("node-csr-1", "node-csr-2")] == ["Approved", "TokenUsed"]


@setup
async def test_a_crash_after_the_note_admits_no_other_request(env):
    env.waits()
    token = await env.minted()
    await env.asks(token)
    env.line.breaks = lambda call: "before" if call.path.endswith("/approval") else ""
    with pytest.raises(WriteUnknown):
        await env.turn()
    env.judge = env.new_judge()
    await env.asks(token, "node-csr-2")

    await env.turn("node-csr-2")
    await env.turn()

    assert [env.verdict(name) for name in ("node-csr-1", "node-csr-2")] == ["Approved", "TokenUsed"]


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("where", ["approval", f"bootstrap-token-{FIRST}"])
def test_a_line_that_breaks_at_any_write_ends_in_one_approval(how, where):
    @setup
    async def play(env):
        env.waits()
        await env.asks(await env.minted())
        cut = [True]
        env.line.breaks = lambda call: how if call.changes_things and call.path.endswith(where) and cut.pop() else ""
        with pytest.raises(ClusterError):
            await env.turn()
        env.line.breaks = lambda _call: ""
        env.show()
        await env.turn()

        assert env.verdict() == "Approved"

    play()


@setup
async def test_another_name_is_denied_and_does_not_use_the_token_up(env):
    env.waits()
    token = await env.minted()
    await env.asks(token, document=ANOTHER)
    await env.turn()
    await env.asks(token, "node-csr-2")
    await env.turn("node-csr-2")

    assert [env.verdict(name) for name in ("node-csr-1", "node-csr-2")] == ["WrongName", "Approved"]
    denied = env.facts[0]
    assert isinstance(denied, JoinDenied)
    assert denied.reason == "WrongName"
    assert denied.subject.resource == GPU_REQUEST
    (condition,) = env.csr()["status"]["conditions"]
    assert condition["message"] == denied.why


@setup
async def test_the_token_of_an_unexpected_machine_is_refused(env):
    await env.asks(await env.minted())

    again = await env.turn()
    assert env.verdict() == "", "our view may lag behind the machine"
    assert again is not None
    await _sleep(SEEN_WITHIN)
    await env.turn()

    assert env.verdict() == "NotExpected"


async def _sleep(length: timedelta) -> None:
    await asyncio.sleep(length.total_seconds())


@setup
async def test_a_reservation_that_comes_into_view_in_time_is_enough(env):
    await env.asks(await env.minted())
    await env.turn()
    env.waits()
    await env.turn()

    assert env.verdict() == "Approved"


@pytest.mark.parametrize("phase", ["Terminating", "Finished", "Failed"])
def test_a_machine_on_its_way_out_is_not_let_in(phase):
    @setup
    async def play(env):
        env.waits(phase=phase)
        await env.asks(await env.minted())
        await env.turn()

        assert env.verdict() == "NotExpected"

    play()


@setup
async def test_an_attempt_that_is_over_admits_no_machine(env):
    """The next attempt has a token of its own."""
    env.waits(attempt=2)
    await env.asks(await env.minted())
    await env.turn()

    assert env.verdict() == "NotExpected"


@setup
async def test_the_token_of_an_attempt_that_is_newer_than_our_view_is_waited_for(env):
    env.waits(attempt=1)
    token = a_token(1, 2)
    await env.asks(await env.minted(token))

    assert await env.turn() is not None
    assert env.verdict() == ""


@setup
async def test_a_restored_copy_admits_no_machine(env):
    env.requests.put(a_record(1, an_attempt(1), copy=True))
    await env.asks(await env.minted())
    await env.turn()
    await _sleep(SEEN_WITHIN)
    await env.turn()

    assert env.verdict() == "NotExpected"


@pytest.mark.parametrize("provider_id", ["", "aws:///zone/i-1", f"tgp://vultr/{a_token(2)}", f"tgp://vultr/{TOKEN}"])
def test_a_name_that_is_another_nodes_is_not_given_away(provider_id):
    """Else a tenant who may name requests, and a host that reads user data, would share a control plane's identity.

    Also not where our own patch has marked that Node meanwhile, or where no view shows it yet.
    """

    @setup
    async def play(env):
        env.waits()
        env.server.local_api.create(NODE_KIND, {"metadata": {"name": NODE}, "spec": {"providerID": provider_id}})
        await env.asks(await env.minted())
        await env.turn()

        assert env.verdict() == "NameTaken"

    play()


@setup
async def test_a_token_withdrawn_meanwhile_opens_nothing(env):
    env.waits()
    await env.asks(await env.minted())
    await env.tokens.remove(TOKEN)
    await env.turn()

    assert env.verdict() == "UnknownToken"
    (fact,) = env.facts
    assert fact.subject.resource == CERTIFICATE_SIGNING_REQUEST


@setup
async def test_a_token_that_expired_before_we_looked_opens_nothing(env):
    env.waits()
    await env.asks(await env.minted(lasts=timedelta(seconds=30)))
    await _sleep(timedelta(seconds=31))
    await env.turn()

    assert env.verdict() == "TokenExpired"


@setup
async def test_a_token_of_our_group_that_we_did_not_mint_opens_nothing(env):
    """Also one whose Secret claims a node, but no expected launch."""
    token = await env.minted()
    env.server.local_api.merge_patch(
        SECRET, "kube-system", f"bootstrap-token-{FIRST}", {"metadata": {"annotations": {"tgp.io/token": None}}}
    )
    env.waits()
    await env.asks(token)
    await env.turn()

    assert env.verdict() == "UnknownToken"


@setup
async def test_a_token_that_is_tried_over_and_over_is_withdrawn(env):
    """A flood from one machine must not keep the others waiting."""
    env.waits()
    token = await env.minted()
    for number in range(MOST_DENIED):
        assert (await env.asks(token, f"csr-{number}", document=ANOTHER)).status == 201
        await env.turn(f"csr-{number}")

    assert env.secret(FIRST) is None
    assert (await env.asks(token, "csr-once-more")).status == 401
    assert {fact.reason for fact in env.facts} == {"WrongName"}


@setup
async def test_others_are_never_touched(env):
    """Stock tokens, people, other signers: whatever they ask for."""
    env.waits()
    token = await env.minted()
    env.server.authentication.add_token("ann", ApiUser("ann", ("system:masters",)))
    await env.asks("ann", "of-ann")
    await env.asks(token, "serving", signerName="kubernetes.io/kubelet-serving")
    await env.asks(token, "client", signerName="kubernetes.io/kube-apiserver-client")
    before = len(env.line.changes)

    for name in ("of-ann", "serving", "client", "unknown"):
        assert await env.judge.reconcile(ObjectKey("", name)) is None

    assert len(env.line.changes) == before
    assert env.facts == []


@setup
async def test_a_client_that_claims_our_group_is_denied(env):
    env.server.authentication.add_token("eve", ApiUser("eve", ("system:masters", "system:bootstrappers:tgp")))
    await env.asks("eve")
    await env.turn()

    assert env.verdict() == "NoToken"


@setup
async def test_an_approval_by_another_approver_is_reported_once(env):
    """A binding for every bootstrap token bypasses all of this: it must be reported."""
    env.waits()
    await env.asks(await env.minted(), document=ANOTHER)
    csr = env.csr()
    condition = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": "by a rule"}
    env.server.local_api.update(CERTIFICATE_SIGNING_REQUEST, {**csr, "status": {"conditions": [condition]}}, "approval")
    env.show()

    await env.turn()
    await env.turn()

    (fact,) = env.facts
    assert isinstance(fact, JoinApprovedByOthers)
    assert fact.reason == "AutoApproved"


@setup
async def test_a_request_withdrawn_while_we_looked_is_no_failure(env):
    env.waits()
    await env.asks(await env.minted(), document=ANOTHER)
    env.server.local_api.delete(CERTIFICATE_SIGNING_REQUEST, "", "node-csr-1")

    assert await env.judge.reconcile(ObjectKey("", "node-csr-1")) is not None
    assert env.facts == []
