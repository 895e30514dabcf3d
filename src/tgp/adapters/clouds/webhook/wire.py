"""Power and status calls, and their answers. No I/O.

A power call carries `webhook-id`, by which a receiver deduplicates, and `webhook-timestamp`; signed where
the class names a secret. Its status is the whole answer: the body is never shown.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from tgp.adapters.clouds.error_answers import ErrorTable, Row, Said
from tgp.adapters.clouds.webhook.offering import PLACE
from tgp.adapters.clouds.webhook.power import STATES, NotAStatus, Power, Reading, read_status
from tgp.api.common import OWNED_PROVIDER
from tgp.api.owned_machine import PowerMachine
from tgp.core.classes.power_hosts import PowerTarget
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
from tgp.ports.http import Call, Pairs, Reply

STATUS_BYTES = 64 << 10
LOOK_TIMEOUT = timedelta(seconds=10)
BUSY_PAUSE = timedelta(seconds=10)
# Answers that mean no. Any other non-2xx is unknown: 408 and 499 mean half a request, a redirect is
# what a form answers after success, and 5xx may come from a proxy in front of a starting machine.
REFUSALS = (400, 404, 405, 406, 410, 411, 412, 413, 414, 415, 422, 428, 431, 501)
REDIRECTS = tuple(range(300, 400))
NO_FORMAT = Said("")  # a receiver is the user's own: its status is the whole answer


def _pause(reply: Reply) -> timedelta:
    return reply.retry_after or BUSY_PAUSE


_KEY = Row(KeyRefused, (401, 403), advice="check headersSecretRef and signingSecretRef")
_REDIRECTED = "redirects are not followed, set the final URL"
ERRORS = ErrorTable(
    OWNED_PROVIDER,
    orders=(
        _KEY,
        Row(AccountExhausted, (402,), advice="no power is left for another machine"),
        Row(CloudBusy, (423,)),
        Row(OrderRefused, REFUSALS, advice="check the URL and what its receiver expects"),
        Row(OutcomeUnknown, REDIRECTS, advice=_REDIRECTED),
    ),
    looks=(_KEY, Row(CannotTell, REDIRECTS, advice=_REDIRECTED)),
    pause=_pause,
    trouble_pause=BUSY_PAUSE,
)


class PowerVerb(StrEnum):
    ON = "machine.power_on"
    OFF = "machine.power_off"


class ReceiverConflict(Exception):
    """409: already done, or another client is at it. `told` is the machine's status in the answer, if any."""

    def __init__(self, told: Reading | None) -> None:
        super().__init__()
        self.told = told


@dataclass(frozen=True, slots=True)
class Message:
    """One action to be done once."""

    verb: PowerVerb
    token: str
    id: str
    at: datetime

    def body(self, machine: str) -> bytes:
        stamp = self.at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        said = {"type": self.verb.value, "machine": machine, "token": self.token, "timestamp": stamp}
        return msgspec.json.encode(said)


@dataclass(frozen=True, slots=True)
class MessageParts:
    """The headers that a machine's receiver expects."""

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
    """Machine and token; the token is empty if only the machine's name is given."""
    name, _, token = instance.partition(":")
    return name, token


# -- calls -------------------------------------------------------------------------------------------------------------


def switch_on(machine: PowerMachine, target: PowerTarget, token: str, at: datetime, parts: MessageParts) -> Call:
    return _switch(machine, target, Message(PowerVerb.ON, token, token, at), parts)


def switch_off(machine: PowerMachine, target: PowerTarget, token: str, at: datetime, parts: MessageParts) -> Call:
    """Each call is a message of its own: a receiver that remembers ids must not ignore the second."""
    whose = token or machine.name.replace(".", "-")
    return _switch(
        machine, target, Message(PowerVerb.OFF, token, f"{whose}-off-{int(at.timestamp() * 1000)}", at), parts
    )


def _switch(machine: PowerMachine, target: PowerTarget, message: Message, parts: MessageParts) -> Call:
    body = b"" if machine.method == "GET" else message.body(machine.name)
    kind: Pairs = (("Content-Type", "application/json"),) if body else ()
    headers = (*kind, *parts.on(message.id, message.at, body))
    return Call(machine.method, target.path, query=target.query, headers=headers, body=body)


def ask(machine: PowerMachine, target: PowerTarget, at: datetime, parts: MessageParts) -> Call:
    message_id = f"status-{machine.name.replace('.', '-')}-{int(at.timestamp() * 1000)}"
    headers = (("Accept", "application/json, text/plain;q=0.5"), *parts.on(message_id, at, b""))
    return Call("GET", target.path, query=target.query, headers=headers, timeout=LOOK_TIMEOUT)


# -- answers -----------------------------------------------------------------------------------------------------------


def read_switched_on(reply: Reply, who: str, name: str, token: str) -> Instance:
    told = _told(reply)
    named = told is not None and told.power in (Power.ON, Power.STARTING) and told.token in (None, "", token)
    if not reply.ok and reply.status != 409 and named:
        why = f"{who} answered {reply.status} and reported that the machine is starting"
        raise OutcomeUnknown(why, instance_id(name, token))
    if not _accepted(reply, who, told):
        raise replace(ERRORS, title=who).after_order(reply, NO_FORMAT, "power on")
    if told is not None and told.power in (Power.ON, Power.STARTING) and not named:
        raise SoldOut(f"{who} answered {reply.status}: {name} is on for another order")
    return instance_of(name, token, Reading(Power.STARTING, "powered on"))


def read_switched_off(reply: Reply, who: str) -> None:
    told = _told(reply)
    if 400 <= reply.status < 500 and told is not None and told.power is Power.OFF:
        return  # already off, by the refusal
    if not _accepted(reply, who, told):
        raise replace(ERRORS, title=who).after_end(reply, NO_FORMAT, "power off")


def _accepted(reply: Reply, who: str, told: Reading | None) -> bool:
    if reply.status == 409:
        raise ReceiverConflict(told)
    if reply.ok and _is_page(reply):
        raise OutcomeUnknown(
            f"{who} answered {reply.status} with an HTML page, which a proxy in front of it may have written"
        )
    return reply.ok


def read_reading(reply: Reply, who: str) -> Reading:
    """The answer of a status endpoint. Raises KeyRefused, CloudBusy or CannotTell."""
    if not reply.ok:
        raise replace(ERRORS, title=who).after_look(reply, NO_FORMAT, "status")
    try:
        return read_status(reply)
    except NotAStatus as error:
        raise CannotTell(f"{who} answered {reply.status}, but not with a status: {error}") from error


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
    """The machine's status in an answer to a power call; None: none."""
    try:
        return read_status(reply)
    except NotAStatus:
        return None


def _is_page(reply: Reply) -> bool:
    """By its first characters: small receivers label every text `text/html`."""
    return reply.content[:256].lstrip().lower().startswith((b"<!doctype", b"<html", b"<head", b"<?xml"))
