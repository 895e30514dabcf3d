"""What the market means for a class: are its keys good, are its prices fresh, what could it buy; in few, quiet words.

Prices move all day. A status that moved with them would be written all day, so it is written at once when something
turned (a key, a trouble, a provider), and for prices only when they moved by more than noise, at most every five
minutes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.problem import Invalid
from tgp.api.values import microusd, rfc3339, usd
from tgp.core.model.book import SourceState
from tgp.core.model.conditions import Verdict, shortened
from tgp.core.model.offer import Offer
from tgp.core.model.seller import Seller
from tgp.core.model.source import Source
from tgp.core.model.wish import STALE_AFTER as SERVED_FOR

OF_THE_MARKET = frozenset({"CanBuy", "CredentialsValid", "OffersFresh", "SpotInert"})  # the conditions judged here
OF_THE_KEYS = frozenset({"CredentialsValid"})
STALE_AFTER = timedelta(minutes=10)  # five missed looks; a shorter hiccup is nobody's business
PRICES_AT_MOST_EVERY = timedelta(minutes=5)
NOISE = 0.02  # of a price
COUNT_NOISE = 0.1  # of a number of offers
AVAILABLE_MOST = 128  # rows of availableGPUs; the schema's bound is 256
ERROR_MOST = 512


@dataclass(frozen=True, slots=True)
class Standing:
    """One enabled provider of a class, as it is known now."""

    name: str  # as the class writes it
    source: Source
    seller: Seller | None  # None: not asked yet
    listing: SourceState | None  # None: it has never answered, nor failed
    fitting: int = 0  # offers that fit the class

    @property
    def heard(self) -> bool:
        """Has it told its offers to this process, if only once?"""
        return self.listing is not None and self.listing.seen_at is not None

    @property
    def stale_at(self) -> datetime | None:
        """From when on its failing is news; None: its last look succeeded. What was never heard has nothing to last."""
        if self.listing is None or not self.listing.why:
            return None
        seen_at = self.listing.seen_at
        at_once = seen_at is None or self.listing.quota  # it will not get better within minutes
        return self.listing.failing_since if at_once or seen_at is None else seen_at + STALE_AFTER

    @property
    def could_tell(self) -> bool:
        """It could tell its offers, and has not yet: it is still being asked, or has only failed."""
        seller = self.seller
        return seller is not None and seller.key.valid is not False and not seller.missing_key and not self.heard


def known_enough(
    standings: Iterable[Standing], held: Mapping[str, Any], offers_held: Verdict | None, now: datetime
) -> bool:
    """Is it time to judge? What an earlier process found out stands until this one has asked every provider itself.

    `offers_held`: what it said of the offers. A provider that errs just then is given as long as one that was heard.
    """
    rows = _rows(held)
    told = offers_held is not None and offers_held.status is not None
    return not any(each.seller is None or (each.name in rows and _wait_for(each, now, told=told)) for each in standings)


def _wait_for(standing: Standing, now: datetime, *, told: bool) -> bool:
    if not standing.could_tell:
        return False
    since = standing.listing.failing_since if standing.listing is not None else None
    return since is None or (told and now < since + STALE_AFTER)


def keys_tried(standings: Iterable[Standing]) -> bool:
    """Has every provider with a key said something of it?"""
    return all(
        each.seller is not None and (not each.source.secret or each.seller.key.valid is not None) for each in standings
    )


def judged_again_at(standings: Iterable[Standing], now: datetime) -> datetime | None:
    """When the verdict turns if nothing else happens: when one has failed for too long; None: none is about to."""
    moments = (_news_of(each) for each in standings)
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def _news_of(standing: Standing) -> datetime | None:
    listing = standing.listing
    if standing.could_tell and listing is not None and listing.failing_since is not None:
        return listing.failing_since + STALE_AFTER
    return standing.stale_at


def judge_market(
    node_class: GPUNodeClass, standings: Sequence[Standing], misfits: Sequence[str], now: datetime
) -> tuple[Verdict, ...]:
    """Verdicts on keys and offers, for a class whose Secrets are all there. `misfits`: why offers did not fit."""
    verdicts = [_keys(standings), _offers(standings, misfits, now)]
    if node_class.spec.instance_requirements.spot_allowed and (inert := _spot(standings)) is not None:
        verdicts.append(inert)
    return tuple(verdicts)


def _keys(standings: Sequence[Standing]) -> Verdict:
    keyed = [standing for standing in standings if standing.source.secret]
    if not keyed:
        return Verdict("CredentialsValid", True, "NoneNeeded", "none of its providers needs a key")
    refused = [each for each in keyed if each.seller is not None and each.seller.key.valid is False]
    if refused:
        said = "; ".join(f"{_named(each)}: {_why(each)}" for each in refused)
        return Verdict(
            "CredentialsValid", False, "KeyRefused", f"refused: {said}. Put a key that works there; it is tried at once"
        )
    weak = [each for each in keyed if each.seller is not None and each.seller.key.weak]
    if weak:
        said = "; ".join(f"{_named(each)}: {_why(each)}" for each in weak)
        return Verdict("CredentialsValid", False, "KeyTooWeak", f"accepted, but not for all that is needed: {said}")
    spent = [each for each in keyed if each.seller is not None and each.seller.key.exhausted]
    if spent:
        said = "; ".join(f"{each.name}: {_why(each)}" for each in spent)
        return Verdict(
            "CredentialsValid", True, "AccountExhausted", f"the keys are good, but nothing can be bought: {said}"
        )
    untried = [each.name for each in keyed if each.seller is None or each.seller.key.valid is None]
    if untried:
        return Verdict(
            "CredentialsValid", None, "NotTried", f"a key is there for {', '.join(untried)}; no answer about it yet"
        )
    names = ", ".join(each.name for each in keyed)
    return Verdict("CredentialsValid", True, "Accepted", f"accepted by {names}")


def nobody_sells(standings: Sequence[Standing]) -> Verdict | None:
    """Not ready: every provider of the class has refused its key. None: somebody may sell."""
    refused = [each.name for each in standings if each.seller is not None and each.seller.key.valid is False]
    if not refused or len(refused) < len(standings):
        return None
    who = ", ".join(refused)
    return Verdict("Ready", False, "KeyRefused", f"no key of {who} is accepted: see condition CredentialsValid")


def _offers(standings: Sequence[Standing], misfits: Sequence[str], now: datetime) -> Verdict:
    if stale := [each for each in standings if _is_stale(each, now)]:
        said = "; ".join(map(_staleness, stale))
        if all(each.listing is not None and each.listing.quota for each in stale):
            return Verdict("OffersFresh", False, "QuotaExhausted", said)
        return Verdict("OffersFresh", False, "Stale", said)
    heard = [each for each in standings if each.heard]
    if not heard:
        return Verdict("OffersFresh", None, "NotAsked", "no provider has told its offers yet")
    names = ", ".join(each.name for each in heard)
    if not any(each.fitting for each in heard):
        because = f": {', '.join(misfits)}" if misfits else ""
        return Verdict("OffersFresh", True, "NothingFits", f"none of the offers of {names} fits{because}")
    return Verdict("OffersFresh", True, "Fresh", f"the offers of {names} are fresh")


def _is_stale(standing: Standing, now: datetime) -> bool:
    moment = standing.stale_at
    return moment is not None and now >= moment


def _staleness(standing: Standing) -> str:
    listing = standing.listing
    assert listing is not None
    if listing.seen_at is None:
        return f"{standing.name} has not told its offers: {listing.why}"
    return f"{standing.name} has not told its offers since {rfc3339(listing.seen_at)}: {listing.why}"


def _spot(standings: Sequence[Standing]) -> Verdict | None:
    known = [each for each in standings if each.seller is not None]
    if not known or any(each.seller is not None and each.seller.sells_spot for each in known):
        return None
    names = ", ".join(each.name for each in known)
    return Verdict(
        "SpotInert",
        True,
        "NobodySellsSpot",
        f"spec.instanceRequirements.spotAllowed is set, and nobody here sells spot: {names}",
    )


def _named(standing: Standing) -> str:
    return f"{standing.name}, key {standing.source.key} of Secret {standing.source.secret}"


def _why(standing: Standing) -> str:
    return (standing.seller.key.why if standing.seller is not None else "") or "no reason given"


# -- the summary in a class's status ---------------------------------------------------------------------------------


def summary(
    standings: Sequence[Standing],
    fitting: Iterable[tuple[Offer, str]],
    now: datetime,
    held: Mapping[str, Any],
    boot_seen: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """`providers` and `availableGPUs`, as they would be written now. `fitting`: the cheapest first, with its source.

    `held` is what was written about the same spec, perhaps by an earlier process. What it says of a provider that has
    not told us anything since is kept, as old as it says it is and for as long as offers are served: that provider is
    unknown, not empty. `boot_seen`: by provider, when a machine of it was first seen to join.
    """
    rows, listed = _rows(held), held.get("availableGPUs")
    unheard = {each.name for each in standings if each.could_tell and _still_served(rows.get(each.name, {}), now)}
    kept = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    found = _available({each.source.name: each.name for each in standings}, fitting)
    found += [row for row in kept if row.get("provider") in unheard]
    return {
        "providers": {
            each.name: _provider(each, rows.get(each.name, {}), now) | _boot(boot_seen.get(each.name))
            for each in standings
        },
        "availableGPUs": sorted(found, key=_place)[:AVAILABLE_MOST],
    }


def _place(row: Mapping[str, Any]) -> tuple[str, str, bool]:
    return str(row.get("gpuType")), str(row.get("provider")), row.get("spot") is True


def _provider(standing: Standing, held: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    seller, listing = standing.seller, standing.listing
    row: dict[str, Any] = {"credentialsValid": _accepted(seller)}
    if seller is not None:
        if not standing.source.secret:
            row["credentialsValid"] = True  # it needs none
        if seller.key.checked_at is not None:
            row["lastCredentialCheck"] = rfc3339(seller.key.checked_at)
        row["bootMode"] = ",".join(mode.value for mode in seller.boot)
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


def _boot(seen_at: str | None) -> dict[str, Any]:
    return {"bootSeenAt": seen_at} if seen_at else {}


def _still_served(held: Mapping[str, Any], now: datetime) -> bool:
    moment = _moment(held.get("lastPricingUpdate"))
    return moment is not None and now - moment <= SERVED_FOR


def _accepted(seller: Seller | None) -> bool:
    return seller is not None and seller.key.valid is True and not seller.key.weak


def _error(standing: Standing, now: datetime) -> str:
    seller, listing = standing.seller, standing.listing
    if seller is not None and (seller.key.valid is False or seller.key.weak or seller.key.exhausted):
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
    """Has something turned, or have prices moved by more than noise since a while?"""
    before, after = _rows(held), _rows(new)
    if before.keys() != after.keys() or any(_turned(before[name], after[name]) for name in after):
        return True
    written = [moment for row in before.values() if (moment := _moment(row.get("lastPricingUpdate"))) is not None]
    # A moment still to come was written by a clock that was wrong: it holds nothing back.
    if any(timedelta(0) <= now - moment < PRICES_AT_MOST_EVERY for moment in written):
        return False
    return _moved(held.get("availableGPUs"), new.get("availableGPUs")) or any(
        _counts_moved(before[name].get("offers"), after[name].get("offers")) for name in after
    )


def _rows(status: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    rows = status.get("providers")
    return {str(name): row for name, row in rows.items() if isinstance(row, dict)} if isinstance(rows, dict) else {}


def _turned(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    same = ("credentialsValid", "bootMode", "bootSeenAt")
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
    """Zero where it is none: others write statuses, too, and what they left there is overwritten, not believed."""
    try:
        return microusd(str(text), "pricePerHour")
    except Invalid:
        return 0


def _counts_moved(before: object, after: object) -> bool:
    old, new = (each if isinstance(each, int) else 0 for each in (before, after))
    return abs(new - old) > COUNT_NOISE * max(old, 1)


def _moment(text: object) -> datetime | None:
    """None: it is not told, or not in a way that means one moment."""
    try:
        moment = datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None
