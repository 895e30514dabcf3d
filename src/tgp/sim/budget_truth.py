"""What budgets should say, from what the API server stored about each pod: written apart from the operator's rules."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf

from tgp.api.resource import GPU_WORKLOAD_BUDGET, NODE, POD
from tgp.core.model.labels import LabelRequirement, selector
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.cluster.placement import Amounts, requests_of

FINISHED = ("Succeeded", "Failed")
HOUR, DAY = 3600, 86_400
PRUNED_EVERY = 1000  # pods
DEFAULT_RESOURCE = "nvidia.com/gpu"


@dataclass(slots=True)
class TruePod:
    namespace: str
    name: str
    requests: Amounts
    labels: dict[str, str] = field(default_factory=dict)
    node: str = ""
    start: float | None = None
    end: float | None = None
    vanished: bool = False  # it went without a word about its end
    leaving_since: float | None = None

    def milli(self, resource: str) -> int:
        amount = self.requests.get(resource, 0)
        return amount if resource == "cpu" else amount * 1000


@dataclass(slots=True)
class TrueBudget:
    spec: Json
    matched: dict[str, float] = field(default_factory=dict)  # since when each pod belongs to it
    exceeded_at: str = ""
    gone_at: float | None = None  # None: it is there
    gaps: list[tuple[float, float]] = field(default_factory=list)  # it was deleted, and came back under its name
    left: dict[str, list[tuple[float, float]]] = field(
        default_factory=dict
    )  # pods that its selector left out meanwhile

    def selects(self, labels: dict[str, str]) -> bool:
        rows = self.spec["selector"].get("matchExpressions") or ()
        wanted = [LabelRequirement(row["key"], row["operator"], tuple(row.get("values") or ())) for row in rows]
        return selector(self.spec["selector"].get("matchLabels") or {}, wanted).selects(labels)

    def window(self, at: float) -> float | None:
        """Seconds that it looks back; None: the truth does not know its calendar. Of these it knows days in UTC."""
        quota = self.spec["quota"]
        if "calendar" not in quota:
            return float(quota["windowHours"] * HOUR)
        return at % DAY if (quota["calendar"], quota.get("timeZone", "UTC")) == ("Day", "UTC") else None

    @property
    def plain(self) -> bool:
        """Whether the truth knows what it counts: pods of its own namespace, without weights."""
        return not self.spec.get("weights") and self.spec.get("namespaceSelector") is None


class BudgetTruth:
    def __init__(self, core: Core, now: Callable[[], datetime]) -> None:
        self._now = now
        self.pods: dict[str, TruePod] = {}  # by uid
        self.budgets: dict[ObjectKey, TrueBudget] = {}
        core.hooks.append(self._committed)

    def used(self, key: ObjectKey, at: int) -> float | None:
        """Milli-GPU-seconds in the window that ends then; None: not known."""
        budget = self.budgets.get(key)
        if budget is None or not budget.plain or budget.window(at) is None:
            return None
        return sum(amount * max(0.0, end - begin) for _, amount, begin, end in self.spans(budget, at))

    def spans(self, budget: TrueBudget, at: float) -> Iterator[tuple[TruePod, int, float, float]]:
        """Pod, amount, and its part of the window."""
        window = budget.window(at)
        assert window is not None, "the truth knows no other calendar"
        resource = budget.spec.get("gpuResourceName", DEFAULT_RESOURCE)
        for uid, since in budget.matched.items():
            pod = self.pods[uid]
            amount = pod.milli(resource)
            if pod.start is None or not amount:
                continue
            begin, end = max(pod.start, since, at - window), min(pod.end or at, at)
            for gone, back in sorted((*budget.gaps, *budget.left.get(uid, ()))):
                if begin < gone < end:
                    yield pod, amount, begin, gone
                begin = max(begin, min(back, end)) if end > gone else begin
            yield pod, amount, begin, end

    # -- what the API server stored ------------------------------------------------------------------------------------

    def _committed(self, served: Served, before: Json | None, after: Json | None) -> None:
        obj = after if after is not None else before
        assert obj is not None
        now = self._now().timestamp()
        if served.resource == POD:
            self._pod(obj, now, gone=after is None)
        elif served.resource == NODE and after is None:
            for pod in self.pods.values():
                if pod.node == obj["metadata"]["name"] and pod.end is None:
                    pod.end, pod.vanished = now, True
        elif served.resource == GPU_WORKLOAD_BUDGET:
            self._budget(obj, now, gone=after is None)

    def _pod(self, obj: Json, now: float, *, gone: bool) -> None:
        meta, spec, status = obj["metadata"], obj["spec"], obj.get("status", {})
        pod = self.pods.get(meta["uid"])
        if pod is None:
            pod = TruePod(meta.get("namespace", ""), meta["name"], requests_of(obj))
            self.pods[meta["uid"]] = pod
            if len(self.pods) % PRUNED_EVERY == 0:
                self._prune(now)
        pod.labels, pod.node = dict(meta.get("labels") or {}), spec.get("nodeName", "")
        if "deletionTimestamp" in meta and pod.leaving_since is None:
            pod.leaving_since = now
        for row in status.get("containerStatuses") or ():
            for state in (row.get("state", {}), row.get("lastState", {})):
                began = (state.get("running") or state.get("terminated") or {}).get("startedAt")
                if began and (pod.start is None or moment(began) < pod.start):
                    pod.start = moment(began)
            if status.get("phase") in FINISHED and pod.end is None and "terminated" in row.get("state", {}):
                pod.end = moment(row["state"]["terminated"]["finishedAt"])
        if gone and pod.end is None:
            pod.end, pod.vanished = now, True
        self._match(meta["uid"], pod, now)

    def _match(self, uid: str, pod: TruePod, now: float) -> None:
        for key, budget in self.budgets.items():
            there = key.namespace == pod.namespace and budget.gone_at is None
            if there and pod.end is None and budget.selects(pod.labels):
                budget.matched.setdefault(uid, now)
                if (gaps := budget.left.get(uid)) and gaps[-1][1] == inf:
                    gaps[-1] = gaps[-1][0], now

    def _budget(self, obj: Json, now: float, *, gone: bool) -> None:
        key = ObjectKey(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        budget = self.budgets.setdefault(key, TrueBudget(obj["spec"]))
        if gone:
            budget.gone_at = now
            return
        if budget.gone_at is not None:
            budget.gaps.append((budget.gone_at, now))
            budget.gone_at = None
        before = {uid for uid in budget.matched if budget.selects(self.pods[uid].labels)}
        budget.spec = obj["spec"]
        for uid in before:
            if not budget.selects(self.pods[uid].labels):
                budget.left.setdefault(uid, []).append((now, inf))
        for uid, pod in self.pods.items():
            self._match(uid, pod, now)

    def _prune(self, now: float) -> None:
        """Forget pods that no window sees any more."""
        windows = (budget.spec["quota"].get("windowHours", 31 * 24) * HOUR for budget in self.budgets.values())
        begin = now - max(windows, default=0)
        for uid in [uid for uid, pod in self.pods.items() if pod.end is not None and pod.end < begin]:
            del self.pods[uid]
            for budget in self.budgets.values():
                budget.matched.pop(uid, None)
                budget.left.pop(uid, None)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()
