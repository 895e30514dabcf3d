"""From a thousand waiting pods to a thousand machines: real API server, scheduler and KWOK, a simulated provider."""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tgp.adapters.clock import SystemClock
from tgp.adapters.http.serve import listen
from tgp.app.demo.fixtures import join_secret
from tgp.controllers.joining.tokens import ids_of
from tgp.core.model.token import plain_uid
from tgp.core.requests.node_state import read_provider_id
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.registry import pretend
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.factory.simulator import FactorySimulator
from tgp.sim.node_bootstrap import BootIdentity, boot_identity_of
from tgp.sim.talos_guest import configs_in
from tools import toolbox
from tools.controlplane.client import AdminClient, Refused
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.nodes import fake_node
from tools.controlplane.plane import ControlPlane, Wanted, quiet_environment

ROOT = Path(__file__).parents[1]
WANTED_ORDERED_S, WANTED_RSS_MB, WANTED_CALLS = 60, 220, 8
PATIENCE_S = 600.0
BOOT_S = 60.0  # from an order to a Node: few rented machines are faster. `--boot 5`: they join while others are ordered
LOG, LOG_SHOWN = "operator.log", 4000
WRITERS = 4  # threads that create pods and Nodes
POLL_S = 0.25
LEAST_SHOWN = 0.01  # calls per machine
GPU = "nvidia.com/gpu"
OPERATOR_ROW = "operator"
OPERATOR = "system:serviceaccount:tgp-system:tgp-operator"
_HOSTNAME = re.compile(r"^ *hostname: (\S+)$", re.MULTILINE)
_PROVIDER_ID = re.compile(r"^ *providerID: (\S+)$", re.MULTILINE)
ANY_TAINT = [{"operator": "Exists"}]
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": ["watch"]},
        {"level": "Metadata", "users": [OPERATOR]},
        {"level": "None"},
    ],
}


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench burst", description=__doc__)
    parser.add_argument("--pods", type=int, default=1000, help="pods that begin to wait at once (default: 1000)")
    parser.add_argument("--boot", type=float, default=BOOT_S, help=f"seconds until a machine is a Node ({BOOT_S:.0f})")
    asked = parser.parse_args(options)
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "audit.json"
        policy.write_text(json.dumps(AUDIT))
        extra = {"kube-apiserver": (f"--audit-policy-file={policy}",)}
        wanted = Wanted(controllers=True, scheduler=True, kwok=True, extra=extra)
        with ControlPlane(wanted) as plane, _outside(asked.pods, asked.boot) as outside:
            return _Burst(plane, outside, asked.pods).run(Path(folder))


@dataclass(frozen=True)
class _Outside:
    """The provider and the image factory, each on a port of its own."""

    provider: Simulator
    provider_url: str
    factory_url: str


@contextmanager
def _outside(pods: int, boot_s: float) -> Iterator[_Outside]:
    """The provider has stock for all."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="provider", daemon=True)
    thread.start()
    simulator = pretend("simulated", SystemClock(), "burst")
    simulator.fleet.habits = replace(simulator.fleet.habits, list_lag=(0.0, 1.0), ending=(0.5, 1.5), moves=False)
    for stand in simulator.fleet.stands.values():
        stand.product = replace(stand.product, boot_seconds=boot_s)
        stand.stock = 2 * pods
    factory = FactorySimulator(SystemClock(), timedelta(seconds=1))
    ports = [
        asyncio.run_coroutine_threadsafe(listen(handler), loop).result(60)
        for handler in (simulator.handle, factory.handle)
    ]
    try:
        yield _Outside(simulator, ports[0].url, ports[1].url)
    finally:
        for port in ports:
            asyncio.run_coroutine_threadsafe(port.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


class _Burst:
    def __init__(self, plane: ControlPlane, outside: _Outside, pods: int) -> None:
        self._plane = plane
        self._outside = outside
        self._simulator = outside.provider
        self._pods = pods
        self._admin: AdminClient = plane.admin
        self._joined: set[str] = set()
        self._plates: dict[str, BootIdentity | None] = {}  # by id of a machine

    def run(self, folder: Path) -> int:
        kubectl = Kubectl(toolbox.find(toolbox.KUBECTL), self._plane.kubeconfig, self._plane.directory)
        kubectl("apply", "--server-side", f"--filename={ROOT / 'deploy' / 'crds'}")
        kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        kubectl("apply", f"--filename={ROOT / 'deploy' / 'rights.yaml'}")
        kubectl.apply(join_secret(), _device_plugin(), _node_class(self._outside.provider_url), _pool())
        operator = self._start(folder)
        try:
            _until(self._pool_ready, "the pool is Ready")
            before, cpu_before = len(self._lines()), self._cpu(operator.pid)
            began = time.monotonic()
            with ThreadPoolExecutor(WRITERS) as writers:
                list(writers.map(self._create_pod, range(self._pods)))
            print(f"{self._pods} pods created in {time.monotonic() - began:.1f} s", flush=True)
            began = time.monotonic()
            _until(
                lambda: self._launched() >= self._pods,
                lambda: f"{self._launched()} machines are ordered",
                self._register,
            )
            ordered_s = time.monotonic() - began
            until_last, cpu = self._lines()[before:], self._cpu(operator.pid)
            print(f"{self._pods} machines ordered in {ordered_s:.1f} s (wanted: {WANTED_ORDERED_S} at most for 1,000)")
            self._print_cpu({name: each - cpu_before[name] for name, each in cpu.items()}, ordered_s)
            calls = self._print_calls(until_last)
            _until(lambda: self._ready() >= self._pods, lambda: f"{self._ready()} Nodes are Ready", self._register)
            ready_s = time.monotonic() - began
            rss_mb = _peak_mb(operator.pid)
            bought = self._launched()
        except SystemExit:
            print((folder / LOG).read_text()[-LOG_SHOWN:], file=sys.stderr)
            raise
        finally:
            operator.terminate()
            operator.wait(60)
        print(
            f"{bought} machines Ready after {ready_s:.1f} s; "
            f"peak memory {rss_mb:.0f} MB (wanted: {WANTED_RSS_MB} at most)"
        )
        print(
            f"burst ordered_s={ordered_s:.1f} ready_s={ready_s:.1f} rss_mb={rss_mb:.0f} calls={calls:.1f} "
            f"cpu_ms={(cpu[OPERATOR_ROW] - cpu_before[OPERATOR_ROW]) / self._pods * 1000:.0f}"
        )
        return 0 if bought == self._pods else 1

    def _start(self, folder: Path) -> "subprocess.Popen[bytes]":
        kubeconfig = self._plane.kubeconfig_for_service_account("tgp-system", "tgp-operator")
        where = (f"--kubeconfig={kubeconfig}", f"--factory-url={self._outside.factory_url}")
        command = [sys.executable, "-m", "tgp", "operator", "--listen=", *where]
        with (folder / LOG).open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=quiet_environment())

    def _create_pod(self, number: int) -> None:
        self._admin.call("POST", "/api/v1/namespaces/default/pods", _pod(number))

    def _pool_ready(self) -> bool:
        pool = self._admin.call("GET", "/apis/tgp.io/v1/namespaces/default/gpunodepools/burst")
        rows = pool.get("status", {}).get("conditions", ())
        return any(row["type"] == "Ready" and row["status"] == "True" for row in rows)

    def _launched(self) -> int:
        return sum(not machine.foreign for machine in list(self._simulator.fleet.machines.values()))

    def _ready(self) -> int:
        found = self._admin.call("GET", "/apis/tgp.io/v1/namespaces/default/gpurequests")["items"]
        return sum(each.get("status", {}).get("phase") == "Ready" for each in found)

    def _plate(self, machine: SimulatedMachine) -> BootIdentity | None:
        """Read whole for the first machine, then by two lines: the parser would take 10 ms of this process for each."""
        if machine.foreign:
            return None
        if machine.id not in self._plates:
            text = next(configs_in(machine.user_data), b"").decode()
            names, marks = _HOSTNAME.findall(text), _PROVIDER_ID.findall(text)
            plate = BootIdentity(*names, *marks) if len(names) == len(marks) == 1 else None
            if plate is None or not self._plates:
                plate = boot_identity_of("simulated", machine)
                assert plate is None or (names, marks) == ([plate.node], [plate.provider_id]), "the two lines differ"
            self._plates[machine.id] = plate
        return self._plates[machine.id]

    def _register(self) -> None:
        """Machines that have booted become Nodes; KWOK plays their kubelets."""
        self._simulator.fleet.advance()
        new = [
            (machine, plate)
            for machine in list(self._simulator.fleet.machines.values())
            if machine.phase is Phase.RUNNING and machine.id not in self._joined
            if (plate := self._plate(machine)) is not None
        ]
        for machine, plate in new:
            capacity = {GPU: str(machine.product.gpu_count), "cpu": str(machine.product.vcpus), "memory": "64Gi"}
            node = fake_node(plate.node, capacity)
            node["spec"] = {"providerID": plate.provider_id}
            try:
                self._admin.call("POST", "/api/v1/nodes", node)
            except Refused as error:
                if error.status != 409:
                    raise
            self._joined.add(machine.id)

    def _cpu(self, operator: int) -> dict[str, float]:
        """Seconds of processor time so far, by process. The bench plays the provider, and creates Nodes."""
        found = {OPERATOR_ROW: operator, "provider and bench": os.getpid(), **self._plane.pids}
        return {name: _cpu_s(pid) for name, pid in found.items()}

    def _print_cpu(self, used: Mapping[str, float], ordered_s: float) -> None:
        every, cores = sum(used.values()), os.cpu_count() or 1
        print(f"Processor time until the last order: {every:.1f} s, {every / ordered_s / cores:.0%} of {cores} cores")
        for name, seconds in sorted(used.items(), key=lambda each: -each[1]):
            print(f"  {name:<48} {seconds:6.1f} s {seconds / self._pods * 1000:6.1f} ms per machine")

    def _lines(self) -> list[dict[str, Any]]:
        text = self._plane.audit_log.read_text() if self._plane.audit_log.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def _print_calls(self, lines: list[dict[str, Any]]) -> float:
        """The operator's calls to the API server, per machine; returns those until the order of the machine itself."""
        orders = self._order_times()
        own = Counter(_call(line) for line in lines if not _after_order(line, orders))
        calls = Counter(map(_call, lines))
        print(f"API calls per machine until its order (wanted: {WANTED_CALLS} at most), and until the last order")
        print(f"  {'all':<48} {own.total() / self._pods:6.2f} {calls.total() / self._pods:6.2f}")
        for (verb, resource), count in calls.most_common():
            if count / self._pods >= LEAST_SHOWN:
                print(f"  {verb:<8} {resource:<39} {own[verb, resource] / self._pods:6.2f} {count / self._pods:6.2f}")
        sys.stdout.flush()
        return own.total() / self._pods

    def _order_times(self) -> dict[str, datetime]:
        """When a machine was ordered, by the name of each object that is its own: request, Node, Lease and Secret."""
        found = self._admin.call("GET", "/apis/tgp.io/v1/namespaces/default/gpurequests")["items"]
        requests = {plain_uid(each["metadata"]["uid"]): each["metadata"]["name"] for each in found}
        times: dict[str, datetime] = {}
        for machine in list(self._simulator.fleet.machines.values()):
            plate = self._plate(machine)
            mark = read_provider_id(plate.provider_id) if plate is not None else None
            if plate is not None and mark is not None:
                secrets = (f"bootstrap-token-{each}" for each in ids_of(str(mark[1])))
                times |= dict.fromkeys((requests[mark[1].uid], plate.node, *secrets), machine.created_at)
        return times


def _after_order(line: dict[str, Any], orders: Mapping[str, datetime]) -> bool:
    """Whether a call is about a machine that was ordered before. An Event has the name of its object, and a number."""
    named = line.get("objectRef", {})
    name = str(named.get("name", ""))
    ordered = orders.get(name.partition(".")[0] if named.get("resource") == "events" else name)
    return ordered is not None and datetime.fromisoformat(line["requestReceivedTimestamp"]) > ordered


def _call(line: dict[str, Any]) -> tuple[str, str]:
    """Verb and resource of a line of the audit log."""
    named = line.get("objectRef", {})
    sub = f"/{named['subresource']}" if named.get("subresource") else ""
    what = named.get("resource") or line["requestURI"].partition("?")[0]
    return line["verb"], f"{what}{sub}"


def _pod(number: int) -> dict[str, Any]:
    work = {"name": "work", "image": "any", "resources": {"requests": {"cpu": "1"}, "limits": {GPU: "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"work-{number:04}", "namespace": "default", "labels": {"app": "work"}},
        "spec": {"containers": [work], "tolerations": ANY_TAINT},
    }


def _device_plugin() -> dict[str, Any]:
    labels = {"app": "nvidia-device-plugin"}
    pod = {"containers": [{"name": "plugin", "image": "k8s-device-plugin:any"}], "tolerations": ANY_TAINT}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {**pod, "nodeSelector": {"nvidia.com/gpu.present": "true"}},
            },
        },
    }


def _node_class(url: str) -> dict[str, Any]:
    return {
        "apiVersion": "tgp.io/v1",
        "kind": "GPUNodeClass",
        "metadata": {"name": "burst"},
        "spec": {
            "providers": [{"name": "simulated", "settings": {"endpoint": url}}],
            "networking": {"backend": "none"},
        },
    }


def _pool() -> dict[str, Any]:
    """One GPU per machine, so that each pod needs its own."""
    alone = {"key": "tgp.io/gpu-count", "operator": "In", "values": ["1"]}
    return {
        "apiVersion": "tgp.io/v1",
        "kind": "GPUNodePool",
        "metadata": {"name": "burst", "namespace": "default"},
        "spec": {"nodeClassRef": {"name": "burst"}, "template": {"spec": {"requirements": [alone]}}},
    }


def _until(
    holds: Callable[[], bool], what: str | Callable[[], str], meanwhile: Callable[[], None] = lambda: None
) -> None:
    began = time.monotonic()
    while not holds():
        meanwhile()
        if time.monotonic() - began > PATIENCE_S:
            raise SystemExit(f"not within {PATIENCE_S:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(POLL_S)


def _peak_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def _cpu_s(pid: int) -> float:
    """Seconds of processor time of a process so far: other processes on the machine do not change it."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
