"""Garbage collection and namespaces: what goes when its owner goes."""

from tests.sim.cluster.manifests import a_cluster, a_job, a_pod, a_set
from tgp.api.resource import CONFIG_MAP, DEPLOYMENT, JOB, NAMESPACE, POD, SERVICE_ACCOUNT
from tgp.sim.cluster.component_api import REPLICA_SET
from tgp.sim.cluster.machines import Hardware


def _map(cluster, name, *owners, block=False, finalizers=()):
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    meta = {"name": name, "namespace": "default", "ownerReferences": references, "finalizers": list(finalizers)}
    return cluster.api.create(CONFIG_MAP, {"metadata": meta})


def _maps(cluster):
    return [obj["metadata"]["name"] for obj in cluster.api.objects(CONFIG_MAP, "default")]


def test_dependents_follow_their_owner_in_the_background():
    with a_cluster() as cluster:
        owner = _map(cluster, "owner")
        child = _map(cluster, "child", owner)
        _map(cluster, "grandchild", child)
        cluster.api.delete(CONFIG_MAP, "default", "owner", propagation="Background")
        assert _maps(cluster) == ["child", "grandchild"]
        cluster.world.run(seconds=5)

        assert _maps(cluster) == []


def test_an_owner_deleted_in_the_foreground_waits_for_those_that_block_it():
    with a_cluster() as cluster:
        owner = _map(cluster, "owner")
        _map(cluster, "blocks", owner, block=True, finalizers=["test/hold"])
        _map(cluster, "does-not", owner, finalizers=["test/hold"])
        cluster.api.delete(CONFIG_MAP, "default", "owner", propagation="Foreground")
        cluster.world.run(seconds=5)
        assert _maps(cluster) == ["blocks", "does-not", "owner"]
        cluster.api.merge_patch(CONFIG_MAP, "default", "blocks", {"metadata": {"finalizers": None}})
        cluster.world.run(seconds=5)

        assert _maps(cluster) == ["does-not"]


def test_orphans_stay_and_forget_their_owner():
    with a_cluster() as cluster:
        owner = _map(cluster, "owner")
        _map(cluster, "child", owner)
        cluster.api.delete(CONFIG_MAP, "default", "owner", propagation="Orphan")
        cluster.world.run(seconds=5)

        assert _maps(cluster) == ["child"]
        assert "ownerReferences" not in cluster.api.get(CONFIG_MAP, "default", "child")["metadata"]


def test_a_child_of_two_owners_stays_with_the_one_that_is_left():
    with a_cluster() as cluster:
        one, other = _map(cluster, "one"), _map(cluster, "other")
        _map(cluster, "child", one, other)
        cluster.api.delete(CONFIG_MAP, "default", "one", propagation="Background")
        cluster.world.run(seconds=5)
        child = cluster.api.get(CONFIG_MAP, "default", "child")

        assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["other"]


def test_an_owner_of_the_same_name_but_another_uid_is_no_owner():
    with a_cluster() as cluster:
        old = _map(cluster, "owner")
        cluster.api.delete(CONFIG_MAP, "default", "owner", propagation="Background")
        _map(cluster, "owner")
        _map(cluster, "child", old)
        cluster.world.run(seconds=5)

        assert _maps(cluster) == ["owner"]


def test_a_deployment_takes_its_sets_and_pods_along():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(DEPLOYMENT, a_set(replicas=3))
        cluster.world.run(minutes=2)
        cluster.api.delete(DEPLOYMENT, "default", "web", propagation="Foreground")
        cluster.world.run(seconds=0.5)
        assert cluster.api.get(DEPLOYMENT, "default", "web") is not None
        cluster.world.run(minutes=1)

        assert cluster.api.get(DEPLOYMENT, "default", "web") is None
        assert list(cluster.api.objects(REPLICA_SET)) == []
        assert cluster.pods() == []


def test_a_deleted_job_lets_go_of_its_pods():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(JOB, a_job(parallelism=2, completions=2))
        cluster.world.run(minutes=2)
        cluster.api.delete(JOB, "default", "job", propagation="Background")
        cluster.world.run(minutes=2)

        assert cluster.pods() == []


def test_a_namespace_ends_when_the_last_thing_in_it_has_let_go():
    with a_cluster(Hardware("a")) as cluster:
        cluster.api.create(NAMESPACE, {"metadata": {"name": "team"}})
        cluster.world.run(seconds=1)
        assert cluster.api.get(SERVICE_ACCOUNT, "team", "default") is not None
        cluster.api.create(POD, a_pod(namespace="team"))
        held = {"metadata": {"name": "held", "namespace": "team", "finalizers": ["test/hold"]}}
        cluster.api.create(CONFIG_MAP, held)
        cluster.world.run(minutes=1)
        cluster.api.delete(NAMESPACE, "", "team")
        cluster.world.run(minutes=5)
        team = cluster.api.get(NAMESPACE, "", "team")
        assert team["status"]["phase"] == "Terminating"
        assert "configmaps has 1 resource instances" in team["status"]["conditions"][0]["message"]
        assert cluster.pods() == []
        cluster.api.merge_patch(CONFIG_MAP, "team", "held", {"metadata": {"finalizers": None}})
        cluster.world.run(seconds=5)

        assert cluster.api.get(NAMESPACE, "", "team") is None
