"""A class's status shows its machines and costs, and is written only when that changes."""

import asyncio
import re
from collections.abc import Mapping

import pytest

from tests.core.controllers.inventory import HOME, MemoryApi
from tests.core.joining.packing import Facts
from tgp.adapters.kube.store import Store
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NODE
from tgp.controllers.classes.reconciler import NodeClassReconciler
from tgp.controllers.count_pace import COUNTED_EVERY, FEW_REQUESTS
from tgp.controllers.market.reconciler import MarketState
from tgp.controllers.status_writer import StatusWriter
from tgp.core.classes.checks import OWNED
from tgp.core.inventory.in_use import IN_USE
from tgp.core.inventory.orphans import Stuck
from tgp.core.model.facts import Fact
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.secret import Secret
from tgp.sim.loop import VirtualLoop
from tgp.sim.loop import close as close_loop

RENTED, TRAIN = ObjectKey("", "rented"), ObjectKey("default", "train")


class NoSecretReader:
    async def read(self, name: str) -> Mapping[str, Secret] | None:  # noqa: ARG002 - there is none
        return None


class Notes:
    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def note(self, fact: Fact) -> None:
        self.facts.append(fact)


@pytest.fixture
def loop():
    loop = VirtualLoop()
    yield loop
    close_loop(loop)


class ClassHarness:
    def __init__(self, loop: VirtualLoop) -> None:
        self.memory_api, self._loop = MemoryApi(loop), loop
        self.stuck: list[Stuck] = []
        self.reconciler = self.another()

    def another(self) -> NodeClassReconciler:
        """As in a process of its own."""
        memory_api = self.memory_api
        return NodeClassReconciler(
            memory_api.classes,
            NoSecretReader(),
            MarketState(),
            StatusWriter(GPU_NODE_CLASS, OWNED, memory_api.cluster, Notes(), memory_api.clock),
            memory_api.clock,
            nodes=Store(NODE),
            clouds=Facts(),  # type: ignore[arg-type]  # only asked for facts
            namespace=HOME,
            default_backend="none",
            time_zones=frozenset,
            requests=memory_api.requests,
            stuck=lambda: self.stuck,
        )

    def turn(self) -> int:
        """How often the class was written."""
        before = len(self.memory_api.line.changes)
        gone = [record for record in self.memory_api.requests.values() if self._is_gone(record.key)]
        self.memory_api.look()
        for record in gone:
            list(self.reconciler.holding(record, None))
        self._loop.run_until_complete(self.reconciler.reconcile(RENTED))
        self.memory_api.look()
        return len(self.memory_api.line.changes) - before

    def _is_gone(self, key: ObjectKey) -> bool:
        return self.memory_api.server.local_api.get(GPU_REQUEST, *key) is None

    @property
    def status(self):
        return self.memory_api.get(GPU_NODE_CLASS, "", "rented")["status"]

    def condition(self, name: str):
        return next((each for each in self.status["conditions"] if each["type"] == name), None)


def test_totals_follow_the_requests_and_are_written_once(loop):
    harness = ClassHarness(loop)
    harness.memory_api.a_class(spec={"limits": {"maxNodes": 1}})
    assert harness.turn() == 1
    assert "activeNodes" not in harness.status

    harness.memory_api.a_request(launchedAt="2026-11-16T12:00:00Z", outcome="Launched")
    assert harness.turn() == 1
    assert (harness.status["activeNodes"], harness.status["hourlyCost"]) == (1, "1.50")
    assert harness.condition("LimitReached")["status"] == "True"
    assert harness.turn() == 0

    harness.memory_api.attempt("train", endedAt="2026-11-16T13:00:00Z", outcome="Terminated", spent="1.50")
    assert harness.turn() == 1
    assert (harness.status["activeNodes"], harness.status["hourlyCost"], harness.status["totalCost"]) == (
        0,
        "0.00",
        "1.50",
    )
    assert harness.condition("LimitReached") is None
    assert harness.turn() == 0


def test_a_class_with_many_requests_is_counted_once_a_second_unless_its_spec_changes(loop):
    harness = ClassHarness(loop)
    harness.memory_api.a_class()
    for number in range(FEW_REQUESTS + 1):
        harness.memory_api.a_request(f"train-{number}", launchedAt="2026-11-16T12:00:00Z", outcome="Launched")
    assert harness.turn() == 1
    harness.memory_api.attempt("train-1", endedAt="2026-11-16T13:00:00Z", outcome="Terminated", spent="1.50")
    assert harness.turn() == 0
    loop.run_until_complete(asyncio.sleep(COUNTED_EVERY))
    assert harness.turn() == 1
    assert harness.status["activeNodes"] == FEW_REQUESTS

    limits = {"spec": {"limits": {"maxNodes": 1}}}
    harness.memory_api.server.local_api.merge_patch(GPU_NODE_CLASS, "", "rented", limits)
    assert harness.turn() == 1
    assert harness.condition("LimitReached")["status"] == "True"


def test_a_class_reports_the_machine_that_no_request_owns_and_that_does_not_end(loop):
    """Once, however often its provider is asked; and no more when it is gone. Other accounts do not matter."""
    harness = ClassHarness(loop)
    harness.memory_api.a_class()
    harness.turn()
    machines = [Instance(f"i-{n}", "t", InstanceState.RUNNING, hourly_microusd=n * 1_000_000) for n in (1, 2)]
    harness.stuck = [Stuck("elsewhere", machines[0], "500")]
    assert harness.turn() == 0

    access = "simulated"
    harness.stuck = [Stuck(access, machine, "termination requested 3 times: 500") for machine in machines]
    assert harness.turn() == 1
    assert harness.condition("OrphanTerminationFailing")["reason"] == "TerminationFailing"
    assert harness.condition("OrphanTerminationFailing")["message"] == (
        f"Machine i-2 at {access}, and 1 more: owned by no request and still billed at $3.00/h; "
        "termination requested 3 times: 500. tgp doctor --orphans lists them."
    )
    assert list(harness.reconciler.halted_at(None, None)) == [RENTED]
    assert harness.turn() == 0

    harness.stuck = []
    assert list(harness.reconciler.halted_at(None, None)) == [RENTED]
    assert harness.turn() == 1
    assert harness.condition("OrphanTerminationFailing") is None
    assert list(harness.reconciler.halted_at(None, None)) == []


def test_what_a_deleted_request_spent_stays_spent_across_processes(loop):
    harness = ClassHarness(loop)
    harness.memory_api.a_class()
    harness.memory_api.a_request("train", endedAt="2026-11-16T13:00:00Z", spent="2.00")
    harness.turn()
    harness.memory_api.server.local_api.delete(GPU_REQUEST, *TRAIN)
    harness.turn()
    assert harness.status["totalCost"] == "2.00"

    harness.memory_api.a_request("next", endedAt="2026-11-16T13:00:00Z", spent="3.00")
    harness.turn()
    assert harness.status["totalCost"] == "5.00"

    harness.reconciler = harness.another()
    assert harness.turn() == 0
    harness.memory_api.a_request("last", endedAt="2026-11-16T13:00:00Z", spent="4.00")
    harness.turn()
    assert harness.status["totalCost"] == "9.00"


def test_a_class_that_is_deleted_says_what_it_waits_for(loop):
    harness = ClassHarness(loop)
    harness.memory_api.a_class(metadata={"finalizers": [IN_USE]})
    harness.memory_api.a_request(launchedAt="2026-11-16T12:00:00Z")
    harness.turn()
    credentials = harness.condition("CredentialsValid")
    harness.memory_api.server.local_api.delete(GPU_NODE_CLASS, "", "rented")

    assert harness.turn() == 1
    assert harness.condition("Ready")["reason"] == "Deleting"
    assert "1 machine at $1.50/h: default/train" in harness.condition("Ready")["message"]
    assert harness.condition("CredentialsValid")["reason"] == credentials["reason"]
    assert harness.turn() == 0


@pytest.mark.parametrize(
    ("finalizers", "said"),
    [
        ([IN_USE], r"No machine is left; the class is gone by \d\d:\d\d:\d\dZ\."),
        (["a.io/b", IN_USE], r"No machine is left; the class is gone once finalizers of others are removed: a\.io/b\."),
    ],
)
def test_a_class_that_is_deleted_without_machines_says_when_it_is_gone(loop, finalizers, said):
    harness = ClassHarness(loop)
    harness.memory_api.a_class(metadata={"finalizers": finalizers})
    harness.turn()
    harness.memory_api.server.local_api.delete(GPU_NODE_CLASS, "", "rented")

    assert harness.turn() == 1
    ready = harness.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Deleting")
    assert re.fullmatch(said, ready["message"])
    assert harness.turn() == 0


def test_a_class_is_woken_by_what_concerns_it(loop):
    harness = ClassHarness(loop)
    harness.memory_api.a_request()
    harness.memory_api.look()
    before = harness.memory_api.requests.get(TRAIN)
    harness.memory_api.status("train", message="boots")
    harness.memory_api.look()
    same = harness.memory_api.requests.get(TRAIN)
    harness.memory_api.attempt("train", launchedAt="2026-11-16T12:00:00Z")
    harness.memory_api.look()
    launched = harness.memory_api.requests.get(TRAIN)

    assert list(harness.reconciler.holding(None, before)) == [RENTED]
    assert list(harness.reconciler.holding(before, same)) == []
    assert list(harness.reconciler.holding(same, launched)) == [RENTED]
    assert list(harness.reconciler.holding(launched, None)) == [RENTED]
