"""The rounds at every provider's simulator: lists that lag, ids that answer, ends that take their time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.everything import all_providers
from tests.contracts.clouds.stage import Stage, play
from tests.core.controllers.account_access import AccountSetup, a_record, a_token, an_attempt, at_access
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.account_access import AccountAccess, access_of
from tgp.core.model.facts import OrphanGone
from tgp.core.model.instance import Instance
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.presence import Absent, Found
from tgp.core.model.source import source_of

EVERY_PROVIDER = pytest.mark.parametrize("provider", all_providers(), ids=lambda provider: provider.name)
GIVEN_BACK_WITHIN = 300.0  # seconds, from the last sight of its request until its end was asked for


class Round:
    """The rounds of one till at one simulator, beside whatever a test does."""

    def __init__(self, stage: Stage, sku: str) -> None:
        self.stage = stage
        self.setup = AccountSetup(stage.cloud, _access(stage, sku), clock=stage.clock)  # type: ignore[arg-type]  # as a fake is
        self.troubles: list[Any] = []

    async def go_on(self) -> None:
        key = ObjectKey("", self.setup.access.name)
        while True:
            again = await self.setup.poller.reconcile(key)
            if (trouble := self.setup.instance_cache.trouble(key.name)) is not None:
                self.troubles.append(trouble)
            assert again is not None
            await asyncio.sleep((again - self.stage.clock.now()).total_seconds())

    def record(self, machine: Instance) -> Any:
        access = self.setup.access
        attempt = at_access(an_attempt(1), access)
        return a_record(1, msgspec.structs.replace(attempt, instance_id=machine.id))


def _access(stage: Stage, sku: str) -> AccountAccess:
    settings = stage.provider.settings(stage.url)
    if not settings.machines:
        return AccountAccess(stage.provider.name, "keys", "VULTR")
    source = source_of(stage.provider.name, "", "", ProviderSettings(machines=settings.machines))
    return access_of(source, sku)


def launched(stage: Stage, script: Callable[[Round, Instance], Awaitable[None]]) -> Awaitable[None]:
    async def begin() -> None:
        order = await stage.order(a_token(1))
        machine = await stage.cloud.launch(order)
        this = Round(stage, order.offer.sku)
        this.setup.hold(this.record(machine))
        this.setup.presence(1, account="")
        rounds = asyncio.create_task(this.go_on())
        try:
            await script(this, machine)
        finally:
            rounds.cancel()

    return begin()


@EVERY_PROVIDER
def test_a_machine_is_found_from_its_launch_on_and_no_list_is_doubted(provider):
    """A list that lags is no contradiction, at any provider."""

    async def script(this: Round, machine: Instance) -> None:
        for _ in range(60):
            await asyncio.sleep(60)
            found = this.setup.presence(1, account="")
            assert isinstance(found, Found), found
            assert found.instance.id == machine.id
        assert this.troubles == []
        assert this.setup.announced.count(this.setup.access.name) < 12

    play(provider, lambda stage: launched(stage, script))


@EVERY_PROVIDER
def test_a_machine_that_was_ended_is_shown_absent(provider):
    """Twice, a listing lag apart, by its list and by its id."""

    async def script(this: Round, machine: Instance) -> None:
        await asyncio.sleep(this.stage.slowest_boot + 120)
        await this.stage.cloud.terminate(machine.id)
        await asyncio.sleep(this.stage.fleet.habits.ending[1] + 300)
        absent = this.setup.presence(1, account="")
        assert isinstance(absent, Absent), absent
        assert absent.shown(this.stage.cloud.facts.listing_lag)
        assert this.troubles == []

    play(provider, lambda stage: launched(stage, script))


@EVERY_PROVIDER
def test_a_machine_whose_request_vanished_is_given_back(provider):
    async def script(this: Round, machine: Instance) -> None:
        await asyncio.sleep(this.stage.slowest_boot + 120)
        this.setup.requests.drop(this.record(machine))
        this.setup.instance_cache.forget(a_token(1))
        await asyncio.sleep(GIVEN_BACK_WITHIN + this.stage.fleet.habits.ending[1])
        assert this.stage.machines() == []
        await asyncio.sleep(GIVEN_BACK_WITHIN)
        assert [fact.token for fact in this.setup.facts(OrphanGone)] == [a_token(1)]

    play(provider, lambda stage: launched(stage, script))
