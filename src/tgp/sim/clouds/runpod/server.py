"""RunPod's REST v2 over the fleet: catalogue, pods, actions. Problems are `application/problem+json`."""

from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any

import msgspec

from tgp.ports.clock import Clock
from tgp.ports.http import NO_JSON, Call, Pairs, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.fleet import Broke, Empty, Fleet, Habits, Stand, Wanted
from tgp.sim.clouds.machine import Machine, Phase
from tgp.sim.clouds.mishaps import Mishap, Verb
from tgp.sim.clouds.runpod import pods, schema
from tgp.sim.clouds.runpod.market import CARDS, CENTRES, MICRO, Card, card_of, shelves
from tgp.sim.clouds.simulator import Simulator

KEY = "rpa_SIM5ECRET0K3Y0F0RUNP0D0ABCDEFGH"
ID_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
NOTHING_LEFT = "There are no instances currently available with the requested specifications. Please try again later."
POLICY = '"minute";q=60;w=60, "hour";q=3000;w=3600, "day";q=50000;w=86400'  # the schema's own example
TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    410: "Gone",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
}


def _new_id(luck: Random) -> str:
    return "".join(luck.choice(ID_LETTERS) for _ in range(14))


class RunPodSimulator(Simulator):
    provider = "runpod"
    key = KEY

    def __init__(self, clock: Clock, seed: int | str) -> None:
        fleet = Fleet(clock, f"{seed}/runpod", shelves(), habits=Habits(list_lag=(0.0, 5.0)), new_id=_new_id)
        super().__init__(fleet, f"{seed}/runpod")
        fleet.accounts.open(Tenant("user_2sim0first", "the first account"), KEY)
        fleet.listen(self._take_gpus)
        self.calls_a_minute: int | None = None  # None: nobody is slowed down
        self._window: tuple[datetime, int] = (clock.now(), 0)

    # -- words ---------------------------------------------------------------------------------------------------------

    def verb_of(self, call: Call) -> Verb:
        match (call.method, *call.path.strip("/").split("/")):
            case ("GET", "v2", "catalog", *_):
                return Verb.OFFERS
            case ("GET", "v2", "pods"):
                return Verb.LIST
            case ("POST", "v2", "pods"):
                return Verb.LAUNCH
            case ("GET", "v2", "pods", _):
                return Verb.STATUS
            case ("DELETE", "v2", "pods", _):
                return Verb.TERMINATE
            case ("POST", "v2", "pods", _, "action"):
                return Verb.TERMINATE if b"terminate" in call.body else Verb.OTHER
            case ("GET", "v2", "account", *_):
                return Verb.ACCOUNT
            case _:
                return Verb.OTHER

    def stranger(self, call: Call) -> Reply:
        told = "missing bearer token" if not self.key_of(call) else "invalid bearer token"
        return _problem(401, told)

    def busy(self) -> Reply:
        slow = (("Retry-After", "12"), ("RateLimit", '"minute";r=0;t=12'), ("RateLimit-Policy", POLICY))
        return _problem(429, "rate limit exceeded for the minute window", headers=slow)

    def failure(self) -> Reply:
        return _problem(500, "an unexpected error occurred")

    def retired(self) -> Reply:
        return _problem(410, "this endpoint has been retired")

    # -- routes --------------------------------------------------------------------------------------------------------

    def route(self, call: Call, verb: Verb, tenant: Tenant | None) -> Reply:  # noqa: ARG002 - the path tells more
        assert tenant is not None, "nothing is public here"
        now = self.fleet.advance()
        if self._too_often(now):
            return self.busy()
        match (call.method, *call.path.strip("/").split("/")):
            case ("GET", "v2", "catalog", "gpus"):
                return self._catalog(call)
            case ("GET", "v2", "catalog", "datacenters"):
                return _json(200, {"dataCenters": [_centre(centre.id) for centre in CENTRES]})
            case ("GET", "v2", "pods"):
                return self._list(tenant, now)
            case ("POST", "v2", "pods"):
                return self._create(call, tenant, now)
            case ("GET", "v2", "pods", pod):
                machine = self.fleet.get(tenant, pod)
                return _json(200, pods.shown(machine, now)) if machine else _missing()
            case ("DELETE", "v2", "pods", pod):
                return self._end(self.fleet.get(tenant, pod))
            case ("POST", "v2", "pods", pod, "action"):
                return self._act(call, self.fleet.get(tenant, pod), now)
            case ("GET", "v2", "account", "ssh-keys"):
                return _json(200, {"keys": []})
            case (_, "v2", "pods" | "catalog", *_):
                return _problem(405, "The requested method is not allowed for this path.")
            case _:
                return _missing()

    def _too_often(self, now: datetime) -> bool:
        begun, count = self._window
        fresh = (now - begun).total_seconds() >= 60
        self._window = (now, 1) if fresh else (begun, count + 1)
        return self.calls_a_minute is not None and self._window[1] > self.calls_a_minute

    # -- the catalogue -------------------------------------------------------------------------------------------------

    def _catalog(self, call: Call) -> Reply:
        query = dict(call.query)
        status, fault = schema.catalog_fault(query)
        if fault:
            return _problem(status, fault)
        with_stock = "include" in query
        cloud, count = query.get("cloud", "SECURE"), int(query.get("count", "1"))
        return _json(200, {"gpus": [self._card(card, cloud, count, with_stock=with_stock) for card in CARDS]})

    def _card(self, card: Card, cloud: str, count: int, *, with_stock: bool) -> dict[str, Any]:
        row: dict[str, Any] = {
            "id": card.id,
            "name": card.name,
            "pool": card.pool,
            "manufacturer": card.maker,
            "memory": card.memory,
            "secure": card.secure is not None,
            "community": card.community is not None,
            "price": {
                "secure": self.price_of(card.id, "SECURE") / MICRO,
                "community": self.price_of(card.id, "COMMUNITY") / MICRO,
            },
            "maxCount": {"secure": card.most_secure, "community": card.most_community},
        }
        if with_stock:
            stands = [stand for stand in self._stands(card.id, cloud) if stand.stock >= count]
            row["availability"] = max(
                (_level(stand.stock, count) for stand in stands), default="NONE", key=LEVELS.index
            )
            if cloud == "SECURE" and stands:  # community hosts stand in countries, not in data centres
                row["dataCenters"] = [
                    {**_named(stand.shelf.place), "availability": _level(stand.stock, count)} for stand in stands
                ]
            if card.maker == "NVIDIA":
                row["cudaVersions"] = [{"version": "12.8", "available": bool(stands)}]
        return row

    def price_of(self, gpu_id: str, cloud: str) -> int:
        """Of one GPU, the same in all data centres: the highest any of them wandered to. 0: not sold."""
        return max((stand.hourly_microusd for stand in self._stands(gpu_id, cloud)), default=0)

    def _stands(self, gpu_id: str, cloud: str) -> list[Stand]:
        return [
            stand
            for stand in self.fleet.stands.values()
            if stand.shelf.detail["card"] == gpu_id and stand.shelf.detail["cloud"] == cloud
        ]

    # -- pods ----------------------------------------------------------------------------------------------------------

    def _list(self, tenant: Tenant, now: datetime) -> Reply:
        if self.mishap is Mishap.LIST_NOTHING:
            return _json(200, {"pods": []})
        reply = _json(200, {"pods": [pods.shown(machine, now) for machine in self.fleet.listed(tenant)]})
        if self.mishap is Mishap.LIST_PARTIAL:  # there are no pages: the answer breaks off
            return replace(reply, content=reply.content[: max(len(reply.content) * 2 // 3, 9)])
        return reply

    def _create(self, call: Call, tenant: Tenant, now: datetime) -> Reply:
        try:
            body = msgspec.json.decode(call.body)
        except NO_JSON:
            return _problem(400, "request body is not valid JSON")
        if found := schema.complaints(body):
            return _problem(422, "Request validation failed.", errors=found)
        if rule := schema.broken_rule(body):
            return _problem(400, rule)
        if "templateId" in body:
            return _problem(404, "template not found")
        return self._place(body, tenant, now)

    def _place(self, body: dict[str, Any], tenant: Tenant, now: datetime) -> Reply:
        gpu, cloud = body.get("gpu", {}), body.get("cloud", "SECURE")
        card, count = card_of(gpu.get("id", "")), gpu.get("count", 1)
        if "gpu" in body and card is None:
            return _problem(400, f"gpu type {gpu['id']} does not exist")
        if card is not None and count > (card.most_secure if cloud == "SECURE" else card.most_community):
            return _problem(400, f"gpu.count exceeds the maximum for {card.id}")
        wanted = body.get("dataCenterIds") or [None]
        stands = [stand for place in wanted for stand in self._stands(gpu.get("id", ""), cloud) if _at(stand, place)]
        free = [stand for stand in stands if stand.stock >= count or self.mishap is Mishap.SOLD_TWICE]
        if not free:
            return _problem(400, NOTHING_LEFT)
        detail = (*body.items(), ("count", count))
        order = Wanted(free[0].shelf.id, body["name"], detail=detail)
        try:
            machine = self.fleet.rent(tenant, order, self.mishap)
        except Empty:
            return _problem(400, NOTHING_LEFT)
        except Broke:
            return _problem(402, "insufficient balance: add funds to deploy this pod")
        if self.mishap is Mishap.ERROR_WITH_ID:
            return _problem(500, "the pod was created, and something went wrong", id=machine.id)
        return _json(201, pods.shown(machine, now))

    def _take_gpus(self, machine: Machine, before: Phase) -> None:
        """A pod of n GPUs takes n from its shelf, costs n times the price, and gives n back."""
        count = machine.detail.get("count", 1)
        stand = self.fleet.stands[machine.shelf.id]
        if before is Phase.GONE and machine.phase is Phase.STARTING:
            machine.shelf = _times(machine, count)
            machine.rate_microusd = self.price_of(machine.shelf.detail["card"], machine.shelf.detail["cloud"]) * count
            machine.idle_rate_microusd *= count
            machine.charge(machine.rate_microusd, machine.created_at)
            stand.stock = max(stand.stock - (count - 1), 0)
        elif machine.phase is Phase.GONE:
            stand.stock += count - 1

    def _end(self, machine: Machine | None) -> Reply:
        if machine is None or self.mishap is Mishap.DELETE_UNKNOWN:
            return _missing()
        self.fleet.end(machine, self.mishap)
        return Reply(204, b"", _limits())

    def _act(self, call: Call, machine: Machine | None, now: datetime) -> Reply:
        try:
            body = msgspec.json.decode(call.body)
        except NO_JSON:
            return _problem(400, "request body is not valid JSON")
        actions = ("start", "stop", "restart", "terminate")
        if not isinstance(body, dict) or set(body) != {"action"} or body["action"] not in actions:
            return _problem(422, "Request validation failed.", errors=[{"location": "body", "message": "bad action"}])
        if machine is None:
            return _missing()
        if body["action"] not in pods.ACTIONS[pods.status_of(machine, now)]:
            return _problem(409, f"{body['action']} is not a valid transition from the current status")
        match body["action"]:
            case "terminate":
                return self._end(machine)
            case "stop":
                self.fleet.stop(machine, now, "stopped")
            case "start":
                self.fleet.start(machine, now)
            case _:
                pass  # a restart changes nothing that is shown
        return Reply(204, b"", _limits())


LEVELS = ("NONE", "LOW", "MEDIUM", "HIGH")


def _level(stock: int, count: int) -> str:
    return LEVELS[min(stock // count, 1) + (stock >= 3 * count) + (stock >= 6 * count)]


def _at(stand: Stand, place: str | None) -> bool:
    return place is None or stand.shelf.place == place


def _times(machine: Machine, count: int) -> Any:
    shelf = machine.shelf
    return replace(shelf, gpu_count=count, vcpus=shelf.vcpus * count, memory_gib=shelf.memory_gib * count)


def _named(centre_id: str) -> dict[str, str]:
    name = next((centre.name for centre in CENTRES if centre.id == centre_id), centre_id)
    return {"id": centre_id, "name": name}


def _centre(centre_id: str) -> dict[str, Any]:
    continent = next(centre.continent for centre in CENTRES if centre.id == centre_id)
    rest = {"globalNetwork": True, "networkVolumeTypes": ["STANDARD"], "compliance": ["SOC_2_TYPE_2"]}
    return {**_named(centre_id), "region": continent, **rest}


def _limits() -> Pairs:
    return (("RateLimit", '"minute";r=59;t=60'), ("RateLimit-Policy", POLICY))


def _json(status: int, value: Any) -> Reply:
    return Reply(status, msgspec.json.encode(value), (("Content-Type", "application/json"), *_limits()))


def _missing() -> Reply:
    return _problem(404, "resource not found")


def _problem(status: int, detail: str, headers: Pairs = (), **more: Any) -> Reply:
    body = {"title": TITLES[status], "status": status, "detail": detail, **more}
    return Reply(status, msgspec.json.encode(body), (("Content-Type", "application/problem+json"), *headers))
