"""The real `@runpod/mcp-server`, pointed at a simulator of RunPod on a loopback port, and its customer by JSON-RPC."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clients import client_run
from tests.clients.client_run import PATIENCE_S, Watch
from tgp.sim.clouds.runpod.server import RunPodSimulator

NAME = "runpod-mcp-server"
REQUIREMENT = "@runpod/mcp-server@4.0.0"
PROTOCOL = "2025-06-18"
LINE_BYTES = 16 << 20  # the list of its tools is one line of several hundred kilobytes


class Broke(Exception):
    """The client itself cannot make sense of what it was answered."""


@dataclass(frozen=True)
class Told:
    """What a tool answered: a value, or why not."""

    refused: bool
    text: str

    @property
    def value(self) -> Any:
        assert not self.refused, self.text
        return json.loads(self.text)


@dataclass
class Customer:
    """One session: requests go out on a line each, answers are picked out by their number."""

    process: asyncio.subprocess.Process
    _asked: int = field(default=0)

    async def greet(self) -> str:
        who = {"name": "judge", "version": "1"}
        told = await self.ask("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": who})
        await self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        version: str = told["serverInfo"]["version"]
        return version

    async def tool(self, tool: str, /, **arguments: Any) -> Told:
        told = await self.ask("tools/call", {"name": tool, "arguments": arguments})
        return Told(bool(told.get("isError")), "".join(part.get("text", "") for part in told["content"]))

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        await self._write({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while True:
                line = await self.process.stdout.readline()
                assert line, "the client has ended"
                answer = json.loads(line)
                if answer.get("id") == self._asked:
                    if "error" in answer:
                        raise Broke(answer["error"]["message"])
                    result: dict[str, Any] = answer["result"]
                    return result

    async def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()


@dataclass
class ClientRun(client_run.ClientRun[RunPodSimulator]):
    package: Path = Path()  # the folder that the client is installed in

    @asynccontextmanager
    async def customer(self, key: str = "") -> AsyncIterator[Customer]:
        process = await asyncio.create_subprocess_exec(
            self.program,
            self.package / "node_modules" / "@runpod" / "mcp-server" / "dist" / "stdio.mjs",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(self.home),
                "RUNPOD_API_KEY": key or self.simulator.key,
                "RUNPOD_API_BASE_URL": self.url,
            },
            cwd=self.home,
            limit=LINE_BYTES,
        )
        try:
            yield Customer(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


@asynccontextmanager
async def open_shop(node: Path, package: Path, home: Path) -> AsyncIterator[ClientRun]:
    watch = Watch()
    opened = ClientRun(RunPodSimulator(watch, 1), watch, node, home, package=package)
    async with opened.open():
        yield opened
