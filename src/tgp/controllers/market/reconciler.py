"""Keeps the price book: each source of offers is polled on its own schedule, none waiting for another.

A reconcile is about one source: has it a key, does the provider accept it, what is offered? Every failure is recorded:
the offers of a provider that fails are *unknown*, and its last ones are served with their age.
A key that was refused is not tried again before it changes, or a while has passed.
A source that was polled waits: it is not polled again before it is due, whatever triggers a reconcile, unless its
credentials changed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.controllers.market.credentials import Credentials, credentials_for, secrets_of
from tgp.controllers.requests.indexes import WAITING, WAITING_OF_POOL, YES, waits
from tgp.core.market.sources import sources_of
from tgp.core.model.backoff import doubled
from tgp.core.model.cloud_errors import AccountExhausted, CloudBusy, CloudError, KeyRefused, QuotaExhausted
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.costs import class_of
from tgp.core.model.facts import KeyAccepted, KeyWasRefused, ProviderFailing, ProviderRecovered
from tgp.core.model.history import PriceHistory
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.model.price_book import PriceBook
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.source import Source
from tgp.core.model.source_status import KeyState, SourceStatus
from tgp.core.model.workload import Metadata
from tgp.core.pools.machine_types import with_learned_gpu
from tgp.ports.clock import Clock
from tgp.ports.cloud import Cloud, KeyReport, Listing, Right
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import View
from tgp.ports.entropy import Entropy
from tgp.ports.journal import Journal
from tgp.ports.secret_reader import SecretReader

CHECK_EVERY = timedelta(hours=1)  # a key that was accepted; every listing checks it as well
REFUSED_AGAIN_AFTER = timedelta(minutes=15)  # an administrator may have fixed the key's rights at the provider
JITTER = 0.1  # of the interval, either way
LONGEST_PAUSE = timedelta(minutes=15)  # between tries at a provider that fails
QUOTA_PAUSE = timedelta(hours=1)  # between tries where the API quota is used up
LONGEST_REST = QUOTA_PAUSE * (1 + JITTER)  # a longer one was computed before the clock was set back
TROUBLE_AFTER = timedelta(minutes=5)  # of failures, before they are reported


class MarketState:
    """The current market: one frozen book and the state of every source.

    One reconciler replaces it, the others read.
    """

    def __init__(self) -> None:
        self.book = PriceBook()
        self.source_statuses: Mapping[str, SourceStatus] = {}  # by source
        self.history = PriceHistory()
        self.cooldowns = Cooldowns()

    def put(self, name: str, source_status: SourceStatus) -> None:
        self.source_statuses = {**self.source_statuses, name: source_status}

    def drop(self, name: str) -> None:
        self.source_statuses = {
            known: source_status for known, source_status in self.source_statuses.items() if known != name
        }
        self.book = self.book.without(name)


class Poll(msgspec.Struct, frozen=True):
    """One poll of a source, with all that it needs."""

    name: str
    source: Source
    facts: CloudFacts
    keys: Credentials

    @property
    def keyless(self) -> bool:
        """A key is needed, and there is none."""
        return bool(self.facts.key_variable) and self.keys.own is None


@dataclass(slots=True)
class FailureStreak:
    """In a row, of one source."""

    since: datetime
    count: int = 0
    reported: bool = False  # they were reported


class PollDelay(msgspec.Struct, frozen=True):
    """Of one source, after it was polled."""

    fingerprints: tuple[str, ...]
    until: datetime
    wanted_until: datetime  # where a request waits for what it sells; no later than `until`

    def lasts(self, poll: Poll, now: datetime, *, wanted: bool) -> datetime | None:
        """Until when; None: it is over."""
        until = self.wanted_until if wanted else self.until
        lasts = self.fingerprints == poll.keys.fingerprints and timedelta(0) < until - now <= LONGEST_REST
        return until if lasts else None


class MarketReconciler:
    """A reconciler whose keys are sources."""

    def __init__(
        self,
        market: MarketState,
        *,
        classes: View[KubeObject[GPUNodeClass]],
        clouds: Clouds,
        secret_reader: SecretReader,
        clock: Clock,
        entropy: Entropy,
        journal: Journal,
        announce: Callable[[str], None],  # that something about this source changed
        requests: View[KubeObject[GPURequest]] | None = None,  # None: none is seen, so that none waits for offers
        nodes: View[Node] | None = None,  # of machines you own; None: nothing is learned from them
    ) -> None:
        self._market = market
        self._classes = classes
        self._clouds = clouds
        self._secret_reader = secret_reader
        self._clock = clock
        self._entropy = entropy
        self._journal = journal
        self._announce = announce
        self._requests = requests
        self._nodes = nodes
        self._failures: dict[str, FailureStreak] = {}
        self._rests: dict[str, PollDelay] = {}

    # -- which sources to reconcile ---------------------------------------------------------------------------------

    def of_class(
        self, old: KubeObject[GPUNodeClass] | None, new: KubeObject[GPUNodeClass] | None
    ) -> Iterable[ObjectKey]:
        """Sources that a change of this class adds, changes or removes."""
        before, after = _names(old), _names(new)
        return [ObjectKey("", name) for name in dict.fromkeys((*before, *after)) if (name in before) != (name in after)]

    def of_secret(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
        """Sources whose key, or whose headers, may have changed with this Secret."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        for name, source in self._wanted().items():
            if changed.key.name in secrets_of(source):
                yield ObjectKey("", name)

    def of_request(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        """Sources that a request begins to wait for: those that are polled seldom are polled soon."""
        if new is None or not waits(new) or (old is not None and waits(old) and class_of(old) == class_of(new)):
            return
        for name, source in self._wanted().items():
            if self._clouds.facts(source.provider).idle_refresh_every is not None:
                yield ObjectKey("", name)

    def _waited_for(self, source: Source) -> bool:
        """Does a request without a machine want what this source sells? One that names no class wants anything."""
        if self._requests is None:
            return False
        names = {class_of(record) for record in self._requests.by_index(WAITING, YES)}
        return "" in names or any(
            record.value is not None
            and source in sources_of(record.value).values()
            and (record.key.name in names or any(self._requests.by_index(WAITING_OF_POOL, record.key.name)))
            for record in self._classes.values()
        )

    def _wanted(self) -> dict[str, Source]:
        found: dict[str, Source] = {}
        for record in self._classes.values():
            if record.value is not None:
                found |= {source.name: source for source in sources_of(record.value).values()}
        return found

    # -- a reconcile -------------------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        name = key.name
        source = self._wanted().get(name)
        if source is None:
            self._failures.pop(name, None)
            self._rests.pop(name, None)
            self._market.drop(name)
            self._announce(name)
            return None
        poll = await self._prepare(name, source)
        rest = self._rests.pop(name, None)
        if rest is not None and (until := rest.lasts(poll, self._clock.now(), wanted=self._waited_for(source))):
            self._rests[name] = rest
            return until
        source_status = self._source_status(poll)
        if poll.keyless and not poll.facts.public_offers:
            self._market.book = self._market.book.without(name)  # nothing can be bought there any more
            self._market.put(name, replace(source_status, missing_key=True))
            self._announce(name)
            return None  # until the Secret or the class changes
        rest = self._rests[name] = await self._ask(poll, source_status)
        return rest.lasts(poll, self._clock.now(), wanted=self._waited_for(source)) or rest.until

    async def _ask(self, poll: Poll, source_status: SourceStatus) -> PollDelay:
        try:
            cloud = self._clouds.open(poll.source, poll.keys.own, poll.keys.others)
            if not poll.keyless:
                source_status = await self._with_key_checked(poll, cloud, source_status)
                self._tell_of_key(poll.name, source_status)
            listing = await cloud.offers()
        except KeyRefused as error:
            self._refused(poll, source_status, str(error))
            until = self._clock.now() + REFUSED_AGAIN_AFTER
        except CloudError as error:
            until = self._failed(poll, source_status, error)
        else:
            self._went_well(poll, source_status, listing)
            soon, seldom = poll.facts.refresh_every, poll.facts.idle_refresh_every or poll.facts.refresh_every
            pause = self._jittered(soon)
            now = self._clock.now()
            return PollDelay(poll.keys.fingerprints, now + pause * (seldom / soon), now + pause)
        return PollDelay(poll.keys.fingerprints, until, until)

    async def _with_key_checked(self, poll: Poll, cloud: Cloud, source_status: SourceStatus) -> SourceStatus:
        now = self._clock.now()
        if _checked_lately(source_status.key, now):
            return source_status
        try:
            known = _known_by(await cloud.check(), now, poll.keys.fingerprint)
        except KeyRefused:
            raise
        except AccountExhausted as error:
            known = KeyState(True, str(error), exhausted=True, checked_at=now, fingerprint=poll.keys.fingerprint)
        except CloudError:
            return source_status  # tried again with the next reconcile; the offers may be readable all the same
        return replace(source_status, key=known)

    def _went_well(self, poll: Poll, source_status: SourceStatus, listing: Listing) -> None:
        name, now, market = poll.name, self._clock.now(), self._market
        failures = self._failures.pop(name, None)
        if failures is not None and failures.reported:
            self._journal.note(ProviderRecovered(name))
        if poll.source.settings.machines:
            listing = replace(listing, offers=tuple(self._with_gpu(offer) for offer in listing.offers))
        market.book = market.book.with_listing(name, listing, now)
        market.history.note(listing.offers, now)
        self._keep(name, replace(source_status, missing_key=poll.keyless))
        self._announce(name)

    def _with_gpu(self, offer: Offer) -> Offer:
        node = self._nodes.get(ObjectKey("", offer.sku)) if self._nodes is not None else None
        return with_learned_gpu(offer, node)

    def _refused(self, poll: Poll, source_status: SourceStatus, why: str) -> None:
        refused = KeyState(False, why, checked_at=self._clock.now(), fingerprint=poll.keys.fingerprint)
        if self._turned(poll.name, refused):
            self._journal.note(KeyWasRefused(poll.name, why))
        self._market.book = self._market.book.without(poll.name)  # an offer that cannot be bought is dropped
        self._market.put(poll.name, replace(source_status, key=refused))
        self._announce(poll.name)

    def _tell_of_key(self, name: str, source_status: SourceStatus) -> None:
        """The result of a check is published before a long listing ends, except the end of a refusal: the listing
        decides.
        """
        before = self._market.source_statuses.get(name)
        if self._turned(name, source_status.key) and (before is None or before.key.valid is not False):
            self._keep(name, source_status)
            self._announce(name)

    def _keep(self, name: str, source_status: SourceStatus) -> None:
        if source_status.key.valid and self._turned(name, source_status.key):
            self._journal.note(KeyAccepted(name, source_status.key.account))
        self._market.put(name, source_status)

    def _turned(self, name: str, key: KeyState) -> bool:
        """Did this change? A check may pass and the listing be refused, again and again: that is one refusal."""
        before = self._market.source_statuses.get(name)
        return before is None or (before.key.valid, before.key.fingerprint) != (key.valid, key.fingerprint)

    def _failed(self, poll: Poll, source_status: SourceStatus, error: CloudError) -> datetime:
        name, now, market = poll.name, self._clock.now(), self._market
        failures = self._failures.setdefault(name, FailureStreak(since=now))
        failures.count += 1
        failures.since = min(failures.since, now)  # the clock was set back: they began now at the latest
        quota = isinstance(error, QuotaExhausted)
        market.book = market.book.with_failure(name, str(error), now, quota=quota)
        self._keep(name, source_status)
        if not failures.reported and (quota or now - failures.since >= TROUBLE_AFTER):
            failures.reported = True
            self._journal.note(ProviderFailing(name, type(error).__name__, str(error)))
        self._announce(name)
        asked = error.retry_after if isinstance(error, CloudBusy) else None
        pause = doubled(poll.facts.refresh_every, failures.count, LONGEST_PAUSE)
        return now + max(self._jittered(pause), min(asked or timedelta(), QUOTA_PAUSE if quota else LONGEST_PAUSE))

    # -- what a reconcile needs----------------------------------------------------------------------------------------

    async def _prepare(self, name: str, source: Source) -> Poll:
        return Poll(
            name, source, self._clouds.facts(source.provider), await credentials_for(source, self._secret_reader)
        )

    def _source_status(self, poll: Poll) -> SourceStatus:
        """The known state; the state of another key is dropped."""
        source_status = self._market.source_statuses.get(poll.name)
        if source_status is None:
            facts = poll.facts
            return SourceStatus(facts.provider, facts.title, facts.boot, facts.sells_spot)
        if source_status.key.fingerprint != poll.keys.fingerprint:
            return replace(source_status, key=KeyState(), missing_key=False)
        return source_status

    def _jittered(self, interval: timedelta) -> timedelta:
        return interval * (1 - JITTER + 2 * JITTER * self._entropy.jitter())


def _checked_lately(key: KeyState, now: datetime) -> bool:
    """A key with a missing right is checked sooner. A time in the future is ignored: the clock was wrong."""
    if key.checked_at is None or key.valid is None:
        return False
    return timedelta(0) <= now - key.checked_at < (CHECK_EVERY if key.valid else REFUSED_AGAIN_AFTER)


def _known_by(report: KeyReport, now: datetime, fingerprint: str) -> KeyState:
    """A missing right is reported, and the offers are listed all the same: other offers can still be bought."""
    missing_rights = [right for right in report.rights if right.held is False]
    why = "; ".join((*report.notes, *(_missing_right(right) for right in missing_rights)))
    return KeyState(
        valid=True,
        why=why,
        weak=bool(missing_rights),
        exhausted=not report.can_buy and not missing_rights,
        account=report.account.id,
        checked_at=now,
        fingerprint=fingerprint,
    )


def _missing_right(right: Right) -> str:
    return f"{right.name}: {right.note}" if right.note else f"the API key has no right to {right.name}"


def _names(record: KubeObject[GPUNodeClass] | None) -> tuple[str, ...]:
    if record is None or record.value is None:
        return ()
    return tuple(source.name for source in sources_of(record.value).values())
