"""The processes of one run: a server, and one client at a time on it."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO
from urllib.request import Request, urlopen

from bench.cache.programs import Programs

PHASE_BOUND_S = 600.0  # 100,000 pods take the slowest client some ten seconds on a quiet machine
END_BOUND_S = 20.0
TEXT_LIMIT = 1 << 20
LAST_WORDS = 2000  # characters of a failed process's complaints
BEFORE_CHANGES_S = 0.2  # for a client to start its clock

FEATURE = "KUBE_FEATURE_WatchListClient"  # client-go reads its feature gates from the environment

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Client:
    """A way to hold the pods."""

    name: str
    command: tuple[str, ...]  # the server's address is put at its end
    ours: bool = False
    streams: bool = True  # client-go asks for a streaming list unless told otherwise


def contenders(programs: Programs) -> tuple[Client, ...]:
    peer = str(programs.peer)
    return (
        Client("ours, streaming list", (sys.executable, "-m", "bench.cache.ours"), ours=True),
        Client("client-go, whole", (peer, "-url")),
        Client("client-go, slim", (peer, "-slim", "-url")),
        Client("client-go, whole, plain list", (peer, "-url"), streams=False),
        Client("client-go, slim, plain list", (peer, "-slim", "-url"), streams=False),
    )


def curiosities(programs: Programs) -> tuple[Client, ...]:
    """Shown beside the others; no ratio is made of them."""
    return (
        Client("ours, pages of 500", (sys.executable, "-m", "bench.cache.ours", "--pages"), ours=True),
        Client("client-go, slim, JSON", (str(programs.peer), "-accept", "json", "-slim", "-url")),
    )


@dataclass(frozen=True)
class Figures:
    list_seconds: float
    list_cpu_seconds: float
    settled_mib: float  # after the list, a full collection and a heap trim
    natural_mib: float  # after the list, as it is
    peak_mib: float
    after_changes_mib: float  # settled again, after the changes
    changes_per_second: float
    cpu_us_per_change: float


class Server:
    def __init__(self, url: str, mean_bytes: int) -> None:
        self.url = url
        self.mean_bytes = mean_bytes

    async def ask(self, path: str) -> None:
        request = Request(f"{self.url}/bench/{path}", method="POST")  # noqa: S310 - our own server on loopback
        await asyncio.to_thread(lambda: urlopen(request, timeout=PHASE_BOUND_S).close())  # noqa: S310 - the same


@asynccontextmanager
async def serving(programs: Programs, pods: int, changes: int, *, unique: bool) -> AsyncIterator[Server]:
    command = [str(programs.server), "-pods", str(pods), "-changes", str(changes), *(["-unique"] if unique else [])]
    async with _process(*command) as process:
        said = await process.hear()
        yield Server(said["url"], said["mean_bytes"])


async def measure(client: Client, server: Server, changes: int) -> Figures:
    await server.ask("rewind")
    async with _process(
        *client.command, server.url, env={**os.environ, FEATURE: str(client.streams).lower()}
    ) as process:
        listed = await process.hear()
        await process.say(str(changes))
        await asyncio.sleep(BEFORE_CHANGES_S)
        await server.ask(f"publish?events={changes}")
        changed = await process.hear()
    return Figures(
        listed["list_seconds"],
        listed["list_cpu_seconds"],
        listed["settled_mib"],
        listed["natural_mib"],
        listed["peak_mib"],
        changed["settled_mib"],
        changes / changed["event_seconds"],
        changed["event_cpu_seconds"] / changes * 1e6,
    )


class EndedEarly(Exception):
    """A process of the bench gave up; the text ends with what it said."""


class Running:
    def __init__(self, process: asyncio.subprocess.Process, complaints: BinaryIO) -> None:
        self._process = process
        self._complaints = complaints

    async def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()

    async def hear(self) -> dict[str, Any]:
        """Its next line, which is a JSON object."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PHASE_BOUND_S):
            line = await self._process.stdout.readline()
            if not line:
                code = await self._process.wait()
                self._complaints.seek(0)
                raise EndedEarly(f"a process ended with {code}:\n{self._complaints.read().decode()[-LAST_WORDS:]}")
        said: dict[str, Any] = json.loads(line)
        return said


@asynccontextmanager
async def _process(*command: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Running]:
    with TemporaryFile() as complaints:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=complaints,
            limit=TEXT_LIMIT,
            cwd=ROOT,
            env=env,
        )
        try:
            yield Running(process, complaints)
        finally:
            if process.returncode is None:
                process.kill()
            async with asyncio.timeout(END_BOUND_S):
                await process.wait()
