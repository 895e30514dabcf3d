"""The table of what is known to be sold names nothing that the pretend markets of the real providers do not have."""

import pytest

from tests.contracts.clouds.everything import all_providers
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import Stage, play
from tgp.core.data.loading import BadTable, parse
from tgp.core.model.sold_gpus import read, sold

HEAD = 'dated = 2026-11-16\nsources = ["x"]\n'
ROWS = '[lambdalabs]\nA10 = [1, "1"]\n[paperspace]\nA10 = [1, "1"]\n[vultr]\nA10 = [1, "1"]\n[gcp]\n'


@pytest.mark.parametrize(
    "provider", [each for each in all_providers() if each.name in sold()], ids=lambda each: each.name
)
def test_every_model_of_the_table_is_sold_there_and_can_be_a_node(provider: Provider):
    async def script(stage: Stage) -> None:
        offers = (await stage.cloud.offers()).offers
        nodes = {offer.gpu for offer in offers if not offer.no_node and not offer.spot}

        assert sold()[provider.name].keys() <= nodes
        assert all(each.hourly_microusd > 0 for each in sold()[provider.name].values())

    play(provider, script)


@pytest.mark.parametrize(
    "row", ["", 'Abacus = [1, "1"]', 'A10 = [0, "1"]', 'A10 = [1, "free"]', 'A10 = "1"', "A10 = [1]"]
)
def test_a_table_that_makes_no_sense_is_refused(row: str):
    with pytest.raises(BadTable, match="gcp"):
        read(parse("sold.toml", f"{HEAD}{ROWS}{row}\n"))
