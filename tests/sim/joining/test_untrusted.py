"""Hosts of a marketplace in a whole world: a namespace opts in, pods tolerate, and shared secrets stay at home."""

from tests.sim.cluster.manifests import a_job, a_template
from tests.sim.joining.a_tailnet import Joining, a_tailnet_class, joining
from tests.sim.lifecycle.a_world import sold_by_any_host
from tgp.api.resource import JOB, NAMESPACE
from tgp.core.requests.purchase import ALLOW_UNTRUSTED
from tgp.sim.talos_guest import documents_in

UNTRUSTED = {
    "providers": [{"name": "simulated"}],
    "instanceRequirements": {"minTrust": "Any"},
    "requireDevicePlugin": False,
}


def configs(env: Joining) -> list[dict]:
    """What the machines were told, as Talos reads it."""
    texts = [str(machine.detail).encode() for machine in env.living()]
    blobs = [*texts, *(machine.user_data for machine in env.living())]
    return [each for blob in blobs for documents in documents_in(blob) for each in documents if "machine" in each]


def test_a_namespace_opts_in_and_nothing_that_others_share_goes_there():
    with joining("another tenant's host", "simulated") as env:
        sold_by_any_host(env.simulator)
        a_tailnet_class(env, **UNTRUSTED)
        env.operate()
        env.world.run(seconds=60)
        env.wants(idleTimeout="Never")
        env.world.run(minutes=10)
        assert env.living() == []
        assert f"{ALLOW_UNTRUSTED}=true" in (env.request() or {})["status"]["message"]

        change = {"metadata": {"labels": {ALLOW_UNTRUSTED: "true"}}}
        env.world.api.local_api.merge_patch(NAMESPACE, "", "default", change)
        env.until(lambda: env.phase() == "Ready")
        (row,) = env.attempts()
        assert row["offer"]["untrusted"] is True
        (config,) = configs(env)
        assert not {"id", "secret"} & config["cluster"].keys()
        assert "token" not in config["machine"]

        name = (env.request() or {})["status"]["nodeName"]
        taints = (env.node(name) or {})["spec"]["taints"]
        assert {"key": "tgp.io/untrusted", "effect": "NoSchedule"} in taints
        others = [{"key": row["key"], "operator": "Exists"} for row in taints if row["key"] != "tgp.io/untrusted"]
        template = a_template(run_for="10m", gpus=1, restartPolicy="Never", tolerations=others)
        env.world.api.local_api.create(JOB, a_job("careless", template=template))
        env.world.run(minutes=10)
        assert env.running_pods() == []  # it tolerates everything but this
        env.works()
        env.until(lambda: bool(env.running_pods()), minutes=10)
