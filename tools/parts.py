"""The parts that `make test` is cut into: each is one pytest process, and they run side by side.

A part is some paths under `tests/` without those that other parts name within them. So every test is in exactly one
part, and a new file or folder is in one without a word here. Whoever adds what takes more than half a minute, or what
needs a machine in a special state, gives it a part of its own.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from tools.steps import Step


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    paths: tuple[str, ...]
    cores: float = 1.0


def part(name: str, *within: str, cores: float = 1.0) -> Part:
    """Its paths are given within `tests/`."""
    return Part(name, tuple(f"tests/{path}" for path in within or (name,)), cores)


WAITS = 0.5  # of a core: machines boot and leases lapse in real time, and nobody computes meanwhile
# The longest first: what is long and begins last is what everybody waits for. What shares a control plane is one part,
# for each process that asks for it starts its own.
PARTS = (
    part("controlplane/lives", "controlplane/test_lives.py", cores=WAITS),
    part("sim"),
    part("controlplane", cores=WAITS),
    part("cli"),
    part("sim/lives"),
    part("sim/enumerated", "sim/lives/test_enumerated.py"),
    part("sim/safety", "sim/test_safety.py"),
    part("contracts"),
    part("contracts/clouds"),
    part("sim/mutants"),
    part("takeover"),
    part("realmesh", cores=WAITS),
    part("contracts/mesh"),
    part("contracts/talos"),
    part("core"),
    Part("the rest", ("tests",)),
)


def step(wanted: Part, parts: tuple[Part, ...] = PARTS) -> Step:
    """What runs it."""
    left_out = (f"--ignore={path}" for path in _elsewhere(wanted, parts))
    command = (sys.executable, "-m", "pytest", "-p", "tools.told", *wanted.paths, *left_out)
    return Step(wanted.name, command, cores=wanted.cores)


def _elsewhere(wanted: Part, parts: tuple[Part, ...]) -> Iterator[str]:
    """Paths of other parts within this one."""
    for other in parts:
        if other != wanted:
            yield from (path for path in other.paths if _within(path, wanted.paths))


def _within(path: str, others: tuple[str, ...]) -> bool:
    return any(PurePosixPath(path).is_relative_to(other) for other in others)
