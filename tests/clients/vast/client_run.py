"""The real `vastai` command line, pointed at a simulator of Vast.ai on a loopback port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.clients import client_run
from tests.clients.client_run import Said, WarmProgram, Watch
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.vast import VastSimulator

REQUIREMENT = "vastai==1.9.1"


class ClientRun(client_run.ClientRun[VastSimulator]):
    async def vastai(self, *words: str, key: str = "") -> Said:
        return await self.run(
            *words,
            TMPDIR=str(self.home),
            VAST_URL=self.url,
            VAST_API_KEY=key or self.simulator.key,
            VASTAI_NO_UPDATE_CHECK="1",
            **{name: str(self.home / name) for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")},
        )

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
async def open_shop(program: WarmProgram, home: Path, spoil: "Spoil | None" = None) -> AsyncIterator[ClientRun]:
    watch = Watch()
    opened = ClientRun(VastSimulator(watch, 1), watch, program, home, spoil)
    async with opened.open():
        yield opened


class Spoil:
    """Breaks one kind of answer, to see that the client notices."""

    def __init__(self, path: str, field_name: str) -> None:
        self.path = path
        self.field_name = field_name

    def __call__(self, call: Call, reply: Reply) -> Reply:
        if not call.path.startswith(self.path):
            return reply
        return Reply(reply.status, reply.content.replace(f'"{self.field_name}"'.encode(), b'"xyz"'), reply.headers)
