"""What one machine boots: which Talos, with which extensions, and where that image is."""

import msgspec

from tgp.core.model.talos import TalosVersion

DISK_ENDINGS = (".xz", ".zst", ".gz")  # how the factory packs a disk image; without any of them it is not packed


class BootImage(msgspec.Struct, frozen=True):
    version: TalosVersion
    schematic: str  # 64 hexadecimal digits; empty: the administrator's own image, of which nothing is known
    installer: str  # for the machine config; empty: left out
    image: str = ""  # for the order: a snapshot; empty: what the settings name, or the provider's usual one
    raw_url: str = ""  # of takeovers: the packed disk image
    arch: str = "amd64"

    @property
    def raw_stem(self) -> str:
        """Its address without the suffix of its compression: the loader appends one it can unpack."""
        return next((self.raw_url.removesuffix(each) for each in DISK_ENDINGS if self.raw_url.endswith(each)), "")
