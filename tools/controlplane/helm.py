"""Our own Helm, for the chart's generated files and for tests: nothing of the user's configuration is read."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane.plane import quiet_environment

HELM_BOUND_S = 120


class HelmFailed(Exception):
    """It ended with an error; `complaint` is what it printed about it."""

    def __init__(self, arguments: tuple[str, ...], code: int, complaint: str) -> None:
        super().__init__(f"helm {' '.join(arguments)} ended with {code}: {complaint}")
        self.complaint = complaint


@dataclass(frozen=True, slots=True)
class Helm:
    """`helm("lint", chart)` is what it printed; anything but success raises."""

    program: Path
    home: Path  # its cache, configuration and plugins
    kubeconfig: Path | None = None  # None: no cluster is asked

    def __call__(self, *arguments: str) -> str:
        environment = quiet_environment() | {"HOME": str(self.home), "GOMAXPROCS": "1"}
        environment |= {f"XDG_{name}_HOME": str(self.home) for name in ("CACHE", "CONFIG", "DATA")}
        if self.kubeconfig is not None:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        ended = subprocess.run(
            (str(self.program), *arguments),
            env=environment,
            capture_output=True,
            text=True,
            timeout=HELM_BOUND_S,
            check=False,
        )
        if ended.returncode != 0:
            raise HelmFailed(arguments, ended.returncode, (ended.stderr + ended.stdout).strip())
        return ended.stdout
