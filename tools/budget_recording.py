"""`python -m tools.budget_recording`: writes docs/media/budgets.txt, an hour of a budget as a user sees it.

The embedded world of `make run`, with real commands of a second terminal: kubectl, and tgp with its kubeconfig. The
world runs at sixty times real time, so an hour takes a minute; moments differ a little from one recording to the next.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools import toolbox
from tools.controlplane.plane import quiet_environment

ROOT = Path(__file__).parents[1]
RECORDING = ROOT / "docs" / "media" / "budgets.txt"
BUDGET, NAMESPACE = "students", "research"
KUBECONFIG = ".tgp/kubeconfig"
STARTS_WITHIN_S = 300.0
PATIENCE_S = 400.0  # a busy machine lets the world run slower
WIDTH = 118
LINES_KEPT = 12


class Terminal:
    """A second terminal beside `make run`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kubectl = str(toolbox.find(toolbox.KUBECTL))
        self._env = {**quiet_environment(), "KUBECONFIG": KUBECONFIG, "COLUMNS": str(WIDTH), "HOME": str(folder)}
        self._env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{self._env.get('PATH', '')}"  # next: tgp …
        self.lines = [
            "# `make run` is on in another terminal, and a minute here is an hour there.",
            f"# KUBECONFIG={KUBECONFIG}",
        ]

    def run(self, *words: str) -> str:
        """Type it, and keep what it prints."""
        done = subprocess.run(
            self._command(words),
            cwd=self._folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        printed = (done.stdout + done.stderr).rstrip()
        self._keep(words, printed.splitlines())
        if done.returncode:
            self.lines.append(f"# exit code {done.returncode}")
        return printed

    @contextmanager
    def watching(self, *words: str) -> Iterator[None]:
        """Leave it running until the end; its lines stand where it was begun."""
        with tempfile.TemporaryFile("w+") as printed:
            process = subprocess.Popen(self._command(words), cwd=self._folder, env=self._env, stdout=printed)
            place = len(self.lines)
            yield
            process.terminate()
            process.wait(10)
            printed.seek(0)
            after, self.lines = self.lines[place:], self.lines[:place]
            self._keep((*words, "    # until Ctrl-C"), _shortened(printed.read().splitlines()))
            self.lines += after

    def until(self, field: str, wanted: str) -> None:
        """Look at the budget, unseen, until a field of its status is that; "": until it is absent."""
        words = ("get", "gwb", BUDGET, "-n", NAMESPACE, f"-o=jsonpath={{.status.{field}}}")
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            done = subprocess.run(
                [self._kubectl, *words], cwd=self._folder, env=self._env, capture_output=True, text=True, check=False
            )
            if not done.returncode and bool(done.stdout.strip()) == bool(wanted) and wanted in done.stdout:
                return
            assert time.monotonic() < give_up_at, f"{field} is {done.stdout!r}, not {wanted!r}; {done.stderr}"
            time.sleep(0.5)

    def _command(self, words: tuple[str, ...]) -> list[str]:
        program = [self._kubectl] if words[0] == "kubectl" else [sys.executable, "-m", "tgp"]
        return [*program, *words[1:]]

    def _keep(self, words: tuple[str, ...], printed: list[str]) -> None:
        self.lines += ["", f"$ {' '.join(words)}", *(line.rstrip() for line in printed)]


def _shortened(lines: list[str]) -> list[str]:
    """Of many lines that are alike the first, the last, and some between them."""
    if len(lines) <= 3 * LINES_KEPT:
        return lines
    between = lines[LINES_KEPT:-LINES_KEPT]
    every = -(-len(between) // LINES_KEPT)
    said = f"# … one line in {every} is shown from here …"
    return [*lines[:LINES_KEPT], said, *between[::every], "# … and every line again …", *lines[-LINES_KEPT:]]


@contextmanager
def embedded_world(folder: Path) -> Iterator[None]:
    env = {**os.environ, "HOME": str(folder)}
    demo = [sys.executable, "-m", "tgp", "demo", "--lines"]
    with (folder / "demo.log").open("wb") as log:
        process = subprocess.Popen(demo, cwd=folder, env=env, stdout=log, stderr=log)
    try:
        give_up_at = time.monotonic() + STARTS_WITHIN_S
        while not (folder / KUBECONFIG).is_file():
            late = process.poll() is not None or time.monotonic() > give_up_at
            assert not late, (folder / "demo.log").read_text()
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait(30)


def recorded() -> list[str]:
    with tempfile.TemporaryDirectory() as name, embedded_world(Path(name)):
        terminal = Terminal(Path(name))
        terminal.until("account", ".")
        with terminal.watching("kubectl", "get", "gwb", BUDGET, "-n", NAMESPACE, "-w"):
            terminal.until("alerted", "50")
            terminal.run("tgp", "budgets")
            labels = ("-n", NAMESPACE, "-l", "team=students")
            terminal.run("tgp", "budgets", "simulate", "--gpus", "1", "--hours", "0.5", *labels)
            terminal.until("exceededAt", "T")
            terminal.run("tgp", "why", f"budget/{NAMESPACE}/{BUDGET}")
            terminal.until("lastEnforcementAt", "T")
            terminal.run("kubectl", "describe", "gwb", BUDGET, "-n", NAMESPACE)
            terminal.run("tgp", "budgets", "simulate", "--gpus", "1", "--hours", "0.5", *labels)
            terminal.until("exceededAt", "")
            terminal.run("tgp", "budgets")
        return terminal.lines


def main() -> int:
    RECORDING.write_text("\n".join(recorded()) + "\n", encoding="utf-8")
    print(f"{RECORDING}: {len(RECORDING.read_text(encoding='utf-8').splitlines())} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
