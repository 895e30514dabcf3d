"""Orders that cannot be made up, hour after hour: nothing is bought, and less and less is written."""

from tests.sim.an_operator import a_class, operator_main
from tests.sim.lives.an_estate import lives
from tgp.api.resource import GPU_NODE_CLASS
from tgp.ports.boot import BootRefused
from tgp.sim.plain_boot import PlainBoot


def test_a_template_that_stays_broken_uses_few_attempts_and_one_that_is_mended_is_tried_at_once(monkeypatch):
    broken = [True]
    pack = PlainBoot.pack

    async def refuse(boot, birth):
        if broken:
            raise BootRefused("TemplateRefused", "the machine config template: spec.machine.install.disk is not said")
        return await pack(boot, birth)

    monkeypatch.setattr(PlainBoot, "pack", refuse)
    with lives("refused orders") as stage:
        a_class(stage.world, "rented")
        stage.world.process("operator", operator_main())
        stage.world.run(minutes=2)
        stage.wants(idleTimeout="Never")
        stage.world.run(hours=2)
        tried = stage.attempts()[-1]["number"]
        assert 10 < tried < 20
        assert "TemplateRefused" in stage.condition("Launched")[2]
        stage.world.run(minutes=20)
        assert stage.attempts()[-1]["number"] <= tried + 1

        broken.clear()
        stage.world.api.backstage.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"tags": {"mended": "yes"}}})
        stage.until(lambda: stage.phase() == "Ready", minutes=20)
