"""What a screen makes of an object's conditions."""

import json
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.terminal.snapshots import NOW
from tgp.api.budget import Enforcement, GPUWorkloadBudget, GPUWorkloadBudgetSpec, GPUWorkloadBudgetStatus, Quota
from tgp.api.common import LabelSelector
from tgp.api.nodepool import GPUNodePoolStatus, PlannedMachine, WouldHaveCost
from tgp.api.resource import GPU_NODE_POOL, GPU_REQUEST
from tgp.app.view.object_summary import ObjectObservation, budget_message, object_row_of, pool_message
from tgp.core.model.object_key import ObjectKey

KEY = ObjectKey("ml", "training")
SINCE = NOW - timedelta(hours=1)


def condition(kind: str, status: str, reason: str = "Because") -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": f"{kind} is {status}",
        "lastTransitionTime": SINCE.isoformat().replace("+00:00", "Z"),
    }


def seen(status: object, **rest):
    document = status if isinstance(status, bytes) else json.dumps(status).encode()
    made = {"resource": GPU_NODE_POOL, "key": KEY, "created_at": NOW, "deleting": False, **rest}
    return object_row_of(ObjectObservation(status_document=document, **made), NOW)


@pytest.mark.parametrize(
    ("conditions", "state", "good", "message"),
    [
        ([condition("Ready", "True")], "Ready", True, "Ready is True"),
        ([condition("Ready", "False")], "NotReady", False, "Ready is False"),
        ([condition("Ready", "Unknown")], "Unknown", None, "Ready is Unknown"),
        ([condition("Ready", "True"), condition("Observing", "True")], "Observing", True, "Ready is True"),
        ([condition("Ready", "True"), condition("Observing", "False")], "Ready", True, "Ready is True"),
        ([condition("Ready", "True"), condition("Degraded", "True")], "Degraded", False, "Degraded is True"),
        ([condition("Unsatisfiable", "True")], "Unsatisfiable", False, "Unsatisfiable is True"),
        ([condition("Ready", "False"), condition("Unsatisfiable", "True")], "NotReady", False, "Ready is False"),
        ([condition("Ready", "True"), condition("DeprecatedFields", "True")], "Ready", True, "Ready is True"),
        ([], "", None, "no status yet"),
    ],
)  # fmt: skip
def test_the_reason_that_matters_most_is_shown(conditions, state, good, message):
    row = seen({"conditions": conditions})

    assert (row.state, row.good, row.message) == (state, good, message)
    assert row.since == (SINCE if conditions else NOW)


@pytest.mark.parametrize("document", [b"", b"null", b"[]", b"{", b'{"conditions": 7}', b'{"conditions": null}'])
def test_an_unreadable_status_counts_as_empty(document):
    assert seen(document).good is None


def test_a_request_shows_its_phase():
    row = seen({"phase": "Booting", "message": "usually 3 minutes"}, resource=GPU_REQUEST)

    assert (row.state, row.good, row.message) == ("Booting", True, "usually 3 minutes")
    assert seen({"phase": "Failed"}, resource=GPU_REQUEST).good is False


def test_a_request_that_waits_is_neither_well_nor_wrong():
    assert seen({"phase": "Pending"}, resource=GPU_REQUEST).good is None


@pytest.mark.parametrize(
    ("reason", "minutes", "good"),
    [
        ("NoOfferFits", 9, None),
        ("NoOfferFits", 11, False),
        ("PurchasesPaused", 11, False),
        ("DevicePluginMissing", 0, False),
        ("InvalidSpec", 0, False),
        ("OffersNotSeen", 1, None),
    ],
)
def test_a_request_that_is_stuck_needs_attention(reason, minutes, good):
    """What no waiting cures at once, and the rest after ten minutes."""
    since = (NOW - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")
    row = {**condition("Ready", "False", reason), "lastTransitionTime": since}

    assert seen({"phase": "Pending", "conditions": [row]}, resource=GPU_REQUEST).good is good


@pytest.mark.parametrize(
    ("phase", "over"), [("Ready", False), ("Terminating", False), ("Finished", True), ("Failed", True)]
)
def test_a_request_that_has_ended_is_over(phase, over):
    assert seen({"phase": phase}, resource=GPU_REQUEST).over is over


def test_an_object_on_its_way_out_says_so():
    assert seen({"conditions": [condition("Ready", "True")]}, deleting=True).state == "Deleting"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({}, "no machine"),
        ({"node_count": 1, "waiting_pods": 1}, "1 machine, 1 pod waits"),
        ({"node_count": 3, "waiting_pods": 2}, "3 machines, 2 pods wait"),
    ],
)
def test_a_pool_says_what_it_has_and_what_waits(status, message):
    assert pool_message(GPUNodePoolStatus(**status), NOW, observes=False) == message


def test_a_pool_that_observes_says_what_it_would_have():
    ago = NOW - timedelta(minutes=6)
    cost = WouldHaveCost(total_cost="3.00", hourly_cost="0.50", since=ago, at=ago)
    row = PlannedMachine(provider="simulated", instance_type="t4.1", count=2)

    def said(**status: Any) -> str:
        return pool_message(GPUNodePoolStatus(**status), NOW, observes=True)

    assert said(waiting_pods=1) == "would buy nothing, 1 pod waits"
    assert said(would_buy=(row,), would_have_cost=cost) == "would buy 2 for $0.50/h, $3.05 so far"
    assert said(would_have_cost=replace(cost, hourly_cost="0.00")) == "would buy nothing, $3.00 so far"


def test_a_budget_whose_money_is_nearer_is_a_bar_of_dollars():
    spec = GPUWorkloadBudgetSpec(
        selector=LabelSelector(),
        quota=Quota(gpu_hours=10, window_hours=24, usd="4"),
        enforcement=Enforcement(action="Evict"),
    )
    status = GPUWorkloadBudgetStatus(as_of=NOW, consumed_gpu_hours="1", consumed_usd="3")
    assert budget_message(GPUWorkloadBudget(spec=spec, status=status), "told", NOW).endswith(" 75 % of $4")


def test_a_budget_is_a_bar_that_moves_with_the_time_since_its_status():
    spec = GPUWorkloadBudgetSpec(
        selector=LabelSelector(match_labels={"team": "a"}),
        quota=Quota(gpu_hours=2, window_hours=24),
        enforcement=Enforcement(action="Evict"),
    )

    def said(**status: Any) -> str:
        return budget_message(GPUWorkloadBudget(spec=spec, status=GPUWorkloadBudgetStatus(**status)), "told", NOW)

    half = {"consumed_gpu_hours": "0.5", "as_of": NOW - timedelta(minutes=30), "gpus_in_use": "1"}
    assert said() == "told"
    assert said(**half) == "■■■■■■□□□□□□ 50 % of 2 GPU-hours"
    assert said(**half, exhausted_at=NOW) == f"■■■■■■□□□□□□ 50 % of 2 GPU-hours, used up at {NOW:%H:%M:%SZ}"
    over = {**half, "consumed_gpu_hours": "2.5", "exceeded_at": NOW, "next_change_at": NOW}
    assert said(**over) == f"■■■■■■■■■■■■ 150 % of 2 GPU-hours, more available at {NOW:%H:%M:%SZ}"
