"""Compiles one program in a generated Go module, and lets it into the cache only after it has told its own version."""

import errno
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from tools.toolbox import child_process
from tools.toolbox.cache import Cache, Say
from tools.toolbox.golang import ASK_BOUND_S, STOP_PATIENCE_S, Go, find_go, last_lines
from tools.toolbox.pins import Tool
from tools.toolbox.trouble import ToolUnavailable

BUILD_BOUND_S = 3600  # the slowest takes about 6 minutes with empty caches on two cores
FETCH_BOUND_S = 300  # one go.mod of some kilobytes, and the version list around it
STILL_AT_IT_S = 30  # how often a long build says that it lives
FULL_DISK = "no space left on device"  # as the Go tools print ENOSPC


def build(tool: Tool, cache: Cache, environ: Mapping[str, str], say: Say, turn: str = "") -> Path:
    """The finished program in the cache, built now unless another run was faster. `turn` says how far along we are."""
    try:
        with cache.alone(tool.key):
            program = cache.place(tool.key) / tool.name
            if not program.is_file():
                go = find_go(tool.go, cache, environ, say)
                say(f"building {tool.title} ({turn}{about(tool.minutes)}; once) …")
                began = time.monotonic()
                with cache.workshop(tool.key) as workshop:
                    finished = _Build(tool, go, workshop, cache.log(tool.key), environ).compile(say)
                    cache.publish(finished, tool.key)
                say(f"built {tool.title} in {clock_face(time.monotonic() - began)}")
            return program
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise ToolUnavailable(tool, full_disk(cache.home)) from error
        raise ToolUnavailable(tool, f"{cache.home} cannot be used as a cache: {error}") from error


class _Build:
    """One compilation: its own module directory, its own log."""

    def __init__(self, tool: Tool, go: Go, workshop: Path, log: Path, environ: Mapping[str, str]) -> None:
        self._tool = tool
        self._go = go
        self._module = workshop / "module"
        self._out = workshop / "out"
        self._log = log
        self._env = go.environment(environ)

    def compile(self, say: Say) -> Path:
        """The directory that holds the program and nothing else."""
        self._module.mkdir()
        self._out.mkdir()
        self._log.unlink(missing_ok=True)
        (self._module / "go.mod").write_text(wrapper_module(self._tool, self._required_go_mod()))
        for path in self._tool.own_files:
            shutil.copy(path, self._module)
        program = self._out / self._tool.name
        options = ("-trimpath", "-ldflags", self._tool.ldflags, "-o", str(program))
        self._run(("build", *options, self._tool.package), say)
        self._prove(program)
        return self._out

    def _required_go_mod(self) -> str:
        """The go.mod of the program's own module, fetched without its source."""
        tool = self._tool
        (self._module / "go.mod").write_text("module tgp.local/toolbox\n")
        question = ("list", "-m", "-f", "{{.GoMod}}", f"{tool.module}@v{tool.version}")
        try:
            with self._log.open("ab") as complaints:
                answer = subprocess.run(
                    [self._go.program, *question],
                    cwd=self._module,
                    env=self._env,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    timeout=FETCH_BOUND_S,
                    check=True,
                )
        except subprocess.SubprocessError as error:
            raise ToolUnavailable(tool, self._why("its Go module could not be fetched")) from error
        return Path(answer.stdout.decode().strip()).read_text()

    def _run(self, arguments: tuple[str, ...], say: Say) -> None:
        process = child_process.spawn([str(self._go.program), *arguments], self._log, env=self._env, cwd=self._module)
        try:
            code = self._wait(process, say)
        finally:
            child_process.stop(process, STOP_PATIENCE_S)
        if code is None:
            raise ToolUnavailable(self._tool, self._why(f"its build did not end within {clock_face(BUILD_BOUND_S)}"))
        if code != 0:
            raise ToolUnavailable(self._tool, self._why("its build failed"))

    def _wait(self, process: subprocess.Popen[bytes], say: Say) -> int | None:
        """Its exit code; None when it has not ended within the bound."""
        for spent in range(STILL_AT_IT_S, BUILD_BOUND_S + STILL_AT_IT_S, STILL_AT_IT_S):
            try:
                return process.wait(STILL_AT_IT_S)
            except subprocess.TimeoutExpired:
                say(f"  … still building {self._tool.name}, {clock_face(spent)}")
        return None

    def _why(self, what_happened: str) -> str:
        if FULL_DISK in self._log.read_text(errors="replace").lower():
            return full_disk(self._module)
        return f"{what_happened}; the end of {self._log}:\n{last_lines(self._log)}"

    def _prove(self, program: Path) -> None:
        """By its own word, or where it has none by what Go finds written in it."""
        tool = self._tool
        question: tuple[str | Path, ...] = (program, *tool.asks)
        wanted = tool.version
        if not tool.asks:
            question = (self._go.program, "version", "-m", program)
            wanted = f"\t{tool.module}\tv{tool.version}"
        try:
            said = subprocess.run(
                question, env=self._env, capture_output=True, text=True, timeout=ASK_BOUND_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolUnavailable(tool, f"it was built but does not start: {error}") from error
        if wanted not in said.stdout:
            raise ToolUnavailable(tool, f"it was built but calls itself {said.stdout.strip()[:200]!r}")


def wrapper_module(tool: Tool, required: str) -> str:
    """A go.mod that builds `tool` as a stranger's dependency, given the go.mod of its own module.

    Kubernetes' module asks for its sister modules by paths inside its own repository, which count only there;
    a stranger has to name the published version of each. Where it replaces others' modules by forks, the same holds.
    """
    go_line = re.search(r"^go (\S+)$", required, re.MULTILINE)
    assert go_line, f"{tool.module} has no go line"
    lines = ["module tgp.local/toolbox", f"go {go_line[1]}", f"require {tool.module} v{tool.version}"]
    if tool.siblings:
        siblings = re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", required, re.MULTILINE)
        lines += [f"replace {sibling} => {sibling} v{tool.siblings}" for sibling in siblings]
    lines += [f"replace {replacement}" for replacement in tool.replaces]
    return "\n\n".join(lines) + "\n"


def full_disk(where: Path) -> str:
    free = shutil.disk_usage(where).free // 2**20 if where.exists() else 0
    return (
        f"the disk is full ({free} MiB free at {where}). All builds together take about 6 GiB in Go's caches and in "
        "TGP_CACHE: make room, or point GOCACHE, GOMODCACHE and TGP_CACHE to a larger disk."
    )


def clock_face(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def about(minutes: float) -> str:
    return f"about {minutes:g} min" if minutes >= 1 else f"about {round(minutes * 60)} s"
