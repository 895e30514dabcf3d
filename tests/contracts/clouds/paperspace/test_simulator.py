"""The pretend Paperspace refuses what v1 refuses; and walks of the adapter that only this provider knows."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.paperspace.answers import PLACE
from tests.contracts.clouds.providers.paperspace import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.cloud_errors import CannotTell, CloudBusy
from tgp.core.model.instance import InstanceState
from tgp.ports.http import Call, Reply, json_call
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb

GOOD = {"name": "mine", "machineType": "A4000", "templateId": "t0nspur5", "region": PLACE, "diskSize": 100}


async def ask(stage: Stage, call: Call) -> Reply:
    return await stage.simulator.handle(replace(call, headers=(("Authorization", f"Bearer {stage.key}"),)))


BAD_BODIES = [
    ({**GOOD, "tags": {}}, 400, "tags: Unrecognized key"),
    ({**GOOD, "userData": "x"}, 400, "userData: Unrecognized key"),
    ({key: value for key, value in GOOD.items() if key != "region"}, 400, "region: Required"),
    ({**GOOD, "diskSize": "100"}, 400, "diskSize: Invalid input"),
    ({**GOOD, "diskSize": 77}, 400, "diskSize: Invalid disk size"),
    ({**GOOD, "publicIpType": "elastic"}, 400, "publicIpType: Invalid input"),
    ({**GOOD, "startOnCreate": 1}, 400, "startOnCreate: Invalid input"),
    ({**GOOD, "machineType": "A9000"}, 400, "machineType: Invalid machine type"),
    ({**GOOD, "machineType": "H100", "region": "Europe (AMS1)"}, 400, "region: H100 is not sold there"),
    ({**GOOD, "machineType": "H100", "templateId": "tkni3aa4"}, 400, "templateId: The template does not support"),
    ({**GOOD, "templateId": "tnone"}, 404, ""),
    ({**GOOD, "startupScriptId": "sunone"}, 404, ""),
    ([], 400, "Expected object"),
]


@pytest.mark.parametrize(("body", "status", "issue"), BAD_BODIES, ids=[issue or "404" for _, _, issue in BAD_BODIES])
def test_a_body_the_api_refuses_makes_no_machine(body: Any, status: int, issue: str):
    async def script(stage: Stage) -> None:
        stage.stock_up()
        reply = await ask(stage, json_call("POST", "/v1/machines", body))

        told = msgspec.json.decode(reply.content)
        assert (reply.status, told["code"]) == (status, "BAD_REQUEST" if status == 400 else "NOT_FOUND")
        if issue:
            assert any(each["message"].startswith(issue) for each in told["issues"])
        assert stage.machines() == []

    play(PROVIDER, script)


@pytest.mark.parametrize("query", [(("limit", "121"),), (("limit", "0"),), (("limit", "x"),)])
def test_a_list_wants_its_query_right(query: Any):
    async def script(stage: Stage) -> None:
        assert (await ask(stage, Call("GET", "/v1/machines", query=query))).status == 400

    play(PROVIDER, script)


def test_the_adapter_asks_for_nothing_that_is_not_documented():
    """The simulator ignores unknown keys, as a server would; a slip of ours would go unseen."""
    documented = {
        "/v1/machines": {"after", "limit", "orderBy", "order", "name", "region", "machineType"},
        "/v1/machine-events": {"after", "limit", "orderBy", "order", "machineId"},
        "/v1/startup-scripts": {"after", "limit", "orderBy", "order", "name"},
        "/v1/os-templates": {"after", "limit", "orderBy", "order", "name"},
    }

    async def script(stage: Stage) -> None:
        made = await stage.running()
        await stage.cloud.find(stage.token())
        await ask(stage, Call("PATCH", f"/v1/machines/{made.id}/stop"))
        await stage.cloud.status(made.id)
        await stage.cloud.check()
        await stage.cloud.terminate(made.id)
        asked = {call.path: {key for key, _ in call.query} for _, call in stage.calls if call.query}

        assert set(asked) == set(documented)
        assert [path for path, keys in asked.items() if not keys <= documented[path]] == []

    play(PROVIDER, script)


def test_offers_say_of_which_date_their_prices_are():
    async def script(stage: Stage) -> None:
        listing = await stage.cloud.offers()

        assert {offer.priced_on for offer in listing.offers} == {"2026-09-20"}
        assert {offer.boot for offer in listing.offers} == {"takeover"}

    play(PROVIDER, script)


def test_a_class_brings_its_own_prices_and_template():
    def settings(url: str) -> ProviderSettings:
        return ProviderSettings(endpoint=url, prices={"A4000": "0.11", "Z9": "1"}, template_id="tkni3aa4")

    async def script(stage: Stage) -> None:
        listing = await stage.cloud.offers()
        prices = {offer.sku: offer.hourly_microusd for offer in listing.offers}
        assert prices["A4000"] == 110_000
        assert "H100" not in prices  # that template does not boot it
        assert listing.dropped["unknown machine type"] == 1
        await stage.cloud.launch(await stage.order())

        assert stage.machine().detail["templateId"] == "tkni3aa4"

    play(replace(PROVIDER, settings=settings), script)


def test_a_list_of_many_pages_is_read_to_its_end():
    async def script(stage: Stage) -> None:
        for stand in stage.fleet.selling():
            stand.stock = 1_000
        stage.fleet.add_foreign(stage.tenant, 250)
        await stage.launched()

        assert [each.token for each in await stage.cloud.owned(stage.prefix)] == [stage.token()]
        assert stage.count(CloudVerb.LIST) == 3

    play(PROVIDER, script)


def test_pages_without_end_are_unknown():
    async def script(stage: Stage) -> None:
        await stage.launched()
        page = {"items": [{"id": "ps1", "name": "x"}], "hasMore": True, "nextPage": "again"}
        stage.instead(CloudVerb.LIST, 200, msgspec.json.encode(page), times=3)

        await stage.raises(CannotTell, stage.cloud.owned(stage.prefix))

    play(PROVIDER, script)


def test_a_name_that_only_contains_the_token_is_not_found_by_it():
    """Whether the filter is exact is not known, so it is exact here."""

    async def script(stage: Stage) -> None:
        await stage.launched(stage.token(1, 11))

        assert await stage.cloud.find(stage.token(1, 1)) == ()
        assert len(await stage.cloud.find(stage.token(1, 11))) == 1

    play(PROVIDER, script)


def test_a_late_lack_of_capacity_is_read_from_the_events():
    """The machine is just off; a caller would wait for ever."""

    async def script(stage: Stage) -> None:
        order = await stage.order()
        stage.aim(CloudFault.SOLD_TWICE, CloudVerb.LAUNCH)
        made = await stage.cloud.launch(order)
        await asyncio.sleep(120)
        seen = await stage.cloud.status(made.id)

        assert seen is not None
        assert seen.state is InstanceState.BROKEN
        assert "out of capacity" in seen.said

    play(PROVIDER, script)


def test_a_machine_that_was_switched_off_is_stopped_and_not_broken():
    async def script(stage: Stage) -> None:
        made = await stage.running()
        await ask(stage, Call("PATCH", f"/v1/machines/{made.id}/stop"))
        seen = await stage.cloud.status(made.id)

        assert seen is not None
        assert (seen.state, seen.hourly_microusd) == (InstanceState.STOPPED, None)

    play(PROVIDER, script)


def test_events_that_cannot_be_read_hide_no_machine():
    async def script(stage: Stage) -> None:
        made = await stage.running()
        await ask(stage, Call("PATCH", f"/v1/machines/{made.id}/stop"))
        stage.instead(CloudVerb.OTHER, 500, b"{}")
        seen = await stage.cloud.status(made.id)

        assert seen is not None
        assert seen.state is InstanceState.STOPPED

    play(PROVIDER, script)


def test_a_machine_that_must_be_off_first_is_stopped_and_then_ended():
    async def script(stage: Stage) -> None:
        stage.simulator.deletes_only_off = True
        made = await stage.running()
        error = await stage.raises(CloudBusy, stage.cloud.terminate(made.id))
        assert error.retry_after is not None
        await stage.cloud.terminate(made.id)
        await stage.wait_for_endings()

        assert await stage.cloud.status(made.id) is None
        assert stage.machines() == []

    play(PROVIDER, script)


def test_the_account_is_the_team_and_another_team_is_another_account():
    async def script(stage: Stage) -> None:
        before = await stage.cloud.identity()
        stage.aim(CloudFault.OTHER_ACCOUNT, CloudVerb.LIST)
        await stage.cloud.owned(stage.prefix)

        assert (await stage.cloud.identity()).id != before.id

    play(PROVIDER, script)
