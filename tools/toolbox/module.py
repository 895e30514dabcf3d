"""Go programs of this repository with a go.mod and go.sum of their own: built once per version of their source."""

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.toolbox.cache import Cache, Say, cache_home
from tools.toolbox.golang import find_go, last_lines
from tools.toolbox.trouble import ToolboxError

BUILD_BOUND_S = 1800  # the slowest takes about 4 minutes with an empty cache on two cores
SOURCES = {".go", ".mod", ".sum"}


class BuildFailed(ToolboxError):
    """The programs cannot be had; the text ends with what the compiler said."""


@dataclass(frozen=True, slots=True)
class GoModule:
    name: str  # in the cache and in messages
    source: Path
    go: str  # the least Go that compiles it

    @property
    def key(self) -> str:
        """Names the cached result: of everything the programs are made of."""
        digest = hashlib.sha256()
        for path in sorted(self.source.rglob("*")):
            if path.suffix in SOURCES:
                digest.update(path.relative_to(self.source).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
        return f"{self.name}-{digest.hexdigest()[:12]}"


def build_module(module: GoModule, say: Say) -> Path:
    """The folder with the module's programs, built now unless another run was faster."""
    cache = Cache(cache_home(os.environ), say)
    key = module.key
    with cache.alone(key):
        place = cache.place(key)
        if not place.is_dir():
            say(f"building the Go programs of {module.name} (about 4 minutes with an empty cache; once) …")
            with cache.workshop(key) as workshop:
                _build(module, workshop / "out", cache, say)
                cache.publish(workshop / "out", key)
    return place


def _build(module: GoModule, out: Path, cache: Cache, say: Say) -> None:
    go = find_go(module.go, cache, os.environ, say)
    environment = go.environment(os.environ) | {"GOFLAGS": "-mod=readonly"}
    out.mkdir()
    log = cache.log(module.key)
    command = [str(go.program), "build", "-trimpath", "-ldflags", "-s -w", "-o", f"{out}{os.sep}", "./..."]
    with log.open("wb") as said:
        ended = subprocess.run(
            command, cwd=module.source, env=environment, stdout=said, stderr=said, timeout=BUILD_BOUND_S, check=False
        )
    if ended.returncode != 0:
        raise BuildFailed(f"the Go programs of {module.name} do not build:\n{last_lines(log)}")
