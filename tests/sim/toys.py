"""Small processes and servers to try the harness on: a cloud that takes money, buyers good and bad."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec

from tgp.api.resource import CONFIG_MAP
from tgp.ports.http import Call, HttpError, Reply, json_call
from tgp.sim.process import Host
from tgp.sim.world import KUBERNETES, World

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SHORT = timedelta(seconds=10)
TURN = 15.0  # seconds between two looks
SETTLE = 60.0  # seconds: longer than a call may live


Buyer: TypeAlias = Callable[[Host, str], Awaitable[None]]


class ToyCloud:
    """Sells machines. Names are not unique, and it remembers every sale."""

    def __init__(self) -> None:
        self.machines: dict[str, str] = {}

    async def __call__(self, call: Call) -> Reply:
        if call.method == "POST":
            number = f"i-{len(self.machines) + 1}"
            self.machines[number] = msgspec.json.decode(call.body)["name"]
            return Reply(201, msgspec.json.encode({"id": number}))
        return Reply(200, msgspec.json.encode(self.machines))


def a_market(seed: int | str, buyer: Buyer, *, claims: int = 1, **options: Any) -> tuple[World, ToyCloud]:
    """A world with claims, a cloud, and a buyer who is to get exactly one machine for each."""
    world, cloud = World(seed, **options), ToyCloud()
    world.mount("cloud", cloud)
    names = [f"claim-{number}" for number in range(claims)]
    for name in names:
        world.api.local_api.create(CONFIG_MAP, {"metadata": {"name": name, "namespace": "default"}, "data": {}})
    world.process("buyer", lambda host: _one_buyer_per_claim(host, buyer, names))

    def one_machine_per_claim(_world: World) -> None:
        bought = list(cloud.machines.values())
        assert len(bought) == len(set(bought)), f"paid twice for one claim: {cloud.machines}"

    world.watch(one_machine_per_claim)
    return world, cloud


async def _one_buyer_per_claim(host: Host, buyer: Buyer, names: list[str]) -> None:
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(buyer(host, name))
            await asyncio.sleep(7)  # so that they do not all buy in the same breath


async def naive_buyer(host: Host, name: str) -> None:
    """Buys, then writes it down."""
    while True:
        try:
            claim = await _read(host, name)
            if "machine" not in claim:
                reply = await host.http("cloud").send(_order(name))
                if reply.status == 201:
                    await _write(host, name, machine=reply.text("id"))
        except HttpError:
            pass
        await asyncio.sleep(TURN)


async def careful_buyer(host: Host, name: str) -> None:
    """Writes the intent first, looks before it leaps, and waits until what it cannot see must have shown itself."""
    loop = asyncio.get_running_loop()
    absent_since: float | None = None
    may_buy = False
    while True:
        try:
            claim = await _read(host, name)
            if "machine" in claim:
                pass
            elif "intent" not in claim:
                may_buy = await _write(host, name, intent="1")
            elif found := await _find(host, name):
                await _write(host, name, machine=found)
            elif may_buy:
                may_buy = False  # whatever comes of it, the next turn looks before it leaps
                absent_since = None
                await host.http("cloud").send(_order(name))
            else:
                absent_since = loop.time() if absent_since is None else absent_since
                may_buy = loop.time() - absent_since > SETTLE
        except HttpError:
            absent_since = None
        await asyncio.sleep(TURN)


def _order(name: str) -> Call:
    return json_call("POST", "/machines", {"name": name}, timeout=SHORT)


async def _find(host: Host, name: str) -> str:
    reply = await host.http("cloud").send(Call("GET", "/machines", timeout=SHORT))
    if not reply.ok:
        raise HttpError("no list")
    return next((number for number, owner in sorted(reply.json().items()) if owner == name), "")


async def _read(host: Host, name: str) -> dict[str, str]:
    reply = await host.http(KUBERNETES).send(Call("GET", f"{CONFIG_MAPS}/{name}", timeout=SHORT))
    if not reply.ok:
        raise HttpError("no claim")
    return dict(reply.json().get("data") or {})


async def _write(host: Host, name: str, **data: str) -> bool:
    headers = (("Content-Type", "application/merge-patch+json"),)
    body = msgspec.json.encode({"data": data})
    call = Call("PATCH", f"{CONFIG_MAPS}/{name}", headers=headers, body=body, timeout=SHORT)
    return (await host.http(KUBERNETES).send(call)).ok
