"""The only sender to Google Cloud: prepare, send, read. Every call has a valid access token."""

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.error_answers import not_ended
from tgp.adapters.clouds.gcp import launching, rights, wire
from tgp.adapters.clouds.gcp.account import ServiceAccount, read_key
from tgp.adapters.clouds.gcp.catalogue import catalogue
from tgp.adapters.clouds.gcp.errors import (
    ERRORS,
    error_of_operation,
    failures_of,
    is_gone,
    refusal_of,
    said_in,
)
from tgp.adapters.clouds.gcp.facts import FACTS
from tgp.adapters.clouds.gcp.names import parted
from tgp.adapters.clouds.gcp.offers import PriceReader
from tgp.adapters.clouds.gcp.tokens import GcpTokens
from tgp.adapters.clouds.parse import object_in
from tgp.adapters.clouds.sender import LOOK_BYTES, OFFERS_BYTES, Sender
from tgp.core.model.cloud_errors import (
    CannotTell,
    CloudBusy,
    KeyRefused,
)
from tgp.core.model.instance import Instance
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.secret import Secret
from tgp.ports.cloud import Account, KeyReport, LaunchOrder, Listing, confirmed
from tgp.ports.http import Call, Reply

MAX_PAGES = 40  # of 500 rows; the most that is read
SHORTEST_TOKEN = 16  # characters: Google's have a hundred and more, and a shorter one would match any answer
WHO = FACTS.title


class GcpCloud:
    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        self._settings = context.settings
        self._compute = Sender(context.dial(context.endpoint(FACTS)), WHO)
        self._manager = Sender(context.dial(context.settings.endpoint or rights.RESOURCE_MANAGER), WHO)
        self._opened: tuple[ServiceAccount, GcpTokens] | None = None

    @property
    def facts(self) -> CloudFacts:
        return FACTS

    # -- selling and buying --------------------------------------------------------------------------------------------

    async def offers(self) -> Listing:
        shop = PriceReader(catalogue(), self._settings.prices)
        for kind, take in (("machineTypes", shop.take_machine_types), ("acceleratorTypes", shop.take_accelerators)):
            for page in await self._pages(kind):
                take(page.rows)
        return shop.listing()

    async def launch(self, order: LaunchOrder) -> Instance:
        call = launching.launch(order, self._project, self._settings)
        return launching.read_launch(await self._change(call, order), order)

    # -- looking -------------------------------------------------------------------------------------------------------

    async def find(self, token: str) -> tuple[Instance, ...]:
        return tuple(machine for machine in await self._all() if machine.token == token)

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        return tuple(machine for machine in await self._all() if machine.token.startswith(prefix))

    async def status(self, instance_id: str) -> Instance | None:
        """A machine that is not listed is searched among running inserts before it counts as absent."""
        reply = await self._look(wire.instance(self._project, instance_id))
        if refusal_of(reply).reason == "notFound" and not is_gone(reply, parted(instance_id)[1]):
            return await self._among_all(instance_id)
        found = wire.read_instance(reply, instance_id)
        if found is not None:
            return found
        return await self._being_made(instance_id)

    async def _being_made(self, instance_id: str) -> Instance | None:
        """None: not on any page of the operations."""
        after = ""
        for _ in range(MAX_PAGES):
            reply = await self._look(wire.operations(self._project, instance_id, after))
            found, after = wire.read_making(reply, instance_id), wire.goes_on(reply)
            if found is not None or not after:
                return found
        raise CannotTell(f"{WHO} lists a machine's operations on more than {MAX_PAGES} pages")

    async def _among_all(self, instance_id: str) -> Instance | None:
        """An unknown form of Google's 404 proves nothing; a complete list does."""
        return next((machine for machine in await self._all() if machine.id == instance_id), None)

    async def _all(self) -> list[Instance]:
        """Every machine of the project, once, by id; raises unless the last page was seen."""
        found: dict[str, Instance] = {}
        after = ""
        for _ in range(MAX_PAGES):
            reply = await self._look(wire.instances(self._project, after), OFFERS_BYTES)
            page, after = wire.read_instances(reply)
            found.update({machine.id: machine for machine in page})
            if not after:
                return [found[each] for each in sorted(found)]
        raise CannotTell(f"{WHO} lists machines on more than {MAX_PAGES} pages")

    async def _pages(self, kind: str) -> list[wire.GcpPage]:
        ask: Callable[[str, str], Call] = {
            "machineTypes": wire.machine_types,
            "acceleratorTypes": wire.accelerator_types,
        }[kind]
        envelope = f"compute#{kind.removesuffix('s')}AggregatedList"
        pages: list[wire.GcpPage] = []
        after = ""
        for _ in range(MAX_PAGES):
            pages.append(wire.read_page(await self._look(ask(self._project, after), OFFERS_BYTES), kind, envelope))
            after = pages[-1].next
            if not after:
                return pages
        raise CannotTell(f"{WHO} lists {kind} on more than {MAX_PAGES} pages")

    # -- ending --------------------------------------------------------------------------------------------------------

    async def terminate(self, instance_id: str) -> None:
        reply = await self._change(wire.terminate(self._project, instance_id))
        body = object_in(reply)
        if is_gone(reply, parted(instance_id)[1]):
            return
        if reply.status == 200 and body.get("kind") == "compute#operation" and not failures_of(body):
            return
        said, what = said_in(reply), f"the termination of {instance_id}"
        if reply.ok and (failed := error_of_operation(body, what)) is not None:
            raise not_ended(failed)
        if said is not None and said.code == "notFound":  # what was not found, if not the machine?
            raise ERRORS.unknown(reply, said, what)
        raise ERRORS.after_end(reply, said, what)

    # -- the account ---------------------------------------------------------------------------------------------------

    async def identity(self) -> Account:
        """The project, once Google showed it to this key."""
        return rights.read_project(await self._look(rights.project(self._project)), self._project)[0]

    async def check(self) -> KeyReport:
        reply = await self._look(rights.project(self._project))
        account, quota, some_left = rights.read_project(reply, self._project)
        notes = rights.read_regions(await self._courtesy(rights.regions(self._project), self._compute))
        held = rights.read_permissions(await self._courtesy(rights.permissions(self._project), self._manager))
        refused = any(right.held is False for right in held)
        return KeyReport(
            account,
            rights=held,
            quota=quota,
            can_buy=some_left and not refused,
            notes=notes if some_left else ("No GPU is left in the project's quota GPUS_ALL_REGIONS.", *notes),
        )

    async def _courtesy(self, call: Call, sender: Sender) -> Reply | None:
        """Optional facts about a key; None: the call failed, which does not mean a bad key."""
        try:
            return await self._look(call, sender=sender)
        except CloudBusy:
            return None

    # -- sending -------------------------------------------------------------------------------------------------------

    @property
    def _project(self) -> str:
        return self._open()[0].project

    def _open(self) -> tuple[ServiceAccount, GcpTokens]:
        """The key is parsed on first use: a bad key fails a call, not the start."""
        if self._opened is None:
            settings, context = self._settings, self._context
            account = read_key(context.key, project=settings.project or "", endpoint=settings.endpoint or "")
            self._opened = account, GcpTokens(account, context.dial, context.clock)
        return self._opened

    async def _look(self, call: Call, max_bytes: int = LOOK_BYTES, sender: Sender | None = None) -> Reply:
        """A read is repeated once if a cached token was refused."""
        tokens = self._open()[1]
        token, fresh = await tokens.current()
        reply = await (sender or self._compute).look(_keyed(call, token), max_bytes=max_bytes)
        if reply.status != 401:
            return _discreet(reply, token)
        tokens.forget(token)
        if not fresh:
            token, _ = await tokens.current()
            reply = await (sender or self._compute).look(_keyed(call, token), max_bytes=max_bytes)
        if reply.status == 401:
            raise self._not_accepted(token)
        return _discreet(reply, token)

    async def _change(self, call: Call, order: LaunchOrder | None = None) -> Reply:
        """Sent once. Without a token nothing is sent, so nothing happened. `order`: the one that this call pays for."""
        tokens = self._open()[1]
        try:
            token, fresh = await tokens.current()
        except CannotTell as error:
            raise CloudBusy(f"{error}; the call was not sent") from error
        if order is not None:
            call = replace(call, not_after=(await confirmed(order)).not_after)
        reply = await self._compute.change(_keyed(call, token))
        if reply.status == 401:
            await self._renew_or_refuse(tokens, token, fresh=fresh)
        return _discreet(reply, token)

    async def _renew_or_refuse(self, tokens: GcpTokens, token: Secret, *, fresh: bool) -> NoReturn:
        """A token was refused, so nothing was done. Finds out whether the token expired or the key is bad."""
        tokens.forget(token)
        if fresh:
            raise self._not_accepted(token)
        try:
            await tokens.current()
        except CannotTell as error:
            raise CloudBusy(str(error)) from error
        raise CloudBusy(f"{WHO} refused an access token and issued a new one; retrying")

    def _not_accepted(self, token: Secret) -> KeyRefused:
        self._open()[1].forget(token)
        return KeyRefused(f"{WHO} refused the access token of this service account")


def _keyed(call: Call, token: Secret) -> Call:
    return replace(call, headers=(("Authorization", f"Bearer {token.reveal()}"), *call.headers))


def _discreet(reply: Reply, token: Secret) -> Reply:
    """An answer that repeats the token it was sent would carry it into conditions: so it is removed here."""
    if len(token.reveal()) < SHORTEST_TOKEN:
        return reply
    return replace(reply, content=reply.content.replace(token.reveal().encode(), b"***"))
