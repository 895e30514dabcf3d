"""Where Talos images come from: a schematic names the extensions, an id stands for it, assets are addressed by both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tgp.core.model.talos import TalosVersion


class FactoryError(Exception):
    """No answer that could be used: ask again later."""


class FactoryRefused(FactoryError):
    """It will not make this: an extension it does not know, a version it does not have. The text says which."""


@dataclass(frozen=True, slots=True)
class Schematic:
    """What is customised in an image. Equal schematics have one id, wherever they are asked for. No secrets, ever."""

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
        """Its id: 64 hexadecimal digits. Repeatable; asking changes nothing that anybody pays for."""
        ...

    async def extensions(self, version: TalosVersion) -> frozenset[str]:
        """The names of the official extensions that exist for this version. Raises FactoryRefused: no such version."""
        ...

    def image(self, schematic: str, version: TalosVersion, asset: str) -> str:
        """The address of a disk image, such as nocloud-amd64.raw.xz."""
        ...

    async def built(self, schematic: str, version: TalosVersion, asset: str) -> str:
        """The address that the bytes of an image come from, after redirects; empty: it is being built.

        An image is built when it is first asked for, so asking begins it. Raises FactoryRefused: it will never be.
        """
        ...

    def installer(self, schematic: str, version: TalosVersion, platform: str = "metal") -> str:
        """The installer image to put into a machine config."""
        ...
