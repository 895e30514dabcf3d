"""A Node goes when nobody owns its machine and the machine is shown to be gone; never before, and nobody else's."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tests.core.controllers.tills import CLUSTER, VULTR, a_class, a_machine, a_record, a_token, an_attempt
from tgp.adapters.kube.store import Store
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NODE
from tgp.controllers.leftover_nodes import GONE_AFTER, LeftoverNodes
from tgp.controllers.request_index import INDEXES
from tgp.controllers.rosters import Roster, Rosters
from tgp.core.model.key import Key
from tgp.core.model.node import Node
from tgp.core.rules.node_state import provider_id_of

AT = Key("", "train-1-abc")


class AClock:
    at = 1000.0

    def boottime(self) -> float:
        return self.at

    def now(self) -> datetime:
        return datetime(2026, 1, 5, tzinfo=UTC) + timedelta(seconds=self.at)


class Stage:
    def __init__(self, *, ready: bool | None = False, provider_id: str = "", cluster: str = CLUSTER) -> None:
        self.clock = AClock()
        self.rosters = Rosters(self.clock.boottime)
        self.requests, self.classes, self.nodes = Store(GPU_REQUEST, INDEXES), Store(GPU_NODE_CLASS), Store(NODE)
        self.classes.put(a_class())
        mark = provider_id or provider_id_of("vultr", a_token(1))
        self.nodes.put(Node(key=AT, uid="n-1", resource_version=1, provider_id=mark, ready=ready))
        self.removed: list[Key] = []
        self.keeper = LeftoverNodes(
            nodes=self.nodes,
            requests=self.requests,
            classes=self.classes,
            rosters=self.rosters,
            cluster_id=lambda: cluster,
            cluster=self,
            clock=self.clock,
        )

    async def delete(self, resource, key, *, uid="", resource_version="") -> None:  # noqa: ARG002 - as the port has it
        assert (resource, uid) == (NODE, "n-1")
        self.removed.append(key)

    def listed(self, *machines, began: float) -> None:
        self.rosters.put(VULTR.name, Roster("account", began, machines))

    def turn(self) -> datetime | None:
        return asyncio.run(self.keeper.reconcile(AT))

    def passes(self, *machines) -> list[Key]:
        """Nobody owned it for long, and the provider was listed after that."""
        self.turn()
        self.clock.at += GONE_AFTER + 10
        self.listed(*machines, began=self.clock.at - 1)
        self.turn()
        return self.removed


def test_a_node_whose_machine_is_gone_and_that_nobody_owns_goes():
    assert Stage().passes() == [AT]


def test_it_waits_until_lists_have_had_time_to_show_the_machine():
    stage = Stage()
    stage.turn()
    stage.listed(began=stage.clock.at + 1)
    stage.clock.at += GONE_AFTER + 10

    assert stage.turn() is not None
    assert stage.removed == []


def test_a_machine_that_is_still_listed_keeps_its_node():
    assert Stage().passes(a_machine(1)) == []


def test_an_owner_keeps_its_node():
    stage = Stage()
    stage.requests.put(a_record(1, an_attempt(1)))

    assert stage.passes() == []


def test_of_an_earlier_attempt_it_goes():
    stage = Stage()
    stage.requests.put(a_record(1, an_attempt(1, 2)))

    assert stage.passes() == [AT]


@pytest.mark.parametrize(
    "other",
    [
        {"provider_id": "aws:///us-east-1a/i-1"},
        {"provider_id": provider_id_of("vultr", a_token(1, cluster="fedcba9876"))},
        {"cluster": ""},
        {"ready": True},
    ],
    ids=["a stranger's", "another cluster's", "cluster not known yet", "alive"],
)
def test_what_is_not_surely_ours_and_dead_stays(other):
    assert Stage(**other).passes() == []


def test_an_unreadable_request_owns_whatever_bears_its_uid():
    stage = Stage()
    stage.requests.put(a_record(1, an_attempt(1), unreadable=True))

    assert stage.passes() == []
