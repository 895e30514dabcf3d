"""The counter beside the pretend providers: what runs, what it has cost, and what shall go wrong next.

It answers under `/_tgp/` on the very port of a provider, so that whoever reaches the provider reaches it, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from tgp.api.values import rfc3339, usd
from tgp.ports.http import Call, Handler, Reply, Streaming
from tgp.sim.clouds.machine import Machine, Phase
from tgp.sim.clouds.mishaps import WHERE, Mishap, Verb
from tgp.sim.clouds.simulator import Simulator

PREFIX = "/_tgp/"
JSON = (("Content-Type", "application/json"),)
MOST_TIMES = 1000


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    """What somebody wants to go wrong."""

    mishap: str
    provider: str = ""  # empty: the one asked
    verb: str = ""  # empty: whatever it can befall
    times: int = 1


@dataclass(slots=True)
class Desk:
    """All pretend providers of one world, by name."""

    simulators: Mapping[str, Simulator]
    urls: dict[str, str] = field(default_factory=dict)  # where each is reached, once somebody knows

    def beside(self, provider: str) -> Handler:
        """A handler for the provider's port."""
        simulator = self.simulators[provider]

        async def handle(call: Call) -> Reply | Streaming:
            if call.path.startswith(PREFIX):
                return self.answer(call, provider)
            return await simulator.handle(call)

        return handle

    def answer(self, call: Call, provider: str = "") -> Reply:
        match call.method, call.path.removeprefix(PREFIX):
            case "GET", "clouds":
                return _json(200, {"clouds": self.clouds()})
            case "GET", "fleet":
                return _json(200, {"machines": self.fleet()})
            case "GET", "bill":
                return _json(200, {"accounts": self.bill()})
            case "GET", "mishaps":
                return _json(200, {"mishaps": self.menu()})
            case "POST", "mishaps":
                return self._aim(call, provider)
            case "DELETE", "mishaps":
                for simulator in self.simulators.values():
                    simulator.mishaps.calm()
                return _json(200, {"mishaps": self.menu()})
        return _json(404, {"error": "there are clouds, fleet, bill and mishaps (GET; mishaps also POST and DELETE)"})

    # -- what can be seen --------------------------------------------------------------------------------------------

    def clouds(self) -> list[dict[str, str]]:
        return [
            {"provider": name, "url": url, "key": self.simulators[name].key_at(url)} for name, url in self.urls.items()
        ]

    def fleet(self) -> list[dict[str, Any]]:
        return [
            _row(name, machine, now)
            for name, simulator in self.simulators.items()
            for now in (simulator.fleet.advance(),)
            for machine in simulator.fleet.machines.values()
            if machine.alive
        ]

    def bill(self) -> list[dict[str, Any]]:
        return [
            {
                "provider": name,
                "account": tenant.id,
                "machines": len(machines),
                "running": sum(machine.phase is Phase.RUNNING for machine in machines),
                "hourly": usd(sum(machine.charged_microusd for machine in machines)),
                "spent": usd(simulator.fleet.bill_microusd(tenant, now)),
                "balance": _optional(simulator.fleet.balance_microusd(tenant, now)),
            }
            for name, simulator in self.simulators.items()
            for now in (simulator.fleet.advance(),)
            for tenant in simulator.fleet.accounts
            for machines in (_of(simulator.fleet.machines.values(), tenant.id),)
        ]

    def menu(self) -> list[dict[str, Any]]:
        return [
            {
                "mishap": mishap.value,
                "befalls": sorted(verb.value for verb in WHERE[mishap]),
                "seen": sum(simulator.mishaps.seen.get(mishap, 0) for simulator in self.simulators.values()),
            }
            for mishap in Mishap
        ]

    # -- what can be ordered -----------------------------------------------------------------------------------------

    def _aim(self, call: Call, provider: str) -> Reply:
        try:
            order = msgspec.json.decode(call.body, type=_Order)
            mishap = Mishap(order.mishap)
            verb = Verb(order.verb) if order.verb else None
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            return _json(400, {"error": str(error)})
        aimed_at = self.simulators.get(order.provider or provider)
        if aimed_at is None:
            return _json(400, {"error": f"provider: choose one of {', '.join(self.simulators)}"})
        if verb is not None and verb not in WHERE[mishap]:
            return _json(400, {"error": f"verb: {mishap} befalls {', '.join(sorted(WHERE[mishap]))}"})
        if not 1 <= order.times <= MOST_TIMES:
            return _json(400, {"error": f"times: 1 to {MOST_TIMES}"})
        aimed_at.mishaps.aim(mishap, verb, order.times)
        return _json(200, {"aimed": mishap.value, "at": aimed_at.provider, "times": order.times})


def _of(machines: Iterable[Machine], account: str) -> list[Machine]:
    return [machine for machine in machines if machine.account == account and machine.alive]


def _row(provider: str, machine: Machine, now: datetime) -> dict[str, Any]:
    return {
        "provider": provider,
        "id": machine.id,
        "name": machine.name,
        "account": machine.account,
        "type": machine.shelf.sku,
        "place": machine.shelf.place,
        "gpu": machine.shelf.gpu,
        "gpus": machine.shelf.gpu_count,
        "phase": machine.phase.value,
        "why": machine.why,
        "spot": machine.spot,
        "hourly": usd(machine.charged_microusd),
        "spent": usd(machine.cost_microusd(now)),
        "since": rfc3339(machine.created_at),
    }


def _optional(microusd: int | None) -> str | None:
    return None if microusd is None else usd(microusd)


def _json(status: int, value: Any) -> Reply:
    return Reply(status, msgspec.json.encode(value) + b"\n", JSON)
