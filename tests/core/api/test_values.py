"""The small languages inside our fields."""

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tgp.api import cel
from tgp.api.field_error import Invalid
from tgp.api.pattern import matches
from tgp.api.values import (
    NEVER,
    Version,
    duration,
    go_duration,
    is_rfc3339,
    microusd,
    rfc3339,
    span,
    talos_version,
    usd,
)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("2.0", 2_000_000), ("0", 0), ("0.35", 350_000), ("999999999.999999", 999_999_999_999_999), ("00.5", 500_000)],
)
def test_a_price_is_whole_micro_dollars(text, amount):
    assert microusd(text, "spec.maxHourlyPrice") == amount


@pytest.mark.parametrize("text", ["", "-1", "$2", "1e3", "2.", ".5", "0.1234567", "1,5", "2.0\n", "٢"])
def test_what_is_no_price_is_refused_with_its_field(text):
    with pytest.raises(Invalid, match=r"spec\.maxHourlyPrice: Invalid value: .*must be a price"):
        microusd(text, "spec.maxHourlyPrice")


@settings(deadline=None)  # the machine may be busy with other things
@given(st.integers(0, 10**14))
def test_an_amount_survives_being_written_and_read(amount):
    assert microusd(usd(amount), "x") == amount


def test_an_amount_is_written_with_at_least_two_decimals():
    assert [usd(2_000_000), usd(1), usd(1_500_000), usd(-250_000)] == ["2.00", "0.000001", "1.50", "-0.25"]


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("10m", timedelta(minutes=10)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        ("0s", timedelta()),
        ("250ms", timedelta(milliseconds=250)),
        ("1h0m0.5s", timedelta(hours=1, milliseconds=500)),
        ("3us", timedelta(microseconds=3)),
        ("999ns", timedelta()),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text, length):
    assert duration(text, "x") == length


@pytest.mark.parametrize("text", ["", "10", "1d", "-5m", "10 m", "h", "Never", "1h ", "1234567h"])
def test_what_is_no_duration_is_refused_with_its_field(text):
    with pytest.raises(Invalid, match=r"spec\.timeouts\.boot: .*such as 30s, 10m or 1h30m"):
        duration(text, "spec.timeouts.boot")


def test_a_text_of_many_durations_is_refused_unread():
    # Annotations of pods may have 256 KiB: to add up a hundred thousand parts takes seconds.
    assert duration("1h" * 64, "x") == timedelta(hours=64)
    with pytest.raises(Invalid):
        duration("1h" * 65, "x")


@settings(deadline=None)  # the machine may be busy with other things
@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=30_000)))
def test_a_duration_survives_being_written_and_read(length):
    assert duration(go_duration(length), "x") == length


def test_never_is_a_word_of_its_own():
    assert span("Never", "x") is NEVER
    assert span("2h", "x") == timedelta(hours=2)
    with pytest.raises(Invalid, match="or Never"):
        span("never", "x")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.10.5", Version(1, 10, 5)),
        ("1.13.0", Version(1, 13, 0)),
        ("ghcr.io/siderolabs/talos:v1.10.5", Version(1, 10, 5)),
        ("localhost:5000/talos:v1.14.0-rc.1", Version(1, 14, 0, final=False, pre="rc.1")),
        ("factory.talos.dev/installer/abc:v1.12.1@sha256:" + "a" * 64, Version(1, 12, 1)),
    ],
)
def test_a_talos_version_is_found_in_an_image(text, version):
    assert talos_version(text, "x") == version


@pytest.mark.parametrize(
    "text", ["", "latest", "talos", "talos:latest", "v1.10", "talos@sha256:" + "a" * 64, "v1.10.5 "]
)
def test_an_image_without_a_full_version_is_refused(text):
    with pytest.raises(Invalid, match=r"spec\.talosConfig\.image: .*must end in a full version"):
        talos_version(text, "spec.talosConfig.image")


def test_a_pre_release_comes_before_its_release():
    assert talos_version("v1.14.0-rc.1", "x") < talos_version("v1.14.0", "x") < talos_version("v1.14.1", "x")


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("2026-01-02T03:04:05Z", True),
        ("2026-01-02T03:04:05.123456789Z", True),
        ("2026-01-02T03:04:05+01:00", True),
        ("2026-13-02T03:04:05Z", False),
        ("2026-01-02 03:04:05Z", False),
        ("2026-01-02", False),
        ("", False),
    ],
)
def test_a_moment_is_told_from_other_text(text, is_one):
    assert is_rfc3339(text) is is_one


def test_a_moment_is_written_as_kubernetes_writes_it():
    assert rfc3339(datetime(2026, 1, 2, 3, 4, 5, 999, tzinfo=UTC)) == "2026-01-02T03:04:05Z"


@settings(deadline=None)  # the machine may be busy with other things
@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)), st.integers(0, 140))
def test_the_pattern_for_networks_takes_exactly_what_is_one(address, prefix):
    """A regular expression and the standard library's parser agree."""
    text = f"{address}/{prefix}"
    try:
        ipaddress.ip_interface(text)
        is_one = True
    except ValueError:
        is_one = False

    assert matches(text, cel.CIDR_PATTERN) is is_one


@settings(deadline=None)  # the machine may be busy with other things
@given(st.text(alphabet="0123456789abcdefABCDEF:./", max_size=24))
def test_no_text_passes_for_a_network_that_is_none(text):
    if matches(text, cel.CIDR_PATTERN):
        ipaddress.ip_interface(text)
