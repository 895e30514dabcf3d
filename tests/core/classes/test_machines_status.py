"""What a class says of the machines it holds: from its requests alone, and quietly."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.core.market.offers import NOW
from tgp.api.common import Condition
from tgp.api.nodeclass import ClassLimits, GPUNodeClassStatus
from tgp.api.request import Attempt, ChosenOffer, GPURequest, GPURequestSpec, GPURequestStatus
from tgp.api.values import rfc3339
from tgp.core.classes.machines_status import (
    ClassMachines,
    account_changed,
    boot_proven,
    boot_times,
    boots_seen,
    earlier,
    leaving,
    limit_reached,
    machine_count_of,
    totals,
)
from tgp.core.model.attempts import UID_ANNOTATION
from tgp.core.model.costs import class_of, class_spent
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey


def a_condition(name: str, status: str, reason: str, message: str = "") -> Condition:
    return Condition(type=name, status=status, reason=reason, message=message, last_transition_time=NOW)


def a_request(
    name: str = "train",
    *conditions: Condition,
    attempt: dict[str, Any] | None = None,
    node_class: str = "rented",
    **status: Any,
) -> KubeObject[GPURequest]:
    """With a machine at $1.50 an hour, unless told otherwise."""
    offer = ChosenOffer(provider="simulated", instance_type="a10", gpu_type="A10", gpu_count=1, hourly_price="1.50")
    said = {"launched_at": NOW, "outcome": "Launched", **(attempt or {})}
    attempts = (Attempt(number=1, token="tgp-x-1", offer=offer, **said),)
    return KubeObject(
        key=ObjectKey("team", name),
        uid=f"uid-of-{name}",
        value=GPURequest(
            spec=GPURequestSpec(gpu_type="A10"),
            status=GPURequestStatus(
                **{"node_class": node_class, "attempts": attempts, "conditions": conditions, **status}
            ),
        ),
    )


def over(name: str = "old", spent: str = "7.00") -> KubeObject[GPURequest]:
    return a_request(name, attempt={"ended_at": NOW, "outcome": "Terminated", "spent": spent}, spent=spent)


def held(*requests: KubeObject[GPURequest], before: int = 0) -> ClassMachines:
    counts = (machine_count_of(each) for each in requests if class_of(each) == "rented")
    return ClassMachines(tuple(sorted(each for each in counts if each is not None)), before)


def updates(holdings: ClassMachines, limits: ClassLimits | None = None, **seen: str) -> dict[str, str]:
    checked = limit_reached(holdings, limits), account_changed(holdings), boot_proven(seen, ("simulated", "vast"))
    found = [each for each in checked if each is not None]
    assert all(each.status for each in found)
    return {each.type: each.message for each in found}


def test_what_lives_is_counted_with_what_it_costs_and_has_cost():
    holdings = held(a_request("a", spent="0.30"), a_request("b", attempt={"hourly_price": "2.00"}), over())

    assert totals(holdings, {}, NOW) == {
        "activeNodes": 2,
        "hourlyCost": "3.50",
        "totalCost": "7.30",
        "costAsOf": rfc3339(NOW),
    }


def test_what_it_has_cost_is_counted_until_now_when_the_class_is_written_anyway():
    holdings, later = held(a_request(), over()), NOW + timedelta(hours=2)
    written = totals(holdings, {}, NOW)

    assert totals(holdings, written, later) == {}, "it is not written for that alone"
    assert totals(holdings, written, later, anyway=True) == {"totalCost": "10.00", "costAsOf": rfc3339(later)}
    assert class_spent(msgspec.convert(written, GPUNodeClassStatus), later) == 10_000_000


def test_what_ran_on_since_the_total_was_written_is_not_taken_for_what_others_spent():
    """A new process finds the total of an earlier one, with its moment."""
    later = NOW + timedelta(hours=2)
    status = {"totalCost": "50.00", "costAsOf": rfc3339(later)}

    assert earlier(held(a_request(), over()), status) == 40_000_000


def test_what_stands_there_already_is_not_written_again():
    holdings = held(a_request(), over())
    written = totals(holdings, {}, NOW)

    assert totals(holdings, written, NOW) == {}
    assert totals(held(), {}, NOW) == {}, "a class that never bought anything says nothing"
    assert totals(held(over()), written, NOW) == {
        "activeNodes": 0,
        "hourlyCost": "0.00",
        "totalCost": "7.00",
        "costAsOf": rfc3339(NOW),
    }


def test_a_reservation_counts_against_limits_and_is_no_machine_yet():
    holdings = held(a_request(attempt={"launched_at": None, "outcome": None}))

    assert totals(holdings, {}, NOW) == {}
    assert "maxNodes is 1" in updates(holdings, ClassLimits(max_nodes=1))["LimitReached"]


def test_other_classes_and_restored_copies_are_not_counted():
    copy = msgspec.structs.replace(a_request("copy"), annotations={UID_ANNOTATION: "another"})

    assert totals(held(copy, a_request("b", node_class="other")), {}, NOW) == {}


def test_what_was_spent_by_requests_that_are_gone_is_remembered_from_the_status():
    status = {"totalCost": "50.00"}
    present = held(over(spent="7.00"))

    assert earlier(present, status) == 43_000_000
    assert earlier(present, {}) == 0
    assert totals(held(over(spent="8.00"), before=43_000_000), status, NOW) == {
        "totalCost": "51.00",
        "costAsOf": rfc3339(NOW),
    }
    assert totals(held(), status, NOW) == {}, "it never becomes less"


@pytest.mark.parametrize("odd", [7, None, "lots", [], {"a": 1}, "-3"])
def test_totals_that_make_no_sense_are_overwritten(odd):
    status = {"activeNodes": odd, "hourlyCost": odd, "totalCost": odd}

    assert totals(held(a_request(spent="1.00")), status, NOW) == {
        "activeNodes": 1,
        "hourlyCost": "1.50",
        "totalCost": "1.00",
        "costAsOf": rfc3339(NOW),
    }
    assert boots_seen(held(), {"providers": odd}, ["vast"]) == {}


def test_a_limit_is_said_to_be_reached_when_it_is_or_when_a_request_waits_for_it():
    one = held(a_request())
    words = "class rented: limits.maxHourlyCost is $2.00/h: $1.00/h does not fit"
    waiting = a_condition("Launched", "False", "LimitReached", words)
    waits = held(a_request(), a_request("next", waiting, attempt={"ended_at": NOW, "outcome": "SoldOut"}))

    assert updates(one) == {}
    assert updates(one, ClassLimits(max_nodes=2, max_hourly_cost="2.00")) == {}
    assert "maxNodes is 1" in updates(one, ClassLimits(max_nodes=1))["LimitReached"]
    assert "all of it is in use or reserved" in updates(one, ClassLimits(max_hourly_cost="1.50"))["LimitReached"]
    assert updates(waits, ClassLimits(max_hourly_cost="2.00"))["LimitReached"] == f"{words}; team/next waits."


def test_a_request_that_waits_for_its_pools_limit_is_not_the_classs_matter():
    waiting = a_condition(
        "Launched", "False", "LimitReached", "Pool team/a: limits.resources[nodes] is 1, and 1 are in use."
    )
    waits = held(a_request("next", waiting, attempt={"ended_at": NOW, "outcome": "SoldOut"}))

    assert updates(waits, ClassLimits(max_nodes=2)) == {}


def test_machines_of_another_account_are_told_with_what_they_cost():
    changed = a_condition("ProviderReachable", "False", "AccountChanged", "the key belongs to account b now")
    said = updates(held(a_request("a", changed), a_request("b")))["AccountChanged"]

    assert said.startswith("1 machine at $1.50/h cannot be found or terminated: team/a: the key belongs")


def test_the_first_machine_that_joined_proves_its_provider_for_ever():
    joined = a_condition("Registered", "True", "Registered")
    later = a_request("b", ready_at=NOW + timedelta(hours=1))
    holdings = held(a_request("a", joined), later)

    assert boots_seen(holdings, {}, ["simulated", "vast"]) == {"simulated": rfc3339(NOW)}
    told = {"providers": {"simulated": {"bootSeenAt": "2026-01-01T00:00:00Z"}}}
    assert boots_seen(held(), told, ["simulated", "vast"]) == {"simulated": "2026-01-01T00:00:00Z"}
    assert updates(held()) == {}
    said = updates(held(), simulated="2026-01-01T00:00:00Z")["BootProven"]
    assert said == "Machines of simulated joined the cluster; no machine of vast joined yet."


def test_the_last_machine_tells_how_long_one_takes_to_boot():
    def after(name, minutes, ordered=NOW):
        return a_request(name, ready_at=ordered + timedelta(minutes=minutes), attempt={"reserved_at": ordered})

    both = held(after("a", 3), after("b", 7, NOW + timedelta(hours=1)))
    assert boot_times(both, {}, ["simulated", "vast"]) == {"simulated": "7m"}
    told = {"providers": {"simulated": {"bootTime": "6m10s"}}}
    assert boot_times(both, told, ["simulated"]) == {"simulated": "6m10s"}, "it differs by little"
    assert boot_times(held(after("a", 3)), told, ["simulated"]) == {"simulated": "3m"}
    assert boot_times(held(), told, ["simulated"]) == {"simulated": "6m10s"}, "an earlier process measured it"
    odd = {"providers": {"simulated": {"bootTime": "long"}}}
    assert boot_times(held(), odd, ["simulated"]) == {}


def test_an_alias_is_the_provider_it_means():
    joined = a_condition("Registered", "True", "Registered")
    request = a_request("a", joined)
    offer = ChosenOffer(provider="vast", instance_type="x")
    attempt = Attempt(number=1, token="t", offer=offer)
    status = msgspec.structs.replace(request.value.status, attempts=(attempt,))
    request = msgspec.structs.replace(request, value=msgspec.structs.replace(request.value, status=status))

    assert boots_seen(held(request), {}, ["vast.ai"]) == {"vast.ai": rfc3339(NOW)}


def test_a_class_that_is_leaving_says_what_it_waits_for():
    verdict = leaving(held(a_request("a"), a_request("b"), over()), (), NOW)

    assert (verdict.type, verdict.status, verdict.reason) == ("Ready", False, "Deleting")
    assert "2 machines at $3.00/h: team/a, team/b" in verdict.message
    assert "No machine is left" in leaving(held(over()), (), NOW).message


def test_what_a_request_says_of_itself_only_concerns_no_class():
    before = a_request("a", message="boots", phase="Booting")

    assert machine_count_of(before) == machine_count_of(a_request("a", message="joins", phase="Joining", node_name="n"))
    assert machine_count_of(before) != machine_count_of(a_request("a", spent="0.10"))
