from dataclasses import replace
from datetime import timedelta

import pytest

from tests.core.terminal.snapshots import a_snapshot, an_object
from tgp.interfaces.terminal.snapshot import age, label
from tgp.interfaces.terminal.summary import DemoOutcome, ProviderBill, summary


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (179 * 60, "179m"),
        (180 * 60, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (8 * 3600 + 300, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
    ],
)
def test_ages_read_as_kubectl_writes_them(seconds, said):
    assert age(timedelta(seconds=seconds)) == said


def test_objects_are_named_in_two_words():
    assert label("GPUNodeClass", "standard") == "class standard"
    assert label("Pod", "ml/train-1") == "pod ml/train-1"


def test_the_last_words_say_what_ran_what_it_did_and_what_to_do_next():
    snapshot = a_snapshot(objects=(an_object(good=False), an_object("ml/other")), troubles=("nodes: busy",))
    outcome = DemoOutcome(timedelta(seconds=30), timedelta(minutes=30), "It is gone.", (("tgp observe", "look"),))

    assert summary(snapshot, outcome) == [
        "tgp demo: ended after 30s (30m in that world).",
        "  operator leads, reconciles 7",
        "  objects: 2, 1 with problems: pool ml/training (NodeClassNotFound); nodes: 1",
        "  ! nodes: busy",
        "It is gone.",
        "Next:",
        "  tgp observe  look",
    ]


def test_the_bill_is_told_by_provider():
    bills = (ProviderBill("simulated", 1_204_000, 3, 2), ProviderBill("vast", 4_000, 1, 1))
    outcome = DemoOutcome(timedelta(seconds=30), timedelta(seconds=30), "It is gone.", (), bills)

    assert summary(a_snapshot(), outcome)[3:7] == [
        "  bill: $1.21 of simulated money, 4 machines rented, 3 terminated",
        "    simulated  $1.20, 3 machines rented, 2 terminated",
        "    vast       $0.00, 1 machine rented, 1 terminated",
        "It is gone.",
    ]
    assert summary(a_snapshot(), replace(outcome, bills=()))[3] == "  bill: $0.00; no machine was rented"


def test_a_world_as_fast_as_ours_is_not_told_apart():
    outcome = DemoOutcome(timedelta(seconds=30), timedelta(seconds=30), "", ())

    assert summary(a_snapshot(), outcome)[0] == "tgp demo: ended after 30s."


def test_many_unhappy_objects_are_counted_not_listed():
    objects = tuple(an_object(f"ml/{number}", good=False) for number in range(5))

    assert "and 2 more" in summary(a_snapshot(objects=objects), DemoOutcome(timedelta(), timedelta(), "", ()))[2]
