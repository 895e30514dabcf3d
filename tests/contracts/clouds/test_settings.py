"""What a class sets for a provider arrives in the order that pays."""

from dataclasses import replace

import pytest

from tests.contracts.clouds.providers import lambdalabs, vultr
from tests.contracts.clouds.stage import Stage, play
from tests.contracts.clouds.webhook.bench import Bench, a_machine, an_order, instance, said
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.cloud_errors import OrderRefused
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.lambdalabs import SSH_KEY_NAME
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

        assert stage.machine().detail["ssh_key_names"] == (SSH_KEY_NAME,)

    async def without(stage: Stage) -> None:
        order = await stage.order()

        assert "sshKeyName" in str(await stage.raises(OrderRefused, stage.cloud.launch(order)))
        assert stage.count(CloudVerb.LAUNCH) == 0

    play(lambdalabs.PROVIDER, script)
    play(replace(lambdalabs.PROVIDER, settings=lambda url: ProviderSettings(endpoint=url)), without)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "GET"])
async def test_a_machine_is_switched_by_the_method_that_the_class_names(method):
    bench = Bench({"on": said(202), "off": said(202)})
    cloud = bench.cloud(a_machine(method=method, status_endpoint=None))
    await cloud.launch(an_order())
    await cloud.terminate(instance())

    assert bench.paths == [f"{method} /box-1/on", f"{method} /box-1/off"]
    assert all(bool(call.body) == (method != "GET") for _, call in bench.calls)
