"""Who is let in: under the shipped roles, on the in-memory API server, with crashes and lost answers in between."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from tests.core.controllers.account_access import a_record, a_token, an_attempt
from tests.core.joining.csr_world import TOKEN, Court
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

Scene = Callable[[Court], Awaitable[None]]
FIRST = ids_of(TOKEN)[0]
ANOTHER = a_document((SUBJECT[0], (SUBJECT[1][0], "system:node:another")))


def scene(play: Scene) -> Callable[[], None]:
    def test() -> None:
        loop = VirtualLoop()
        try:
            loop.run_until_complete(play(Court(loop)))
        finally:
            loop.close()

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    return test


def used_by(court: Court) -> str:
    return court.secret(FIRST)["metadata"]["annotations"].get("tgp.io/used-by", "")


def writes(court: Court) -> list[str]:
    return [path.rpartition("/")[2] for _, path in court.line.changes]


@scene
async def test_a_machine_that_is_waited_for_is_let_in(court):
    court.waits()
    await court.asks(await court.minted())

    assert await court.turn() is None

    assert court.verdict() == "Approved"
    assert used_by(court) == f"{court.csr()['metadata']['uid']} node-csr-1"
    assert writes(court)[-2:] == [f"bootstrap-token-{FIRST}", "approval"], "on paper first"
    (fact,) = court.facts
    assert isinstance(fact, JoinApproved)
    assert (fact.node, fact.signing_request) == (NODE, "node-csr-1")
    assert fact.subject.resource == GPU_REQUEST


@scene
async def test_an_answered_request_is_not_answered_again(court):
    court.waits()
    await court.asks(await court.minted())
    await court.turn()
    before = len(court.line.changes)

    await court.turn()

    assert len(court.line.changes) == before
    assert len(court.facts) == 1


@scene
async def test_a_second_one_with_the_same_token_is_denied(court):
    """Itself twice, or a thief behind it: a token is good for one certificate."""
    court.waits()
    token = await court.minted()
    await court.asks(token)
    await court.turn()
    await court.asks(token, "node-csr-2")

    await court.turn("node-csr-2")

    assert court.verdict("node-csr-2") == "TokenUsed"


@scene
async def test_of_two_at_once_one_is_let_in(court):
    """Both were looked at before either was answered."""
    court.waits()
    token = await court.minted()
    await court.asks(token)
    await court.asks(token, "node-csr-2")
    found = await court.tokens.look(FIRST)
    await court.turn()
    with pytest.raises(Conflict):
        await court.tokens.use(found, "uid-of-the-second", "node-csr-2")
    await court.turn("node-csr-2")

    assert [court.verdict(name) for name in ("node-csr-1", "node-csr-2")] == ["Approved", "TokenUsed"]


@scene
async def test_a_crash_after_the_note_admits_no_other_request(court):
    court.waits()
    token = await court.minted()
    await court.asks(token)
    court.line.breaks = lambda call: "before" if call.path.endswith("/approval") else ""
    with pytest.raises(WriteUnknown):
        await court.turn()
    court.judge = court.new_judge()
    await court.asks(token, "node-csr-2")

    await court.turn("node-csr-2")
    await court.turn()

    assert [court.verdict(name) for name in ("node-csr-1", "node-csr-2")] == ["Approved", "TokenUsed"]


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("where", ["approval", f"bootstrap-token-{FIRST}"])
def test_a_line_that_breaks_at_any_write_ends_in_one_approval(how, where):
    @scene
    async def play(court):
        court.waits()
        await court.asks(await court.minted())
        cut = [True]
        court.line.breaks = lambda call: how if call.changes_things and call.path.endswith(where) and cut.pop() else ""
        with pytest.raises(ClusterError):
            await court.turn()
        court.line.breaks = lambda _call: ""
        court.show()
        await court.turn()

        assert court.verdict() == "Approved"

    play()


@scene
async def test_another_name_is_denied_and_does_not_use_the_token_up(court):
    court.waits()
    token = await court.minted()
    await court.asks(token, document=ANOTHER)
    await court.turn()
    await court.asks(token, "node-csr-2")
    await court.turn("node-csr-2")

    assert [court.verdict(name) for name in ("node-csr-1", "node-csr-2")] == ["WrongName", "Approved"]
    denied = court.facts[0]
    assert isinstance(denied, JoinDenied)
    assert denied.reason == "WrongName"
    assert denied.subject.resource == GPU_REQUEST
    (condition,) = court.csr()["status"]["conditions"]
    assert condition["message"] == denied.why


@scene
async def test_the_token_of_an_unexpected_machine_is_refused(court):
    await court.asks(await court.minted())

    again = await court.turn()
    assert court.verdict() == "", "our view may lag behind the machine"
    assert again is not None
    await _sleep(SEEN_WITHIN)
    await court.turn()

    assert court.verdict() == "NotExpected"


async def _sleep(length: timedelta) -> None:
    await asyncio.sleep(length.total_seconds())


@scene
async def test_a_reservation_that_comes_into_view_in_time_is_enough(court):
    await court.asks(await court.minted())
    await court.turn()
    court.waits()
    await court.turn()

    assert court.verdict() == "Approved"


@pytest.mark.parametrize("phase", ["Terminating", "Finished", "Failed"])
def test_a_machine_on_its_way_out_is_not_let_in(phase):
    @scene
    async def play(court):
        court.waits(phase=phase)
        await court.asks(await court.minted())
        await court.turn()

        assert court.verdict() == "NotExpected"

    play()


@scene
async def test_an_attempt_that_is_over_admits_no_machine(court):
    """The next attempt has a token of its own."""
    court.waits(attempt=2)
    await court.asks(await court.minted())
    await court.turn()

    assert court.verdict() == "NotExpected"


@scene
async def test_the_token_of_an_attempt_that_is_newer_than_our_view_is_waited_for(court):
    court.waits(attempt=1)
    token = a_token(1, 2)
    await court.asks(await court.minted(token))

    assert await court.turn() is not None
    assert court.verdict() == ""


@scene
async def test_a_restored_copy_admits_no_machine(court):
    court.requests.put(a_record(1, an_attempt(1), copy=True))
    await court.asks(await court.minted())
    await court.turn()
    await _sleep(SEEN_WITHIN)
    await court.turn()

    assert court.verdict() == "NotExpected"


@pytest.mark.parametrize("provider_id", ["", "aws:///zone/i-1", f"tgp://vultr/{a_token(2)}", f"tgp://vultr/{TOKEN}"])
def test_a_name_that_is_another_nodes_is_not_given_away(provider_id):
    """Else a tenant who may name requests, and a host that reads user data, would share a control plane's identity.

    Also not where our own patch has marked that Node meanwhile, or where no view shows it yet.
    """

    @scene
    async def play(court):
        court.waits()
        court.server.local_api.create(NODE_KIND, {"metadata": {"name": NODE}, "spec": {"providerID": provider_id}})
        await court.asks(await court.minted())
        await court.turn()

        assert court.verdict() == "NameTaken"

    play()


@scene
async def test_a_token_withdrawn_meanwhile_opens_nothing(court):
    court.waits()
    await court.asks(await court.minted())
    await court.tokens.remove(TOKEN)
    await court.turn()

    assert court.verdict() == "UnknownToken"
    (fact,) = court.facts
    assert fact.subject.resource == CERTIFICATE_SIGNING_REQUEST


@scene
async def test_a_token_that_expired_before_we_looked_opens_nothing(court):
    court.waits()
    await court.asks(await court.minted(lasts=timedelta(seconds=30)))
    await _sleep(timedelta(seconds=31))
    await court.turn()

    assert court.verdict() == "TokenExpired"


@scene
async def test_a_token_of_our_group_that_we_did_not_mint_opens_nothing(court):
    """Also one whose Secret claims a node, but no expected launch."""
    token = await court.minted()
    court.server.local_api.merge_patch(
        SECRET, "kube-system", f"bootstrap-token-{FIRST}", {"metadata": {"annotations": {"tgp.io/token": None}}}
    )
    court.waits()
    await court.asks(token)
    await court.turn()

    assert court.verdict() == "UnknownToken"


@scene
async def test_a_token_that_is_tried_over_and_over_is_withdrawn(court):
    """A flood from one machine must not keep the others waiting."""
    court.waits()
    token = await court.minted()
    for number in range(MOST_DENIED):
        assert (await court.asks(token, f"csr-{number}", document=ANOTHER)).status == 201
        await court.turn(f"csr-{number}")

    assert court.secret(FIRST) is None
    assert (await court.asks(token, "csr-once-more")).status == 401
    assert {fact.reason for fact in court.facts} == {"WrongName"}


@scene
async def test_others_are_never_touched(court):
    """Stock tokens, people, other signers: whatever they ask for."""
    court.waits()
    token = await court.minted()
    court.server.authentication.add_token("ann", ApiUser("ann", ("system:masters",)))
    await court.asks("ann", "of-ann")
    await court.asks(token, "serving", signerName="kubernetes.io/kubelet-serving")
    await court.asks(token, "client", signerName="kubernetes.io/kube-apiserver-client")
    before = len(court.line.changes)

    for name in ("of-ann", "serving", "client", "nobodys"):
        assert await court.judge.reconcile(ObjectKey("", name)) is None

    assert len(court.line.changes) == before
    assert court.facts == []


@scene
async def test_a_client_that_claims_our_group_is_denied(court):
    court.server.authentication.add_token("eve", ApiUser("eve", ("system:masters", "system:bootstrappers:tgp")))
    await court.asks("eve")
    await court.turn()

    assert court.verdict() == "NoToken"


@scene
async def test_an_approval_by_another_approver_is_reported_once(court):
    """A binding for every bootstrap token bypasses all of this: it must be reported."""
    court.waits()
    await court.asks(await court.minted(), document=ANOTHER)
    csr = court.csr()
    condition = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": "by a rule"}
    court.server.local_api.update(
        CERTIFICATE_SIGNING_REQUEST, {**csr, "status": {"conditions": [condition]}}, "approval"
    )
    court.show()

    await court.turn()
    await court.turn()

    (fact,) = court.facts
    assert isinstance(fact, JoinApprovedByOthers)
    assert fact.reason == "AutoApproved"


@scene
async def test_a_request_withdrawn_while_we_looked_is_no_failure(court):
    court.waits()
    await court.asks(await court.minted(), document=ANOTHER)
    court.server.local_api.delete(CERTIFICATE_SIGNING_REQUEST, "", "node-csr-1")

    assert await court.judge.reconcile(ObjectKey("", "node-csr-1")) is not None
    assert court.facts == []
