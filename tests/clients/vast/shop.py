"""The real `vastai` command line, pointed at a simulator of Vast.ai on a loopback port."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tgp.adapters.http.serve import listen
from tgp.ports.http import Call, Handler, Reply
from tgp.sim.clouds.vast import VastSimulator

REQUIREMENT = "vastai==1.9.1"
PATIENCE_S = 60  # a run takes about a second


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
    simulator: VastSimulator
    watch: Watch
    url: str
    program: Path
    home: Path
    calls: list[Call] = field(default_factory=list)

    async def vastai(self, *words: str, key: str = "") -> Said:
        """One run of the command line, as a customer would start it."""
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "COLUMNS": "400",
            "VAST_URL": self.url,
            "VAST_API_KEY": key or self.simulator.key,
            "VASTAI_NO_UPDATE_CHECK": "1",
            **{name: str(self.home / name) for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")},
        }
        process = await asyncio.create_subprocess_exec(
            self.program,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Said(process.returncode or 0, out.decode(), err.decode())

    async def raw(self, *words: str) -> Any:
        return (await self.vastai("--raw", *words)).value

    async def rented(self, label: str = "one") -> int:
        """A machine that is there and listed."""
        (ask,) = await self.raw("search", "offers", "num_gpus=1", "-o", "dph", "--limit", "1")
        made = await self.raw(
            "create", "instance", str(ask["id"]), "--image", "ubuntu:24.04", "--disk", "32", "--label", label, "--ssh"
        )
        self.watch.skip(10)
        return int(made["new_contract"])


@asynccontextmanager
async def open_shop(environment: Path, home: Path, spoil: "Spoil | None" = None) -> AsyncIterator[Shop]:
    watch = Watch()
    simulator = VastSimulator(watch, 1)
    shop = Shop(simulator, watch, "", environment / "bin" / "vastai", home)
    listening = await listen(_noting(shop, spoil))
    shop.url = listening.url
    try:
        yield shop
    finally:
        await listening.stop()


class Spoil:
    """Breaks one kind of answer, to see that the client notices."""

    def __init__(self, path: str, field_name: str) -> None:
        self.path = path
        self.field_name = field_name

    def __call__(self, call: Call, reply: Reply) -> Reply:
        if not call.path.startswith(self.path):
            return reply
        return Reply(reply.status, reply.content.replace(f'"{self.field_name}"'.encode(), b'"xyz"'), reply.headers)


def _noting(shop: Shop, spoil: Spoil | None) -> Handler:
    async def handle(call: Call) -> Reply:
        shop.calls.append(call)
        reply = await shop.simulator.handle(call)
        return spoil(call, reply) if spoil is not None else reply

    return handle
