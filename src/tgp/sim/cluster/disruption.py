"""PodDisruptionBudgets: how many pods may be disturbed now. Evictions read, and lower, what is written here."""

from collections.abc import Iterable
from datetime import timedelta

from tgp.api.resource import DEPLOYMENT, JOB, POD, POD_DISRUPTION_BUDGET
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.selectors import from_label_selector
from tgp.sim.cluster.component_api import REPLICA_SET, controller_of, is_ending, key_of, moment, set_condition
from tgp.sim.cluster.controller import ClusterController, StoreCommit
from tgp.sim.cluster.deployments import scaled
from tgp.sim.cluster.pods_of import FINISHED, is_ready

DISRUPTED_FOR = timedelta(minutes=2)  # how long an eviction that led to no deletion is remembered


class DisruptionBudgets(ClusterController):
    name = "disruption-controller"
    watched = (POD_DISRUPTION_BUDGET, POD, REPLICA_SET, DEPLOYMENT)

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        if commit.served.resource == POD_DISRUPTION_BUDGET:
            return (key_of(commit.obj),) if commit.after is not None else ()
        namespace = commit.obj["metadata"]["namespace"]
        budgets = self.api.all(POD_DISRUPTION_BUDGET, namespace)
        if commit.served.resource != POD:
            return [key_of(budget) for budget in budgets]
        return [
            key_of(budget) for budget in budgets if _matches(budget, commit.before) or _matches(budget, commit.after)
        ]

    def reconcile(self, key: ObjectKey) -> float | None:
        budget = self.api.get(POD_DISRUPTION_BUDGET, *key)
        if budget is None:
            return None
        pods = [pod for pod in self.api.all(POD, key.namespace) if _matches(budget, pod) and _counts(pod)]
        remembered = self._disrupted(budget, pods)
        healthy = sum(is_ready(pod) and pod["metadata"]["name"] not in remembered for pod in pods)
        expected, desired = self._wanted(budget, pods)
        allowed = max(healthy - desired, 0) if expected else 0
        now = self.api.now_text()

        def edit(status: Json) -> None:
            status.update(
                currentHealthy=healthy,
                desiredHealthy=desired,
                expectedPods=expected,
                disruptionsAllowed=allowed,
                observedGeneration=budget["metadata"].get("generation", 1),
            )
            if remembered:
                status["disruptedPods"] = remembered
            else:
                status.pop("disruptedPods", None)
            truth, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
            set_condition(status, "DisruptionAllowed", truth, now, reason=reason)
            next(row for row in status["conditions"] if row["type"] == "DisruptionAllowed")["message"] = ""

        self.api.edit_status(POD_DISRUPTION_BUDGET, *key, edit)
        return DISRUPTED_FOR.total_seconds() if remembered else None

    def _disrupted(self, budget: Json, pods: list[Json]) -> Json:
        """Evictions under way: pods still here, not yet ending, asked not long ago."""
        said = budget.get("status", {}).get("disruptedPods") or {}
        here = {pod["metadata"]["name"]: pod for pod in pods}
        horizon = self.api.now() - DISRUPTED_FOR
        return {
            name: at for name, at in said.items() if name in here and not is_ending(here[name]) and moment(at) > horizon
        }

    def _wanted(self, budget: Json, pods: list[Json]) -> tuple[int, int]:
        """Pods there should be, and how many of them must stay healthy."""
        spec = budget["spec"]
        if "maxUnavailable" in spec:
            expected = self._scale(pods)
            return expected, max(expected - scaled(spec["maxUnavailable"], expected, up=True), 0)
        least = spec.get("minAvailable", 1)
        if isinstance(least, int):
            return len(pods), least
        expected = self._scale(pods)
        return expected, scaled(least, expected, up=True)

    def _scale(self, pods: list[Json]) -> int:
        """What the controllers of these pods were asked for; a pod without one counts for itself."""
        asked: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                asked[pod["metadata"]["uid"]] = 1
            elif owner["uid"] not in asked:
                asked[owner["uid"]] = self._asked(owner, pod["metadata"]["namespace"], pods)
        return sum(asked.values())

    def _asked(self, owner: Json, namespace: str, pods: list[Json]) -> int:
        found: Json | None = None
        if owner["kind"] == "ReplicaSet":
            found = self.api.get(REPLICA_SET, namespace, owner["name"])
        elif owner["kind"] == "Job":
            job = self.api.get(JOB, namespace, owner["name"])
            return int(job["spec"].get("parallelism", 1)) if job is not None else 0
        if found is None:
            return sum(1 for pod in pods if (controller_of(pod) or {}).get("uid") == owner["uid"])
        return int(found["spec"].get("replicas", 1))


def _matches(budget: Json, pod: Json | None) -> bool:
    if pod is None or pod["metadata"]["namespace"] != budget["metadata"]["namespace"]:
        return False
    return from_label_selector(budget["spec"].get("selector")).matches(pod["metadata"].get("labels"))


def _counts(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") not in FINISHED
