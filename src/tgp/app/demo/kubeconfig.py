"""The kubeconfig of the demo world: it exists as long as the world does."""

import fcntl
import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

FOLDER = Path(".tgp")
NAME = "kubeconfig"
CONTEXT = "tgp-demo"
NAMES_TRIED = 16  # as many worlds side by side in one directory


@contextmanager
def written(url: str, token: str) -> Iterator[Path]:
    """A file under `.tgp`, or in a temporary directory if that is not writable; yields its absolute path."""
    with _opened() as (path, file):
        os.truncate(file, 0)
        os.write(file, msgspec.json.format(msgspec.json.encode(_content(url, token))) + b"\n")
        try:
            yield path.absolute()
        finally:
            with suppress(FileNotFoundError):
                path.unlink()
            with suppress(OSError):  # the folder holds other files
                path.parent.rmdir()


def shown(path: Path) -> str:
    """As a word of a command: from the working directory where it lies below it, for lines that are short."""
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def command(path: Path) -> str:
    """The kubectl command for the demo world, from any directory."""
    return shlex.join(["kubectl", "--kubeconfig", str(path)])


@contextmanager
def _opened() -> Iterator[tuple[Path, int]]:
    try:
        FOLDER.mkdir(exist_ok=True)
        path, file = _free_one(FOLDER)
    except OSError:
        path, file = _free_one(Path(tempfile.mkdtemp(prefix="tgp-demo-")))
    try:
        yield path, file
    finally:
        os.close(file)


def _free_one(folder: Path) -> tuple[Path, int]:
    """A file that no running demo uses: a running demo locks its file, so a left-over one is free."""
    for number in range(1, NAMES_TRIED + 1):
        path = folder / (NAME if number == 1 else f"{NAME}-{number}")
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        return path, file
    raise OSError(f"{folder} has {NAMES_TRIED} kubeconfigs in use")


def _content(url: str, token: str) -> dict[str, object]:
    """With what clients stricter than kubectl need: a user with a token, and a TLS setting."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [{"name": CONTEXT, "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
    }
