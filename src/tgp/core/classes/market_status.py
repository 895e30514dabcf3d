"""What the market means for a class: are its keys valid, are its prices fresh, what could it buy.

Prices move all day. A status that moved with them would be written all day, so it is written at once when something
changed (a key, an error, a provider), and for prices only when they moved by more than noise, at most every five
minutes.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

import msgspec

from tgp.api.field_error import Invalid
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.values import microusd, rfc3339, usd
from tgp.core.model.conditions import ConditionUpdate, shortened
from tgp.core.model.offer import Offer
from tgp.core.model.offer_query import OFFER_USABLE_FOR
from tgp.core.model.price_book import SourceState
from tgp.core.model.source import Source
from tgp.core.model.source_status import SourceStatus

OUTAGE_REPORTED_AFTER = timedelta(minutes=10)  # five missed polls; a shorter outage is not reported
PRICES_AT_MOST_EVERY = timedelta(minutes=5)
NOISE = 0.02  # of a price
COUNT_NOISE = 0.1  # of a number of offers
AVAILABLE_MOST = 128  # rows of availableGPUs; the schema's bound is 256
ERROR_MOST = 512


class ProviderStanding(msgspec.Struct, frozen=True):
    """One enabled provider of a class, as it is known now."""

    name: str  # as the class writes it
    source: Source
    source_status: SourceStatus | None  # None: not polled yet
    listing: SourceState | None  # None: it has never answered, nor failed
    fitting: int = 0  # offers that match the class

    @property
    def heard(self) -> bool:
        """Has this process read the provider's offers at least once?"""
        return self.listing is not None and self.listing.seen_at is not None

    @property
    def stale_at(self) -> datetime | None:
        """When its failure is reported; None: its last poll succeeded.

        A provider never read has no offers to go stale.
        """
        if self.listing is None or not self.listing.why:
            return None
        seen_at = self.listing.seen_at
        at_once = seen_at is None or self.listing.quota  # a used-up quota does not recover within minutes
        return self.listing.failing_since if at_once or seen_at is None else seen_at + OUTAGE_REPORTED_AFTER

    @property
    def could_tell(self) -> bool:
        """Its offers could be read, and were not yet: the poll is under way, or has only failed."""
        source_status = self.source_status
        return (
            source_status is not None
            and source_status.key.valid is not False
            and not source_status.missing_key
            and not self.heard
        )


def known_enough(
    standings: Iterable[ProviderStanding], held: Mapping[str, Any], offers_held: ConditionUpdate | None, now: datetime
) -> bool:
    """Is it time to decide? What an earlier process found stays until this one has polled every provider itself.

    `offers_held`: the stored condition of the offers. A provider that fails just then gets as long as one that was
    read.
    """
    rows = _rows(held)
    known = offers_held is not None and offers_held.status is not None
    return not any(
        each.source_status is None or (each.name in rows and _wait_for(each, now, known=known)) for each in standings
    )


def _wait_for(standing: ProviderStanding, now: datetime, *, known: bool) -> bool:
    if not standing.could_tell:
        return False
    since = standing.listing.failing_since if standing.listing is not None else None
    return since is None or (known and now < since + OUTAGE_REPORTED_AFTER)


def keys_tried(standings: Iterable[ProviderStanding]) -> bool:
    """Has every provider with a key accepted or refused it?"""
    return all(
        each.source_status is not None and (not each.source.secret or each.source_status.key.valid is not None)
        for each in standings
    )


def judged_again_at(standings: Iterable[ProviderStanding], now: datetime) -> datetime | None:
    """When the conditions change by themselves: when a provider has failed for too long; None: no such time."""
    moments = (_news_of(each) for each in standings)
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def _news_of(standing: ProviderStanding) -> datetime | None:
    listing = standing.listing
    if standing.could_tell and listing is not None and listing.failing_since is not None:
        return listing.failing_since + OUTAGE_REPORTED_AFTER
    return standing.stale_at


def credentials_checked(standings: Sequence[ProviderStanding]) -> ConditionUpdate:
    """CredentialsValid of a class whose Secrets all exist: what the providers answered."""
    keyed = [standing for standing in standings if standing.source.secret]
    if not keyed:
        return ConditionUpdate("CredentialsValid", True, "NoneNeeded", "No provider of the class needs an API key.")
    refused = [each for each in keyed if each.source_status is not None and each.source_status.key.valid is False]
    if refused:
        said = "; ".join(f"{_named(each)}: {_why(each)}" for each in refused)
        return ConditionUpdate(
            "CredentialsValid",
            False,
            "KeyRefused",
            f"API key refused: {said}. Put a valid key into the Secret; the operator checks it at once.",
        )
    weak = [each for each in keyed if each.source_status is not None and each.source_status.key.weak]
    if weak:
        said = "; ".join(f"{_named(each)}: {_why(each)}" for each in weak)
        return ConditionUpdate(
            "CredentialsValid", False, "KeyTooWeak", f"API key accepted, but rights are missing: {said}."
        )
    spent = [each for each in keyed if each.source_status is not None and each.source_status.key.exhausted]
    if spent:
        said = "; ".join(f"{each.name}: {_why(each)}" for each in spent)
        return ConditionUpdate(
            "CredentialsValid", True, "AccountExhausted", f"API keys are valid, but nothing can be bought: {said}."
        )
    untried = [each.name for each in keyed if each.source_status is None or each.source_status.key.valid is None]
    if untried:
        return ConditionUpdate(
            "CredentialsValid",
            None,
            "NotTried",
            f"API key found for {', '.join(untried)}; the provider has not confirmed it yet.",
        )
    names = ", ".join(each.name for each in keyed)
    return ConditionUpdate("CredentialsValid", True, "Accepted", f"API keys accepted by {names}.")


def no_seller(standings: Sequence[ProviderStanding]) -> ConditionUpdate | None:
    """Not ready: every provider of the class has refused its key. None: at least one may sell."""
    refused = [
        each.name for each in standings if each.source_status is not None and each.source_status.key.valid is False
    ]
    if not refused or len(refused) < len(standings):
        return None
    who = ", ".join(refused)
    return ConditionUpdate("Ready", False, "KeyRefused", f"API keys refused by {who}: see condition CredentialsValid.")


def offers_fresh(standings: Sequence[ProviderStanding], misfits: Sequence[str], now: datetime) -> ConditionUpdate:
    """`misfits`: why offers did not match."""
    if stale := [each for each in standings if _is_stale(each, now)]:
        said = " ".join(map(_staleness, stale))
        if all(each.listing is not None and each.listing.quota for each in stale):
            return ConditionUpdate("OffersFresh", False, "QuotaExhausted", said)
        return ConditionUpdate("OffersFresh", False, "Stale", said)
    heard = [each for each in standings if each.heard]
    if not heard:
        return ConditionUpdate("OffersFresh", None, "NotAsked", "No provider's offers were read yet.")
    names = ", ".join(each.name for each in heard)
    if not any(each.fitting for each in heard):
        because = f": {', '.join(misfits)}" if misfits else ""
        return ConditionUpdate("OffersFresh", True, "NothingFits", f"No offer of {names} matches the class{because}.")
    return ConditionUpdate("OffersFresh", True, "Fresh", f"Offers of {names} are up to date.")


def _is_stale(standing: ProviderStanding, now: datetime) -> bool:
    moment = standing.stale_at
    return moment is not None and now >= moment


def _staleness(standing: ProviderStanding) -> str:
    listing = standing.listing
    assert listing is not None
    if listing.seen_at is None:
        return f"Offers of {standing.name} could not be read: {listing.why}."
    return f"Offers of {standing.name} could not be read since {rfc3339(listing.seen_at)}: {listing.why}."


def spot_unavailable(node_class: GPUNodeClass, standings: Sequence[ProviderStanding]) -> ConditionUpdate | None:
    if not node_class.spec.instance_requirements.spot_allowed:
        return None
    known = [each for each in standings if each.source_status is not None]
    if not known or any(each.source_status is not None and each.source_status.sells_spot for each in known):
        return None
    names = ", ".join(each.name for each in known)
    return ConditionUpdate(
        "SpotUnavailable",
        True,
        "NoSpotProvider",
        f"spec.instanceRequirements.spotAllowed is set, but no provider of the class sells spot machines: {names}.",
    )


def _named(standing: ProviderStanding) -> str:
    return f"{standing.name}, key {standing.source.key} of Secret {standing.source.secret}"


def _why(standing: ProviderStanding) -> str:
    return (standing.source_status.key.why if standing.source_status is not None else "") or "no reason given"


# -- the summary in a class's status ---------------------------------------------------------------------------------


def summary(
    standings: Sequence[ProviderStanding],
    fitting: Iterable[tuple[Offer, str]],
    now: datetime,
    held: Mapping[str, Any],
    boots: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> dict[str, Any]:
    """`providers` and `availableGPUs`, as they would be written now. `fitting`: the matching offers, cheapest first,
    each with its source.

    `held` is what was written about the same spec, perhaps by an earlier process. What it says of a provider that was
    not read since is kept, with its recorded age and for as long as offers are served: that provider's offers are
    unknown, not absent. `boots`: by field of a provider and by provider, what was seen of machines that booted.
    """
    rows, listed = _rows(held), held.get("availableGPUs")
    unheard = {each.name for each in standings if each.could_tell and _still_served(rows.get(each.name, {}), now)}
    kept = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    found = _available({each.source.name: each.name for each in standings}, fitting)
    found += [row for row in kept if row.get("provider") in unheard]
    return {
        "providers": {
            each.name: _provider(each, rows.get(each.name, {}), now)
            | {key: told[each.name] for key, told in boots.items() if each.name in told}
            for each in standings
        },
        "availableGPUs": sorted(found, key=_place)[:AVAILABLE_MOST],
    }


def _place(row: Mapping[str, Any]) -> tuple[str, str, bool]:
    return str(row.get("gpuType")), str(row.get("provider")), row.get("spot") is True


def _provider(standing: ProviderStanding, held: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    source_status, listing = standing.source_status, standing.listing
    row: dict[str, Any] = {"credentialsValid": _accepted(source_status)}
    if source_status is not None:
        if not standing.source.secret:
            row["credentialsValid"] = True  # it needs none
        if source_status.key.checked_at is not None:
            row["lastCredentialCheck"] = rfc3339(source_status.key.checked_at)
        row["bootMode"] = ",".join(mode.value for mode in source_status.boot)
    error = _error(standing, now)
    if error:
        row["error"] = shortened(error, ERROR_MOST)
    if listing is not None and listing.seen_at is not None:
        row["offers"] = standing.fitting
        row["lastPricingUpdate"] = rfc3339(listing.seen_at)
    elif standing.could_tell:
        row |= {name: held[name] for name in ("offers", "lastPricingUpdate") if name in held}
        if "offers" in row and not _still_served(held, now):
            row["offers"] = 0
    return row


def _still_served(held: Mapping[str, Any], now: datetime) -> bool:
    moment = _moment(held.get("lastPricingUpdate"))
    return moment is not None and now - moment <= OFFER_USABLE_FOR


def _accepted(source_status: SourceStatus | None) -> bool:
    return source_status is not None and source_status.key.valid is True and not source_status.key.weak


def _error(standing: ProviderStanding, now: datetime) -> str:
    source_status, listing = standing.source_status, standing.listing
    if source_status is not None and (
        source_status.key.valid is False or source_status.key.weak or source_status.key.exhausted
    ):
        return _why(standing)
    return listing.why if listing is not None and _is_stale(standing, now) else ""


def _available(names: Mapping[str, str], fitting: Iterable[tuple[Offer, str]]) -> list[dict[str, Any]]:
    best: dict[tuple[str, str, bool], dict[str, Any]] = {}
    for offer, source in fitting:
        name = names.get(source, offer.provider)
        kind = offer.gpu, name, offer.spot
        if kind not in best:
            best[kind] = {
                "gpuType": offer.gpu,
                "provider": name,
                "region": offer.region,
                "pricePerHour": usd(offer.hourly_microusd),
                "gpuCount": offer.gpu_count,
                "memoryGiB": offer.gpu_memory_gib,
                "spot": offer.spot,
            }
            if len(best) == AVAILABLE_MOST:
                break
    return list(best.values())


def worth_writing(held: Mapping[str, Any], new: Mapping[str, Any], now: datetime) -> bool:
    """Has a state changed, or have prices moved by more than noise for some time?"""
    before, after = _rows(held), _rows(new)
    if before.keys() != after.keys() or any(_turned(before[name], after[name]) for name in after):
        return True
    written = [moment for row in before.values() if (moment := _moment(row.get("lastPricingUpdate"))) is not None]
    # A time in the future was written by a wrong clock: it delays nothing.
    if any(timedelta(0) <= now - moment < PRICES_AT_MOST_EVERY for moment in written):
        return False
    return _moved(held.get("availableGPUs"), new.get("availableGPUs")) or any(
        _counts_moved(before[name].get("offers"), after[name].get("offers")) for name in after
    )


def _rows(status: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    rows = status.get("providers")
    return {str(name): row for name, row in rows.items() if isinstance(row, dict)} if isinstance(rows, dict) else {}


def _turned(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    same = ("credentialsValid", "bootMode", "bootSeenAt", "bootTime")
    present = ("error", "offers")
    return any(before.get(name) != after.get(name) for name in same) or any(
        (before.get(name) is None) != (after.get(name) is None) for name in present
    )


def _moved(before: object, after: object) -> bool:
    old, new = _prices(before), _prices(after)
    if old.keys() != new.keys():
        return True
    return any(abs(new[kind] - price) > NOISE * max(price, 1) for kind, price in old.items())


def _prices(rows: object) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            kind = tuple(str(row.get(name)) for name in ("gpuType", "provider", "spot", "gpuCount"))
            found[kind] = _price(row.get("pricePerHour"))
    return found


def _price(text: object) -> int:
    """Zero where the text is no number: other clients may write statuses; their values are overwritten, not trusted."""
    try:
        return microusd(str(text), "pricePerHour")
    except Invalid:
        return 0


def _counts_moved(before: object, after: object) -> bool:
    old, new = (each if isinstance(each, int) else 0 for each in (before, after))
    return abs(new - old) > COUNT_NOISE * max(old, 1)


def _moment(text: object) -> datetime | None:
    """None: absent, or not readable as one moment."""
    try:
        moment = datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None
