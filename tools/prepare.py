"""Make the virtual environment `.venv` from the hash-locked requirement files, once, and again when a lock changes.

Runs on the bare Python a machine has (3.11 or newer), so it uses the standard library alone.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

HOUSE = Path(__file__).resolve().parent.parent
VENV = HOUSE / ".venv"
LOCK = HOUSE / "requirements" / "dev.txt"
PROJECT = HOUSE / "pyproject.toml"
FLOOR = (3, 11)


def main() -> int:
    if sys.version_info < FLOOR:
        found = ".".join(map(str, sys.version_info[:3]))
        return _stop(
            f"tgp needs Python {FLOOR[0]}.{FLOOR[1]} or newer; {sys.executable} is {found}. Try: make PYTHON=…"
        )
    try:
        _prepare()
    except subprocess.CalledProcessError as error:
        words = " ".join(map(str, error.cmd[1:5]))
        return _stop(f"`{words} …` failed with code {error.returncode}; its output is above")
    except OSError as error:
        return _stop(f".venv could not be written: {error.strerror}: {error.filename}")
    return 0


def _prepare() -> None:
    """Two steps, each with its stamp: a changed lock makes the environment anew, a changed project only re-links it."""
    locked = _Stamp("locked", sys.version.encode() + LOCK.read_bytes())
    linked = _Stamp("linked", locked.wanted.encode() + PROJECT.read_bytes())
    if linked.fresh():
        return
    began = time.perf_counter()
    if not locked.fresh():
        _say("preparing .venv from requirements/dev.txt (once; about a minute) …")
        _make_venv()
        _pip("install", "--require-hashes", "-r", str(LOCK))
        locked.set()
    _pip("install", "--no-deps", "--no-build-isolation", "-e", str(HOUSE))
    linked.set()
    _say(f"prepared .venv in {time.perf_counter() - began:.0f} s")


class _Stamp:
    def __init__(self, name: str, made_from: bytes) -> None:
        self.path = VENV / f"{name}-from"
        self.wanted = hashlib.sha256(made_from).hexdigest()

    def fresh(self) -> bool:
        return self.path.is_file() and self.path.read_text() == self.wanted

    def set(self) -> None:
        self.path.write_text(self.wanted)


def _make_venv() -> None:
    shutil.rmtree(VENV, ignore_errors=True)
    try:
        venv.create(VENV, with_pip=True)
    except subprocess.CalledProcessError as error:  # ensurepip is a package of its own on Debian
        raise OSError(
            1, "this Python cannot make virtual environments; on Debian: apt-get install python3-venv", VENV
        ) from error


def _pip(*words: str) -> None:
    quiet = () if os.environ.get("V") else ("--quiet",)
    command = (str(VENV / "bin" / "python"), "-m", "pip", *words, *quiet, "--disable-pip-version-check")
    subprocess.run(command, check=True)


def _say(line: str) -> None:
    print(f"· {line}", file=sys.stderr, flush=True)


def _stop(why: str) -> int:
    print(f"✗ {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
