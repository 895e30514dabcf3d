"""A pretend provider on a loopback port, and a vendor's own program as its customer."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from tgp.adapters.http.serve import listen
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.simulator import Simulator

S = TypeVar("S", bound=Simulator)
PATIENCE_S = 60  # a run takes about a second
Spoil: TypeAlias = Callable[[Call, Reply], Reply]


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
class Shop(Generic[S]):
    simulator: S
    watch: Watch
    program: Path
    home: Path
    spoil: Spoil | None = None  # changes answers on their way, to see that the client notices
    url: str = ""
    calls: list[Call] = field(default_factory=list)

    async def answer(self, call: Call) -> Reply:
        self.calls.append(call)
        reply = await self.simulator.handle(call)
        return reply if self.spoil is None else self.spoil(call, reply)

    async def run(self, *words: str | Path, **environment: str) -> Said:
        """One run of the program, as a customer would start it."""
        process = await asyncio.create_subprocess_exec(
            self.program,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.home), "COLUMNS": "400", **environment},
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

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        listening = await listen(self.answer)
        self.url = listening.url
        try:
            yield
        finally:
            await listening.stop()
