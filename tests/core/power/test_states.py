"""The power state of a machine you own, as metrics show it."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.core.disruption.machines import a_machine
from tests.core.pools.builders import a_condition, a_node, an_attempt
from tgp.adapters.telemetry.owned_machines import OwnedMachineCollector, OwnedMachineRow
from tgp.core.power.states import PowerState, by_machine, power_state

OFFER = {**an_attempt()["offer"], "provider": "webhook", "instanceType": "box", "bootMode": "power"}


def a_request(**status: Any):
    deleting = status.pop("deleting", False)
    attempts = [an_attempt(outcome="Launched", offer=OFFER)]
    return a_machine(deleting=deleting, attempts=attempts, **status).record


DISRUPTED, ENDING = a_condition("Disrupted"), a_condition("Terminating")


@pytest.mark.parametrize(
    ("record", "ready", "state"),
    [
        (None, None, PowerState.OFF),
        (None, False, PowerState.OFF),
        (None, True, PowerState.UNREQUESTED),
        (a_request(readyAt=None), None, PowerState.WAKING),
        (a_request(), True, PowerState.ON),
        (a_request(conditions=[a_condition("Disrupted", "False")]), True, PowerState.ON),
        (a_request(conditions=[DISRUPTED]), True, PowerState.DRAINING),
        (a_request(deleting=True), True, PowerState.DRAINING),
        (a_request(conditions=[ENDING, a_condition("Drained", "False")]), True, PowerState.DRAINING),
        (a_request(conditions=[ENDING, a_condition("Drained")]), True, PowerState.GOING_OFF),
        (a_request(conditions=[ENDING], readyAt=None), None, PowerState.GOING_OFF),
        (a_request(conditions=[a_condition("ProviderReachable", "False")]), True, PowerState.UNKNOWN),
        (a_request(conditions=[ENDING, a_condition("ProviderInconsistent")]), True, PowerState.UNKNOWN),
    ],
)
def test_a_machine_is_in_one_state(record, ready, state):
    assert power_state(record, a_node("box", ready=ready) if ready is not None else None) is state


def test_requests_are_found_by_the_machine_that_they_use():
    record = a_request()

    assert by_machine([record, a_machine("rented").record]) == {"box": record}


def test_every_state_of_a_class_is_shown_and_wake_times_once_they_are_measured():
    rows = [
        OwnedMachineRow("cellar", "box-1", PowerState.ON, 95),
        OwnedMachineRow("cellar", "box-2", PowerState.OFF),
    ]
    registry = CollectorRegistry()
    registry.register(OwnedMachineCollector(lambda: rows))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"class": "cellar", **labels})

    assert [value("tgp_owned_machines", state=each) for each in PowerState] == [1, 0, 1, 0, 0, 0, 0]
    assert value("tgp_owned_machine_boot_seconds", machine="box-1") == 95
    assert value("tgp_owned_machine_boot_seconds", machine="box-2") is None
