"""Hosts of a marketplace in a whole world: a namespace opts in, pods tolerate, and shared secrets stay at home."""

from tests.sim.boot.a_tailnet import Joining, a_tailnet_class, joining
from tests.sim.cluster.manifests import a_job, a_template
from tests.sim.lives.an_estate import sold_by_anybody
from tgp.api.resource import JOB, NAMESPACE
from tgp.core.rules.purchase import ALLOW_UNTRUSTED
from tgp.sim.talos_guest import documents_in

ANYBODYS = {
    "providers": [{"name": "simulated"}],
    "instanceRequirements": {"minTrust": "Any"},
    "requireDevicePlugin": False,
}


def configs(stage: Joining) -> list[dict]:
    """What the machines were told, as Talos reads it."""
    texts = [str(machine.detail).encode() for machine in stage.living()]
    blobs = [*texts, *(machine.user_data for machine in stage.living())]
    return [each for blob in blobs for documents in documents_in(blob) for each in documents if "machine" in each]


def test_a_namespace_opts_in_and_nothing_that_others_share_goes_there():
    with joining("somebody else's host", "simulated") as stage:
        sold_by_anybody(stage.shop)
        a_tailnet_class(stage, **ANYBODYS)
        stage.operate()
        stage.world.run(seconds=60)
        stage.wants(idleTimeout="Never")
        stage.world.run(minutes=10)
        assert stage.living() == []
        assert f"{ALLOW_UNTRUSTED}=true" in (stage.request() or {})["status"]["message"]

        change = {"metadata": {"labels": {ALLOW_UNTRUSTED: "true"}}}
        stage.world.api.backstage.merge_patch(NAMESPACE, "", "default", change)
        stage.until(lambda: stage.phase() == "Ready")
        (row,) = stage.attempts()
        assert row["offer"]["untrusted"] is True
        (config,) = configs(stage)
        assert not {"id", "secret"} & config["cluster"].keys()
        assert "token" not in config["machine"]

        name = (stage.request() or {})["status"]["nodeName"]
        taints = (stage.node(name) or {})["spec"]["taints"]
        assert {"key": "tgp.io/untrusted", "effect": "NoSchedule"} in taints
        others = [{"key": row["key"], "operator": "Exists"} for row in taints if row["key"] != "tgp.io/untrusted"]
        template = a_template(run_for="10m", gpus=1, restartPolicy="Never", tolerations=others)
        stage.world.api.backstage.create(JOB, a_job("careless", template=template))
        stage.world.run(minutes=10)
        assert stage.running_pods() == []  # it tolerates everything but this
        stage.works()
        stage.until(lambda: bool(stage.running_pods()), minutes=10)
