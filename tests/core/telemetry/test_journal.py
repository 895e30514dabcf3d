"""Each fact has a log line, a metric and an Event that say the same, and none shows a secret."""

import logging
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from math import isnan
from typing import get_args, get_type_hints

import pytest

from tgp.adapters.telemetry.journal import BY_OTHERS, QUICK_PLANS, LiveJournal
from tgp.adapters.telemetry.metrics import Metrics
from tgp.api.request import ChosenOffer
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, POD, Resource
from tgp.core.model import facts
from tgp.core.model.facts import Fact, FactSubject, offer_words
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import read_token, token_for

SUBJECT = FactSubject(GPU_NODE_CLASS, ObjectKey("", "cheap"), "uid-1")
TRAIN = FactSubject(GPU_REQUEST, ObjectKey("team-a", "train-7"), "uid-2")
POD_SUBJECT = FactSubject(POD, ObjectKey("team-a", "trainer-0"), "uid-3")
TITLES = {"vast": "Vast.ai"}
TOKEN = token_for("0123456789", "0b5f0a3e-2f5c-4c0e-9e35-3d1a6f0c2b11", 1)
ACCESS = "vast/keys/V#1a2b3c4d"
OFFER = "1x RTX4090 in us-west"
VAST = {"provider": "vast"}
AFTER = timedelta(minutes=3, seconds=20.4)
LEASE = ObjectKey("tgp-system", "tgp-operator")

TURNED = "tgp_condition_changes_total"
READY = {"kind": "GPUNodeClass", "type": "Ready"}

# Fact, level of its line, its metric with labels and value, and its Event (warning, reason, message).
TABLE = [
    (facts.OperatorStarted("1.0", "me", "abc"), "INFO", ("tgp_build_info", {"version": "1.0"}, 1), None),
    (facts.KindsInstalled("gpurequests.tgp.io"), "INFO", None, None),
    (facts.StartNotChecked("no answer"), "INFO", None, None),
    (facts.RightsMissing("me", "list pods", "kubectl apply -f x"), "WARNING", None, None),
    (facts.OperatorStopped("me", "asked to"), "INFO", ("tgp_leader", {}, 0), None),
    (facts.LeadershipWon("me", "term"), "INFO", ("tgp_leader", {}, 1), None),
    (facts.LeadershipReleased("me"), "INFO", ("tgp_leader", {}, 0), None),
    (facts.LeadershipEnded("me", "late"), "WARNING", ("tgp_leader", {}, 0), None),
    (facts.LeaseFailing(LEASE, "403"), "WARNING", ("tgp_lease_errors_total", {}, 1), None),
    (facts.LeaseReached(LEASE), "INFO", None, None),
    (facts.KindsOutdated("CRD x lacks y"), "WARNING", None, None),
    (facts.CertificateIssued("tgp-system/x", "leaf", "it ends"), "INFO", None, None),
    (facts.CertificateServed("tgp-system/x", datetime(2026, 3, 1, tzinfo=UTC)), "INFO", None, None),
    (facts.CertificateUnusable("tgp-system/x", "tls.crt is missing"), "WARNING", None, None),
    (facts.AuthorityNotPublished("tgp-system/y", "it is full"), "WARNING", None, None),
    (facts.KindsUpToDate(), "INFO", None, None),
    (facts.KeyRotated(ACCESS, "key:before", "key:now"), "INFO", None, None),
    (
        facts.ConditionChanged(SUBJECT, "Ready", "True", "Valid", "all is there", good=True),
        "INFO",
        (TURNED, {**READY, "status": "True", "reason": "Valid"}, 1),
        (False, "Valid", "All is there."),
    ),
    (
        facts.ConditionChanged(SUBJECT, "Ready", "False", "SecretMissing", "no Secret x", good=False),
        "WARNING",
        (TURNED, {**READY, "status": "False", "reason": "SecretMissing"}, 1),
        (True, "SecretMissing", "No Secret x."),
    ),
    (  # not knowing yet is no news to the owner
        facts.ConditionChanged(SUBJECT, "Ready", "Unknown", "NotTried", "no caller waited", good=True),
        "INFO",
        (TURNED, {**READY, "status": "Unknown", "reason": "NotTried"}, 1),
        None,
    ),
    (
        facts.ReconcileFailed("pools", ObjectKey("a", "b"), "pools-7", "KeyError", timedelta(seconds=2)),
        "ERROR",
        ("tgp_reconcile_exceptions_total", {"controller": "pools", "error": "KeyError"}, 1),
        None,
    ),
    (facts.WatchFailing("Pod", "503"), "WARNING", ("tgp_watch_errors_total", {"kind": "Pod"}, 1), None),
    (facts.WatchRecovered("Pod"), "INFO", None, None),
    (
        facts.ObjectUnreadable(SUBJECT, "Expected int"),
        "WARNING",
        ("tgp_unreadable_objects_total", {"kind": "GPUNodeClass"}, 1),
        (True, "Unreadable", "Expected int."),
    ),
    (facts.KeyAccepted("vast/keys/V#1a2b3c4d", "account-1"), "INFO", None, None),
    (
        facts.KeyWasRefused("vast/keys/V#1a2b3c4d", "Vast.ai says 401"),
        "WARNING",
        ("tgp_keys_refused_total", {"provider": "vast"}, 1),
        None,
    ),
    (
        facts.ProviderFailing("simulated#1a2b3c4d", "CloudBusy", "no answer"),
        "WARNING",
        ("tgp_provider_errors_total", {"provider": "simulated", "error": "CloudBusy"}, 1),
        None,
    ),
    (facts.ProviderRecovered("simulated"), "INFO", None, None),
    (
        facts.JoinApproved(TRAIN, "gpu-1", "node-csr-a"),
        "INFO",
        ("tgp_joins_total", {"answer": "Approved"}, 1),
        (False, "JoinApproved", "Node gpu-1 may join: certificate request node-csr-a was approved."),
    ),
    (
        facts.JoinDenied(TRAIN, "node-csr-b", "TokenUsed", "already used"),
        "WARNING",
        ("tgp_joins_total", {"answer": "TokenUsed"}, 1),
        (True, "JoinDenied", "Certificate request node-csr-b was denied (TokenUsed): already used."),
    ),
    (
        facts.JoinApprovedByOthers(SUBJECT, "AutoApproved"),
        "WARNING",
        ("tgp_joins_total", {"answer": "ApprovedByOthers"}, 1),
        (True, "ApprovedByOthers", BY_OTHERS),
    ),
    (
        facts.MachineOrdered(TRAIN, "vast", OFFER, 410_000, TOKEN, 1),
        "INFO",
        ("tgp_orders_total", VAST, 1),
        (False, "Ordering", "Ordering 1x RTX4090 in us-west from Vast.ai at $0.41/h (attempt 1)."),
    ),
    (
        facts.MachineLaunched(TRAIN, "vast", OFFER, 410_123, "4711", 2, timedelta(seconds=4)),
        "INFO",
        ("tgp_launches_total", VAST | {"outcome": "Launched"}, 1),
        (
            False,
            "MachineLaunched",
            "Machine 4711 was launched: 1x RTX4090 in us-west from Vast.ai at $0.41/h (attempt 2).",
        ),
    ),
    (
        facts.MachineReadopted(TRAIN, "vast", OFFER, 410_000, "4711", 2),
        "WARNING",
        ("tgp_machines_readopted_total", VAST, 1),
        (
            True,
            "Readopted",
            (
                "Machine 4711 was found by its token after the status was lost and is recorded again: "
                "1x RTX4090 in us-west from Vast.ai at $0.41/h (attempt 2)."
            ),
        ),
    ),
    (
        facts.LaunchFailed(TRAIN, "vast", OFFER, "SoldOut", "the offer is gone"),
        "INFO",
        ("tgp_launches_total", VAST | {"outcome": "SoldOut"}, 1),
        (True, "LaunchFailed", "Launch of 1x RTX4090 in us-west from Vast.ai failed (SoldOut): the offer is gone."),
    ),
    (
        facts.LaunchFailed(TRAIN, "vast", OFFER, "Unknown", "no answer"),
        "WARNING",
        ("tgp_launches_total", VAST | {"outcome": "Unknown"}, 1),
        (
            True,
            "LaunchUnknown",
            (
                "Launch of 1x RTX4090 in us-west from Vast.ai has an unknown outcome; "
                "the machine is searched for by its token: no answer."
            ),
        ),
    ),
    (
        facts.NodeRegistered(TRAIN, "vast", "gpu-1", AFTER),
        "INFO",
        ("tgp_phase_seconds_sum", VAST | {"phase": "registered"}, 200.4),
        (False, "Registered", "Node gpu-1 registered 3m20s after the order."),
    ),
    (
        facts.MeshJoined(TRAIN, "gpu-1.tail.ts.net is 100.64.0.7 in the tailnet", AFTER),
        "INFO",
        None,
        (False, "Connected", "gpu-1.tail.ts.net is 100.64.0.7 in the tailnet, 3m20s after the order."),
    ),
    (
        facts.NodeInitialized(TRAIN, "vast", "gpu-1", AFTER),
        "INFO",
        ("tgp_phase_seconds_count", VAST | {"phase": "initialized"}, 1),
        (False, "Initialized", "Node gpu-1 shows its GPUs, 3m20s after the order."),
    ),
    (  # the wall clock was set back
        facts.MachineReady(TRAIN, "vast", "gpu-1", -AFTER),
        "INFO",
        ("tgp_phase_seconds_sum", VAST | {"phase": "ready"}, 0),
        (False, "Ready", "Node gpu-1 is ready, 0s after the order."),
    ),
    (
        facts.MachineTerminating(TRAIN, "vast", "Idle", "No pod has used the GPUs since 12:00:00Z"),
        "INFO",
        ("tgp_terminations_total", VAST | {"reason": "Idle"}, 1),
        (False, "Idle", "No pod has used the GPUs since 12:00:00Z. Terminating the machine."),
    ),
    (
        facts.MachineTerminating(TRAIN, "vast", "NeverJoined", "No Node registered by 12:00:00Z"),
        "INFO",
        ("tgp_terminations_total", VAST | {"reason": "NeverJoined"}, 1),
        (True, "NeverJoined", "No Node registered by 12:00:00Z. Terminating the machine."),
    ),
    (  # a command is copied: no sentence follows it
        facts.MachineTerminating(TRAIN, "vast", "NodeLost", "the taint is foreign. Try: kubectl taint node a b-"),
        "INFO",
        ("tgp_terminations_total", VAST | {"reason": "NodeLost"}, 1),
        (True, "NodeLost", "Terminating the machine. The taint is foreign. Try: kubectl taint node a b-"),
    ),
    (
        facts.MachineTerminated(TRAIN, "cheap", "team-a/trainers", "vast", "4711", 1_230_000, "Idle"),
        "INFO",
        ("tgp_terminated_dollars_total", VAST | {"class": "cheap", "pool": "team-a/trainers"}, 1.23),
        (False, "MachineTerminated", "Machine 4711 at Vast.ai was terminated; cost $1.23 (Idle)."),
    ),
    (
        facts.MachineLost(TRAIN, "vast", "4711", "outbid"),
        "WARNING",
        ("tgp_lost_total", VAST, 1),
        (True, "Lost", "Machine 4711 at Vast.ai was lost: outbid."),
    ),
    (
        facts.LimitReached(TRAIN, "cheap", "limits.maxNodes is 2, and 2 are in use"),
        "INFO",
        ("tgp_limit_reached_total", {"class": "cheap"}, 1),
        (True, "LimitReached", "Class cheap: limits.maxNodes is 2, and 2 are in use."),
    ),
    (
        facts.ExpiresSoon(TRAIN, datetime(2026, 11, 16, 12, tzinfo=UTC)),
        "INFO",
        None,
        (
            True,
            "ExpiresSoon",
            "Machine will be terminated at 2026-11-16T12:00:00Z. To keep the machine longer, raise spec.maxLifetime.",
        ),
    ),
    (
        facts.DrainBlocked(TRAIN, "pod team-a/notebook"),
        "INFO",
        ("tgp_drains_blocked_total", {}, 1),
        (False, "DrainBlocked", "Termination waits for pod team-a/notebook."),
    ),
    (
        facts.TerminationFailing(TRAIN, "vast", "4711", 3, "Vast.ai says 500", 410_000),
        "WARNING",
        ("tgp_termination_errors_total", VAST, 1),
        (
            True,
            "TerminationFailing",
            "Machine 4711 at Vast.ai is still billed at $0.41/h; termination was requested 3 times: Vast.ai says 500.",
        ),
    ),
    (
        facts.OrphanFound(ACCESS, "4711", TOKEN, "no request has this uid"),
        "WARNING",
        ("tgp_orphans_found_total", VAST, 1),
        None,
    ),
    (
        facts.OrphanTerminationFailing(ACCESS, "4711", TOKEN, 3, "Vast.ai says 500", 410_000),
        "WARNING",
        ("tgp_termination_errors_total", VAST, 1),
        None,
    ),
    (
        facts.OrphanTerminated(ACCESS, "4711", TOKEN, "the request was confirmed absent twice", 3),
        "WARNING",
        ("tgp_orphans_terminated_total", VAST, 1),
        None,
    ),
    (facts.HistoryRewound("revision 7 after 9"), "WARNING", ("tgp_history_rewound_total", {}, 1), None),
    (facts.OrphanGone(ACCESS, "4711", TOKEN), "INFO", ("tgp_orphans_gone_total", VAST, 1), None),
    (facts.SweepHalted(ACCESS, 9, 12), "WARNING", ("tgp_sweeps_halted_total", VAST, 1), None),
    (
        facts.PlanMade("Ordered", 9, 2, {"TooSmall": 1}, timedelta(seconds=1), 8100, 40),
        "INFO",
        ("tgp_unserved_pods", {"reason": "TooSmall"}, 1),
        None,
    ),
    (
        facts.PlanMade("Unserved", 9, 0, {}, timedelta(seconds=1), -1, 40),
        "DEBUG",
        ("tgp_plans_total", {"outcome": "Unserved"}, 1),
        None,
    ),
    (
        facts.PlanCutShort(FactSubject(GPU_NODE_POOL, ObjectKey("ml", "jobs"), "uid-4"), 9, timedelta(seconds=30)),
        "WARNING",
        ("tgp_plans_cut_short_total", {"namespace": "ml", "pool": "jobs"}, 1),
        (
            True,
            "PlanCutShort",
            f"Planning 9 pods took longer than 30s. {QUICK_PLANS}",
        ),
    ),
    (
        facts.PlanMade("Observed", 9, 2, {}, timedelta(seconds=1), 8100, 40),
        "DEBUG",
        ("tgp_planned_machines_total", {}, 0),
        None,
    ),
    (
        facts.PlanFailed("ml", "ValueError: x", new=True),
        "WARNING",
        ("tgp_plans_failed_total", {"namespace": "ml"}, 1),
        None,
    ),
    (facts.PlanFailed("", "ValueError: x", new=False), "DEBUG", ("tgp_plans_failed_total", {"namespace": ""}, 1), None),
    (facts.NoPodWaits(), "DEBUG", None, None),
    (
        facts.ScaleUpTriggered(POD_SUBJECT, "Pool a/b orders 1x T4"),
        "INFO",
        None,
        (False, "TriggeredScaleUp", "Pool a/b orders 1x T4."),
    ),
    (
        facts.ScaleUpNotTriggered(POD_SUBJECT, "a/b: too small"),
        "INFO",
        None,
        (False, "NotTriggerScaleUp", "a/b: too small."),
    ),
    (
        facts.AnnotationIgnored(POD_SUBJECT, "no price"),
        "INFO",
        None,
        (True, "AnnotationIgnored", "No price."),
    ),
    (
        facts.DisruptionNoted(POD_SUBJECT, "DisruptionBlocked", "Drifted: no room"),
        "INFO",
        None,
        (False, "DisruptionBlocked", "Drifted: no room."),
    ),
    (
        facts.MoveEnded(POD_SUBJECT, "Drifted", "Terminating"),
        "INFO",
        ("tgp_moves_total", {"reason": "Drifted", "outcome": "Terminating"}, 1),
        None,
    ),
    (
        facts.PodsMoved(POD_SUBJECT, "Drifted", 3),
        "INFO",
        ("tgp_moved_pods_total", {"reason": "Drifted"}, 3),
        None,
    ),
    (
        facts.DisruptionCounted(ObjectKey("a", "b"), 2),
        "INFO",
        ("tgp_disrupted_nodes", {"namespace": "a", "pool": "b"}, 2),
        None,
    ),
    (
        facts.DisruptionCounted(ObjectKey("a", "b"), unhealthy=3, halted=True, left={"Empty": 1}),
        "INFO",
        ("tgp_unhealthy_nodes", {"namespace": "a", "pool": "b"}, 3),
        None,
    ),
    (
        facts.DisruptionCounted(ObjectKey("a", "b"), halted=True),
        "INFO",
        ("tgp_repair_halted", {"namespace": "a", "pool": "b"}, 1),
        None,
    ),
    (
        facts.DisruptionCounted(ObjectKey("a", "b"), left={"Empty": 1}),
        "INFO",
        ("tgp_disruption_budget_left", {"namespace": "a", "pool": "b", "reason": "Empty"}, 1),
        None,
    ),
    (
        facts.SavingsPromised(ObjectKey("a", "b"), 500_000),
        "INFO",
        ("tgp_savings_promised_dollars_total", {"namespace": "a", "pool": "b"}, 0.5),
        None,
    ),
    (
        facts.ReplacementBilled(ObjectKey("a", "b"), 500_000, 900_000),
        "INFO",
        ("tgp_exchanged_dollars_total", {"namespace": "a", "pool": "b", "part": "replaced"}, 0.9),
        None,
    ),
    (
        facts.RequestReplanned(POD_SUBJECT, "sold out"),
        "INFO",
        ("tgp_replanned_requests_total", {}, 1),
        (False, "RequestReplanned", "GPURequest was deleted: sold out. A new plan is made for its pods."),
    ),
    (
        facts.AlertRaised(POD_SUBJECT, "80", "Use has reached 80 % of the quota."),
        "INFO",
        ("gwb_alerts_total", {"namespace": POD_SUBJECT.key[0], "name": POD_SUBJECT.key[1], "alert": "80"}, 1),
        (True, "BudgetAlert", "Use has reached 80 % of the quota."),
    ),
    (
        facts.BudgetNoted(POD_SUBJECT, "AccountRestored", "It is restored", warning=True),
        "INFO",
        None,
        (True, "AccountRestored", "It is restored."),
    ),
    (
        facts.PodEnforced(
            POD_SUBJECT, ObjectKey("team", "gpus"), "Evict", "Evicted", "Pod was evicted: budget gpus is used up"
        ),
        "INFO",
        (
            "gwb_enforcement_actions_total",
            {"namespace": "team", "name": "gpus", "action": "Evict", "outcome": "Evicted"},
            1,
        ),
        (True, "Evicted", "Pod was evicted: budget gpus is used up."),
    ),
    (
        facts.PodEnforced(POD_SUBJECT, ObjectKey("team", "gpus"), "Evict", "EvictionBlocked", "Pod was not evicted"),
        "INFO",
        None,
        (True, "EvictionBlocked", "Pod was not evicted."),
    ),
    (facts.TableFailing(ObjectKey("tgp-system", "tgp-shapes"), "forbidden"), "WARNING", None, None),
    (
        facts.PodNominated(POD_SUBJECT, "train-1"),
        "INFO",
        ("tgp_nominations_total", {}, 1),
        (
            False,
            "Nominated",
            "Node train-1 was bought for this pod; its capacity is reserved until the pod is scheduled.",
        ),
    ),
    (
        facts.PodGateLifted(POD_SUBJECT, "team-a"),
        "INFO",
        None,
        (False, "GateLifted", "Scheduling gate removed: team-a has GPU-hours left."),
    ),
    (
        facts.NominationUnsupported(POD_SUBJECT, "v1.34.2"),
        "INFO",
        None,
        (
            False,
            "NominationUnsupported",
            "Pods may run on other machines than planned: Kubernetes is v1.34.2, and nominations need 1.35 or newer.",
        ),
    ),
]

SAID = (
    str,
    Mapping[str, int],  # counts by few words
    bool,
    int,
    ObjectKey,
    FactSubject,
    timedelta,
    datetime,
)  # what a fact may consist of: names and words, never a document


class Told:
    def __init__(self) -> None:
        self.events: list[tuple[FactSubject, bool, str, str]] = []

    def emit(self, subject: FactSubject, *, warning: bool, reason: str, message: str) -> None:
        self.events.append((subject, warning, reason, message))


@pytest.mark.parametrize(("fact", "level", "metric", "event"), TABLE, ids=lambda it: type(it).__name__)
def test_a_fact_has_its_echoes(caplog, fact, level, metric, event):
    told, metrics = Told(), Metrics()
    metrics.leader.set(1 if metric and metric[2] == 0 else 0)
    caplog.set_level(logging.DEBUG, "tgp")

    LiveJournal(told, metrics, lambda name: TITLES.get(name, name)).note(fact)

    (line,) = caplog.records
    assert (line.levelname, line.getMessage()) == (level, type(fact).__name__)
    for name in fact.__struct_fields__:
        assert str(getattr(fact, name)) == str(getattr(line, "text" if name == "message" else name))
    if metric is not None:
        name, labels, value = metric
        assert metrics.registry.get_sample_value(name, labels) == value
    assert told.events == ([] if event is None else [(fact.subject, *event)])


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
        assert not any(word in name for word in ("password", "secret", "credential")), name
        assert "token" not in name or name == "token", name


def test_a_token_in_a_fact_is_the_mark_of_a_machine():
    """The one token that opens nothing: it stands in plain sight at the provider."""
    tokens = [fact.token for fact, *_ in TABLE if hasattr(fact, "token")]

    assert tokens
    assert all(read_token(token) is not None for token in tokens)


@pytest.mark.parametrize("kind", ["Launched", "Registered", "Initialized", "Ready", "Terminating", "ExpiresSoon"])
def test_what_a_fact_tells_a_condition_need_not_tell_again(kind):
    """One Event for one happening; a condition that turns False has no other voice."""
    told, metrics = Told(), Metrics()
    journal = LiveJournal(told, metrics)

    journal.note(facts.ConditionChanged(TRAIN, kind, "True", "Because", "it is so", good=True))
    assert told.events == []
    journal.note(facts.ConditionChanged(TRAIN, kind, "False", "Because", "it is not so", good=False))
    assert len(told.events) == 1


@pytest.mark.parametrize(
    ("step", "metric"),
    [
        (facts.MachineOrdered(TRAIN, "vast", OFFER, 410_000, TOKEN, 1, of_pool=True), "tgp_orders_total"),
        (facts.NodeRegistered(TRAIN, "vast", "gpu-1", timedelta(minutes=1), of_pool=True), None),
        (facts.NodeInitialized(TRAIN, "vast", "gpu-1", timedelta(minutes=1), of_pool=True), None),
        (facts.MeshJoined(TRAIN, "gpu-1 is 100.64.0.1", timedelta(minutes=1), of_pool=True), None),
    ],
)
def test_steps_of_a_pools_machine_are_counted_and_get_no_event(step, metric):
    told, metrics = Told(), Metrics()

    LiveJournal(told, metrics).note(step)

    assert told.events == []
    assert metric is None or metrics.registry.get_sample_value(metric, VAST) == 1


@pytest.mark.parametrize(
    ("offer", "words"),
    [
        (ChosenOffer(provider="vast", instance_type="4711", gpu_type="RTX4090", region="us-west"), OFFER),
        (
            ChosenOffer(provider="gcp", instance_type="a2", gpu_count=8, region="unknown", place="moon", spot=True),
            "8x a2 in moon, spot",
        ),
        (ChosenOffer(provider="webhook", instance_type="cellar", gpu_type="RTX3090"), "1x RTX3090"),
    ],
)
def test_an_offer_in_a_few_words(offer, words):
    assert offer_words(offer) == words


def test_what_a_fact_is_about_is_named_and_not_shown():
    assert set(FactSubject.__struct_fields__) == {"resource", "key", "uid"}
    assert is_dataclass(Resource)
    assert str(SUBJECT) == "gpunodeclass/cheap"


def test_pods_that_wait_no_more_are_not_counted_as_unserved():
    metrics = Metrics()
    journal = LiveJournal(Told(), metrics)
    journal.note(facts.PlanMade("Unserved", 1, 0, {"TooSmall": 1}, timedelta(seconds=1), -1, 1))
    journal.note(facts.NoPodWaits())

    assert metrics.registry.get_sample_value("tgp_unserved_pods", {"reason": "TooSmall"}) is None


def test_a_plan_without_a_proven_bound_has_no_gap():
    metrics = Metrics()
    journal = LiveJournal(Told(), metrics)
    assert isnan(metrics.registry.get_sample_value("tgp_plan_gap_ratio") or 0.0)
    journal.note(facts.PlanMade("Ordered", 1, 1, {}, timedelta(seconds=1), 8100, 1))
    assert metrics.registry.get_sample_value("tgp_plan_gap_ratio") == 0.0081
    journal.note(facts.PlanMade("Ordered", 1, 1, {}, timedelta(seconds=1), -1, 1))
    assert isnan(metrics.registry.get_sample_value("tgp_plan_gap_ratio") or 0.0)
