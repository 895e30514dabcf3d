"""One program of the control plane while it runs: alive or not, its log, its end."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.toolbox import child_process

LAST_LINES = 20


class ControlPlaneFailed(Exception):
    """Some part did not start or died; the text says which, and shows the end of its log."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to start: the order of these is the order of starting, and the reverse is the order of stopping."""

    name: str
    argv: tuple[str, ...]


class Component:
    """A started program. It dies with us, whatever happens to us."""

    def __init__(self, program: Program, log: Path, env: Mapping[str, str]) -> None:
        self.name = program.name
        self.log = log
        self._process: subprocess.Popen[bytes] = child_process.spawn(program.argv, log, env=env)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def must_live(self) -> None:
        """Raise, with the end of its log, if it has ended."""
        code = self._process.poll()
        if code is not None:
            raise ControlPlaneFailed(f"{self.name} ended with {code}. {self.tail()}")

    def stop(self, patience_s: float) -> None:
        child_process.stop(self._process, patience_s)

    def said(self, words: str) -> bool:
        return words in self.log.read_text(errors="replace")

    def tail(self, lines: int = LAST_LINES) -> str:
        """The end of its log, for a person."""
        end = "\n".join(f"    {line}" for line in self.log.read_text(errors="replace").splitlines()[-lines:])
        return f"The end of {self.log}:\n{end or '    (it printed nothing)'}"
