"""The market as one person sees it from a terminal: asked when somebody looks, with that person's own keys.

The same clients, book and ranking as the operator's. Nothing here can buy.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from tgp.adapters.clouds.around.patient import Patience
from tgp.app.clouds import AllClouds
from tgp.app.counters import Counter
from tgp.core.model.book import PriceBook, Row
from tgp.core.model.cloud_errors import CloudError, KeyRefused
from tgp.core.model.offer import BootMode, Offer, Stock, Trust
from tgp.core.model.regions import known_region, nearest_regions, region_fits
from tgp.core.model.wish import TALOS_BOOTS, Kinds, Wish
from tgp.core.rules.breakeven import Renting
from tgp.core.rules.ranking import Ranking, rank
from tgp.ports.clock import Clock
from tgp.ports.cloud import KeyReport
from tgp.surfaces.cli.breakeven import Prices
from tgp.surfaces.cli.check_view import CheckRow, Elsewhere, KeyVerdict
from tgp.surfaces.cli.offers import Answer, Question
from tgp.surfaces.cli.offers_view import NoKey, Notes, OfferRow, Trouble, row_of

A_PERSONS = Patience(tries=2, longest=timedelta(seconds=3))  # somebody waits: who cannot be reached is told at once
ASK_WITHIN = 60.0  # seconds for one provider, waiting for its rate limit included
TOO_LONG = f"no answer within {ASK_WITHIN:.0f} s"
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class Shop:
    counters: tuple[Counter, ...]
    clouds: AllClouds
    clock: Clock
    book: PriceBook = field(default_factory=PriceBook)
    asked_at: dict[str, datetime] = field(default_factory=dict)

    # -- tgp offers --------------------------------------------------------------------------------------------------

    async def look(self, question: Question) -> Answer:
        await self.refresh()
        ranking = rank(self.book, _wish(question), self.clock.now())
        rows = tuple(self._shown(row) for row in ranking)
        notes = self._notes(ranking)
        nowhere = tuple(self._nowhere(region) for region in question.regions if not self._is_somewhere(region))
        return Answer(rows, replace(notes, advice=nowhere))

    def _is_somewhere(self, region: str) -> bool:
        return any(region_fits(region, offer.region, offer.place, offer.country) for offer in self.book.offers)

    def _nowhere(self, region: str) -> str:
        if known_region(region):
            return f"--region {region}: nothing on sale is there."
        near = nearest_regions(region, {place for offer in self.book.offers for place in (offer.region, offer.place)})
        hint = f"; did you mean {', '.join(near)}?" if near else "."
        return f"--region {region}: no table knows such a region, and nothing on sale is there{hint}"

    async def refresh(self) -> None:
        """Ask whoever has not been asked for a while, all at once; each may fail for itself."""
        now = self.clock.now()
        due = [
            counter
            for counter in self.counters
            if not counter.shut
            and now - self.asked_at.get(counter.source.name, _LONG_AGO) >= counter.facts.refresh_every
        ]
        await asyncio.gather(*map(self._ask, due))

    async def _ask(self, counter: Counter) -> None:
        name = counter.source.name
        self.asked_at[name] = self.clock.now()
        try:
            async with asyncio.timeout(ASK_WITHIN):
                listing = await self.clouds.open(counter.source, counter.key, {}).offers()
        except (CloudError, TimeoutError) as error:
            self.book = self.book.with_failure(name, str(error) or TOO_LONG, self.clock.now())
        else:
            self.book = self.book.with_listing(name, listing, self.clock.now())

    def _shown(self, row: Row) -> OfferRow:
        priced_on = row.offer.priced_on
        told_at = datetime.fromisoformat(priced_on).replace(tzinfo=UTC) if priced_on else row.seen_at
        age = (self.clock.now() - told_at).total_seconds()
        return row_of(row.offer, age_seconds=max(age, 0.0), priced_on=priced_on)

    def _notes(self, ranking: Ranking) -> Notes:
        now = self.clock.now()
        dropped: dict[str, int] = {}
        for state in self.book.sources:
            for reason, count in state.dropped.items():
                dropped[reason] = dropped.get(reason, 0) + count
        titles = {counter.source.name: counter.facts.title for counter in self.counters}
        return Notes(
            passed_over={str(reason): count for reason, count in ranking.passed.items()},
            dropped=dropped,
            no_key=tuple(
                NoKey(each.facts.title, each.facts.key_variable, each.facts.public_offers)
                for each in self.counters
                if each.keyless
            ),
            troubles=tuple(
                Trouble(titles.get(state.source, state.source), state.why, _seconds(state.age(now)))
                for state in self.book.sources
                if state.why
            ),
        )

    # -- tgp breakeven -----------------------------------------------------------------------------------------------

    async def gpu_prices(self, gpu: str) -> Prices | None:
        """What one GPU of the model costs on demand, from the cheapest offer to the dearest of the cheaper half."""
        await self.refresh()
        wish = Wish(
            models=(gpu,), kinds=Kinds.ON_DEMAND, boots=tuple(BootMode), as_node=False, min_trust=Trust.VERIFIED
        )
        rows = tuple(row for row in rank(self.book, wish, self.clock.now()) if not row.offer.no_driver)
        if not rows:
            return None
        prices = sorted(row.offer.per_gpu_microusd for row in rows)
        oldest = max(self.clock.now() - row.seen_at for row in rows)
        sellers = len({row.offer.provider for row in rows})
        said = f"{len(rows)} offers of {sellers} providers, the oldest seen {oldest.total_seconds():.0f} s ago"
        return Prices(Renting(prices[0], prices[len(prices) // 2]), said)

    @property
    def anybody_told(self) -> bool:
        return any(state.known for state in self.book.sources)

    # -- tgp check ---------------------------------------------------------------------------------------------------

    async def check(self, *, by_name: bool) -> tuple[CheckRow, ...]:
        await self.refresh()
        rows = await asyncio.gather(*(self._checked(counter, by_name=by_name) for counter in self.counters))
        return tuple(rows)

    async def _checked(self, counter: Counter, *, by_name: bool) -> CheckRow:
        facts, state = counter.facts, self.book.state(counter.source.name)
        offers = self.book.of(counter.source.name)
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
        if counter.keyless:
            return known
        try:
            async with asyncio.timeout(ASK_WITHIN):
                report = await self.clouds.open(counter.source, counter.key, {}).check()
        except KeyRefused as error:
            return replace(known, key=KeyVerdict.REFUSED, why=str(error))
        except (CloudError, TimeoutError) as error:
            return replace(known, key=KeyVerdict.UNTRIED, why=str(error) or TOO_LONG)
        verdict = KeyVerdict.VALID if facts.key_variable else KeyVerdict.UNNEEDED
        return _reported(known, verdict, report, why=state.why if state is not None else "")

    def _elsewhere(self, offers: Iterable[Offer]) -> tuple[Elsewhere, ...]:
        """Of the models sold there: the cheapest machine that could join, from somebody else."""
        models = tuple(sorted({offer.gpu for offer in offers}))
        if not models:
            return ()
        titles = {counter.facts.provider: counter.facts.title for counter in self.counters}
        best = rank(self.book, Wish(models=models), self.clock.now()).best
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


def _wish(question: Question) -> Wish:
    """Whatever is on sale, but for what somebody ruled out."""
    kinds = {None: Kinds.EITHER, True: Kinds.SPOT, False: Kinds.ON_DEMAND}[question.spot]
    wish = Wish(
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
    return replace(wish, boots=TALOS_BOOTS, as_node=True) if question.talos else wish


def _on_sale(offers: Iterable[Offer]) -> Iterable[Offer]:
    return (offer for offer in offers if offer.stock is not Stock.NONE and not offer.no_driver)


def _seconds(age: timedelta | None) -> float | None:
    return None if age is None else age.total_seconds()
