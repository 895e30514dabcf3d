"""The only sender to Vultr. `wire` and the modules beside it have the calls and answers."""

from collections.abc import Iterable
from typing import Any

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.parse import ID, mapping_of
from tgp.adapters.clouds.sender import OFFERS_BYTES, Sender
from tgp.adapters.clouds.vultr import wire
from tgp.adapters.clouds.vultr.check import account_of, identity, report
from tgp.adapters.clouds.vultr.errors import ERRORS, TROUBLE_PAUSE, said_in
from tgp.adapters.clouds.vultr.facts import FACTS
from tgp.adapters.clouds.vultr.listing import DEDICATED, SHARED, read_available, read_plans, read_regions
from tgp.adapters.clouds.vultr.machines import read_machines
from tgp.adapters.clouds.vultr.paging import MOST_PAGES, VultrPages
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, KeyRefused
from tgp.core.model.instance import Instance
from tgp.core.model.provider_facts import CloudFacts
from tgp.ports.cloud import Account, KeyReport, LaunchOrder, Listing, confirmed


class VultrCloud:
    def __init__(self, context: AdapterContext) -> None:
        self._sender = Sender(context.http(FACTS), FACTS.title)
        self._snapshot_id = context.settings.snapshot_id or ""
        self._key = context.key

    @property
    def facts(self) -> CloudFacts:
        return FACTS

    async def offers(self) -> Listing:
        shared, dedicated = [await self._all(wire.plans(kind), "offers") for kind in (SHARED, DEDICATED)]
        regions = read_regions(await self._all(wire.regions(), "offers"))
        available = await self._available(sorted(regions)) if dedicated and self._key is not None else None
        return read_plans([*shared, *dedicated], regions, available)

    async def _available(self, regions: Iterable[str]) -> dict[str, frozenset[str]] | None:
        """Region → dedicated plans available there; None: the key may not read this, and the rest is listed
        without it.
        """
        found = {}
        for region in regions:
            reply = await self._sender.look(wire.available(region))
            if reply.status != 200:
                failure = ERRORS.after_look(reply, said_in(reply, self._key), "offers")
                if isinstance(failure, KeyRefused):
                    return None
                raise failure
            found[region] = read_available(mapping_of(reply, FACTS.title))
        return found

    async def launch(self, order: LaunchOrder) -> Instance:
        snapshot_id = order.image or self._snapshot_id
        os_id = None if snapshot_id else await self._talos()
        call = wire.launch(await confirmed(order), snapshot_id=snapshot_id, os_id=os_id)
        reply = await self._sender.change(call)
        return wire.read_launch(reply, order, snapshot_id, self._key, order.user_data)

    async def find(self, token: str) -> tuple[Instance, ...]:
        return tuple(machine for machine in await self._machines("find") if machine.token == token)

    async def status(self, instance_id: str) -> Instance | None:
        _check_id(instance_id)
        found = wire.read_status(await self._sender.look(wire.machine(instance_id)), instance_id, self._key)
        if found is not None:
            return found
        # A 404 may also come from a gateway. The list proves it.
        return next((each for each in await self._machines("status") if each.id == instance_id), None)

    async def terminate(self, instance_id: str) -> None:
        _check_id(instance_id)
        wire.read_terminate(await self._sender.change(wire.terminate(instance_id)), self._key)

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        return tuple(machine for machine in await self._machines("owned") if machine.token.startswith(prefix))

    async def check(self) -> KeyReport:
        account = await self._account("check")
        return report(account, image="" if self._snapshot_id else wire.FETCHED)

    async def identity(self) -> Account:
        return identity(await self._account("identity"))

    async def _talos(self) -> int:
        """The id of Vultr's Talos image. If the lookup fails, nothing was ordered, and the error says so."""
        try:
            found = wire.talos_system(await self._all(wire.systems(), "launch"))
        except CannotTell as error:
            raise CloudBusy(f"the order was not sent: {error}", TROUBLE_PAUSE) from error
        if found is None:
            raise wire.no_image()
        return found

    async def _machines(self, verb: str) -> tuple[Instance, ...]:
        return read_machines(await self._all(wire.machines(), verb))

    async def _all(self, pages: VultrPages, verb: str) -> list[Any]:
        for _ in range(MOST_PAGES):
            if not pages.take(await self._sender.look(pages.call(), max_bytes=OFFERS_BYTES), verb, self._key):
                break
        return pages.rows

    async def _account(self, verb: str) -> dict[str, Any]:
        reply = await self._sender.look(wire.ACCOUNT)
        if reply.status != 200:
            raise ERRORS.after_look(reply, said_in(reply, self._key), verb)
        return account_of(mapping_of(reply, FACTS.title))


def _check_id(instance_id: str) -> None:
    """Before it goes into a path."""
    if not ID.match(instance_id):
        raise CannotTell(f"{FACTS.title} cannot have an id such as {instance_id[:64]!r}")
