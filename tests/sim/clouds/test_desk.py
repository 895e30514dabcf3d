"""The counter beside the pretend providers: what runs, what it cost, what shall go wrong; whatever is asked of it."""

import json

import pytest

from tgp.ports.http import Call
from tgp.sim.clock import WorldClock
from tgp.sim.clouds.desk import Desk
from tgp.sim.clouds.everyone import SIMULATORS, pretend
from tgp.sim.clouds.fleet import Wanted
from tgp.sim.clouds.mishaps import Mishap, Verb
from tgp.sim.loop import run


def a_desk(*providers: str) -> Desk:
    import asyncio

    clock = WorldClock(asyncio.get_running_loop())
    return Desk({name: pretend(name, clock, 1) for name in providers or ("simulated", "vultr")})


def asked(desk: Desk, method: str, what: str, body: bytes = b"") -> tuple[int, dict]:
    reply = desk.answer(Call(method, f"/_tgp/{what}", body=body), "simulated")
    return reply.status, json.loads(reply.content)


def test_a_machine_is_on_the_fleet_and_on_the_bill_to_the_second():
    async def scenario():
        import asyncio

        desk = a_desk()
        simulator = desk.simulators["simulated"]
        tenant = next(iter(simulator.fleet.accounts))
        shelf = next(stand.shelf for stand in simulator.fleet.selling() if stand.stock)
        machine = simulator.fleet.rent(tenant, Wanted(shelf.id, "tgp-test"))
        await asyncio.sleep(3600)

        _, fleet = asked(desk, "GET", "fleet")
        _, bill = asked(desk, "GET", "bill")
        row = next(row for row in fleet["machines"] if row["id"] == machine.id)
        account = next(row for row in bill["accounts"] if row["account"] == tenant.id)
        assert row["phase"] == "running"
        assert float(row["spent"]) == pytest.approx(machine.rate_microusd / 1e6, abs=1e-5)
        assert (account["machines"], account["running"], account["spent"]) == (1, 1, row["spent"])

    run(scenario())


def test_what_is_aimed_befalls_the_next_call_and_calm_takes_it_back():
    async def scenario():
        desk = a_desk()
        order = json.dumps({"mishap": "sold-out", "provider": "vultr", "times": 2}).encode()

        assert asked(desk, "POST", "mishaps", order)[0] == 200
        assert desk.simulators["vultr"].mishaps.draw(Verb.LAUNCH) is Mishap.SOLD_OUT
        assert asked(desk, "DELETE", "mishaps")[0] == 200
        assert desk.simulators["vultr"].mishaps.draw(Verb.LAUNCH) is None

    run(scenario())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"mishap": "earthquake"}',
        b'{"mishap": "html", "provider": "aws"}',
        b'{"mishap": "html", "verb": "sing"}',
        b'{"mishap": "sold-out", "verb": "list"}',
        b'{"mishap": "html", "times": 0}',
        b'{"mishap": "html", "surprise": 1}',
    ],
    ids=lambda body: body[:40],
)
def test_an_order_that_makes_no_sense_is_refused_with_words(body):
    async def scenario():
        status, said = asked(a_desk(), "POST", "mishaps", body)
        assert status == 400
        assert said["error"]

    run(scenario())


def test_every_provider_has_a_simulator_that_says_where_it_is():
    async def scenario():
        desk = a_desk(*SIMULATORS)
        desk.urls = {name: f"http://127.0.0.1:{9000 + number}" for number, name in enumerate(SIMULATORS)}
        _, told = asked(desk, "GET", "clouds")

        assert [row["provider"] for row in told["clouds"]] == list(SIMULATORS)
        assert all(row["key"] for row in told["clouds"])

    run(scenario())
