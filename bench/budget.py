"""Budgets beside the truth, on a real control plane with KWOK: pods end and are deleted, the operator is killed.

The truth is what the containers' own stamps say, read from lists every quarter of a second; errors are signed. Beside
it, from the same lists, the rule of the operator that budgets come from: the sum over the pods the API still shows.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools import toolbox
from tools.controlplane.client import AdminClient
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.nodes import RUNS_FOR, fake_node
from tools.controlplane.plane import ControlPlane, Wanted, quiet_environment
from tools.controlplane.ports import free_port

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench-results"
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/tgp.io/v1/namespaces/default/gpuworkloadbudgets"
LISTED_EVERY_S = 0.25
WANTED_ERROR, WANTED_STALE_S = 0.005, 7.0
AWAY_S = 60.0
LEADS_WITHIN_S = 45.0  # after a kill: the Lease of the dead leader has to run out first
ROUNDING_HOURS = 1e-6  # of the status
NODES = 4
MOMENTS = (15.0, 45.0, 120.0)  # seconds after the first pod, of the run with a kill


@dataclass(frozen=True)
class Knobs:
    count: int
    rate: float  # pods a second
    runtime: float  # seconds
    gpus: str  # units each
    observe: float  # seconds after the first pod, of the run without a kill


@dataclass
class TrueSpan:
    start: float
    end: float | None = None
    shown: bool = True  # in the last list


@dataclass(frozen=True)
class Snapshot:
    run: str
    at: float  # seconds since the first pod
    tracked: int
    status: float  # GPU-hours
    truth_then: float  # at the status's own `asOf`
    stale_s: float
    scraped: float
    truth_now: float
    recount: float  # by the pods that the API still shows
    ideal: float  # if every pod had started when it was created
    uncertain: float

    @property
    def asof_error(self) -> float:
        return _share(self.status - self.truth_then, self.truth_then)

    @property
    def scrape_error(self) -> float:
        return _share(self.scraped - self.truth_now, self.truth_now)


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench budget", description=__doc__)
    parser.add_argument("--count", type=int, default=50, help="pods (default: 50)")
    parser.add_argument("--rate", type=float, default=10.0, help="pods created a second (default: 10)")
    parser.add_argument("--runtime", type=float, default=30.0, help="seconds that a pod runs (default: 30)")
    parser.add_argument("--gpus", default="100m", help="units that a pod asks for (default: 100m)")
    parser.add_argument(
        "--observe", type=float, default=80.0, help="seconds that the first run is watched (default: 80)"
    )
    asked = parser.parse_args(options)
    knobs = Knobs(asked.count, asked.rate, asked.runtime, asked.gpus, asked.observe)
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(Wanted(controllers=True, scheduler=True, kwok=True)) as plane,
    ):
        bench = _Bench(plane, knobs, Path(folder))
        try:
            return bench.run()
        finally:
            bench.stop()


class _Bench:
    def __init__(self, plane: ControlPlane, knobs: Knobs, folder: Path) -> None:
        self._plane, self._admin, self._knobs, self._folder = plane, plane.admin, knobs, folder
        self._units = float(knobs.gpus[:-1]) / 1000 if knobs.gpus.endswith("m") else float(knobs.gpus)
        self._port = free_port()
        self._operator: subprocess.Popen[bytes] | None = None
        self._truth = _Truth(plane.admin, self._units)
        self.snapshots: list[Snapshot] = []

    def run(self) -> int:
        kubectl = Kubectl(toolbox.find(toolbox.KUBECTL), self._plane.kubeconfig, self._plane.directory)
        kubectl("apply", "--server-side", f"--filename={ROOT / 'deploy' / 'crds'}")
        kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        kubectl("apply", f"--filename={ROOT / 'deploy' / 'rbac'}")
        kubectl.apply(*(fake_node(f"own-{number}", {"cpu": "64", "pods": "500"}) for number in range(NODES)))
        self._start()
        self._truth.start()
        refund = self._steady()
        self._killed()
        away, bound = self._away()
        return self._report(refund, away, bound)

    # -- runs ----------------------------------------------------------------------------------------------------------

    def _steady(self) -> float:
        """Pods that end; then half of them are deleted. What is left of the hours that are shown, signed."""
        began = self._begin("steady", self._knobs.runtime)
        for moment in (self._knobs.observe / 5, self._knobs.observe / 2, self._knobs.observe):
            self._look("steady", began, moment, self._knobs.runtime)
        for number in range(0, self._knobs.count, 2):
            self._admin.call("DELETE", f"{PODS}/steady-{number:03}")
        last = self._look("steady, half deleted", began, time.time() - began + 10, self._knobs.runtime)
        return last.asof_error

    def _killed(self) -> None:
        runtime = 2 * self._knobs.runtime
        began = self._begin("killed", runtime)
        self._look("killed", began, MOMENTS[0], runtime)
        self._kill()
        self._start()
        for moment in MOMENTS[1:]:
            self._look("killed", began, moment, runtime)

    def _away(self) -> tuple[float, float]:
        """While no operator runs, half of the running pods are deleted. The error, and what the status calls unsure."""
        runtime = 4 * self._knobs.runtime
        began = self._begin("away", runtime)
        self._look("away", began, 15, runtime)
        self._kill()
        for number in range(0, self._knobs.count, 2):
            self._admin.call("DELETE", f"{PODS}/away-{number:03}")
        time.sleep(AWAY_S)
        self._start()
        last = self._look("away", began, time.time() - began + LEADS_WITHIN_S, runtime)
        return last.asof_error, _share(last.uncertain, last.truth_then)

    def _begin(self, name: str, runtime: float) -> float:
        """A budget of its own and its pods; returns when the first was created."""
        budget = {
            "apiVersion": "tgp.io/v1",
            "kind": "GPUWorkloadBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"run": name}},
                "quota": {"gpuHours": 1, "windowHours": 24},
                "enforcement": {"action": "AlertOnly"},
                "gpuResourceName": "cpu",
            },
        }
        self._admin.call("POST", BUDGETS, budget)
        self._run, began = name, time.time()
        for number in range(self._knobs.count):
            time.sleep(max(began + number / self._knobs.rate - time.time(), 0))
            self._admin.call("POST", PODS, self._pod(name, number, runtime))
        return began

    def _pod(self, run: str, number: int, runtime: float) -> dict[str, Any]:
        container = {"name": "work", "image": "any", "resources": {"requests": {"cpu": self._knobs.gpus}}}
        meta = {
            "name": f"{run}-{number:03}",
            "labels": {"run": run},
            "annotations": {RUNS_FOR: f"{runtime:.0f}s"},
        }
        spec = {"containers": [container], "restartPolicy": "Never"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    def _look(self, run: str, began: float, moment: float, runtime: float) -> Snapshot:
        time.sleep(max(began + moment - time.time(), 0))
        name, now = self._run, time.time()
        scraped = self._scrape(name)
        status = self._admin.call("GET", f"{BUDGETS}/{name}").get("status", {})
        time.sleep(2 * LISTED_EVERY_S)  # the lists have caught up with what the status knew
        asof = _seconds(status["asOf"]) if "asOf" in status else began
        created = [began + number / self._knobs.rate for number in range(self._knobs.count)]
        seen = Snapshot(
            run,
            now - began,
            int(status.get("trackedPods", 0)),
            float(status.get("consumedGpuHours", 0)),
            self._truth.hours(name, asof),
            now - asof,
            scraped,
            self._truth.hours(name, int(now)),  # a scrape counts whole seconds
            self._truth.hours(name, int(now), shown=True),
            sum(min(max(now - each, 0), runtime) for each in created) * self._units / 3600,
            float(status.get("uncertaintyGpuHours", 0)),
        )
        self.snapshots.append(seen)
        print(
            f"{run:<22} {seen.at:6.1f} s  tracked {seen.tracked:3}  status {seen.status:.6f} ({seen.asof_error:+.4f} "
            f"at its asOf, {seen.stale_s:.1f} s old)  scraped {seen.scraped:.6f} ({seen.scrape_error:+.4f})  "
            f"recount {_share(seen.recount - seen.truth_now, seen.truth_now):+.4f}",
            flush=True,
        )
        return seen

    # -- the operator --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        kubeconfig = self._plane.kubeconfig_for_service_account("tgp-system", "tgp-operator")
        listens = ("--listen=", f"--metrics-listen=127.0.0.1:{self._port}")
        command = [sys.executable, "-m", "tgp", "operator", *listens, f"--kubeconfig={kubeconfig}"]
        with (self._folder / "operator.log").open("ab") as log:
            self._operator = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=quiet_environment())

    def _kill(self) -> None:
        assert self._operator is not None
        self._operator.send_signal(signal.SIGKILL)
        self._operator.wait(60)

    def stop(self) -> None:
        self._truth.stop()
        if self._operator is not None and self._operator.poll() is None:
            self._operator.terminate()
            self._operator.wait(60)

    def _scrape(self, name: str) -> float:
        """0: the operator is not there yet."""
        wanted = f'gwb_consumed_gpu_hours{{name="{name}",namespace="default"}}'
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as page:
                lines = page.read().decode().splitlines()
        except OSError:
            return 0.0
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(wanted)), 0.0)

    # -- the result ----------------------------------------------------------------------------------------------------

    def _report(self, refund: float, away: float, bound: float) -> int:
        counted = [each for each in self.snapshots if each.run != "away"]
        asof = max((each.asof_error for each in counted), key=abs)
        scrape = max((each.scrape_error for each in counted if each.scraped), key=abs)
        stale = max(each.stale_s for each in counted if each.truth_now > each.truth_then)  # while something moves
        below = sum(each.status < each.truth_then - ROUNDING_HOURS - _second(each) for each in self.snapshots)
        killed = [each for each in self.snapshots if each.run == "killed"]
        seed = "/".join(f"{min(_share(each.status, each.ideal), 1.0):.3f}" for each in killed)
        recount = "/".join(f"{min(_share(each.recount, each.ideal), 1.0):.3f}" for each in killed)
        tracked = f"{max(each.tracked for each in killed)}/{self._knobs.count}"
        last = (
            f"budget tracked={tracked} asof_error={asof:+.4f} scrape_error={scrape:+.4f} stale_s={stale:.1f} "
            f"refund={refund:+.4f} away={away:+.4f} away_bound={bound:.4f} below_truth={below} seed={seed} "
            f"recount={recount}"
        )
        _write(self._knobs, self.snapshots, last)
        print(last)
        good = abs(asof) <= WANTED_ERROR and abs(scrape) <= WANTED_ERROR and stale <= WANTED_STALE_S and not below
        return 0 if good and abs(refund) <= WANTED_ERROR and -WANTED_ERROR <= away <= bound + WANTED_ERROR else 1


def _second(seen: Snapshot) -> float:
    """Stamps are whole seconds: of every pod half a second may be on either side."""
    return 0.5 * seen.truth_then * WANTED_ERROR


class _Truth:
    """What the containers' stamps say, kept also of pods that are gone."""

    def __init__(self, admin: AdminClient, units: float) -> None:
        self._admin, self._units = admin, units
        self._spans: dict[str, dict[str, TrueSpan]] = {}  # run → uid → span
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="truth", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join(30)

    def hours(self, run: str, at: float, *, shown: bool = False) -> float:
        with self._lock:
            spans = [each for each in self._spans.get(run, {}).values() if each.shown or not shown]
            ran = sum(max(min(each.end or at, at) - each.start, 0) for each in spans)
        return ran * self._units / 3600

    def _follow(self) -> None:
        while not self._done.wait(LISTED_EVERY_S):
            now = time.time()
            listed = self._admin.call("GET", PODS)["items"]
            with self._lock:
                self._see(listed, now)

    def _see(self, listed: list[dict[str, Any]], now: float) -> None:
        there = {pod["metadata"]["uid"] for pod in listed}
        for pod in listed:
            states = [each["state"] for each in pod.get("status", {}).get("containerStatuses", ())]
            if not states:
                continue
            told = states[0].get("running") or states[0].get("terminated") or {}
            if "startedAt" in told:
                spans = self._spans.setdefault(pod["metadata"]["labels"].get("run", ""), {})
                span = spans.setdefault(pod["metadata"]["uid"], TrueSpan(_seconds(told["startedAt"])))
                span.end = _seconds(told["finishedAt"]) if "finishedAt" in told else None
        for spans in self._spans.values():
            for uid, span in spans.items():
                if uid not in there and span.shown:
                    span.shown, span.end = False, span.end or now


def _write(knobs: Knobs, snapshots: list[Snapshot], last: str) -> None:
    folder = RESULTS / f"{datetime.now(UTC):%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(each), "asofError": each.asof_error, "scrapeError": each.scrape_error} for each in snapshots]
    (folder / "results.json").write_text(
        json.dumps({"knobs": asdict(knobs), "snapshots": rows, "line": last}, indent=2)
    )
    lines = ["# Budgets beside the truth", "", f"`{last}`", "", "| run | s | status | truth | error | recount |"]
    lines += ["|---|---|---|---|---|---|"]
    for each in snapshots:
        error = _share(each.recount - each.truth_now, each.truth_now)
        lines.append(
            f"| {each.run} | {each.at:.0f} | {each.status:.6f} | {each.truth_then:.6f} | {each.asof_error:+.4f} "
            f"| {error:+.4f} |"
        )
    (folder / "SUMMARY.md").write_text("\n".join(lines) + "\n")
    print(f"written: {os.path.relpath(folder, ROOT)}/SUMMARY.md, results.json")


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
