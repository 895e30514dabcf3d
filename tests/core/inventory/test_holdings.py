"""The sentence on the operator's Namespace: every machine that may cost, once."""

from tests.core.controllers.account_access import a_record, an_attempt
from tgp.core.inventory.holdings import cost_words, holdings

ENDED = "2026-01-05T10:00:00Z"


def test_without_a_machine_there_is_no_sentence():
    assert holdings([a_record(1), a_record(2, an_attempt(2, endedAt=ENDED))], {}) == ""


def test_an_open_attempt_counts_before_any_provider_confirmed_it():
    assert holdings([a_record(1, an_attempt(1, hourlyPrice="1.4"))], {}) == "1 machine costs $1.40 an hour"


def test_machines_without_a_request_count_as_well():
    found = {"a": 500_000, "b": None}
    said = holdings([a_record(1, an_attempt(1, hourlyPrice="1.4"))], found)

    assert said == "3 machines cost $1.90 an hour, plus 1 of unknown price"


def test_a_restored_copy_has_no_machine_of_its_own():
    assert holdings([a_record(1, an_attempt(2))], {}) == ""


def test_one_price_that_is_unknown():
    assert cost_words([None]) == "1 machine costs $0.00 an hour, plus 1 of unknown price"
