"""Operators of a benchmark, as processes that can be killed, handed over and started again."""

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from tools.controlplane.plane import ControlPlane, quiet_environment
from tools.controlplane.ports import free_port
from tools.toolbox import child_process

ROOT = Path(__file__).parents[2]
GONE_WITHIN_S = 60.0
CONSUMED, TRACKED = "gwb_consumed_gpu_hours", "gwb_tracked_pods"


class Operator:
    """One replica with the shipped rights."""

    def __init__(self, plane: ControlPlane, log: Path) -> None:
        self._plane, self.log, self._port = plane, log, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        kubeconfig = self._plane.kubeconfig_for_service_account("tgp-system", "tgp-operator")
        listens = ("--listen=", f"--metrics-listen=127.0.0.1:{self._port}")
        command = [sys.executable, "-m", "tgp", "operator", *listens, f"--kubeconfig={kubeconfig}"]
        self._process = child_process.spawn(command, self.log, quiet_environment(), ROOT)

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "started"
        return self._process.pid

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """As Kubernetes does; its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self._process is None:
            return 0
        if self.runs:
            self._process.send_signal(how)
        return self._process.wait(GONE_WITHIN_S)

    def rss_mb(self) -> float:
        """At most so far; 0: it does not run."""
        if not self.runs:
            return 0.0
        lines = (Path("/proc") / str(self.pid) / "status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))

    def scraped(self, budget: str, metric: str = CONSUMED) -> float | None:
        """One of its metrics; None: it does not answer, or does not lead."""
        wanted = f'{metric}{{name="{budget}",namespace="default"}}'
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as page:
                lines = page.read().decode().splitlines()
        except OSError:
            return None
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(wanted)), None)
