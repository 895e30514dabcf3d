"""The invariants about budgets, I10 to I12, beside a truth of their own: what the API server stored about each pod."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tgp.api.quantity import milli
from tgp.api.resource import GPU_WORKLOAD_BUDGET, NODE, POD
from tgp.core.model.labels import LabelRequirement, selector
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.checkers.recorder import Violation
from tgp.sim.world import World

HOUR = 3_600_000  # milli-GPU-seconds of a GPU-hour
ROUNDED = 2_000  # milli-GPU-seconds per GPU and pod: stamps and moments are whole seconds
FINISHED = ("Succeeded", "Failed")


@dataclass(slots=True)
class TruePod:
    namespace: str
    name: str
    labels: dict[str, str]
    node: str
    requests: dict[str, Any]
    start: float | None = None
    end: float | None = None
    vanished: bool = False  # it went without a word about its end
    leaving_since: float | None = None


@dataclass(slots=True)
class TrueBudget:
    spec: Json
    matched: dict[str, float] = field(default_factory=dict)  # since when each pod belongs to it
    exceeded_at: str = ""
    gone_at: float | None = None  # None: it is there
    gaps: list[tuple[float, float]] = field(default_factory=list)  # it was deleted, and came back under its name

    def selects(self, labels: dict[str, str]) -> bool:
        rows = self.spec["selector"].get("matchExpressions") or ()
        wanted = [LabelRequirement(row["key"], row["operator"], tuple(row.get("values") or ())) for row in rows]
        return selector(self.spec["selector"].get("matchLabels") or {}, wanted).selects(labels)


class BudgetWatch:
    """Looks at every write of a budget's status and at every eviction. `late`: seconds that news may take."""

    def __init__(self, world: World, *, late: float = 10.0) -> None:
        self._world = world
        self._late = late
        self._pods: dict[str, TruePod] = {}
        self._budgets: dict[tuple[str, str], TrueBudget] = {}
        self._effects = 0
        self.looks = 0
        self._accusations: list[str] = []
        world.api.core.hooks.append(self._committed)
        world.watch(self._acted)

    # -- the truth -----------------------------------------------------------------------------------------------------

    def _committed(self, served: Served, before: Json | None, after: Json | None) -> None:
        obj = after if after is not None else before
        assert obj is not None
        if served.resource == POD:
            self._pod(obj, gone=after is None)
        elif served.resource == NODE and after is None:
            for pod in self._pods.values():
                if pod.node == obj["metadata"]["name"] and pod.end is None:
                    pod.end, pod.vanished = self._now(), True
        elif served.resource == GPU_WORKLOAD_BUDGET:
            self._budget(obj, gone=after is None)

    def _pod(self, obj: Json, *, gone: bool) -> None:
        meta, spec, status = obj["metadata"], obj["spec"], obj.get("status", {})
        pod = self._pods.get(meta["uid"])
        if pod is None:
            requests = spec["containers"][0].get("resources", {})
            pod = TruePod(
                meta.get("namespace", ""),
                meta["name"],
                {},
                "",
                requests.get("requests") or requests.get("limits") or {},
            )
            self._pods[meta["uid"]] = pod
        pod.labels, pod.node = dict(meta.get("labels") or {}), spec.get("nodeName", "")
        if "deletionTimestamp" in meta and pod.leaving_since is None:
            pod.leaving_since = self._now()
        for row in status.get("containerStatuses") or ():
            for state in (row.get("state", {}), row.get("lastState", {})):
                began = (state.get("running") or state.get("terminated") or {}).get("startedAt")
                if began and (pod.start is None or _moment(began) < pod.start):
                    pod.start = _moment(began)
            if status.get("phase") in FINISHED and pod.end is None and "terminated" in row.get("state", {}):
                pod.end = _moment(row["state"]["terminated"]["finishedAt"])
        if gone and pod.end is None:
            pod.end, pod.vanished = self._now(), True
        self._match(meta["uid"], pod)

    def _match(self, uid: str, pod: TruePod) -> None:
        for (namespace, _), budget in self._budgets.items():
            there = namespace == pod.namespace and budget.gone_at is None
            if there and pod.end is None and budget.selects(pod.labels):
                budget.matched.setdefault(uid, self._now())

    def _budget(self, obj: Json, *, gone: bool) -> None:
        key = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        budget = self._budgets.setdefault(key, TrueBudget(obj["spec"]))
        if gone:
            budget.gone_at = self._now()
            return
        if budget.gone_at is not None:
            budget.gaps.append((budget.gone_at, self._now()))
            budget.gone_at = None
        budget.spec = obj["spec"]
        for uid, pod in self._pods.items():
            self._match(uid, pod)
        if status := obj.get("status"):
            self._judge(key, budget, status)

    def _spans(self, budget: TrueBudget, at: float) -> Iterator[tuple[TruePod, int, float, float]]:
        """Pod, amount, and its part of the window."""
        window = _window(budget.spec["quota"], at)
        resource = budget.spec.get("gpuResourceName", "nvidia.com/gpu")
        for uid, since in budget.matched.items():
            pod = self._pods[uid]
            amount = milli(pod.requests.get(resource, 0))
            if pod.start is None or not amount:
                continue
            begin, end = max(pod.start, since, at - window), min(pod.end or at, at)
            for gone, back in budget.gaps:
                if begin < gone < end:
                    yield pod, amount, begin, gone
                begin = max(begin, min(back, end)) if end > gone else begin
            yield pod, amount, begin, end

    # -- the promises --------------------------------------------------------------------------------------------------

    def _judge(self, key: tuple[str, str], budget: TrueBudget, status: Json) -> None:
        if "asOf" not in status or not str(status.get("account", "")).startswith("1."):
            return  # not written by an operator
        self.looks += 1
        at = _moment(status["asOf"])
        used, unsure = _amount(status, "consumedGpuHours"), _amount(status, "uncertaintyGpuHours")
        least = most = 0.0
        for pod, amount, begin, end in self._spans(budget, at):
            lasts = max(0.0, end - begin)
            slack = ROUNDED / 1000 * amount
            recent = pod.vanished or (pod.end is not None and pod.end > at - self._late)
            if begin <= at - self._late:
                least += max(0.0, amount * lasts - slack)
            most += amount * lasts + slack + (amount * self._late if recent else 0)
        bucket = budget.spec["quota"].get("windowHours", 0) * 5
        edge = sum(amount for _, amount, begin, end in self._spans(budget, at - bucket) if end > begin) * bucket
        if used < least - 4:
            self._blame(f"I10: {key} says {used} at {status['asOf']}, below the {least} that were used")
        if used - unsure > most + edge + 4:
            self._blame(f"I10: {key} says {used} at {status['asOf']}, {unsure} of it unsure, above the {most} used")
        exceeded = str(status.get("exceededAt") or "")
        if exceeded and budget.exceeded_at and exceeded != budget.exceeded_at:
            self._blame(f"I11: {key} was beyond its quota since {budget.exceeded_at}, and now since {exceeded}")
        budget.exceeded_at = exceeded

    def _acted(self, world: World) -> None:
        new, self._effects = world.effects[self._effects :], len(world.effects)
        for effect in new:
            if effect.path.endswith("/eviction"):
                *_, namespace, _, name, _ = effect.path.split("/")
                self._judge_eviction(namespace, name)
        if self._accusations:
            raise Violation(self._accusations[0])

    def _judge_eviction(self, namespace: str, name: str) -> None:
        now = self._now()
        pods = [(uid, pod) for uid, pod in self._pods.items() if (pod.namespace, pod.name) == (namespace, name)]
        uid, pod = pods[-1]
        if pod.end is not None and pod.end < now - self._late:
            self._blame(f"I12: pod {name} was evicted, and had ended {now - pod.end:.0f} s before")
        if pod.leaving_since is not None and pod.leaving_since < now - self._late:
            self._blame(f"I12: pod {name} was evicted again, {now - pod.leaving_since:.0f} s after it began to leave")
        grace = [
            _moment(budget.exceeded_at) + budget.spec["enforcement"].get("gracePeriodSeconds", 30)
            for budget in self._budgets.values()
            if uid in budget.matched and budget.exceeded_at
        ]
        if not grace or min(grace) > now + 1:
            self._blame(f"I12: pod {name} was evicted before the grace period of a budget was over")

    def _now(self) -> float:
        return self._world.clock.now().timestamp()

    def _blame(self, text: str) -> None:
        """Raised at the next look at the world: the API server that is being watched must not fail."""
        self._accusations.append(text)


def _window(quota: Json, at: float) -> float:
    """Seconds that a budget looks back. Of the calendars a history has days in UTC."""
    if "calendar" in quota:
        assert (quota["calendar"], quota.get("timeZone", "UTC")) == ("Day", "UTC"), "the truth knows no other"
        return at % 86_400
    return float(quota["windowHours"] * 3600)


def _amount(status: Json, name: str) -> int:
    return int(Decimal(str(status.get(name) or 0)) * HOUR)


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()
