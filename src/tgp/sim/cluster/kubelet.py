"""The kubelets of all machines: pods that were bound are pulled, run, finish, and are let go gracefully.

A pod may say how it behaves: `sim.tgp.io/run-for: 10m` (it then ends), `sim.tgp.io/exit-code: "1"`,
`sim.tgp.io/stop-takes: 20s` (after being asked to end), `sim.tgp.io/provides: nvidia.com/gpu` (a device plugin).
Without `run-for` it runs until it is deleted.
"""

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from tgp.api.resource import POD
from tgp.core.model.backoff import doubled
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json
from tgp.sim.cluster import pod_status
from tgp.sim.cluster.component_api import controller_of, is_ending, key_of
from tgp.sim.cluster.controller import ClusterController, StoreCommit
from tgp.sim.cluster.machines import Machines

RUN_FOR = "sim.tgp.io/run-for"
SHORT = frozenset({"nvidia-smi", "rocm-smi", "true", "echo", "date", "hostname"})  # programs that say something and end
SHORT_S = 2.0
EXIT_CODE = "sim.tgp.io/exit-code"
STOP_TAKES = "sim.tgp.io/stop-takes"
PROVIDES = "sim.tgp.io/provides"

FIRST_PULL = (5.0, 30.0)  # seconds: a GPU image on a fresh machine
LATER_PULL = (0.2, 1.0)  # seconds: the image is there
STOP_TAKES_SECONDS = 1.0  # unless the pod says otherwise
RESTART_FIRST, RESTART_LONGEST = 10.0, 300.0  # seconds of crash-loop back-off, as a kubelet doubles it
FINISHED = ("Succeeded", "Failed")
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(slots=True)
class Run:
    """A pod on a machine. Times are the loop's."""

    uid: str
    node: str
    address: str
    starts_at: float
    running: bool = False
    ends_at: float | None = None  # None: it runs until it is stopped
    stops_at: float | None = None  # None: not requested
    restarts: int = 0
    last: Json | None = None
    provides: str = ""  # the devices that it makes known as long as it runs


class Kubelets(ClusterController):
    name = "kubelet"
    watched = (POD,)

    def __init__(
        self,
        core: Core,
        loop: asyncio.AbstractEventLoop,
        machines: Machines,
        luck: Random,
        *,
        jobs_run_for: float | None = None,
    ) -> None:
        super().__init__(core, loop)
        self._jobs_run_for = jobs_run_for  # seconds, of pods of Jobs that do not say; None: until they are stopped
        self._machines = machines
        self._luck = luck
        self._runs: dict[ObjectKey, Run] = {}
        self._pulled: dict[tuple[str, str], None] = {}
        self._addresses = 0

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        before, after, key = commit.before, commit.after, key_of(commit.obj)
        if after is None or _bound(after) != _bound(before) or is_ending(after) != is_ending(before or after):
            return (key,)
        return (key,) if is_ending(after) and _grace(after) != _grace(before) else ()

    def forget(self, node: str) -> None:
        """The machine lost power: its pods are gone, and no component reports it."""
        for key, run in list(self._runs.items()):
            if run.node == node:
                del self._runs[key]

    def wake(self, node: str) -> None:
        """The machine is there (again): look at every pod bound to it."""
        for pod in self.api.all(POD):
            if _bound(pod) == node:
                self.look_at(key_of(pod))

    def reconcile(self, key: ObjectKey) -> float | None:
        pod = self.api.get(POD, *key)
        run = self._runs.get(key)
        if run is not None and (pod is None or pod["metadata"]["uid"] != run.uid):
            self._stopped(key, run)
            run = None
        if pod is None or not self._machines.is_up(_bound(pod)):
            return None
        if is_ending(pod):
            return self._stop(key, pod, run)
        if pod.get("status", {}).get("phase") in FINISHED:
            return None
        if run is None:
            return self._admit(key, pod)
        return self._go_on(key, pod, run)

    # The life of a pod.

    def _admit(self, key: ObjectKey, pod: Json) -> float:
        node = _bound(pod)
        wait = self._luck.uniform(*self._pull_time(node, pod))
        known = pod.get("status", {}).get("containerStatuses") or ()
        restarts = max((row.get("restartCount", 0) + 1 for row in known if "waiting" not in row["state"]), default=0)
        self._addresses += 1
        address = f"10.244.{self._addresses >> 8 & 255}.{self._addresses & 255}"
        run = Run(pod["metadata"]["uid"], node, address, self._loop.time() + wait, restarts=restarts)
        self._runs[key] = run
        now, host = self.api.now_text(), self._machines.address(node)
        self.api.edit_status(POD, *key, lambda status: pod_status.waiting(status, pod, "ContainerCreating", now, host))
        return wait

    def _pull_time(self, node: str, pod: Json) -> tuple[float, float]:
        images = [(node, container.get("image", "")) for container in pod["spec"]["containers"]]
        fresh = any(image not in self._pulled for image in images)
        self._pulled.update(dict.fromkeys(images))
        return FIRST_PULL if fresh else LATER_PULL

    def _go_on(self, key: ObjectKey, pod: Json, run: Run) -> float | None:
        now = self._loop.time()
        if run.running:
            if run.ends_at is None or run.ends_at > now:
                return None if run.ends_at is None else run.ends_at - now
            return self._end(key, pod, run)
        if run.starts_at > now:
            return run.starts_at - now
        return self._start(key, pod, run)

    def _start(self, key: ObjectKey, pod: Json, run: Run) -> float | None:
        run.running = True
        now = self.api.now_text()
        self.api.edit_status(
            POD,
            *key,
            lambda status: pod_status.running(status, pod, now, run.address, restarts=run.restarts, last=run.last),
        )
        if not run.restarts:
            self.api.event(pod, "Normal", "Started", "Started container " + pod["spec"]["containers"][0]["name"])
        run.provides = _says(pod, PROVIDES)
        if run.provides:
            self._machines.provide(run.node, run.provides)
        lasts = self._lasts(pod)
        deadline = pod["spec"].get("activeDeadlineSeconds")
        limits = [length for length in (lasts, deadline) if length is not None]
        run.ends_at = self._loop.time() + min(limits) if limits else None
        return min(limits) if limits else None

    def _lasts(self, pod: Json) -> float | None:
        """Seconds that its containers run; None: until they are stopped."""
        length = _requested_length(pod)
        owner = controller_of(pod)
        return self._jobs_run_for if length is None and owner is not None and owner["kind"] == "Job" else length

    def _end(self, key: ObjectKey, pod: Json, run: Run) -> float | None:
        lasts, deadline = self._lasts(pod), pod["spec"].get("activeDeadlineSeconds")
        code = int(_says(pod, EXIT_CODE) or 0)
        now = self.api.now_text()
        if deadline is not None and (lasts is None or deadline < lasts):
            text = "Pod was active on the node longer than the specified deadline"
            self.api.edit_status(
                POD,
                *key,
                lambda status: pod_status.ended(status, pod, now, 137, reason="DeadlineExceeded", message=text),
            )
        elif _restarts(pod, code):
            return self._restart(key, pod, run, code)
        else:
            self.api.edit_status(POD, *key, lambda status: pod_status.ended(status, pod, now, code))
        self._stopped(key, run)
        return None

    def _restart(self, key: ObjectKey, pod: Json, run: Run, code: int) -> float:
        wait = doubled(RESTART_FIRST, run.restarts + 1, RESTART_LONGEST)
        rows = pod.get("status", {}).get("containerStatuses") or [{}]
        run.last = pod_status.terminated(rows[0], self.api.now_text(), code, rows[0].get("containerID", ""))
        run.restarts += 1
        run.running = False
        run.starts_at = self._loop.time() + wait
        now, last = self.api.now_text(), run.last
        self.api.edit_status(
            POD,
            *key,
            lambda status: pod_status.backing_off(status, pod, now, restarts=run.restarts, last=last),
        )
        return wait

    def _stop(self, key: ObjectKey, pod: Json, run: Run | None) -> float | None:
        """Asked to end: take the time it takes, within its grace, then say how it ended and let go."""
        now = self._loop.time()
        if run is not None and run.running:
            takes = _length(_says(pod, STOP_TAKES))
            ends = now + min(_grace(pod), STOP_TAKES_SECONDS if takes is None else takes)
            run.stops_at = ends if run.stops_at is None else min(run.stops_at, ends)
            if run.stops_at > now:
                return run.stops_at - now
        if pod.get("status", {}).get("phase") not in FINISHED:
            code = int(_says(pod, EXIT_CODE) or 0) if run is not None and run.running else 137
            text = self.api.now_text()
            self.api.edit_status(POD, *key, lambda status: pod_status.ended(status, pod, text, code))
        if run is not None:
            self._stopped(key, run)
        current = self.api.get(POD, *key)
        if current is not None and _grace(current) > 0:
            self.api.delete(POD, current, grace_seconds=0)
        return None

    def _stopped(self, key: ObjectKey, run: Run) -> None:
        self._runs.pop(key, None)
        if run.provides and self._machines.is_up(run.node):
            self._machines.withdraw(run.node, run.provides)


def _bound(pod: Json | None) -> str:
    return str(pod["spec"].get("nodeName") or "") if pod is not None else ""


def _grace(pod: Json | None) -> int:
    return int((pod or {"metadata": {}})["metadata"].get("deletionGracePeriodSeconds") or 0)


def _says(pod: Json, name: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(name, ""))


def _requested_length(pod: Json) -> float | None:
    """Seconds from its annotation or its commands; None: not given."""
    said = _length(_says(pod, RUN_FOR))
    programs = [(container.get("command") or [""])[0] for container in pod["spec"]["containers"]]
    return SHORT_S if said is None and SHORT.issuperset(programs) else said


def _restarts(pod: Json, code: int) -> bool:
    policy = pod["spec"].get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _length(text: str) -> float | None:
    """`1h30m`, `45s`; None: nothing is said."""
    if not text:
        return None
    found = _LENGTH.findall(text)
    assert "".join(number + unit for number, unit in found) == text, f"{text!r} is no length of time"
    return float(sum(float(number) * _UNITS[unit] for number, unit in found))
