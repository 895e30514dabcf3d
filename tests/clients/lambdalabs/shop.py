"""The real `lai` command line, pointed at a simulator of Lambda Labs on a loopback port."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tgp.adapters.http.serve import listen
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.lambdalabs import LambdaSimulator

NAME = "lambda-ai-cloud-api-client"
REQUIREMENT = f"{NAME}==2.4.1"
PATIENCE_S = 60  # a run takes about a second
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


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


@dataclass
class Shop:
    simulator: LambdaSimulator
    watch: Watch
    url: str
    program: Path
    home: Path
    spoil: Spoil | None = None  # changes answers on their way, to see that the client notices
    calls: list[Call] = field(default_factory=list)

    async def answer(self, call: Call) -> Reply:
        self.calls.append(call)
        reply = await self.simulator.handle(call)
        return reply if self.spoil is None else self.spoil(call, reply)

    async def lai(self, *words: str, key: str = "") -> Said:
        """One run of the command line, as a customer would start it."""
        process = await asyncio.create_subprocess_exec(
            self.program,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(self.home),
                "COLUMNS": "400",
                "LAMBDA_CLOUD_BASE_URL": self.url,
                "LAMBDA_CLOUD_TOKEN": key or self.simulator.key,
            },
            cwd=self.home,
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Said(process.returncode or 0, out.decode(), err.decode())

    async def started(self, name: str, *words: str) -> str:
        """A machine that is there and listed; its id."""
        said = await self.lai("start", "--instance-type", "gpu_1x_a10", "--ssh-key", "tgp", "--name", name, *words)
        assert said.code == 0, said.err
        self.watch.skip(10)
        return next(machine.id for machine in self.simulator.fleet.machines.values() if machine.name == name)


@asynccontextmanager
async def open_shop(environment: Path, home: Path) -> AsyncIterator[Shop]:
    watch = Watch()
    shop = Shop(LambdaSimulator(watch, 1), watch, "", environment / "bin" / "lai", home)
    listening = await listen(shop.answer)
    shop.url = listening.url
    try:
        yield shop
    finally:
        await listening.stop()
