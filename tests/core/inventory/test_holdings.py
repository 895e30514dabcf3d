"""The sentence on the operator's Namespace: every machine that may cost, once."""

import pytest

from tests.core.controllers.account_access import a_record, an_attempt
from tgp.core.inventory.holdings import ABANDON, COPIED, HOLDINGS, class_changes, cost_words, holdings
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey

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


SENTENCE = "1 machine costs $1.40 an hour"


@pytest.mark.parametrize(
    ("home", "here", "words", "changes"),
    [
        ({}, {}, "", None),
        ({}, {}, SENTENCE, {HOLDINGS: SENTENCE}),
        ({}, {HOLDINGS: SENTENCE}, SENTENCE, None),
        ({}, {HOLDINGS: SENTENCE}, "", {HOLDINGS: None}),
        ({ABANDON: "true"}, {}, SENTENCE, {HOLDINGS: SENTENCE, ABANDON: COPIED}),
        ({ABANDON: "true"}, {HOLDINGS: SENTENCE, ABANDON: "by hand"}, SENTENCE, None),
        ({}, {HOLDINGS: SENTENCE, ABANDON: COPIED}, SENTENCE, {ABANDON: None}),
        ({}, {HOLDINGS: SENTENCE, ABANDON: "by hand"}, SENTENCE, None),
    ],
)
def test_a_class_says_what_the_namespace_says(home, here, words, changes):
    """Whatever its own machines are: an order of unknown outcome has no class that counts it."""
    record = KubeObject(key=ObjectKey("", "gpus"), annotations=here)

    assert [change for _, change in class_changes(home, [record], words)] == ([] if changes is None else [changes])
