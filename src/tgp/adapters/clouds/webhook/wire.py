"""Calls that switch and ask, and what their answers mean. No I/O.

A call that switches carries `webhook-id`, by which a receiver does a thing once, and `webhook-timestamp`; signed where
the class names a secret. Its status is the whole answer: nothing of a body is ever shown to anybody.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from tgp.adapters.clouds.webhook.offering import PLACE
from tgp.adapters.clouds.webhook.power import STATES, NotAStatus, Power, Reading, read_status
from tgp.api.power import PowerMachine
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    CloudBusy,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.signature import ID, TIMESTAMP, SigningKeys
from tgp.core.rules.power_hosts import Target
from tgp.ports.http import Call, Pairs, Reply

STATUS_BYTES = 64 << 10
LOOK_TIMEOUT = timedelta(seconds=10)
BUSY_PAUSE = timedelta(seconds=10)
# Answers that mean no. Anything else that is not 2xx is unknown: 408 and 499 tell of half a request, a redirect is
# what a form answers after it did what was asked, and 5xx may come from in front of a machine that is starting.
REFUSALS = frozenset((400, 404, 405, 406, 410, 411, 412, 413, 414, 415, 422, 428, 431, 501))


class Verb(StrEnum):
    ON = "machine.power_on"
    OFF = "machine.power_off"


class Conflict(Exception):
    """409: it is so already, or somebody else is at it. `told` is what the answer says of the machine, if anything."""

    def __init__(self, told: Reading | None) -> None:
        super().__init__()
        self.told = told


@dataclass(frozen=True, slots=True)
class Message:
    """One thing to be done once."""

    verb: Verb
    token: str
    id: str
    at: datetime

    def body(self, machine: str) -> bytes:
        stamp = self.at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        said = {"type": self.verb.value, "machine": machine, "token": self.token, "timestamp": stamp}
        return msgspec.json.encode(said)


@dataclass(frozen=True, slots=True)
class Papers:
    """What a machine's receiver wants to see."""

    headers: Pairs = field(default=(), repr=False)
    keys: SigningKeys | None = None

    def on(self, message_id: str, at: datetime, body: bytes) -> Pairs:
        if self.keys is not None:
            return (*self.headers, *self.keys.sign(message_id, at, body))
        return (*self.headers, (ID, message_id), (TIMESTAMP, str(int(at.timestamp()))))


# -- ids ---------------------------------------------------------------------------------------------------------------


def instance_id(name: str, token: str) -> str:
    """A machine, and the order it is on for: the next order of the same machine is another instance."""
    return f"{name}:{token}" if token else name


def parted(instance: str) -> tuple[str, str]:
    """Machine and token; the token is empty where somebody asks by the machine's name alone."""
    name, _, token = instance.partition(":")
    return name, token


# -- calls -------------------------------------------------------------------------------------------------------------


def switch_on(machine: PowerMachine, target: Target, token: str, at: datetime, papers: Papers) -> Call:
    return _switch(machine, target, Message(Verb.ON, token, token, at), papers)


def switch_off(machine: PowerMachine, target: Target, token: str, at: datetime, papers: Papers) -> Call:
    """Each asking is a message of its own: a receiver that remembers ids must not ignore the second."""
    whose = token or machine.name.replace(".", "-")
    return _switch(machine, target, Message(Verb.OFF, token, f"{whose}-off-{int(at.timestamp() * 1000)}", at), papers)


def _switch(machine: PowerMachine, target: Target, message: Message, papers: Papers) -> Call:
    body = b"" if machine.method == "GET" else message.body(machine.name)
    kind: Pairs = (("Content-Type", "application/json"),) if body else ()
    headers = (*kind, *papers.on(message.id, message.at, body))
    return Call(machine.method, target.path, query=target.query, headers=headers, body=body)


def ask(machine: PowerMachine, target: Target, at: datetime, papers: Papers) -> Call:
    message_id = f"status-{machine.name.replace('.', '-')}-{int(at.timestamp() * 1000)}"
    headers = (("Accept", "application/json, text/plain;q=0.5"), *papers.on(message_id, at, b""))
    return Call("GET", target.path, query=target.query, headers=headers, timeout=LOOK_TIMEOUT)


# -- answers -----------------------------------------------------------------------------------------------------------


def read_switched_on(reply: Reply, who: str, name: str, token: str) -> Instance:
    told = _told(reply)
    named = told is not None and told.power in (Power.ON, Power.STARTING) and told.token in (None, "", token)
    if not reply.ok and reply.status != 409 and named:
        why = f"{who} answered {reply.status}, and that the machine is on its way"
        raise OutcomeUnknown(why, instance_id(name, token))
    _refuse(reply, who, told)
    if told is not None and told.power in (Power.ON, Power.STARTING) and not named:
        raise SoldOut(f"{who} answered {reply.status}: {name} is on for somebody else")
    return instance_of(name, token, Reading(Power.STARTING, "switched on"))


def read_switched_off(reply: Reply, who: str) -> None:
    told = _told(reply)
    if 400 <= reply.status < 500 and told is not None and told.power is Power.OFF:
        return  # it is off already, says the refusal
    _refuse(reply, who, told)


def _refuse(reply: Reply, who: str, told: Reading | None) -> None:
    """Returns for an answer that means yes."""
    match reply.status:
        case status if reply.ok and not _is_page(reply):
            return
        case status if reply.ok:
            raise OutcomeUnknown(f"{who} answered {status} with a page, which a proxy in front of it may have written")
        case 401 | 403 as status:
            raise KeyRefused(f"{who} answered {status}: check headersSecretRef and signingSecretRef")
        case 402:
            raise AccountExhausted(f"{who} answered 402: it has no power to spare for another machine")
        case 409:
            raise Conflict(told)
        case 423 | 429 as status:
            raise CloudBusy(f"{who} answered {status}: later", reply.retry_after or BUSY_PAUSE)
        case status if status in REFUSALS:
            raise OrderRefused(f"{who} answered {status}: check the address and what the receiver there expects")
        case status if 300 <= status < 400:
            raise OutcomeUnknown(f"{who} answered {status}: redirects are not followed, write the final address")
        case status:
            raise OutcomeUnknown(f"{who} answered {status}")


def read_reading(reply: Reply, who: str) -> Reading:
    """What a status endpoint says. Raises KeyRefused, CloudBusy or CannotTell."""
    match reply.status:
        case status if reply.ok:
            try:
                return read_status(reply)
            except NotAStatus as error:
                raise CannotTell(f"{who} answered {status}, and it is no status: {error}") from error
        case 401 | 403 as status:
            raise KeyRefused(f"{who} answered {status}: check headersSecretRef and signingSecretRef")
        case 429 as status:
            raise CloudBusy(f"{who} answered {status}: later", reply.retry_after or BUSY_PAUSE)
        case status if status >= 500:
            raise CloudBusy(f"{who} answered {status}", reply.retry_after or BUSY_PAUSE)
        case status if 300 <= status < 400:
            raise CannotTell(f"{who} answered {status}: redirects are not followed, write the final address")
        case status:
            raise CannotTell(f"{who} answered {status}")


def instance_of(name: str, token: str, seen: Reading) -> Instance:
    """A machine that is not off."""
    return Instance(
        instance_id(name, token),
        token,
        STATES.get(seen.power, InstanceState.UNKNOWN),
        said=seen.said,
        sku=name,
        place=PLACE,
        progress=seen.said,
    )


def _told(reply: Reply) -> Reading | None:
    """What an answer to a switch says of the machine besides; None: nothing."""
    try:
        return read_status(reply)
    except NotAStatus:
        return None


def _is_page(reply: Reply) -> bool:
    """By its first signs: small receivers call every text `text/html`."""
    return reply.content[:256].lstrip().lower().startswith((b"<!doctype", b"<html", b"<head", b"<?xml"))
