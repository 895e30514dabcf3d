"""What a kubelet writes about a pod, from what it knows: pure functions from a pod and a moment to its status."""

from hashlib import blake2b
from typing import Any

from tgp.sim.apiserver.json_value import Json
from tgp.sim.cluster.component_api import set_condition


def waiting(status: Json, pod: Json, reason: str, now: str, host_ip: str) -> None:
    """Bound to a node, and not yet running there."""
    status.update(phase="Pending", hostIP=host_ip, hostIPs=[{"ip": host_ip}])
    status.setdefault("startTime", now)
    status["containerStatuses"] = [
        _container(pod, container, {"waiting": {"reason": reason}}, ready=False, started=False)
        for container in pod["spec"]["containers"]
    ]
    _conditions(status, now, started=False, ready=False, reason="ContainersNotReady")


def running(status: Json, pod: Json, now: str, pod_ip: str, *, restarts: int, last: Json | None) -> None:
    status.update(phase="Running", podIP=pod_ip, podIPs=[{"ip": pod_ip}])
    status["containerStatuses"] = [
        _container(
            pod, container, {"running": {"startedAt": now}}, ready=True, started=True, restarts=restarts, last=last
        )
        for container in pod["spec"]["containers"]
    ]
    _conditions(status, now, started=True, ready=True, reason="")


def backing_off(status: Json, pod: Json, now: str, *, restarts: int, last: Json) -> None:
    """A container ended and will be started again."""
    status["phase"] = "Running"
    status["containerStatuses"] = [
        _container(
            pod,
            container,
            {"waiting": {"reason": "CrashLoopBackOff"}},
            ready=False,
            started=False,
            restarts=restarts,
            last=last,
        )
        for container in pod["spec"]["containers"]
    ]
    _conditions(status, now, started=True, ready=False, reason="ContainersNotReady")


def ended(status: Json, pod: Json, now: str, code: int, *, reason: str = "", message: str = "") -> None:
    """All containers are done for good. Their start times stay, whatever else happens."""
    status["phase"] = "Failed" if code or reason else "Succeeded"
    for name, value in (("reason", reason), ("message", message)):
        if value:
            status[name] = value
    began = {row["name"]: row for row in status.get("containerStatuses", ())}
    status["containerStatuses"] = [
        _ended_container(pod, container, began.get(container["name"]), now, code)
        for container in pod["spec"]["containers"]
    ]
    _conditions(status, now, started=False, ready=False, reason="PodFailed" if code or reason else "PodCompleted")


def terminated(before: Json | None, now: str, code: int, container_id: str) -> Json:
    """The state of a container that has stopped, keeping when it began if it ever did."""
    state = (before or {}).get("state", {})
    if "terminated" in state:
        return dict(state["terminated"])
    began = state.get("running", {}).get("startedAt")
    return {
        "exitCode": code,
        "reason": "Completed" if code == 0 else "Error",
        "startedAt": began or now,
        "finishedAt": now,
        "containerID": container_id,
    }


def _ended_container(pod: Json, container: Json, before: Json | None, now: str, code: int) -> Json:
    state = {"terminated": terminated(before, now, code, _container_id(pod, container))}
    restarts = int((before or {}).get("restartCount", 0))
    last = (before or {}).get("lastState", {}).get("terminated")
    return _container(pod, container, state, ready=False, started=False, restarts=restarts, last=last)


def _container(
    pod: Json,
    container: Json,
    state: Json,
    *,
    ready: bool,
    started: bool,
    restarts: int = 0,
    last: Json | None = None,
) -> Json:
    status: dict[str, Any] = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "" if "waiting" in state and not restarts else f"sim/{_digest(container.get('image', ''))}",
        "ready": ready,
        "started": started,
        "restartCount": restarts,
        "state": state,
        "lastState": {"terminated": last} if last else {},
    }
    if "waiting" not in state:
        status["containerID"] = _container_id(pod, container)
    return status


def _container_id(pod: Json, container: Json) -> str:
    return f"sim://{_digest(pod['metadata']['uid'] + '/' + container['name'])}"


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _conditions(status: Json, now: str, *, started: bool, ready: bool, reason: str) -> None:
    """In the order in which a kubelet writes them; PodScheduled is the scheduler's and stays."""
    done = reason in {"PodCompleted", "PodFailed"}
    completed = reason if done else ""
    initialized = "True" if started or done else "False"
    why = "PodCompleted" if reason == "PodCompleted" else ""
    not_ready = "" if ready else (completed or "ContainersNotReady")
    rows = (
        ("PodReadyToStartContainers", "True" if started else "False", ""),
        ("Initialized", initialized, why),
        ("Ready", "True" if ready else "False", not_ready),
        ("ContainersReady", "True" if ready else "False", not_ready),
    )
    for kind, truth, because in rows:
        set_condition(status, kind, truth, now, reason=because, lastProbeTime=None)
