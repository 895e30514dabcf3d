"""Vultr API v2, mounted at `/v2`: plans, regions, systems, account, snapshots, instances."""

import base64
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import msgspec

from tgp.ports.clock import Clock
from tgp.ports.http import NO_JSON, Call, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import Broke, Fleet, Habits, OutOfStock, Stand, WantedMachine
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.clouds.vultr import answers, orders
from tgp.sim.clouds.vultr.catalogue import DEDICATED, REGIONS, RESERVED_ONLY, WITHOUT_GPU, products

BASE = "/v2"
TALOS_ID = 2284
SNAPSHOT_ID = "5a5cbb71-1c8e-4f0a-9d1b-7a1e05000001"  # of a Talos image, in the first account
CALLS_A_SECOND = 30
HABITS = Habits(
    list_lag=(0.0, 0.0),  # Terraform's provider reads a machine right after it made it; faults lag
    ending=(1.0, 6.0),
    idle_share=1.0,  # a halted machine costs as much
)
SYSTEMS: dict[int, dict[str, Any]] = {
    number: {"id": number, "name": name, "arch": "x64", "family": family}
    for number, name, family in (
        (159, "Custom", "iso"),
        (164, "Snapshot", "snapshot"),
        (2136, "Debian 12 x64 (bookworm)", "debian"),
        (TALOS_ID, "Talos Linux x64", "talos"),
        (2625, "Debian 13 x64 (trixie)", "debian"),
    )
}
ACLS = ["abuse", "alerts", "billing", "firewall", "manage_users", "provisioning", "subscriptions", "subscriptions_view"]
PUBLIC = frozenset({"plans", "plans-metal", "regions", "os"})
EMPTY = {  # what clients list beside machines, always empty here: path → name of the list
    "bare-metals": "bare_metals",
    "blocks": "blocks",
    "firewalls": "firewall_groups",
    "private-networks": "networks",
    "ssh-keys": "ssh_keys",
    "vpcs": "vpcs",
}
NO_SUCH = "Invalid instance-id."
IMPORTING = timedelta(minutes=4)
PACKED = (".xz", ".zst", ".gz", ".bz2", ".zip")  # a raw image, or none: Vultr unpacks nothing
FOR_AN_IMPORT = frozenset({"url", "description", "uefi"})


@dataclass(frozen=True, slots=True)
class Imported:
    description: str
    begun_at: datetime
    done_at: datetime


@dataclass(slots=True)
class VultrLimits:
    """Thirty calls a second, per client."""

    on: bool = False
    _lately: deque[datetime] = field(default_factory=lambda: deque(maxlen=CALLS_A_SECOND))

    def reached(self, now: datetime) -> bool:
        full = len(self._lately) == CALLS_A_SECOND and now - self._lately[0] < timedelta(seconds=1)
        if self.on and not full:
            self._lately.append(now)
        return self.on and full


class VultrSimulator(Simulator):
    provider = "vultr"
    key = "TGPSIMULATEDVULTR0123456789ABCDEFGHIJ"

    def __init__(self, clock: Clock, seed: int | str, habits: Habits = HABITS) -> None:
        super().__init__(Fleet(clock, f"{seed}/vultr", products(), habits=habits, new_id=new_id), seed)
        self.limits = VultrLimits()
        self.systems = dict(SYSTEMS)
        self.snapshots: dict[str, list[str]] = {"account-1": [SNAPSHOT_ID]}
        self.importing = IMPORTING  # that an image takes to be fetched
        self._imported: dict[str, Imported] = {}  # snapshots that came by their address
        self._luck = Random(f"{seed}/vultr snapshots")
        self._clock = clock
        self.fleet.accounts.open(Tenant("account-1", "Simulated"), self.key)

    def verb_of(self, call: Call) -> CloudVerb:
        match (call.method, _below(call.path).split("/")):
            case ("GET", ["plans"]):
                return CloudVerb.OFFERS
            case ("GET", ["instances"]):
                return CloudVerb.LIST
            case ("POST", ["instances"]):
                return CloudVerb.LAUNCH
            case ("GET", ["instances", _]):
                return CloudVerb.STATUS
            case ("DELETE", ["instances", _]):
                return CloudVerb.TERMINATE
            case ("GET", ["account"]):
                return CloudVerb.ACCOUNT
            case _:
                return CloudVerb.OTHER

    def is_public(self, call: Call) -> bool:
        parts = _below(call.path).split("/")
        if parts[-1] == "availability" and self.key_of(call):
            return False  # a customer gets more details, so a key is checked
        return call.method == "GET" and parts[0] in PUBLIC

    def route(self, call: Call, verb: CloudVerb, tenant: Tenant | None) -> Reply:  # noqa: ARG002 - the path says as much
        if self.limits.reached(self._clock.now()):
            return self.busy()
        self._level_prices()
        parts = _below(call.path).split("/")
        if call.method == "GET" and parts[0] in PUBLIC:
            return self._public(call, parts, tenant)
        assert tenant is not None, "the rest is for customers"
        match (call.method, parts):
            case ("GET", ["account"]):
                return self._account(tenant)
            case ("GET", ["instances"]):
                return self._list(call, tenant)
            case ("POST", ["instances"]):
                return self._create(tenant, orders.given(_json(call)))
            case ("POST", ["instances", "halt" | "start" | "reboot" as action]):
                return self._switch_several(tenant, _json(call), action)
            case ("GET" | "PATCH" | "DELETE", ["instances", machine_id]):
                return self._one(call, tenant, machine_id)
            case ("POST", ["instances", machine_id, "halt" | "start" | "reboot" as action]):
                return self._switch(tenant, machine_id, action)
            case ("GET", ["instances", machine_id, "user-data"]):
                return self._user_data(tenant, machine_id)
            case ("GET", [name]) if name in EMPTY:
                return answers.page(call, EMPTY[name], [])
            case ("GET", ["snapshots"]):
                return answers.page(call, "snapshots", [self._snapshot(each) for each in self._snapshots_of(tenant)])
            case ("POST", ["snapshots", "create-from-url"]):
                return self._import(tenant, _json(call))
            case ("GET" | "DELETE", ["snapshots", snapshot_id]):
                return self._one_snapshot(call, tenant, snapshot_id)
            case _:
                return answers.error(404, "Not found.")

    def _public(self, call: Call, parts: list[str], tenant: Tenant | None) -> Reply:
        match parts:
            case ["plans"]:
                return answers.page(call, "plans", self._plans(call.parameter("type") or "all"))
            case ["plans-metal"]:
                return answers.page(call, "plans_metal", [])
            case ["regions"]:
                return answers.page(call, "regions", [answers.region(name) for name in REGIONS])
            case ["regions", place, "availability"] if place in REGIONS:
                stands = self._selling(call.parameter("type") or "all")
                stands = [each for each in stands if each.product.detail["type"] != DEDICATED or tenant is not None]
                found = [stand.product.sku for stand in stands if stand.product.place == place and stand.stock > 0]
                return answers.answer(200, {"available_plans": found})
            case ["os"]:
                return answers.page(call, "os", list(self.systems.values()))
            case _:
                return answers.error(404, "Not found.")

    def _plans(self, kind: str) -> list[dict[str, Any]]:
        rows = answers.plans(self._selling(kind))
        return [*rows, dict(WITHOUT_GPU)] if kind in ("all", "vc2") else rows

    def _selling(self, kind: str) -> list[Stand]:
        return [each for each in self.fleet.selling() if kind in ("all", each.product.detail["type"])]

    def _account(self, tenant: Tenant) -> Reply:
        now = self.fleet.advance()
        account = {
            "name": tenant.name or tenant.id,
            "email": f"{tenant.id}@example.com",
            "acls": ACLS,
            "balance": -(tenant.balance_microusd or 0) / 1_000_000,  # a credit is below zero
            "pending_charges": self.fleet.bill_microusd(tenant, now) / 1_000_000,
            "last_payment_date": "2026-01-01T00:00:00+00:00",
            "last_payment_amount": -50.0,
        }
        return answers.answer(200, {"account": account})

    # -- machines ------------------------------------------------------------------------------------------------------

    def _list(self, call: Call, tenant: Tenant) -> Reply:
        if answers.leads_nowhere(call):
            return self.failure()
        rows = [answers.instance(machine) for machine in self.fleet.listed(tenant)]
        for name in ("label", "region", "main_ip"):
            wanted = call.parameter(name)
            rows = [row for row in rows if not wanted or row[name] == wanted]
        tag = call.parameter("tag")
        rows = [row for row in rows if not tag or tag in row["tags"]]
        if self.fault is CloudFault.LIST_NOTHING:
            rows = []
        return answers.page(call, "instances", rows, breaks=self.fault is CloudFault.LIST_PARTIAL)

    def _create(self, tenant: Tenant, body: Any) -> Reply:
        if words := orders.complaint(body) or self._unknown(tenant, body):
            return answers.error(400, words)
        try:
            machine = self.fleet.rent(tenant, self._wanted(body), self.fault)
        except OutOfStock:
            return answers.error(400, "Plan is not available in the selected region.")
        except Broke:
            return answers.error(400, "You have reached the maximum monthly fee limit for this account.")
        row = answers.instance(machine) | {"default_password": f"v5{machine.id[:8]}!"}
        if self.fault is CloudFault.ERROR_WITH_ID:
            return answers.answer(500, {"error": "Server add failed.", "status": 500, "instance": {"id": machine.id}})
        return answers.answer(202, {"instance": row})

    def _unknown(self, tenant: Tenant, body: dict[str, Any]) -> str:
        """What an order names and is not there; empty: everything is."""
        plan = body["plan"]
        if plan not in {stand.product.sku for stand in self.fleet.selling()} or plan == RESERVED_ONLY:
            return "Invalid plan chosen."
        if "os_id" in body and body["os_id"] not in self.systems:
            return "Invalid OS chosen."
        snapshot_id = body.get("snapshot_id")
        if snapshot_id and (snapshot_id not in self._snapshots_of(tenant) or not self._is_ready(snapshot_id)):
            return "Invalid snapshot chosen."
        return ""

    def _wanted(self, body: dict[str, Any]) -> WantedMachine:
        system = self.systems.get(body.get("os_id", 0), {})
        kept = ("hostname", "os_id", "snapshot_id", "enable_vpc", "vpc_only", "backups", "activation_email")
        return WantedMachine(
            f"{body['plan']}@{body['region']}",
            body.get("label", ""),
            tags=tuple((tag, "") for tag in (*body.get("tags", ()), *filter(None, (body.get("tag"),)))),
            user_data=base64.b64decode(body.get("user_data", "")),
            detail=(("os", system.get("name", "Snapshot")), *((name, body[name]) for name in kept if name in body)),
        )

    def _one(self, call: Call, tenant: Tenant, machine_id: str) -> Reply:
        machine = self.fleet.get(tenant, machine_id)
        if machine is None or self.fault is CloudFault.DELETE_UNKNOWN:
            return answers.error(404, NO_SUCH)
        if call.method == "DELETE":
            self.fleet.end(machine, self.fault)
            return Reply(204)
        if call.method == "PATCH":
            return self._change(machine, orders.given(_json(call)))
        return answers.answer(200, {"instance": answers.instance(machine)})

    def _change(self, machine: SimulatedMachine, body: Any) -> Reply:
        if words := orders.complaint_about_change(body):
            return answers.error(400, words)
        machine.name = body.get("label", machine.name)
        machine.tags = dict.fromkeys(body.get("tags", machine.tags), "")
        return answers.answer(202, {"instance": answers.instance(machine)})

    def _switch(self, tenant: Tenant, machine_id: str, action: str) -> Reply:
        machine, now = self.fleet.get(tenant, machine_id), self.fleet.advance()
        if machine is None:
            return answers.error(404, NO_SUCH)
        if action == "halt":
            self.fleet.stop(machine, now, "halted")
        else:
            self.fleet.start(machine, now)
        return Reply(204)

    def _switch_several(self, tenant: Tenant, body: Any, action: str) -> Reply:
        """All that are named, or none."""
        ids = body.get("instance_ids") if isinstance(body, dict) else None
        if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids):
            return answers.error(400, "Bad request.")
        if any(self.fleet.get(tenant, each) is None for each in ids):
            return answers.error(404, NO_SUCH)
        for each in ids:
            self._switch(tenant, each, action)
        return Reply(204)

    def _user_data(self, tenant: Tenant, machine_id: str) -> Reply:
        machine = self.fleet.get(tenant, machine_id)
        if machine is None:
            return answers.error(404, NO_SUCH)
        return answers.answer(200, {"user_data": {"data": base64.b64encode(machine.user_data).decode()}})

    # -- images --------------------------------------------------------------------------------------------------------

    def _snapshots_of(self, tenant: Tenant) -> list[str]:
        return self.snapshots.setdefault(tenant.id, [])

    def _import(self, tenant: Tenant, body: Any) -> Reply:
        """A raw disk from somewhere else, which is how an image with extensions of one's own comes here."""
        url = body.get("url") if isinstance(body, dict) else None
        if not isinstance(url, str) or not url.startswith(("http://", "https://")) or set(body) - FOR_AN_IMPORT:
            return answers.error(400, "Invalid url")
        if url.endswith(PACKED):
            return answers.error(400, f"Expected a raw disk image, but found: {url.rpartition('.')[2]} compressed data")
        snapshot_id, now = new_id(self._luck), self._clock.now()
        self._imported[snapshot_id] = Imported(str(body.get("description") or ""), now, now + self.importing)
        self._snapshots_of(tenant).append(snapshot_id)
        return answers.answer(202, {"snapshot": self._snapshot(snapshot_id)})

    def _one_snapshot(self, call: Call, tenant: Tenant, snapshot_id: str) -> Reply:
        if snapshot_id not in self._snapshots_of(tenant):
            return answers.error(404, "Invalid snapshot.")
        if call.method == "DELETE":
            self._snapshots_of(tenant).remove(snapshot_id)
            return Reply(204)
        return answers.answer(200, {"snapshot": self._snapshot(snapshot_id)})

    def _snapshot(self, snapshot_id: str) -> dict[str, Any]:
        imported = self._imported.get(snapshot_id)
        if imported is None:
            return _snapshot(snapshot_id, "Talos with NVIDIA extensions", "2025-12-01T00:00:00+00:00")
        begun = imported.begun_at.replace(microsecond=0).isoformat()
        return _snapshot(snapshot_id, imported.description, begun, done=self._is_ready(snapshot_id))

    def _is_ready(self, snapshot_id: str) -> bool:
        imported = self._imported.get(snapshot_id)
        return imported is None or imported.done_at <= self._clock.now()

    # -- prices --------------------------------------------------------------------------------------------------------

    def _level_prices(self) -> None:
        """One price for a plan, wherever it stands; the engine moves each location's."""
        self.fleet.advance()
        prices: dict[str, int] = {}
        for stand in self.fleet.stands.values():
            stand.hourly_microusd = prices.setdefault(stand.product.sku, stand.hourly_microusd)

    # -- errors --------------------------------------------------------------------------------------------------------

    def stranger(self, call: Call) -> Reply:  # noqa: ARG002 - the same for every call
        return answers.error(401, "Invalid API token.")

    def busy(self) -> Reply:
        return answers.error(429, "Rate limit reached, please try your request again later.", (("Retry-After", "2"),))

    def failure(self) -> Reply:
        return answers.error(500, "Internal server error.")

    def retired(self) -> Reply:
        return answers.error(410, "This endpoint is no more.")


def simulator(clock: Clock, seed: int | str) -> VultrSimulator:
    return VultrSimulator(clock, seed)


def new_id(luck: Random) -> str:
    return str(UUID(int=luck.getrandbits(128), version=4))


def _below(path: str) -> str:
    """The path below `/v2`; what lies elsewhere is nothing we know."""
    return path.removeprefix(f"{BASE}/") if path.startswith(f"{BASE}/") else "?"


def _json(call: Call) -> Any:
    try:
        return msgspec.json.decode(call.body)
    except NO_JSON:
        return None


def _snapshot(snapshot_id: str, description: str, created: str, *, done: bool = True) -> dict[str, Any]:
    return {
        "id": snapshot_id,
        "date_created": created,
        "description": description,
        "size": 10737418240 if done else 0,
        "compressed_size": 949678560 if done else 0,
        "status": "complete" if done else "pending",
        "os_id": 164,
        "app_id": 0,
    }
