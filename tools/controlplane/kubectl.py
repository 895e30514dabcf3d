"""Our own kubectl against one cluster, for tests and for `make cluster`."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.controlplane.plane import quiet_environment

KUBECTL_BOUND_S = 60


class KubectlFailed(Exception):
    """It ended with an error; `complaint` is what it printed about it."""

    def __init__(self, arguments: tuple[str, ...], code: int, complaint: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)} ended with {code}: {complaint}")
        self.code = code
        self.complaint = complaint


@dataclass(frozen=True, slots=True)
class Kubectl:
    """`kubectl("get", "pods")` is what it printed; anything but success raises."""

    program: Path
    kubeconfig: Path
    home: Path  # its discovery cache goes here, not to the user's home

    def __call__(self, *arguments: str, stdin: str | None = None, bound_s: float = KUBECTL_BOUND_S) -> str:
        ended = self.run(*arguments, stdin=stdin, bound_s=bound_s)
        if ended.returncode != 0:
            raise KubectlFailed(arguments, ended.returncode, ended.stderr.strip())
        return ended.stdout

    def run(
        self, *arguments: str, stdin: str | None = None, bound_s: float = KUBECTL_BOUND_S
    ) -> subprocess.CompletedProcess[str]:
        """However it ends."""
        return subprocess.run(
            self.argv(*arguments),
            input=stdin,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=bound_s,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--output=json"))

    def apply(self, *objects: Mapping[str, Any]) -> str:
        listed = {"apiVersion": "v1", "kind": "List", "items": [dict(it) for it in objects]}
        return self("apply", "--filename=-", stdin=json.dumps(listed))

    def using(self, kubeconfig: Path) -> "Kubectl":
        """The same program as another user."""
        return Kubectl(self.program, kubeconfig, self.home)

    def argv(self, *arguments: str) -> list[str]:
        return [str(self.program), f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.home / 'cache'}", *arguments]

    def environment(self) -> dict[str, str]:
        """With one core: a command of a tenth of a second spends a tenth of that on making use of more."""
        return {**quiet_environment(), "HOME": str(self.home), "GOMAXPROCS": "1"}
