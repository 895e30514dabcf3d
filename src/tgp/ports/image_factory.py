"""Where Talos images come from: a schematic names the extensions, an id identifies it, assets are addressed by
schematic and version.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from tgp.core.model.talos import TalosVersion


class FactoryError(Exception):
    """No usable answer: try again later."""


class FactoryRefused(FactoryError):
    """The factory refuses: an unknown extension, an unknown version. The text says which."""


class Schematic(msgspec.Struct, frozen=True):
    """What is customised in an image. Equal schematics have one id, at every factory. Never holds secrets."""

    extensions: tuple[str, ...] = ()  # official ones, sorted: siderolabs/tailscale
    kernel_args: tuple[str, ...] = ()

    def body(self) -> Mapping[str, Any]:
        customization: dict[str, Any] = {}
        if self.kernel_args:
            customization["extraKernelArgs"] = list(self.kernel_args)
        if self.extensions:
            customization["systemExtensions"] = {"officialExtensions": list(self.extensions)}
        return {"customization": customization} if customization else {}


class Factory(Protocol):
    async def schematic(self, schematic: Schematic) -> str:
        """Its id: 64 hexadecimal digits. Repeatable and free."""
        ...

    async def extensions(self, version: TalosVersion) -> frozenset[str]:
        """The names of the official extensions that exist for this version. Raises FactoryRefused: no such version."""
        ...

    def image(self, schematic: str, version: TalosVersion, asset: str) -> str:
        """The URL of a disk image, such as nocloud-amd64.raw.xz."""
        ...

    async def built(self, schematic: str, version: TalosVersion, asset: str) -> str:
        """The URL that serves an image, after redirects; empty: the image is being built.

        The factory builds an image on the first request. Raises FactoryRefused: it never will.
        """
        ...

    def installer(self, schematic: str, version: TalosVersion, platform: str = "metal") -> str:
        """The installer image to put into a machine config."""
        ...
