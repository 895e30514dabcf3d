"""The only sender to the Image Factory. Immutable answers are cached."""

import asyncio
from collections import OrderedDict
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar
from urllib.parse import urljoin

from tgp.adapters.image_factory import wire
from tgp.core.model.talos import TalosVersion
from tgp.ports.http import Call, Http, NeverLeft, NoAnswer, Reply, TooLarge
from tgp.ports.image_factory import FactoryError, FactoryRefused, Schematic

LOOK_WITHIN = timedelta(seconds=20)  # checks whether an image is built; repeated every minute anyway
MOST_REDIRECTS = 4
PATIENCE = timedelta(seconds=60)  # the factory may have to fetch a release's list first
K = TypeVar("K")
V = TypeVar("V")
REMEMBERED = 256  # schematics; and versions


class FactoryClient:
    """Implements `Factory`. `http` leads to `base_url`, which is also part of the image URLs.

    The id of a schematic and the extensions of a release never change: both are cached. Refusals are not.
    """

    def __init__(self, http: Http, base_url: str = wire.DEFAULT_URL) -> None:
        self._http = http
        self._base_url = base_url
        self._ids: OrderedDict[Schematic, str] = OrderedDict()
        self._extensions: OrderedDict[TalosVersion, frozenset[str]] = OrderedDict()
        self._turn = asyncio.Lock()  # waiting callers find the cached answer

    async def schematic(self, schematic: Schematic) -> str:
        async with self._turn:
            found = self._ids.get(schematic)
            if found is None:
                found = wire.read_create(await self._send(wire.create(schematic)))
                _keep(self._ids, schematic, found)
            return found

    async def extensions(self, version: TalosVersion) -> frozenset[str]:
        async with self._turn:
            found = self._extensions.get(version)
            if found is None:
                found = await self._ask_for_extensions(version)
                _keep(self._extensions, version, found)
            return found

    async def versions(self) -> frozenset[TalosVersion]:
        return wire.read_versions(await self._send(wire.versions()))

    def image(self, schematic: str, version: TalosVersion, asset: str) -> str:
        return wire.image(self._base_url, schematic, version, asset)

    async def built(self, schematic: str, version: TalosVersion, asset: str) -> str:
        """HEAD until the image is built; then the first byte is asked for, to see which server has it."""
        url, what = self.image(schematic, version, asset), f"the image {asset} of Talos {version}"
        call: Call | None = wire.look_for(schematic, version, asset)
        for _ in range(MOST_REDIRECTS):
            if call is None:
                return url  # another server serves the bytes
            reply = await self._look(call)
            if reply is None or not wire.is_built(reply, what):
                return ""
            if call.method == "GET" and reply.status not in wire.REDIRECTS:
                return url
            url = urljoin(url, reply.header("Location"))
            call = wire.first_byte(self._base_url, url)
        raise FactoryError(f"{wire.TITLE} redirects {what} too often")

    async def _look(self, call: Call) -> Reply | None:
        """None: no answer. The factory answers after it has built the image, which takes longer than this timeout."""
        try:
            return await self._http.send(replace(call, timeout=LOOK_WITHIN))
        except TooLarge:
            return Reply(200)  # the whole image, where one byte was asked for
        except NoAnswer:
            return None
        except NeverLeft as error:
            raise FactoryError(f"{wire.TITLE} cannot be reached: {error}") from error

    def installer(self, schematic: str, version: TalosVersion, platform: str = "metal") -> str:
        return wire.installer(self._base_url, schematic, version, platform)

    async def _ask_for_extensions(self, version: TalosVersion) -> frozenset[str]:
        try:
            return wire.read_extensions(await self._send(wire.extensions(version)), version)
        except FactoryRefused as error:
            known = await self._known()
            if known and version not in known:
                raise wire.no_version(version, known) from error
            raise

    async def _known(self) -> frozenset[TalosVersion]:
        """For the text of a refusal only: without it the refusal stands."""
        try:
            return await self.versions()
        except FactoryError:
            return frozenset()

    async def _send(self, call: Call) -> Reply:
        try:
            return await self._http.send(replace(call, timeout=PATIENCE))
        except NeverLeft as error:
            raise FactoryError(f"{wire.TITLE} cannot be reached: {error}") from error
        except TooLarge as error:
            raise FactoryError(
                f"{wire.TITLE} answered {call.method} {call.path} with a reply that is too large"
            ) from error
        except NoAnswer as error:
            raise FactoryError(f"{wire.TITLE} did not answer {call.method} {call.path}") from error


def _keep(kept: OrderedDict[K, V], key: K, value: V) -> None:
    kept[key] = value
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)
