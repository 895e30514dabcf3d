"""A class's status tells what it holds, and is written when that changes and at no other time."""

from collections.abc import Mapping

import pytest

from tests.core.controllers.holding import HOME, House
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST
from tgp.controllers.market import Market
from tgp.controllers.nodeclasses import NodeClassReconciler
from tgp.controllers.verdicts import Scribe
from tgp.core.model.facts import Fact
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.key import Key
from tgp.core.model.secret import Secret
from tgp.core.rules import nodeclass
from tgp.core.rules.collector import Stuck
from tgp.core.rules.holds import IN_USE
from tgp.sim.loop import VirtualLoop
from tgp.sim.loop import close as close_loop

RENTED, TRAIN = Key("", "rented"), Key("default", "train")


class NoVault:
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


class Desk:
    def __init__(self, loop: VirtualLoop) -> None:
        self.house, self._loop = House(loop), loop
        self.stuck: list[Stuck] = []
        self.reconciler = self.another()

    def another(self) -> NodeClassReconciler:
        """As in a process of its own."""
        house = self.house
        return NodeClassReconciler(
            house.classes,
            NoVault(),
            Market(),
            Scribe(GPU_NODE_CLASS, nodeclass.OWNED, house.cluster, Notes(), house.clock),
            house.clock,
            namespace=HOME,
            default_backend="none",
            time_zones=frozenset(),
            requests=house.requests,
            stuck=lambda: self.stuck,
        )

    def turn(self) -> int:
        """How often the class was written."""
        before = len(self.house.line.changes)
        gone = [record for record in self.house.requests.values() if self._is_gone(record.key)]
        self.house.look()
        for record in gone:
            list(self.reconciler.holding(record, None))
        self._loop.run_until_complete(self.reconciler.reconcile(RENTED))
        self.house.look()
        return len(self.house.line.changes) - before

    def _is_gone(self, key: Key) -> bool:
        return self.house.server.backstage.get(GPU_REQUEST, *key) is None

    @property
    def status(self):
        return self.house.get(GPU_NODE_CLASS, "", "rented")["status"]

    def condition(self, name: str):
        return next((each for each in self.status["conditions"] if each["type"] == name), None)


def test_totals_follow_the_requests_and_are_written_once(loop):
    desk = Desk(loop)
    desk.house.a_class(spec={"limits": {"maxNodes": 1}})
    assert desk.turn() == 1
    assert "activeNodes" not in desk.status

    desk.house.a_request(launchedAt="2026-11-16T12:00:00Z", outcome="Launched")
    assert desk.turn() == 1
    assert (desk.status["activeNodes"], desk.status["hourlyCost"]) == (1, "1.50")
    assert desk.condition("LimitReached")["status"] == "True"
    assert desk.turn() == 0

    desk.house.attempt("train", endedAt="2026-11-16T13:00:00Z", outcome="Returned", spent="1.50")
    assert desk.turn() == 1
    assert (desk.status["activeNodes"], desk.status["hourlyCost"], desk.status["totalCost"]) == (0, "0.00", "1.50")
    assert desk.condition("LimitReached") is None
    assert desk.turn() == 0


def test_a_class_tells_of_the_machine_that_nobody_owns_and_that_does_not_end(loop):
    """Once, however often its provider is asked; and no more when it is gone. Others' tills are others' business."""
    desk = Desk(loop)
    desk.house.a_class()
    desk.turn()
    machines = [Instance(f"i-{n}", "t", InstanceState.RUNNING, hourly_microusd=n * 1_000_000) for n in (1, 2)]
    desk.stuck = [Stuck("elsewhere", machines[0], "500")]
    assert desk.turn() == 0

    till = "simulated"
    desk.stuck = [Stuck(till, machine, "asked to end 3 times: 500") for machine in machines]
    assert desk.turn() == 1
    assert desk.condition("OrphanStays")["reason"] == "TerminationFailing"
    assert desk.condition("OrphanStays")["message"] == (
        f"no request owns machine i-2 at {till}, and 1 more: costs $3.00/h and does not end; "
        "asked to end 3 times: 500; see tgp doctor --orphans"
    )
    assert list(desk.reconciler.halted_at(None, None)) == [RENTED]
    assert desk.turn() == 0

    desk.stuck = []
    assert list(desk.reconciler.halted_at(None, None)) == [RENTED]
    assert desk.turn() == 1
    assert desk.condition("OrphanStays") is None
    assert list(desk.reconciler.halted_at(None, None)) == []


def test_what_a_deleted_request_spent_stays_spent_across_processes(loop):
    desk = Desk(loop)
    desk.house.a_class()
    desk.house.a_request("train", endedAt="2026-11-16T13:00:00Z", spent="2.00")
    desk.turn()
    desk.house.server.backstage.delete(GPU_REQUEST, *TRAIN)
    desk.turn()
    assert desk.status["totalCost"] == "2.00"

    desk.house.a_request("next", endedAt="2026-11-16T13:00:00Z", spent="3.00")
    desk.turn()
    assert desk.status["totalCost"] == "5.00"

    desk.reconciler = desk.another()
    assert desk.turn() == 0
    desk.house.a_request("last", endedAt="2026-11-16T13:00:00Z", spent="4.00")
    desk.turn()
    assert desk.status["totalCost"] == "9.00"


def test_a_class_that_is_deleted_says_what_it_waits_for(loop):
    desk = Desk(loop)
    desk.house.a_class(metadata={"finalizers": [IN_USE]})
    desk.house.a_request(launchedAt="2026-11-16T12:00:00Z")
    desk.turn()
    credentials = desk.condition("CredentialsValid")
    desk.house.server.backstage.delete(GPU_NODE_CLASS, "", "rented")

    assert desk.turn() == 1
    assert desk.condition("Ready")["reason"] == "Deleting"
    assert "1 machine at $1.50/h: default/train" in desk.condition("Ready")["message"]
    assert desk.condition("CredentialsValid")["reason"] == credentials["reason"]
    assert desk.turn() == 0


def test_a_class_is_woken_by_what_concerns_it(loop):
    desk = Desk(loop)
    desk.house.a_request()
    desk.house.look()
    before = desk.house.requests.get(TRAIN)
    desk.house.status("train", message="boots")
    desk.house.look()
    same = desk.house.requests.get(TRAIN)
    desk.house.attempt("train", launchedAt="2026-11-16T12:00:00Z")
    desk.house.look()
    launched = desk.house.requests.get(TRAIN)

    assert list(desk.reconciler.holding(None, before)) == [RENTED]
    assert list(desk.reconciler.holding(before, same)) == []
    assert list(desk.reconciler.holding(same, launched)) == [RENTED]
    assert list(desk.reconciler.holding(launched, None)) == [RENTED]
