"""Orders that cannot be made up, hour after hour: nothing is bought, and less and less is written."""

from tests.sim.an_operator import ALONE, a_class, operator_main
from tests.sim.lifecycle.a_world import sim_env
from tgp.api.resource import GPU_NODE_CLASS
from tgp.ports.boot import BootRefused
from tgp.sim.plain_boot import PlainBoot


def test_a_template_that_stays_broken_uses_few_attempts_and_one_that_is_mended_is_tried_at_once(monkeypatch):
    broken = [True]
    pack = PlainBoot.pack

    async def refuse(boot, boot_request):
        if broken:
            raise BootRefused("TemplateRefused", "the machine config template: spec.machine.install.disk is not said")
        return await pack(boot, boot_request)

    monkeypatch.setattr(PlainBoot, "pack", refuse)
    with sim_env("refused orders") as env:
        a_class(env.world, "rented")
        env.world.process("operator", operator_main(ALONE))
        env.world.run(minutes=2)
        env.wants(idleTimeout="Never")
        env.world.run(hours=2)
        tried = env.attempts()[-1]["number"]
        assert 10 < tried < 20
        assert "TemplateRefused" in env.condition("Launched")[2]
        env.world.run(minutes=20)
        assert env.attempts()[-1]["number"] <= tried + 1

        broken.clear()
        env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"tags": {"mended": "yes"}}})
        env.until(lambda: env.phase() == "Ready", minutes=20)
