"""The suite is worth something: every planted mistake breaks a promise, and the honest adapter breaks none."""

import pytest

from tests.contracts.clouds.broken import BROKEN, Broken
from tests.contracts.clouds.everything import all_promises
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import play
from tgp.core.model.cloud_errors import CloudError

WANTED = 8  # planted mistakes at least


def broken_promises(provider: Provider) -> list[str]:
    """The names of the promises that this adapter does not keep."""
    broken = []
    for one in all_promises():
        if one.excuse(provider):
            continue
        try:
            play(provider, one.script)
        except (AssertionError, CloudError):
            broken.append(one.name)
    return broken


@pytest.fixture(scope="module")
def caught() -> dict[str, list[str]]:
    return {broken.name: broken_promises(broken.provider) for broken in BROKEN}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_a_broken_adapter_is_caught(broken: Broken, caught: dict[str, list[str]]) -> None:
    assert caught[broken.name] != []


def test_a_mistake_breaks_some_promises_and_not_all(caught: dict[str, list[str]]) -> None:
    """Else the suite would say that something is wrong, and not what."""
    few = len(all_promises()) // 4

    assert {name: len(broken) for name, broken in caught.items() if len(broken) > few} == {}


def test_the_catch_is_told(caught: dict[str, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    """For people: how many were planted, how many were caught, and by what."""
    noticed = sum(1 for broken in caught.values() if broken)
    with capsys.disabled():
        print()
        for name, broken in caught.items():
            print(f"  {name}: {len(broken)}, first by “{broken[0] if broken else 'nobody'}”")
        print(f"{noticed} of {len(BROKEN)} broken adapters caught")

    assert noticed == len(BROKEN) >= WANTED
