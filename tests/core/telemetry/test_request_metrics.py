"""Requests as metrics: few labels, dollars that are really on the bill, and alarms that rise when they should."""

from datetime import timedelta
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from tests.core.model.test_costs import NOW, OFFER, UID, a_record, an_attempt
from tgp.adapters.telemetry.metrics import Metrics
from tgp.adapters.telemetry.requests import RequestCollector
from tgp.api.common import Condition
from tgp.api.request import PHASES, GPURequest, GPURequestStatus
from tgp.core.inventory.orphans import Stuck
from tgp.core.model.attempts import UID_ANNOTATION
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.resources import read_resources

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
WHOSE = {"class": "cheap", "pool": "", "provider": "vast"}
VAST = {"provider": "vast"}


def a_request(*attempts: Any, conditions: tuple[Condition, ...] = (), **said: Any) -> KubeObject[GPURequest]:
    record_said = {name: said.pop(name) for name in ("annotations", "key") if name in said}
    status = GPURequestStatus(node_class="cheap", attempts=attempts, conditions=conditions, **said)
    return a_record(status=status, **record_said)


def a_condition(kind: str, status: str, reason: str = "Because", since: timedelta = timedelta(0)) -> Condition:
    return Condition(type=kind, status=status, reason=reason, last_transition_time=NOW - since)


def shown(
    *requests: KubeObject[GPURequest],
    nodes: tuple[Node, ...] = (),
    pods: tuple[Pod, ...] = (),
    stuck: tuple[Stuck, ...] = (),
) -> CollectorRegistry:
    registry = CollectorRegistry()
    by_name = {node.name: node for node in nodes}
    registry.register(
        RequestCollector(
            lambda: requests,
            by_name.get,
            lambda name: [pod for pod in pods if pod.node == name],
            lambda: NOW + HOUR,
            lambda: stuck,
        )
    )
    return registry


def test_every_phase_is_shown_also_without_requests():
    """A series that appears only with its first value cannot be alerted on."""
    found = shown(a_request(phase="Ready"), a_request(phase="Ready"), a_request())
    counts = {phase: found.get_sample_value("tgp_requests", {"phase": phase}) for phase in PHASES}

    assert counts == dict.fromkeys(PHASES, 0) | {"Ready": 2, "Pending": 1}


def test_a_machine_costs_its_price_and_has_spent_its_time():
    over = an_attempt(ended_at=NOW, spent="0.37")
    found = shown(a_request(over, an_attempt(number=2, hourly_price="0.50")))

    assert found.get_sample_value("tgp_machines", WHOSE) == 1
    assert found.get_sample_value("tgp_hourly_dollars", WHOSE) == 0.5
    assert found.get_sample_value("tgp_spent_dollars", WHOSE) == 0.87
    assert found.get_sample_value("tgp_reserved_hourly_dollars", WHOSE) is None


def test_an_unconfirmed_order_is_reserved_and_not_billed():
    found = shown(a_request(an_attempt(launched_at=None)))

    assert found.get_sample_value("tgp_reserved_hourly_dollars", WHOSE) == 0.4
    assert found.get_sample_value("tgp_hourly_dollars", WHOSE) is None
    assert found.get_sample_value("tgp_spent_dollars", WHOSE) == 0


def test_what_is_over_is_no_machine():
    found = shown(a_request(an_attempt(ended_at=NOW)))

    assert found.get_sample_value("tgp_machines", WHOSE) is None


def test_gpus_are_bought_allocatable_and_requested():
    two = read_resources({"nvidia.com/gpu": 2})
    one = read_resources({"nvidia.com/gpu": 1})
    node = Node(key=ObjectKey("", "gpu-1"), allocatable=two)
    pods = tuple(
        Pod(key=ObjectKey("team-a", f"pod-{phase}"), node="gpu-1", requests=one, phase=phase)
        for phase in ("Running", "Succeeded")
    )
    attempt = an_attempt(offer=msgspec.structs.replace(OFFER, gpu_count=4))
    found = shown(a_request(attempt, node_name="gpu-1"), nodes=(node,), pods=pods)

    assert found.get_sample_value("tgp_gpus_bought", WHOSE) == 4
    assert found.get_sample_value("tgp_gpus_allocatable", WHOSE) == 2
    assert found.get_sample_value("tgp_gpus_requested", WHOSE) == 1


def test_a_machine_with_an_unreachable_provider_raises_an_alarm_with_its_price():
    """The key is gone; the bill is not."""
    gone = a_condition("ProviderReachable", "False", "CredentialsMissing")
    newer = a_condition("ProviderReachable", "False", "MoonPhase")
    found = shown(a_request(an_attempt(), conditions=(gone,)), a_request(an_attempt(), conditions=(newer,)))

    for reason in ("CredentialsMissing", "Other"):
        assert found.get_sample_value("tgp_unreachable_hourly_dollars", VAST | {"reason": reason}) == 0.4


def test_a_machine_that_does_not_end_raises_an_alarm_with_its_price():
    asked = a_condition("Terminating", "True"), a_condition("Drained", "True")
    found = shown(a_request(an_attempt(), conditions=asked))

    assert found.get_sample_value("tgp_terminations_failing", VAST) == 1
    assert found.get_sample_value("tgp_terminations_failing_hourly_dollars", VAST) == 0.4


def test_one_that_never_joined_has_nothing_to_drain_and_raises_it_too():
    found = shown(a_request(an_attempt(), conditions=(a_condition("Terminating", "True"),)))

    assert found.get_sample_value("tgp_terminations_failing", VAST) == 1


def test_a_drain_or_a_few_minutes_are_no_alarm():
    drains = a_condition("Terminating", "True"), a_condition("Drained", "False")
    fresh = a_condition("Terminating", "True"), a_condition("Drained", "True", since=-55 * MINUTE)
    found = shown(a_request(an_attempt(), conditions=drains), a_request(an_attempt(), conditions=fresh))

    assert found.get_sample_value("tgp_terminations_failing", VAST) is None


def test_a_machine_that_no_request_owns_and_that_does_not_end_counts_among_them():
    stuck = Stuck(
        "vast/keys/VAST#12345678", Instance("4711", "t", InstanceState.RUNNING, hourly_microusd=410_000), "500"
    )
    found = shown(stuck=(stuck, stuck))

    assert found.get_sample_value("tgp_terminations_failing", VAST) == 2
    assert found.get_sample_value("tgp_terminations_failing_hourly_dollars", VAST) == 0.82


def test_a_restored_copy_owns_no_machine():
    found = shown(a_request(an_attempt(), annotations={UID_ANNOTATION: "another"}, phase="Ready"))

    assert found.get_sample_value("tgp_requests", {"phase": "Ready"}) == 1
    assert found.get_sample_value("tgp_hourly_dollars", WHOSE) is None
    assert found.get_sample_value("tgp_spent_dollars", WHOSE) is None


def test_an_object_of_a_newer_version_still_costs():
    document = {"phase": "Ready", "nodeClass": "cheap", "attempts": [msgspec.to_builtins(an_attempt())]}
    record = a_record(value=None, status_document=msgspec.json.encode(document))
    found = shown(record)

    assert found.get_sample_value("tgp_hourly_dollars", WHOSE) == 0.4
    assert found.get_sample_value("tgp_requests", {"phase": "Ready"}) == 1


def test_five_hundred_requests_are_as_many_series_as_their_classes_and_providers():
    requests = [a_request(an_attempt(), key=ObjectKey("team-a", f"train-{number}")) for number in range(500)]
    labels = [sample.labels for family in shown(*requests).collect() for sample in family.samples]

    assert len(labels) == len(PHASES) + 4  # machines, bought, hourly, spent
    assert not any("train-" in value or UID in value for row in labels for value in row.values())


def test_an_operator_that_begins_anew_shows_its_requests_in_place_of_the_old_ones():
    metrics = Metrics()
    for number in (1, 2):
        requests = [a_request(phase="Ready")] * number
        metrics.show(RequestCollector(lambda held=requests: held, lambda _name: None, lambda _name: (), lambda: NOW))

    assert metrics.registry.get_sample_value("tgp_requests", {"phase": "Ready"}) == 2
