"""The way to a program: the path a person gave, else what an earlier run built, else built now."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tools.toolbox.build import about, build
from tools.toolbox.cache import Cache, Say, cache_home
from tools.toolbox.golang import ASK_BOUND_S, numbers
from tools.toolbox.pins import Tool
from tools.toolbox.trouble import ToolUnavailable

MEASURED_ON = 2  # cores, for the minutes of each tool


def say_on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def find(
    tool: Tool, environ: Mapping[str, str] = os.environ, say: Say = say_on_stderr, *, path_will_do: bool = False
) -> Path:
    """One program, ready to run. With `path_will_do` one on PATH of a release close enough is taken before a build."""
    return find_all((tool,), environ, say, path_will_do=path_will_do)[tool]


def find_all(
    tools: Iterable[Tool],
    environ: Mapping[str, str] = os.environ,
    say: Say = say_on_stderr,
    *,
    path_will_do: bool = False,
) -> dict[Tool, Path]:
    """All of them or ToolboxError; silent unless something has to be built."""
    cache = Cache(cache_home(environ), say)
    found: dict[Tool, Path | None] = {}
    for tool in tools:
        found[tool] = (
            _supplied(tool, environ) or _built(tool, cache) or (_on_path(tool, environ) if path_will_do else None)
        )
    missing = [tool for tool, path in found.items() if path is None]
    for turn, tool in enumerate(missing, start=1):
        found[tool] = build(tool, cache, environ, say, turn=f"{turn}/{len(missing)}, ")
    return {tool: path for tool, path in found.items() if path is not None}


def first_build(tools: Iterable[Tool], environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """What a person should know before programs are built: which, what for, and how long. Nothing: all are there."""
    cache = Cache(cache_home(environ), say_on_stderr)
    missing = [tool for tool in tools if not environ.get(tool.variable) and _built(tool, cache) is None]
    if not missing:
        return
    cores = len(os.sched_getaffinity(0))
    minutes = sum(tool.minutes for tool in missing) * MEASURED_ON / cores
    names = ", ".join(dict.fromkeys(tool.name for tool in missing))
    yield f"{len(missing)} programs are built first, {about(max(1, round(minutes)))} on {cores} cores, once: {names}"
    yield "they are the real control plane, mesh and Talos validators that tests run against; other tests run meanwhile"


def _supplied(tool: Tool, environ: Mapping[str, str]) -> Path | None:
    given = environ.get(tool.variable)
    if not given:
        return None
    path = Path(given).absolute()
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise ToolUnavailable(
            tool, f"{tool.variable} says {given}, which is not a program that can be run (unset it to have one built)"
        )
    return path


def _built(tool: Tool, cache: Cache) -> Path | None:
    path = cache.place(tool.key) / tool.name
    return path if path.is_file() else None


def _on_path(tool: Tool, environ: Mapping[str, str]) -> Path | None:
    """A program of the same minor release or one beside it: the skew that Kubernetes supports between its parts."""
    path = shutil.which(tool.name, path=environ.get("PATH"))
    if path is None:
        return None
    try:
        said = subprocess.run([path, *tool.asks], capture_output=True, text=True, timeout=ASK_BOUND_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    major, minor, *_ = numbers(said.stdout) or (0, 0)
    wanted_major, wanted_minor, *_ = numbers(tool.version)
    return Path(path) if major == wanted_major and abs(minor - wanted_minor) <= 1 else None
