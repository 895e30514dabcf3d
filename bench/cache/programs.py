"""The Go programs of this bench: the server of the pods, and the peer."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.toolbox.module import GoModule, build_module

INFORMER = GoModule("bench-cache", Path(__file__).parent / "informer", go="1.26")


@dataclass(frozen=True)
class Programs:
    server: Path
    peer: Path


def programs(say: Callable[[str], None]) -> Programs:
    place = build_module(INFORMER, say)
    return Programs(place / "podserver", place / "podwatcher")
