"""Regions: tgp's name for a provider's location. The provider's own name is kept beside it and used in orders.

An unlisted location is in region `unknown`: such an offer matches only a query that has no rule for regions, names
the location itself, or names its country. The table is a dated data file, read and checked at first use.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache, lru_cache
from types import MappingProxyType

import msgspec

from tgp.core.data.loading import Table, load
from tgp.core.model.offer import UNKNOWN_REGION

UNITED_STATES = "US"  # lies in several regions, by its states
NEAREST_SHOWN = 3  # more is a list, not a hint
LONGEST_PLACE = 128  # characters; longer names are not looked up
CONTINENTS = ("AF", "AS", "EU", "NA", "OC", "SA")  # the third part of some places: "Oregon, US, NA"
_WITHIN = re.compile(r"-[0-9a-z]{1,2}")  # a zone in its region, a data centre in its state: us-central1-a, US-CA-2
_COMPASS = re.compile(r"[A-Z]{2,3}-([A-Z]{2})(-\d+)?")  # US-FL-1, EU-DE-2: a data centre that is not in the table yet
_BRACKETED = re.compile(r"\(([^()]+)\)\s*$")  # "East Coast (NY2)" is called NY2 too


class Atlas(msgspec.Struct, frozen=True):
    """The whole table, indexed by plain names."""

    regions: tuple[str, ...]  # ours, without `unknown`
    countries: Mapping[str, str]  # ISO code → region
    states: Mapping[str, str]  # code or plain name of a state of the USA → region
    places: Mapping[tuple[str, str], tuple[str, str]]  # (provider, plain place) → (region, country or "")
    trims: Mapping[str, re.Pattern[str]]
    dated: str


PLACES_REMEMBERED = 4_096  # listings repeat themselves every two minutes


@cache
def atlas() -> Atlas:
    """The table that ships with the package."""
    return read(load("regions.toml"))


@lru_cache(PLACES_REMEMBERED)
def region_of(provider: str, place: str, *, country: str = "", state: str = "") -> str:
    """The region of a provider's location, in tgp's names; `unknown` where it cannot be decided.

    `country` (ISO, two letters) and `state` (of the USA, code or name) help where the provider reports them apart from
    the location. A location may be free text that ends in a country: "Oregon, US".
    """
    listed = _listed(provider, place)
    if listed is not None:
        return listed[0]
    told_state, told_country = _parted(place)
    return _by_country(country or told_country, state or told_state) or _own_word(place)


def country_of(provider: str, place: str) -> str:
    """The ISO code of the country of a provider's location; empty where it cannot be decided."""
    listed = _listed(provider, place)
    return listed[1] if listed is not None else _parted(place)[1]


def region_fits(wanted: str, offer_region: str, place: str, country: str) -> bool:
    """Is a machine in a requested region? By tgp's region, by the provider's own name, or by country.

    `SA` and `ME` in capitals are countries; `sa` and `me` are regions. `unknown` is no region that can be requested.
    """
    if wanted in atlas().regions:
        return wanted == offer_region or _is_place(wanted, place)
    return wanted.upper() == country.upper() != "" or _is_place(wanted, place)


def known_region(name: str) -> bool:
    """Is it one of tgp's regions, a country, or a provider's location in the table?"""
    table = atlas()
    providers = {provider for provider, _ in table.places}
    placed = any(region_of(provider, name) != UNKNOWN_REGION for provider in providers)
    return placed or name in table.regions or name.upper() in {*table.countries, UNITED_STATES}


def nearest_regions(name: str, others: Iterable[str] = ()) -> tuple[str, ...]:
    """Names that look like this one, the most alike first; `others` besides those of the table."""
    names = {*atlas().regions, *(place for _, place in atlas().places), *others}
    return tuple(get_close_matches(name.lower(), sorted(names), n=NEAREST_SHOWN))


def read(table: Table) -> Atlas:
    """The atlas a data file describes; `BadTable` names the invalid entry."""
    table.only("regions", "countries", "states", "places", "trim")
    regions = table.top("regions")
    if not regions or UNKNOWN_REGION in regions:
        raise table.bad("regions", f"must have at least one region, and must not contain {UNKNOWN_REGION}")
    return Atlas(
        regions,
        MappingProxyType(_countries(table, regions)),
        MappingProxyType(_states(table, regions)),
        MappingProxyType(_places(table, regions)),
        MappingProxyType(_trims(table)),
        table.dated.isoformat(),
    )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _listed(provider: str, place: str) -> tuple[str, str] | None:
    if len(place) > LONGEST_PLACE:
        return None
    table = atlas()
    name = _plain(place)
    trim = table.trims.get(provider)
    trimmed = trim.sub("", name) if trim else name
    return table.places.get((provider, name)) or table.places.get((provider, trimmed))


def _parted(place: str) -> tuple[str, str]:
    """State and country of a location in free text: "Oregon, US", ", US", "US", "Oregon, US, NA", US-FL-1."""
    if compass := _COMPASS.fullmatch(place):
        return (compass[1], "US") if place.startswith("US-") else ("", compass[1])
    parts = [part.strip() for part in place[:LONGEST_PLACE].split(",")]
    if len(parts) > 2 and parts[-1] in CONTINENTS:
        parts.pop()
    last = parts[-1]
    if not (len(last) == 2 and last.isascii() and last.isalpha() and last.isupper()):
        return "", ""
    return (parts[-2] if len(parts) > 1 else ""), last


def _by_country(country: str, state: str) -> str:
    table = atlas()
    code = country.upper()
    if code == "US":
        return table.states.get(_plain(state), "")
    return table.countries.get(code, "")


def _own_word(place: str) -> str:
    """A location named like one of tgp's regions, as users name those of owned machines."""
    name = _plain(place)
    return name if name in atlas().regions else UNKNOWN_REGION


def _is_place(wanted: str, place: str) -> bool:
    asked, stands = _plain(wanted), _plain(place)
    if not asked or not stands:
        return False
    if stands.startswith(asked) and (asked == stands or _WITHIN.fullmatch(stands, len(asked))):
        return True
    bracketed = _BRACKETED.search(stands)
    return bracketed is not None and bracketed[1] == asked


def _region(table: Table, region: object, regions: tuple[str, ...], entry: str) -> str:
    if not isinstance(region, str) or region not in regions:
        raise table.bad(entry, f"{region} is not one of our regions")
    return region


def _countries(table: Table, regions: tuple[str, ...]) -> dict[str, str]:
    countries = {}
    for code, region in table.section("countries").items():
        if not _is_country(code):
            raise table.bad(f"countries {code}", "must be a code of two capitals")
        countries[code] = _region(table, region, regions, f"countries {code}")
    return countries


def _is_country(code: str) -> bool:
    return len(code) == 2 and code.isascii() and code.isalpha() and code.isupper()


def _states(table: Table, regions: tuple[str, ...]) -> dict[str, str]:
    states: dict[str, str] = {}
    for region in table.section("states"):
        _region(table, region, regions, f"states.{region}")
        section = table.section("states", region)
        for code in section:
            name = table.text(section, code, f"states.{region} {code}")
            for each in (_plain(code), _plain(name)):
                if each in states:
                    raise table.bad(f"states.{region} {code}", f"{each} is already listed in {states[each]}")
                states[each] = region
    return states


def _places(table: Table, regions: tuple[str, ...]) -> dict[tuple[str, str], tuple[str, str]]:
    places: dict[tuple[str, str], tuple[str, str]] = {}
    for provider in table.section("places"):
        for place, listed in table.section("places", provider).items():
            entry = f"places.{provider} {place}"
            if not isinstance(listed, list) or len(listed) != 2 or not all(isinstance(each, str) for each in listed):
                raise table.bad(entry, "must be a region and a country, which may be empty")
            region, country = _region(table, listed[0], regions, entry), listed[1]
            if country and not _is_country(country):
                raise table.bad(entry, f"{country} is not a code of two capitals")
            if (provider, _plain(place)) in places:
                raise table.bad(entry, "is listed twice")
            places[provider, _plain(place)] = (region, country)
    return places


def _trims(table: Table) -> dict[str, re.Pattern[str]]:
    trims: dict[str, re.Pattern[str]] = {}
    section = table.section("trim")
    for provider in section:
        try:
            trims[provider] = re.compile(table.text(section, provider, "trim"))
        except re.error as error:
            raise table.bad(f"trim {provider}", f"is not a valid pattern: {error}") from error
    return trims
