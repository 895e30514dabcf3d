"""The suite is worth something: every planted mistake breaks a promise, and the honest adapter breaks none."""

import pytest

from tests.contracts.clouds.broken import BROKEN, Broken
from tests.contracts.clouds.everything import all_promises, all_providers
from tests.contracts.clouds.promises.pages import last
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import Stage, play
from tests.contracts.clouds.suite import Promise
from tgp.core.model.cloud_errors import CloudError
from tgp.sim.clouds.cloud_faults import CloudVerb

PAGE_CASES = (
    "the token is on the last of many pages",
    "a second page that fails is unknown, never the first page",
    "a page that lies about being the last is unknown",
    "what stands on the last of many pages is offered",
)
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


PAGED = [
    (provider, one)
    for provider in all_providers()
    if provider.page_rows
    for one in all_promises()
    if one.name.rpartition(": ")[2] in PAGE_CASES and not one.excuse(provider)
]


@pytest.mark.parametrize(("provider", "one"), PAGED, ids=[f"{provider.name}-{one.name}" for provider, one in PAGED])
def test_each_case_of_pages_catches_a_reader_of_the_first_page(provider: Provider, one: Promise) -> None:
    """Every page is changed to say that it is the whole list: so the adapter reads one, as a careless one would."""

    async def blind(stage: Stage) -> None:
        for verb in (CloudVerb.LIST, *((CloudVerb.OFFERS,) if provider.offer_rows else ())):
            stage.rewrite(verb, last(provider, counted=True))
        await one.script(stage)

    with pytest.raises((AssertionError, CloudError)):
        play(provider, blind)


def test_every_reader_of_pages_is_tried_so() -> None:
    """The two cases that need no total, by both verbs, of every provider whose list has pages."""
    tried = {(provider.name, one.name) for provider, one in PAGED}
    paged = [provider.name for provider in all_providers() if provider.page_rows]

    assert {
        (name, f"pages: {verb}: {case}") for name in paged for verb in ("find", "owned") for case in PAGE_CASES[:2]
    } <= tried


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
            print(f"  {name}: {len(broken)}, first by “{broken[0] if broken else 'none'}”")
        print(f"{noticed} of {len(BROKEN)} broken adapters caught")

    assert noticed == len(BROKEN) >= WANTED
