"""The admin API of the simulated providers: machines, costs and injected faults, for every kind of input."""

import json

import pytest

from tgp.ports.http import Call
from tgp.sim.clock import WorldClock
from tgp.sim.clouds.admin_api import AdminApi
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import WantedMachine
from tgp.sim.clouds.registry import SIMULATORS, pretend
from tgp.sim.loop import run


def an_admin_api(*providers: str) -> AdminApi:
    import asyncio

    clock = WorldClock(asyncio.get_running_loop())
    return AdminApi({name: pretend(name, clock, 1) for name in providers or ("simulated", "vultr")})


def asked(admin: AdminApi, method: str, what: str, body: bytes = b"") -> tuple[int, dict]:
    reply = admin.answer(Call(method, f"/_tgp/{what}", body=body), "simulated")
    return reply.status, json.loads(reply.content)


def test_a_machine_is_on_the_fleet_and_on_the_bill_to_the_second():
    async def scenario():
        import asyncio

        admin = an_admin_api()
        simulator = admin.simulators["simulated"]
        tenant = next(iter(simulator.fleet.accounts))
        product = next(stand.product for stand in simulator.fleet.selling() if stand.stock)
        machine = simulator.fleet.rent(tenant, WantedMachine(product.id, "tgp-test"))
        await asyncio.sleep(3600)

        _, fleet = asked(admin, "GET", "fleet")
        _, bill = asked(admin, "GET", "bill")
        row = next(row for row in fleet["machines"] if row["id"] == machine.id)
        account = next(row for row in bill["accounts"] if row["account"] == tenant.id)
        assert row["phase"] == "running"
        assert float(row["spent"]) == pytest.approx(machine.rate_microusd / 1e6, abs=1e-5)
        assert (account["machines"], account["running"], account["spent"]) == (1, 1, row["spent"])

    run(scenario())


def test_what_is_aimed_befalls_the_next_call_and_calm_takes_it_back():
    async def scenario():
        admin = an_admin_api()
        order = json.dumps({"fault": "sold-out", "provider": "vultr", "times": 2}).encode()

        assert asked(admin, "POST", "faults", order)[0] == 200
        assert admin.simulators["vultr"].faults.draw(CloudVerb.LAUNCH) is CloudFault.SOLD_OUT
        assert asked(admin, "DELETE", "faults")[0] == 200
        assert admin.simulators["vultr"].faults.draw(CloudVerb.LAUNCH) is None

    run(scenario())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"fault": "earthquake"}',
        b'{"fault": "html", "provider": "aws"}',
        b'{"fault": "html", "verb": "sing"}',
        b'{"fault": "sold-out", "verb": "list"}',
        b'{"fault": "html", "times": 0}',
        b'{"fault": "html", "surprise": 1}',
    ],
    ids=lambda body: body[:40],
)
def test_an_order_that_makes_no_sense_is_refused_with_words(body):
    async def scenario():
        status, said = asked(an_admin_api(), "POST", "faults", body)
        assert status == 400
        assert said["error"]

    run(scenario())


def test_every_provider_has_a_simulator_that_says_where_it_is():
    async def scenario():
        admin = an_admin_api(*SIMULATORS)
        admin.urls = {name: f"http://127.0.0.1:{9000 + number}" for number, name in enumerate(SIMULATORS)}
        _, told = asked(admin, "GET", "clouds")

        assert [row["provider"] for row in told["clouds"]] == list(SIMULATORS)
        assert all(row["key"] for row in told["clouds"])

    run(scenario())
