"""A pod's row: the one-word status that `kubectl get pods` shows of its containers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tgp.sim.apiserver.tables.text import NONE, age, at, count, has_true, human_duration, parse_time

_TERMINAL = frozenset({"Succeeded", "Failed"})
_NODE_LOST = "NodeLost"


@dataclass(slots=True)
class _Tally:
    """What has been read off the container statuses so far."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: datetime | None = None

    def restarted(self, status: Mapping[str, Any]) -> None:
        self.restarts += count(status, "restartCount")
        ended = parse_time(at(status, "lastState", "terminated", "finishedAt"))
        if ended and (self.last_restart is None or ended > self.last_restart):
            self.last_restart = ended


def pod_cells(pod: Mapping[str, Any], now: datetime) -> list[Any]:
    """Name, ready containers, status, restarts, age; then address, node, nominated node and readiness gates."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {c["name"] for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    tally = _tally(spec, status, sidecars)
    return [
        pod["metadata"]["name"],
        f"{tally.ready}/{len(spec.get('containers') or ()) + len(sidecars)}",
        _word(pod, status, tally.reason),
        _restarts(tally, now),
        age(pod["metadata"].get("creationTimestamp"), now),
        next((entry.get("ip") for entry in status.get("podIPs") or ()), "") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec.get("readinessGates") or (), status.get("conditions") or ()),
    ]


def _tally(spec: Mapping[str, Any], status: Mapping[str, Any], sidecars: set[str]) -> _Tally:
    start = str(status.get("reason") or status.get("phase") or "")
    if any(
        c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in status.get("conditions") or ()
    ):
        start = "SchedulingGated"
    starting, in_sidecars = _Tally(start), _Tally(start)
    initializing = False
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        starting.restarted(container)
        sidecar = container.get("name") in sidecars
        if sidecar:
            in_sidecars.restarted(container)
        ended = at(container, "state", "terminated")
        if ended and not ended.get("exitCode"):
            continue
        if sidecar and container.get("started"):
            starting.ready += 1 if container.get("ready") else 0
            continue
        starting.reason = _why_still_starting(container, index, len(spec.get("initContainers") or ()))
        initializing = True
        break
    if initializing and not has_true(status.get("conditions"), "Initialized"):
        return starting
    in_sidecars.reason, in_sidecars.ready = starting.reason, starting.ready
    return _read_main(status, in_sidecars)


def _why_still_starting(container: Mapping[str, Any], index: int, total: int) -> str:
    ended, waiting = at(container, "state", "terminated"), at(container, "state", "waiting")
    if ended:
        return f"Init:{_why_ended(ended)}"
    if waiting and waiting.get("reason") and waiting["reason"] != "PodInitializing":
        return f"Init:{waiting['reason']}"
    return f"Init:{index}/{total}"


def _why_ended(ended: Mapping[str, Any]) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _read_main(status: Mapping[str, Any], tally: _Tally) -> _Tally:
    running, failed = False, ""
    for container in reversed(status.get("containerStatuses") or ()):
        tally.restarted(container)
        ended, waiting = at(container, "state", "terminated"), at(container, "state", "waiting")
        if waiting and waiting.get("reason"):
            tally.reason = waiting["reason"]
        elif ended:
            tally.reason = _why_ended(ended)
            if ended.get("exitCode"):
                failed = tally.reason
        elif container.get("ready") and at(container, "state", "running") is not None:
            running = True
            tally.ready += 1
    if tally.reason == "Completed":  # one container is done: the others decide how the pod is
        if running and has_true(status.get("conditions"), "Ready"):
            tally.reason = "Running"
        elif failed:
            tally.reason = failed
        elif running:
            tally.reason = "NotReady"
    return tally


def _word(pod: Mapping[str, Any], status: Mapping[str, Any], reason: str) -> str:
    if not pod["metadata"].get("deletionTimestamp"):
        return reason
    if status.get("reason") == _NODE_LOST:
        return "Unknown"
    return reason if status.get("phase") in _TERMINAL else "Terminating"


def _restarts(tally: _Tally, now: datetime) -> str:
    if not tally.restarts or tally.last_restart is None:
        return str(tally.restarts)
    return f"{tally.restarts} ({human_duration(now - tally.last_restart)} ago)"


def _gates(gates: Sequence[Mapping[str, Any]], conditions: Sequence[Mapping[str, Any]]) -> str:
    if not gates:
        return NONE
    return f"{sum(has_true(conditions, gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"
