"""What a request says is what holds now: another cause under the same reason is written at once."""

import pytest

from tests.sim.an_operator import a_class
from tests.sim.lifecycle.a_world import sim_env
from tests.sim.test_leadership_status import Replica
from tgp.api.resource import GPU_NODE_CLASS


@pytest.mark.parametrize(("first", "second"), [("first", "second"), ("gpu-1", "gpu-2")])
def test_another_cause_under_the_same_reason_is_written_within_ten_seconds(first, second):
    with sim_env("fresh words") as env:
        keys = {"name": first, "key": "pod"}
        a_class(env.world, "rented", providers=[{"name": "vultr", "credentialsRef": keys}])
        Replica(env.world, "one")
        env.wants(gpuType="A100")
        env.until(lambda: f"Secret {first}" in env.condition("Launched")[2], minutes=5)
        before = env.condition("Launched")

        changed = [{"name": "vultr", "credentialsRef": {**keys, "name": second}}]
        env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"providers": changed}})
        env.world.run(seconds=10)

        after = env.condition("Launched")
        assert after[:2] == before[:2]
        assert f"Secret {second}" in after[2]
