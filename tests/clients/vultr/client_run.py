"""The real `vultr-python-client`, pointed at a simulator of Vultr on a loopback port."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.clients import client_run
from tests.clients.client_run import WarmProgram, Watch
from tgp.sim.clouds.vultr import VultrSimulator

NAME = "vultr-python-client"
REQUIREMENT = f"{NAME}==1.0.1"
FINE, REFUSED, BROKEN = 0, 2, 3  # what a script ends with
JUDGE = Path(__file__).parent / "judge.py"


class ClientRun(client_run.ClientRun[VultrSimulator]):
    async def play(self, script: str, *words: str, key: str = "", ends: int = FINE) -> Any:
        """One script in the client's own environment; what it told."""
        said = await self.run(f"{self.url}/v2", key or self.simulator.key, script, *words)
        assert said.code == ends, said.out + said.err
        return json.loads(said.out)


@asynccontextmanager
async def open_shop(program: WarmProgram, home: Path) -> AsyncIterator[ClientRun]:
    watch = Watch()
    opened = ClientRun(VultrSimulator(watch, 1), watch, program, home)
    async with opened.open():
        yield opened
