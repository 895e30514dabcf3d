"""Keeps the price book: each source of offers on its own clock, none waiting for another.

A turn is about one source: has it a key, does the provider take it, what is on sale? Whatever goes wrong becomes part
of what is known: a provider that errs is *unknown*, its last offers are served on and show their age.
A key that was refused is not tried again before it changes, or a while has passed.
A source that was asked rests: whatever wakes its turn meanwhile, it is not asked again before it is due, unless what it
is asked with changed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.controllers.keys import Keys, keys_for, secrets_of
from tgp.controllers.request_index import WAITING, YES, waiting
from tgp.core.model.book import PriceBook
from tgp.core.model.cloud_errors import AccountExhausted, CloudBusy, CloudError, KeyRefused, QuotaExhausted
from tgp.core.model.facts import KeyAccepted, KeyWasRefused, ProviderRecovered, ProviderTroubled
from tgp.core.model.history import PriceHistory
from tgp.core.model.key import Key
from tgp.core.model.marks import Marks
from tgp.core.model.seller import KeyState, Seller
from tgp.core.model.source import Source
from tgp.core.model.typed import Typed
from tgp.core.model.workload import Metadata
from tgp.core.rules.costs import class_of
from tgp.core.rules.sources import sources_of
from tgp.ports.clock import Clock
from tgp.ports.cloud import Cloud, CloudFacts, KeyReport, Listing, Right
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import View
from tgp.ports.entropy import Entropy
from tgp.ports.journal import Journal
from tgp.ports.vault import Vault

CHECK_EVERY = timedelta(hours=1)  # a key that was good; every listing tries it as well
REFUSED_AGAIN_AFTER = timedelta(minutes=15)  # an administrator may have mended the key's rights over there
JITTER = 0.1  # of the interval, either way
LONGEST_PAUSE = timedelta(minutes=15)  # between tries at a provider that errs
QUOTA_PAUSE = timedelta(hours=1)  # between tries where a quota of questions is used up
LONGEST_REST = QUOTA_PAUSE * (1 + JITTER)  # one that seems longer was agreed before the clock was set back
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
    keys: Keys

    @property
    def keyless(self) -> bool:
        """A key is wanted, and there is none."""
        return bool(self.facts.key_variable) and self.keys.own is None


@dataclass(slots=True)
class Failures:
    """In a row, of one source."""

    since: datetime
    count: int = 0
    told: bool = False  # somebody was told of them


@dataclass(frozen=True, slots=True)
class Rest:
    """Of one source, after it was asked."""

    asked_with: tuple[str, ...]
    until: datetime
    wanted_until: datetime  # where a request waits for what it sells; no later than `until`

    def lasts(self, visit: Visit, now: datetime, *, wanted: bool) -> datetime | None:
        """Until when; None: it is over."""
        until = self.wanted_until if wanted else self.until
        lasts = self.asked_with == visit.keys.asked_with and timedelta(0) < until - now <= LONGEST_REST
        return until if lasts else None


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
        requests: View[Typed[GPURequest]] | None = None,  # None: none is seen, so that none waits for offers
    ) -> None:
        self._market = market
        self._classes = classes
        self._clouds = clouds
        self._vault = vault
        self._clock = clock
        self._entropy = entropy
        self._journal = journal
        self._announce = announce
        self._requests = requests
        self._failures: dict[str, Failures] = {}
        self._rests: dict[str, Rest] = {}

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
            if changed.key.name in secrets_of(source):
                yield Key("", name)

    def of_request(self, old: Typed[GPURequest] | None, new: Typed[GPURequest] | None) -> Iterable[Key]:
        """Sources that a request begins to wait for: those that are asked seldom are asked soon."""
        if new is None or not waiting(new) or (old is not None and waiting(old) and class_of(old) == class_of(new)):
            return
        for name, source in self._wanted().items():
            if self._clouds.facts(source.provider).idle_refresh_every is not None:
                yield Key("", name)

    def _waited_for(self, source: Source) -> bool:
        """Does a request without a machine want what this source sells? One that names no class wants anything."""
        if self._requests is None:
            return False
        names = {class_of(record) for record in self._requests.having(WAITING, YES)}
        return "" in names or any(
            record.object is not None and record.key.name in names and source in sources_of(record.object).values()
            for record in self._classes.values()
        )

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
            self._rests.pop(name, None)
            self._market.drop(name)
            self._announce(name)
            return None
        visit = await self._prepare(name, source)
        rest = self._rests.pop(name, None)
        if rest is not None and (until := rest.lasts(visit, self._clock.now(), wanted=self._waited_for(source))):
            self._rests[name] = rest
            return until
        seller = self._seller(visit)
        if visit.keyless and not visit.facts.public_offers:
            self._market.book = self._market.book.without(name)  # nothing can be bought there any more
            self._market.put(name, replace(seller, missing_key=True))
            self._announce(name)
            return None  # until the Secret or the class changes
        rest = self._rests[name] = await self._ask(visit, seller)
        return rest.lasts(visit, self._clock.now(), wanted=self._waited_for(source)) or rest.until

    async def _ask(self, visit: Visit, seller: Seller) -> Rest:
        try:
            cloud = self._clouds.open(visit.source, visit.keys.own, visit.keys.others)
            if not visit.keyless:
                seller = await self._with_key_checked(visit, cloud, seller)
                self._tell_of_key(visit.name, seller)
            listing = await cloud.offers()
        except KeyRefused as error:
            self._refused(visit, seller, str(error))
            until = self._clock.now() + REFUSED_AGAIN_AFTER
        except CloudError as error:
            until = self._failed(visit, seller, error)
        else:
            self._went_well(visit, seller, listing)
            soon, seldom = visit.facts.refresh_every, visit.facts.idle_refresh_every or visit.facts.refresh_every
            pause = self._jittered(soon)
            now = self._clock.now()
            return Rest(visit.keys.asked_with, now + pause * (seldom / soon), now + pause)
        return Rest(visit.keys.asked_with, until, until)

    async def _with_key_checked(self, visit: Visit, cloud: Cloud, seller: Seller) -> Seller:
        now = self._clock.now()
        if _checked_lately(seller.key, now):
            return seller
        try:
            known = _known_by(await cloud.check(), now, visit.keys.fingerprint)
        except KeyRefused:
            raise
        except AccountExhausted as error:
            known = KeyState(True, str(error), exhausted=True, checked_at=now, fingerprint=visit.keys.fingerprint)
        except CloudError:
            return seller  # tried again with the next turn; the offers may be had all the same
        return replace(seller, key=known)

    def _went_well(self, visit: Visit, seller: Seller, listing: Listing) -> None:
        name, now, market = visit.name, self._clock.now(), self._market
        failures = self._failures.pop(name, None)
        if failures is not None and failures.told:
            self._journal.note(ProviderRecovered(name))
        market.book = market.book.with_listing(name, listing, now)
        market.history.note(listing.offers, now)
        self._keep(name, replace(seller, missing_key=visit.keyless))
        self._announce(name)

    def _refused(self, visit: Visit, seller: Seller, why: str) -> None:
        refused = KeyState(False, why, checked_at=self._clock.now(), fingerprint=visit.keys.fingerprint)
        if self._turned(visit.name, refused):
            self._journal.note(KeyWasRefused(visit.name, why))
        self._market.book = self._market.book.without(visit.name)  # what cannot be bought is no offer
        self._market.put(visit.name, replace(seller, key=refused))
        self._announce(visit.name)

    def _tell_of_key(self, name: str, seller: Seller) -> None:
        """What a check found is told before a long listing ends, but for the end of a refusal: the listing decides."""
        before = self._market.sellers.get(name)
        if self._turned(name, seller.key) and (before is None or before.key.valid is not False):
            self._keep(name, seller)
            self._announce(name)

    def _keep(self, name: str, seller: Seller) -> None:
        if seller.key.valid and self._turned(name, seller.key):
            self._journal.note(KeyAccepted(name, seller.key.account))
        self._market.put(name, seller)

    def _turned(self, name: str, key: KeyState) -> bool:
        """Is this news? A check may be passed and the listing refused, time and again: that is one refusal."""
        before = self._market.sellers.get(name)
        return before is None or (before.key.valid, before.key.fingerprint) != (key.valid, key.fingerprint)

    def _failed(self, visit: Visit, seller: Seller, error: CloudError) -> datetime:
        name, now, market = visit.name, self._clock.now(), self._market
        failures = self._failures.setdefault(name, Failures(since=now))
        failures.count += 1
        failures.since = min(failures.since, now)  # the clock was set back: they began now at the latest
        quota = isinstance(error, QuotaExhausted)
        market.book = market.book.with_failure(name, str(error), now, quota=quota)
        self._keep(name, seller)
        if not failures.told and (quota or now - failures.since >= TROUBLE_AFTER):
            failures.told = True
            self._journal.note(ProviderTroubled(name, type(error).__name__, str(error)))
        self._announce(name)
        asked = error.retry_after if isinstance(error, CloudBusy) else None
        pause = min(visit.facts.refresh_every * min(1 << (failures.count - 1), 8), LONGEST_PAUSE)
        return now + max(self._jittered(pause), min(asked or timedelta(), QUOTA_PAUSE if quota else LONGEST_PAUSE))

    # -- what a turn needs -------------------------------------------------------------------------------------------

    async def _prepare(self, name: str, source: Source) -> Visit:
        return Visit(name, source, self._clouds.facts(source.provider), await keys_for(source, self._vault))

    def _seller(self, visit: Visit) -> Seller:
        """What is known; what was known of another key is forgotten."""
        seller = self._market.sellers.get(visit.name)
        if seller is None:
            facts = visit.facts
            return Seller(facts.provider, facts.title, facts.boot, facts.sells_spot)
        if seller.key.fingerprint != visit.keys.fingerprint:
            return replace(seller, key=KeyState(), missing_key=False)
        return seller

    def _jittered(self, interval: timedelta) -> timedelta:
        return interval * (1 - JITTER + 2 * JITTER * self._entropy.jitter())


def _checked_lately(key: KeyState, now: datetime) -> bool:
    """A key that lacks a right is looked at sooner. A moment still to come is none: the clock was wrong."""
    if key.checked_at is None or key.valid is None:
        return False
    return timedelta(0) <= now - key.checked_at < (CHECK_EVERY if key.valid else REFUSED_AGAIN_AFTER)


def _known_by(report: KeyReport, now: datetime, fingerprint: str) -> KeyState:
    """A lack is told, and the offers are listed all the same: what else can be had there is still for sale."""
    lacking = [right for right in report.rights if right.held is False]
    why = "; ".join((*report.notes, *(_lack(right) for right in lacking)))
    return KeyState(
        valid=True,
        why=why,
        weak=bool(lacking),
        exhausted=not report.can_buy and not lacking,
        account=report.account.id,
        checked_at=now,
        fingerprint=fingerprint,
    )


def _lack(right: Right) -> str:
    return f"{right.name}: {right.note}" if right.note else f"the key may not: {right.name}"


def _names(record: Typed[GPUNodeClass] | None) -> tuple[str, ...]:
    if record is None or record.object is None:
        return ()
    return tuple(source.name for source in sources_of(record.object).values())
