"""A pretend provider on a loopback port, and a vendor's own program as its customer."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from tgp.adapters.http.serve import listen
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.simulator import Simulator

S = TypeVar("S", bound=Simulator)
PATIENCE_S = 60  # a run takes less than a second
WARM = Path(__file__).with_name("warm.py")
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


class WarmProgram:
    """A vendor's program whose libraries are imported already: `warm.py` runs it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, words: tuple[str, ...], home: Path, environment: dict[str, str]) -> Said:
        """Blocks until it has ended."""
        out, err = home / ".out", home / ".err"
        out.write_bytes(b"")
        err.write_bytes(b"")
        run = {"words": words, "home": str(home), "environment": environment, "out": str(out), "err": str(err)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(run) + "\n")
        self._process.stdin.flush()
        code = self._process.stdout.readline()
        assert code, "the vendor's Python has ended"
        return Said(int(code), out.read_text(), err.read_text())

    def kill(self) -> None:
        self._process.kill()


@contextmanager
def warm(environment: Path, program: Path, *modules: str, own: str = "-") -> Iterator[WarmProgram]:
    """`program` in the vendor's environment, after these modules; those of `own` are loaded again in each run."""
    command = (str(environment / "bin" / "python"), "-X", "utf8", str(WARM), str(program), own, *modules)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield WarmProgram(process)
        finally:
            process.kill()


@dataclass
class ClientRun(Generic[S]):
    simulator: S
    watch: Watch
    program: WarmProgram
    home: Path
    spoil: Spoil | None = None  # changes answers on their way, to see that the client notices
    url: str = ""
    calls: list[Call] = field(default_factory=list)

    async def answer(self, call: Call) -> Reply:
        self.calls.append(call)
        reply = await self.simulator.handle(call)
        return reply if self.spoil is None else self.spoil(call, reply)

    async def run(self, *words: str, **environment: str) -> Said:
        """One run of the program, as a customer would start it."""
        around = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.home), "COLUMNS": "400", **environment}
        running = asyncio.create_task(asyncio.to_thread(self.program.run, words, self.home, around))
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await asyncio.shield(running)
        except TimeoutError:
            self.program.kill()
            await running
            raise

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        listening = await listen(self.answer)
        self.url = listening.url
        try:
            yield
        finally:
            await listening.stop()
