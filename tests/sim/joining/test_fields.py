"""What a pool's template says about its Nodes, as the machines are handed it and as the Nodes wear it."""

from typing import Any

from tests.sim.an_operator import a_pool
from tests.sim.joining.a_tailnet import Joining, a_tailnet_class, joining
from tgp.api.resource import GPU_NODE_POOL, GPU_REQUEST, NODE
from tgp.sim.talos_guest import TalosGuest, guest_in

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"team": "vision"}, "annotations": {"example.org/why": "training"}},
    "spec": {
        "taints": [{"key": "dedicated", "value": "vision", "effect": "NoSchedule"}],
        "startupTaints": [{"key": "cni", "value": "missing", "effect": "NoExecute"}],
    },
}


def written_by(env: Joining, pool: str, name: str) -> None:
    """A request as a pool writes it."""
    found = env.world.api.local_api.get(GPU_NODE_POOL, "default", pool)
    assert found is not None
    owner = {"apiVersion": GPU_NODE_POOL.api_version, "kind": "GPUNodePool", "name": pool, "controller": True}
    meta = {"name": name, "namespace": "default", "ownerReferences": [{**owner, "uid": found["metadata"]["uid"]}]}
    spec = {"gpuType": "RTX4090", "nodeClassRef": {"name": "rented"}, "idleTimeout": "Never"}
    manifest = {"apiVersion": GPU_REQUEST.api_version, "kind": "GPURequest", "metadata": meta, "spec": spec}
    env.world.api.local_api.create(GPU_REQUEST, manifest)


def handed(env: Joining, name: str) -> TalosGuest:
    """What the request's machine was told to become."""
    (token,) = [row["token"] for row in env.attempts(name)]
    (machine,) = [each for each in env.living() if each.name == token]
    guest = guest_in(machine.user_data)
    assert guest is not None
    return guest


def test_a_pools_template_is_in_the_machine_config_and_on_the_node():
    lasting = {**TEMPLATE, "spec": {"ephemeralTaint": False}}
    with joining("a pool's template") as env:
        a_tailnet_class(env)
        a_pool(env.world, "vision", "rented", template=TEMPLATE)
        a_pool(env.world, "plain", "rented", template=lasting)
        env.operate()
        env.world.run(seconds=60)
        for pool in ("vision", "plain"):
            written_by(env, pool, pool)
        env.until(lambda: len(env.nodes()) == 2)
        env.world.run(seconds=30)

        told, plain = handed(env, "vision"), handed(env, "plain")
        taints = {(row["key"], row.get("value", ""), row["effect"]) for row in told.taints}
        assert told.labels["team"] == "vision"
        assert ("dedicated", "vision", "NoSchedule") in taints
        assert ("cni", "missing", "NoExecute") in taints
        assert "tgp.io/ephemeral" in {row["key"] for row in told.taints}
        assert "tgp.io/ephemeral" not in {row["key"] for row in plain.taints}

        node = env.node(told.node) or {}
        assert node["metadata"]["labels"]["team"] == "vision"
        assert node["metadata"]["annotations"]["example.org/why"] == "training"
        assert env.phase("vision") != "Ready"  # no controller has removed the start-up taint
        kept = [row for row in node["spec"]["taints"] if row["key"] != "cni"]
        env.world.api.local_api.merge_patch(NODE, "", told.node, {"spec": {"taints": kept}})
        env.until(lambda: env.phase("vision") == "Ready")
