"""A script is a list of kubectl commands, run alike against two servers; what each printed is compared.

A command also says what must be in its output (`says`), so that two servers that are wrong in the same way fail too.
"""

import shlex
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Command:
    line: str  # what follows `kubectl`, quoted as for a shell
    stdin: str = ""
    says: tuple[str, ...] = ()  # each must be in what it printed
    never_says: tuple[str, ...] = ()
    fails: bool = False
    unlike: str = ""  # not empty: the servers differ here by nature, and this says why; only `says` is checked

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(shlex.split(self.line))


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """A command that runs on while others are run; it ends by itself, or is stopped after so many lines."""

    behind: Command
    commands: tuple[Command, ...]
    starts_with: int = 0  # lines it prints before the others begin; 0: they begin once it has `asked`
    asked: str = "watch=true"  # part of what it tells about a request
    lines: int = 0  # lines it prints in all before it is stopped; 0: it ends by itself


Step: TypeAlias = Command | Meanwhile


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    steps: tuple[Step, ...]

    @property
    def namespace(self) -> str:
        return f"kubectl-{self.name.replace(' ', '-')}"

    @property
    def commands(self) -> int:
        return sum(1 if isinstance(step, Command) else 1 + len(step.commands) for step in self.steps)


def run(
    line: str,
    stdin: str = "",
    *,
    says: str | tuple[str, ...] = (),
    never_says: str | tuple[str, ...] = (),
    fails: bool = False,
    unlike: str = "",
) -> Command:
    return Command(line, stdin, _tuple(says), _tuple(never_says), fails, unlike)


def _tuple(texts: str | tuple[str, ...]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else texts
