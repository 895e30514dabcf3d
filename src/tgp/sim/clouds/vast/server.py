"""The simulated Vast.ai behind the `Http` port.

POST   /api/v0/bundles/                 {"offers": [...]}                             without a key, too
PUT    /api/v0/search/asks/             the same, with the search under `q`
PUT    /api/v0/asks/{ask}/              {"success": true, "new_contract": 123}
GET    /api/v1/instances/               {"success", "instances", "next_token", "total_instances", ...}
GET    /api/v0/instances/               410: retired
GET    /api/v0/instances/{id}/          {"instances": {...}}, or null there
PUT    /api/v0/instances/{id}/          label or state
PUT    /api/v0/instances/bid_price/{id}/
DELETE /api/v0/instances/{id}/          and /api/v0/instances/ with `instance_ids`
GET    /api/v0/instances/filters/, /api/v0/users/current, /api/v0/gpu_names/unique/
"""

from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any
from zlib import crc32

from tgp.ports.clock import Clock
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import Broke, Fleet, Habits, Outbid, OutOfStock, Stand, WantedMachine
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.clouds.stock import Product
from tgp.sim.clouds.vast import contracts, orders
from tgp.sim.clouds.vast.answers import VastError, answer, no_such_instance, object_in, too_frequent
from tgp.sim.clouds.vast.asks import storage_hourly
from tgp.sim.clouds.vast.market import catalogue
from tgp.sim.clouds.vast.pace import VastRateLimit
from tgp.sim.clouds.vast.search import search

KEY = "vast-key-of-the-first-account"
FIRST_CONTRACT = 30_000_000
BALANCE_MICROUSD = 2_000 * 1_000_000
MOST_ASKS = 5000  # in one answer
LONGEST_NUMBER = 18  # digits
LABEL_MAX = 1024  # of a later change
BULK_MAX = 64


def simulator(clock: Clock, seed: int | str) -> "VastSimulator":
    return VastSimulator(clock, seed)


class VastSimulator(Simulator):
    provider = "vast"
    key = KEY

    def __init__(self, clock: Clock, seed: int | str) -> None:
        products = [_dated(product, clock) for product in catalogue(seed)]
        habits = Habits(list_lag=(0.0, 6.0), charges_from_creation=False)
        numbers = count(FIRST_CONTRACT)  # contracts are numbered as they are made
        fleet = Fleet(clock, seed, products, habits=habits, new_id=lambda _: str(next(numbers)))
        super().__init__(fleet, seed)
        fleet.accounts.open(Tenant("48211", "renter", BALANCE_MICROUSD), KEY)
        self.pace = VastRateLimit()  # off until a test turns it on
        self.ssh_keys = True  # has the account one? A virtual machine needs it
        self.most_asks = MOST_ASKS
        self._fails_after: str | None = None  # the token of the page that fails

    # -- whom to ask ---------------------------------------------------------------------------------------------------

    def verb_of(self, call: Call) -> CloudVerb:
        match call.method, _parts(call):
            case ("POST", ["v0", "bundles"]) | ("PUT", ["v0", "search", "asks"]):
                return CloudVerb.OFFERS
            case "PUT", ["v0", "asks", _]:
                return CloudVerb.LAUNCH
            case "GET", ["v1", "instances"]:
                return CloudVerb.LIST
            case "GET", ["v0", "instances", number] if number.isdigit():
                return CloudVerb.STATUS
            case "DELETE", ["v0", "instances", *_]:
                return CloudVerb.TERMINATE
            case "GET", ["v0", "users", "current"]:
                return CloudVerb.ACCOUNT
        return CloudVerb.OTHER

    def is_public(self, call: Call) -> bool:
        return self.verb_of(call) is CloudVerb.OFFERS or _parts(call)[1:2] == ["gpu_names"]

    def key_of(self, call: Call) -> str:
        """The header, or a query parameter: older clients send it so."""
        return super().key_of(call) or call.parameter("api_key")

    def route(self, call: Call, verb: CloudVerb, tenant: Tenant | None) -> Reply:
        if tenant is None and self.key_of(call):
            return _bad_key(404)  # as the search's own page documents it
        slow = self.pace.refusal(verb, self.key_of(call), self.fleet.advance())
        if slow is not None:
            return slow
        try:
            return self._route(call, verb, tenant)
        except VastError as refused:
            return refused.reply

    def _route(self, call: Call, verb: CloudVerb, tenant: Tenant | None) -> Reply:
        if verb is CloudVerb.OFFERS:
            return self._search(call)
        if _parts(call) == ["v0", "gpu_names", "unique"]:
            names = sorted({stand.product.detail["gpu_name"] for stand in self.fleet.selling()})
            return answer({"success": True, "gpu_names": names})
        assert tenant is not None, "all else needs a key"
        match verb:
            case CloudVerb.LAUNCH:
                return self._launch(call, tenant)
            case CloudVerb.LIST:
                return self._list(call, tenant)
            case CloudVerb.STATUS:
                machine = self.fleet.get(tenant, _parts(call)[2])
                now = self.fleet.advance()
                return answer({"instances": contracts.row(machine, now) if machine is not None else None})
            case CloudVerb.TERMINATE:
                return self._terminate(call, tenant)
            case CloudVerb.ACCOUNT:
                return answer({**self._account(tenant), "api_key": self.key_of(call)})  # Vast really repeats it
        return self._other(call, tenant)

    def _other(self, call: Call, tenant: Tenant) -> Reply:
        match call.method, _parts(call):
            case "GET", ["v0", "instances"]:
                return self.retired()
            case "GET", ["v0", "instances", "filters"]:
                columns = ("actual_status", "verification", "gpu_name")
                return answer({"filters": [{name: row[name] for name in columns} for row in self._rows(tenant)]})
            case "PUT", ["v0", "instances", "bid_price", number]:
                return self._change_bid(call, self._machine(tenant, number))
            case "PUT", ["v0", "instances", number]:
                return self._change(call, self._machine(tenant, number))
        return answer({"success": False, "error": "not_found", "msg": f"no {call.method} {call.path}"}, 404)

    # -- the market ----------------------------------------------------------------------------------------------------

    def _search(self, call: Call) -> Reply:
        body = object_in(call)
        if _parts(call) == ["v0", "search", "asks"]:
            body = body.get("q", {})
        if not isinstance(body, dict):
            raise VastError(400, "bad_request", "q is no object")
        return answer(search(body, self.fleet.selling(), self.fleet.advance(), self.most_asks))

    def _launch(self, call: Call, tenant: Tenant) -> Reply:
        ask = _parts(call)[2]
        stand = self._stand(ask)
        order = orders.read(object_in(call), stand.product, ssh_keys=self.ssh_keys)
        wanted = _wanted(order, stand)
        before = len(self.fleet.machines)
        try:
            machine = self.fleet.rent(tenant, wanted, self.fault)
        except OutOfStock:
            raise _sold(ask) from None
        except Broke:
            raise VastError(400, "insufficient_credit", "Insufficient credits: add some to rent") from None
        except Outbid:
            if order.cancel_unavail:
                raise _sold(ask) from None
            return self._outbid(tenant, wanted, order)
        self._add_disk(list(self.fleet.machines.values())[before:], order)
        if self.fault is CloudFault.ERROR_WITH_ID:
            raise VastError(400, "start_failed", "the instance did not start", new_contract=int(machine.id))
        return answer({"success": True, "new_contract": int(machine.id)})

    def _outbid(self, tenant: Tenant, wanted: WantedMachine, order: orders.VastOrder) -> Reply:
        """A bid too low, that may wait: an error, and a stopped machine whose disk costs."""
        machine = self.fleet.rent(tenant, replace(wanted, bid_microusd=None), self.fault)
        machine.bid_microusd = wanted.bid_microusd
        self._add_disk([machine], order)
        self.fleet.interrupt(machine, self.fleet.advance())
        raise VastError(400, "invalid_price", "the bid is too low to start", new_contract=int(machine.id))

    def _add_disk(self, made: list[SimulatedMachine], order: orders.VastOrder) -> None:
        """The disk costs from the beginning, in every state; the GPUs from when it runs."""
        now = self.fleet.advance()
        for machine in made:
            disk = round(storage_hourly(self.fleet.stands[machine.product.id], order.disk) * 1_000_000)
            machine.rate_microusd += disk
            machine.idle_rate_microusd = disk
            machine.charge(disk, now)

    def _stand(self, ask: str) -> Stand:
        if not ask.isdigit() or len(ask) > LONGEST_NUMBER:
            raise VastError(400, "invalid_args", "error 400: Invalid args: 'id' must be a valid offer ID")
        for stand in self.fleet.selling():
            if stand.product.sku == ask:
                return stand
        message = f"error 404: no_such_ask Instance type by id {ask} is not available."
        raise VastError(404, "invalid_args", message, ask_id=int(ask))

    # -- contracts -----------------------------------------------------------------------------------------------------

    def _rows(self, tenant: Tenant) -> list[dict[str, Any]]:
        now = self.fleet.advance()
        return [contracts.row(machine, now) for machine in self.fleet.listed(tenant)]

    def _list(self, call: Call, tenant: Tenant) -> Reply:
        token = call.parameter("after_token")
        if self._fails_after is not None and token == self._fails_after:
            self._fails_after = None
            return self.failure()
        rows = [] if self.fault is CloudFault.LIST_NOTHING else self._rows(tenant)
        found = contracts.listing(call, rows)
        if self.fault is CloudFault.LIST_PARTIAL:
            page = found["instances"][: max(1, len(found["instances"]) // 2)]
            if not page:
                return self.failure()
            self._fails_after = contracts.token_after(page[-1])
            found |= {"instances": page, "instances_found": len(page), "next_token": self._fails_after}
        return answer(found)

    def _machine(self, tenant: Tenant, number: str) -> SimulatedMachine:
        machine = self.fleet.get(tenant, number)
        if machine is None:
            raise no_such_instance(number)
        return machine

    def _change(self, call: Call, machine: SimulatedMachine) -> Reply:
        body = object_in(call)
        now = self.fleet.advance()
        match body:
            case {"label": str(label)} if len(label) <= LABEL_MAX and len(body) == 1:
                machine.name = label
            case {"state": "stopped"}:
                self.fleet.stop(machine, now, "stopped by its renter")
            case {"state": "running"}:
                self.fleet.start(machine, now)
            case _:
                raise VastError(400, "invalid_args", "label is a text, state is running or stopped")
        return answer({"success": True})

    def _change_bid(self, call: Call, machine: SimulatedMachine) -> Reply:
        price = object_in(call).get("price")
        if not machine.spot or not isinstance(price, int | float) or not 0 < price <= 32 * machine.product.gpu_count:
            raise VastError(400, "invalid_price", "price is a bid of an interruptible machine")
        machine.bid_microusd = round(price * 1_000_000)
        machine.rate_microusd = machine.bid_microusd + machine.idle_rate_microusd
        return answer({"success": True})

    def _terminate(self, call: Call, tenant: Tenant) -> Reply:
        parts = _parts(call)
        if len(parts) == 2:
            numbers = object_in(call).get("instance_ids")
            if not isinstance(numbers, list) or not 1 <= len(numbers) <= BULK_MAX:
                raise VastError(400, "invalid_args", "instance_ids is a list of numbers")
        else:
            numbers = parts[2:]
        for number in numbers:
            if not str(number).isdigit():
                raise VastError(400, "invalid_args", "invalid instance_id")
            if self.fault is CloudFault.DELETE_UNKNOWN:
                raise no_such_instance(str(number))
            self.fleet.end(self._machine(tenant, str(number)), self.fault)
        return answer({"success": True})

    def _account(self, tenant: Tenant) -> dict[str, Any]:
        balance = self.fleet.balance_microusd(tenant, self.fleet.advance())
        number = int(tenant.id) if tenant.id.isdigit() else 900_000 + crc32(tenant.id.encode()) % 100_000
        return {
            "id": number,
            "username": tenant.name,
            "email": f"{number}@example.test",
            "credit": (balance or 0) / 1_000_000,
            "balance": 0.0,
            "can_pay": True,
            "billing_creditonly": True,
            "has_billing": True,
            "ssh_key": None,
        }

    # -- refusals ------------------------------------------------------------------------------------------------------

    def stranger(self, call: Call) -> Reply:  # noqa: ARG002 - whatever was asked
        return _bad_key(401)

    def busy(self) -> Reply:
        return too_frequent(4.5, ("Retry-After", "5"))

    def failure(self) -> Reply:
        return answer({"success": False, "error": "server_error", "msg": "Internal error"}, 500)

    def retired(self) -> Reply:
        return answer({"success": False, "error": "deprecated_endpoint", "msg": "use /api/v1/instances/"}, 410)


def _parts(call: Call) -> list[str]:
    """The path without `/api`, with or without a slash at its end."""
    return call.path.strip("/").split("/")[1:]


def _bad_key(status: int) -> Reply:
    return answer({"success": False, "error": "auth_error", "msg": "Invalid user key"}, status)


def _sold(ask: str) -> VastError:
    message = f"error 410: no_such_ask Instance type {ask} is no longer available."
    return VastError(410, "no_such_ask", message, ask_id=int(ask))


def _dated(product: Product, clock: Clock) -> Product:
    ends = clock.now().replace(microsecond=0) + timedelta(days=product.detail["days_left"])
    return replace(product, detail={**product.detail, "ends_at": ends})


def _wanted(order: orders.VastOrder, stand: Stand) -> WantedMachine:
    return WantedMachine(
        stand.product.id,
        order.label,
        spot=order.price_microusd is not None,
        bid_microusd=order.price_microusd,
        user_data=order.onstart.encode(),
        detail=(
            ("image", order.image),
            ("disk", order.disk),
            ("runtype", order.runtype),
            ("env", order.env),
            ("entrypoint", order.onstart if order.runtype == "args" else ""),  # else a script beside it
            ("args", order.args),
            ("vm", order.vm),
        ),
    )
