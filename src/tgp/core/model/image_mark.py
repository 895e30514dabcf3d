"""The name of an image that the operator imported at a provider: the image is found and deleted by it."""

import re

import msgspec

from tgp.core.model.identity import CLUSTER_DIGITS
from tgp.core.model.talos import TalosVersion, read_version

_FORM = re.compile(rf"tgp-([0-9a-f]{{{CLUSTER_DIGITS}}}) talos (v\S{{1,64}}) (amd64|arm64) ([0-9a-f]{{64}})")


class ImageMark(msgspec.Struct, frozen=True, order=True):
    """`tgp-<cluster id> talos <version> <arch> <schematic>`. Images are found by it: the form stays as it is."""

    cluster: str
    version: TalosVersion
    arch: str
    schematic: str

    def __str__(self) -> str:
        return f"tgp-{self.cluster} talos {self.version} {self.arch} {self.schematic}"


def read_mark(text: str) -> ImageMark | None:
    """None: not an image of tgp, of any cluster."""
    found = _FORM.fullmatch(text)
    version = read_version(found[2]) if found is not None else None
    if found is None or version is None or str(version) != found[2]:
        return None
    return ImageMark(found[1], version, found[3], found[4])
