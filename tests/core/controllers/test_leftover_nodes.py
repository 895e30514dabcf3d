"""A Node is deleted when no request owns its machine and the machine is shown to be gone; never before."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from tests.core.controllers.account_access import CLUSTER, VULTR, a_class, a_machine, a_record, a_token, an_attempt
from tests.core.controllers.accounts import MemoryConfigMap, accounts_on
from tgp.adapters.kube.store import Store
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NODE
from tgp.controllers.instances.cache import InstanceCache, InstanceSnapshot
from tgp.controllers.instances.leftover_nodes import ABANDONED, CLEARED_FOR, GONE_AFTER, LeftoverNodes
from tgp.controllers.requests.indexes import INDEXES
from tgp.core.model.account_access import AccountAccess
from tgp.core.model.cloud_account import account_of
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.taints import Taint
from tgp.core.requests.node_state import provider_id_of
from tgp.core.requests.provider_reports import BELIEVED_AFTER
from tgp.ports.cluster import Conflict

AT = ObjectKey("", "train-1-abc")
SINCE = datetime(2026, 1, 4, tzinfo=UTC)  # nothing is in any of them: what is left over was rented there before
OWN, OLD = account_of(VULTR, "account"), account_of(VULTR, "the old one")
OTHERS = account_of(AccountAccess("vultr", "others", "VULTR"), "account")
KNOWN = tuple(replace(each, empty_since=SINCE) for each in (OWN, OLD, OTHERS))


class AClock:
    at = 1000.0

    def boottime(self) -> float:
        return self.at

    def now(self) -> datetime:
        return datetime(2026, 1, 5, tzinfo=UTC) + timedelta(seconds=self.at)


class Stage:
    def __init__(self, *, ready: bool | None = False, provider_id: str = "", cluster: str = CLUSTER) -> None:
        self.clock = AClock()
        self.instance_cache = InstanceCache(self.clock.boottime)
        self.requests, self.classes, self.nodes = Store(GPU_REQUEST, INDEXES), Store(GPU_NODE_CLASS), Store(NODE)
        self.classes.put(a_class())
        mark = provider_id or provider_id_of("vultr", a_token(1))
        self.nodes.put(Node(key=AT, uid="n-1", resource_version=1, provider_id=mark, ready=ready))
        self.removed: list[ObjectKey] = []
        self.changes: list[dict] = []
        self.keeper = LeftoverNodes(
            nodes=self.nodes,
            requests=self.requests,
            classes=self.classes,
            instance_cache=self.instance_cache,
            accounts=accounts_on(MemoryConfigMap(*KNOWN), self.requests, self.clock),
            cluster_id=lambda: cluster,
            cluster=self,
            clock=self.clock,
        )

    async def delete(self, resource, key, *, uid="", resource_version="") -> None:  # noqa: ARG002 - as the port has it
        assert (resource, uid) == (NODE, "n-1")
        self.removed.append(key)

    async def patch(self, resource, key, change, *, resource_version="", uid="") -> None:
        assert (resource, key, uid) == (NODE, AT, "n-1")
        node = self.nodes.get(AT)
        if resource_version != str(node.resource_version):
            raise Conflict("it changed")
        self.changes.append(change)
        rows = change["spec"].get("taints", ())
        taints = tuple(Taint(row["key"], row["effect"], row.get("value", "")) for row in rows)
        changed = {"taints": taints, "cordoned": change["spec"]["unschedulable"]}
        self.nodes.put(msgspec.structs.replace(node, resource_version=node.resource_version + 1, **changed))

    def listed(self, *machines, began: float, **rest) -> None:
        self.instance_cache.put(VULTR.name, InstanceSnapshot("account", began, machines, **rest))

    def turn(self) -> datetime | None:
        return asyncio.run(self.keeper.reconcile(AT))

    def passes(self, *machines, **rest) -> list[ObjectKey]:
        """No request owned it for long, and the provider was listed after that."""
        self.turn()
        self.clock.at += GONE_AFTER + 10
        self.listed(*machines, began=self.clock.at - 1, **rest)
        self.turn()
        return self.removed


def test_a_node_whose_machine_is_gone_and_that_no_request_owns_goes():
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
        {"provider_id": provider_id_of("webhook", a_token(1))},
        {"provider_id": provider_id_of("webhook", a_token(1)), "ready": True},
    ],
    ids=["a stranger's", "another cluster's", "cluster not known yet", "a sleeping machine's", "a box of one's own"],
)
def test_what_is_not_surely_ours_stays(other):
    stage = Stage(**other)

    assert stage.passes() == []
    assert stage.changes == []


def test_an_unreadable_request_owns_whatever_bears_its_uid():
    stage = Stage()
    stage.requests.put(a_record(1, an_attempt(1), unreadable=True))

    assert stage.passes() == []


# -- a third party uses the certificate: the machine is gone, and its Node is Ready ------------------------------------


def test_a_node_that_is_alive_without_its_machine_is_cleared_first_and_then_goes():
    """Its pods hear of it, nothing new comes, and its own taints stay."""
    stage = Stage(ready=True)
    own = Taint("dedicated", "NoSchedule", "ml")
    stage.nodes.put(msgspec.structs.replace(stage.nodes.get(AT), taints=(own,), resource_version=2))

    assert stage.passes() == []
    assert stage.nodes.get(AT).taints == (own, ABANDONED)
    assert stage.nodes.get(AT).cordoned
    assert stage.turn() == stage.clock.now() + timedelta(seconds=CLEARED_FOR)
    stage.clock.at += CLEARED_FOR
    assert stage.turn() is None
    assert stage.removed == [AT]
    assert len(stage.changes) == 1


def test_a_node_that_is_alive_stays_for_an_hour_while_its_request_is_there_without_a_record():
    """Its status was wiped while its account denies the machine: pods run there."""
    stage = Stage(ready=True)
    stage.requests.put(a_record(1))
    assert stage.passes() == []
    assert stage.changes == []
    stage.clock.at += BELIEVED_AFTER.total_seconds()
    stage.listed(began=stage.clock.at - 1)
    stage.turn()

    assert stage.nodes.get(AT).taints == (ABANDONED,)


def test_a_node_that_changed_since_we_looked_is_looked_at_again():
    stage = Stage(ready=True)
    found, stage.nodes.get = stage.nodes.get, lambda key: msgspec.structs.replace(found(key), resource_version=0)

    async def patch(*_args, **_rest) -> None:
        raise Conflict("it changed")

    stage.patch = patch

    assert stage.passes() == []
    assert stage.turn() is not None


def test_a_node_that_comes_back_with_the_old_certificate_goes_without_another_wait():
    stage = Stage(ready=True)
    stage.passes()
    stage.clock.at += CLEARED_FOR
    stage.turn()
    again = Node(key=AT, uid="n-1", resource_version=9, provider_id=provider_id_of("vultr", a_token(1)), ready=True)
    stage.nodes.put(again)
    stage.turn()
    assert stage.nodes.get(AT).cordoned
    stage.clock.at += CLEARED_FOR
    stage.turn()

    assert stage.removed == [AT, AT]


@pytest.mark.parametrize(
    ("doubt", "listing"),
    [
        ("listed", {"machines": (a_machine(1),)}),
        ("an incomplete list", {"gap": "the second page did not come"}),
        ("another account", {}),
        ("no class sells there any more", {}),
    ],
)
def test_a_node_that_is_alive_stays_while_there_is_a_doubt(doubt, listing):
    stage = Stage(ready=True)
    if doubt == "another account":
        ended = an_attempt(1, account=OLD.id, endedAt="2026-01-05T00:00:00Z", outcome="Terminated")
        stage.requests.put(a_record(1, ended))
    if doubt == "no class sells there any more":
        stage.classes.put(a_class({"name": "simulated"}, version=2))

    assert stage.passes(*listing.pop("machines", ()), **listing) == []
    stage.clock.at += CLEARED_FOR
    stage.turn()
    assert (stage.removed, stage.changes) == ([], [])


def test_a_node_that_is_alive_goes_once_its_own_account_does_not_show_its_machine():
    stage = Stage(ready=True)
    ended = an_attempt(1, account=OWN.id, endedAt="2026-01-05T00:00:00Z", outcome="Terminated")
    stage.requests.put(a_record(1, ended))
    stage.passes()
    stage.clock.at += CLEARED_FOR
    stage.turn()

    assert stage.removed == [AT]


def test_the_account_it_was_rented_at_counts_although_no_class_names_it_any_more():
    """Another key of the same provider shows nothing of it: that proves nothing."""
    stage = Stage(ready=True)
    ended = an_attempt(1, account=OTHERS.id, endedAt="2026-01-05T00:00:00Z", outcome="Terminated")
    stage.requests.put(a_record(1, ended))

    assert stage.passes() == []
    assert stage.changes == []


def test_a_ready_node_whose_machine_lists_alone_declared_gone_is_cordoned_and_stays():
    """Pods may run there: a provider that denies its machines must not cost them."""
    stage = Stage(ready=True)
    now = stage.clock.now()
    fields = {"outcome": "Lost", "endedAt": now, "countsUntil": now + timedelta(hours=1), "account": "account"}
    stage.requests.put(a_record(1, an_attempt(1, **fields)))

    assert stage.passes() == []
    stage.clock.at += 7200
    stage.listed(began=stage.clock.at - 1)
    stage.turn()

    assert stage.removed == []
    assert stage.changes == [{"spec": {"unschedulable": True}}]
