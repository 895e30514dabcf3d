"""Pytest fixtures: a real control plane for a whole session, started when the first test asks for one.

Programs that are missing are built then, with their progress shown past pytest's capturing.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import toolbox
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import EVERYTHING, RELEASES, ControlPlane, Wanted
from tools.toolbox.find import say_on_stderr


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubernetes",
        choices=sorted(RELEASES),
        default="1.36",
        help="which release `control_plane` runs: the current one or the oldest supported (built when missing)",
    )


def say_past_capturing(config: pytest.Config, line: str) -> None:
    capturing = config.pluginmanager.getplugin("capturemanager")
    if capturing is None:
        say_on_stderr(line)
        return
    with capturing.global_and_fixture_disabled():
        say_on_stderr(line)


def a_control_plane(config: pytest.Config, wanted: Wanted) -> ControlPlane:
    """Not started yet; for a fixture or test that wants one of its own kind."""
    return ControlPlane(wanted, lambda line: say_past_capturing(config, line))


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """The API server on etcd and nothing else: what is written stays as it was written."""
    with a_control_plane(pytestconfig, Wanted(version=pytestconfig.getoption("--kubernetes"))) as plane:
        yield plane


@pytest.fixture(scope="session")
def full_control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """With controllers, scheduler and KWOK: pods are placed, run and finish; namespaces go when deleted."""
    with a_control_plane(pytestconfig, EVERYTHING) as plane:
        yield plane


@pytest.fixture(scope="session")
def kubectl_program(pytestconfig: pytest.Config) -> Path:
    """Ours, never the machine's: which release runs is part of what a test says."""
    return toolbox.find(toolbox.KUBECTL, say=lambda line: say_past_capturing(pytestconfig, line))


@pytest.fixture(scope="session")
def kubectl(control_plane: ControlPlane, kubectl_program: Path) -> Kubectl:
    """Administrator of `control_plane`."""
    return Kubectl(kubectl_program, control_plane.kubeconfig, control_plane.directory)


@pytest.fixture(scope="session")
def full_kubectl(full_control_plane: ControlPlane, kubectl_program: Path) -> Kubectl:
    """Administrator of `full_control_plane`."""
    return Kubectl(kubectl_program, full_control_plane.kubeconfig, full_control_plane.directory)
