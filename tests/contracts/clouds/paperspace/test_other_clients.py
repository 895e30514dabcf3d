"""The simulator as other clients meet it: curl, the vendor's `pspace`, a hostile one. It answers, and never breaks."""

from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.paperspace.test_simulator import GOOD, ask
from tests.contracts.clouds.providers.paperspace import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tgp.core.model.instance import InstanceState
from tgp.ports.http import Call, Reply, json_call
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb


def told(reply: Reply) -> Any:
    return msgspec.json.decode(reply.content)


async def look(stage: Stage, path: str, **query: str) -> Reply:
    return await ask(stage, Call("GET", f"/v1/{path}", query=tuple(query.items())))


async def made(stage: Stage, **changes: Any) -> dict[str, Any]:
    stage.stock_up()
    machine = told(await ask(stage, json_call("POST", "/v1/machines", {**GOOD, **changes})))["data"]
    await stage.settle()
    return machine


def test_unknown_queries_are_ignored():
    """`pspace machine get x` repeats the id as a query."""

    async def script(stage: Stage) -> None:
        machine = await made(stage)

        assert (await look(stage, f"machines/{machine['id']}", id=machine["id"])).status == 200
        assert len(told(await look(stage, "machines", sparkle="1"))["items"]) == 1

    play(PROVIDER, script)


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "²"},
        {"limit": "-1"},
        {"limit": ""},
        {"limit": "1.5"},
        {"limit": "9" * 5_000},
        {"after": "nowhere"},
        {"orderBy": "colour"},
        {"order": "sideways"},
    ],
    ids=lambda query: next(iter(query)),
)
@pytest.mark.parametrize("path", ["machines", "machine-events", "startup-scripts", "os-templates"])
def test_a_query_that_the_document_forbids_is_refused(path: str, query: dict[str, str]):
    async def script(stage: Stage) -> None:
        reply = await look(stage, path, **query)

        assert (reply.status, told(reply)["code"]) == (400, "BAD_REQUEST")

    play(PROVIDER, script)


def test_lists_come_in_the_order_that_was_asked_for_and_newest_first_otherwise():
    async def script(stage: Stage) -> None:
        for name in ("b", "c", "a"):
            await made(stage, name=name)

        async def names(**query: str) -> str:
            return "".join(each["name"] for each in told(await look(stage, "machines", **query))["items"])

        assert await names() == "acb"
        assert await names(order="asc") == "bca"
        assert await names(orderBy="name", order="asc") == "abc"
        assert await names(orderBy="name") == "cba"

    play(PROVIDER, script)


def test_pages_neither_lose_nor_repeat_a_machine_and_a_full_one_may_be_the_last():
    async def script(stage: Stage) -> None:
        for name in "abcdef":
            await made(stage, name=name)
        seen, after = [], {}
        for _ in range(9):
            page = told(await look(stage, "machines", limit="3", **after))
            seen += [each["name"] for each in page["items"]]
            if not page["hasMore"]:
                assert page["nextPage"] is None
                break
            after = {"after": page["nextPage"]}

        assert seen == list("fedcba")

    play(PROVIDER, script)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("HEAD", "machines"),
        ("PUT", "machines"),
        ("OPTIONS", "os-templates"),
        ("POST", "os-templates"),
        ("POST", "machine-events"),
        ("POST", "auth/session"),
        ("DELETE", "billing/account-standing"),
        ("PUT", "startup-scripts"),
        ("PATCH", "startup-scripts/su1"),
    ],
)
def test_another_method_is_not_supported(method: str, path: str):
    async def script(stage: Stage) -> None:
        reply = await ask(stage, Call(method, f"/v1/{path}"))

        assert (reply.status, told(reply)["code"]) == (405, "METHOD_NOT_SUPPORTED")

    play(PROVIDER, script)


def test_a_slash_at_the_end_changes_nothing():
    async def script(stage: Stage) -> None:
        await made(stage)

        assert len(told(await look(stage, "machines/"))["items"]) == 1

    play(PROVIDER, script)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'"\\ud800"', b"null", b"7"])
@pytest.mark.parametrize("path", ["machines", "startup-scripts"])
def test_a_body_that_is_none_is_refused_in_the_vendors_words(path: str, body: bytes):
    async def script(stage: Stage) -> None:
        reply = await ask(stage, Call("POST", f"/v1/{path}", body=body))

        assert (reply.status, told(reply)["code"]) == (400, "BAD_REQUEST")

    play(PROVIDER, script)


def test_an_error_has_no_field_that_the_vendors_client_does_not_know():
    """`pspace` reads code, message, details and issues, and breaks at any other."""

    async def script(stage: Stage) -> None:
        stage.aim(CloudFault.ERROR_WITH_ID, CloudVerb.LAUNCH)
        stage.stock_up()
        for body in (GOOD, {}, {**GOOD, "templateId": "none"}):
            error = told(await ask(stage, json_call("POST", "/v1/machines", body)))
            assert set(error) <= {"code", "message", "details", "issues"}

    play(PROVIDER, script)


def test_the_standing_is_what_the_vendors_client_asks_before_it_orders():
    async def script(stage: Stage) -> None:
        assert told(await look(stage, "billing/account-standing")) == {"isInGoodStanding": True, "messages": []}
        assert (await stage.cloud.check()).can_buy
        stage.tenant.balance_microusd = 0
        standing = told(await look(stage, "billing/account-standing"))
        report = await stage.cloud.check()

        assert (standing["isInGoodStanding"], report.can_buy) == (False, False)
        assert any(standing["messages"][0] in note for note in report.notes)

    play(PROVIDER, script)


def test_a_machine_that_was_ordered_off_is_off_and_one_without_an_address_has_none():
    async def script(stage: Stage) -> None:
        off = await made(stage, startOnCreate=False)
        hidden = await made(stage, publicIpType="none")
        await stage.running()

        seen = await stage.cloud.status(off["id"])
        assert seen is not None
        assert seen.state is InstanceState.STOPPED
        row = told(await look(stage, f"machines/{hidden['id']}"))
        assert (row["state"], row["publicIp"]) == ("ready", None)

    play(PROVIDER, script)
