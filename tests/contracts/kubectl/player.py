"""Plays a script against one server and notes what kubectl printed."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

from tests.contracts.kubectl.normal import normal
from tests.contracts.kubectl.script import Command, Meanwhile, Script
from tools.controlplane.kubectl import Kubectl

PATIENCE_S = 30  # for what a command running behind must print; a busy machine needs a few seconds
LOOK_EVERY_S = 0.02
TELL_REQUESTS = "--v=6"  # on its error output: one line for each answer


@dataclass(frozen=True, slots=True)
class Seen:
    command: Command
    code: int
    printed: str  # as it came
    complained: str

    @property
    def comparable(self) -> tuple[int, str, str]:
        return self.code, normal(self.printed), normal(self.complained)

    @property
    def everything(self) -> str:
        return f"{self.printed}\n{self.complained}"

    def fault(self) -> str:
        """What is wrong with it on its own; empty: nothing."""
        if (self.code != 0) != self.command.fails:
            return f"`kubectl {self.command.line}` ended with {self.code}:\n{self.everything}"
        for text in self.command.says:
            if text not in self.everything:
                return f"`kubectl {self.command.line}` should say {text!r}, but said:\n{self.everything}"
        for text in self.command.never_says:
            if text in self.everything:
                return f"`kubectl {self.command.line}` should not say {text!r}, but said:\n{self.everything}"
        return ""


class Player:
    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl

    def play(self, script: Script) -> list[Seen]:
        """Every command in order, in the script's own namespace, which must not exist yet."""
        seen = [self._run(Command(f"create namespace {script.namespace}"), script.namespace)]
        for step in script.steps:
            match step:
                case Command():
                    seen.append(self._run(step, script.namespace))
                case Meanwhile():
                    seen += self._run_behind(step, script.namespace)
        return seen

    def _run(self, command: Command, namespace: str) -> Seen:
        arguments = (f"--namespace={namespace}", *command.arguments)
        ended = self._kubectl.run(*arguments, stdin=command.stdin or None)
        return Seen(command, ended.returncode, ended.stdout, ended.stderr)

    def _run_behind(self, step: Meanwhile, namespace: str) -> list[Seen]:
        behind = _Behind(self._kubectl, step.behind, namespace)
        try:
            if step.starts_with:
                behind.wait_for_lines(step.starts_with)
            else:
                behind.wait_for_request(step.asked)
            seen = [self._run(command, namespace) for command in step.commands]
            if step.lines:
                behind.wait_for_lines(step.lines)
                return [*seen, behind.stopped()]
            return [*seen, behind.ended()]
        finally:
            behind.kill()


class _Behind:
    """A kubectl that runs on. Its lines are gathered by threads, so that no pipe fills up."""

    def __init__(self, kubectl: Kubectl, command: Command, namespace: str) -> None:
        self._command = command
        self._lines: list[str] = []
        self._complaints: list[str] = []
        self._process = subprocess.Popen(
            kubectl.argv(f"--namespace={namespace}", TELL_REQUESTS, *command.arguments),
            env=kubectl.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [
            Thread(target=self._gather, args=(self._process.stdout, self._lines), daemon=True),
            Thread(target=self._gather, args=(self._process.stderr, self._complaints), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _gather(pipe, lines: list[str]) -> None:
        with pipe:
            lines.extend(pipe)

    def wait_for_lines(self, count: int) -> None:
        self._wait(lambda: len(self._lines) >= count, f"printed fewer than {count} lines")

    def wait_for_request(self, text: str) -> None:
        self._wait(lambda: any(text in line for line in self._complaints), f"makes no request that shows {text}")

    def _wait(self, happened: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            if time.monotonic() > deadline or self._process.poll() is not None:
                said = "".join([*self._lines, *self._complaints])
                raise AssertionError(f"`kubectl {self._command.line}` {otherwise}:\n{said}")
            time.sleep(LOOK_EVERY_S)

    def stopped(self) -> Seen:
        self.kill()
        return Seen(self._command, 0, "".join(self._lines), "")

    def ended(self) -> Seen:
        code = self._process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return Seen(self._command, code, "".join(self._lines), "")

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
