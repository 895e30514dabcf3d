"""The only sender of calls to Vast.ai."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.parse import ParseError
from tgp.adapters.clouds.sender import OFFERS_BYTES, Sender
from tgp.adapters.clouds.vast import wire, wire_launch, wire_offers
from tgp.adapters.clouds.vast.facts import FACTS, TITLE
from tgp.core.model.cloud_errors import CannotTell, KeyRefused, SoldOut
from tgp.core.model.instance import Instance
from tgp.core.model.prices import MICRO, NotAPrice
from tgp.core.model.provider_facts import CloudFacts
from tgp.ports.cloud import Account, KeyReport, LaunchOrder, Listing, Right, confirmed
from tgp.ports.http import Call, Reply

SEARCH_PAGES = 4  # 10,000 asks, some three times the whole market of 2026
LIST_PAGES = 80  # 2,000 machines in one account
LIST_PAUSE = timedelta(seconds=1.1)  # the list may be read once a second


class VastCloud:
    def __init__(self, context: AdapterContext) -> None:
        self._sender = Sender(context.http(FACTS), TITLE, context.endpoint(FACTS))
        self._key = context.key
        self._settings = context.settings
        self._clock = context.clock
        self._storage: dict[str, Decimal] = {}  # of each ask in the last listing: dollars per GB and hour

    @property
    def facts(self) -> CloudFacts:
        return FACTS

    # -- selling -------------------------------------------------------------------------------------------------------

    async def offers(self) -> Listing:
        market = wire_offers.read_market(await self._search(), self._settings, self._clock.now())
        self._storage = dict(market.storage)
        return market.listing

    async def _search(self) -> tuple[Any, ...]:
        """Every ask: all pages, or an error."""
        rows: list[Any] = []
        after = 0
        for _ in range(SEARCH_PAGES):
            call = wire_offers.search(after, self._settings)
            reply = await self._sender.look(call, max_bytes=OFFERS_BYTES)
            page = wire_offers.read_page(reply, after, self._clock.now(), self._key)
            rows += page.rows
            if page.beyond is None:
                return tuple(rows)
            after = page.beyond
        raise CannotTell(f"{TITLE} lists more than {len(rows)} offers, the most that tgp reads: set minReliability")

    # -- buying --------------------------------------------------------------------------------------------------------

    async def launch(self, order: LaunchOrder) -> Instance:
        self._need_a_key()
        price = await self._bid(order) if order.offer.spot else None
        reply = await self._sender.change(wire_launch.launch(await confirmed(order), price))
        return wire_launch.read_launch(reply, order, self._clock.now(), self._key)

    async def _bid(self, order: LaunchOrder) -> int:
        """What we bid for the machine alone: Vast adds the disk to it, and the order's price is for both."""
        whole = order.bid_microusd if order.bid_microusd is not None else order.offer.hourly_microusd
        disk = await self._storage_of(wire_launch.ask_of(order)) * wire_offers.DISK_GIB * MICRO
        return int(min(whole, order.max_hourly_microusd) - disk)

    async def _storage_of(self, ask: str) -> Decimal:
        """From the last listing; an offer that was not in it is looked up, which is free."""
        known = self._storage.get(ask)
        if known is not None:
            return known
        reply = await self._look(wire_offers.search_one(ask))
        rows = wire_offers.read_page(reply, 0, self._clock.now(), self._key).rows
        if not rows:
            raise SoldOut(f"{TITLE} offer {ask} no longer exists")
        try:
            return wire_offers.storage_of(rows[0])
        except (ParseError, NotAPrice) as error:
            raise CannotTell(f"{TITLE} did not return the disk price of offer {ask}: {error}") from error

    # -- looking -------------------------------------------------------------------------------------------------------

    async def find(self, token: str) -> tuple[Instance, ...]:
        return tuple(machine for machine in await self._machines() if machine.token == token)

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        return tuple(machine for machine in await self._machines() if machine.token.startswith(prefix))

    async def status(self, instance_id: str) -> Instance | None:
        reply = await self._look(wire.status(instance_id))
        return wire.read_status(reply, instance_id, self._clock.now(), self._key)

    async def _machines(self) -> list[Instance]:
        """Everything in the account, by id, from a complete list.

        Unfiltered also for one token: an empty filtered list would prove less than absence from the whole list.
        """
        machines: dict[str, Instance] = {}
        strange = 0
        after = ""
        for number in range(LIST_PAGES):
            if number:
                await asyncio.sleep(LIST_PAUSE.total_seconds())
            page = wire.read_page(await self._look(wire.list_page(after)), self._clock.now(), self._key)
            machines.update((machine.id, machine) for machine in page.machines)
            strange += page.strange
            rows = len(machines) + strange  # a machine that is listed twice does not count twice
            if not page.next_token:
                if page.total is not None and rows < page.total:
                    raise CannotTell(f"{TITLE} listed only {rows} of {page.total} machines")
                return sorted(machines.values(), key=lambda machine: int(machine.id))
            if not (page.machines or page.strange) or page.next_token == after:
                raise CannotTell(f"{TITLE} returned a page token but no new rows")
            after = page.next_token
        raise CannotTell(f"{TITLE} lists more than {len(machines) + strange} machines, the most that tgp reads")

    # -- ending --------------------------------------------------------------------------------------------------------

    async def terminate(self, instance_id: str) -> None:
        self._need_a_key()
        reply = await self._sender.change(wire.terminate(instance_id))
        wire.read_terminate(reply, instance_id, self._clock.now(), self._key)

    # -- checking ------------------------------------------------------------------------------------------------------

    async def check(self) -> KeyReport:
        balance = await self._balance()
        rights = (
            Right("user_read", held=True, note="account and balance"),
            await self._try("instance_read", "listing machines", self._list_a_little),
            await self._try("misc", "searching offers", self._search_a_little),
            Right("instance_write", held=None, note="launch and terminate: cannot be tested without spending"),
        )
        empty = balance.balance_microusd is not None and balance.balance_microusd <= 0
        return KeyReport(
            balance.account,
            rights,
            balance_microusd=balance.balance_microusd,
            can_buy=not empty and all(right.held is not False for right in rights),
            notes=("the credit is used up: Vast.ai stops all machines of the account",) if empty else (),
        )

    async def _try(self, name: str, what: str, look: Callable[[], Awaitable[None]]) -> Right:
        try:
            await look()
        except KeyRefused as error:
            return Right(name, held=False, note=str(error))
        return Right(name, held=True, note=what)

    async def _list_a_little(self) -> None:
        wire.read_page(await self._look(wire.list_page("")), self._clock.now(), self._key)

    async def _search_a_little(self) -> None:
        wire_offers.read_page(await self._look(wire_offers.search_little()), 0, self._clock.now(), self._key)

    async def identity(self) -> Account:
        return (await self._balance()).account

    async def _balance(self) -> wire.AccountBalance:
        self._need_a_key()
        reply = await self._sender.look(wire.account(), follow=True)
        return wire.read_account(reply, self._clock.now(), self._key)

    async def _look(self, call: Call) -> Reply:
        self._need_a_key()
        return await self._sender.look(call)

    def _need_a_key(self) -> None:
        if self._key is None:
            raise KeyRefused(f"{TITLE} needs an API key for this: set {FACTS.key_variable}")
