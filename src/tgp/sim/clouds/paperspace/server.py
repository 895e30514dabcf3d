"""Paperspace's API v1 over the fleet: machines, events, templates, start-up scripts. Errors are `{code, message}`."""

from datetime import datetime
from random import Random
from typing import Any
from zlib import crc32

import msgspec

from tgp.ports.clock import Clock
from tgp.ports.http import NO_JSON, Call, Pairs, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import Broke, Fleet, Habits, OutOfStock, WantedMachine
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.paperspace import rows, schema
from tgp.sim.clouds.paperspace.market import TEMPLATES, kind_of, products
from tgp.sim.clouds.simulator import Simulator

KEY = "ps5im0secret0key0of0paperspace0abcdef"
ID_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
CODES = {
    400: "BAD_REQUEST",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_SUPPORTED",
    412: "PRECONDITION_FAILED",
    429: "TOO_MANY_REQUESTS",
    500: "INTERNAL_SERVER_ERROR",
}
DISKS = (50, 100, 250, 500, 1000, 2000)
NOWHERE = "nowhere"  # a cursor behind which nothing comes
TRY_LATER = " Try again in a few minutes, or select a different instance."


def _new_id(luck: Random) -> str:
    return "ps" + "".join(luck.choice(ID_LETTERS) for _ in range(8))


class PaperspaceSimulator(Simulator):
    provider = "paperspace"
    key = KEY

    def __init__(self, clock: Clock, seed: int | str) -> None:
        habits = Habits(list_lag=(0.0, 8.0), ending=(5.0, 40.0), idle_share=0.01, moves=False)  # list prices stay
        fleet = Fleet(clock, f"{seed}/paperspace", products(), habits=habits, new_id=_new_id)
        super().__init__(fleet, f"{seed}/paperspace")
        fleet.accounts.open(Tenant("184467", "first-team"), KEY)
        self.scripts: dict[str, rows.ScriptRow] = {}
        self.deletes_only_off = False  # documented for users; whether the API insists is not known
        self._fails_at = ""  # the cursor of a page that will not come
        self._luck = Random(f"{seed}/paperspace/scripts")

    # -- words ---------------------------------------------------------------------------------------------------------

    def verb_of(self, call: Call) -> CloudVerb:
        match (call.method, *call.path.strip("/").split("/")):
            case ("GET", "v1", "os-templates"):
                return CloudVerb.OFFERS
            case ("GET", "v1", "machines"):
                return CloudVerb.LIST
            case ("POST", "v1", "machines"):
                return CloudVerb.LAUNCH
            case ("GET", "v1", "machines", _):
                return CloudVerb.STATUS
            case ("DELETE", "v1", "machines", _):
                return CloudVerb.TERMINATE
            case ("GET", "v1", "auth" | "billing", *_):
                return CloudVerb.ACCOUNT
            case _:
                return CloudVerb.OTHER

    def stranger(self, call: Call) -> Reply:
        return _error(401, "Invalid API key" if self.key_of(call) else "No API key was sent")

    def busy(self) -> Reply:
        return _error(429, "Too many requests", headers=(("Retry-After", "20"),))

    def failure(self) -> Reply:
        return _error(500, "Internal server error")

    def retired(self) -> Reply:
        return Reply(410, b'{"message":"Gone"}', (("Content-Type", "application/json"),))

    # -- routes --------------------------------------------------------------------------------------------------------

    def route(self, call: Call, verb: CloudVerb, tenant: Tenant | None) -> Reply:  # noqa: ARG002 - the path says more
        assert tenant is not None, "nothing is public here"
        now = self.fleet.advance()
        match (call.method, *call.path.strip("/").split("/")):
            case ("GET", "v1", "auth", "session"):
                return _json(_session(tenant))
            case ("GET", "v1", "billing", "account-standing"):
                return _json(self._standing(tenant, now))
            case ("GET", "v1", "os-templates"):
                return self._page(call, rows.template_rows())
            case (method, "v1", "machines", *rest):
                return self._machines(call, method, rest, tenant, now)
            case ("GET", "v1", "machine-events", *rest):
                return self._events(call, rest, tenant)
            case (method, "v1", "startup-scripts", *rest):
                return self._scripts(call, method, rest, tenant, now)
            case (_, "v1", "auth", "session") | (_, "v1", "billing", "account-standing"):
                return _error(405, "Method not supported")
            case (_, "v1", "os-templates") | (_, "v1", "machine-events", *_):
                return _error(405, "Method not supported")
            case _:
                return _error(404, "Not found")

    def _standing(self, tenant: Tenant, now: datetime) -> dict[str, Any]:
        left = self.fleet.balance_microusd(tenant, now)
        good = left is None or left > 0
        return {"isInGoodStanding": good, "messages": [] if good else ["Add a payment method to continue."]}

    def _machines(self, call: Call, method: str, rest: list[str], tenant: Tenant, now: datetime) -> Reply:
        if not rest:
            return self._list(call, tenant, now) if method == "GET" else self._create(call, method, tenant, now)
        machine = self.fleet.get(tenant, rest[0])
        if machine is None or (method == "DELETE" and self.fault is CloudFault.DELETE_UNKNOWN):
            return _error(404, "Machine not found")
        match (method, *rest[1:]):
            case ("GET",):
                return _json(rows.machine_row(machine, now))
            case ("DELETE",):
                return self._delete(machine, now)
            case ("PATCH", "start" | "stop" | "restart" as act):
                return self._switch(machine, act, now)
            case _:
                return _error(405, "Method not supported")

    # -- lists ---------------------------------------------------------------------------------------------------------

    def _list(self, call: Call, tenant: Tenant, now: datetime) -> Reply:
        name, place, kind = (call.parameter(each) for each in ("name", "region", "machineType"))
        found = [
            rows.machine_row(machine, now)
            for machine in self.fleet.listed(tenant)
            if name.casefold() in machine.name.casefold()  # a part of the name is enough: the strictest for a client
            and place in ("", machine.product.place)
            and kind in ("", machine.product.sku)
        ]
        if self.fault is CloudFault.LIST_NOTHING:
            found = []
        return self._page(call, found, ("dtCreated", "name", "state"))

    def _page(
        self, call: Call, found: list[dict[str, Any]], order_by: tuple[str, ...] = ("dtCreated", "name")
    ) -> Reply:
        """One page of `found`, which is in the order of making. The cursor is the id of the last row."""
        query = dict(call.query)
        if wrong := schema.query_issues(query, order_by):
            return _refused(wrong)
        after = query.get("after", "")
        if after and after == self._fails_at:
            self._fails_at = ""
            return self.failure()
        ordered = _ordered(found, query)
        ids = [row["id"] for row in ordered]
        if after and after not in ids:
            return _refused(["after: Invalid cursor"])
        begin = ids.index(after) + 1 if after else 0
        end = begin + int(query.get("limit", "10"))
        more = end < len(found)
        if (
            self.fault is CloudFault.LIST_PARTIAL
        ):  # the first page comes, and says that there is a second; that one fails
            end, more = begin + max(len(found) // 2, 1), True
        items = ordered[begin:end]
        cursor = (items[-1]["id"] if items else NOWHERE) if more else None
        if self.fault is CloudFault.LIST_PARTIAL:
            self._fails_at = cursor or ""
        return _json({"items": items, "hasMore": more, "nextPage": cursor})

    def _events(self, call: Call, rest: list[str], tenant: Tenant) -> Reply:
        found = [rows.create_event(machine) for machine in self.fleet.listed(tenant)]
        if rest:
            event = next((each for each in found if each["id"] == rest[0]), None)
            return _json(event) if event else _error(404, "Machine event not found")
        machine = call.parameter("machineId")
        return self._page(call, [each for each in found if machine in ("", each["machineId"])], ("dtCreated",))

    # -- making and ending ---------------------------------------------------------------------------------------------

    def _create(self, call: Call, method: str, tenant: Tenant, now: datetime) -> Reply:
        if method != "POST":
            return _error(405, "Method not supported")
        body = _body(call)
        if wrong := schema.issues(body, schema.MACHINE, schema.MACHINE_REQUIRED):
            return _refused(wrong)
        if fault := self._fault(body, tenant):
            return fault
        script = self.scripts.get(body.get("startupScriptId", ""))
        wanted = WantedMachine(
            f"{body['machineType']}@{body['region']}",
            body["name"],
            user_data=script.text.encode() if script else b"",
            detail=tuple(body.items()),
        )
        try:
            machine = self.fleet.rent(tenant, wanted, self.fault)
        except OutOfStock:
            return _error(412, rows.OUT_OF_CAPACITY + TRY_LATER)
        except Broke:
            return _error(403, "Your team has reached its machine quota. Add a payment method to request more.")
        if self.fault is CloudFault.ERROR_WITH_ID:
            return _error(500, "Internal server error", details={"machineId": machine.id})
        if body.get("startOnCreate") is False:
            self.fleet.stop(machine, now, "ordered off")
        return _json({"data": rows.machine_row(machine, now), "event": rows.create_event(machine)})

    def _fault(self, body: dict[str, Any], tenant: Tenant) -> Reply | None:
        kind, template = kind_of(body["machineType"]), TEMPLATES.get(body["templateId"])
        script = body.get("startupScriptId")
        if kind is None:
            return _refused(["machineType: Invalid machine type"])
        if body["region"] not in kind.places:
            return _refused([f"region: {kind.label} is not sold there"])
        if body["diskSize"] not in DISKS:
            return _refused(["diskSize: Invalid disk size"])
        if template is None:
            return _error(404, "Template not found")
        if kind.label not in template[1]:
            return _refused(["templateId: The template does not support this machine type"])
        if script is not None and (script not in self.scripts or self.scripts[script].account != tenant.id):
            return _error(404, "Startup script not found")
        return None

    def _delete(self, machine: SimulatedMachine, now: datetime) -> Reply:
        if self.deletes_only_off and machine.phase not in (Phase.STOPPED, Phase.LOST, Phase.ENDING):
            return _error(412, "The machine must be off before it can be deleted")
        self.fleet.end(machine, self.fault)
        shown = rows.machine_row(machine, now)
        return _json({"data": shown, "event": rows.event_row(machine, "deactivate", now)})

    def _switch(self, machine: SimulatedMachine, act: str, now: datetime) -> Reply:
        if act == "stop":
            self.fleet.stop(machine, now, "stopped")
        elif act == "start":
            self.fleet.start(machine, now)
        return _json({"data": rows.machine_row(machine, now), "event": rows.event_row(machine, act, now)})

    # -- scripts -------------------------------------------------------------------------------------------------------

    def _scripts(self, call: Call, method: str, rest: list[str], tenant: Tenant, now: datetime) -> Reply:
        if not rest and method == "GET":
            ours = [each for each in self.scripts.values() if each.account == tenant.id]
            return self._page(call, [rows.script_row(each, self._users_of(each)) for each in ours])
        if not rest and method == "POST":
            return self._write(_body(call), tenant, now)
        if not rest or method not in ("GET", "DELETE"):
            return _error(405, "Method not supported")
        script = self.scripts.get(rest[0])
        if script is None or script.account != tenant.id:
            return _error(404, "Startup script not found")
        if method == "DELETE":
            del self.scripts[script.id]
            return _json(rows.script_row(script, []))
        return _json(rows.script_row(script, self._users_of(script)))

    def _write(self, body: Any, tenant: Tenant, now: datetime) -> Reply:
        if wrong := schema.issues(body, schema.SCRIPT, schema.SCRIPT_REQUIRED):
            return _refused(wrong)
        made = rows.ScriptRow(
            "su" + "".join(self._luck.choice(ID_LETTERS) for _ in range(8)),
            tenant.id,
            body["name"],
            body["script"],
            body.get("isRunOnce", False),
            now,
        )
        self.scripts[made.id] = made
        return _json(rows.script_row(made, []))

    def _users_of(self, script: rows.ScriptRow) -> list[str]:
        return [machine.id for machine in self.fleet.living() if machine.detail.get("startupScriptId") == script.id]


def _session(tenant: Tenant) -> dict[str, Any]:
    number = int(tenant.id) if tenant.id.isdigit() else crc32(tenant.id.encode())
    team = {"id": number, "handle": tenant.name, "namespace": tenant.id}
    return {"team": team, "user": {"id": 1, "handle": "u1", "email": "owner@example.com"}}


def _ordered(found: list[dict[str, Any]], query: dict[str, str]) -> list[dict[str, Any]]:
    """As it was asked for; newest first where nothing was."""
    field = query.get("orderBy", "dtCreated")
    rising = found if field == "dtCreated" else sorted(found, key=lambda row: str(row[field]))
    return rising if query.get("order") == "asc" else rising[::-1]


def _body(call: Call) -> Any:
    try:
        return msgspec.json.decode(call.body)
    except NO_JSON:
        return None


def _json(value: Any) -> Reply:
    return Reply(200, msgspec.json.encode(value), (("Content-Type", "application/json"),))


def _refused(wrong: list[str]) -> Reply:
    return _error(400, "Input validation failed", issues=[{"message": each} for each in wrong])


def _error(status: int, message: str, headers: Pairs = (), **more: Any) -> Reply:
    body = {"code": CODES[status], "message": message, **more}
    return Reply(status, msgspec.json.encode(body), (("Content-Type", "application/json"), *headers))
