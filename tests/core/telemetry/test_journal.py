"""One fact, three echoes: its log line, its metric and its Event say the same, and none says a secret."""

import logging
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import get_args, get_type_hints

import pytest

from tgp.adapters.telemetry.journal import LiveJournal
from tgp.adapters.telemetry.metrics import Metrics
from tgp.api.resource import GPU_NODE_CLASS, Resource
from tgp.core.model import facts
from tgp.core.model.facts import Fact, Subject
from tgp.core.model.key import Key

SUBJECT = Subject(GPU_NODE_CLASS, Key("", "cheap"), "uid-1")
LEASE = Key("tgp-system", "tgp-operator")

TURNED = "tgp_condition_changes_total"
READY = {"kind": "GPUNodeClass", "type": "Ready"}

# Fact, level of its line, its metric with labels and value, and its Event (warning, reason, message).
TABLE = [
    (facts.OperatorStarted("1.0", "me", "abc"), "INFO", ("tgp_build_info", {"version": "1.0"}, 1), None),
    (facts.OperatorStopped("me", "asked to"), "INFO", ("tgp_leader", {}, 0), None),
    (facts.LeadershipWon("me", "term"), "INFO", ("tgp_leader", {}, 1), None),
    (facts.LeadershipReleased("me"), "INFO", ("tgp_leader", {}, 0), None),
    (facts.LeadershipEnded("me", "late"), "WARNING", ("tgp_leader", {}, 0), None),
    (facts.LeaseTroubled(LEASE, "403"), "WARNING", ("tgp_lease_troubles_total", {}, 1), None),
    (facts.LeaseReached(LEASE), "INFO", None, None),
    (
        facts.ConditionChanged(SUBJECT, "Ready", "True", "Valid", "all is there", good=True),
        "INFO",
        (TURNED, {**READY, "status": "True", "reason": "Valid"}, 1),
        (False, "Valid", "all is there"),
    ),
    (
        facts.ConditionChanged(SUBJECT, "Ready", "False", "SecretMissing", "no Secret x", good=False),
        "WARNING",
        (TURNED, {**READY, "status": "False", "reason": "SecretMissing"}, 1),
        (True, "SecretMissing", "no Secret x"),
    ),
    (  # not knowing yet is no news to the owner
        facts.ConditionChanged(SUBJECT, "Ready", "Unknown", "NotTried", "nobody asked", good=True),
        "INFO",
        (TURNED, {**READY, "status": "Unknown", "reason": "NotTried"}, 1),
        None,
    ),
    (
        facts.TurnFailed("pools", Key("a", "b"), "pools-7", "KeyError", timedelta(seconds=2)),
        "ERROR",
        ("tgp_turn_failures_total", {"controller": "pools", "error": "KeyError"}, 1),
        None,
    ),
    (facts.WatchTroubled("Pod", "503"), "WARNING", ("tgp_watch_troubles_total", {"kind": "Pod"}, 1), None),
    (facts.WatchRecovered("Pod"), "INFO", None, None),
    (
        facts.ObjectUnreadable(SUBJECT, "Expected int"),
        "WARNING",
        ("tgp_unreadable_objects_total", {"kind": "GPUNodeClass"}, 1),
        (True, "Unreadable", "Expected int"),
    ),
    (facts.KeyAccepted("vast/keys/V#1a2b3c4d", "account-1"), "INFO", None, None),
    (
        facts.KeyWasRefused("vast/keys/V#1a2b3c4d", "Vast.ai says 401"),
        "WARNING",
        ("tgp_keys_refused_total", {"provider": "vast"}, 1),
        None,
    ),
    (
        facts.ProviderTroubled("simulated#1a2b3c4d", "CloudBusy", "no answer"),
        "WARNING",
        ("tgp_provider_troubles_total", {"provider": "simulated", "error": "CloudBusy"}, 1),
        None,
    ),
    (facts.ProviderRecovered("simulated"), "INFO", None, None),
]

SAID = (str, bool, Key, Subject, timedelta)  # what a fact may consist of: names and words, never a document


class Told:
    def __init__(self) -> None:
        self.events: list[tuple[Subject, bool, str, str]] = []

    def emit(self, subject: Subject, *, warning: bool, reason: str, message: str) -> None:
        self.events.append((subject, warning, reason, message))


@pytest.mark.parametrize(("fact", "level", "metric", "event"), TABLE, ids=lambda it: type(it).__name__)
def test_a_fact_has_its_echoes(caplog, fact, level, metric, event):
    told, metrics = Told(), Metrics()
    metrics.leader.set(1 if metric and metric[2] == 0 else 0)
    caplog.set_level(logging.DEBUG, "tgp")

    LiveJournal(told, metrics).note(fact)

    (line,) = caplog.records
    assert (line.levelname, line.getMessage()) == (level, type(fact).__name__)
    for row in fields(fact):
        assert str(getattr(fact, row.name)) == str(getattr(line, "text" if row.name == "message" else row.name))
    if metric is not None:
        name, labels, value = metric
        assert metrics.registry.get_sample_value(name, labels) == value
    assert told.events == ([] if event is None else [(SUBJECT, *event)])


def test_no_fact_is_left_out():
    """A new fact comes with a row here, or this fails."""
    assert {type(fact) for fact, *_ in TABLE} == set(get_args(Fact))


@pytest.mark.parametrize("kind", get_args(Fact))
def test_a_fact_consists_of_names_and_words(kind):
    """Nothing with a body passes: no object, no error, no bytes. And no name that the logging module needs itself."""
    reserved = vars(logging.makeLogRecord({})).keys() - {"message"}
    for name, hint in get_type_hints(kind).items():
        assert hint in SAID, f"{kind.__name__}.{name}"
        assert name not in reserved, f"{kind.__name__}.{name}"
        assert not any(word in name for word in ("token", "password", "secret", "credential")), name


def test_what_a_fact_is_about_is_named_and_not_shown():
    assert {row.name for row in fields(Subject)} == {"resource", "key", "uid"}
    assert is_dataclass(Resource)
    assert str(SUBJECT) == "gpunodeclass/cheap"
