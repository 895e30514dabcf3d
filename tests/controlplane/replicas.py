"""Replicas of the operator: processes of their own, under the shipped ServiceAccount, minded as by a kubelet."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.controlplane import replica
from tools.controlplane.plane import ControlPlane, quiet_environment

ROOT = Path(__file__).parents[2]
# A fraction of the shipped times: what is tried is the order of things, not the length of a lease.
LEASE = ("--lease-duration=6s", "--renew-deadline=4s", "--retry-period=1s")
LEASE_LOST = 75
LAST_RESORT = 14  # the timer behind the watchdog, which needs no interpreter
PATIENCE_S = 150.0
POLL_S = 0.2
SHOWN = 4000  # characters of a log, for the reader of a failure


class Replicas:
    def __init__(
        self,
        plane: ControlPlane,
        signposts: str,
        logs: Path,
        lease: tuple[str, ...] = LEASE,
        shortened: Mapping[str, float] | None = None,
        *,
        variables: Mapping[str, str] | None = None,  # of their environment, besides ours
    ) -> None:
        self._lease = lease
        self._shortened = json.dumps(dict(shortened or {}))
        self._variables = dict(variables or {})
        self._plane = plane
        self._signposts = signposts
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._strayed: list[subprocess.Popen[bytes]] = []

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """A token of its own for each, as a pod has."""
        kubeconfig = self._plane.kubeconfig_for_service_account("tgp-system", "tgp-operator")
        command = [sys.executable, "-m", replica.__name__, "operator", "--listen=", *self._lease]
        environment = (
            quiet_environment()
            | self._variables
            | {
                replica.VARIABLE: self._signposts,
                replica.SHORTENED: self._shortened,
            }
        )
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*command, f"--kubeconfig={kubeconfig}", f"--identity={name}"],
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=environment,
            )
        return self._running[name]

    def kill(self, name: str) -> None:
        """Without a chance to tidy up."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def stop(self, name: str) -> int:
        process = self._running.pop(name)
        process.terminate()
        return process.wait(PATIENCE_S)

    def tend(self) -> None:
        """Who ended for want of the Lease is started again, as by a kubelet; any other end is a failure."""
        for name, process in list(self._running.items()):
            code = process.poll()
            if code is None:
                continue
            self.start(name)  # in any case: one failure is enough, the next test shall have its replicas
            assert code in (LEASE_LOST, LAST_RESORT), f"{name} ended with {code}: {self.said(name)[-SHOWN:]}"

    def until(self, holds: Callable[[], bool], what: str | Callable[[], str], within_s: float = PATIENCE_S) -> float:
        """Seconds until it holds; the replicas is minded meanwhile."""
        began = time.monotonic()
        while not _soon(holds):
            self.tend()
            if time.monotonic() - began > within_s:
                told = what if isinstance(what, str) else what()
                logs = "\n".join(f"{name}:\n{self.said(name)[-SHOWN:]}" for name in self._running)
                raise AssertionError(f"not within {within_s:.0f} s: {told}\n{logs}")
            time.sleep(POLL_S)
        return time.monotonic() - began

    def said(self, name: str) -> str:
        return self._log(name).read_text(errors="replace")

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def let_go(self, name: str) -> subprocess.Popen[bytes]:
        """Minded by the caller from now on, who may want to see how it ends."""
        self._strayed.append(self._running[name])
        return self._running.pop(name)

    def leave(self) -> None:
        """All of them, whatever state they are in."""
        for process in (*self._running.values(), *self._strayed):
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
                process.kill()
                process.wait()
        self._running.clear()

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"


def _soon(holds: Callable[[], bool]) -> bool:
    try:
        return holds()
    except OSError:
        return False  # the API server is away
