"""A change that an admission policy refuses, each time: no other pod or Job waits for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from tests.sim.test_budget_admission import gated, install, used_up
from tests.sim.test_budget_exact import exact, held
from tests.sim.test_budget_pauses import a_job, edit, events, suspended
from tests.sim.test_budgets import a_budget, a_team_pod, begin
from tgp.adapters.kube.operator_cluster import OperatorCluster
from tgp.ports.cluster import Refused
from tgp.sim.world import World


@pytest.fixture
def world() -> Iterator[World]:
    with World("refusals") as world:
        install(world)
        begin(world)
        yield world


@contextmanager
def refusing(name: str) -> Iterator[Callable[[], int]]:
    """Every change of what has this name; how often it was asked for."""
    shipped, asked = OperatorCluster.patch, []

    async def refuse(self: OperatorCluster, resource: Any, key: Any, change: Any, **more: Any) -> Any:
        if key.name == name:
            asked.append(change)
            raise Refused("ValidatingAdmissionPolicy 'frozen' denied request")
        return await shipped(self, resource, key, change, **more)

    with patch.object(OperatorCluster, "patch", refuse):
        yield lambda: len(asked)


def test_other_finished_pods_go_on_when_one_may_not_be_changed(world):
    exact(world)
    for name in ("a-first", "b-second"):
        a_team_pod(world, name, run_for="2m")
    world.run(minutes=1)
    assert held(world) == ["a-first", "b-second"]
    with refusing("a-first") as asked:
        world.run(minutes=10)
        assert held(world) == ["a-first"]
        assert 7 <= asked() <= 12, "every minute"
    assert events(world, "Pod", "ReleaseBlocked") == 1
    world.run(minutes=2)
    assert held(world) == []


def test_other_pods_are_held_when_one_may_not_be_changed(world):
    a_budget(world)
    for name in ("a-first", "b-second"):
        a_team_pod(world, name)
    world.run(minutes=1)
    with refusing("a-first"):
        edit(world, accounting="Exact")
        world.run(minutes=3)
        assert held(world) == ["b-second"]
    assert events(world, "Pod", "HoldBlocked") == 1


def test_other_jobs_are_resumed_when_one_may_not_be_changed(world):
    a_budget(world, hours="0.05", window=1, action="Pause", gracePeriodSeconds=0)
    for name in ("a-first", "b-second"):
        a_job(world, name)
    world.run(minutes=5)
    assert [suspended(world, name) for name in ("a-first", "b-second")] == [True, True]
    with refusing("a-first"):
        edit(world, quota={"gpuHours": "100"})
        world.run(minutes=3)
        assert [suspended(world, name) for name in ("a-first", "b-second")] == [True, False]
    assert events(world, "Job", "ReleaseBlocked") == 1
    assert events(world, "Job", "Resumed") == 1
    world.run(minutes=2)
    assert not suspended(world, "a-first")


def test_other_gates_are_lifted_when_one_may_not_be_changed(world):
    used_up(world, "Gate")
    for name in ("a-first", "b-second"):
        a_team_pod(world, name)
        world.run(seconds=2)
    with refusing("a-first"):
        edit(world, quota={"gpuHours": 100})
        world.run(minutes=3)
        assert gated(world) == ["a-first"]
    assert events(world, "Pod", "ReleaseBlocked") == 1
    world.run(minutes=2)
    assert gated(world) == []
