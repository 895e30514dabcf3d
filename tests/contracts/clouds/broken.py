"""Planted mistakes: adapters that a careless engineer could have written, each wrong in one way.

They are the reference adapter with one part replaced. A suite that does not catch each of them proves nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.providers.simulated import PROVIDER
from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.error_answers import NOT_NOW_PAUSE
from tgp.adapters.clouds.simulated import FACTS, wire
from tgp.adapters.clouds.simulated.client import MAX_PAGES, SimulatedCloud
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    CloudBusy,
    CloudError,
    KeyRefused,
    OrderRefused,
    OutcomeUnknown,
    SoldOut,
)
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.offer import Offer, Stock
from tgp.ports.cloud import Account, KeyReport, LaunchOrder, Listing, confirmed
from tgp.ports.http import Reply


class SendsAgain(SimulatedCloud):
    """Retries the order when no answer came, as most HTTP libraries would."""

    async def launch(self, order: LaunchOrder) -> Instance:
        try:
            return await super().launch(order)
        except OutcomeUnknown:
            return await super().launch(order)


class ReadsNothingAsNone(SimulatedCloud):
    """Takes a list that cannot be read for an empty one."""

    async def _all(self) -> list[Instance]:
        try:
            return await super()._all()
        except CannotTell:
            return []


class ForgetsTheStopped(SimulatedCloud):
    """Thinks that a stopped machine is gone."""

    async def status(self, instance_id: str) -> Instance | None:
        found = await super().status(instance_id)
        return None if found is not None and found.state is InstanceState.STOPPED else found


class ReadsOnePage(SimulatedCloud):
    async def _all(self) -> list[Instance]:
        page, _ = wire.read_machines(await self._sender.look(wire.machines()))
        return sorted(page, key=lambda machine: machine.id)


class KeepsWhatCame(SimulatedCloud):
    """Takes the pages that came for the whole list where a later one fails."""

    async def _all(self) -> list[Instance]:
        found: list[Instance] = []
        after = ""
        try:
            for _ in range(MAX_PAGES):
                page, after = wire.read_machines(await self._sender.look(wire.machines(after)))
                found += page
                if not after:
                    break
        except CloudError:
            if not found:
                raise
        return sorted(found, key=lambda machine: machine.id)


class LetsTagsWin(SimulatedCloud):
    """Writes the class's tags last, and sweeps by tag."""

    async def launch(self, order: LaunchOrder) -> Instance:
        call = wire.launch(order)
        body = wire.mapping_of(Reply(200, call.body), "ourselves")
        body["tags"] = {wire.TOKEN_TAG: order.token} | dict(order.tags)
        body["name"] = dict(order.tags).get("name", order.token)
        wrong = replace(call, body=msgspec.json.encode(body))
        return wire.read_launch(await self._sender.change(wrong), order)


class BelievesErrors(SimulatedCloud):
    """Takes every error for a refusal: an error that names a machine, too."""

    async def launch(self, order: LaunchOrder) -> Instance:
        try:
            return await super().launch(order)
        except OutcomeUnknown as error:
            raise CloudBusy(str(error)) from error


class MatchesPrefixes(SimulatedCloud):
    async def find(self, token: str) -> tuple[Instance, ...]:
        return tuple(machine for machine in await self._all() if machine.token.startswith(token))


class TakesTheFirst(SimulatedCloud):
    """Gives back one machine where the provider made two."""

    async def find(self, token: str) -> tuple[Instance, ...]:
        return (await super().find(token))[:1]


class IgnoresTheFence(SimulatedCloud):
    async def launch(self, order: LaunchOrder) -> Instance:
        return await super().launch(replace(order, not_after=None))


class LooksTooEarly(SimulatedCloud):
    """Takes the last look first, and asks for something else before it orders."""

    async def launch(self, order: LaunchOrder) -> Instance:
        looked = replace(await confirmed(order), confirm=None)
        await self.identity()
        return await super().launch(looked)


class FailsOnTheGone(SimulatedCloud):
    """Calls it an error that a machine is gone already."""

    async def terminate(self, instance_id: str) -> None:
        reply = await self._sender.change(wire.terminate(instance_id))
        if reply.status != 202:
            raise OutcomeUnknown(f"{FACTS.title} answered {reply.status}")


class BelievesAnyEnd(SimulatedCloud):
    """Takes whatever answer for the end of a machine."""

    async def terminate(self, instance_id: str) -> None:
        await self._sender.change(wire.terminate(instance_id))


class TrustsTheQuote(SimulatedCloud):
    """Shows the price that was offered, not the one on the bill."""

    def __init__(self, http: Any) -> None:
        super().__init__(http)
        self._quoted: dict[str, int] = {}

    async def launch(self, order: LaunchOrder) -> Instance:
        made = await super().launch(order)
        self._quoted[made.id] = order.offer.hourly_microusd
        return made

    async def status(self, instance_id: str) -> Instance | None:
        found = await super().status(instance_id)
        return None if found is None else replace(found, hourly_microusd=self._quoted.get(found.id))


class SellsTheSoldOut(SimulatedCloud):
    """Lists a catalogue as if everything in it could be had."""

    async def offers(self) -> Listing:
        listing = await super().offers()
        return replace(listing, offers=tuple(_confirmed(offer) for offer in listing.offers))


class EmptyMarket(SimulatedCloud):
    """Takes an error for a market without offers."""

    async def offers(self) -> Listing:
        try:
            return await super().offers()
        except CloudError:
            return Listing(())


class OneIdentity(SimulatedCloud):
    """Names the account after the provider."""

    async def identity(self) -> Account:
        return Account("simulated")

    async def check(self) -> KeyReport:
        return replace(await super().check(), account=await self.identity())


class TellsTheKey(SimulatedCloud):
    """Puts what it sent into its errors, header and all."""

    def __init__(self, http: Any) -> None:
        super().__init__(http)
        self._headers = getattr(http, "_headers", ())

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        try:
            return await super().owned(prefix)
        except CannotTell as error:
            raise CannotTell(f"{error}; sent: {self._headers}") from error


class PassesItsWordsOn(SimulatedCloud):
    """Shows people the provider's own words, whatever they quote."""

    async def launch(self, order: LaunchOrder) -> Instance:
        reply = await self._sender.change(wire.launch(order))
        try:
            return wire.read_launch(reply, order)
        except (AccountExhausted, KeyRefused, OrderRefused, SoldOut) as error:
            raise type(error)(f"{error}: {reply.content.decode(errors='replace')}") from error


class NamesItOnce(SimulatedCloud):
    """Leaves the second field out by which a renamed machine would be found again."""

    async def launch(self, order: LaunchOrder) -> Instance:
        call = wire.launch(order)
        body = wire.mapping_of(Reply(200, call.body), "ourselves")
        body["tags"] = dict(order.tags)
        wrong = replace(call, body=msgspec.json.encode(body))
        return wire.read_launch(await self._sender.change(wrong), order)


def _confirmed(offer: Offer) -> Offer:
    fields = {name: getattr(offer, name) for name in offer.__struct_fields__}
    return Offer(**fields | {"stock": Stock.CONFIRMED})


class TakesNoForAnAnswer(SimulatedCloud):
    """Tells a refusal to end as it tells a refused order: a caller that believes it never retries."""

    async def terminate(self, instance_id: str) -> None:
        try:
            await super().terminate(instance_id)
        except CloudBusy as error:
            raise OrderRefused(str(error)) if error.retry_after == NOT_NOW_PAUSE else error from None


@dataclass(frozen=True)
class Broken:
    name: str
    make: Callable[[Any], SimulatedCloud]

    @property
    def provider(self) -> Provider:
        def build(context: AdapterContext) -> SimulatedCloud:
            return self.make(context.http(FACTS))

        return replace(PROVIDER, build=build)


BROKEN = tuple(
    Broken(kind.__name__, kind)
    for kind in (
        SendsAgain,
        ReadsNothingAsNone,
        ForgetsTheStopped,
        ReadsOnePage,
        KeepsWhatCame,
        LetsTagsWin,
        BelievesErrors,
        MatchesPrefixes,
        TakesTheFirst,
        IgnoresTheFence,
        LooksTooEarly,
        FailsOnTheGone,
        BelievesAnyEnd,
        TrustsTheQuote,
        SellsTheSoldOut,
        EmptyMarket,
        OneIdentity,
        TellsTheKey,
        PassesItsWordsOn,
        NamesItOnce,
        TakesNoForAnAnswer,
    )
)
