"""What a class sets for a provider arrives in the order that pays."""

from dataclasses import replace

from tests.contracts.clouds.providers import lambdalabs, vultr
from tests.contracts.clouds.stage import Stage, play
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.cloud_errors import OrderRefused
from tgp.sim.clouds.lambdalabs import SSH_KEY_NAME
from tgp.sim.clouds.mishaps import Verb
from tgp.sim.clouds.vultr import SNAPSHOT_ID


def test_vultr_boots_the_snapshot_that_the_class_names():
    async def script(stage: Stage) -> None:
        await stage.launched()

        assert stage.machine().detail["snapshot_id"] == SNAPSHOT_ID
        assert not stage.machine().detail.get("os_id")

    settings = lambda url: ProviderSettings(endpoint=url, snapshot_id=SNAPSHOT_ID)  # noqa: E731 - as a provider has it
    play(replace(vultr.PROVIDER, settings=settings), script)


def test_lambda_starts_machines_with_the_ssh_key_that_the_class_names_and_none_without():
    async def script(stage: Stage) -> None:
        await stage.launched()

        assert stage.machine().detail["ssh_key_names"] == [SSH_KEY_NAME]

    async def without(stage: Stage) -> None:
        order = await stage.order()

        assert "sshKeyName" in str(await stage.raises(OrderRefused, stage.cloud.launch(order)))
        assert stage.count(Verb.LAUNCH) == 0

    play(lambdalabs.PROVIDER, script)
    play(replace(lambdalabs.PROVIDER, settings=lambda url: ProviderSettings(endpoint=url)), without)
