"""Make the virtual environment `.venv` from the hash-locked requirement files, once, and again when a lock changes.

`prepare.py runtime` installs only what the program itself needs; without a word everything for tests and checks, too.
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

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements" / "dev.txt"
RUNTIME_LOCK = ROOT / "requirements" / "runtime.txt"
PROJECT = ROOT / "pyproject.toml"
FLOOR = (3, 11)
PROGRAMS = {"tgp": "main", "kubectl-tgp": "main", "kubectl_complete-tgp": "kubectl_complete"}  # as in pyproject.toml
UNREACHED = (  # as pip says it; it tries a few times before
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Connection refused",
    "Network is unreachable",
    "ConnectTimeoutError",
    "NewConnectionError",
    "NameResolutionError",
    "ProxyError",
)


def main() -> int:
    if sys.version_info < FLOOR:
        found = ".".join(map(str, sys.version_info[:3]))
        return _stop(
            f"tgp needs Python {FLOOR[0]}.{FLOOR[1]} or newer; {sys.executable} is {found}. Try: make PYTHON=…"
        )
    try:
        if sys.argv[1:] == ["runtime"]:
            _prepare_runtime()
        else:
            _prepare()
    except NoNetwork as error:
        return _stop(f"no network: {error}")
    except subprocess.CalledProcessError as error:
        words = " ".join(map(str, error.cmd[1:5]))
        return _stop(f"`{words} …` failed with code {error.returncode}; its output is above")
    except OSError as error:
        return _stop(f".venv could not be written: {error.strerror}: {error.filename}")
    return 0


class NoNetwork(Exception):
    """The text says what could not be reached, and what is needed."""


def _stamps() -> "tuple[_Stamp, _Stamp]":
    locked = _Stamp("locked", sys.version.encode() + LOCK.read_bytes())
    return locked, _Stamp("linked", locked.wanted.encode() + PROJECT.read_bytes())


def _prepare_runtime() -> None:
    """An environment for tests has all of it; else one with the runtime lock alone, and the program from `src`."""
    stamp = _Stamp("runtime", sys.version.encode() + RUNTIME_LOCK.read_bytes() + str(ROOT).encode())
    if stamp.fresh() or _stamps()[1].fresh():
        return
    began = time.perf_counter()
    _say("preparing .venv from requirements/runtime.txt (once; about half a minute) …")
    _make_venv()
    _pip("install", "--require-hashes", "-r", str(RUNTIME_LOCK))
    (site,) = VENV.glob("lib/python*/site-packages")
    (site / "tgp.pth").write_text(f"{ROOT / 'src'}\n")
    for name, function in PROGRAMS.items():
        program = VENV / "bin" / name
        program.write_text(f"#!{VENV / 'bin' / 'python'}\nfrom tgp.app.main import {function}\n\n{function}()\n")
        program.chmod(0o755)
    stamp.set()
    _say(f"prepared .venv in {time.perf_counter() - began:.0f} s")


def _prepare() -> None:
    """Two steps, each with its stamp: a changed lock makes the environment again, a changed project re-links it."""
    locked, linked = _stamps()
    if linked.fresh():
        return
    began = time.perf_counter()
    if not locked.fresh():
        _say("preparing .venv from requirements/dev.txt (once; about a minute) …")
        _make_venv()
        _pip("install", "--require-hashes", "-r", str(LOCK))
        locked.set()
    _pip("install", "--no-deps", "--no-build-isolation", "-e", str(ROOT))
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
    uncached = () if _writable(_caches()) else ("--no-cache-dir",)
    command = (str(VENV / "bin" / "python"), "-m", "pip", *words, *quiet, *uncached, "--disable-pip-version-check")
    ended = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    if ended.returncode and any(sign in ended.stderr for sign in UNREACHED):
        raise NoNetwork(
            "pip could not reach its package index; what is needed: a connection to it, once, "
            "or PIP_INDEX_URL with the address of a mirror"
        )
    sys.stderr.write(ended.stderr)
    ended.check_returncode()


def _caches() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())


def _writable(folder: Path) -> bool:
    """Whether it can be made, or written into."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    return there.is_dir() and os.access(there, os.W_OK)


def _say(line: str) -> None:
    print(f"· {line}", file=sys.stderr, flush=True)


def _stop(why: str) -> int:
    print(f"✗ {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
