"""On real sockets: an order is written once, whatever the HTTP library would like to do about a broken connection."""

import pytest

from tests.contracts.clouds.everything import all_providers
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.sockets import served
from tests.contracts.clouds.stage import an_order, cheapest
from tgp.core.model.cloud_errors import CloudBusy, OutcomeUnknown
from tgp.sim.clouds.cloud_faults import CloudVerb

TOKEN = "tgp-c0ffee0123-0000000000000000000000000000005e-1"
ON_SOCKETS = [provider for provider in all_providers() if not provider.off_sockets]
PROVIDERS = pytest.mark.parametrize("provider", ON_SOCKETS, ids=lambda provider: provider.name)


@PROVIDERS
async def test_an_order_whose_answer_is_lost_was_sent_once(provider: Provider) -> None:
    """The server reads the whole request, then drops: requests seen = 1, and the outcome is unknown."""
    async with served(provider) as one:
        order = an_order(provider, cheapest(await one.cloud.offers()), TOKEN)
        one.drops = frozenset({CloudVerb.LAUNCH})

        with pytest.raises(OutcomeUnknown):
            await one.cloud.launch(order)

        assert one.requests.count(CloudVerb.LAUNCH) == 1


@PROVIDERS
async def test_an_end_whose_answer_is_lost_was_sent_once(provider: Provider) -> None:
    async with served(provider) as one:
        made = await one.cloud.launch(an_order(provider, cheapest(await one.cloud.offers()), TOKEN))
        for machine in one.simulator.fleet.machines.values():
            machine.visible_at = machine.created_at
        one.drops = frozenset({CloudVerb.TERMINATE})

        with pytest.raises((OutcomeUnknown, CloudBusy)):
            await one.cloud.terminate(made.id)

        assert one.requests.count(CloudVerb.TERMINATE) == 1


@PROVIDERS
async def test_what_was_bought_is_found_given_back_and_gone(provider: Provider) -> None:
    """The whole walk, through real bytes."""
    async with served(provider) as one:
        made = await one.cloud.launch(an_order(provider, cheapest(await one.cloud.offers()), TOKEN))
        for machine in one.simulator.fleet.machines.values():
            machine.visible_at = machine.created_at

        assert [machine.id for machine in await one.cloud.find(TOKEN)] == [made.id]
        await one.cloud.terminate(made.id)
        assert one.requests.count(CloudVerb.LAUNCH) == 1
