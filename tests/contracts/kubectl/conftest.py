"""The two servers, each with a kubectl of its own, and the tally that is printed in the end."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.contracts.kubectl.mounted import Mounted
from tests.contracts.kubectl.player import Player, Seen
from tests.contracts.kubectl.script import Script
from tools.controlplane.kubectl import Kubectl


@dataclass(slots=True)
class Tally:
    commands: int = 0  # whose whole output was compared
    unlike: int = 0  # whose output differs by nature: only what they must say was looked for
    differences: int = 0


TALLY = pytest.StashKey[Tally]()


@dataclass(slots=True)
class Servers:
    memory: Kubectl
    real: Kubectl
    tally: Tally = field(default_factory=Tally)

    def play(self, script: Script) -> tuple[list[Seen], list[Seen]]:
        """The same script on both, side by side."""
        with ThreadPoolExecutor(2) as pool:
            ours = pool.submit(Player(self.memory).play, script)
            theirs = pool.submit(Player(self.real).play, script)
            return ours.result(), theirs.result()


@pytest.fixture(scope="session")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    with Mounted(tmp_path_factory.mktemp("memory")) as server:
        yield server


@pytest.fixture(scope="session")
def memory_kubectl(mounted: Mounted, kubectl_program: Path) -> Kubectl:
    """Administrator of the in-memory server."""
    return Kubectl(kubectl_program, mounted.kubeconfig, mounted.directory)


@pytest.fixture(scope="session")
def servers(memory_kubectl: Kubectl, kubectl: Kubectl, pytestconfig: pytest.Config) -> Servers:
    both = Servers(memory_kubectl, kubectl)
    pytestconfig.stash[TALLY] = both.tally
    return both


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    tally = config.stash.get(TALLY, None)
    if tally is not None and tally.commands:
        line = f"kubectl: {tally.commands} commands, 2 servers, {tally.differences} differences"
        terminalreporter.write_line(f"{line} ({tally.unlike} more only checked for what they must say)")
