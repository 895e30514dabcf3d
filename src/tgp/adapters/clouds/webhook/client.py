"""The eight verbs for machines you own. The only sender."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.error_answers import ABOUT_ORDERS, not_ended
from tgp.adapters.clouds.sender import Sender
from tgp.adapters.clouds.webhook import wire
from tgp.adapters.clouds.webhook.checking import ReceiverCheck, report
from tgp.adapters.clouds.webhook.facts import ACCOUNT, FACTS
from tgp.adapters.clouds.webhook.headers import NotHeaders, headers_of
from tgp.adapters.clouds.webhook.offering import offer_of
from tgp.adapters.clouds.webhook.power import Power, Reading
from tgp.adapters.clouds.webhook.reach import EndpointGuard
from tgp.adapters.clouds.webhook.wire import MessageParts, ReceiverConflict
from tgp.api.common import SecretKeyRef
from tgp.api.field_error import Invalid
from tgp.api.owned_machine import PowerMachine
from tgp.api.quantity import NotAQuantity
from tgp.api.values import duration
from tgp.core.classes.power_hosts import HostRefused, PowerTarget
from tgp.core.model.cloud_errors import (
    CannotTell,
    CloudBusy,
    CloudError,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.core.model.instance import Instance
from tgp.core.model.offer import Offer
from tgp.core.model.prices import NotAPrice
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.secret import Secret
from tgp.core.model.signature import NotASecret, keys_of
from tgp.ports.cloud import Account, KeyReport, LaunchOrder, Listing, confirmed
from tgp.ports.http import Http

LOOKS_AT_ONCE = 8
DROPPED: Mapping[type[ValueError], str] = {
    NotAPrice: "bad price",
    NotAQuantity: "bad shape",
    HostRefused: "host not allowed",
}
USUAL_BOOT = timedelta(minutes=10)  # the default of bootTimeout


@dataclass(frozen=True, slots=True)
class Started:
    """A machine that we powered on and that has not been seen on since."""

    token: str
    until: float  # Clock.boottime; then its own status counts again


class WebhookCloud:
    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        self._reach = EndpointGuard(context)
        self._machines = {machine.name: machine for machine in context.settings.machines}
        self._begun: dict[str, Started] = {}  # by machine; at most one each
        self._few = asyncio.Semaphore(LOOKS_AT_ONCE)

    @property
    def facts(self) -> CloudFacts:
        return FACTS

    # -- selling and buying --------------------------------------------------------------------------------------------

    async def offers(self) -> Listing:
        """Every machine of the class; one whose status cannot be read is listed with unknown power."""
        looks = await self._look_at_all()
        _raise_if_none_answered(looks)
        offers: list[Offer] = []
        dropped: dict[str, int] = {}
        for machine, seen in looks:
            try:
                self._reach.refuse_unfit(machine.scale_up_endpoint, machine.scale_down_endpoint)
                told = self._remembering(machine, seen) if isinstance(seen, Reading) else None
                offers.append(offer_of(machine, self._context.settings, told))
            except tuple(DROPPED) as error:
                why = DROPPED[type(error)]
                dropped[why] = dropped.get(why, 0) + 1
        return Listing(tuple(offers), dropped)

    async def launch(self, order: LaunchOrder) -> Instance:
        machine = self._machines.get(order.offer.sku)
        if machine is None:
            raise OrderRefused(f"webhook has no machine {order.offer.sku!r:.80}: the class does not list it")
        if order.takes_over:
            return await self._taken_over(machine, order)
        who = f"webhook machine {machine.name}, scaleUpEndpoint,"
        parts = self._message_parts(machine)
        http, target = await self._open(machine.scale_up_endpoint, who)
        call = wire.switch_on(machine, target, order.token, self._context.clock.now(), parts)
        try:
            reply = await Sender(http, who).change(replace(call, not_after=(await confirmed(order)).not_after))
            made = wire.read_switched_on(reply, who, machine.name, order.token)
        except ReceiverConflict as conflict:
            made = await self._already_on(machine, order.token, who, conflict.told)
        until = self._context.clock.boottime() + _boot_time(machine).total_seconds()
        self._begun[machine.name] = Started(order.token, until)
        return made

    async def _taken_over(self, machine: PowerMachine, order: LaunchOrder) -> Instance:
        """A machine that is on already. No power call is sent, whatever its state is."""
        seen = Reading(Power.ON, "taken over")
        if machine.status_endpoint is not None:
            try:
                seen = await self._look(machine)
            except CannotTell as error:
                raise CloudBusy(f"Machine {machine.name} is not taken over yet: {error}", wire.BUSY_PAUSE) from error
        if seen.power is not Power.ON or seen.token not in (None, "", order.token):
            whose = " for another order" if seen.token else ""
            raise SoldOut(f"Machine {machine.name} is not taken over: it is {seen.power}{whose}")
        await confirmed(order)
        return wire.instance_of(machine.name, order.token, seen)

    async def _already_on(self, machine: PowerMachine, token: str, who: str, told: Reading | None) -> Instance:
        """409. Ours, if this order was sent before and its answer was lost; else another order's."""
        why = f"{who} answered 409"
        try:
            seen = told or await self._look(machine)
        except CloudError as error:
            raise OutcomeUnknown(f"{why}, and the machine's power state is unknown") from error
        if seen.power not in (Power.ON, Power.STARTING):
            raise OutcomeUnknown(f"{why}, and the machine is {seen.power}")
        if seen.token not in (None, token):
            raise SoldOut(f"{why}: {machine.name} is on for another order")
        return wire.instance_of(machine.name, token, seen)

    # -- looking -------------------------------------------------------------------------------------------------------

    async def find(self, token: str) -> tuple[Instance, ...]:
        return tuple(one for one in await self._all_on() if token and one.token == token)

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        return tuple(one for one in await self._all_on() if one.token.startswith(prefix))

    async def status(self, instance_id: str) -> Instance | None:
        name, token = wire.parted(instance_id)
        machine = self._machines.get(name)
        if machine is None:
            raise CannotTell(f"webhook has no machine {name!r:.80}: the class no longer lists it")
        if machine.status_endpoint is None:
            return wire.instance_of(
                name, token, Reading(Power.UNKNOWN, "no statusEndpoint: the Node shows whether the machine is on")
            )
        seen = self._remembering(machine, await self._look(machine))
        if seen.power is Power.OFF or (token and seen.token not in (None, "", token)):
            return None
        return wire.instance_of(name, seen.token or token, seen)

    async def _all_on(self) -> list[Instance]:
        """Every machine that is not off, by id; or an error, if one does not report the order it is on for."""
        if not self._machines:
            raise CannotTell("the class lists no webhook machine: machines powered on earlier cannot be found")
        found: list[Instance] = []
        for machine, looked in await self._look_at_all():
            if isinstance(looked, CloudError):
                raise looked
            if looked is None:
                raise CannotTell(f"webhook machine {machine.name} has no statusEndpoint: its power state is unknown")
            seen = self._remembering(machine, looked)
            if seen.power is Power.OFF:
                continue
            if seen.token is None:
                raise CannotTell(f"webhook machine {machine.name} does not report the order it is {seen.power} for")
            found.append(wire.instance_of(machine.name, seen.token, seen))
        return sorted(found, key=lambda one: one.id)

    def _remembering(self, machine: PowerMachine, seen: Reading) -> Reading:
        """Some status endpoints are a ping and report off until the system is up. Until then a powered-on
        machine is starting.
        """
        begun = self._begun.get(machine.name)
        if begun is None:
            return seen
        if seen.power in (Power.ON, Power.STARTING) or self._context.clock.boottime() >= begun.until:
            del self._begun[machine.name]  # from now on its own status counts
            return replace(seen, token=begun.token) if seen.token is None and seen.power is not Power.OFF else seen
        if seen.power is Power.OFF:
            return Reading(Power.STARTING, "powered on, not up yet", begun.token)
        return seen

    async def _look_at_all(self) -> list[tuple[PowerMachine, "Reading | CloudError | None"]]:
        machines = list(self._machines.values())
        looks = await asyncio.gather(*(self._try_look(machine) for machine in machines))
        return list(zip(machines, looks, strict=True))

    async def _try_look(self, machine: PowerMachine) -> "Reading | CloudError | None":
        """None: no status endpoint."""
        if machine.status_endpoint is None:
            return None
        async with self._few:
            try:
                return await self._look(machine)
            except CloudError as error:
                return error

    async def _look(self, machine: PowerMachine) -> Reading:
        who = f"webhook machine {machine.name}, statusEndpoint,"
        if machine.status_endpoint is None:
            raise CannotTell(f"webhook machine {machine.name} has no statusEndpoint: its power state is unknown")
        parts = self._message_parts(machine)
        try:
            http, target = await self._open(machine.status_endpoint, who)
        except OrderRefused as error:
            raise CannotTell(str(error)) from error
        call = wire.ask(machine, target, self._context.clock.now(), parts)
        return wire.read_reading(await Sender(http, who).look(call, max_bytes=wire.STATUS_BYTES), who)

    # -- ending --------------------------------------------------------------------------------------------------------

    async def terminate(self, instance_id: str) -> None:
        try:
            await self._switch_off(instance_id)
        except ABOUT_ORDERS as error:
            raise not_ended(error) from error

    async def _switch_off(self, instance_id: str) -> None:
        name, token = wire.parted(instance_id)
        machine = self._machines.get(name)
        if machine is None:
            raise OrderRefused(f"webhook has no machine {name!r:.80} any more: add it again, or power it off by hand")
        if token and await self._serves_another_order(machine, token):
            return  # another order uses the machine now: it must not be powered off
        who = f"webhook machine {name}, scaleDownEndpoint,"
        parts = self._message_parts(machine)
        http, target = await self._open(machine.scale_down_endpoint, who)
        call = wire.switch_off(machine, target, token, self._context.clock.now(), parts)
        try:
            wire.read_switched_off(await Sender(http, who).change(call), who)
        except ReceiverConflict as conflict:
            await self._already_off(machine, who, conflict.told)
        self._begun.pop(name, None)

    async def _serves_another_order(self, machine: PowerMachine, token: str) -> bool:
        if machine.status_endpoint is None:
            return False
        seen = await self._look(machine)  # or an error: a machine whose state is unknown is not switched
        if seen.power is Power.UNKNOWN:
            raise CannotTell(f"webhook machine {machine.name} is not powered off: its status says {seen.said!r}")
        return seen.token not in (None, "", token) and seen.power is not Power.OFF

    async def _already_off(self, machine: PowerMachine, who: str, told: Reading | None) -> None:
        why = f"{who} answered 409"
        try:
            seen = told or await self._look(machine)
        except CloudError as error:
            raise OutcomeUnknown(f"{why}, and the machine's power state is unknown") from error
        if seen.power not in (Power.OFF, Power.STOPPING):
            raise OutcomeUnknown(f"{why}, and the machine is {seen.power}")

    # -- checking ------------------------------------------------------------------------------------------------------

    async def check(self) -> KeyReport:
        """Hosts, secrets and status of every machine. Nothing is powered on or off."""
        looks = await self._look_at_all()
        _raise_if_none_answered(looks)
        visits = [ReceiverCheck(machine, await self._obstacle(machine), seen) for machine, seen in looks]
        return report(visits, self._context)

    async def _obstacle(self, machine: PowerMachine) -> str:
        """Why a power call would not be sent; empty: it would."""
        for name, url in (
            ("scaleUpEndpoint", machine.scale_up_endpoint),
            ("scaleDownEndpoint", machine.scale_down_endpoint),
        ):
            try:
                self._message_parts(machine)
                await self._open(url, f"webhook machine {machine.name}, {name},")
            except (OrderRefused, KeyRefused, CloudBusy) as error:
                return str(error)
        return ""

    async def identity(self) -> Account:
        return ACCOUNT

    # -- what a call needs ---------------------------------------------------------------------------------------------

    async def _open(self, url: str, who: str) -> tuple[Http, PowerTarget]:
        try:
            return await self._reach.open(url, who)
        except HostRefused as error:
            raise OrderRefused(f"{who} is not allowed: {error}") from error

    def _message_parts(self, machine: PowerMachine) -> MessageParts:
        headers = self._secret(machine, "headersSecretRef", machine.headers_secret_ref)
        signing = self._secret(machine, "signingSecretRef", machine.signing_secret_ref)
        try:
            return MessageParts(headers_of(headers) if headers else (), keys_of(signing) if signing else None)
        except NotHeaders as error:
            raise KeyRefused(f"webhook machine {machine.name}, headersSecretRef: {error}") from None
        except NotASecret as error:
            raise KeyRefused(f"webhook machine {machine.name}, signingSecretRef: {error}") from None

    def _secret(self, machine: PowerMachine, field: str, ref: SecretKeyRef | None) -> Secret | None:
        if ref is None:
            return None
        found = self._context.secrets.get((ref.name, ref.key))
        if not found:
            raise KeyRefused(
                f"webhook machine {machine.name}, {field}: Secret {ref.name} has no value in key {ref.key}"
            )
        return found


def _raise_if_none_answered(looks: list[tuple[PowerMachine, "Reading | CloudError | None"]]) -> None:
    """One silent machine does not fail the list. If all fail alike, the cause is not a machine."""
    errors = [seen for _, seen in looks if isinstance(seen, CloudError)]
    if errors and len(errors) == len(looks):
        raise errors[0]


def _boot_time(machine: PowerMachine) -> timedelta:
    try:
        return duration(machine.boot_timeout, "bootTimeout")
    except Invalid:
        return USUAL_BOOT
