"""The invariants about budgets, I10 to I12, beside a truth of their own: what the API server stored about each pod."""

from decimal import Decimal

from tgp.api.resource import GPU_WORKLOAD_BUDGET
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.budget_truth import BudgetTruth, TrueBudget, moment
from tgp.sim.checkers.recorder import Violation
from tgp.sim.world import World

HOUR = 3_600_000  # milli-GPU-seconds of a GPU-hour
ROUNDED = 2_000  # milli-GPU-seconds per GPU and pod: stamps and moments are whole seconds


class BudgetWatch:
    """Looks at every write of a budget's status and at every eviction. `late`: seconds that news may take."""

    def __init__(self, world: World, *, late: float = 10.0) -> None:
        self._world = world
        self._late = late
        self._truth = BudgetTruth(world.api.core, world.clock.now)
        self._effects = 0
        self.looks = 0
        self._accusations: list[str] = []
        world.api.core.hooks.append(self._committed)  # after the truth has seen it
        world.watch(self._acted)

    def _committed(self, served: Served, _before: Json | None, after: Json | None) -> None:
        if served.resource == GPU_WORKLOAD_BUDGET and after is not None and (status := after.get("status")):
            key = ObjectKey(after["metadata"].get("namespace", ""), after["metadata"]["name"])
            self._judge(key, self._truth.budgets[key], status)

    # -- the promises --------------------------------------------------------------------------------------------------

    def _judge(self, key: ObjectKey, budget: TrueBudget, status: Json) -> None:
        if "asOf" not in status or not str(status.get("account", "")).startswith("1."):
            return  # not written by an operator
        self.looks += 1
        at = moment(status["asOf"])
        used, unsure = _amount(status, "consumedGpuHours"), _amount(status, "uncertaintyGpuHours")
        least = most = 0.0
        for pod, amount, begin, end in self._truth.spans(budget, at):
            lasts = max(0.0, end - begin)
            slack = ROUNDED / 1000 * amount
            recent = pod.vanished or (pod.end is not None and pod.end > at - self._late)
            if begin <= at - self._late:
                least += max(0.0, amount * lasts - slack)
            most += amount * lasts + slack + (amount * self._late if recent else 0)
        bucket = budget.spec["quota"].get("windowHours", 0) * 5
        edge = sum(amount for _, amount, begin, end in self._truth.spans(budget, at - bucket) if end > begin) * bucket
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
        pods = [(uid, pod) for uid, pod in self._truth.pods.items() if (pod.namespace, pod.name) == (namespace, name)]
        uid, pod = pods[-1]
        if pod.end is not None and pod.end < now - self._late:
            self._blame(f"I12: pod {name} was evicted, and had ended {now - pod.end:.0f} s before")
        if pod.leaving_since is not None and pod.leaving_since < now - self._late:
            self._blame(f"I12: pod {name} was evicted again, {now - pod.leaving_since:.0f} s after it began to leave")
        grace = [
            moment(budget.exceeded_at) + budget.spec["enforcement"].get("gracePeriodSeconds", 30)
            for budget in self._truth.budgets.values()
            if uid in budget.matched and budget.exceeded_at
        ]
        if not grace or min(grace) > now + 1:
            self._blame(f"I12: pod {name} was evicted before the grace period of a budget was over")

    def _now(self) -> float:
        return self._world.clock.now().timestamp()

    def _blame(self, text: str) -> None:
        """Raised at the next look at the world: the API server that is being watched must not fail."""
        self._accusations.append(text)


def _amount(status: Json, name: str) -> int:
    return int(Decimal(str(status.get(name) or 0)) * HOUR)
