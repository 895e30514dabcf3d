"""Real meshes in network namespaces. Root is needed, and its absence is a failure: what was not tried is not proved."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools import toolbox
from tools.controlplane.fixtures import say_past_capturing
from tools.lan import Lan, missing

DESELECT = "deselect these tests with: -m 'not root'"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.root)


@pytest.fixture(scope="session")
def program_of(pytestconfig: pytest.Config) -> Callable[[toolbox.Tool], Path]:
    """headscale, tailscaled and the others, built when they are missing."""
    return lambda tool: toolbox.find(tool, say=lambda line: say_past_capturing(pytestconfig, line))


@pytest.fixture(scope="session", autouse=True)
def fit_machine() -> None:
    if wanted := missing():
        pytest.fail(f"a real mesh cannot be tried here, for want of {wanted}; {DESELECT}", pytrace=False)


@pytest.fixture
def lan(tmp_path: Path) -> Iterator[Lan]:
    with Lan(tmp_path / "lan") as made:
        yield made
