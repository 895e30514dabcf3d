"""Where budgets are measured: a control plane, pods of KWOK, operators, and looks at a budget beside the truth."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.budget.connection import Connection
from bench.budget.operators import CONSUMED, ROOT, Operator
from bench.budget.truth import PODS, WORK, Truth, moment
from tools import toolbox
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.nodes import RUNS_FOR, fake_node
from tools.controlplane.plane import ControlPlane

BUDGETS = "/apis/tgp.io/v1/namespaces/default/gpuworkloadbudgets"
NODES = 4
ROUNDING_HOURS = 1e-6  # of the status
TAKEN_OVER_WITHIN_S = 90.0  # after a kill: the Lease of the dead leader has to run out first


@dataclass(frozen=True)
class Knobs:
    count: int
    rate: float  # pods a second
    runtime: float  # seconds
    gpus: str  # units each
    observe: float  # seconds after the first pod, of the run without a kill

    @property
    def units(self) -> float:
        return float(self.gpus[:-1]) / 1000 if self.gpus.endswith("m") else float(self.gpus)


@dataclass(frozen=True)
class Snapshot:
    run: str
    at: float  # seconds since the first pod
    tracked: int
    shown: int  # pods that have started, and that the API shows
    status: float  # GPU-hours
    truth_then: float  # at the status's own `asOf`
    least_then: float  # the same, where a pod was gone between two lists: as if it had gone at the first
    stale_s: float
    scraped: float | None  # None: no leader answered
    truth_before: float  # when it was asked for
    truth_now: float  # when it was there
    recount: float  # by the pods that the API still shows
    ideal: float  # if every pod had started when it was created
    uncertain: float

    @property
    def asof_error(self) -> float:
        return share(_beyond(self.status, self.truth_then, self.truth_then), self.truth_then)

    @property
    def unexplained(self) -> float:
        """What the status says beyond the truth and what it calls unsure; below the truth it is negative."""
        return share(_beyond(self.status, self.truth_then, self.truth_then + self.uncertain), self.truth_then)

    @property
    def scrape_error(self) -> float | None:
        """The same, of what was true while it was asked for; None: no leader answered."""
        if self.scraped is None:
            return None
        return share(_beyond(self.scraped, self.truth_before, self.truth_now + self.uncertain), self.truth_now)

    @property
    def recount_error(self) -> float:
        return share(self.recount - self.truth_now, self.truth_now)

    @property
    def moves(self) -> bool:
        return self.truth_now > self.truth_then

    @property
    def below(self) -> bool:
        return self.status < self.least_then - ROUNDING_HOURS


def _beyond(value: float, least: float, most: float) -> float:
    beyond = value - min(max(value, least), most)
    return beyond if abs(beyond) > ROUNDING_HOURS else 0.0


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


class Stage:
    def __init__(self, plane: ControlPlane, knobs: Knobs, truth: Truth, operators: list[Operator]) -> None:
        self.plane, self.knobs, self.truth, self.operators = plane, knobs, truth, operators
        self.calls = Connection(plane)
        self.snapshots: list[Snapshot] = []
        self._created: dict[str, list[tuple[float, float]]] = {}  # run → when, and how long it runs
        self.names: dict[str, str] = {}  # by uid

    def create_budget(self, name: str, gpu_hours: float = 1) -> None:
        spec = {
            "selector": {"matchLabels": {WORK: name}},
            "quota": {"gpuHours": gpu_hours, "windowHours": 24},
            "enforcement": {"action": "AlertOnly"},
            "gpuResourceName": "cpu",
        }
        kind = {"apiVersion": "tgp.io/v1", "kind": "GPUWorkloadBudget"}
        self.calls.call("POST", BUDGETS, {**kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec})

    def create_pod(self, run: str, runtime: float, node: str = "") -> None:
        """`node`: it is placed there at once; without it the scheduler places it."""
        rows = self._created.setdefault(run, [])
        container = {"name": "work", "image": "any", "resources": {"requests": {"cpu": self.knobs.gpus}}}
        spec = {"containers": [container], "restartPolicy": "Never", "automountServiceAccountToken": False}
        meta = {
            "name": f"{run}-{len(rows):04}",
            "labels": {WORK: run},
            "annotations": {RUNS_FOR: f"{runtime:.0f}s"},
        }
        rows.append((time.time(), runtime))
        placed = {**spec, "nodeName": node} if node else spec
        made = self.calls.call("POST", PODS, {"metadata": meta, "spec": placed})
        self.names[made["metadata"]["uid"]] = made["metadata"]["name"]

    def leader(self) -> Operator:
        """The replica that counts; the first if none does."""
        return next(
            (one for one in self.operators if one.scraped(next(iter(self._created))) is not None), self.operators[0]
        )

    def scraped(self, run: str, metric: str = CONSUMED) -> float | None:
        """By the metrics of the leader; None: none answers."""
        return next((each for each in (one.scraped(run, metric) for one in self.operators) if each is not None), None)

    def start_ended(self) -> None:
        """A leader that lost its Lease has exited: start it again, as Kubernetes does."""
        for one in self.operators:
            if not one.runs:
                one.start()

    def begin(self, name: str, runtime: float) -> float:
        """A budget of its own and its pods; returns when the first was created."""
        began = time.time()
        self.create_budget(name)
        assert self.taken_over(name, began - 1), "no operator leads"
        began = time.time()
        for number in range(self.knobs.count):
            time.sleep(max(began + number / self.knobs.rate - time.time(), 0))
            self.create_pod(name, runtime)
        return began

    def delete(self, uid: str) -> None:
        """By force: it is gone when this returns."""
        before = time.time()
        status, content = self.calls.ask("DELETE", f"{PODS}/{self.names[uid]}?gracePeriodSeconds=0")
        assert status in (200, 404), content[:300]
        self.truth.deleted(uid, before, time.time())

    def status(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.calls.call("GET", f"{BUDGETS}/{run}").get("status", {})
        return found

    def taken_over(self, run: str, since: float, within_s: float = TAKEN_OVER_WITHIN_S) -> bool:
        """Wait until a leader has written the status since then; whether that happened."""
        give_up_at = time.time() + within_s
        while time.time() < give_up_at:
            self.start_ended()
            if moment(self.status(run).get("asOf", "1970-01-01T00:00:00Z")) >= since:
                return True
            time.sleep(0.5)
        return False

    def look(self, run: str, began: float, at: float | None = None, name: str = "") -> Snapshot:
        """At so many seconds after the first pod; at once without it. `name`: as the table calls it."""
        time.sleep(max(began + at - time.time(), 0) if at is not None else 0)
        before, scraped = time.time(), self.scraped(run)
        now, status = time.time(), self.status(run)
        self.truth.listed_again()  # the lists have caught up with what the status knew
        asof = moment(status["asOf"]) if "asOf" in status else began
        seen = Snapshot(
            name or run,
            now - began,
            int(status.get("trackedPods", 0)),
            self.truth.shown(run),
            float(status.get("consumedGpuHours", 0)),
            self.truth.hours(run, asof),
            self.truth.hours(run, asof, least=True),
            now - asof,
            scraped,
            self.truth.hours(run, int(before)),  # a scrape counts whole seconds
            self.truth.hours(run, int(now)),
            self.truth.hours(run, int(now), shown=True),
            sum(min(max(now - each, 0), runtime) for each, runtime in self._created[run]) * self.knobs.units / 3600,
            float(status.get("uncertaintyGpuHours", 0)),
        )
        self.snapshots.append(seen)
        scrape = "no leader" if seen.scrape_error is None else f"{seen.scraped:.6f} ({seen.scrape_error:+.4f})"
        print(
            f"{seen.run:<22} {seen.at:6.1f} s  tracked {seen.tracked:3}  status {seen.status:.6f} "
            f"({seen.asof_error:+.4f} at its asOf, {seen.stale_s:.1f} s old, {seen.uncertain:.6f} unsure)  "
            f"scraped {scrape}  recount {seen.recount_error:+.4f}",
            flush=True,
        )
        return seen


@contextmanager
def stage(
    plane: ControlPlane,
    knobs: Knobs,
    folder: Path,
    *,
    operators: int = 1,
    nodes: int = NODES,
    listed_every: float = 0.25,
) -> Iterator[Stage]:
    """With everything applied, and the operators started."""
    kubectl = Kubectl(toolbox.find(toolbox.KUBECTL), plane.kubeconfig, plane.directory)
    kubectl("apply", "--server-side", f"--filename={ROOT / 'deploy' / 'crds'}")
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    kubectl("apply", f"--filename={ROOT / 'deploy' / 'rights.yaml'}")
    kubectl.apply(*(fake_node(f"own-{number}", {"cpu": "640", "pods": "1000"}) for number in range(nodes)))
    replicas = [Operator(plane, folder / f"operator-{number}.log") for number in range(operators)]
    try:
        for one in replicas:
            one.start()
        with Connection(plane) as lists, Truth(lists, knobs.units, listed_every) as truth:
            made = Stage(plane, knobs, truth, replicas)
            with made.calls:
                yield made
    finally:
        for one in replicas:
            one.stop()
