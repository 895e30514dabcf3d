"""The pretend provider refuses what its page does not name: an adapter that sends nonsense must not pass for right."""

from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.providers.simulated import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.simulated import KEY, MODELS, PLACES, catalogue

AUTHORIZED = (("Authorization", f"Bearer {KEY}"),)


def an_order(**changes: Any) -> dict[str, Any]:
    body = {"type": "t4.1", "place": "us-west-1", "market": "on-demand", "name": "mine", "tags": {}, "user_data": ""}
    return {name: value for name, value in {**body, **changes}.items() if value is not ...}


def answered(call: Call) -> tuple[int, Any]:
    async def script(stage: Stage) -> Reply:
        stage.stock_up()
        reply = await stage.simulator.handle(call)
        assert reply.status == 201 or stage.fleet.machines == {}
        return reply

    reply = play(PROVIDER, script)
    return reply.status, msgspec.json.decode(reply.content)


def ordered(body: Any) -> tuple[int, Any]:
    return answered(Call("POST", "/v1/machines", headers=AUTHORIZED, body=msgspec.json.encode(body)))


def test_a_good_order_makes_a_machine() -> None:
    status, answer = ordered(an_order())

    assert status == 201
    assert answer["machine"]["name"] == "mine"


@pytest.mark.parametrize(
    "body",
    [
        [],
        an_order(colour="red"),
        an_order(name=...),
        an_order(name=""),
        an_order(name="x" * 64),
        an_order(market="grey"),
        an_order(tags=[]),
        an_order(tags={"a": 1}),
        an_order(user_data="not base64!"),
        an_order(user_data="A" * 100_000),
        an_order(bid_usd_per_hour="1.0"),  # of a machine on demand
        an_order(market="spot", bid_usd_per_hour=1.0),
        an_order(market="spot", bid_usd_per_hour="-1"),
        an_order(type=7),
    ],
    ids=lambda body: str(body)[:60],
)
def test_a_bad_order_is_refused_and_makes_nothing(body: Any) -> None:
    status, answer = ordered(body)

    assert (status, answer["error"]["code"]) == (422, "bad_order")


def test_an_order_of_what_is_not_sold_is_sold_out() -> None:
    status, answer = ordered(an_order(type="z9000"))

    assert (status, answer["error"]["code"]) == (409, "sold_out")


@pytest.mark.parametrize(("headers", "status"), [((), 200), (AUTHORIZED, 200), ((("Authorization", "Bearer x"),), 401)])
def test_no_key_is_the_demonstration_and_a_wrong_one_is_refused(headers: Any, status: int) -> None:
    assert answered(Call("GET", "/v1/account", headers=headers))[0] == status


@pytest.mark.parametrize("query", [(("limit", "0"),), (("limit", "101"),), (("limit", "x"),), (("after", "absent"),)])
def test_a_page_that_does_not_exist_is_refused(query: Any) -> None:
    assert answered(Call("GET", "/v1/machines", query=query, headers=AUTHORIZED))[0] == 400


def test_another_page_is_not_found() -> None:
    assert answered(Call("PATCH", "/v1/machines", headers=AUTHORIZED))[0] == 404


@pytest.mark.parametrize("seed", range(20))
def test_every_market_has_something_of_everything(seed: int) -> None:
    products = catalogue(seed)

    assert {product.place for product in products} == set(PLACES)
    assert len({product.gpu for product in products}) >= 8
    assert any(product.spot_microusd is not None for product in products)
    assert any(product.stock == 0 for product in products)
    assert len({product.id for product in products}) == len(products) > len(MODELS)


def test_every_fault_that_can_befall_a_call_is_answered() -> None:
    """None of the menu makes the simulator itself fall over."""

    async def script(stage: Stage) -> None:
        made = await stage.running()
        paths = {
            CloudVerb.OFFERS: Call("GET", "/v1/offers"),
            CloudVerb.LIST: Call("GET", "/v1/machines"),
            CloudVerb.STATUS: Call("GET", f"/v1/machines/{made.id}"),
            CloudVerb.TERMINATE: Call("DELETE", f"/v1/machines/{made.id}"),
            CloudVerb.ACCOUNT: Call("GET", "/v1/account"),
        }
        for verb, call in paths.items():
            for cloud_fault in CloudFault:
                if stage.can_befall(cloud_fault, verb) and cloud_fault not in (
                    CloudFault.HANG_UP,
                    CloudFault.HANG_UP_AFTER,
                ):
                    stage.aim(cloud_fault, verb)
                    assert (await stage.simulator.handle(call)).status >= 200
        assert stage.simulator.faults.aimed == []

    play(PROVIDER, script)
