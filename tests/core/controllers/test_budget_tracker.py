"""A pod that ended with its machine counts the same, whether or not a new leader took the account up meanwhile."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.core.model.test_spend import an_entry
from tgp.api.budget import Enforcement, GPUWorkloadBudget, GPUWorkloadBudgetSpec, GPUWorkloadBudgetStatus, Quota
from tgp.api.common import LabelSelector
from tgp.controllers.budgets.memory import BudgetMemory
from tgp.controllers.budgets.tracker import BudgetTracker
from tgp.controllers.deps import Stores
from tgp.core.budgets.account import ENDED_KEPT, UNSURE, USED
from tgp.core.budgets.belonging import selector_of
from tgp.core.budgets.packing import pack
from tgp.core.budgets.spans import seconds
from tgp.core.model.identity import CLUSTER_DIGITS
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import OFF_SINCE, REQUEST_UID, Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import RUNNING, Pod
from tgp.core.model.resources import Resources
from tgp.core.model.token import token_for
from tgp.core.requests.node_state import provider_id_of, read_provider_id

TEAM = {"team": "a"}
GPU = "nvidia.com/gpu"
GPU_HOUR = 3_600_000
KEY = ObjectKey("ml", "team-a")
NODE = ObjectKey("", "box-1")
RENTED = provider_id_of("vast", token_for("0123456789abcdef"[:CLUSTER_DIGITS], an_entry().uid, 1))


def at(text: str) -> datetime:
    """A time of the day on which everything here happens."""
    return datetime.fromisoformat(f"2026-11-16T{text}").replace(tzinfo=UTC)


class Cluster:
    """The caches of one operator after the other, and what is in the budget's status."""

    def __init__(self) -> None:
        self.stores = Stores()
        self.version, self.clock, self.account = 0, at("10:00"), ""
        self.watched: datetime | None = None
        self.tracker: BudgetTracker | None = None
        self.put(Node(key=ObjectKey("", "box-2"), uid="n2"))
        self.stores.nodes.subscribe(lambda old, new: self.tracker and self.tracker.of_node(old, new))
        self.stores.pods.subscribe(lambda old, new: self.tracker and self.tracker.of_pod(old, new))
        ends = self.stores.machine_ends.store
        ends.subscribe(lambda old, new: self.tracker and self.tracker.of_machine_end(old, new))

    def now(self) -> datetime:
        return self.clock

    def boottime(self) -> float:
        return self.clock.timestamp()

    def put(self, record: Pod | Node) -> None:
        self.version += 1
        store = self.stores.pods if isinstance(record, Pod) else self.stores.nodes
        store.put(msgspec.structs.replace(record, resource_version=self.version))

    def node(self, **changes: Any) -> None:
        self.put(msgspec.structs.replace(self.stores.nodes.get(NODE) or Node(key=NODE, uid="n"), **changes))

    def pod(self, name: str = "train", **changes: Any) -> None:
        known = Pod(
            key=ObjectKey("ml", name),
            uid=name,
            created_at=at("10:30"),
            started_at=at("11:00"),
            labels=TEAM,
            node="box-1",
            requests=Resources(others=((GPU, 4),)),
            phase=RUNNING,
        )
        self.put(msgspec.structs.replace(self.stores.pods.get(known.key) or known, **changes))

    @property
    def memory(self) -> BudgetMemory:
        held = self.tracker.held(KEY) if self.tracker is not None else None
        assert held is not None, "a leader has taken the account up"
        return held

    def lead(self) -> None:
        """A new leader takes the account up from the status."""
        self.tracker = BudgetTracker(
            self.stores.pods,
            self.stores.nodes,
            self.stores.namespaces,
            self.stores.machine_ends.store,
            self,
            silent_for=lambda: 0.0,
            watched_until=lambda: self.watched,
        )
        selector, quota = LabelSelector(match_labels=TEAM), Quota(gpu_hours=100, window_hours=24)
        spec = GPUWorkloadBudgetSpec(selector=selector, quota=quota, enforcement=Enforcement(action="AlertOnly"))
        budget = GPUWorkloadBudget(spec=spec, status=GPUWorkloadBudgetStatus(account=self.account or None))
        record = KubeObject(key=KEY, uid="b", generation=1, created_at=at("10:00"), value=budget)
        assert self.tracker.memory_of(record, budget, listed_again=True) is not None

    def write(self) -> None:
        """As the reconciler does within seconds of a change, and at least every few minutes."""
        self.memory.account.version = self.stores.pods.version
        self.memory.account.advance(seconds(self.clock))
        self.account = pack(self.memory.account)

    def away(self) -> None:
        self.watched, self.tracker = self.clock, None

    def used(self, series: int = USED) -> float:
        return self.memory.account.used(series, seconds(self.clock)) / GPU_HOUR


def a_machine_that_ends_and_returns(
    kind: str, *, away: tuple[str, str] | None, worn: bool = False, until: str = "21:00:00"
) -> Cluster:
    """A pod runs from 11:00 on 4 GPUs; the machine ends at 14:02, and its Node reports again at 20:00."""
    cluster = Cluster()
    happens = {"12:00:00": cluster.lead}

    def off() -> None:
        if kind == "owned, off":
            cluster.node(annotations={OFF_SINCE: "2026-11-16T14:02:00Z"})
        elif kind == "rented, entered":
            cluster.stores.machine_ends.tell(an_entry(ended=at("14:02")))
        else:
            cluster.stores.nodes.drop(msgspec.structs.replace(cluster.stores.nodes.get(NODE), resource_version=10**6))

    def back() -> None:
        cluster.version = max(cluster.version, 10**6)
        cluster.node(ready=True, ready_since=at("20:00"), provider_id=provider_id)
        if kind == "deleted":
            cluster.pod(ready=True)  # its kubelet reports it

    def next_request() -> None:
        cluster.node(annotations={}, labels={REQUEST_UID: "r"})

    provider_id = "" if kind == "owned, off" else RENTED
    cluster.node(ready=True, ready_since=at("10:00"), provider_id=provider_id)
    cluster.pod()
    happens["14:00:50"] = lambda: cluster.node(ready=None, ready_since=at("14:00:50"))
    happens["14:02:00"] = off
    happens["17:00:00"] = lambda: cluster.pod("other", started_at=at("17:00"), requests=Resources())
    happens["20:00:05"] = back
    if worn:
        happens["20:00:06"] = next_request
    if away is not None:
        happens[away[0]], happens[away[1]] = cluster.away, cluster.lead
    for when in sorted(each for each in happens if each <= until):
        if cluster.tracker is not None and when > "14:02:00":  # other pods are counted meanwhile: often
            cluster.clock = max(cluster.clock, at(when) - timedelta(minutes=1))
            cluster.write()
        cluster.clock = at(when)
        happens[when]()
        if cluster.tracker is not None:
            cluster.tracker.close_missing(cluster.memory)
            cluster.write()
    cluster.clock = at(until)
    return cluster


AWAY: dict[str, tuple[str, str] | None] = {
    "never": None,
    "while it was off": ("15:00:00", "16:00:00"),
    "when it returned": ("19:00:00", "20:30:00"),
    "soon after its end until after its return": ("14:02:30", "20:30:00"),
    "all the time": ("13:59:00", "20:30:00"),
}
COUNTED = {"owned, off": 4 * (3 + 2 / 60 + 1), "rented, entered": 4 * 10.0, "deleted": 4 * 10.0}


@pytest.mark.parametrize("away", AWAY)
@pytest.mark.parametrize("kind", COUNTED)
def test_a_pod_whose_machine_returns_counts_the_same_with_and_without_a_new_leader(kind, away):
    """Off: without the time it was off. Entered by mistake, or its Node deleted by mistake: without a gap."""
    cluster = a_machine_that_ends_and_returns(kind, away=AWAY[away])
    assert cluster.used() == pytest.approx(COUNTED[kind], abs=4 * 2 / 3600)
    assert set(cluster.memory.account.staying) == set()


@pytest.mark.parametrize("away", ["when it returned", "soon after its end until after its return"])
def test_the_next_request_of_an_owned_machine_may_remove_the_record_before_a_new_leader_reads_it(away):
    cluster = a_machine_that_ends_and_returns("owned, off", away=AWAY[away], worn=True)
    assert cluster.used() == pytest.approx(COUNTED["owned, off"], abs=4 * 2 / 3600)


@pytest.mark.parametrize("new_leader", [False, True])
def test_a_budget_that_is_created_while_a_machine_is_off_counts_from_its_return(new_leader):
    cluster = Cluster()
    cluster.pod()
    cluster.node(ready=None, ready_since=at("09:00:50"), annotations={OFF_SINCE: "2026-11-16T09:02:00Z"})
    cluster.clock = at("12:00")
    cluster.lead()
    cluster.write()
    if new_leader:
        cluster.away()
    cluster.clock = at("20:00:05")
    cluster.node(ready=True, ready_since=at("20:00"))
    if new_leader:
        cluster.lead()
    cluster.clock = at("21:00")
    assert cluster.used() == pytest.approx(4, abs=4 * 2 / 3600)


@pytest.mark.parametrize("new_leader", [False, True])
def test_a_pod_that_only_seemed_to_end_after_its_machine_was_switched_on_by_hand_counts_without_a_gap(new_leader):
    cluster = Cluster()
    cluster.node(ready=True, ready_since=at("10:00"), annotations={OFF_SINCE: "2026-11-16T09:02:00Z"})
    cluster.pod()
    cluster.clock = at("12:00")
    cluster.lead()
    cluster.clock = at("13:00")
    cluster.pod(phase="Succeeded")
    cluster.write()
    if new_leader:
        cluster.away()
    cluster.clock = at("14:00")
    cluster.pod(phase=RUNNING)
    if new_leader:
        cluster.lead()
    assert cluster.used() == pytest.approx(4 * 3, abs=4 * 2 / 3600)


def test_time_that_was_counted_although_the_record_said_the_machine_was_gone_is_unsure():
    cluster = a_machine_that_ends_and_returns("rented, entered", away=None)
    assert cluster.used(UNSURE) == pytest.approx(4 * 6, abs=0.2)
    assert a_machine_that_ends_and_returns("owned, off", away=None).used(UNSURE) < 0.2


def test_a_hosts_clock_moves_the_return_by_no_more_than_its_report_may_be_late():
    for stamp in ("15:00", "23:00"):
        cluster = Cluster()
        cluster.node(ready=True, ready_since=at("10:00"))
        cluster.pod()
        cluster.clock = at("12:00")
        cluster.lead()
        cluster.clock = at("14:02")
        cluster.node(ready=None, ready_since=at("14:00:50"), annotations={OFF_SINCE: "2026-11-16T14:02:00Z"})
        cluster.clock = at("20:00")
        cluster.node(ready=True, ready_since=at(stamp))
        assert cluster.used() == pytest.approx(4 * (3 + 2 / 60), abs=4 * 61 / 3600)


def test_a_pod_that_ended_with_its_machine_is_forgotten_once_it_is_gone():
    cluster = Cluster()
    cluster.node(ready=True, ready_since=at("10:00"))
    cluster.pod()
    cluster.clock = at("12:00")
    cluster.lead()
    cluster.clock = at("14:02")
    cluster.node(ready=None, ready_since=at("14:00:50"), annotations={OFF_SINCE: "2026-11-16T14:02:00Z"})
    cluster.clock = at("18:00")
    cluster.write()
    assert list(cluster.memory.account.ended.values()) == [seconds(at("14:02"))]
    last = cluster.stores.pods.get(ObjectKey("ml", "train"))
    assert last is not None
    cluster.stores.pods.drop(msgspec.structs.replace(last, resource_version=10**6))
    cluster.clock += timedelta(seconds=ENDED_KEPT + 1)
    cluster.write()
    assert not cluster.memory.account.ended


class Unread(dict[ObjectKey, Node]):
    """Records of which no one may read all."""

    def values(self) -> Any:
        raise AssertionError("every Node was read")


def test_a_pod_that_ended_with_its_machine_and_is_selected_no_longer_does_not_come_back():
    cluster = a_machine_that_ends_and_returns("owned, off", away=None, until="17:00:00")
    (uid,) = cluster.memory.finished
    cluster.memory.let_go(uid, seconds(cluster.clock))
    cluster.memory.selector = selector_of(LabelSelector(match_labels={"team": "b"}))
    before = cluster.used()
    cluster.clock = at("20:00:05")
    cluster.node(ready=True, ready_since=at("20:00"))
    cluster.clock = at("21:00")
    assert cluster.used() == before
    assert not cluster.memory.finished


def test_a_pod_whose_machines_record_is_too_old_to_be_read_stays_ended_until_its_node_reports():
    cluster = a_machine_that_ends_and_returns("rented, entered", away=None, until="17:00:00")
    before = cluster.used()
    for end in list(cluster.stores.machine_ends.store.values()):
        cluster.stores.machine_ends.store.drop(end)
    cluster.lead()
    cluster.pod(ready=False)
    cluster.clock = at("21:00")
    assert cluster.used() == before


def test_a_machines_end_looks_only_at_its_own_node_and_at_none_while_no_budget_is_held(monkeypatch):
    """A leader reads thousands of them at its start."""
    cluster = Cluster()
    cluster.node(ready=True, ready_since=at("10:00"), provider_id=RENTED)
    cluster.pod()
    cluster.clock = at("12:00")
    cluster.lead()
    asked: list[str] = []
    assert read_provider_id(RENTED) is not None
    monkeypatch.setattr(cluster.stores.nodes, "values", Unread().values)
    by_index = cluster.stores.nodes.by_index
    monkeypatch.setattr(cluster.stores.nodes, "by_index", lambda *what: asked.append(what[1]) or by_index(*what))
    cluster.stores.machine_ends.tell(an_entry(attempt=2))
    cluster.stores.machine_ends.tell(an_entry())
    first, second = (end.key.name for end in cluster.stores.machine_ends.store.values())
    assert asked == [first, second]
    assert cluster.tracker is not None
    cluster.tracker.forget(KEY)
    cluster.stores.machine_ends.tell(an_entry(attempt=3))
    assert asked == [first, second]
