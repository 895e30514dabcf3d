"""The directory a control plane lives in, and what earlier ones left behind when they were killed or failed."""

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "tgp-cp-"  # short: the path of a socket within may have 107 characters
HELD = "held"  # locked as long as its owner lives; the kernel lets go for the dead
YOUNG_S = 60  # a directory this young may be about to be locked
LOGS = ".log"


class Scratch:
    """A fresh directory that is ours until `discard`; leftovers of the dead are swept away when one is made."""

    def __init__(self) -> None:
        sweep()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock: int | None = os.open(self.path / HELD, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def discard(self, *, keep_logs: bool = False) -> None:
        """Remove it; with `keep_logs` the logs stay for people until the next control plane starts."""
        if self._lock is None:
            return
        if keep_logs:
            for entry in self.path.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry, ignore_errors=True)
                elif entry.suffix != LOGS and entry.name != HELD:
                    entry.unlink(missing_ok=True)
        else:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = None


def sweep() -> None:
    """Remove every directory of ours whose owner is dead."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            if directory.stat().st_uid == os.getuid() and time.time() - directory.stat().st_mtime > YOUNG_S:
                _remove_if_ownerless(directory)
        except OSError:
            continue  # another process removes or uses it


def _remove_if_ownerless(directory: Path) -> None:
    with (directory / HELD).open("ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
