"""What is done about the certificate of the HTTPS side, for every state of its Secret and of the clock."""

from datetime import UTC, datetime, timedelta

import pytest

from tgp.adapters.http.issue import issue
from tgp.adapters.http.tls import BadCertificate, ServingContext
from tgp.core.access.certificate import (
    AUTHORITY,
    AUTHORITY_KEY,
    AUTHORITY_LIFE,
    CERTIFICATE,
    KEY,
    LEAF_LIFE,
    CertificateStep,
    Issue,
    StoredCertificate,
    certificate_step,
    service_names,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = service_names("tgp-system")
SECRET = "tgp-system/tgp-operator-tls"


class Counting:
    """Entropy: another number each time."""

    def __init__(self) -> None:
        self._count = 0

    def token(self, size: int) -> bytes:
        self._count += 1
        return self._count.to_bytes(size, "big")

    def jitter(self) -> float:
        return 0.0


ENTROPY = Counting()
MADE = issue(Issue.EVERYTHING, {}, NAMES, NOW, ENTROPY)
OTHER = issue(Issue.EVERYTHING, {}, NAMES, NOW, ENTROPY)


def decided(data=MADE, *, now: datetime = NOW, ours: bool = True, may_be_ours: bool = True) -> CertificateStep:
    found = None if data is None else StoredCertificate(data, ours)
    return certificate_step(found, SECRET, NAMES, now, may_be_ours=may_be_ours)


def test_without_a_secret_everything_is_made():
    assert decided(None).issue is Issue.EVERYTHING


def test_a_fresh_certificate_is_served_and_nothing_is_written():
    step = decided()

    assert (step.issue, step.why) == (Issue.NOTHING, "")
    assert step.serve is not None
    assert step.serve.certificate == MADE[CERTIFICATE]
    assert step.authority == MADE[AUTHORITY]
    assert MADE[KEY].decode() not in repr(step)


@pytest.mark.parametrize(
    ("age", "wanted"),
    [
        (LEAF_LIFE * 2 / 3 - timedelta(hours=2), Issue.NOTHING),
        (LEAF_LIFE * 2 / 3, Issue.LEAF),
        (LEAF_LIFE + timedelta(days=1), Issue.LEAF),
        (timedelta(days=365), Issue.LEAF),  # a clock a year ahead
        (timedelta(days=-365), Issue.AUTHORITY),  # a year back: nothing that was made is valid yet
        (AUTHORITY_LIFE * 2 / 3, Issue.AUTHORITY),
        (AUTHORITY_LIFE + timedelta(days=1), Issue.AUTHORITY),
    ],
)
def test_it_is_renewed_after_two_thirds_of_its_life_and_when_the_clock_is_outside_of_it(age, wanted):
    assert decided(now=NOW + age).issue is wanted


@pytest.mark.parametrize("days", [61, 365, -365, 2500, 4000])
def test_what_is_made_then_is_kept_and_clients_of_the_former_authority_still_trust_it(days):
    """Its key stays: no scraper has to read the ConfigMap first."""
    now = NOW + timedelta(days=days)
    step = decided(now=now)
    made = issue(step.issue, MADE, NAMES, now, ENTROPY)

    assert decided(made, now=now).issue is Issue.NOTHING
    assert made[AUTHORITY_KEY] == MADE[AUTHORITY_KEY]
    assert made[KEY] != MADE[KEY]
    if step.issue is Issue.LEAF:
        assert made[AUTHORITY] == MADE[AUTHORITY]


def test_an_expired_certificate_of_ours_is_served_until_the_new_one_is_written():
    assert decided(now=NOW + LEAF_LIFE * 2).serve is not None


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({CERTIFICATE: b""}, Issue.LEAF),
        ({CERTIFICATE: b"no certificate"}, Issue.LEAF),
        ({CERTIFICATE: b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}, Issue.LEAF),
        ({KEY: b"\xff\xfe"}, Issue.LEAF),
        ({KEY: OTHER[KEY]}, Issue.LEAF),
        ({CERTIFICATE: OTHER[CERTIFICATE], KEY: OTHER[KEY]}, Issue.LEAF),
        ({AUTHORITY: b""}, Issue.EVERYTHING),
        ({AUTHORITY: b"x" * (1 << 20)}, Issue.EVERYTHING),
        ({AUTHORITY_KEY: b"no key"}, Issue.EVERYTHING),
        ({AUTHORITY_KEY: OTHER[KEY]}, Issue.EVERYTHING),
    ],
)
def test_what_of_ours_cannot_be_read_is_made_again_and_no_more_than_that(change, wanted):
    broken = {**MADE, **change}
    step = decided(broken)

    assert step.issue is wanted
    assert SECRET in step.why
    assert decided(issue(step.issue, broken, NAMES, NOW, ENTROPY)).issue is Issue.NOTHING


def test_a_certificate_for_another_namespace_is_replaced():
    elsewhere = issue(Issue.EVERYTHING, {}, service_names("elsewhere"), NOW, ENTROPY)

    assert decided(elsewhere).issue is Issue.LEAF


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "does not exist"),
        ({}, "tls.crt is missing"),
        ({**MADE, KEY: OTHER[KEY]}, "tls.key is not the key of tls.crt"),
        ({**MADE, CERTIFICATE: b"x"}, "tls.crt is not a certificate"),
    ],
)
def test_a_secret_of_yours_is_never_written_and_what_is_wrong_is_said_with_a_command(data, said):
    step = decided(data, ours=False, may_be_ours=False)

    assert (step.issue, step.serve) == (Issue.NOTHING, None)
    assert said in step.why
    assert "kubectl -n tgp-system create secret tls tgp-operator-tls" in step.why


def test_a_secret_without_our_label_is_yours_also_under_our_name():
    expired = decided(ours=False, now=NOW + timedelta(days=100))

    assert decided(ours=False).serve is not None
    assert decided(ours=False).why == ""
    assert expired.issue is Issue.NOTHING
    assert "expired at 2026-05-30 00:00 UTC" in expired.why
    assert "valid from" in decided(ours=False, now=NOW - timedelta(days=365)).why
    assert "ca.crt is not a certificate" in decided({**MADE, AUTHORITY: b"x"}, ours=False).why
    assert decided({CERTIFICATE: MADE[CERTIFICATE], KEY: MADE[KEY]}, ours=False).why == ""


def test_a_label_of_ours_on_a_secret_that_the_settings_name_gives_no_right_to_write_it():
    assert decided(now=NOW + timedelta(days=100), may_be_ours=False).issue is Issue.NOTHING


def test_a_pair_that_openssl_refuses_leaves_the_former_one_in_use():
    served = ServingContext()
    served.load(MADE[CERTIFICATE], MADE[KEY])
    with pytest.raises(BadCertificate):
        served.load(OTHER[CERTIFICATE], MADE[KEY])
    served.load(OTHER[CERTIFICATE], OTHER[KEY])
