"""The pretend cellar: strict about what it is sent, and it does a thing once."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.webhook.bench import OTHER_TOKEN, TOKEN, HandClock
from tgp.core.model.secret import Secret
from tgp.core.model.signature import keys_of
from tgp.ports.http import Call
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.webhook import WebhookReceiver, settings_at, simulator


class Cellar:
    def __init__(self, *, locked: bool = False) -> None:
        self.clock = HandClock()
        self.room: WebhookReceiver = simulator(self.clock, 1)
        self.room.locked = locked

    def press(self, button: str = "on", token: str = TOKEN, message_id: str = "", **changes: Any) -> Call:
        """A call as a careful client would send it."""
        said = {"type": f"machine.power_{button}", "machine": "cellar-1", "token": token}
        body = msgspec.json.encode(said | {"timestamp": "2026-11-15T12:00:00Z"} | changes)
        return self.signed(Call("POST", f"/cellar-1/{button}", body=body), message_id or f"{token}-{button}")

    def look(self) -> Call:
        return self.signed(Call("GET", "/cellar-1/status"), f"look-{self.clock.seconds:.0f}")

    def signed(self, call: Call, message_id: str) -> Call:
        headers = keys_of(Secret(self.room.signing_secret)).sign(message_id, self.clock.now(), call.body)
        return replace(call, headers=(("Authorization", f"Bearer {self.room.key}"), *headers))

    async def says(self, call: Call) -> tuple[int, Any]:
        reply = await self.room.handle(call)
        return reply.status, msgspec.json.decode(reply.content)

    async def state(self) -> tuple[str, str]:
        _, said = await self.says(self.look())
        return said["state"], said["token"]

    @property
    def made(self) -> int:
        return len(self.room.fleet.machines)


async def test_a_day_of_a_box():
    cellar = Cellar()
    states = [await cellar.state()]
    await cellar.says(cellar.press("on"))
    for seconds in (4, 200):
        cellar.clock.seconds += seconds
        states.append(await cellar.state())
    await cellar.says(cellar.press("off"))
    states.append(await cellar.state())
    cellar.clock.seconds += 60
    states.append(await cellar.state())

    assert states == [("off", ""), ("starting", TOKEN), ("on", TOKEN), ("stopping", TOKEN), ("off", "")]


async def test_it_costs_its_electricity_while_it_is_on_and_nothing_otherwise():
    cellar = Cellar()
    await cellar.says(cellar.press("on"))
    cellar.clock.seconds += 3_600
    (tenant,) = cellar.room.fleet.accounts
    hour = cellar.room.fleet.bill_microusd(tenant, cellar.room.fleet.advance())

    assert hour == 195_000  # 650 W at $0.30


async def test_the_same_id_is_done_once():
    cellar = Cellar()
    first = await cellar.says(cellar.press("on"))
    again = await cellar.says(cellar.press("on"))

    assert (first[0], again[0], cellar.made) == (202, 200, 1)


async def test_an_old_power_on_played_again_after_the_end_does_nothing():
    cellar = Cellar(locked=True)
    call = cellar.press("on")
    await cellar.says(call)
    await cellar.says(cellar.press("off"))
    cellar.clock.seconds += 100
    status, _ = await cellar.says(call)
    cellar.clock.seconds += 600
    late, _ = await cellar.says(call)

    assert (status, late, cellar.made) == (200, 401, 1)
    assert cellar.room.refused == ["the timestamp is too old"]


async def test_a_box_that_is_on_for_another_order():
    cellar = Cellar()
    await cellar.says(cellar.press("on"))

    assert (await cellar.says(cellar.press("on", OTHER_TOKEN)))[0] == 409
    assert cellar.made == 1


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"headers": ()}, 401),
        ({"headers": (("Authorization", "Bearer wrong"),)}, 401),
        ({"body": b"{}"}, 401),
    ],
)
async def test_locked_it_refuses_calls_without_key_and_signature(change: dict[str, Any], status: int):
    cellar = Cellar(locked=True)

    assert (await cellar.says(replace(cellar.press("on"), **change)))[0] == status
    assert cellar.made == 0


async def test_open_it_accepts_unsigned_calls_but_no_wrong_signature():
    cellar = Cellar()
    call = cellar.press("on")
    plain = replace(call, headers=(("webhook-id", "1"),))
    wrong = replace(call, headers=(("webhook-id", "1"), ("webhook-signature", "v1,wrong")))

    assert (await cellar.says(wrong))[0] == 401
    assert (await cellar.says(plain))[0] == 202


@pytest.mark.parametrize(
    "body",
    [
        {"type": "machine.power_off"},
        {"machine": "cellar-2"},
        {"token": 7},
        {"timestamp": "yesterday"},
        {"colour": "blue"},
    ],
)
async def test_a_message_that_makes_no_sense_is_refused(body: dict[str, Any]):
    cellar = Cellar()

    assert (await cellar.says(cellar.press("on", **body)))[0] == 400
    assert cellar.made == 0


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/cellar-1/on", 405),
        ("POST", "/cellar-1/status", 405),
        ("GET", "/cellar-99/status", 404),
        ("GET", "/cellar-1/fan", 404),
        ("GET", "/", 404),
        ("GET", "//cellar-1/status", 404),
    ],
)
async def test_what_is_not_there(method: str, path: str, status: int):
    cellar = Cellar()

    assert (await cellar.says(cellar.signed(Call(method, path), "1")))[0] == status


async def test_a_status_lags_behind_if_it_is_told_to():
    cellar = Cellar()
    cellar.room.faults.aim(CloudFault.LIST_LAGS, CloudVerb.LAUNCH)
    await cellar.says(cellar.press("on"))
    cellar.clock.seconds += 60
    early = await cellar.state()
    cellar.clock.seconds += timedelta(minutes=4).total_seconds()

    assert (early, await cellar.state()) == (("off", ""), ("on", TOKEN))


def test_the_class_of_the_cellar_is_a_valid_one():
    settings = settings_at("http://power.cellar.internal", guarded=True)

    assert len(settings.machines) == 24
    assert settings.machines[0].scale_up_endpoint == "http://power.cellar.internal/cellar-1/on"
    assert msgspec.convert(msgspec.to_builtins(settings), type(settings)) == settings
