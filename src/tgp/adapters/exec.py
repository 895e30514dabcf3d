"""Starts the programs that a kubeconfig names, with bounds on time and output."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from datetime import timedelta

from tgp.ports.exec import Ended, ProgramFailed

MAX_OUTPUT_BYTES = 1 << 20  # an ExecCredential with a certificate chain is a few KB
MAX_COMPLAINT_BYTES = 64 << 10


class SystemExec:
    async def run(self, argv: tuple[str, ...], env: Mapping[str, str], within: timedelta) -> Ended:
        assert argv, "a program has a name"
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, **env},
                start_new_session=True,  # so that its children can be killed with it
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            raise ProgramFailed(f"{argv[0]} could not be started: {_why(error)}") from None
        ended: Ended | None = None
        try:
            async with asyncio.timeout(within.total_seconds()):
                ended = await _to_its_end(process)
        except TimeoutError:
            raise ProgramFailed(f"{argv[0]} did not exit within {within.total_seconds():g} s") from None
        except _TooMuchOutput:
            raise ProgramFailed(f"{argv[0]} printed more than {MAX_OUTPUT_BYTES} bytes") from None
        finally:
            if ended is None:
                await _end(process)
        return ended


class _TooMuchOutput(Exception):
    pass


async def _to_its_end(process: asyncio.subprocess.Process) -> Ended:
    assert process.stdout is not None
    assert process.stderr is not None
    complaint = asyncio.ensure_future(_read(process.stderr, MAX_COMPLAINT_BYTES, strict=False))
    try:
        output = await _read(process.stdout, MAX_OUTPUT_BYTES, strict=True)
        return Ended(await process.wait(), output, await complaint)
    finally:
        complaint.cancel()


async def _read(pipe: asyncio.StreamReader, limit: int, *, strict: bool) -> bytes:
    """To the end of the pipe. Beyond `limit`: an error, or (not strict) read on and keep only the beginning."""
    kept = bytearray()
    while piece := await pipe.read(64 << 10):
        if strict and len(kept) + len(piece) > limit:
            raise _TooMuchOutput
        kept += piece[: limit - len(kept)]
    return bytes(kept)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill it and its children, and reap it. It did not exit by itself, so its process group still has a member."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # gone meanwhile, or no longer our user's
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such program"
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else "an argument holds a NUL"
