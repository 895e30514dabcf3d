"""Where one asks: questions go in as lines, answers come out as lines, hundreds by one process."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.toolbox.find import find, find_all
from tools.toolbox.pins import JUDGES, OTHER_JUDGES

BOUND_S = 300  # a hundred configs take well under a second
ALL = "TGP_TALOS"  # set to `all`: every release that can be had, not only one of each minor


@dataclass(frozen=True, slots=True)
class Question:
    name: str
    text: str = field(repr=False)
    mode: str = "cloud"  # how every platform but bare metal and containers validates
    strict: bool = True
    runtime: bool = False  # also what a node checks of it once it runs


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    verdict: str  # accepted, unreadable or invalid
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # of the machine, as Talos read it

    @property
    def accepted(self) -> bool:
        return self.verdict == "accepted"


@dataclass(frozen=True, slots=True)
class ConfigVariant:
    """How a worker's config shall differ from the plainest that Talos's own generator writes."""

    name: str
    talos: str  # v1.13
    kubernetes: str = "1.33.0"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judge:
    version: str  # 1.13.9
    program: Path

    def __repr__(self) -> str:
        return f"Judge({self.version})"

    @property
    def minor(self) -> int:
        return int(self.version.split(".")[1])

    def verdicts(self, questions: Iterable[Question]) -> list[Verdict]:
        """In the order of the questions."""
        told = self._ask(asdict(question) for question in questions)
        return [
            Verdict(one["name"], one["verdict"], tuple(one["errors"]), tuple(one["warnings"]), one["environment"] or {})
            for one in told
        ]

    def keys(self, kinds: Iterable[str]) -> dict[str, Any]:
        """What it reads in documents of these kinds; None for a kind it does not know."""
        return self._run(("--keys", *kinds))[0]

    def workers(self, queries: Iterable[ConfigVariant]) -> dict[str, str]:
        """What `talosctl gen config` would write, by the wishes' names."""
        plain = ({"name": w.name, "talos": w.talos, "kubernetes": w.kubernetes, **w.options} for w in queries)
        return {one["name"]: one["text"] for one in self._ask(plain, "--workers")}

    def _ask(self, lines: Iterable[dict[str, Any]], *arguments: str) -> list[dict[str, Any]]:
        return self._run(arguments, "\n".join(json.dumps(line) for line in lines))

    def _run(self, arguments: tuple[str, ...], asked: str = "") -> list[dict[str, Any]]:
        done = subprocess.run(
            [self.program, *arguments],
            input=asked,
            capture_output=True,
            encoding="utf-8",
            timeout=BOUND_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"the judge of Talos {self.version} stopped: {done.stderr[-2000:]}")
        return [json.loads(line) for line in done.stdout.split("\n") if line]


def judge(version: str) -> Judge:
    """Of exactly this release, or the newest at hand of this minor (`1.13`); built now if it was not yet."""
    wanted = version.removeprefix("v")
    for tool in (*JUDGES, *OTHER_JUDGES):
        if tool.version == wanted or tool.version.startswith(f"{wanted}."):
            return Judge(tool.version, find(tool))
    at_hand = ", ".join(tool.version for tool in (*JUDGES, *OTHER_JUDGES))
    raise LookupError(f"there is no judge of Talos {version}; at hand are {at_hand}")


def judges(environ: Mapping[str, str] = os.environ) -> list[Judge]:
    """One of each minor, the oldest first; with TGP_TALOS=all every release that can be had."""
    wanted = (*JUDGES, *OTHER_JUDGES) if environ.get(ALL) == "all" else JUDGES
    found = [Judge(tool.version, path) for tool, path in find_all(wanted).items()]
    return sorted(found, key=lambda one: (one.minor, one.version))
