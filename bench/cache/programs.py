"""The Go programs of this bench: the server of the pods, and the peer. Built once per version of their source."""

import hashlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.toolbox.cache import Cache, cache_home
from tools.toolbox.golang import find_go, last_lines

SOURCE = Path(__file__).parent / "informer"
GO_AT_LEAST = "1.26"
BUILD_BOUND_S = 1800  # with an empty cache it takes about 4 minutes on two cores


class BuildFailed(Exception):
    """The Go programs cannot be had; the text ends with what the compiler said."""


@dataclass(frozen=True)
class Programs:
    server: Path
    peer: Path


def programs(say: Callable[[str], None]) -> Programs:
    cache = Cache(cache_home(os.environ), say)
    key = f"bench-cache-{_digest()}"
    with cache.alone(key):
        place = cache.place(key)
        if not place.is_dir():
            say("building the pod server and the client-go informer (about 4 minutes with an empty cache; once) …")
            with cache.workshop(key) as workshop:
                _build(workshop / "out", cache, key, say)
                cache.publish(workshop / "out", key)
    return Programs(place / "podserver", place / "podwatcher")


def _build(out: Path, cache: Cache, key: str, say: Callable[[str], None]) -> None:
    go = find_go(GO_AT_LEAST, cache, os.environ, say)
    environment = go.environment(os.environ) | {"GOFLAGS": "-mod=readonly"}
    out.mkdir()
    log = cache.log(key)
    command = [str(go.program), "build", "-trimpath", "-ldflags", "-s -w", "-o", f"{out}{os.sep}", "./..."]
    with log.open("wb") as said:
        ended = subprocess.run(
            command, cwd=SOURCE, env=environment, stdout=said, stderr=said, timeout=BUILD_BOUND_S, check=False
        )
    if ended.returncode != 0:
        raise BuildFailed(f"the Go programs of the bench do not build:\n{last_lines(log)}")


def _digest() -> str:
    """Of everything they are made of."""
    digest = hashlib.sha256()
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix in {".go", ".mod", ".sum"}:
            digest.update(path.relative_to(SOURCE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
