"""Programs from a table: each is a coroutine that takes its arguments and environment and says how it ended."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import TypeAlias

from tgp.ports.exec import Ended, ProgramFailed

Program: TypeAlias = Callable[[tuple[str, ...], Mapping[str, str]], Awaitable[Ended]]


class ScriptedExec:
    def __init__(self, programs: Mapping[str, Program] | None = None) -> None:
        self._programs = dict(programs or {})

    def install(self, name: str, program: Program) -> None:
        self._programs[name] = program

    async def run(self, argv: tuple[str, ...], env: Mapping[str, str], within: timedelta) -> Ended:
        program = self._programs.get(argv[0])
        if program is None:
            raise ProgramFailed(f"{argv[0]} is not installed")
        try:
            async with asyncio.timeout(within.total_seconds()):
                return await program(argv, env)
        except TimeoutError as error:
            raise ProgramFailed(f"{argv[0]} did not end within {within.total_seconds():g} s") from error
