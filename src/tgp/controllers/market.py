"""Keeps the price book: each source of offers on its own clock, none waiting for another.

A turn is about one source: has it a key, does the provider take it, what is on sale? Whatever goes wrong becomes part
of what is known: a provider that errs is *unknown*, its last offers are served on and show their age.
A key that was refused is not tried again before it changes, or a while has passed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tgp.api.nodeclass import GPUNodeClass
from tgp.core.model.book import PriceBook
from tgp.core.model.cloud_errors import AccountExhausted, CloudBusy, CloudError, KeyRefused
from tgp.core.model.facts import KeyAccepted, KeyWasRefused, ProviderRecovered, ProviderTroubled
from tgp.core.model.history import PriceHistory
from tgp.core.model.key import Key
from tgp.core.model.marks import Marks
from tgp.core.model.secret import Secret
from tgp.core.model.seller import KeyState, Seller
from tgp.core.model.source import Source
from tgp.core.model.typed import Typed
from tgp.core.model.workload import Metadata
from tgp.core.rules.sources import sources_of
from tgp.ports.clock import Clock
from tgp.ports.cloud import Cloud, CloudFacts, KeyReport, Listing
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import View
from tgp.ports.entropy import Entropy
from tgp.ports.journal import Journal
from tgp.ports.vault import Vault

CHECK_EVERY = timedelta(hours=1)  # a key that was good; every listing tries it as well
REFUSED_AGAIN_AFTER = timedelta(minutes=15)  # an administrator may have mended the key's rights over there
JITTER = 0.1  # of the interval, either way
LONGEST_PAUSE = timedelta(minutes=15)  # between tries at a provider that errs
TROUBLE_AFTER = timedelta(minutes=5)  # of failures, before anybody is told


class Market:
    """The present: one frozen book and what is known of every source. Everybody reads it, one keeper replaces it."""

    def __init__(self) -> None:
        self.book = PriceBook()
        self.sellers: Mapping[str, Seller] = {}  # by source
        self.history = PriceHistory()
        self.marks = Marks()

    def put(self, name: str, seller: Seller) -> None:
        self.sellers = {**self.sellers, name: seller}

    def drop(self, name: str) -> None:
        self.sellers = {known: seller for known, seller in self.sellers.items() if known != name}
        self.book = self.book.without(name)


@dataclass(frozen=True, slots=True)
class Visit:
    """One turn's question, with all that it needs."""

    name: str
    source: Source
    facts: CloudFacts
    key: Secret | None
    others: Mapping[tuple[str, str], Secret] = field(default_factory=dict)  # that the settings refer to

    @property
    def keyless(self) -> bool:
        """A key is wanted, and there is none."""
        return bool(self.facts.key_variable) and self.key is None

    @property
    def fingerprint(self) -> str:
        return self.key.fingerprint if self.key is not None else ""


@dataclass(slots=True)
class Failures:
    """In a row, of one source."""

    since: datetime
    count: int = 0
    told: bool = False  # somebody was told of them


class MarketKeeper:
    """A reconciler whose keys are sources."""

    def __init__(
        self,
        market: Market,
        *,
        classes: View[Typed[GPUNodeClass]],
        clouds: Clouds,
        vault: Vault,
        clock: Clock,
        entropy: Entropy,
        journal: Journal,
        announce: Callable[[str], None],  # that something about this source changed
    ) -> None:
        self._market = market
        self._classes = classes
        self._clouds = clouds
        self._vault = vault
        self._clock = clock
        self._entropy = entropy
        self._journal = journal
        self._announce = announce
        self._failures: dict[str, Failures] = {}

    # -- which sources want a turn ---------------------------------------------------------------------------------

    def of_class(self, old: Typed[GPUNodeClass] | None, new: Typed[GPUNodeClass] | None) -> Iterable[Key]:
        """Sources that a change of this class adds, changes or ends."""
        before, after = _names(old), _names(new)
        return [Key("", name) for name in dict.fromkeys((*before, *after)) if (name in before) != (name in after)]

    def of_secret(self, old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
        """Sources whose key, or whose headers, may have changed with this Secret."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        for name, source in self._wanted().items():
            if changed.key.name in (source.secret, *(secret for secret, _ in _referred_to(source))):
                yield Key("", name)

    def _wanted(self) -> dict[str, Source]:
        found: dict[str, Source] = {}
        for record in self._classes.values():
            if record.object is not None:
                found |= {source.name: source for source in sources_of(record.object).values()}
        return found

    # -- a turn ------------------------------------------------------------------------------------------------------

    async def reconcile(self, key: Key) -> datetime | None:
        name = key.name
        source = self._wanted().get(name)
        if source is None:
            self._failures.pop(name, None)
            self._market.drop(name)
            self._announce(name)
            return None
        visit = await self._prepare(name, source)
        seller = self._seller(visit)
        if visit.keyless and not visit.facts.public_offers:
            self._market.book = self._market.book.without(name)  # nothing can be bought there any more
            self._market.put(name, replace(seller, missing_key=True))
            self._announce(name)
            return None  # until the Secret or the class changes
        if seller.key.valid is False and not self._worth_another_try(seller.key):
            return self._clock.now() + REFUSED_AGAIN_AFTER
        return await self._ask(visit, seller)

    async def _ask(self, visit: Visit, seller: Seller) -> datetime:
        try:
            cloud = self._clouds.open(visit.source, visit.key, visit.others)
            if not visit.keyless:
                seller = await self._with_key_checked(visit, cloud, seller)
            listing = await cloud.offers()
        except KeyRefused as error:
            self._refused(visit, seller, str(error))
            return self._clock.now() + REFUSED_AGAIN_AFTER
        except CloudError as error:
            return self._failed(visit, seller, error)
        self._went_well(visit, seller, listing)
        return self._clock.now() + self._jittered(visit.facts.refresh_every)

    async def _with_key_checked(self, visit: Visit, cloud: Cloud, seller: Seller) -> Seller:
        now = self._clock.now()
        checked_at = seller.key.checked_at
        if seller.key.valid and checked_at is not None and now - checked_at < CHECK_EVERY:
            return seller
        try:
            known = _known_by(await cloud.check(), now, visit.fingerprint)
        except AccountExhausted as error:
            known = KeyState(True, str(error), exhausted=True, checked_at=now, fingerprint=visit.fingerprint)
        except CloudBusy:
            return seller  # tried again with the next turn; the offers may be had all the same
        if known.valid and seller.key.valid is not True:
            self._journal.note(KeyAccepted(visit.name, known.account))
        seller = replace(seller, key=known)
        self._market.put(visit.name, seller)
        return seller

    def _went_well(self, visit: Visit, seller: Seller, listing: Listing) -> None:
        name, now, market = visit.name, self._clock.now(), self._market
        failures = self._failures.pop(name, None)
        if failures is not None and failures.told:
            self._journal.note(ProviderRecovered(name))
        market.book = market.book.with_listing(name, listing, now)
        market.history.note(listing.offers, now)
        market.put(name, replace(seller, missing_key=visit.keyless))
        self._announce(name)

    def _refused(self, visit: Visit, seller: Seller, why: str) -> None:
        if seller.key.valid is not False:
            self._journal.note(KeyWasRefused(visit.name, why))
        refused = KeyState(False, why, checked_at=self._clock.now(), fingerprint=visit.fingerprint)
        self._market.book = self._market.book.without(visit.name)  # what cannot be bought is no offer
        self._market.put(visit.name, replace(seller, key=refused))
        self._announce(visit.name)

    def _failed(self, visit: Visit, seller: Seller, error: CloudError) -> datetime:
        name, now, market = visit.name, self._clock.now(), self._market
        failures = self._failures.setdefault(name, Failures(since=now))
        failures.count += 1
        market.book = market.book.with_failure(name, str(error), now)
        market.put(name, seller)
        if not failures.told and now - failures.since >= TROUBLE_AFTER:
            failures.told = True
            self._journal.note(ProviderTroubled(name, type(error).__name__, str(error)))
        self._announce(name)
        asked = error.retry_after if isinstance(error, CloudBusy) else None
        pause = min(visit.facts.refresh_every * min(1 << (failures.count - 1), 8), LONGEST_PAUSE)
        return now + max(self._jittered(pause), min(asked or timedelta(), LONGEST_PAUSE))

    # -- what a turn needs -------------------------------------------------------------------------------------------

    async def _prepare(self, name: str, source: Source) -> Visit:
        own = (await self._vault.read(source.secret) or {}).get(source.key) if source.secret else None
        others: dict[tuple[str, str], Secret] = {}
        for secret, key in _referred_to(source):
            value = (await self._vault.read(secret) or {}).get(key)
            if value is not None:
                others[secret, key] = value
        return Visit(name, source, self._clouds.facts(source.provider), own, others)

    def _seller(self, visit: Visit) -> Seller:
        """What is known; what was known of another key is forgotten."""
        seller = self._market.sellers.get(visit.name)
        if seller is None:
            facts = visit.facts
            return Seller(facts.provider, facts.title, facts.boot, facts.sells_spot)
        if seller.key.fingerprint != visit.fingerprint:
            return replace(seller, key=KeyState(), missing_key=False)
        return seller

    def _worth_another_try(self, key: KeyState) -> bool:
        return key.checked_at is None or self._clock.now() - key.checked_at >= REFUSED_AGAIN_AFTER

    def _jittered(self, interval: timedelta) -> timedelta:
        return interval * (1 - JITTER + 2 * JITTER * self._entropy.jitter())


def _known_by(report: KeyReport, now: datetime, fingerprint: str) -> KeyState:
    lacking = [right.name for right in report.rights if right.held is False]
    why = "; ".join((*report.notes, *(f"the key may not: {name}" for name in lacking)))
    return KeyState(
        valid=not lacking,
        why=why,
        exhausted=not report.can_buy,
        account=report.account.id,
        checked_at=now,
        fingerprint=fingerprint,
    )


def _names(record: Typed[GPUNodeClass] | None) -> tuple[str, ...]:
    if record is None or record.object is None:
        return ()
    return tuple(source.name for source in sources_of(record.object).values())


def _referred_to(source: Source) -> list[tuple[str, str]]:
    """Secrets that the settings name: headers and signing keys of machines."""
    refs = [
        ref for machine in source.settings.machines for ref in (machine.headers_secret_ref, machine.signing_secret_ref)
    ]
    return [(ref.name, ref.key) for ref in refs if ref is not None]
