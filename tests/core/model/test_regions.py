"""Regions of providers' locations, and whether a machine is in a requested region."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tgp.core.model.offer import UNKNOWN_REGION
from tgp.core.model.regions import atlas, country_of, known_region, nearest_regions, region_fits, region_of


@pytest.mark.parametrize(
    ("provider", "place", "region", "country"),
    [
        ("runpod", "US-CA-2", "us-west", "US"),
        ("runpod", "US-TX-3", "us-central", "US"),
        ("runpod", "US-GA-1", "us-east", "US"),
        ("runpod", "CA-MTL-1", "ca", "CA"),
        ("runpod", "EUR-IS-3", "eu-north", "IS"),
        ("runpod", "EU-RO-1", "eu-central", "RO"),
        ("runpod", "AP-JP-1", "ap-northeast", "JP"),
        ("runpod", "US-FL-1", "us-east", "US"),  # not in the table: read by its shape
        ("runpod", "EU-DE-2", "eu-central", "DE"),
        ("runpod", "US-XX-1", UNKNOWN_REGION, "US"),
        ("runpod", "US", UNKNOWN_REGION, "US"),  # its community cloud tells countries only
        ("runpod", "SE", "eu-north", "SE"),
        ("lambdalabs", "us-west-3", "us-west", "US"),
        ("lambdalabs", "us-south-1", "us-central", "US"),
        ("lambdalabs", "us-midwest-1", "us-central", "US"),
        ("lambdalabs", "europe-central-1", "eu-central", "DE"),
        ("lambdalabs", "me-west-1", "me", "IL"),
        ("paperspace", "East Coast (NY2)", "us-east", "US"),
        ("paperspace", "AMS1", "eu-west", "NL"),
        ("vultr", "ewr", "us-east", "US"),
        ("vultr", "jnb", "africa", "ZA"),
        ("gcp", "us-central1-a", "us-central", "US"),
        ("gcp", "europe-west4", "eu-west", "NL"),
        ("gcp", "europe-west3-c", "eu-central", "DE"),
        ("vast", "Oregon, US", "us-west", "US"),
        ("vast", "Oregon, US, NA", "us-west", "US"),
        ("vast", "TX, US", "us-central", "US"),
        ("vast", ", US", UNKNOWN_REGION, "US"),
        ("vast", "Quebec, CA", "ca", "CA"),
        ("vast", "Sweden, SE", "eu-north", "SE"),
        ("vast", ", RU", UNKNOWN_REGION, "RU"),
        ("vast", "", UNKNOWN_REGION, ""),
        ("webhook", "eu-west", "eu-west", ""),
        ("webhook", "the cellar", UNKNOWN_REGION, ""),
        ("absent", "us-west-1", UNKNOWN_REGION, ""),
    ],
)
def test_a_place_lies_in_a_region_and_a_country(provider, place, region, country):
    assert region_of(provider, place) == region
    assert country_of(provider, place) == country


def test_what_is_told_beside_the_place_helps_where_the_place_does_not():
    assert region_of("vultr", "xyz", country="JP") == "ap-northeast"
    assert region_of("vast", "", country="US", state="Ohio") == "us-east"
    assert region_of("vast", "", country="us", state="wa") == "us-west"
    assert region_of("vast", "", country="US", state="Atlantis") == UNKNOWN_REGION


@pytest.mark.parametrize(
    ("wanted", "region", "place", "country", "fits"),
    [
        ("us-west", "us-west", "US-CA-2", "US", True),
        ("us-west", "us-east", "US-GA-1", "US", False),
        ("US-CA-2", "us-west", "US-CA-2", "US", True),
        ("us-ca-2", "us-west", "US-CA-2", "US", True),
        ("US-CA", "us-west", "US-CA-2", "US", True),
        ("US-CA-1", "us-west", "US-CA-12", "US", False),
        ("us-central1", "us-central", "us-central1-a", "US", True),
        ("us-central1-a", "us-central", "us-central1", "US", False),
        ("europe-west1", "eu-central", "europe-west10-a", "DE", False),
        ("NY2", "us-east", "East Coast (NY2)", "US", True),
        ("US", UNKNOWN_REGION, ", US", "US", True),
        ("us", UNKNOWN_REGION, ", US", "US", True),
        ("us-west", UNKNOWN_REGION, ", US", "US", False),  # it may lie anywhere in the country
        ("sa", "sa", "sao", "BR", True),
        ("SA", "sa", "sao", "BR", False),  # in capitals: Saudi Arabia
        ("SA", "me", "me-central2-a", "SA", True),
        ("me", "eu-south", "Podgorica", "ME", False),
        ("unknown", UNKNOWN_REGION, "", "", False),
        ("", UNKNOWN_REGION, "", "", False),
    ],
)
def test_a_machine_is_in_a_requested_region(wanted, region, place, country, fits):
    assert region_fits(wanted, region, place, country) is fits


def test_every_listed_place_fits_its_own_region_country_and_name():
    for (provider, place), (region, country) in atlas().places.items():
        assert region_of(provider, place) == region
        assert region_fits(region, region, place, country)
        assert region_fits(place, region, place, country)
        assert not country or region_fits(country, region, place, country)


def test_every_state_of_the_usa_has_a_region():
    codes = [name for name in atlas().states if len(name) == 2]

    assert len(codes) == 51  # with the District of Columbia


@settings(deadline=None)  # a busy machine is no finding
@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=4), st.text(max_size=20))
def test_any_place_at_all_is_answered(provider, place, country, state):
    region = region_of(provider, place, country=country, state=state)

    assert region in (*atlas().regions, UNKNOWN_REGION)
    assert len(country_of(provider, place)) in {0, 2}


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("us-west", True),
        ("us", True),
        ("DE", True),
        ("ewr", True),
        ("us-central1-a", True),
        ("us-wset", False),
        ("mars", False),
    ],
)
def test_a_region_is_ours_a_country_or_a_place_of_some_provider(name, known):
    assert known_region(name) is known


def test_the_nearest_names_of_a_region_are_told():
    assert nearest_regions("us-wset")[0] == "us-west"
    assert nearest_regions("nevada-9", ["nevada-8"]) == ("nevada-8",)
