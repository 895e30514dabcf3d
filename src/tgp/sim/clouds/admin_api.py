"""The admin API of the simulated providers: what runs, what it has cost, and which faults come next.

It answers under `/_tgp/` on the very port of a provider, so that a client that reaches the provider reaches it, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from tgp.api.values import rfc3339, usd
from tgp.ports.http import Call, Handler, Reply, Streaming
from tgp.sim.clouds.cloud_faults import WHERE, CloudFault, CloudVerb
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.simulator import Simulator

PREFIX = "/_tgp/"
JSON = (("Content-Type", "application/json"),)
MOST_TIMES = 1000


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    """A request to inject a fault."""

    fault: str
    provider: str = ""  # empty: the one asked
    verb: str = ""  # empty: whatever it can befall
    times: int = 1


@dataclass(slots=True)
class AdminApi:
    """All simulated providers of one world, by name."""

    simulators: Mapping[str, Simulator]
    urls: dict[str, str] = field(default_factory=dict)  # where each is reached, once known

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
            case "GET", "faults":
                return _json(200, {"faults": self.menu()})
            case "POST", "faults":
                return self._aim(call, provider)
            case "DELETE", "faults":
                for simulator in self.simulators.values():
                    simulator.faults.calm()
                return _json(200, {"faults": self.menu()})
        return _json(404, {"error": "there are clouds, fleet, bill and faults (GET; faults also POST and DELETE)"})

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
                "fault": fault.value,
                "befalls": sorted(verb.value for verb in WHERE[fault]),
                "seen": sum(simulator.faults.seen.get(fault, 0) for simulator in self.simulators.values()),
            }
            for fault in CloudFault
        ]

    # -- what can be ordered -----------------------------------------------------------------------------------------

    def _aim(self, call: Call, provider: str) -> Reply:
        try:
            order = msgspec.json.decode(call.body, type=_Order)
            fault = CloudFault(order.fault)
            verb = CloudVerb(order.verb) if order.verb else None
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            return _json(400, {"error": str(error)})
        aimed_at = self.simulators.get(order.provider or provider)
        if aimed_at is None:
            return _json(400, {"error": f"provider: choose one of {', '.join(self.simulators)}"})
        if verb is not None and verb not in WHERE[fault]:
            return _json(400, {"error": f"verb: {fault} befalls {', '.join(sorted(WHERE[fault]))}"})
        if not 1 <= order.times <= MOST_TIMES:
            return _json(400, {"error": f"times: 1 to {MOST_TIMES}"})
        aimed_at.faults.aim(fault, verb, order.times)
        return _json(200, {"aimed": fault.value, "at": aimed_at.provider, "times": order.times})


def _of(machines: Iterable[SimulatedMachine], account: str) -> list[SimulatedMachine]:
    return [machine for machine in machines if machine.account == account and machine.alive]


def _row(provider: str, machine: SimulatedMachine, now: datetime) -> dict[str, Any]:
    return {
        "provider": provider,
        "id": machine.id,
        "name": machine.name,
        "account": machine.account,
        "type": machine.product.sku,
        "place": machine.product.place,
        "gpu": machine.product.gpu,
        "gpus": machine.product.gpu_count,
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
