"""Lambda Cloud API 1.8.3, mounted at `/api/v1`: types, launch, list, terminate, restart, rename, SSH keys, images."""

import base64
import binascii
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

import msgspec

from tgp.ports.clock import Clock
from tgp.ports.http import NO_JSON, Call, Pairs, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import Broke, Fleet, Habits, OutOfStock, WantedMachine
from tgp.sim.clouds.lambdalabs import answers, images, orders
from tgp.sim.clouds.lambdalabs.catalogue import products
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.simulator import Simulator

BASE = "/api/v1"
TEXT: Pairs = (("Content-Type", "text/plain"),)
A_PRIVATE_KEY = "-----BEGIN PRIVATE KEY-----\nmade up, and opens nothing\n-----END PRIVATE KEY-----\n"
SSH_KEY_NAME = "tgp"  # in the first account from the beginning
ONE_CALL = timedelta(seconds=1)
ONE_LAUNCH = timedelta(seconds=12)
SHOWN_AS_TERMINATED = timedelta(minutes=5)  # one machine by its id, after it is gone; lists leave it out at once
HABITS = Habits(
    list_lag=(0.0, 0.0),  # `lai start` lists at once and takes its machine from there, so Lambda shows it; faults lag
    charges_from_creation=False,
    idle_share=0.0,
)
VERBS = {
    ("GET", "instance-types"): CloudVerb.OFFERS,
    ("POST", "instance-operations/launch"): CloudVerb.LAUNCH,
    ("POST", "instance-operations/terminate"): CloudVerb.TERMINATE,
    ("GET", "instances"): CloudVerb.LIST,
    ("GET", "ssh-keys"): CloudVerb.ACCOUNT,
}
METHODS = {  # a star stands for an id
    "instance-types": "GET",
    "instances": "GET",
    "instances/*": "GET, POST",
    "instance-operations/launch": "POST",
    "instance-operations/terminate": "POST",
    "instance-operations/restart": "POST",
    "ssh-keys": "GET, POST",
    "ssh-keys/*": "DELETE",
    "images": "GET",
    "file-systems": "GET",
    "firewall-rules": "GET",
    "firewall-rulesets": "GET",
}
OPEN_BY_DEFAULT = (
    {"protocol": "tcp", "port_range": [22, 22], "source_network": "0.0.0.0/0", "description": "SSH"},
    {"protocol": "icmp", "source_network": "0.0.0.0/0", "description": "Ping"},
)


@dataclass(slots=True)
class LambdaLimits:
    """One call a second, one launch in twelve; counted per key."""

    on: bool = False
    _free_at: dict[tuple[str, bool], datetime] = field(default_factory=dict)

    def wait(self, key: str, launch: bool, now: datetime) -> timedelta | None:
        """How long to wait; None: go ahead."""
        if not self.on:
            return None
        free_at = self._free_at.get((key, launch), now)
        if free_at > now:
            return free_at - now
        self._free_at[key, launch] = now + (ONE_LAUNCH if launch else ONE_CALL)
        return None


class LambdaSimulator(Simulator):
    provider = "lambdalabs"
    key = "secret_simulated_0123456789abcdef"

    def __init__(self, clock: Clock, seed: int | str, habits: Habits = HABITS) -> None:
        super().__init__(Fleet(clock, f"{seed}/lambdalabs", products(), habits=habits, new_id=new_id), seed)
        self.limits = LambdaLimits()
        self.ssh_keys: dict[str, dict[str, dict[str, str]]] = {}  # account → name → key
        self._clock = clock
        self._ids = Random(f"{seed}/lambdalabs/ids")
        self.fleet.accounts.open(Tenant("account-1", "simulated"), self.key)
        self._keep_key("account-1", SSH_KEY_NAME, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample tgp")

    def verb_of(self, call: Call) -> CloudVerb:
        path = _below(call.path)
        if call.method == "GET" and path.startswith("instances/"):
            return CloudVerb.STATUS
        return VERBS.get((call.method, path), CloudVerb.OTHER)

    def key_of(self, call: Call) -> str:
        """A bearer token, or Basic with the key as the user."""
        scheme, _, word = call.header("Authorization").partition(" ")
        if scheme.lower() != "basic":
            return super().key_of(call)
        try:
            return base64.b64decode(word.strip(), validate=True).decode().partition(":")[0]
        except (binascii.Error, UnicodeDecodeError):
            return ""

    def route(self, call: Call, verb: CloudVerb, tenant: Tenant | None) -> Reply:
        assert tenant is not None, "nothing here is public"
        wait = self.limits.wait(self.key_of(call), verb is CloudVerb.LAUNCH, self._clock.now())
        if wait is not None:
            return self._slow_down(wait)
        self._level_prices()
        path = _below(call.path)
        match (call.method, path.split("/")):
            case ("GET", ["instance-types"]):
                return answers.data(answers.types(self.fleet.selling()))
            case ("GET", ["instances"]):
                return self._list(tenant, call.parameter("cluster_id"))
            case ("GET", ["instances", machine_id]):
                return self._one(tenant, machine_id)
            case ("POST", ["instances", machine_id]):
                return self._rename(tenant, machine_id, _json(call))
            case ("POST", ["instance-operations", "launch"]):
                return self._launch(tenant, _json(call))
            case ("POST", ["instance-operations", "terminate"]):
                return self._terminate(tenant, _json(call))
            case ("POST", ["instance-operations", "restart"]):
                return self._restart(tenant, _json(call))
            case ("GET", ["ssh-keys"]):
                return answers.data(list(self.ssh_keys.get(tenant.id, {}).values()))
            case ("POST", ["ssh-keys"]):
                return self._add_key(tenant, _json(call))
            case ("DELETE", ["ssh-keys", key_id]):
                return self._drop_key(tenant, key_id)
            case ("GET", ["images"]):
                return answers.data(images.IMAGES)
            case ("GET", ["firewall-rules"]):
                return answers.data(OPEN_BY_DEFAULT)
            case ("GET", ["file-systems"] | ["firewall-rulesets"]):
                return answers.data([])
            case _:
                return _no_endpoint(path)

    # -- machines ------------------------------------------------------------------------------------------------------

    def _list(self, tenant: Tenant, cluster: str) -> Reply:
        """Of a cluster: none, since clusters are not to be had here."""
        rows = [answers.instance(machine) for machine in self.fleet.listed(tenant) if not cluster]
        if self.fault is CloudFault.LIST_NOTHING:
            return answers.data([])
        whole = answers.data(rows)
        if self.fault is CloudFault.LIST_PARTIAL:  # no pages here: the answer itself is cut short
            return Reply(200, whole.content[: len(whole.content) // 2], whole.headers)
        return whole

    def _one(self, tenant: Tenant, machine_id: str) -> Reply:
        machine = self.fleet.get(tenant, machine_id) or self._lately_gone(tenant, machine_id)
        if machine is None:
            return answers.missing("Specified instance does not exist.")
        return answers.data(answers.instance(machine))

    def _lately_gone(self, tenant: Tenant, machine_id: str) -> SimulatedMachine | None:
        machine = self.fleet.machines.get(machine_id)
        if machine is None or machine.account != tenant.id or machine.ended_at is None or machine.why == "vanished":
            return None
        return machine if self._clock.now() - machine.ended_at < SHOWN_AS_TERMINATED else None

    def _launch(self, tenant: Tenant, body: Any) -> Reply:
        if words := orders.complaint(body):
            return answers.invalid(words)
        if words := self._missing(tenant, body):
            return answers.missing(words)
        try:
            machine = self.fleet.rent(tenant, _wanted(body), self.fault)
        except OutOfStock:
            return answers.error(
                400,
                "instance-operations/launch/insufficient-capacity",
                "Not enough capacity to fulfill launch request.",
                "Choose an instance type with more availability, or try again later.",
            )
        except Broke:
            return answers.error(
                400, "global/quota-exceeded", "Quota exceeded.", "Contact Support to increase your quota."
            )
        if self.fault is CloudFault.ERROR_WITH_ID:
            return _error_with(machine)
        return answers.data({"instance_ids": [machine.id]})

    def _missing(self, tenant: Tenant, body: dict[str, Any]) -> str:
        """What a launch names and does not exist; empty: everything exists.

        There are no file systems and no rulesets.
        """
        (ssh_key,) = body["ssh_key_names"]
        if ssh_key not in self.ssh_keys.get(tenant.id, {}):
            return f"SSH key {ssh_key} does not exist."
        if body["instance_type_name"] not in {stand.product.sku for stand in self.fleet.selling()}:
            return "Instance type does not exist."
        if "image" in body and not images.is_there(body["image"], body["region_name"]):
            return "Image does not exist in this region."
        if body.get("file_system_names") or body.get("file_system_mounts"):
            return "Filesystem was not found."
        return "Firewall ruleset was not found." if body.get("firewall_rulesets") else ""

    def _terminate(self, tenant: Tenant, body: Any) -> Reply:
        machines = self._named(tenant, body)
        if isinstance(machines, Reply):
            return machines
        for machine in machines:
            self.fleet.end(machine, self.fault)
        rows = [answers.instance(machine) | {"status": "terminating"} for machine in machines]
        return answers.data({"terminated_instances": rows})

    def _restart(self, tenant: Tenant, body: Any) -> Reply:
        machines = self._named(tenant, body)
        if isinstance(machines, Reply):
            return machines
        return answers.data({"restarted_instances": [answers.instance(machine) for machine in machines]})

    def _named(self, tenant: Tenant, body: Any) -> "list[SimulatedMachine] | Reply":
        """The machines of a request, or its refusal: one unknown id refuses all."""
        ids = body.get("instance_ids") if isinstance(body, dict) else None
        if not isinstance(ids, list) or not ids or not all(isinstance(each, str) for each in ids):
            return answers.invalid("instance_ids must be a list of IDs.")
        found = [self.fleet.get(tenant, each) for each in ids]
        machines = [machine for machine in found if machine is not None]
        if len(machines) < len(ids) or self.fault is CloudFault.DELETE_UNKNOWN:
            return answers.missing("Specified instance does not exist.")
        return machines

    def _rename(self, tenant: Tenant, machine_id: str, body: Any) -> Reply:
        machine = self.fleet.get(tenant, machine_id)
        if machine is None:
            return answers.missing("Specified instance does not exist.")
        name = body.get("name", machine.name) if isinstance(body, dict) else None
        if not isinstance(name, str) or len(name) > orders.NAME_CHARACTERS or not body.keys() <= {"name"}:
            return answers.invalid(f"name must be a text of at most {orders.NAME_CHARACTERS} characters.")
        machine.name = name
        return answers.data(answers.instance(machine))

    def _level_prices(self) -> None:
        """One price for a type, wherever it stands; the engine moves each region's."""
        self.fleet.advance()
        prices: dict[str, int] = {}
        for stand in self.fleet.stands.values():
            stand.hourly_microusd = prices.setdefault(stand.product.sku, stand.hourly_microusd)

    # -- SSH keys ------------------------------------------------------------------------------------------------------

    def _add_key(self, tenant: Tenant, body: Any) -> Reply:
        """Without a public key Lambda makes a pair, and shows the private half this once."""
        if words := orders.key_complaint(body, self.ssh_keys.get(tenant.id, {})):
            return answers.invalid(words)
        kept = self._keep_key(tenant.id, body["name"], body.get("public_key", "ssh-ed25519 AAAA made"))
        return answers.data(kept if "public_key" in body else kept | {"private_key": A_PRIVATE_KEY})

    def _drop_key(self, tenant: Tenant, key_id: str) -> Reply:
        kept = self.ssh_keys.get(tenant.id, {})
        for name, key in kept.items():
            if key["id"] == key_id:
                del kept[name]
                return answers.data({})
        return answers.invalid("SSH key does not exist.")  # the document has no 404 here

    def _keep_key(self, account: str, name: str, public_key: str) -> dict[str, str]:
        key = {"id": new_id(self._ids), "name": name, "public_key": public_key}
        self.ssh_keys.setdefault(account, {})[name] = key
        return key

    # -- errors --------------------------------------------------------------------------------------------------------

    def stranger(self, call: Call) -> Reply:  # noqa: ARG002 - the same for every call
        return answers.error(
            401,
            "global/invalid-api-key",
            "API key was invalid, expired, or deleted.",
            "Check your API key or create a new one, then try again.",
        )

    def busy(self) -> Reply:
        return self._slow_down(timedelta(seconds=7))

    def _slow_down(self, wait: timedelta) -> Reply:
        seconds = max(1, -(-wait // timedelta(seconds=1)))
        headers = (("Retry-After", str(seconds)),)
        return answers.error(429, "global/too-many-requests", "Too many requests.", headers=headers)

    def failure(self) -> Reply:
        return answers.error(
            500,
            "global/internal-error",
            "An internal server error occurred.",
            "Try again later. Contact Support if the problem persists.",
        )

    def retired(self) -> Reply:
        return answers.error(410, "global/gone", "This endpoint is no more.")


def simulator(clock: Clock, seed: int | str) -> LambdaSimulator:
    return LambdaSimulator(clock, seed)


def new_id(luck: Random) -> str:
    return f"{luck.getrandbits(128):032x}"


def _below(path: str) -> str:
    """The path below `/api/v1`; what lies elsewhere is nothing we know.

    A repeated path counts once: an endpoint includes its path, and `lai` appends the path to every endpoint.
    """
    return path.removeprefix(BASE).removeprefix(f"{BASE}/").strip("/") if path.startswith(f"{BASE}/") else "?"


def _no_endpoint(path: str) -> Reply:
    """Not in Lambda's envelope: `global/object-does-not-exist` would say that a machine is gone."""
    first, _, rest = path.partition("/")
    allowed = METHODS.get(path) or (METHODS.get(f"{first}/*") if rest and "/" not in rest else None)
    if allowed is None:
        return Reply(404, b"404 page not found\n", TEXT)
    return Reply(405, b"method not allowed\n", (*TEXT, ("Allow", allowed)))


def _json(call: Call) -> Any:
    try:
        return msgspec.json.decode(call.body)
    except NO_JSON:
        return None


def _wanted(body: dict[str, Any]) -> WantedMachine:
    return WantedMachine(
        f"{body['instance_type_name']}@{body['region_name']}",
        body.get("name", ""),
        tags=tuple((tag["key"], tag["value"]) for tag in body.get("tags", ())),
        user_data=body.get("user_data", "").encode(),
        detail=(
            ("ssh_key_names", tuple(body["ssh_key_names"])),
            ("file_system_names", tuple(body.get("file_system_names", ()))),
            ("hostname", body.get("hostname", "")),
            ("image", body.get("image")),
        ),
    )


def _error_with(machine: SimulatedMachine) -> Reply:
    """An upstream error, after the machine was created."""
    error = {"code": "provider/internal-unavailable", "message": "Provider unavailable", "suggestion": "Try again"}
    body = {"error": error, "data": {"instance_ids": [machine.id]}}
    return Reply(503, msgspec.json.encode(body), answers.JSON)


assert set(answers.STATUSES) == set(Phase), "every phase has a word on the wire"
