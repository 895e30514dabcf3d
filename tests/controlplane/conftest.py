"""What tests on the real control plane share: the plane, providers on sockets, waiting with a bound."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.amounts import PROVING
from tests.controlplane.node_registrar import NodeRegistrar
from tests.controlplane.simulators import Simulators
from tools import toolbox
from tools.controlplane.fixtures import a_control_plane, say_past_capturing
from tools.controlplane.helm import Helm
from tools.controlplane.plane import EVERYTHING, ControlPlane

WAIT_BOUND_S = 120
POLL_S = 0.2  # each look costs the API server as much as us


@pytest.fixture(scope="module")
def plane(pytestconfig) -> Iterator[ControlPlane]:
    """Of the file alone; one that needs another defines its own."""
    with a_control_plane(pytestconfig, EVERYTHING) as running:
        yield running


HELMS = {**({"helm3": toolbox.HELM_CLIENT} if PROVING else {}), "helm4": toolbox.NEWER_HELM_CLIENT}


@pytest.fixture(scope="module", params=HELMS.values(), ids=HELMS)
def helm(request, pytestconfig, plane) -> Helm:
    """The newer one; `make prove` tries both."""
    program = toolbox.find(request.param, say=lambda line: say_past_capturing(pytestconfig, line))
    return Helm(program, plane.directory, plane.kubeconfig)


@pytest.fixture(scope="module")
def simulators() -> Iterator[Simulators]:
    with Simulators() as open_now:
        yield open_now


@pytest.fixture(scope="module")
def registrar(simulators, plane) -> Iterator[NodeRegistrar]:
    with NodeRegistrar(simulators, plane.admin) as tended:
        yield tended


@pytest.fixture(scope="session")
def eventually() -> Callable[..., None]:
    """`eventually(lambda: …)` returns once it holds and fails when it has not within the bound."""

    def wait(holds: Callable[[], bool], within_s: float = WAIT_BOUND_S) -> None:
        give_up_at = time.monotonic() + within_s
        while not holds():
            assert time.monotonic() < give_up_at, f"not within {within_s} s"
            time.sleep(POLL_S)

    return wait


@pytest.fixture(scope="session")
def runs() -> Callable[[int], bool]:
    """Whether a process does anything still; a zombie waiting for its parent does not."""

    def look(pid: int) -> bool:
        try:
            state = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        return state != "Z"

    return look
