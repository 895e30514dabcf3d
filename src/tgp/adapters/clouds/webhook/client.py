"""The eight verbs for machines you own. The only sender."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from tgp.adapters.clouds.door import Door
from tgp.adapters.clouds.ending import ABOUT_ORDERS, not_ended
from tgp.adapters.clouds.sending import Sender
from tgp.adapters.clouds.webhook import wire
from tgp.adapters.clouds.webhook.checking import Visit, report
from tgp.adapters.clouds.webhook.facts import ACCOUNT, FACTS
from tgp.adapters.clouds.webhook.headers import NotHeaders, headers_of
from tgp.adapters.clouds.webhook.offering import offer_of
from tgp.adapters.clouds.webhook.power import Power, Reading
from tgp.adapters.clouds.webhook.reach import Reach
from tgp.adapters.clouds.webhook.wire import Conflict, Papers
from tgp.api.common import SecretKeyRef
from tgp.api.power import PowerMachine
from tgp.api.problem import Invalid
from tgp.api.quantity import NotAQuantity
from tgp.api.values import duration
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
from tgp.core.model.secret import Secret
from tgp.core.model.signature import NotASecret, keys_of
from tgp.core.rules.power_hosts import HostRefused, Target
from tgp.ports.cloud import Account, CloudFacts, KeyReport, LaunchOrder, Listing, confirmed
from tgp.ports.http import Http

LOOKS_AT_ONCE = 8
DROPPED: Mapping[type[ValueError], str] = {
    NotAPrice: "bad price",
    NotAQuantity: "bad shape",
    HostRefused: "host not allowed",
}
USUAL_BOOT = timedelta(minutes=10)  # the default of bootTimeout


@dataclass(frozen=True, slots=True)
class Begun:
    """A machine that we switched on and that has not been seen on since."""

    token: str
    until: float  # Clock.boottime; then its word counts again


class WebhookCloud:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._reach = Reach(door)
        self._machines = {machine.name: machine for machine in door.settings.machines}
        self._begun: dict[str, Begun] = {}  # by machine; at most one each
        self._tells_token: dict[str, bool] = {}  # by machine, from its last answer
        self._few = asyncio.Semaphore(LOOKS_AT_ONCE)

    @property
    def facts(self) -> CloudFacts:
        everybody = bool(self._machines) and all(self._tells_token.get(name, False) for name in self._machines)
        return replace(FACTS, lists_by_token=everybody)

    # -- selling and buying --------------------------------------------------------------------------------------------

    async def offers(self) -> Listing:
        """Every machine of the class; one whose status cannot be read is listed, and nobody knows whether it is on."""
        looks = await self._look_at_all()
        _raise_if_nobody_answered(looks)
        offers: list[Offer] = []
        dropped: dict[str, int] = {}
        for machine, seen in looks:
            try:
                self._reach.refuse_unfit(machine.scale_up_endpoint, machine.scale_down_endpoint)
                told = self._remembering(machine, seen) if isinstance(seen, Reading) else None
                offers.append(offer_of(machine, self._door.settings, told))
            except tuple(DROPPED) as error:
                why = DROPPED[type(error)]
                dropped[why] = dropped.get(why, 0) + 1
        return Listing(tuple(offers), dropped)

    async def launch(self, order: LaunchOrder) -> Instance:
        machine = self._machines.get(order.offer.sku)
        if machine is None:
            raise OrderRefused(f"webhook has no machine {order.offer.sku!r:.80}: the class does not name it")
        who = f"webhook machine {machine.name}, scaleUpEndpoint,"
        papers = self._papers(machine)
        http, target = await self._open(machine.scale_up_endpoint, who)
        call = wire.switch_on(machine, target, order.token, self._door.clock.now(), papers)
        try:
            reply = await Sender(http, who).change(replace(call, not_after=(await confirmed(order)).not_after))
            made = wire.read_switched_on(reply, who, machine.name, order.token)
        except Conflict as conflict:
            made = await self._already_on(machine, order.token, who, conflict.told)
        until = self._door.clock.boottime() + _boot_time(machine).total_seconds()
        self._begun[machine.name] = Begun(order.token, until)
        return made

    async def _already_on(self, machine: PowerMachine, token: str, who: str, told: Reading | None) -> Instance:
        """409. Ours, if this order was sent before and its answer was lost; else somebody else's."""
        why = f"{who} answered 409"
        try:
            seen = told or await self._look(machine)
        except CloudError as error:
            raise OutcomeUnknown(f"{why}, and whether the machine is on cannot be told") from error
        if seen.power not in (Power.ON, Power.STARTING):
            raise OutcomeUnknown(f"{why}, and the machine is {seen.power}")
        if seen.token not in (None, token):
            raise SoldOut(f"{why}: {machine.name} is on for somebody else")
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
            raise CannotTell(f"webhook has no machine {name!r:.80}: the class does not name it any more")
        if machine.status_endpoint is None:
            return wire.instance_of(name, token, Reading(Power.UNKNOWN, "no statusEndpoint: its Node tells"))
        seen = self._remembering(machine, await self._look(machine))
        if seen.power is Power.OFF or (token and seen.token not in (None, "", token)):
            return None
        return wire.instance_of(name, seen.token or token, seen)

    async def _all_on(self) -> list[Instance]:
        """Every machine that is not off, by id; or an error, if one of them does not tell for whom it is on."""
        if not self._machines:
            raise CannotTell("webhook names no machine: what was switched on earlier cannot be seen")
        found: list[Instance] = []
        for machine, looked in await self._look_at_all():
            if isinstance(looked, CloudError):
                raise looked
            if looked is None:
                raise CannotTell(f"webhook machine {machine.name} has no statusEndpoint: it cannot be asked")
            seen = self._remembering(machine, looked)
            if seen.power is Power.OFF:
                continue
            if seen.token is None:
                raise CannotTell(f"webhook machine {machine.name} does not tell for whom it is {seen.power}")
            found.append(wire.instance_of(machine.name, seen.token, seen))
        return sorted(found, key=lambda one: one.id)

    def _remembering(self, machine: PowerMachine, seen: Reading) -> Reading:
        """Many a status is a ping, and says off until the system is up. What we switched on is starting till then."""
        begun = self._begun.get(machine.name)
        if begun is None:
            return seen
        if seen.power in (Power.ON, Power.STARTING) or self._door.clock.boottime() >= begun.until:
            del self._begun[machine.name]  # from now on its own word is enough
            return replace(seen, token=begun.token) if seen.token is None and seen.power is not Power.OFF else seen
        if seen.power is Power.OFF:
            return Reading(Power.STARTING, "switched on, not up yet", begun.token)
        return seen

    async def _look_at_all(self) -> list[tuple[PowerMachine, "Reading | CloudError | None"]]:
        machines = list(self._machines.values())
        looks = await asyncio.gather(*(self._try_look(machine) for machine in machines))
        return list(zip(machines, looks, strict=True))

    async def _try_look(self, machine: PowerMachine) -> "Reading | CloudError | None":
        """None: it has no status endpoint."""
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
            raise CannotTell(f"webhook machine {machine.name} has no statusEndpoint: it cannot be asked")
        papers = self._papers(machine)
        try:
            http, target = await self._open(machine.status_endpoint, who)
        except OrderRefused as error:
            raise CannotTell(str(error)) from error
        call = wire.ask(machine, target, self._door.clock.now(), papers)
        seen = wire.read_reading(await Sender(http, who).look(call, max_bytes=wire.STATUS_BYTES), who)
        self._tells_token[machine.name] = seen.token is not None
        return seen

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
            raise OrderRefused(f"webhook has no machine {name!r:.80} any more: put it back, or switch it off by hand")
        if token and await self._is_somebody_elses(machine, token):
            return  # our time on it is over; it must not go dark under whoever has it now
        who = f"webhook machine {name}, scaleDownEndpoint,"
        papers = self._papers(machine)
        http, target = await self._open(machine.scale_down_endpoint, who)
        call = wire.switch_off(machine, target, token, self._door.clock.now(), papers)
        try:
            wire.read_switched_off(await Sender(http, who).change(call), who)
        except Conflict as conflict:
            await self._already_off(machine, who, conflict.told)
        self._begun.pop(name, None)

    async def _is_somebody_elses(self, machine: PowerMachine, token: str) -> bool:
        if machine.status_endpoint is None:
            return False
        try:
            seen = await self._look(machine)
        except CloudError:
            return False  # not knowing is no reason to leave it on
        return seen.token not in (None, "", token) and seen.power is not Power.OFF

    async def _already_off(self, machine: PowerMachine, who: str, told: Reading | None) -> None:
        why = f"{who} answered 409"
        try:
            seen = told or await self._look(machine)
        except CloudError as error:
            raise OutcomeUnknown(f"{why}, and whether the machine is off cannot be told") from error
        if seen.power not in (Power.OFF, Power.STOPPING):
            raise OutcomeUnknown(f"{why}, and the machine is {seen.power}")

    # -- checking ------------------------------------------------------------------------------------------------------

    async def check(self) -> KeyReport:
        """Hosts, secrets and status of every machine. Nothing is switched."""
        looks = await self._look_at_all()
        _raise_if_nobody_answered(looks)
        visits = [Visit(machine, await self._obstacle(machine), seen) for machine, seen in looks]
        return report(visits, self._door)

    async def _obstacle(self, machine: PowerMachine) -> str:
        """Why a switching call would not leave; empty: it would."""
        for name, url in (
            ("scaleUpEndpoint", machine.scale_up_endpoint),
            ("scaleDownEndpoint", machine.scale_down_endpoint),
        ):
            try:
                self._papers(machine)
                await self._open(url, f"webhook machine {machine.name}, {name},")
            except (OrderRefused, KeyRefused, CloudBusy) as error:
                return str(error)
        return ""

    async def identity(self) -> Account:
        return ACCOUNT

    # -- what a call needs ---------------------------------------------------------------------------------------------

    async def _open(self, url: str, who: str) -> tuple[Http, Target]:
        try:
            return await self._reach.open(url, who)
        except HostRefused as error:
            raise OrderRefused(f"{who} is never called: {error}") from error

    def _papers(self, machine: PowerMachine) -> Papers:
        headers = self._secret(machine, "headersSecretRef", machine.headers_secret_ref)
        signing = self._secret(machine, "signingSecretRef", machine.signing_secret_ref)
        try:
            return Papers(headers_of(headers) if headers else (), keys_of(signing) if signing else None)
        except NotHeaders as error:
            raise KeyRefused(f"webhook machine {machine.name}, headersSecretRef: {error}") from None
        except NotASecret as error:
            raise KeyRefused(f"webhook machine {machine.name}, signingSecretRef: {error}") from None

    def _secret(self, machine: PowerMachine, field: str, ref: SecretKeyRef | None) -> Secret | None:
        if ref is None:
            return None
        found = self._door.secrets.get((ref.name, ref.key))
        if not found:
            raise KeyRefused(f"webhook machine {machine.name}, {field}: Secret {ref.name} has nothing under {ref.key}")
        return found


def _raise_if_nobody_answered(looks: list[tuple[PowerMachine, "Reading | CloudError | None"]]) -> None:
    """One silent machine spoils no list. Where every one of them fails alike, it is not about the machines."""
    errors = [seen for _, seen in looks if isinstance(seen, CloudError)]
    if errors and len(errors) == len(looks):
        raise errors[0]


def _boot_time(machine: PowerMachine) -> timedelta:
    try:
        return duration(machine.boot_timeout, "bootTimeout")
    except Invalid:
        return USUAL_BOOT
