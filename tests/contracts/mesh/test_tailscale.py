"""What is Tailscale's alone."""

from dataclasses import replace

import msgspec
import pytest

from tests.contracts.mesh.stage import KINDS, TAG, Stage, play
from tgp.ports.http import Reply
from tgp.ports.mesh import MeshBusy, MeshRefused
from tgp.sim.mesh.mesh_faults import MeshVerb

TAILSCALE = KINDS[0]


def test_a_device_of_another_tailnet_is_not_called_removed() -> None:
    """The credentials were exchanged: our device lives on where they do not reach."""

    async def script(stage: Stage) -> None:
        elsewhere = stage.tailnet.add("tgp-train-3f2a91bc", (TAG,), foreign=True)
        error = await stage.raises(MeshRefused, stage.mesh.remove(stage.trace(device_id=elsewhere.id)))

        assert "another tailnet" in str(error)
        assert elsewhere.id in str(error)

    play(TAILSCALE, script)


def test_devices_that_others_share_are_not_looked_at() -> None:
    async def script(stage: Stage) -> None:
        trace = stage.trace("train")
        shared = stage.tailnet.add("train", (TAG,), foreign=True)

        assert await stage.mesh.find(replace(trace, addresses=shared.addresses)) is None

    play(TAILSCALE, script)


def test_a_device_that_is_not_listed_is_deleted_by_its_id_all_the_same() -> None:
    async def script(stage: Stage) -> None:
        await stage.mesh.remove(stage.trace(device_id="nGoneCNTRL"))

        deleted = [call.path for verb, call in stage.calls if verb is MeshVerb.DELETE]
        assert deleted == ["/api/v2/device/nGoneCNTRL"]

    play(TAILSCALE, script)


def test_the_order_of_a_key_is_as_tailscale_documents_it() -> None:
    async def script(stage: Stage) -> None:
        await stage.mesh.enroll(stage.join_request("train.of.the-team"))
        (order,) = [call for verb, call in stage.calls if verb is MeshVerb.MINT]

        assert (order.method, order.path) == ("POST", "/api/v2/tailnet/-/keys")
        assert msgspec.json.decode(order.body) == {
            "capabilities": {
                "devices": {
                    "create": {"reusable": False, "ephemeral": True, "preauthorized": True, "tags": [TAG]},
                },
            },
            "expirySeconds": 1800,
            "description": "train-of-the-team",
        }

    play(TAILSCALE, script)


@pytest.mark.parametrize("scopes", [("all",), ("devices",), ("auth_keys", "devices:core", "dns:read")])
def test_broader_scopes_are_enough(scopes: tuple[str, ...]) -> None:
    async def script(stage: Stage) -> None:
        stage.client.scopes = scopes

        assert (await stage.mesh.check()).usable

    play(TAILSCALE, script)


def test_some_of_a_clients_tags_are_doubted_beforehand() -> None:
    """All together, or such as they own: two known complaints at Tailscale are about just that."""

    async def script(stage: Stage) -> None:
        stage.client.tags = (TAG, "tag:ci")
        stage.server.tag_owners["tag:ci"] = set()
        report = await stage.mesh.check()
        assert report.usable, "whether its tags own ours cannot be told without trying"
        assert "tagOwners" in report.notes[0]
        await stage.raises(MeshRefused, stage.mesh.enroll(stage.join_request()))

        both = stage.mesh_with(tags=(TAG, "tag:ci"))
        assert (await both.check()).notes == ()
        assert (await both.enroll(stage.join_request())).key_id

    play(TAILSCALE, script)


def test_where_scopes_are_not_told_the_looks_decide() -> None:
    async def script(stage: Stage) -> None:
        def silent(reply: Reply) -> Reply:
            body = msgspec.json.decode(reply.content) if reply.content else {}
            return replace(reply, content=msgspec.json.encode({k: v for k, v in body.items() if k != "scope"}))

        stage.retell = silent
        told = await stage.mesh.check()
        assert told.usable
        assert "only read access was tested" in told.notes[0]
        stage.client.scopes = ("auth_keys",)
        refused = await stage.mesh.check()
        assert not refused.usable
        assert "devices:core" in refused.problems[0]

    play(TAILSCALE, script)


@pytest.mark.parametrize(
    "answer",
    [
        {"access_token": "", "token_type": "Bearer", "expires_in": 3600},
        {"access_token": "a b", "token_type": "Bearer", "expires_in": 3600},
        {"access_token": "a\nb", "token_type": "Bearer", "expires_in": 3600},
        {"access_token": "t", "token_type": "mac", "expires_in": 3600},
        {"access_token": "t", "token_type": "Bearer"},
        {"access_token": "t", "token_type": "Bearer", "expires_in": 0},
        {"access_token": "t", "token_type": "Bearer", "expires_in": True},
        {"access_token": 7, "token_type": "Bearer", "expires_in": 3600},
        ["t"],
    ],
)
def test_a_token_that_makes_no_sense_is_not_used(answer: object) -> None:
    async def script(stage: Stage) -> None:
        stage.instead.append((MeshVerb.TOKEN, Reply(200, msgspec.json.encode(answer))))
        await stage.raises(MeshBusy, stage.mesh.enroll(stage.join_request()))

        assert stage.count(MeshVerb.MINT) == 0

    play(TAILSCALE, script)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_the_page_of_a_proxy_refuses_nothing(status: int) -> None:
    async def script(stage: Stage) -> None:
        page = Reply(status, b"<html><body>Access denied</body></html>", (("Content-Type", "text/html"),))
        device, trace = await stage.joined()
        for verb in (MeshVerb.MINT, MeshVerb.LIST, MeshVerb.DELETE, MeshVerb.REVOKE):
            stage.instead = [(verb, page), (verb, page)]  # twice: a 401 exchanges the token
            asked = stage.mesh.enroll(stage.join_request()) if verb is MeshVerb.MINT else stage.mesh.remove(trace)
            await stage.raises(MeshBusy, asked)  # type: ignore[arg-type]
            if verb is MeshVerb.LIST:
                assert device.id in stage.tailnet.seats

    play(TAILSCALE, script)
