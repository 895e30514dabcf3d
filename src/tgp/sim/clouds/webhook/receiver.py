"""The receiver for owned machines: `POST /<name>/on`, `POST /<name>/off`, `GET /<name>/status`.

It acts once per `webhook-id`, accepts a signature only if it is valid and recent, and reports for which token a
machine is on. In its own network it is open, as such receivers are; `locked`, every call needs the key and a signature.
"""

from base64 import b64encode
from collections import OrderedDict
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from tgp.api.common import OWNED_PROVIDER
from tgp.core.model.secret import Secret
from tgp.core.model.signature import ID, SIGNATURE, TIMESTAMP, NotSigned, keys_of
from tgp.ports.clock import Clock
from tgp.ports.http import NO_JSON, Call, Pairs, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import Broke, Fleet, Habits, OutOfStock, WantedMachine
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.clouds.webhook.machines import PLACE, products

OWNER = "cellar"
IDS_REMEMBERED = 4096
RETRY_AFTER_S = 7
NIGHT_SHIFT = "night-shift"  # another user who switches the machines
VERBS = {"on": CloudVerb.LAUNCH, "off": CloudVerb.TERMINATE, "status": CloudVerb.STATUS}
TYPES = {CloudVerb.LAUNCH: "machine.power_on", CloudVerb.TERMINATE: "machine.power_off"}
STATES = {
    Phase.STARTING: "starting",
    Phase.RUNNING: "on",
    Phase.STOPPED: "off",  # switched off by hand
    Phase.LOST: "fault",
    Phase.ENDING: "stopping",
}


Receiver = TypeVar("Receiver", bound="WebhookReceiver")


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    machine: str
    token: str
    timestamp: datetime


class WebhookReceiver(Simulator):
    provider = OWNED_PROVIDER

    def __init__(self, fleet: Fleet, clock: Clock, seed: int | str) -> None:
        super().__init__(fleet, seed)
        self.key = f"cellar-{sha256(f'{seed}/key'.encode()).hexdigest()[:24]}"
        self.signing_secret = f"whsec_{b64encode(sha256(f'{seed}/signing'.encode()).digest()).decode()}"
        self.locked = False
        self.refused: list[str] = []  # why calls were not believed
        self._clock = clock
        self._done: OrderedDict[str, None] = OrderedDict()

    # -- the order of things -------------------------------------------------------------------------------------------

    def verb_of(self, call: Call) -> CloudVerb:
        return VERBS.get(call.path.rpartition("/")[2], CloudVerb.OTHER)

    def key_of(self, call: Call) -> str:
        if not call.header("Authorization") and not self.locked:
            return self.key  # local calls need no key
        return super().key_of(call)

    def route(self, call: Call, verb: CloudVerb, tenant: Tenant | None) -> Reply:
        assert tenant is not None, "nothing here is public"
        if (doubt := self._doubt(call)) is not None:
            return doubt
        name, _, button = call.path.strip("/").partition("/")
        if f"{name}@{PLACE}" not in self.fleet.stands or call.path != f"/{name}/{button}":
            return _said(404, error="unknown machine")
        match call.method, button:
            case "GET", "status":
                return self._status(tenant, name)
            case "POST", "on" | "off":
                return self._switch(call, verb, tenant, name)
            case _, "on" | "off" | "status":
                return _said(405, error="buttons take POST, the status takes GET")
            case _:
                return _said(404, error="a machine has on, off and status")

    def _doubt(self, call: Call) -> Reply | None:
        """Why this call is not believed; None: it is."""
        if not call.header(SIGNATURE) and not self.locked:
            return None
        keys = keys_of(Secret(self.signing_secret))
        try:
            keys.verify(call.header(ID), call.header(TIMESTAMP), call.header(SIGNATURE), call.body, self._clock.now())
        except NotSigned as error:
            self.refused.append(str(error))
            return _said(401, error=str(error))
        return None

    # -- by hand -------------------------------------------------------------------------------------------------------

    def switch_on_by_hand(self, name: str, *, booted: bool = False) -> SimulatedMachine:
        """A person presses the button: the machine is on, and for no order. `booted`: it was up before we came."""
        machine = self.fleet.rent(self._owner(), WantedMachine(f"{name}@{PLACE}", "", by_hand=True, booted=booted))
        self.fleet.advance()
        return machine

    def switch_off_by_hand(self, name: str) -> None:
        machine = self._occupant(self._owner(), name)
        assert machine is not None, f"{name} is off"
        self.fleet.end(machine)

    def is_on(self, name: str) -> bool:
        return self._occupant(self._owner(), name) is not None

    def lose_power(self, name: str) -> None:
        """It is off at once, if it was on."""
        if (machine := self._occupant(self._owner(), name)) is not None:
            self.fleet.vanish(machine)

    def _owner(self) -> Tenant:
        tenant = self.fleet.accounts.of(self.key)
        assert tenant is not None, "the owner has an account"
        return tenant

    # -- buttons -------------------------------------------------------------------------------------------------------

    def _switch(self, call: Call, verb: CloudVerb, tenant: Tenant, name: str) -> Reply:
        try:
            message = msgspec.json.decode(call.body, type=_Message)
        except NO_JSON as error:
            return _said(400, error=str(error))
        if (message.type, message.machine) != (TYPES[verb], name):
            return _said(400, error="the message is about something else")
        if not (message_id := call.header(ID)):
            return _said(400, error="a message needs an id")
        if self.fault is CloudFault.DELETE_UNKNOWN:
            return _said(404, error="unknown machine")
        if self._seen(message_id):
            return self._status(tenant, name)  # done before: say how it stands
        reply = self._off(tenant, name) if verb is CloudVerb.TERMINATE else self._on(tenant, name, message.token)
        if reply.ok or self.fault is CloudFault.ERROR_WITH_ID:
            self._done[message_id] = None
        return reply

    def _on(self, tenant: Tenant, name: str, token: str) -> Reply:
        product = f"{name}@{PLACE}"
        if self.fault is CloudFault.SOLD_OUT:
            self.fleet.restock(product, 0)
        if self._occupant(tenant, name) is not None or self.fleet.stands[product].stock <= 0:
            return _said(409, error="the machine is on already")
        cloud_fault = None if self.fault is CloudFault.MADE_TWICE else self.fault  # there is one machine of that name
        try:
            machine = self.fleet.rent(tenant, WantedMachine(product, token), cloud_fault)
        except (OutOfStock, Broke):
            return _said(402, error="the fuse allows no further machine")
        if self.fault is CloudFault.ERROR_WITH_ID:
            return _said(500, error="the log could not be written", state=STATES[machine.phase], token=token)
        return _said(202, state=STATES[machine.phase], token=token)

    def _off(self, tenant: Tenant, name: str) -> Reply:
        machine = self._occupant(tenant, name)
        if machine is not None:
            self.fleet.end(machine, self.fault)
        return _said(202, state="stopping" if machine is not None else "off")

    def _status(self, tenant: Tenant, name: str) -> Reply:
        machine, lie = self._occupant(tenant, name), self.fleet.lie
        if lie is not None and lie.denies:
            return _said(200, state="off", token="")
        if machine is None and self.fleet.stands[f"{name}@{PLACE}"].stock <= 0:
            return _said(200, state="on", token=NIGHT_SHIFT)
        if machine is None or machine.visible_at > self._clock.now() or machine.phase is Phase.STOPPED:
            return _said(200, state="off", token="")
        phase = (lie.phase if lie is not None else None) or machine.phase
        return _said(200, state=STATES[phase], token=machine.name)

    def _occupant(self, tenant: Tenant, name: str) -> SimulatedMachine | None:
        """The token that the machine is on for; None: it is off."""
        self.fleet.advance()
        for machine in self.fleet.living():
            if machine.account == tenant.id and machine.product.sku == name:
                return machine
        return None

    def _seen(self, message_id: str) -> bool:
        """Each id is done once; the oldest are forgotten."""
        while len(self._done) > IDS_REMEMBERED:
            self._done.popitem(last=False)
        return message_id in self._done

    # -- words ---------------------------------------------------------------------------------------------------------

    def stranger(self, call: Call) -> Reply:  # noqa: ARG002 - every stranger hears the same
        return _said(401, error="who are you?")

    def busy(self) -> Reply:
        return _said(429, (("Retry-After", str(RETRY_AFTER_S)),), error="not so fast")

    def failure(self) -> Reply:
        return _said(500, error="internal error")

    def retired(self) -> Reply:
        return _said(410, error="moved long ago")


def _said(status: int, headers: Pairs = (), **body: Any) -> Reply:
    return Reply(status, msgspec.json.encode(body), (("Content-Type", "application/json"), *headers))


def simulator(clock: Clock, seed: int | str) -> WebhookReceiver:
    return receiver_of(WebhookReceiver, clock, seed)


def receiver_of(kind: type[Receiver], clock: Clock, seed: int | str) -> Receiver:
    """A receiver of this kind with every machine off, and the owner's key."""
    habits = Habits(list_lag=(0.0, 3.0), ending=(5.0, 40.0), idle_share=0.0, moves=False)
    fleet = Fleet(clock, seed, products(), habits=habits)
    receiver = kind(fleet, clock, seed)
    fleet.accounts.open(Tenant(OWNER, "the house"), receiver.key)
    return receiver
