"""Talos releases: how they are written, and how they compare."""

import re

import msgspec

_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})\.(\d{1,3})(-[0-9A-Za-z.-]{1,40})?\Z")
OLDEST_MINOR, NEWEST_MINOR = 10, 14  # of 1.x; what is known of each is in core/joining/talos


class TalosVersion(msgspec.Struct, frozen=True, order=True):
    minor: int
    patch: int
    final: bool = True  # a release candidate comes before the release
    suffix: str = ""  # -rc.1

    def __str__(self) -> str:
        return f"v1.{self.minor}.{self.patch}{self.suffix}"

    @property
    def supported(self) -> bool:
        return OLDEST_MINOR <= self.minor <= NEWEST_MINOR


def read_version(text: str) -> TalosVersion | None:
    """Of `v1.10.5`, of an image that ends in it, or of what a node reports: `Talos (v1.10.5)`. None: no version."""
    bare = text.strip().partition("@")[0].removesuffix(")").rpartition("(")[2].rpartition(":")[2]
    found = _VERSION.match(bare)
    if found is None or found[1] != "1":
        return None
    suffix = found[4] or ""
    return TalosVersion(int(found[2]), int(found[3]), not suffix, suffix)
