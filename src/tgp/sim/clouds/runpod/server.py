"""RunPod's REST v2 over the fleet: catalogue, pods, actions."""

from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any
from urllib.parse import unquote

import msgspec

from tgp.ports.clock import Clock
from tgp.ports.http import NO_JSON, Call, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import Broke, Fleet, Habits, OutOfStock, Stand, WantedMachine
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.runpod import answers, catalog, paging, pods, schema
from tgp.sim.clouds.runpod.market import card_of, products
from tgp.sim.clouds.simulator import Simulator

KEY = "rpa_SIM5ECRET0K3Y0F0RUNP0D0ABCDEFGH"
ID_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
NOTHING_LEFT = "There are no instances currently available with the requested specifications. Please try again later."
MOST_BYTES = 102_400  # of an order
MINUTE = 60  # seconds, and calls within them that the headers report where no limit is set


def _new_id(luck: Random) -> str:
    return "".join(luck.choice(ID_LETTERS) for _ in range(14))


class RunPodSimulator(Simulator):
    provider = "runpod"
    key = KEY

    def __init__(self, clock: Clock, seed: int | str) -> None:
        fleet = Fleet(clock, f"{seed}/runpod", products(), habits=Habits(list_lag=(0.0, 5.0)), new_id=_new_id)
        super().__init__(fleet, f"{seed}/runpod")
        fleet.accounts.open(Tenant("user_2sim0first", "the first account"), KEY)
        fleet.listen(self._take_gpus)
        self.calls_a_minute: int | None = None  # None: no limit
        self.page_rows = paging.MOST_ROWS  # a page may be shorter than it was asked to be
        self._fails_at = ""  # the cursor of a page that will not come
        self._window: tuple[datetime, int] = (clock.now(), 0)

    # -- words ---------------------------------------------------------------------------------------------------------

    def verb_of(self, call: Call) -> CloudVerb:
        match (call.method, *call.path.strip("/").split("/")):
            case ("GET", "v2", "catalog", *_):
                return CloudVerb.OFFERS
            case ("GET", "v2", "pods"):
                return CloudVerb.LIST
            case ("POST", "v2", "pods"):
                return CloudVerb.LAUNCH
            case ("GET", "v2", "pods", _):
                return CloudVerb.STATUS
            case ("DELETE", "v2", "pods", _):
                return CloudVerb.TERMINATE
            case ("POST", "v2", "pods", _, "action"):
                return CloudVerb.TERMINATE if b"terminate" in call.body else CloudVerb.OTHER
            case ("GET", "v2", "account", *_):
                return CloudVerb.ACCOUNT
            case _:
                return CloudVerb.OTHER

    def stranger(self, call: Call) -> Reply:
        raw = "missing bearer token" if not self.key_of(call) else "invalid bearer token"
        return answers.problem(401, raw)

    def busy(self) -> Reply:
        slow = (("Retry-After", "12"), *answers.limits(0, 12))
        return answers.problem(429, "rate limit exceeded for the minute window", headers=slow)

    def failure(self) -> Reply:
        return answers.problem(500, "an unexpected error occurred")

    def retired(self) -> Reply:
        return answers.problem(410, "this endpoint has been retired")

    # -- routes --------------------------------------------------------------------------------------------------------

    def route(self, call: Call, verb: CloudVerb, tenant: Tenant | None) -> Reply:  # noqa: ARG002 - the path says more
        assert tenant is not None, "nothing is public here"
        now = self.fleet.advance()
        left, seconds = self._left_of_the_minute(now)
        if left < 0:
            return self.busy()
        reply = self._routed(call, tenant, now)
        return replace(reply, headers=(*reply.headers, *answers.limits(left, seconds)))

    def _routed(self, call: Call, tenant: Tenant, now: datetime) -> Reply:
        parts = call.path.strip("/").split("/")
        match (call.method, *parts):
            case ("GET", "v2", "catalog", "gpus", *one) if len(one) <= 1:
                return self._catalog(call, *one)
            case ("GET", "v2", "catalog", "datacenters"):
                return self._centres(call)
            case ("GET", "v2", "pods"):
                return self._list(call, tenant, now)
            case ("POST", "v2", "pods"):
                return self._create(call, tenant, now)
            case ("GET", "v2", "pods", pod):
                machine = self.fleet.get(tenant, pod)
                return answers.json(200, pods.shown(machine, now)) if machine else answers.missing()
            case ("PATCH", "v2", "pods", pod):
                return self._change(call, self.fleet.get(tenant, pod), now)
            case ("DELETE", "v2", "pods", pod):
                return self._end(self.fleet.get(tenant, pod))
            case ("POST", "v2", "pods", pod, "action"):
                return self._act(call, self.fleet.get(tenant, pod), now)
            case ("GET", "v2", "account", "ssh-keys"):
                return answers.json(200, {"keys": []})
            case _:
                return answers.not_here(parts)

    def _left_of_the_minute(self, now: datetime) -> tuple[int, int]:
        """Calls, below zero where this was one too many, and seconds."""
        begun, count = self._window
        passed = (now - begun).total_seconds()
        self._window = (now, 1) if passed >= MINUTE else (begun, count + 1)
        if self.calls_a_minute is None:
            return MINUTE - 1, MINUTE
        return self.calls_a_minute - self._window[1], max(int(MINUTE - (now - self._window[0]).total_seconds()), 1)

    # -- the catalogue -------------------------------------------------------------------------------------------------

    def _catalog(self, call: Call, gpu_id: str = "") -> Reply:
        """All cards, or the one of that id."""
        query = dict(call.query)
        status, fault = schema.catalog_fault(query)
        if fault:
            return answers.problem(status, fault)
        if not gpu_id:
            return answers.json(200, {"gpus": catalog.gpus(self._stands, query)})
        card = card_of(unquote(gpu_id))
        return answers.json(200, catalog.shown(card, self._stands, query)) if card else answers.missing()

    def _centres(self, call: Call) -> Reply:
        query = dict(call.query)
        status, fault = schema.centres_fault(query)
        if fault:
            return answers.problem(status, fault)
        return answers.json(200, {"dataCenters": catalog.centres(self._stands, query)})

    def _stands(self, gpu_id: str, cloud: str) -> list[Stand]:
        return [
            stand
            for stand in self.fleet.stands.values()
            if stand.product.detail["card"] == gpu_id and stand.product.detail["cloud"] == cloud
        ]

    # -- pods ----------------------------------------------------------------------------------------------------------

    def _list(self, call: Call, tenant: Tenant, now: datetime) -> Reply:
        """Newest first, by pages. A failure of the second is announced by the first."""
        query = paging.page_request_of(call, tenant)
        if isinstance(query, str):
            return answers.invalid([query])
        if query.cursor and query.cursor == self._fails_at:
            self._fails_at = ""
            return self.failure()
        machines = [] if self.fault is CloudFault.LIST_NOTHING else self.fleet.listed(tenant)
        page = paging.cut(machines, replace(query, rows=min(query.rows, self.page_rows)), tenant)
        if self.fault is CloudFault.LIST_PARTIAL:
            self._fails_at = page.cursor or paging.cursor_of(tenant, machines[-1] if machines else None)
            page = replace(page, cursor=self._fails_at)
        shown = [pods.shown(machine, now) for machine in page.machines]
        raw = {"nextCursor": page.cursor or None, "hasNextPage": bool(page.cursor)}
        return answers.json(200, {"pods": shown, "pagination": raw})

    def _create(self, call: Call, tenant: Tenant, now: datetime) -> Reply:
        if len(call.body) > MOST_BYTES:
            return answers.problem(413, f"request body is larger than {MOST_BYTES} bytes")
        try:
            body = msgspec.json.decode(call.body)
        except NO_JSON:
            return answers.no_json()
        if found := schema.complaints(body):
            return answers.invalid(found)
        if rule := schema.broken_rule(body):
            return answers.problem(400, rule)
        if "templateId" in body:
            return answers.problem(404, "template not found")
        return self._place(body, tenant, now)

    def _place(self, body: dict[str, Any], tenant: Tenant, now: datetime) -> Reply:
        gpu, cloud = body.get("gpu", {}), body.get("cloud", "SECURE")
        card, count = card_of(gpu.get("id", "")), gpu.get("count", 1)
        if "gpu" in body and card is None:
            return answers.problem(400, f"gpu type {gpu['id']} does not exist")
        if card is not None and count > (card.most_secure if cloud == "SECURE" else card.most_community):
            return answers.problem(400, f"gpu.count exceeds the maximum for {card.id}")
        if card is not None and not catalog.suits(card, gpu):
            return answers.problem(400, NOTHING_LEFT)
        wanted = body.get("dataCenterIds") or [None]
        stands = [stand for place in wanted for stand in self._stands(gpu.get("id", ""), cloud) if _at(stand, place)]
        free = [stand for stand in stands if stand.stock >= count or self.fault is CloudFault.SOLD_TWICE]
        if not free:
            return answers.problem(400, NOTHING_LEFT)
        detail = (*body.items(), ("count", count))
        order = WantedMachine(free[0].product.id, body["name"], detail=detail)
        try:
            machine = self.fleet.rent(tenant, order, self.fault)
        except OutOfStock:
            return answers.problem(400, NOTHING_LEFT)
        except Broke:
            return answers.problem(402, "insufficient balance: add funds to deploy this pod")
        if self.fault is CloudFault.ERROR_WITH_ID:
            return answers.problem(500, "the pod was created, and something went wrong", id=machine.id)
        return answers.json(201, pods.shown(machine, now))

    def _take_gpus(self, machine: SimulatedMachine, before: Phase) -> None:
        """A pod of n GPUs takes n from its product, costs n times the price, and gives n back."""
        count = machine.detail.get("count", 1)
        stand = self.fleet.stands[machine.product.id]
        if before is Phase.GONE and machine.phase is Phase.STARTING:
            machine.product = _times(machine, count)
            machine.rate_microusd = (
                catalog.price_of(self._stands(machine.product.detail["card"], machine.product.detail["cloud"])) * count
            )
            machine.idle_rate_microusd *= count
            machine.charge(machine.rate_microusd, machine.created_at)
            stand.stock = max(stand.stock - (count - 1), 0)
        elif machine.phase is Phase.GONE:
            stand.stock += count - 1

    def _end(self, machine: SimulatedMachine | None) -> Reply:
        if machine is None or self.fault is CloudFault.DELETE_UNKNOWN:
            return answers.missing()
        self.fleet.end(machine, self.fault)
        return Reply(204)

    def _act(self, call: Call, machine: SimulatedMachine | None, now: datetime) -> Reply:
        try:
            body = msgspec.json.decode(call.body)
        except NO_JSON:
            return answers.no_json()
        actions = ("start", "stop", "restart", "terminate")
        if not isinstance(body, dict) or set(body) != {"action"} or body["action"] not in actions:
            return answers.invalid([f"$.action: value must be one of {', '.join(actions)}"])
        if machine is None:
            return answers.missing()
        locked = machine.detail.get("locked", False) and body["action"] in ("stop", "restart")
        if locked or body["action"] not in pods.ACTIONS[pods.status_of(machine, now)]:
            return answers.problem(409, f"{body['action']} is not a valid transition from the current status")
        match body["action"]:
            case "terminate":
                return self._end(machine)
            case "stop":
                self.fleet.stop(machine, now, "stopped")
            case "start":
                self.fleet.start(machine, now)
            case _:
                pass  # a restart changes nothing that is shown
        return answers.json(200, pods.shown(machine, now))

    def _change(self, call: Call, machine: SimulatedMachine | None, now: datetime) -> Reply:
        try:
            body = msgspec.json.decode(call.body)
        except NO_JSON:
            return answers.no_json()
        if found := schema.complaints_of_change(body):
            return answers.invalid(found)
        if machine is None:
            return answers.missing()
        if set(body.get("mounts", {})) - set(machine.detail.get("mounts", {})):
            return answers.problem(400, "the kind of a mount is fixed at create")
        machine.name = body.get("name", machine.name)
        machine.detail.update((key, value) for key, value in body.items() if key != "name" and value != {})
        return answers.json(200, pods.shown(machine, now))


def _at(stand: Stand, place: str | None) -> bool:
    return place is None or stand.product.place == place


def _times(machine: SimulatedMachine, count: int) -> Any:
    product = machine.product
    return replace(product, gpu_count=count, vcpus=product.vcpus * count, memory_gib=product.memory_gib * count)
