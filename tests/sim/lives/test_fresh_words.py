"""What a request says is what holds now: another cause under the same reason is written at once."""

from tests.sim.an_operator import a_class
from tests.sim.lives.an_estate import lives
from tests.sim.test_standing import Replica
from tgp.api.resource import GPU_NODE_CLASS


def test_another_cause_under_the_same_reason_is_written_within_ten_seconds():
    with lives("fresh words") as stage:
        keys = {"name": "first", "key": "pod"}
        a_class(stage.world, "rented", providers=[{"name": "vultr", "credentialsRef": keys}])
        Replica(stage.world, "one")
        stage.wants(gpuType="A100")
        stage.until(lambda: "Secret first" in stage.condition("Launched")[2], minutes=5)
        before = stage.condition("Launched")

        changed = [{"name": "vultr", "credentialsRef": {**keys, "name": "second"}}]
        stage.world.api.backstage.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"providers": changed}})
        stage.world.run(seconds=10)

        after = stage.condition("Launched")
        assert after[:2] == before[:2]
        assert "Secret second" in after[2]
