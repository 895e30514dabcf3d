"""The parts that `make test` is cut into: each is one pytest process, and they run side by side.

A part is some paths under `tests/` without those that other parts name within them. So every test is in exactly one
part, also a new file or folder. A test that takes more than half a minute, or needs a machine in a special state, gets
a part of its own.
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
    waits: bool = False  # machines boot and leases lapse in real time, and hardly anything computes meanwhile
    tools: bool = False  # it needs programs that are built once: the others begin before these are there


def part(name: str, *within: str, waits: bool = False, tools: bool = False) -> Part:
    """Its paths are given within `tests/`."""
    return Part(name, tuple(f"tests/{path}" for path in within or (name,)), waits, tools)


TOOLS = "tools"  # the step that builds them
# The longest first: what is long and begins last is what all wait for. What shares a control plane is one part,
# for each process that asks for it starts its own.
PARTS = (
    Part(
        "controlplane/replicas",
        tuple(f"tests/controlplane/test_{name}.py" for name in ("operator", "lies", "restore")),
        waits=True,
        tools=True,
    ),
    part("controlplane/installed", "controlplane/test_installed.py", waits=True, tools=True),
    part("controlplane/disruption", "controlplane/test_disruption.py", waits=True, tools=True),
    part("controlplane/budgets", "controlplane/test_budgets.py", waits=True, tools=True),
    part("controlplane/uninstall", "controlplane/test_uninstall.py", waits=True, tools=True),
    part("controlplane", waits=True, tools=True),
    part("controlplane/joining", "controlplane/test_joining.py", waits=True, tools=True),
    part("controlplane/lifecycle", "controlplane/test_lifecycle.py", waits=True, tools=True),
    part("controlplane/pools", "controlplane/test_pools.py", waits=True, tools=True),
    part("controlplane/install", "controlplane/test_install.py", waits=True, tools=True),
    part("controlplane/scheduler", "controlplane/test_scheduler_judge.py", tools=True),
    part("realmesh", waits=True, tools=True),
    part("sim"),
    part("cli", tools=True),
    part("contracts", tools=True),
    part("core"),
    part("sim/lifecycle"),
    part("sim/enumerated", "sim/lifecycle/test_enumerated.py"),
    Part("the rest", ("tests",)),
    part("sim/mutants"),
    part("sim/safety", "sim/test_safety.py"),
    part("contracts/clouds"),
    part("contracts/talos", tools=True),
    part("takeover", tools=True),
    part("project/chart", "project/test_chart.py", tools=True),
    part("contracts/mesh", tools=True),
)


def step(wanted: Part, parts: tuple[Part, ...] = PARTS) -> Step:
    """What runs it."""
    left_out = (f"--ignore={path}" for path in _elsewhere(wanted, parts))
    command = (sys.executable, "-m", "pytest", "-p", "tools.told", *wanted.paths, *left_out)
    return Step(wanted.name, command, waits=wanted.waits, after=TOOLS if wanted.tools else "")


def _elsewhere(wanted: Part, parts: tuple[Part, ...]) -> Iterator[str]:
    """Paths of other parts within this one."""
    for other in parts:
        if other != wanted:
            yield from (path for path in other.paths if _within(path, wanted.paths))


def _within(path: str, others: tuple[str, ...]) -> bool:
    return any(PurePosixPath(path).is_relative_to(other) for other in others)
