"""The provider of the simulated world: a small JSON API over the fleet engine.

    GET    /v1/offers                      {"offers": [...]}
    GET    /v1/machines?limit=&after=      {"machines": [...], "next": "<id>" or null}
    POST   /v1/machines                    201 {"machine": {...}}
    GET    /v1/machines/<id>               {"machine": {...}}
    DELETE /v1/machines/<id>               202 {"machine": {...}}
    GET    /v1/account                     {"account": {...}}

An error is {"error": {"code", "message"}}. No key: the account "demo", for trying things out.
"""

from base64 import b64decode
from binascii import Error as NotBase64
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from tgp.core.model.offer import Trust
from tgp.ports.clock import Clock
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import Broke, Fleet, Habits, Outbid, OutOfStock, Stand, WantedMachine
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.clouds.stock import Product

KEY = "simulated-key-of-the-first-account"
BALANCE_MICROUSD = 50_000 * 1_000_000
MOST_ROWS = 100  # on a page
NAME_MAX = 63
TAGS_MAX = 32
USER_DATA_MAX = 64 << 10
BUSY_FOR = 7.0  # seconds that it asks for, where it has too much to do
JSON = (("Content-Type", "application/json"),)
ORDER_FIELDS = frozenset(
    {"type", "place", "market", "name", "tags", "user_data", "bid_usd_per_hour", "image", "disk_gib"}
)


@dataclass(frozen=True, slots=True)
class MachineModel:
    """One kind of machine, before it stands anywhere."""

    type: str
    gpu: str
    gpus: int
    gpu_memory_gib: int
    vcpus: int
    memory_gib: int
    disk_gib: int
    dollars: float  # an hour; what such machines cost in 2026, roughly


MODELS = (
    MachineModel("t4.1", "T4", 1, 16, 4, 16, 100, 0.24),
    MachineModel("l4.1", "L4", 1, 24, 8, 32, 200, 0.48),
    MachineModel("rtx3090.1", "RTX3090", 1, 24, 8, 32, 200, 0.29),
    MachineModel("rtx4090.1", "RTX4090", 1, 24, 12, 48, 250, 0.44),
    MachineModel("rtx4090.2", "RTX4090", 2, 24, 24, 96, 500, 0.87),
    MachineModel("a10.1", "A10", 1, 24, 24, 200, 500, 0.75),
    MachineModel("a6000.1", "A6000", 1, 48, 14, 100, 400, 0.80),
    MachineModel("l40s.1", "L40S", 1, 48, 16, 96, 400, 0.99),
    MachineModel("l40s.4", "L40S", 4, 48, 64, 384, 1_600, 3.92),
    MachineModel("a100-80.1", "A100-80GB-SXM", 1, 80, 22, 120, 512, 1.59),
    MachineModel("a100-80.8", "A100-80GB-SXM", 8, 80, 176, 960, 4_096, 12.48),
    MachineModel("h100.1", "H100-SXM", 1, 80, 26, 225, 1_024, 2.69),
    MachineModel("h100.8", "H100-SXM", 8, 80, 208, 1_800, 8_192, 20.72),
    MachineModel("h200.8", "H200-SXM", 8, 141, 208, 2_000, 8_192, 28.40),
)
PLACES = {  # name → country, state, and its price factor
    "us-west-1": ("US", "OR", 1.00),
    "us-east-1": ("US", "VA", 1.02),
    "eu-central-1": ("DE", "", 1.09),
    "eu-north-1": ("SE", "", 0.98),
    "ap-northeast-1": ("JP", "", 1.17),
}
SPOT_SHARE = (0.35, 0.60)  # of the price on demand
SELDOM = 0.35  # of model and place do not meet
STOCK = (0, 1, 1, 2, 3, 4, 6, 8)  # 0: sold out when the world begins
OWNERS = {Trust.DATACENTER: "provider", Trust.VERIFIED: "checked", Trust.ANY: "unverified"}
BOOT_SECONDS = (45.0, 210.0)


def simulator(clock: Clock, seed: int | str) -> Simulator:
    return SimulatedProvider(clock, seed)


def catalogue(seed: int | str) -> list[Product]:
    """A market drawn by seed; the first model stands everywhere, so that none is empty."""
    luck = Random(f"{seed}/catalogue")
    products = []
    for model in MODELS:
        for place in PLACES:
            if model is MODELS[0] or luck.random() >= SELDOM:
                products.append(_product(model, place, luck))
    return products


def _product(model: MachineModel, place: str, luck: Random) -> Product:
    country, state, factor = PLACES[place]
    price = int(model.dollars * factor * luck.uniform(0.97, 1.05) * 1_000_000)
    spot = int(price * luck.uniform(*SPOT_SHARE)) if luck.random() < 0.7 else None
    return Product(
        sku=model.type,
        place=place,
        gpu=model.gpu,
        gpu_count=model.gpus,
        gpu_memory_gib=model.gpu_memory_gib,
        vcpus=model.vcpus,
        memory_gib=model.memory_gib,
        disk_gib=model.disk_gib,
        hourly_microusd=price,
        spot_microusd=spot,
        stock=luck.choice(STOCK),
        country=country,
        boot_seconds=round(luck.uniform(*BOOT_SECONDS), 1),
        detail={"state": state},
    )


class BadOrder(Exception):
    """What is wrong with it."""


class SimulatedProvider(Simulator):
    provider = "simulated"
    key = KEY

    def __init__(self, clock: Clock, seed: int | str) -> None:
        fleet = Fleet(
            clock,
            seed,
            catalogue(seed),
            habits=Habits(list_lag=(0.0, 5.0)),
            new_id=lambda luck: f"sim-{luck.getrandbits(48):012x}",
        )
        super().__init__(fleet, seed)
        fleet.accounts.open(Tenant("demo", "Demonstration", BALANCE_MICROUSD), KEY, "")
        self.busy_for = BUSY_FOR
        self._fails_after: str | None = None  # the cursor whose page fails

    def verb_of(self, call: Call) -> CloudVerb:
        match call.method, call.path.split("/")[2:]:
            case "GET", ["offers"]:
                return CloudVerb.OFFERS
            case "GET", ["machines"]:
                return CloudVerb.LIST
            case "POST", ["machines"]:
                return CloudVerb.LAUNCH
            case "GET", ["machines", _]:
                return CloudVerb.STATUS
            case "DELETE", ["machines", _]:
                return CloudVerb.TERMINATE
            case "GET", ["account"]:
                return CloudVerb.ACCOUNT
        return CloudVerb.OTHER

    def is_public(self, call: Call) -> bool:
        return self.verb_of(call) is CloudVerb.OFFERS

    def route(self, call: Call, verb: CloudVerb, tenant: Tenant | None) -> Reply:
        if verb is CloudVerb.OFFERS:
            return _json(200, {"offers": self._offers()})
        assert tenant is not None, "only offers are public"
        match verb:
            case CloudVerb.LIST:
                return self._list(call, tenant)
            case CloudVerb.LAUNCH:
                return self._launch(call, tenant)
            case CloudVerb.STATUS | CloudVerb.TERMINATE:
                return self._one(call, verb, tenant)
            case CloudVerb.ACCOUNT:
                return _json(200, {"account": self._account(tenant)})
        return _error(404, "no_such_page", f"there is no {call.method} {call.path}")

    # -- selling -------------------------------------------------------------------------------------------------------

    def _offers(self) -> list[dict[str, Any]]:
        rows = []
        for stand in self.fleet.selling():
            rows.append(_offer(stand, "on-demand", stand.hourly_microusd))
            if stand.spot_microusd is not None:
                beside = {"on_demand_usd_per_hour": stand.hourly_microusd / 1_000_000}
                rows.append(_offer(stand, "spot", stand.spot_microusd) | beside)
        return rows

    def _launch(self, call: Call, tenant: Tenant) -> Reply:
        try:
            wanted = _wanted(call.body)
            machine = self.fleet.rent(tenant, wanted, self.fault)
        except BadOrder as error:
            return _error(422, "bad_order", str(error))
        except OutOfStock:
            return _error(409, "sold_out", "none of these is left")
        except Outbid:
            return _error(409, "outbid", "the bid is below the price")
        except Broke:
            return _error(402, "no_balance", "the balance does not allow it")
        if self.fault is CloudFault.ERROR_WITH_ID:
            failed = {"code": "boot_failed", "message": "the machine did not come up"}
            return _json(500, {"error": failed, "machine": {"id": machine.id}})
        return _json(201, {"machine": _row(machine)})

    # -- looking -------------------------------------------------------------------------------------------------------

    def _list(self, call: Call, tenant: Tenant) -> Reply:
        asked = call.parameter("limit") or str(MOST_ROWS)
        if not asked.isdigit() or not 1 <= int(asked) <= MOST_ROWS:
            return _error(400, "bad_page", f"limit is a number from 1 to {MOST_ROWS}")
        after = call.parameter("after")
        if after and after not in self.fleet.machines:
            return _error(400, "bad_page", "there is no such page")
        if self._fails_after is not None and after == self._fails_after:
            self._fails_after = None
            return self.failure()
        rows = [] if self.fault is CloudFault.LIST_NOTHING else self._after(after, tenant)
        size = int(asked)
        if self.fault is CloudFault.LIST_PARTIAL:
            size = max(1, min(size, len(rows) // 2))
        page = rows[:size]
        following = page[-1].id if len(rows) > size else None
        if self.fault is CloudFault.LIST_PARTIAL:
            if not page:
                return self.failure()
            following = self._fails_after = page[-1].id
        return _json(200, {"machines": [_row(machine) for machine in page], "next": following})

    def _after(self, cursor: str, tenant: Tenant) -> list[SimulatedMachine]:
        if not cursor:
            return self.fleet.listed(tenant)
        order = list(self.fleet.machines)
        begin = order.index(cursor) + 1
        later = frozenset(order[begin:])
        return [machine for machine in self.fleet.listed(tenant) if machine.id in later]

    def _one(self, call: Call, verb: CloudVerb, tenant: Tenant) -> Reply:
        machine = self.fleet.get(tenant, call.path.split("/")[3])
        if machine is None or self.fault is CloudFault.DELETE_UNKNOWN:
            return _error(404, "no_such_machine", "no machine of yours has this id")
        if verb is CloudVerb.STATUS:
            return _json(200, {"machine": _row(machine)})
        self.fleet.end(machine, self.fault)
        return _json(202, {"machine": _row(machine)})

    def _account(self, tenant: Tenant) -> dict[str, Any]:
        balance = self.fleet.balance_microusd(tenant, self.fleet.advance())
        raw = None if balance is None else balance / 1_000_000
        return {"id": tenant.id, "name": tenant.name, "balance_usd": raw}

    # -- refusals ------------------------------------------------------------------------------------------------------

    def stranger(self, call: Call) -> Reply:  # noqa: ARG002 - whatever was asked
        return _error(401, "bad_key", "unknown API key")

    def busy(self) -> Reply:
        return _error(429, "slow_down", "too many requests", ("Retry-After", f"{self.busy_for:.0f}"))

    def failure(self) -> Reply:
        return _error(500, "internal", "something broke")

    def retired(self) -> Reply:
        return _error(410, "retired", "this list is no more")


def _offer(stand: Stand, market: str, microusd: int) -> dict[str, Any]:
    product = stand.product
    return {
        "type": product.sku,
        "place": product.place,
        "country": product.country,
        "state": product.detail["state"],
        "market": market,
        "gpu": product.gpu,
        "gpus": product.gpu_count,
        "gpu_memory_gib": product.gpu_memory_gib,
        "vcpus": product.vcpus,
        "memory_gib": product.memory_gib,
        "disk_gib": product.disk_gib,
        "usd_per_hour": microusd / 1_000_000,
        "stock": stand.stock,
        "owner": OWNERS[product.trust],
    }


def _wanted(content: bytes) -> WantedMachine:
    """The order as the fleet understands it; everything that the page above does not name is refused."""
    try:
        body = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadOrder("an order is JSON") from None
    if not isinstance(body, dict):
        raise BadOrder("an order is an object")
    if unknown := sorted(set(body) - ORDER_FIELDS):
        raise BadOrder(f"unknown field {unknown[0]}")
    market = body.get("market")
    if market not in ("on-demand", "spot"):
        raise BadOrder("market is on-demand or spot")
    return WantedMachine(
        product=f"{_text(body, 'type', 64)}@{_text(body, 'place', 64)}",
        name=_text(body, "name", NAME_MAX),
        spot=market == "spot",
        bid_microusd=_bid(body, market),
        tags=_tags(body.get("tags", {})),
        user_data=_user_data(body.get("user_data", "")),
        detail=(("image", body.get("image", "")), ("disk_gib", body.get("disk_gib", 0))),
    )


def _text(body: dict[str, Any], name: str, longest: int) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= longest:
        raise BadOrder(f"{name} is a text of at most {longest} characters")
    return value


def _bid(body: dict[str, Any], market: str) -> int | None:
    raw = body.get("bid_usd_per_hour")
    if raw is None:
        return None
    try:
        bid = int(float(raw) * 1_000_000) if isinstance(raw, str) else -1
    except ValueError:
        bid = -1
    if market != "spot" or bid <= 0:
        raise BadOrder("bid_usd_per_hour is a decimal text, for spot machines only")
    return bid


def _tags(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or len(value) > TAGS_MAX or not all(isinstance(v, str) for v in value.values()):
        raise BadOrder(f"tags are an object of at most {TAGS_MAX} texts")
    return tuple(value.items())


def _user_data(value: Any) -> bytes:
    try:
        data = b64decode(value, validate=True) if isinstance(value, str) else None
    except NotBase64:
        data = None
    if data is None or len(data) > USER_DATA_MAX:
        raise BadOrder(f"user_data is base64 of at most {USER_DATA_MAX} bytes")
    return data


def _row(machine: SimulatedMachine) -> dict[str, Any]:
    reachable = machine.phase is Phase.RUNNING and not machine.addressless
    return {
        "id": machine.id,
        "name": machine.name,
        "tags": machine.tags,
        "state": machine.phase.value,
        "reason": machine.why,
        "interrupted": machine.interrupted,
        "type": machine.product.sku,
        "place": machine.product.place,
        "market": "spot" if machine.spot else "on-demand",
        "usd_per_hour": machine.rate_microusd / 1_000_000,
        "created_at": machine.created_at.isoformat(),
        "ends_at": machine.ends_at.isoformat() if machine.ends_at is not None else None,
        "public_ip": machine.public_ip if reachable else None,
        "private_ip": machine.private_ip if reachable else None,
    }


def _json(status: int, value: Any, *headers: tuple[str, str]) -> Reply:
    return Reply(status, msgspec.json.encode(value), (*JSON, *headers))


def _error(status: int, code: str, message: str, *headers: tuple[str, str]) -> Reply:
    return _json(status, {"error": {"code": code, "message": message}}, *headers)
