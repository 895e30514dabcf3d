"""One suite over every adapter: what the port promises holds for each of them."""

import pytest

from tests.amounts import amount
from tests.contracts.clouds.everything import all_promises, all_providers
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import play
from tests.contracts.clouds.suite import LEAST_EXECUTED, Promise
from tests.contracts.clouds.tally import TALLY

SEEDS = amount(1, 5, "TGP_SEEDS")  # worlds per promise
PAIRS = [(provider, one) for provider in all_providers() for one in all_promises() if not one.excuse(provider)]


@pytest.mark.parametrize(("provider", "one"), PAIRS, ids=[f"{provider.name}-{one.name}" for provider, one in PAIRS])
def test_the_adapter_keeps_its_promise(provider: Provider, one: Promise) -> None:
    """The docstring of the promise's script says what it is worth."""
    TALLY.began(provider.name, one)
    for seed in range(SEEDS):
        play(provider, one.script, seed)
    TALLY.kept(provider.name, one)


@pytest.mark.parametrize("provider", all_providers(), ids=lambda provider: provider.name)
def test_enough_promises_apply_to_every_adapter(provider: Provider) -> None:
    """An adapter cannot pass by being excused."""
    assert sum(not one.excuse(provider) for one in all_promises()) >= LEAST_EXECUTED


@pytest.mark.parametrize("provider", all_providers(), ids=lambda provider: provider.name)
def test_every_exemption_names_a_promise_and_a_reason(provider: Provider) -> None:
    known = {one.name for one in all_promises()}

    assert [name for name in provider.exempt if name not in known] == []
    assert [name for name, reason in provider.exempt.items() if len(reason.split()) < 3] == []
