"""Who is refused on the way out: by a policy, by a provider, by the place where the books are kept."""

import pytest

from tests.sim.lives.an_estate import lives
from tests.sim.lives.reference import QUICK
from tests.sim.lives.test_stubborn import a_pod_on, begin, ready
from tgp.adapters.kube.client import KubeCluster
from tgp.api.resource import CONFIG_MAP, NODE, POD
from tgp.ports.cluster import Forbidden, Refused
from tgp.sim.clouds.mishaps import Mishap, Verb


@pytest.mark.parametrize("error", [Refused, Forbidden])
def test_a_pod_whose_eviction_is_refused_keeps_the_others_from_nothing(error, monkeypatch):
    """A policy denies it, or its namespace is on its way out: the others are asked, and end in good order."""

    async def evict(client, pod, **rest):
        if pod.name == "a-guarded":
            raise error("admission webhook denied the request")
        await truly(client, pod, **rest)

    truly = KubeCluster.evict
    monkeypatch.setattr(KubeCluster, "evict", evict)
    with lives(f"guarded {error.__name__}", kubelets=QUICK) as stage:
        begin(stage)
        node = ready(stage, terminationGracePeriod="40m")
        for name in ("a-guarded", "b-plain"):
            a_pod_on(stage, node, name)
        stage.world.run(minutes=2)
        stage.drops()
        stage.world.run(minutes=5)
        assert stage.world.api.backstage.get(POD, "default", "b-plain") is None
        assert stage.world.api.backstage.get(POD, "default", "a-guarded") is not None
        assert "a-guarded" in stage.condition("Drained")[2]
        stage.until(lambda: stage.request() is None, minutes=50)
        assert stage.living() == []


def test_a_node_that_may_not_be_changed_is_drained_all_the_same(monkeypatch):
    async def patch(client, resource, key, change, **rest):
        if resource is NODE and "unschedulable" in change.get("spec", {}):
            raise Refused("admission webhook denied the request")
        return await truly(client, resource, key, change, **rest)

    truly = KubeCluster.patch
    monkeypatch.setattr(KubeCluster, "patch", patch)
    with lives("fixed node", kubelets=QUICK) as stage:
        begin(stage)
        node = ready(stage)
        a_pod_on(stage, node, "plain")
        stage.world.run(minutes=2)
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=20)
        assert stage.living() == []


def test_a_termination_that_keeps_failing_is_told_as_often_as_it_fails():
    with lives("keeps failing", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage)
        stage.shop.mishaps.aim(Mishap.ERROR, Verb.TERMINATE, times=10_000)
        stage.drops()
        stage.world.run(hours=1)
        message = stage.condition("Terminating")[2]
        asked = int(message.rpartition("(asked ")[2].split()[0])
        assert asked > 8, message
        stage.shop.mishaps.calm()
        stage.until(lambda: stage.request() is None, minutes=30)


def test_books_that_take_no_line_are_told_on_the_object_until_they_do(monkeypatch):
    full, wanted = [True], ["tgp-spend"]

    async def create(client, resource, manifest):
        if resource is CONFIG_MAP and full and manifest["metadata"]["name"].startswith(wanted[0]):
            raise Refused('configmaps "tgp-spend" is forbidden: exceeded quota: objects')
        return await truly(client, resource, manifest)

    truly = KubeCluster.create
    monkeypatch.setattr(KubeCluster, "create", create)
    with lives("no page", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage)
        stage.drops()
        stage.until(lambda: stage.living() == [], minutes=20)
        stage.world.run(minutes=15)
        assert "exceeded quota" in stage.condition("Terminating")[2]
        full.clear()
        stage.until(lambda: stage.request() is None, minutes=20)

    full.append(True)
    wanted[0] = "tgp-accounts"
    with lives("no table", kubelets=QUICK) as stage:
        begin(stage)
        stage.wants()
        stage.world.run(minutes=10)
        assert stage.condition("Launched")[1] == "AccountNotWritten"
        assert not stage.shop.fleet.machines, "nothing is ordered in an account that is not on paper"
        full.clear()
        stage.until(lambda: stage.phase() == "Ready", minutes=30)
