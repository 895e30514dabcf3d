"""What is Headscale's alone: two APIs, and keys that take the nature of a node with them."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from tests.contracts.mesh.stage import API_KEY, CLIENT_ID, CLIENT_SECRET, KINDS, TAG, Kind, Stage, play
from tgp.adapters.mesh.headscale import HeadscaleMesh
from tgp.core.model.mesh import Backend, MeshSettings
from tgp.core.model.secret import Secret
from tgp.ports.http import Reply
from tgp.ports.mesh import MeshBusy, MeshRefused
from tgp.sim.mesh.headscale import HeadscaleSimulator
from tgp.sim.mesh.mesh_faults import MeshFault, MeshVerb

OLD, NEW = KINDS[1], KINDS[2]


def test_the_api_is_found_out_once() -> None:
    for kind, base in ((OLD, "/api/v1/"), (NEW, "/api/v2/")):

        async def script(stage: Stage, base: str = base) -> None:
            _, trace = await stage.joined()
            await asyncio.gather(*(stage.mesh.find(trace) for _ in range(5)))
            await stage.mesh.remove(trace)
            paths = [call.path for _, call in stage.calls]

            assert paths.count("/api/v2/tailnet/-/keys") == (1 if base == "/api/v1/" else 2)  # the new one mints there
            assert all(path.startswith(base) for path in paths[1:])

        play(kind, script)


@pytest.mark.parametrize(
    "answer",
    [
        Reply(502, b"<html>Bad Gateway</html>"),
        Reply(404, b"<html>Not Found</html>"),
        Reply(200, b"<html>Just a moment</html>"),
        Reply(200, b"{}"),
        Reply(404, b'{"message": "tailnet not found"}'),
        Reply(429, b"slow down"),
        Reply(302, b""),
    ],
)
def test_what_stands_before_it_is_not_taken_for_an_api(answer: Reply) -> None:
    """A wrong choice would be remembered."""

    async def script(stage: Stage) -> None:
        verb = MeshVerb.OTHER if stage.kind is OLD else MeshVerb.KEYS
        stage.instead.append((verb, answer))
        await stage.raises(MeshBusy, stage.mesh.enroll(stage.join_request()))

        assert (await stage.mesh.enroll(stage.join_request())).key_id

    for kind in (OLD, NEW):
        play(kind, script)


def test_the_order_of_a_key_is_as_headscale_documents_it() -> None:
    async def script(stage: Stage) -> None:
        await stage.mesh.enroll(stage.join_request())
        (order,) = [call for verb, call in stage.calls if verb is MeshVerb.MINT]

        assert (order.method, order.path) == ("POST", "/api/v1/preauthkey")
        assert msgspec.json.decode(order.body) == {
            "reusable": False,
            "ephemeral": True,
            "expiration": "2026-01-05T09:30:00Z",
            "aclTags": [TAG],
        }

    play(OLD, script)


def test_a_key_is_expired_first_and_deleted_last() -> None:
    """A node whose key was deleted is not ephemeral any more: it would stay for ever."""

    async def script(stage: Stage) -> None:
        device, trace = await stage.joined()
        stage.aim(MeshFault.ERROR, MeshVerb.DELETE)
        await stage.raises(MeshBusy, stage.mesh.remove(trace))
        assert stage.tailnet.seats[device.id].ephemeral
        assert not stage.tailnet.is_valid(stage.tailnet.keys[trace.key_id])
        await stage.mesh.remove(trace)

        assert stage.tailnet.seats == {}
        assert stage.tailnet.keys == {}

    play(OLD, script)


@pytest.mark.parametrize("kind", [OLD, NEW], ids=lambda kind: kind.name)
def test_an_id_that_every_headscale_has_is_only_deleted_where_it_is_listed_as_ours(kind: Kind) -> None:
    """The server was set up again: number 1 is another device now."""

    async def script(stage: Stage) -> None:
        theirs = stage.tailnet.add("laptop")
        await asyncio.sleep(60)
        await stage.mesh.remove(stage.trace(device_id=theirs.id))
        await stage.mesh.remove(stage.trace(device_id="77"))

        assert list(stage.tailnet.seats) == [theirs.id]
        assert stage.count(MeshVerb.DELETE) == 0

    play(kind, script)


def test_a_node_that_could_not_be_found_with_an_error_500_is_gone() -> None:
    async def script(stage: Stage) -> None:
        _, trace = await stage.joined()
        gone = Reply(500, b'{"code":2,"message":"deleting node: record not found","details":[]}')
        stage.instead.append((MeshVerb.DELETE, gone))

        await stage.mesh.remove(trace)

    play(OLD, script)


V1_OF_30 = KINDS[4]


def test_a_problem_document_is_read_as_its_older_errors_are() -> None:
    """From 0.30 on: RFC 7807, and an unknown key is an error where it was a success."""

    async def script(stage: Stage) -> None:
        _, trace = await stage.joined()
        stage.aim(MeshFault.ERROR, MeshVerb.LIST)
        await stage.raises(MeshBusy, stage.mesh.find(trace))
        await stage.mesh.remove(trace)
        assert trace.key_id not in stage.tailnet.keys
        await stage.mesh.remove(trace)  # the key is not known any more

        answers = [await stage.server.handle(call) for verb, call in stage.calls if verb is MeshVerb.REVOKE]
        assert {answer.status for answer in answers} == {404}
        assert {answer.header("Content-Type") for answer in answers} == {"application/problem+json"}

    play(V1_OF_30, script)


@pytest.mark.parametrize("kind", [OLD, NEW, V1_OF_30], ids=lambda kind: kind.name)
def test_a_refusal_is_told_in_either_shape(kind: Kind) -> None:
    """Whether a release tells its errors as gRPC does, as Tailscale does, or by RFC 7807."""

    async def script(stage: Stage) -> None:
        for body in (
            {"code": 3, "message": "tag must start with the string 'tag:'", "details": []},
            {"message": "tag must start with the string 'tag:'", "status": 400},
            {"title": "Bad Request", "status": 400, "detail": "tag must start with the string 'tag:'"},
        ):
            stage.instead.append((MeshVerb.MINT, Reply(400, msgspec.json.encode(body))))
            refused = await stage.raises(MeshRefused, stage.mesh.enroll(stage.join_request()))

            assert "must start with" in str(refused)

    play(kind, script)


@pytest.mark.parametrize("kind", [OLD, NEW, V1_OF_30], ids=lambda kind: kind.name)
def test_an_unknown_key_is_gone_in_either_shape(kind: Kind) -> None:
    async def script(stage: Stage) -> None:
        for status, body in (
            (404, {"code": 5, "message": "record not found", "details": []}),
            (404, {"title": "Not Found", "status": 404, "detail": "expiring pre-auth key"}),
            (404, {"message": "revoking auth key", "status": 404}),
        ):
            _, trace = await stage.joined()
            stage.instead.append((MeshVerb.REVOKE, Reply(status, msgspec.json.encode(body))))
            await stage.mesh.remove(trace)

            assert stage.tailnet.seats == {}

    play(kind, script)


def test_an_old_headscale_is_told_to_be_too_old() -> None:
    async def script(stage: Stage) -> None:
        assert isinstance(stage.server, HeadscaleSimulator)
        stage.server.minor = 26
        report = await stage.mesh.check()

        assert not report.usable
        assert "0.26 is too old" in report.problems[0]

    play(OLD, script)


def test_a_headscale_that_was_built_by_hand_is_not_judged_by_its_version() -> None:
    async def script(stage: Stage) -> None:
        def by_hand(reply: Reply) -> Reply:
            return replace(reply, content=reply.content.replace(b'"v0.29.3"', b'"dev"'))

        stage.retell = by_hand

        assert (await stage.mesh.check()).usable

    play(OLD, script)


def test_a_login_server_without_tls_is_remarked_upon() -> None:
    async def script(stage: Stage) -> None:
        assert any("without TLS" in note for note in (await stage.mesh.check()).notes)

    play(OLD, script)


@pytest.mark.parametrize("address", ["", "headscale.example.com", "ftp://headscale.example.com"])
def test_a_headscale_needs_its_address(address: str) -> None:
    async def script(stage: Stage) -> None:
        settings = MeshSettings(Backend.HEADSCALE, login_server=address, tags=(TAG,), api_key=API_KEY)
        with pytest.raises(MeshRefused, match="loginServer"):
            HeadscaleMesh(settings, {API_KEY: Secret("k")}, stage.dial, stage.clock)

    play(OLD, script)


def test_an_oauth_client_at_an_old_headscale_is_refused_in_words() -> None:
    async def script(stage: Stage) -> None:
        settings = replace(stage.kind.settings(), api_key=None, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
        secrets = {CLIENT_ID: Secret("k1"), CLIENT_SECRET: Secret("hskey-client-k1-abcdef")}
        mesh = HeadscaleMesh(settings, secrets, stage.dial, stage.clock)
        report = await mesh.check()

        assert not report.usable
        assert "0.30" in report.problems[0]

    play(OLD, script)
