"""What budgets say when pods are created: the label by which policies select them, and gates that are lifted again."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta

from tgp.adapters.kube.store import Store
from tgp.api.budget import GPUWorkloadBudget, GPUWorkloadBudgetSpec
from tgp.api.resource import (
    GPU_WORKLOAD_BUDGET,
    MUTATING_ADMISSION_POLICY,
    MUTATING_ADMISSION_POLICY_BINDING,
    POD,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
)
from tgp.controllers.budgets.gated_pods import GatedPods, asks
from tgp.controllers.budgets.memory import BudgetMemory
from tgp.controllers.budgets.releases import Outcome, Releases
from tgp.controllers.budgets.tracker import BudgetTracker
from tgp.core.budgets.admission import (
    DENIES,
    DENY_POLICY,
    EXACT,
    GATE,
    GATE_POLICY,
    GATES,
    LABEL,
    LABEL_OF_SEVERAL,
    OFF,
    PolicyState,
    binding_of,
    closed,
    label_key,
    label_of,
    unavailable,
)
from tgp.core.budgets.resume import HeldBack, resume
from tgp.core.budgets.spans import seconds, short_uid
from tgp.core.budgets.status import Trouble
from tgp.core.model.facts import FactSubject, PodGateLifted
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterError, Forbidden, NotFound
from tgp.ports.journal import Journal

LOOKED_AGAIN = timedelta(seconds=60)  # at pods behind a gate: hours come back as time passes
ASKED_AGAIN = timedelta(minutes=5)  # for policies that are there
MISSING_AGAIN = timedelta(minutes=1)  # for policies that are not
PARTS = {
    DENIES: ((VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING), DENY_POLICY),
    GATES: ((MUTATING_ADMISSION_POLICY, MUTATING_ADMISSION_POLICY_BINDING), GATE_POLICY),
}


async def set_label(cluster: Cluster, record: KubeObject[GPUWorkloadBudget], *, counts: bool) -> bool:
    """Make the label by which policies select a budget say what its status says; whether that was a write.

    `counts`: its spec can be counted by. One that cannot has nothing to say about new pods.
    """
    assert record.value is not None, "a budget that can be read"
    exact = record.value.spec.accounting == EXACT
    said = label_of(record.value.spec, exceeded=counts and closed(record.value), exact=counts and exact)
    wanted = {LABEL: None, LABEL_OF_SEVERAL: None, label_key(record.value.spec): said}
    if all(record.labels.get(key) == value for key, value in wanted.items()):
        return False
    change = {"metadata": {"labels": wanted}}
    seen = str(record.resource_version)
    await cluster.patch(GPU_WORKLOAD_BUDGET, record.key, change, uid=record.uid_text, resource_version=seen)
    return True


class GateReconciler:
    """Keys are Namespaces. Lifts gates: at once where no budget holds a pod, one by one where hours are back."""

    def __init__(
        self,
        gated: GatedPods,
        pods: Store[Pod],
        tracker: BudgetTracker,
        *,
        cluster: Cluster,
        journal: Journal,
        clock: Clock,
        list_budgets: Callable[[], Awaitable[None]],
    ) -> None:
        self._list_budgets = list_budgets
        self._gated = gated
        self._pods = pods
        self._tracker = tracker
        self._releases = Releases(cluster, journal)
        self._journal = journal
        self._clock = clock

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        pods = self._gated.of(key.name)
        if not pods:
            return None
        now = self._clock.now()
        if self._gated.unreadable(key.name):
            return now + LOOKED_AGAIN
        going = self._going(key.name, pods, now)
        if going:  # one list that shows no budget lets no pod go
            await self._list_budgets()
            pods = self._gated.of(key.name)
            going = self._going(key.name, pods, now)
        outcomes = [await self._lift(pod, now) for pod in going]
        if Outcome.OUTDATED in outcomes:
            return now + timedelta(seconds=1)
        return now + LOOKED_AGAIN if len(going) < len(pods) or Outcome.REFUSED in outcomes else None

    def _going(self, namespace: str, pods: list[Pod], now: datetime) -> list[Pod]:
        """Those that every budget they belong to lets go, in the order in which they go."""
        going = {
            uid_text(pod.uid): pod
            for pod in sorted(pods, key=lambda each: (-each.priority, _since(each, now), each.key))
        }
        for key, spec in self._gated.holders(namespace):
            mine = [pod for pod in pods if asks(spec, pod)]
            free = self._free(key, spec, now) if mine else frozenset()
            for pod in mine:
                if uid_text(pod.uid) not in free:
                    going.pop(uid_text(pod.uid), None)
        return list(going.values())

    def _free(self, key: ObjectKey, spec: GPUWorkloadBudgetSpec, now: datetime) -> frozenset[str]:
        """Those that a budget lets go, of all namespaces that it covers."""
        memory = self._tracker.held(key)
        if memory is None or memory.told.exceeded_at is not None:  # closed, or not counted yet
            return frozenset()
        held = [
            HeldBack(pod.key, uid_text(pod.uid), _since(pod, now), memory.weights.units(pod.requests), pod.priority)
            for pod in self._gated.of_budget(key, spec)
        ]
        on_the_way = self._on_the_way(key, spec, memory)
        going = resume(held, memory.account, memory.limits, seconds(now), on_the_way=on_the_way)
        return frozenset(each.uid for each in going)

    def _on_the_way(self, key: ObjectKey, spec: GPUWorkloadBudgetSpec, memory: BudgetMemory) -> int:
        """What pods will use that were let go or never gated, and have not started."""
        return sum(
            memory.weights.units(pod.requests)
            for pod in self._pods.values()
            if not pod.finished
            and GATE not in pod.gates
            and self._gated.covers(key, spec, pod.key.namespace)
            and asks(spec, pod)
            and not memory.runs(short_uid(pod))
        )

    async def _lift(self, pod: Pod, now: datetime) -> Outcome:
        left = [{"name": gate} for gate in pod.gates if gate != GATE]
        outcome = await self._releases.change(POD, pod, {"spec": {"schedulingGates": left or None}}, now)
        if outcome == Outcome.DONE:
            budgets = ", ".join(key.name for key, spec in self._gated.holders(pod.key.namespace) if asks(spec, pod))
            self._journal.note(PodGateLifted(FactSubject(POD, pod.key, uid_text(pod.uid)), budgets))
            await self._pods.wait_for_own_write(pod.key)  # from then on it counts as on its way
        return outcome


class PolicyCheck:
    """Whether the API server has what `enforcement.admission` needs. Asked seldom, and only where a budget needs it."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._known: dict[tuple[str, bool], tuple[PolicyState, datetime]] = {}

    async def look(self, spec: GPUWorkloadBudgetSpec) -> datetime | None:
        """Ask again if it is time; returns when that is next. None: nothing is needed."""
        admission, several = _needed(spec)
        if admission == OFF:
            return None
        now = self._clock.now()
        state, again = self._known.get((admission, several), (PolicyState(), now))
        if again <= now:
            with suppress(ClusterError):  # then what was known still holds
                state = await self._state(admission, several=several)
            again = now + (MISSING_AGAIN if unavailable(admission, state) else ASKED_AGAIN)
            self._known[admission, several] = state, again
        return again

    def trouble(self, spec: GPUWorkloadBudgetSpec) -> Trouble | None:
        """As of the last look; None: it works, or nothing is known yet."""
        state, _ = self._known.get(_needed(spec), (PolicyState(), None))
        message = unavailable(spec.enforcement.admission, state)
        return Trouble("AdmissionUnavailable", message) if message else None

    async def _state(self, admission: str, *, several: bool) -> PolicyState:
        (policy, binding), policy_name = PARTS[admission]
        for resource, name in ((policy, policy_name), (binding, binding_of(policy_name, several=several))):
            try:
                await self._cluster.read(resource, ObjectKey("", name))
            except NotFound:
                return PolicyState(missing=f"{resource.kind} {name}", version=await self._cluster.version())
            except Forbidden:
                return PolicyState(forbidden=f"{resource.kind} {name}")
        return PolicyState()


def _needed(spec: GPUWorkloadBudgetSpec) -> tuple[str, bool]:
    return spec.enforcement.admission, spec.namespace_selector is not None


def _since(pod: Pod, now: datetime) -> datetime:
    return pod.created_at or now
