"""The real `vultr-python-client`, pointed at a simulator of Vultr on a loopback port."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tgp.adapters.http.serve import listen
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.vultr import VultrSimulator

NAME = "vultr-python-client"
REQUIREMENT = f"{NAME}==1.0.1"
PATIENCE_S = 60  # a run takes about a second
FINE, REFUSED, BROKEN = 0, 2, 3  # what a scene ends with
JUDGE = Path(__file__).parent / "judge.py"
Spoil = Callable[[Call, Reply], Reply]


class Watch:
    """The present when it was made, and then only as far on as it is told."""

    def __init__(self) -> None:
        self._now = datetime.now(UTC)

    def now(self) -> datetime:
        return self._now

    def boottime(self) -> float:
        return self._now.timestamp()

    def skip(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


@dataclass
class Shop:
    simulator: VultrSimulator
    watch: Watch
    url: str
    python: Path
    home: Path
    spoil: Spoil | None = None  # changes answers on their way, to see that the client notices

    async def answer(self, call: Call) -> Reply:
        reply = await self.simulator.handle(call)
        return reply if self.spoil is None else self.spoil(call, reply)

    async def play(self, scene: str, *words: str, key: str = "", ends: int = FINE) -> Any:
        """One scene in the client's own environment; what it told."""
        process = await asyncio.create_subprocess_exec(
            self.python,
            JUDGE,
            f"{self.url}/v2",
            key or self.simulator.key,
            scene,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.home)},
            cwd=self.home,
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == ends, out.decode() + err.decode()
        return json.loads(out)


@asynccontextmanager
async def open_shop(environment: Path, home: Path) -> AsyncIterator[Shop]:
    watch = Watch()
    shop = Shop(VultrSimulator(watch, 1), watch, "", environment / "bin" / "python", home)
    listening = await listen(shop.answer)
    shop.url = listening.url
    try:
        yield shop
    finally:
        await listening.stop()
