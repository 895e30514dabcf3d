"""Who is refused on the way out: by a policy, by a provider, by the place where the books are kept."""

import re

import pytest

from tests.sim.lifecycle.a_world import sim_env
from tests.sim.lifecycle.reference import QUICK
from tests.sim.lifecycle.test_stubborn import a_pod_on, begin, ready
from tgp.adapters.kube.client import KubeCluster
from tgp.api.resource import CONFIG_MAP, NODE, POD
from tgp.ports.cluster import Forbidden, Refused
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb


@pytest.mark.parametrize("error", [Refused, Forbidden])
def test_a_pod_whose_eviction_is_refused_keeps_the_others_from_nothing(error, monkeypatch):
    """A policy denies it, or its namespace is on its way out: the others are asked, and end in good order."""

    async def evict(client, pod, **rest):
        if pod.name == "a-guarded":
            raise error("admission webhook denied the request")
        await truly(client, pod, **rest)

    truly = KubeCluster.evict
    monkeypatch.setattr(KubeCluster, "evict", evict)
    with sim_env(f"guarded {error.__name__}", kubelets=QUICK) as env:
        begin(env)
        node = ready(env, terminationGracePeriod="40m")
        for name in ("a-guarded", "b-plain"):
            a_pod_on(env, node, name)
        env.world.run(minutes=2)
        env.drops()
        env.world.run(minutes=5)
        assert env.world.api.local_api.get(POD, "default", "b-plain") is None
        assert env.world.api.local_api.get(POD, "default", "a-guarded") is not None
        assert "a-guarded" in env.condition("Drained")[2]
        env.until(lambda: env.request() is None, minutes=50)
        assert env.living() == []


def test_a_node_that_may_not_be_changed_is_drained_all_the_same(monkeypatch):
    async def patch(client, resource, key, change, **rest):
        if resource is NODE and "unschedulable" in change.get("spec", {}):
            raise Refused("admission webhook denied the request")
        return await truly(client, resource, key, change, **rest)

    truly = KubeCluster.patch
    monkeypatch.setattr(KubeCluster, "patch", patch)
    with sim_env("fixed node", kubelets=QUICK) as env:
        begin(env)
        node = ready(env)
        a_pod_on(env, node, "plain")
        env.world.run(minutes=2)
        env.drops()
        env.until(lambda: env.request() is None, minutes=20)
        assert env.living() == []


def test_a_termination_that_keeps_failing_is_told_as_often_as_it_fails():
    with sim_env("keeps failing", kubelets=QUICK) as env:
        begin(env)
        ready(env)
        env.simulator.faults.aim(CloudFault.ERROR, CloudVerb.TERMINATE, times=10_000)
        env.drops()
        env.world.run(hours=1)
        message = env.condition("Terminating")[2]
        asked = int(re.search(r"(\d+) times", message)[1])
        assert asked > 8, message
        env.simulator.faults.calm()
        env.until(lambda: env.request() is None, minutes=30)


def test_books_that_take_no_line_are_told_on_the_object_until_they_do(monkeypatch):
    full, wanted = [True], ["tgp-spend"]

    async def create(client, resource, manifest):
        if resource is CONFIG_MAP and full and manifest["metadata"]["name"].startswith(wanted[0]):
            raise Refused('configmaps "tgp-spend" is forbidden: exceeded quota: objects')
        return await truly(client, resource, manifest)

    truly = KubeCluster.create
    monkeypatch.setattr(KubeCluster, "create", create)
    with sim_env("no page", kubelets=QUICK) as env:
        begin(env)
        ready(env)
        env.drops()
        env.until(lambda: env.living() == [], minutes=20)
        env.world.run(minutes=15)
        assert "exceeded quota" in env.condition("Terminating")[2]
        full.clear()
        env.until(lambda: env.request() is None, minutes=20)

    full.append(True)
    wanted[0] = "tgp-accounts"
    with sim_env("no table", kubelets=QUICK) as env:
        begin(env)
        env.wants()
        env.world.run(minutes=10)
        assert env.condition("Launched")[1] == "AccountNotWritten"
        assert not env.simulator.fleet.machines, "nothing is ordered in an account that is not on paper"
        full.clear()
        env.until(lambda: env.phase() == "Ready", minutes=30)
