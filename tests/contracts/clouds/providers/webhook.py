"""Machines you own: the class names them and their prices, and each machine is asked for itself.

Much of what a listing can get wrong cannot happen here. What can, machine by machine, is tried in `webhook/` beside it.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from ipaddress import ip_address
from typing import Any
from weakref import WeakKeyDictionary

from tests.contracts.clouds.provider import Provider
from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.webhook import FACTS, build
from tgp.core.classes.power_hosts import HostRules
from tgp.core.model.secret import Secret
from tgp.ports.clock import Clock
from tgp.ports.cloud import Cloud
from tgp.ports.http import Call
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.webhook import HEADERS_REF, SIGNING_REF, WebhookReceiver, settings_at
from tgp.sim.clouds.webhook.machines import MACHINES
from tgp.sim.clouds.webhook.receiver import receiver_of
from tgp.sim.resolver import TableResolver

ADDRESS = ip_address("10.77.0.2")
SIGNING = "whsec_c2lnbmVkLWluLXRoZS1jZWxsYXItMDEyMzQ1Njc4OQ=="
ROOMS: WeakKeyDictionary[Clock, "LockedRoom"] = WeakKeyDictionary()
VERB_OF = {"offers": CloudVerb.OFFERS, "find": CloudVerb.LIST, "owned": CloudVerb.LIST, "check": CloudVerb.ACCOUNT}


class LockedRoom(WebhookReceiver):
    """Every call needs the key and a signature. What a status is asked for is what the suite may aim at."""

    purpose = CloudVerb.STATUS

    def verb_of(self, call: Call) -> CloudVerb:
        verb = super().verb_of(call)
        return self.purpose if verb is CloudVerb.STATUS else verb


class Announcing:
    """The adapter, and a word to the room beforehand of why it is about to ask."""

    def __init__(self, cloud: Cloud, room: LockedRoom) -> None:
        self._cloud = cloud
        self._room = room

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cloud, name)
        return self._announced(name, found) if name in VERB_OF else found

    def _announced(self, name: str, ask: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def announced(*arguments: Any) -> Any:
            self._room.purpose = VERB_OF[name]
            try:
                return await ask(*arguments)
            finally:
                self._room.purpose = CloudVerb.STATUS

        return announced


def _simulator(clock: Clock, seed: int | str) -> LockedRoom:
    room = receiver_of(LockedRoom, clock, seed)
    room.locked = True
    room.signing_secret = SIGNING
    ROOMS[clock] = room
    return room


def _build(context: AdapterContext) -> Cloud:
    """The key is a header that the receiver asks for; a class has it in a Secret."""
    secrets = {(SIGNING_REF.name, SIGNING_REF.key): Secret(SIGNING)}
    if context.key is not None:
        secrets[HEADERS_REF.name, HEADERS_REF.key] = Secret(f"Authorization: Bearer {context.key.reveal()}\n")
    resolver = TableResolver({"webhook.test": (ADDRESS,)})
    hosts = HostRules(for_pretence=True)  # some of the suite listens on loopback
    cloud = build(replace(context, key=None, secrets=secrets, resolver=resolver, hosts=hosts))
    return Announcing(cloud, ROOMS[context.clock])


def _state(answer: Any) -> Iterable[tuple[Any, Any]]:
    return ((answer, "state"),)


def _token(answer: Any) -> Iterable[tuple[Any, Any]]:
    return ((answer, "token"),)


NO_ACCOUNT = "machines you own are in no account"
YES_IS_ENOUGH = "a webhook's 2xx is the whole answer, whatever its body, as Standard Webhooks has it"

PROVIDER = Provider(
    facts=FACTS,
    tells_prices=False,
    tells_creation=False,
    simulator=_simulator,
    build=_build,
    settings=lambda url: settings_at(url, guarded=True),
    state_slots=_state,
    name_slots=_token,
    tells_balance=False,
    unpaged="it has no lists: each machine is asked for itself",
    token_fields=2,  # the body, and the id by which a receiver does a thing once
    askings={CloudVerb.OFFERS: MACHINES, CloudVerb.ACCOUNT: MACHINES},  # each machine is asked for itself
    exempt={
        "offers: a table of prices says its date": "its prices stand in the class, which has no date",
        "offers: an unknown GPU is dropped and counted": "its GPUs are named by the class or by the Node",
        "check: another account has another name": NO_ACCOUNT,
        "check: a key that comes to belong to another account is noticed": NO_ACCOUNT,
        "find: under another account the machine is not shown, and the identity differs": NO_ACCOUNT,
        "find: two machines under one token are both found": "there is one machine of a name",
        "find: what the list hides for long is found when the lag is over": (
            "what it switched on it remembers to be starting: nothing is hidden"
        ),
        "launch: an empty body is unknown": YES_IS_ENOUGH,
        "launch: a success of another shape is unknown": YES_IS_ENOUGH,
        "status: a stopped machine is ours and not gone": "a machine of yours that is off costs nothing",
        "status: a running machine has an address": "the machine is a Node, whose addresses the cluster knows",
        "terminate: a machine that the provider denies is still shown by its status": (
            "a 404 is about the endpoint, never about the machine, and no success"
        ),
    },
)
