"""The legacy budgets in a whole world: their mirrors come, follow and go; their kind may be missing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.amounts import amount
from tests.sim.an_operator import LONE, NAMESPACE_NAME, create, operator_main, settle, writes
from tests.sim.test_leadership_status import Replica
from tgp.adapters.kube.events import CORE_EVENT
from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, GPU_WORKLOAD_BUDGET, LEGACY_BUDGET, NAMESPACE, Resource
from tgp.sim.checkers.objects import Quiet
from tgp.sim.faults import swarm
from tgp.sim.world import World

EARLY = Path(__file__).parents[2] / "deploy" / "examples" / "seeds" / "readme-legacy-budget.yaml"
README: dict[str, Any] = YAML(typ="safe", pure=True).load(EARLY.read_text(encoding="utf-8"))
NAME = README["metadata"]["name"]
CRDS = {crd["metadata"]["name"]: crd for crd in crds(legacy=True)}
LEGACY_CRD = f"{LEGACY_BUDGET.plural}.{LEGACY_BUDGET.group}"


@pytest.fixture
def world() -> Iterator[World]:
    """All kinds and an operator."""
    with World("twins") as world:
        furnished(world)
        world.process("operator", operator_main(LONE))
        yield world


def furnished(world: World, *, legacy: bool = True) -> None:
    for name, crd in CRDS.items():
        if legacy or name != LEGACY_CRD:
            world.api.local_api.create(CUSTOM_RESOURCE_DEFINITION, crd)
    create(world, NAMESPACE, NAMESPACE_NAME)


def apply(world: World, name: str = NAME, **spec: Any) -> None:
    create(world, LEGACY_BUDGET, name, "default", spec={**README["spec"], **spec})


def found(world: World, resource: Resource, name: str = NAME) -> dict[str, Any]:
    return world.api.local_api.get(resource, "default", name) or {}


def mirror(world: World, name: str = NAME) -> dict[str, Any]:
    return found(world, GPU_WORKLOAD_BUDGET, name)


def condition(world: World, kind: str, name: str = NAME) -> tuple[str, str]:
    rows = found(world, LEGACY_BUDGET, name).get("status", {}).get("conditions", [])
    return next(((row["status"], row["reason"]) for row in rows if row["type"] == kind), ("", ""))


def tell(world: World, name: str = NAME, **status: Any) -> None:
    """What the budget controller would write into a mirror's status."""
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, "default", name, {"status": status}, "status")


def change(world: World, resource: Resource, name: str = NAME, **spec: Any) -> None:
    world.api.local_api.merge_patch(resource, "default", name, {"spec": spec})


def test_the_readmes_budget_gets_a_mirror_that_says_the_same(world):
    apply(world)
    settle(world)

    spec = mirror(world)["spec"]
    assert {name: spec[name] for name in README["spec"]} == {
        **README["spec"],
        "enforcement": {**README["spec"]["enforcement"], "admission": "Off"},  # its default
    }
    (owner,) = mirror(world)["metadata"]["ownerReferences"]
    assert owner["uid"] == found(world, LEGACY_BUDGET)["metadata"]["uid"]
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")


def test_a_changed_spec_follows_and_labels_that_go_are_gone(world):
    apply(world, selector={"matchLabels": {"team": "a", "tier": "batch"}})
    settle(world)
    change(world, GPU_WORKLOAD_BUDGET, accounting="Exact")
    change(world, LEGACY_BUDGET, quota={"gpuHours": 3}, selector={"matchLabels": {"tier": None, "stage": "dev"}})
    settle(world)

    spec = mirror(world)["spec"]
    assert spec["quota"] == {"gpuHours": 3, "windowHours": 24}
    assert spec["selector"] == {"matchLabels": {"team": "a", "stage": "dev"}}
    assert spec["accounting"] == "Exact", "set on the mirror; the legacy kind does not have this field"
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")


def test_a_mirrors_status_is_mirrored_back(world):
    apply(world)
    settle(world)
    shown, counted = found(world, LEGACY_BUDGET)["status"], mirror(world)["status"]

    assert (shown["consumedGpuHours"], shown["remainingGpuHours"], shown["trackedPods"]) == ("0", "100", 0)
    assert shown["observedGeneration"] == 1
    assert shown["conditions"] == counted["conditions"]
    assert "account" not in shown
    tell(world, consumedGpuHours="120.5", account=None)
    settle(world)
    assert found(world, LEGACY_BUDGET)["status"]["consumedGpuHours"] == "0", "the mirror's own controller put it back"


def test_a_deleted_legacy_budget_takes_its_mirror_along_and_a_deleted_mirror_comes_back(world):
    apply(world)
    settle(world)
    uid = mirror(world)["metadata"]["uid"]
    world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", NAME)
    settle(world)
    assert mirror(world)["metadata"]["uid"] != uid

    world.api.local_api.delete(LEGACY_BUDGET, "default", NAME)
    settle(world)
    assert mirror(world) == {}


def test_a_name_that_is_taken_is_said_and_free_again_it_is_used(world):
    """A user's own budget is neither changed nor counted as the legacy one's."""
    own = {**README["spec"], "quota": {"gpuHours": 1, "windowHours": 1}}
    create(world, GPU_WORKLOAD_BUDGET, NAME, "default", spec=own)
    settle(world)
    before = mirror(world)
    apply(world)
    settle(world)

    assert condition(world, "Degraded") == ("True", "NameTaken")
    assert condition(world, "Ready") == ("False", "NameTaken")
    assert "consumedGpuHours" not in found(world, LEGACY_BUDGET)["status"]
    assert mirror(world) == before
    told = [event for event in world.api.local_api.objects(CORE_EVENT) if event["reason"] == "NameTaken"]
    assert [(event["type"], event["involvedObject"]["apiVersion"]) for event in told] == [
        ("Warning", "budget.zxuhan.dev/v1alpha1")
    ]

    world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", NAME)
    settle(world)

    assert mirror(world)["spec"]["quota"] == README["spec"]["quota"]
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")
    assert condition(world, "Ready") == ("True", "Reconciled")


def test_a_mirror_that_people_change_is_left_so_until_the_legacy_budget_changes(world):
    apply(world)
    settle(world)
    change(world, GPU_WORKLOAD_BUDGET, quota={"gpuHours": 500})
    settle(world)
    assert condition(world, "Degraded") == ("True", "MirrorEdited")
    with Quiet(world):
        world.run(minutes=50)
    assert mirror(world)["spec"]["quota"]["gpuHours"] == 500

    change(world, LEGACY_BUDGET, enforcement={"gracePeriodSeconds": 5})
    settle(world)
    assert mirror(world)["spec"]["quota"]["gpuHours"] == "100"
    assert condition(world, "Degraded") == ("False", "ReconcileSucceeded")


def test_a_quiet_hour_with_mirrors_is_no_write_and_a_restart_writes_nothing():
    with World("twins at rest") as world:
        furnished(world)
        for number in range(10):
            apply(world, f"team-{number}")
        create(world, GPU_WORKLOAD_BUDGET, "team-0", "default", spec=README["spec"])
        process = world.process("operator", operator_main(LONE))
        settle(world)
        world.run(hours=1)  # then each says that no pod matches
        with Quiet(world):
            world.run(hours=1)
        with Quiet(world):
            process.crash(restart_after=5)
            world.run(minutes=5)

        assert process.starts == 2
        assert found(world, LEGACY_BUDGET, "team-3")["status"]["consumedGpuHours"] == "0"


def test_without_the_legacy_kind_nothing_is_said_and_once_installed_it_begins_within_five_minutes(caplog):
    with World("no legacy budgets") as world:
        furnished(world, legacy=False)
        replica = Replica(world, "one")
        settle(world)
        world.run(hours=1)

        assert replica.troubles(world) == []
        assert replica.operator.runtime.synced, "nothing is waited for"
        assert writes(world) == []
        assert not [line for line in caplog.records if "GPUWorkloadBudget" in str(vars(line))]

        world.api.local_api.create(CUSTOM_RESOURCE_DEFINITION, CRDS[LEGACY_CRD])
        apply(world)
        world.run(seconds=302)
        assert mirror(world)["spec"]["quota"] == README["spec"]["quota"]

        world.api.local_api.delete(CUSTOM_RESOURCE_DEFINITION, "", LEGACY_CRD)
        world.run(minutes=10)
        assert replica.troubles(world) == []
        assert not [line for line in caplog.records if "GPUWorkloadBudget" in str(vars(line))]


FAULTY_MINUTES = amount(12, 30)


@pytest.mark.parametrize("seed", range(amount(1, 8)))
def test_with_any_faults_each_legacy_budget_gets_one_mirror_and_then_nothing_is_written(seed):
    with World(f"twins-{seed}", faults=swarm(f"twins-{seed}")) as world:
        furnished(world)
        world.process("one", operator_main(shipped=True))
        world.process("two", operator_main(shipped=True))
        for number in range(5):
            apply(world, f"team-{number}")
        create(world, GPU_WORKLOAD_BUDGET, "team-0", "default", spec=README["spec"])
        world.run(minutes=FAULTY_MINUTES)
        change(world, LEGACY_BUDGET, "team-1", quota={"gpuHours": 3})
        tell(world, "team-2", consumedGpuHours="5", account=None)
        world.api.local_api.delete(LEGACY_BUDGET, "default", "team-4")
        world.run(minutes=FAULTY_MINUTES)

        world.calm()
        world.run(minutes=10)
        with Quiet(world):
            world.run(minutes=amount(20, 60))

        assert condition(world, "Degraded", "team-0")[1] == "NameTaken"
        assert mirror(world, "team-1")["spec"]["quota"]["gpuHours"] == 3
        assert found(world, LEGACY_BUDGET, "team-2")["status"]["consumedGpuHours"] == "0"
        assert mirror(world, "team-3")
        assert mirror(world, "team-4") == {}
