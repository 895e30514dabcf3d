"""Gates are lifted in order, each once; and not where a budget cannot be read."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from tests.core.budgets.test_admission import TEAM, a_budget
from tgp.api.common import LabelSelector
from tgp.controllers.budgets.admission import GateReconciler
from tgp.controllers.budgets.gated_pods import GatedPods
from tgp.core.budgets.account import fresh
from tgp.core.budgets.admission import GATE, LABEL
from tgp.core.budgets.assess import Limits
from tgp.core.budgets.weights import Weights
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.resources import Resources

NOW = datetime(2026, 11, 17, 20, tzinfo=UTC)
HOUR = 3_600_000  # of a GPU, in the units of an account


def a_pod(name: str, **more: Any) -> Pod:
    gpu = Resources(others=(("nvidia.com/gpu", 1),))
    given = {"labels": TEAM, "requests": gpu, "gates": (GATE,), "created_at": NOW, **more}
    return Pod(key=ObjectKey("ml", name), uid=name, **given)


class Cluster:
    """Notes what was patched."""

    def __init__(self) -> None:
        self.lifted: list[str] = []

    async def patch(self, _resource: Any, key: ObjectKey, change: Any, **_: Any) -> None:
        assert change == {"spec": {"schedulingGates": None}}
        self.lifted.append(key.name)


def lifted(*pods: Pod, hours: float = 0, budgets: tuple[KubeObject[Any], ...] = ()) -> list[str]:
    """What one look lifts, where the budgets have so many hours left of a window of 24."""
    gated = [pod for pod in pods if GATE in pod.gates]

    async def shown(_key: ObjectKey) -> None:
        """At once."""

    async def listed() -> None:
        """The view is up to date."""

    store: Any = SimpleNamespace(
        values=lambda: pods, by_index=lambda *_: gated, filed=lambda _: ["ml"], wait_for_own_write=shown
    )
    memory = SimpleNamespace(
        told=SimpleNamespace(exceeded_at=None),
        account=fresh(24, int(NOW.timestamp())),
        limits=Limits(int(hours * HOUR)),
        weights=Weights("nvidia.com/gpu"),
        runs=lambda _uid: False,
    )
    cluster, tracker = Cluster(), SimpleNamespace(held=lambda _key: memory)
    view: Any = SimpleNamespace(values=lambda: budgets)
    silent, clock = SimpleNamespace(note=lambda _fact: None), SimpleNamespace(now=lambda: NOW)
    given: Any = {"cluster": cluster, "journal": silent, "clock": clock, "list_budgets": listed}
    reconciler = GateReconciler(
        GatedPods(store, view, SimpleNamespace(get=lambda _key: None), "tgp-system"), store, tracker, **given
    )  # type: ignore[arg-type]
    asyncio.run(reconciler.reconcile(ObjectKey("", "ml")))
    return cluster.lifted


GATES = KubeObject(key=ObjectKey("ml", "team-a"), value=a_budget("Gate", exceeded=False))


def test_as_many_go_as_what_is_left_lasts_and_those_on_their_way_count():
    """Half an hour each: a 48th of the window."""
    waiting = [a_pod(f"pod-{number}") for number in range(4)]
    assert lifted(*waiting, hours=1, budgets=(GATES,)) == ["pod-0", "pod-1"]
    assert lifted(*waiting, a_pod("going", gates=()), hours=1, budgets=(GATES,)) == ["pod-0"]


def test_without_a_budget_all_go_and_with_one_that_gates_and_cannot_be_read_none():
    unreadable: KubeObject[Any] = KubeObject(key=ObjectKey("ml", "newer"))
    gates: KubeObject[Any] = KubeObject(key=ObjectKey("ml", "newer"), labels={LABEL: "Gate"})
    assert lifted(a_pod("a"), a_pod("b")) == ["a", "b"]
    assert lifted(a_pod("a"), a_pod("b"), budgets=(unreadable,)) == ["a", "b"], "its label says that it gates nothing"
    assert lifted(a_pod("a"), a_pod("b"), budgets=(gates,)) == []


def test_a_budget_of_a_tenant_over_all_namespaces_holds_no_pod():
    wide = KubeObject(
        key=ObjectKey("elsewhere", "sly"), value=a_budget("Gate", exceeded=False, namespace_selector=LabelSelector())
    )
    assert lifted(a_pod("a"), budgets=(wide,)) == ["a"]
