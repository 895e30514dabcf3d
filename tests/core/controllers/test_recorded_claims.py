"""A record counts for others where its class serves its namespace, or where something else shows its machine."""

from dataclasses import dataclass, field

import msgspec
import pytest

from tests.core.controllers.account_access import HandClock
from tests.core.controllers.accounts import MemoryConfigMap, accounts_on
from tests.core.controllers.test_ledger import a_record, uid
from tests.core.requests.an_observation import ACCOUNT, CLUSTER, a_machine
from tgp.adapters.kube.store import Store
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE, NODE
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache, InstanceSnapshot
from tgp.controllers.instances.recorded_claims import RecordedClaims
from tgp.controllers.requests.indexes import INDEXES
from tgp.controllers.requests.ledger import BELIEVED_GONE_AFTER
from tgp.core.model.attempts import attempts_of, provider_of
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import token_for
from tgp.core.model.workload import Namespace
from tgp.core.requests.own_node import reserved_node_name

OURS = {"matchLabels": {"team": "ours"}}


@dataclass
class ClaimsWorld:
    clock: HandClock = field(default_factory=HandClock)
    classes: Store[KubeObject[GPUNodeClass]] = field(default_factory=lambda: Store(GPU_NODE_CLASS))
    namespaces: Store[Namespace] = field(default_factory=lambda: Store(NAMESPACE))
    nodes: Store[Node] = field(default_factory=lambda: Store(NODE))
    version: int = 0

    def __post_init__(self) -> None:
        self.cache = InstanceCache(self.clock.boottime)
        self.table: AccountTable = accounts_on(MemoryConfigMap(ACCOUNT), Store(GPU_REQUEST, INDEXES), self.clock)
        self.claims = RecordedClaims(
            self.cache,
            self.table,
            self.clock,
            classes=self.classes,
            namespaces=self.namespaces,
            nodes=self.nodes,
            allowed_namespaces_required=False,
        )
        spec = {"providers": [{"name": "simulated"}], "allowedNamespaces": OURS}
        self.classes.put(
            KubeObject(
                key=ObjectKey("", "rented"), resource_version=1, value=msgspec.convert({"spec": spec}, GPUNodeClass)
            )
        )
        self.label(team="theirs")

    def label(self, **labels: str) -> None:
        self.version += 1
        self.namespaces.put(Namespace(key=ObjectKey("", "default"), resource_version=self.version, labels=labels))

    def lists(self, *machines: Instance) -> None:
        began = self.clock.boottime()
        self.cache.put(ACCOUNT.access.name, InstanceSnapshot(ACCOUNT.identity, began, machines))

    def later(self) -> None:
        """Longer than any order of an earlier leader can be late."""
        self.clock.seconds += BELIEVED_GONE_AFTER + 1
        self.lists()


def of(record: KubeObject[GPURequest]) -> Attempt:
    return attempts_of(record)[-1]


RECORD = a_record(1, a_machine())


def asked(world: ClaimsWorld, record: KubeObject[GPURequest] = RECORD) -> tuple[bool, bool]:
    return world.claims.counts(record, of(record)), world.claims.accuses(record, of(record))


async def a_world() -> ClaimsWorld:
    world = ClaimsWorld()
    await world.table.load()
    world.later()
    return world


async def test_a_record_of_a_namespace_that_the_class_does_not_serve_is_no_proof():
    assert asked(await a_world()) == (False, False)


async def test_one_of_a_namespace_that_it_serves_counts_and_goes_on_counting():
    world = await a_world()
    world.label(team="ours")
    assert asked(world) == (True, True)
    world.label(team="theirs")

    assert asked(world) == (True, True), "an order may be on its way"
    assert asked(world, a_record(1, a_machine(2))) == (False, False)


async def test_a_listed_machine_counts():
    world = await a_world()
    world.lists(Instance("i-1", of(RECORD).token, InstanceState.RUNNING))

    assert asked(world) == (True, True)


@pytest.mark.parametrize("own", [True, False])
async def test_a_machine_whose_own_node_is_there_counts(own):
    world = await a_world()
    attempt = of(RECORD)
    node = Node(
        key=ObjectKey("", reserved_node_name(RECORD)),
        resource_version=1,
        labels={"tgp.io/request-uid": RECORD.uid_text if own else "another"},
        provider_id=f"tgp://{provider_of(attempt)}/{attempt.token}",
    )
    world.nodes.put(node)

    assert asked(world) == (own, own)


async def test_an_order_of_an_earlier_leader_may_be_late():
    """Then its record counts until a list was begun that would show it."""
    world = await a_world()
    world.claims.start_over()
    assert asked(world) == (True, False)
    world.later()

    assert asked(world) == (False, False)


async def test_an_account_that_is_in_no_table_and_the_token_of_another_count_nothing():
    world = await a_world()
    world.claims.start_over()
    unknown = a_record(1, msgspec.structs.replace(a_machine(), account="simulated-000000000000"))
    assert asked(world, unknown) == (False, False)
    world.label(team="ours")
    foreign = msgspec.structs.replace(of(RECORD), token=token_for(CLUSTER, uid(9), 1))

    assert not world.claims.counts(RECORD, foreign)
    assert not world.claims.accuses(RECORD, foreign)
