"""The real `vultr-python-client`, pointed at a simulator of Vultr on a loopback port."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.clients import shop
from tests.clients.shop import Watch
from tgp.sim.clouds.vultr import VultrSimulator

NAME = "vultr-python-client"
REQUIREMENT = f"{NAME}==1.0.1"
FINE, REFUSED, BROKEN = 0, 2, 3  # what a scene ends with
JUDGE = Path(__file__).parent / "judge.py"


class Shop(shop.Shop[VultrSimulator]):
    async def play(self, scene: str, *words: str, key: str = "", ends: int = FINE) -> Any:
        """One scene in the client's own environment; what it told."""
        said = await self.run(JUDGE, f"{self.url}/v2", key or self.simulator.key, scene, *words)
        assert said.code == ends, said.out + said.err
        return json.loads(said.out)


@asynccontextmanager
async def open_shop(environment: Path, home: Path) -> AsyncIterator[Shop]:
    watch = Watch()
    opened = Shop(VultrSimulator(watch, 1), watch, environment / "bin" / "python", home)
    async with opened.open():
        yield opened
