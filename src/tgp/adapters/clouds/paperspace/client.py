"""The only sender to Paperspace."""

from dataclasses import replace
from typing import Any

from tgp.adapters.clouds.paperspace import paging, scripts, templates, wire
from tgp.adapters.clouds.paperspace.errors import ERRORS, named_machine, said_in
from tgp.adapters.clouds.paperspace.facts import FACTS
from tgp.adapters.clouds.paperspace.prices import overridden, shipped
from tgp.adapters.clouds.sender import OFFERS_BYTES, Sender
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, CloudError, OrderRefused, OutcomeUnknown
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.offer import Offer
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.secret import Secret
from tgp.ports.clock import Clock
from tgp.ports.cloud import Account, KeyReport, LaunchOrder, Listing, Right, confirmed
from tgp.ports.http import Call, Http


class PaperspaceCloud:
    def __init__(self, http: Http, clock: Clock, settings: ProviderSettings, key: Secret | None = None) -> None:
        self._sender = Sender(http, FACTS.title)
        self._key = key  # `http` sends it; here it is only removed from errors
        self._clock = clock
        self._template = settings.template_id or ""
        self._table = overridden(shipped(), settings.prices)

    @property
    def facts(self) -> CloudFacts:
        return FACTS

    # -- selling -------------------------------------------------------------------------------------------------------

    async def offers(self) -> Listing:
        listed = await self._templates()
        dropped = dict(self._table.dropped)
        found: list[Offer] = []
        for machine in self._table.types:
            if templates.best_for(machine.name, listed, self._template):
                found += wire.offers_of(machine)
            else:
                dropped["no matching template"] = dropped.get("no matching template", 0) + len(machine.places)
        return Listing(tuple(found), dropped)

    async def _templates(self) -> tuple[templates.Template, ...]:
        return templates.read(await self._all(templates.TEMPLATES))

    # -- buying --------------------------------------------------------------------------------------------------------

    async def launch(self, order: LaunchOrder) -> Instance:
        call = await self._prepared(order)
        try:
            call = replace(call, not_after=(await confirmed(order)).not_after)
            return wire.read_launch(await self._sender.change(call), order, self._key)
        except OutcomeUnknown:
            raise  # a machine may exist that needs its script
        except CloudError:
            if order.user_data:
                await self._tidy_up(token=order.token)
            raise

    async def _prepared(self, order: LaunchOrder) -> Call:
        """The order, after writing its script if it has one. None of this pays."""
        machine = next((each for each in self._table.types if each.name == order.offer.sku), None)
        if machine is None:
            raise OrderRefused(
                f"the price table has no Paperspace machine type {order.offer.sku}: select another offer"
            )
        template = order.image or await self._template_for(machine.name)
        if not template:
            raise OrderRefused(f"no Paperspace template supports {machine.name}: set settings.templateId")
        script = await self._script(order) if order.user_data else ""
        return wire.launch(order, template, script, nvlink=machine.nvlink)

    async def _template_for(self, machine_type: str) -> str:
        try:
            return templates.best_for(machine_type, await self._templates(), self._template)
        except CannotTell as error:  # certainly nothing was ordered
            raise CloudBusy(f"{error}; no machine was ordered") from error

    async def _script(self, order: LaunchOrder) -> str:
        """The id of the new script. On any error nothing was ordered yet."""
        try:
            reply = await self._sender.change(scripts.create(order))
        except OutcomeUnknown as error:
            await self._tidy_up(token=order.token)
            raise CloudBusy(f"{error}; no machine was ordered") from error
        if script := scripts.read_create(reply):
            return script
        await self._tidy_up(token=order.token)
        said = said_in(reply, self._key, order.user_data)
        refusal = ERRORS.after_order(reply, said, "a start-up script", named_machine(reply))
        if isinstance(refusal, OutcomeUnknown):
            raise CloudBusy(f"Paperspace answered {reply.status} to a start-up script; no machine was ordered")
        if isinstance(refusal, OrderRefused):  # our own text: theirs may quote the script
            raise OrderRefused(
                f"Paperspace refused the start-up script with {reply.status}; the script may be too large"
            )
        raise refusal

    # -- looking -------------------------------------------------------------------------------------------------------

    async def find(self, token: str) -> tuple[Instance, ...]:
        """From the whole list: with a filter, absence would prove nothing."""
        return tuple(each for each in await self._machines() if each.token == token)

    async def status(self, instance_id: str) -> Instance | None:
        reply = await self._sender.look(wire.get_machine(instance_id))
        machine = wire.read_machine(reply, instance_id, self._key)
        if machine is None:
            return next((each for each in await self._machines() if each.id == instance_id), None)
        return await self._explained(machine) if machine.said == "off" else machine

    async def _explained(self, machine: Instance) -> Instance:
        """A machine that is off may have failed to start: only its events show that."""
        try:
            reply = await self._sender.look(paging.call(wire.EVENTS, (("machineId", machine.id),)))
            why = wire.failed_start(paging.read(reply, wire.EVENTS, self._key).rows, machine.id, self._key)
        except CloudError:
            return machine  # it is off anyway
        return _broken(machine, why) if why else machine

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        return tuple(each for each in await self._machines() if each.token.startswith(prefix))

    async def _machines(self) -> tuple[Instance, ...]:
        return wire.read_machines(list(await self._all(wire.MACHINES)))

    async def _all(self, path: str) -> tuple[Any, ...]:
        """The rows of all pages, or an error."""
        rows: list[Any] = []
        after = ""
        for _ in range(paging.MOST_PAGES):
            reply = await self._sender.look(paging.call(path, after=after), max_bytes=OFFERS_BYTES)
            page = paging.read(reply, path, self._key)
            rows += page.rows
            if not page.after:
                return tuple(rows)
            if page.after == after:
                raise CannotTell(f"Paperspace returned the same page of GET {path} twice")
            after = page.after
        raise CannotTell(f"Paperspace's GET {path} has more than {paging.MOST_PAGES} pages")

    # -- ending --------------------------------------------------------------------------------------------------------

    async def terminate(self, instance_id: str) -> None:
        reply = await self._sender.change(wire.terminate(instance_id))
        if wire.must_stop_first(reply):
            await self._sender.change(wire.stop(instance_id))
            raise wire.stopping(instance_id)
        failure = wire.read_terminate(reply, instance_id, self._key)
        if failure is not None:
            raise failure
        await self._tidy_up(token=wire.name_in(reply), machine=instance_id)

    async def cleanup(self, token: str) -> None:
        """Also finds scripts by name that a crash left without a machine."""
        await self._remove_scripts(token=token)

    async def _tidy_up(self, *, token: str = "", machine: str = "") -> None:
        """Remove unused scripts. What fails now is found by its name at the next order or termination."""
        try:
            await self._remove_scripts(token=token, machine=machine)
        except CloudError:
            return

    async def _remove_scripts(self, *, token: str = "", machine: str = "") -> None:
        found = scripts.read(await self._all(scripts.SCRIPTS))
        refused = 0
        for script in scripts.removable(found, self._clock.now(), token=token, machine=machine):
            reply = await self._sender.change(scripts.delete(script))
            refused = refused if reply.ok or reply.status == 404 else reply.status
        if refused:
            raise CloudBusy(f"Paperspace answered {refused} to the deletion of a start-up script")

    # -- the account ---------------------------------------------------------------------------------------------------

    async def check(self) -> KeyReport:
        account = await self.identity()
        await self._machines()
        obstacle = wire.read_standing(await self._sender.look(Call("GET", wire.STANDING)), self._key)
        rights = (
            Right("list machines", held=True),
            Right("create machines", held=None, note="Paperspace shows this only when an order is sent"),
        )
        notes = (f"the account cannot launch: {obstacle}",) if obstacle else ()
        return KeyReport(account, rights, can_buy=not obstacle, notes=notes)

    async def identity(self) -> Account:
        return wire.read_session(await self._sender.look(Call("GET", wire.SESSION)), self._key)


def _broken(machine: Instance, why: str) -> Instance:
    return replace(machine, state=InstanceState.BROKEN, said=f"off: {why}")
