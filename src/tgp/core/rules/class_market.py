"""What the market means for a class: are its keys good, are its prices fresh, what could it buy; in few, quiet words.

Prices move all day. A status that moved with them would be written all day, so it is written at once when something
turned (a key, a trouble, a provider), and for prices only when they moved by more than noise, at most every five
minutes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.values import microusd, rfc3339, usd
from tgp.core.model.book import SourceState
from tgp.core.model.conditions import Verdict, shortened
from tgp.core.model.offer import Offer
from tgp.core.model.seller import Seller
from tgp.core.model.source import Source

OF_THE_MARKET = frozenset({"CredentialsValid", "OffersFresh", "SpotInert"})  # the conditions judged here
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


def _offers(standings: Sequence[Standing], misfits: Sequence[str], now: datetime) -> Verdict:
    asked = [each for each in standings if each.listing is not None]
    if not asked:
        return Verdict("OffersFresh", None, "NotAsked", "no provider has told its offers yet")
    stale = [each for each in asked if (said := each.listing) is not None and _is_stale(said, now)]
    if stale:
        return Verdict("OffersFresh", False, "Stale", "; ".join(map(_staleness, stale)))
    names = ", ".join(each.name for each in asked)
    if not any(each.fitting for each in asked):
        because = f": {', '.join(misfits)}" if misfits else ""
        return Verdict("OffersFresh", True, "NothingFits", f"none of the offers of {names} fits{because}")
    return Verdict("OffersFresh", True, "Fresh", f"the offers of {names} are fresh")


def _is_stale(listing: SourceState, now: datetime) -> bool:
    age = listing.age(now)
    return bool(listing.why) and (age is None or age > STALE_AFTER)


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
        "SpotInert", True, "NobodySellsSpot", f"spec.instanceRequirements.spotAllowed is set, and {names} sells no spot"
    )


def _named(standing: Standing) -> str:
    return f"{standing.name}, key {standing.source.key} of Secret {standing.source.secret}"


def _why(standing: Standing) -> str:
    return (standing.seller.key.why if standing.seller is not None else "") or "no reason given"


# -- the summary in a class's status ---------------------------------------------------------------------------------


def summary(standings: Sequence[Standing], fitting: Iterable[tuple[Offer, str]], now: datetime) -> dict[str, Any]:
    """`providers` and `availableGPUs`, as they would be written now. `fitting`: the cheapest first, with its source."""
    return {
        "providers": {each.name: _provider(each, now) for each in standings},
        "availableGPUs": _available({each.source.name: each.name for each in standings}, fitting),
    }


def _provider(standing: Standing, now: datetime) -> dict[str, Any]:
    seller, listing = standing.seller, standing.listing
    row: dict[str, Any] = {"credentialsValid": seller is not None and seller.key.valid is True}
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
    return row


def _error(standing: Standing, now: datetime) -> str:
    seller, listing = standing.seller, standing.listing
    if seller is not None and (seller.key.valid is False or seller.key.exhausted):
        return _why(standing)
    return listing.why if listing is not None and _is_stale(listing, now) else ""


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
    return [best[kind] for kind in sorted(best)]


def worth_writing(held: Mapping[str, Any], new: Mapping[str, Any], now: datetime) -> bool:
    """Has something turned, or have prices moved by more than noise since a while?"""
    before, after = _rows(held), _rows(new)
    if before.keys() != after.keys() or any(_turned(before[name], after[name]) for name in after):
        return True
    written = [moment for row in before.values() if (moment := _moment(row.get("lastPricingUpdate"))) is not None]
    if written and now - max(written) < PRICES_AT_MOST_EVERY:
        return False
    return _moved(held.get("availableGPUs"), new.get("availableGPUs")) or any(
        _counts_moved(before[name].get("offers"), after[name].get("offers")) for name in after
    )


def _rows(status: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    rows = status.get("providers")
    return {str(name): row for name, row in rows.items() if isinstance(row, dict)} if isinstance(rows, dict) else {}


def _turned(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    same = ("credentialsValid", "bootMode")
    present = ("error", "offers")
    return any(before.get(name) != after.get(name) for name in same) or any(
        (before.get(name) is None) != (after.get(name) is None) for name in present
    )


def _moved(before: object, after: object) -> bool:
    old, new = _prices(before), _prices(after)
    if old.keys() != new.keys():
        return True
    return any(abs(new[kind] - price) > NOISE * max(price, 1) for kind, price in old.items())


def _prices(rows: object) -> dict[tuple[object, ...], int]:
    found: dict[tuple[object, ...], int] = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            kind = row.get("gpuType"), row.get("provider"), row.get("spot"), row.get("gpuCount")
            found[kind] = microusd(str(row.get("pricePerHour", "0.00")), "pricePerHour")
    return found


def _counts_moved(before: object, after: object) -> bool:
    old, new = (each if isinstance(each, int) else 0 for each in (before, after))
    return abs(new - old) > COUNT_NOISE * max(old, 1)


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
