"""The simulated Google Cloud: its token endpoint, the Compute API, and the one question to the Resource Manager.

Links name Google's own address, whatever address was asked, as the real one's do. Names are unique in a zone, and a
request id that was seen is answered with the operation it began: nothing is ever made twice here.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeAlias

import msgspec

from tgp.ports.clock import Clock
from tgp.ports.http import NO_JSON, Call, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import Broke, Fleet, Habits, OutOfStock
from tgp.sim.clouds.gcp import market, resources
from tgp.sim.clouds.gcp.answers import GcpError, aggregated, answer, error, listed, masked, not_found, page_token
from tgp.sim.clouds.gcp.keys import KeyFile
from tgp.sim.clouds.gcp.operations import Operation, Operations
from tgp.sim.clouds.gcp.orders import new_labels, order_of, request_id
from tgp.sim.clouds.gcp.token_server import TOKEN_PATH, TokenServer
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.clouds.simulator import Simulator

PROJECT = "tgp-pretend-project"
GPU_QUOTA = 64.0  # of the whole project
TAKES = timedelta(seconds=5)  # an ordinary operation
BROKEN_PAGE = page_token(1 << 30)  # the page that fails
HABITS = Habits(list_lag=(0.0, 5.0), ending=(5.0, 40.0), outbid_deletes=True)

Answer: TypeAlias = Callable[[Call, "GcpRequest"], Reply]


class GcpRequest:
    """Who asks, for which project, and the pieces of the path."""

    def __init__(self, tenant: Tenant, now: datetime, project: str, zone: str, name: str) -> None:
        self.tenant = tenant
        self.now = now
        self.project = project
        self.zone = zone
        self.name = name


_P = r"/compute/v1/projects/(?P<project>[^/]+)"
_Z = _P + r"/zones/(?P<zone>[^/]+)"
ROUTES: tuple[tuple[str, str, CloudVerb, str], ...] = (
    ("GET", _P, CloudVerb.ACCOUNT, "_project"),
    ("GET", _P + r"/regions", CloudVerb.OTHER, "_regions"),
    ("GET", _P + r"/regions/(?P<name>[^/]+)", CloudVerb.OTHER, "_region"),
    ("GET", _P + r"/zones", CloudVerb.OTHER, "_zones"),
    ("GET", _Z, CloudVerb.OTHER, "_zone"),
    ("GET", _P + r"/aggregated/machineTypes", CloudVerb.OFFERS, "_all_machine_types"),
    ("GET", _P + r"/aggregated/acceleratorTypes", CloudVerb.OFFERS, "_all_accelerator_types"),
    ("GET", _P + r"/aggregated/instances", CloudVerb.LIST, "_all_instances"),
    ("GET", _Z + r"/machineTypes", CloudVerb.OFFERS, "_machine_types"),
    ("GET", _Z + r"/acceleratorTypes", CloudVerb.OFFERS, "_accelerator_types"),
    ("GET", _Z + r"/machineTypes/(?P<name>[^/]+)", CloudVerb.OTHER, "_machine_type"),
    ("GET", _Z + r"/acceleratorTypes/(?P<name>[^/]+)", CloudVerb.OTHER, "_accelerator_type"),
    ("GET", _Z + r"/instances", CloudVerb.LIST, "_instances"),
    ("POST", _Z + r"/instances", CloudVerb.LAUNCH, "_insert"),
    ("GET", _Z + r"/instances/(?P<name>[^/]+)", CloudVerb.STATUS, "_instance"),
    ("DELETE", _Z + r"/instances/(?P<name>[^/]+)", CloudVerb.TERMINATE, "_delete"),
    ("POST", _Z + r"/instances/(?P<name>[^/]+)/(?:stop|start)", CloudVerb.OTHER, "_switch"),
    ("POST", _Z + r"/instances/(?P<name>[^/]+)/setLabels", CloudVerb.OTHER, "_set_labels"),
    ("GET", _Z + r"/operations", CloudVerb.OTHER, "_operations"),
    ("GET", _Z + r"/operations/(?P<name>[^/]+)", CloudVerb.OTHER, "_operation"),
    ("POST", _Z + r"/operations/(?P<name>[^/]+)/wait", CloudVerb.OTHER, "_operation"),
    ("POST", r"/v1/projects/(?P<project>[^/]+):testIamPermissions", CloudVerb.OTHER, "_permissions"),
)
COMPILED = tuple((method, re.compile(pattern), verb, name) for method, pattern, verb, name in ROUTES)


class GcpSimulator(Simulator):
    provider = "gcp"

    def __init__(self, clock: Clock, seed: int | str) -> None:
        super().__init__(Fleet(clock, seed, market.products(), habits=HABITS), seed)
        self.late_errors = False  # True: a sold-out zone accepts an order, and its operation fails a little later
        self.operation_takes = TAKES
        self.unreachable: set[str] = set()  # zones that do not answer; only asked, never iterated for a decision
        self.operations = Operations()
        self._seed = seed
        self._token_server = TokenServer(Random(f"{seed}/gcp tokens"))
        self._file = self._open(PROJECT, "a pretend project")
        self.key = self._file.text()

    def tolerate(self, skew: timedelta) -> None:
        self._token_server.skew_s = skew.total_seconds()

    # -- keys ----------------------------------------------------------------------------------------------------------

    def key_at(self, url: str) -> str:
        return self._file.text(self._token_server.open_at(f"{url.rstrip('/')}{TOKEN_PATH}"))

    def other_key_at(self, url: str, project: str) -> str:
        """Another tenant's key: it opens another project."""
        return self._open(project, "another tenant").text(self._token_server.open_at(f"{url.rstrip('/')}{TOKEN_PATH}"))

    def _open(self, project: str, name: str) -> KeyFile:
        file = KeyFile(project, f"{Random(f'{self._seed}/{project}').getrandbits(160):040x}")
        self._token_server.know(file)
        self.fleet.accounts.open(Tenant(project, name), file.text())
        return file

    def is_public(self, call: Call) -> bool:
        return call.path == TOKEN_PATH

    def key_of(self, call: Call) -> str:
        """The account's key behind a token, or behind a statement; empty: unknown, or expired."""
        if self.is_public(call):
            found = self._token_server.signer_of(call)
        else:
            found = self._token_server.holder_of(super().key_of(call), self.fleet.advance())
        return found.text() if found is not None else ""

    # -- routing -------------------------------------------------------------------------------------------------------

    def verb_of(self, call: Call) -> CloudVerb:
        found = _route(call)
        return found[1] if found is not None else CloudVerb.OTHER

    def route(self, call: Call, verb: CloudVerb, tenant: Tenant | None) -> Reply:  # noqa: ARG002 - the path says it all
        if self.is_public(call):
            return self._token_server.answer(call, self.fleet.advance(), known=tenant is not None)
        assert tenant is not None, "only the token endpoint is public"
        found = _route(call)
        if found is None:
            return Reply(
                404, b"<!DOCTYPE html><title>Error 404 (Not Found)!!1</title>", (("Content-Type", "text/html"),)
            )
        place, _, name = found
        asked = GcpRequest(
            tenant, self.fleet.advance(), place.get("project", ""), place.get("zone", ""), place.get("name", "")
        )
        try:
            self._check_place(call, asked)
            handle: Answer = getattr(self, name)
            return handle(call, asked)
        except GcpError as refused:
            return refused.reply

    def _check_place(self, call: Call, asked: GcpRequest) -> None:
        if asked.project != asked.tenant.id:
            raise GcpError(
                403, "forbidden", f"Required 'compute.instances.list' permission for 'projects/{asked.project}'"
            )
        if asked.zone and asked.zone not in market.ZONES:
            raise GcpError(400, "invalid", f"Invalid value for field 'zone': '{asked.zone}'. Unknown zone.")
        if call.parameter("alt") not in ("", "json"):
            raise GcpError(400, "invalidParameter", "Invalid alternate representation")

    def stranger(self, call: Call) -> Reply:  # noqa: ARG002 - every client gets the same answer
        message = "Request had invalid authentication credentials. Expected OAuth 2 access token."
        return error(401, "authError", message)

    def busy(self) -> Reply:
        message = "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service."
        return error(429, "rateLimitExceeded", message, (("Retry-After", "7"),))

    def failure(self) -> Reply:
        message = "Internal error. Please try again or contact Google Support. (Code: '5A0B')"
        return error(503, "backendError", message)

    def retired(self) -> Reply:
        return error(410, "gone", "This version of the API is no longer served.")

    # -- looking -------------------------------------------------------------------------------------------------------

    def _project(self, call: Call, asked: GcpRequest) -> Reply:
        used = sum(machine.product.gpu_count for machine in self._alive(asked.tenant))
        quotas = [{"metric": "GPUS_ALL_REGIONS", "limit": GPU_QUOTA, "usage": float(used)}]
        body = {
            "kind": "compute#project",
            "id": resources.number(asked.project),
            "name": asked.project,
            "defaultServiceAccount": self._file.email,
            "quotas": [{"metric": "NETWORKS", "limit": 5.0, "usage": 1.0}, *quotas],
            "selfLink": resources.link(asked.project, "").rstrip("/"),
        }
        return masked(call, body)

    def _regions(self, call: Call, asked: GcpRequest) -> Reply:
        rows = [resources.region(asked.project, name) for name in market.regions()]
        return listed(call, "compute#regionList", f"projects/{asked.project}/regions", rows)

    def _region(self, call: Call, asked: GcpRequest) -> Reply:
        if asked.name not in market.regions():
            raise not_found(f"projects/{asked.project}/regions/{asked.name}")
        return masked(call, resources.region(asked.project, asked.name))

    def _zones(self, call: Call, asked: GcpRequest) -> Reply:
        rows = [resources.zone(asked.project, name) for name in market.ZONES]
        return listed(call, "compute#zoneList", f"projects/{asked.project}/zones", rows)

    def _zone(self, call: Call, asked: GcpRequest) -> Reply:
        return masked(call, resources.zone(asked.project, asked.zone))

    def _all_machine_types(self, call: Call, asked: GcpRequest) -> Reply:
        def rows(zone: str) -> list[dict[str, Any]]:
            return [resources.machine_type(asked.project, zone, kind) for kind in market.kinds_in(zone).values()]

        return self._aggregated(call, asked, "machineType", rows)

    def _all_accelerator_types(self, call: Call, asked: GcpRequest) -> Reply:
        def rows(zone: str) -> list[dict[str, Any]]:
            found = market.gpus_in(zone)
            return [resources.accelerator_type(asked.project, zone, name, most) for name, most in found.items()]

        return self._aggregated(call, asked, "acceleratorType", rows)

    def _all_instances(self, call: Call, asked: GcpRequest) -> Reply:
        if call.parameter("pageToken") == BROKEN_PAGE:
            return self.failure()
        if self.fault is CloudFault.LIST_NOTHING:
            return self._aggregated(call, asked, "instance", lambda _zone: [])
        machines = self.fleet.listed(asked.tenant)

        def rows(zone: str) -> list[dict[str, Any]]:
            found = [machine for machine in machines if machine.product.place == zone]
            if self.fault is CloudFault.LIST_PARTIAL:
                found = found[::2]
            return [resources.instance(asked.project, machine, asked.now) for machine in found]

        reply = self._aggregated(call, asked, "instance", rows)
        return _goes_on(reply) if self.fault is CloudFault.LIST_PARTIAL else reply

    def _aggregated(
        self, call: Call, asked: GcpRequest, kind: str, rows: Callable[[str], list[dict[str, Any]]]
    ) -> Reply:
        path = f"projects/{asked.project}/aggregated/{kind}s"
        zones = [zone for zone in market.ZONES if zone not in self.unreachable]
        if len(zones) == len(market.ZONES):
            return aggregated(call, f"compute#{kind}AggregatedList", path, zones, rows)
        if call.parameter("returnPartialSuccess") != "true":
            return self.failure()
        return _with_unreachables(
            aggregated(call, f"compute#{kind}AggregatedList", path, zones, rows), self.unreachable
        )

    def _machine_types(self, call: Call, asked: GcpRequest) -> Reply:
        rows = [
            resources.machine_type(asked.project, asked.zone, kind) for kind in market.kinds_in(asked.zone).values()
        ]
        return listed(
            call, "compute#machineTypeList", f"projects/{asked.project}/zones/{asked.zone}/machineTypes", rows
        )

    def _accelerator_types(self, call: Call, asked: GcpRequest) -> Reply:
        found = market.gpus_in(asked.zone).items()
        rows = [resources.accelerator_type(asked.project, asked.zone, name, most) for name, most in found]
        path = f"projects/{asked.project}/zones/{asked.zone}/acceleratorTypes"
        return listed(call, "compute#acceleratorTypeList", path, rows)

    def _machine_type(self, call: Call, asked: GcpRequest) -> Reply:
        kind = market.kinds_in(asked.zone).get(asked.name)
        if kind is None:
            raise not_found(f"projects/{asked.project}/zones/{asked.zone}/machineTypes/{asked.name}")
        return masked(call, resources.machine_type(asked.project, asked.zone, kind))

    def _accelerator_type(self, call: Call, asked: GcpRequest) -> Reply:
        most = market.gpus_in(asked.zone).get(asked.name)
        if most is None:
            raise not_found(f"projects/{asked.project}/zones/{asked.zone}/acceleratorTypes/{asked.name}")
        return masked(call, resources.accelerator_type(asked.project, asked.zone, asked.name, most))

    def _instances(self, call: Call, asked: GcpRequest) -> Reply:
        found = [each for each in self.fleet.listed(asked.tenant) if each.product.place == asked.zone]
        rows = [] if self.fault is CloudFault.LIST_NOTHING else found
        path = f"projects/{asked.project}/zones/{asked.zone}/instances"
        shown = [resources.instance(asked.project, machine, asked.now) for machine in rows]
        return listed(call, "compute#instanceList", path, shown)

    def _instance(self, call: Call, asked: GcpRequest) -> Reply:
        for machine in self.fleet.listed(asked.tenant):
            if (machine.product.place, machine.name) == (asked.zone, asked.name):
                return masked(call, resources.instance(asked.project, machine, asked.now))
        raise self._no_machine(asked)

    def _operations(self, call: Call, asked: GcpRequest) -> Reply:
        known = self.operations.within(asked.project, asked.zone)
        rows = [each.json(asked.now, self._file.email) for each in known]
        path = f"projects/{asked.project}/zones/{asked.zone}/operations"
        return listed(call, "compute#operationList", path, rows)

    def _operation(self, call: Call, asked: GcpRequest) -> Reply:
        found = self.operations.get(asked.project, asked.zone, asked.name)
        if found is None:
            raise not_found(f"projects/{asked.project}/zones/{asked.zone}/operations/{asked.name}")
        return masked(call, found.json(asked.now, self._file.email))

    def _permissions(self, call: Call, asked: GcpRequest) -> Reply:  # noqa: ARG002 - it may do everything
        try:
            body = msgspec.json.decode(call.body, type=dict[str, list[str]])
        except NO_JSON:
            raise GcpError(400, "badRequest", "Invalid JSON payload received.") from None
        return answer({"permissions": body.get("permissions", [])})

    # -- buying and ending ---------------------------------------------------------------------------------------------

    def _insert(self, call: Call, asked: GcpRequest) -> Reply:
        request = request_id(call)
        order = order_of(call, asked.project, asked.zone)
        begun = self.operations.of_request(asked.project, request)
        if begun is not None:
            return answer(begun.json(asked.now, self._file.email))
        if self._by_name(asked.tenant, asked.zone, order.name) is not None:
            path = f"projects/{asked.project}/zones/{asked.zone}/instances/{order.name}"
            raise GcpError(409, "alreadyExists", f"The resource '{path}' already exists")
        operation = self._new_operation(asked, "insert", order.name)
        try:
            # Names are unique here: two machines for one order cannot be.
            cloud_fault = None if self.fault is CloudFault.MADE_TWICE else self.fault
            operation.machine = self.fleet.rent(asked.tenant, order.wanted, cloud_fault)
        except OutOfStock:
            operation.failure = _stock_out(asked)
        except Broke:
            operation.failure = "QUOTA_EXCEEDED", "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 1.0 globally."
        if operation.failure is not None and not self.late_errors:
            operation.takes = timedelta()
        self.operations.begin(operation, request)
        if self.fault is CloudFault.ERROR_WITH_ID:
            target = operation.json(asked.now, "")["targetLink"]
            return error(503, "backendError", "Internal error.", details=[{"targetLink": target}])
        return answer(operation.json(asked.now, self._file.email))

    def _delete(self, call: Call, asked: GcpRequest) -> Reply:
        request = request_id(call)
        begun = self.operations.of_request(asked.project, request)
        if begun is not None:
            return answer(begun.json(asked.now, self._file.email))
        machine = self._by_name(asked.tenant, asked.zone, asked.name)
        if machine is None or self.fault is CloudFault.DELETE_UNKNOWN:
            raise self._no_machine(asked)
        operation = self._new_operation(asked, "delete", asked.name)
        operation.machine = machine
        operation.takes = timedelta()
        self.fleet.end(machine, self.fault)
        return answer(self.operations.begin(operation, request).json(asked.now, self._file.email))

    def _switch(self, call: Call, asked: GcpRequest) -> Reply:
        """By hand, in the console. Stopped is not gone: its disk is billed on."""
        request = request_id(call)
        machine = self._by_name(asked.tenant, asked.zone, asked.name)
        if machine is None:
            raise self._no_machine(asked)
        verb = call.path.rpartition("/")[2]
        operation = self._new_operation(asked, verb, asked.name)
        operation.machine = machine
        if verb == "stop":
            self.fleet.stop(machine, asked.now, "stopped by hand")
        else:
            self.fleet.start(machine, asked.now)
        return answer(self.operations.begin(operation, request).json(asked.now, self._file.email))

    def _set_labels(self, call: Call, asked: GcpRequest) -> Reply:
        request, labels = request_id(call), new_labels(call)
        machine = self._by_name(asked.tenant, asked.zone, asked.name)
        if machine is None:
            raise self._no_machine(asked)
        operation = self._new_operation(asked, "setLabels", asked.name)
        operation.machine, machine.tags = machine, labels
        return answer(self.operations.begin(operation, request).json(asked.now, self._file.email))

    def _new_operation(self, asked: GcpRequest, verb: str, target: str) -> Operation:
        name = self.operations.new_name(self._seed)
        return Operation(name, asked.project, asked.zone, verb, target, asked.now, self.operation_takes)

    def _by_name(self, tenant: Tenant, zone: str, name: str) -> SimulatedMachine | None:
        """Listed or not: a name is taken from the moment a machine is made."""
        for machine in self._alive(tenant):
            if (machine.product.place, machine.name) == (zone, name):
                return machine
        return None

    def _alive(self, tenant: Tenant) -> list[SimulatedMachine]:
        self.fleet.advance()
        return [each for each in self.fleet.living() if each.account == tenant.id]

    def _no_machine(self, asked: GcpRequest) -> GcpError:
        return not_found(f"projects/{asked.project}/zones/{asked.zone}/instances/{asked.name}")


def _route(call: Call) -> tuple[dict[str, str], CloudVerb, str] | None:
    for method, pattern, verb, name in COMPILED:
        if method == call.method and (found := pattern.fullmatch(call.path)) is not None:
            return found.groupdict(), verb, name
    return None


def _stock_out(asked: GcpRequest) -> tuple[str, str]:
    where = f"projects/{asked.project}/zones/{asked.zone}"
    message = (
        f"The zone '{where}' does not have enough resources available to fulfill the request.  "
        "Try a different zone, or try again later."
    )
    return "ZONE_RESOURCE_POOL_EXHAUSTED", message


def _changed(reply: Reply, **more: Any) -> Reply:
    return answer(reply.json() | more) if reply.ok else reply


def _goes_on(reply: Reply) -> Reply:
    return _changed(reply, nextPageToken=BROKEN_PAGE)


def _with_unreachables(reply: Reply, zones: set[str]) -> Reply:
    return _changed(reply, unreachables=[f"zones/{zone}" for zone in sorted(zones)])


def simulator(clock: Clock, seed: int | str) -> Simulator:
    return GcpSimulator(clock, seed)
