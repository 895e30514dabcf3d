"""The table of a class's checks: each decides the condition it is listed under, and Ready sums them up."""

from typing import Any

import pytest

from tests.core.classes.test_nodeclass import a_class
from tests.core.market.offers import NOW
from tgp.core.classes.checks import CHECKS, LOOK_AGAIN_AFTER, OWNED, class_status, conditions_of, deleting_status
from tgp.core.classes.machines_status import ClassMachines
from tgp.core.classes.nodeclass import ClassPreflight, ClassReferences, Gap
from tgp.core.classes.observation import ClassObservation
from tgp.core.inventory.in_use import IN_USE
from tgp.core.inventory.orphans import Stuck
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.source_status import KeyState, SourceStatus

REFUSED = SourceStatus("simulated", "Simulated", (), sells_spot=False, key=KeyState(valid=False, why="expired"))
BOOT_GAP = Gap("TemplateRefused", "the machine config template: line 3")


def observed(spec: dict[str, Any] | None = None, **seen: Any) -> ClassObservation:
    return ClassObservation(ClassReferences(a_class(**(spec or {})), {}, "tgp-system", "", frozenset()), NOW, **seen)


def stored(name: str, status: str, reason: str, generation: int = 0) -> dict[str, Any]:
    return {"type": name, "status": status, "reason": reason, "message": "as before", "observedGeneration": generation}


def sources(status: SourceStatus) -> dict[str, SourceStatus]:
    return {standing.source.name: status for standing in observed().standings}


def everything() -> ClassObservation:
    """Every condition that does not depend on prices or machines, at once."""
    instance = Instance("i-1", "tgp-x-1", InstanceState.RUNNING, hourly_microusd=1_000_000)
    return observed(
        {"instanceRequirements": {"spotAllowed": True}},
        source_statuses=sources(REFUSED),
        preflight=ClassPreflight(
            (BOOT_GAP,),
            ConditionUpdate("TemplateConverted", True, "OldTemplate", "x"),
            ConditionUpdate("TemplateUnchecked", True, "PassedThrough", "x"),
        ),
        preparing="Talos v1.10: 40 %",
        halted="9 of 10 machines have no owner",
        stuck=(Stuck("simulated", instance, "no answer"),),
    )


def test_each_check_decides_the_condition_it_is_listed_under():
    observation = everything()
    found = {name: verdict.type for name, check in CHECKS.items() if (verdict := check(observation)) is not None}

    assert found == {name: name for name in found}
    assert {"SweepHalted", "OrphanTerminationFailing", "ImagePreparing", "SpotUnavailable", "CanBuy"} <= found.keys()
    assert conditions_of(observation).keys() == {"Ready", *found} <= OWNED


@pytest.mark.parametrize(
    ("spec", "seen", "reason"),
    [
        ({"suspend": True}, {"preflight": ClassPreflight((BOOT_GAP,))}, "TemplateRefused"),
        ({"suspend": True}, {"source_statuses": sources(REFUSED)}, "Suspended"),
        ({}, {"source_statuses": sources(REFUSED)}, "KeyRefused"),
        ({}, {"status": {"conditions": [stored("CanBuy", "False", "CannotBuy")]}}, "CannotBuy"),
        ({}, {"status": {"conditions": [stored("CanBuy", "False", "CannotBuy")]}, "generation": 2}, "Valid"),
        ({}, {}, "Valid"),
    ],
)
def test_ready_gives_the_first_reason_that_applies(spec: dict[str, Any], seen: dict[str, Any], reason: str):
    assert conditions_of(observed(spec, **seen))["Ready"].reason == reason


def test_conditions_of_the_market_stay_as_they_are_stored_until_every_provider_was_polled():
    held = [stored("OffersFresh", "True", "Fresh"), stored("SpotUnavailable", "True", "NoSpotProvider")]
    found = conditions_of(observed(status={"conditions": held}))

    assert found["OffersFresh"] == ConditionUpdate("OffersFresh", True, "Fresh", "as before")
    assert found["SpotUnavailable"].message == "as before"
    assert "CanBuy" not in found
    assert "SpotUnavailable" not in conditions_of(
        observed(status={"conditions": held}, source_statuses=sources(REFUSED))
    )


def test_a_class_without_news_is_looked_at_again_after_a_while_and_has_nothing_to_write():
    status = class_status(observed())

    assert (status.parts, status.again_at) == (None, NOW + LOOK_AGAIN_AFTER)


def test_a_class_without_machines_that_is_deleted_says_so():
    record = KubeObject(key=ObjectKey("", "c"), deletion_requested_at=NOW, finalizers=(IN_USE,))
    (ready,) = deleting_status(record, ClassMachines(), NOW).conditions

    said = "No machine is left; the class is gone by 12:05:00Z."
    assert (ready.status, ready.reason, ready.message) == (False, "Deleting", said)
