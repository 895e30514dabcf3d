"""The market as seen from a terminal: the providers are asked on demand, with the user's own API keys.

It uses the same clients, price book and ranking as the operator. Nothing here can buy.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from tgp.adapters.clouds.middleware.guarded_cloud import RetryPolicy
from tgp.adapters.clouds.registry import AllClouds, titled
from tgp.core.market.breakeven import Renting
from tgp.core.market.ranking import Ranking, rank
from tgp.core.model.account_access import provider_of
from tgp.core.model.cloud_errors import CloudError, KeyRefused
from tgp.core.model.offer import BootMode, Offer, Stock, Trust
from tgp.core.model.offer_query import TALOS_BOOTS, Kinds, OfferQuery
from tgp.core.model.price_book import OfferRow, PriceBook
from tgp.core.model.regions import known_region, nearest_regions, region_fits
from tgp.ports.clock import Clock
from tgp.ports.cloud import KeyReport
from tgp.services.credentials import ProviderAccess
from tgp.services.marked_machines import MarkedMachines, marked_machines
from tgp.services.market_answers import (
    CheckRow,
    Elsewhere,
    KeyVerdict,
    NoKey,
    OfferAnswer,
    OfferItem,
    OfferNotes,
    OfferQuestion,
    Prices,
    ProviderTrouble,
    row_of,
)

INTERACTIVE_RETRIES = RetryPolicy(
    tries=2, longest=timedelta(seconds=3)
)  # the user waits: report an unreachable provider soon
ASK_WITHIN = 60.0  # seconds for one provider, waiting for its rate limit included
TOO_LONG = f"no answer within {ASK_WITHIN:.0f} s"
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class MarketService:
    accesses: tuple[ProviderAccess, ...]
    clouds: AllClouds
    clock: Clock
    book: PriceBook = field(default_factory=PriceBook)
    asked_at: dict[str, datetime] = field(default_factory=dict)

    async def machines(self) -> MarkedMachines:
        return await marked_machines(self.accesses, self.clouds)

    # -- tgp offers --------------------------------------------------------------------------------------------------

    async def look(self, question: OfferQuestion) -> OfferAnswer:
        await self.refresh()
        no_key = tuple(
            NoKey(each.facts.title, each.facts.key_variable, each.facts.public_offers)
            for each in self.accesses
            if each.keyless
        )
        return offer_answer(self.book, question, self.clock.now(), no_key)

    async def refresh(self) -> None:
        """Ask the providers that are due, concurrently; each may fail on its own."""
        now = self.clock.now()
        due = [
            access
            for access in self.accesses
            if not access.unavailable
            and now - self.asked_at.get(access.source.name, _LONG_AGO) >= access.facts.refresh_every
        ]
        await asyncio.gather(*map(self._ask, due))

    async def _ask(self, access: ProviderAccess) -> None:
        name = access.source.name
        self.asked_at[name] = self.clock.now()
        try:
            async with asyncio.timeout(ASK_WITHIN):
                listing = await self.clouds.open(access.source, access.key, {}).offers()
        except (CloudError, TimeoutError) as error:
            self.book = self.book.with_failure(name, str(error) or TOO_LONG, self.clock.now())
        else:
            self.book = self.book.with_listing(name, listing, self.clock.now())

    # -- tgp breakeven -----------------------------------------------------------------------------------------------

    async def gpu_prices(self, gpu: str) -> Prices | None:
        """The on-demand price of one GPU of the model, from the cheapest offer to the median."""
        await self.refresh()
        query = OfferQuery(
            models=(gpu,), kinds=Kinds.ON_DEMAND, boots=tuple(BootMode), as_node=False, min_trust=Trust.VERIFIED
        )
        rows = tuple(row for row in rank(self.book, query, self.clock.now()) if not row.offer.no_driver)
        if not rows:
            return None
        prices = sorted(row.offer.per_gpu_microusd for row in rows)
        oldest = max(self.clock.now() - row.seen_at for row in rows)
        sellers = len({row.offer.provider for row in rows})
        source = f"{len(rows)} offers of {sellers} providers, the oldest seen {oldest.total_seconds():.0f} s ago"
        return Prices(Renting(prices[0], prices[len(prices) // 2]), source)

    @property
    def any_source_known(self) -> bool:
        return any(state.known for state in self.book.sources)

    # -- tgp check ---------------------------------------------------------------------------------------------------

    async def check(self, *, by_name: bool) -> tuple[CheckRow, ...]:
        await self.refresh()
        rows = await asyncio.gather(*(self._checked(access, by_name=by_name) for access in self.accesses))
        return tuple(rows)

    async def _checked(self, access: ProviderAccess, *, by_name: bool) -> CheckRow:
        facts, state = access.facts, self.book.state(access.source.name)
        offers = self.book.of(access.source.name)
        known = CheckRow(
            facts.provider,
            facts.title,
            KeyVerdict.MISSING,
            variable=facts.key_variable,
            offers=len(offers) if state is not None and state.known else None,
            from_microusd=min((offer.per_gpu_microusd for offer in _on_sale(offers)), default=None),
            boot=facts.boot,
            elsewhere=self._elsewhere(offers) if set(facts.boot) == {BootMode.CONTAINER} else (),
            notes=(
                *((f"prices are from a table of {state.priced_on}",) if state is not None and state.priced_on else ()),
                *facts.notes,
            ),
            asked_for=by_name,
        )
        if access.keyless:
            return known
        try:
            async with asyncio.timeout(ASK_WITHIN):
                report = await self.clouds.open(access.source, access.key, {}).check()
        except KeyRefused as error:
            return replace(known, key=KeyVerdict.REFUSED, why=str(error))
        except (CloudError, TimeoutError) as error:
            return replace(known, key=KeyVerdict.UNTRIED, why=str(error) or TOO_LONG)
        verdict = KeyVerdict.VALID if facts.key_variable else KeyVerdict.UNNEEDED
        return _reported(known, verdict, report, why=state.why if state is not None else "")

    def _elsewhere(self, offers: Iterable[Offer]) -> tuple[Elsewhere, ...]:
        """Of the models sold there: the cheapest machine of another provider that can join."""
        models = tuple(sorted({offer.gpu for offer in offers}))
        if not models:
            return ()
        titles = {access.facts.provider: access.facts.title for access in self.accesses}
        best = rank(self.book, OfferQuery(models=models), self.clock.now()).best
        if best is None:
            return ()
        offer = best.offer
        return (Elsewhere(titles.get(offer.provider, offer.provider), offer.gpu, offer.per_gpu_microusd),)


def _reported(row: CheckRow, key: KeyVerdict, report: KeyReport, why: str) -> CheckRow:
    return replace(
        row,
        key=key,
        why=why,
        account=report.account.name or report.account.id,
        rights=report.rights,
        balance_microusd=report.balance_microusd,
        quota=report.quota,
        can_buy=report.can_buy,
        notes=(*row.notes, *report.notes),
    )


def offer_answer(
    book: PriceBook, question: OfferQuestion, now: datetime, no_key: tuple[NoKey, ...] = ()
) -> OfferAnswer:
    """What a book says to a question: here that of a terminal, in the operator its own. Each offer once."""
    ranking = rank(book, _query(question), now)
    rows: dict[str, OfferItem] = {}  # by name: two keys of one provider list the same offers
    for row in ranking:
        if not question.providers or row.offer.provider in question.providers:
            item = _shown(row, now)
            rows.setdefault(item.name, item)
    notes = replace(
        _notes(book, ranking, now),
        no_key=no_key,
        advice=tuple(_region_advice(book, region) for region in question.regions if not _has_offers_in(book, region)),
    )
    return OfferAnswer(tuple(rows.values()), notes)


def _shown(row: OfferRow, now: datetime) -> OfferItem:
    priced_on = row.offer.priced_on
    priced_at = datetime.fromisoformat(priced_on).replace(tzinfo=UTC) if priced_on else row.seen_at
    age = (now - priced_at).total_seconds()
    return row_of(row.offer, age_seconds=max(age, 0.0), priced_on=priced_on)


def _notes(book: PriceBook, ranking: Ranking, now: datetime) -> OfferNotes:
    dropped: dict[str, int] = {}
    for state in book.sources:
        for reason, count in state.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
    return OfferNotes(
        rejected={str(reason): count for reason, count in ranking.passed.items()},
        dropped=dropped,
        troubles=tuple(
            ProviderTrouble(titled(provider_of(state.source)), state.why, _seconds(state.age(now)))
            for state in book.sources
            if state.why
        ),
    )


def _has_offers_in(book: PriceBook, region: str) -> bool:
    return any(region_fits(region, offer.region, offer.place, offer.country) for offer in book.offers)


def _region_advice(book: PriceBook, region: str) -> str:
    if known_region(region):
        return f"--region {region}: there are no offers in this region."
    near = nearest_regions(region, {place for offer in book.offers for place in (offer.region, offer.place)})
    hint = f"; did you mean {', '.join(near)}?" if near else "."
    return f"--region {region}: unknown region without offers{hint}"


def _query(question: OfferQuestion) -> OfferQuery:
    """Everything on sale, except what the question excludes."""
    kinds = {None: Kinds.EITHER, True: Kinds.SPOT, False: Kinds.ON_DEMAND}[question.spot]
    query = OfferQuery(
        models=question.gpus,
        gpu_count=question.count,
        min_gpu_memory_gib=question.min_vram_gib,
        max_hourly_microusd=question.max_hourly_microusd,
        regions=question.regions,
        kinds=kinds,
        boots=tuple(BootMode),
        as_node=False,
        min_trust=Trust.ANY,
    )
    return replace(query, boots=TALOS_BOOTS, as_node=True) if question.talos else query


def _on_sale(offers: Iterable[Offer]) -> Iterable[Offer]:
    return (offer for offer in offers if offer.stock is not Stock.NONE and not offer.no_driver)


def _seconds(age: timedelta | None) -> float | None:
    return None if age is None else age.total_seconds()
