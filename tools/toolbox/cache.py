"""Where finished programs are kept between runs, and how two runs do not build the same one at once."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.toolbox.trouble import ToolboxError

LOCK_BOUND_S = (
    3600  # one cold build of the slowest program takes about 6 minutes on two cores; ten times that is a stuck one
)
LOCK_POLL_S = 0.2

Say = Callable[[str], None]


def cache_home(environ: Mapping[str, str]) -> Path:
    """`$TGP_CACHE`, else `tgp` in the user's cache directory."""
    if chosen := environ.get("TGP_CACHE"):
        return Path(chosen).absolute()
    if base := environ.get("XDG_CACHE_HOME"):
        return Path(base).absolute() / "tgp"
    return Path.home() / ".cache" / "tgp"


class Cache:
    """Finished results by key. A result is there whole or not at all, however a run ends."""

    def __init__(self, home: Path, say: Say) -> None:
        self.home = home
        self._say = say

    def place(self, key: str) -> Path:
        """The directory of a finished result; it exists exactly when the result is complete."""
        return self.home / "tools" / key

    def log(self, key: str) -> Path:
        path = self.home / "logs" / f"{key}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Hold the key against other processes. The kernel lets go of it when we die."""
        path = self.home / "locks" / f"{key}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as handle:
            self._take(handle.fileno(), key)
            yield

    def _take(self, descriptor: int, key: str) -> None:
        give_up_at = time.monotonic() + LOCK_BOUND_S
        told = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    self._say(f"another run is preparing {key}; waiting for it …")
                    told = True
                if time.monotonic() > give_up_at:
                    raise ToolboxError(f"another process has held {key} for {LOCK_BOUND_S // 60} minutes") from None
                time.sleep(LOCK_POLL_S)
            else:
                return

    @contextmanager
    def workshop(self, key: str) -> Iterator[Path]:
        """An empty directory on the cache's own disk; call it only while `alone` with the key."""
        building = self.home / "building"
        building.mkdir(parents=True, exist_ok=True)
        for left_by_a_dead_run in building.glob(f"{key}.*"):
            shutil.rmtree(left_by_a_dead_run, ignore_errors=True)
        directory = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=building))
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def publish(self, finished: Path, key: str) -> Path:
        """Make a finished directory the result, in one step that a reader sees whole."""
        place = self.place(key)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(finished, place)  # noqa: PTH105 - named for what it does: no half-written result is ever visible
        return place
