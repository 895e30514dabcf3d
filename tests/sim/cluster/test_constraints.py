"""Pods to machines where other pods, ports, volumes and nominations have a say."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.sim.cluster.manifests import GPU, Cluster, a_cluster, a_pod, condition
from tgp.api.resource import NAMESPACE, NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS, Resource
from tgp.sim.cluster.machines import Hardware

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
WEB = {"app": "web"}


def zoned(**zones: str) -> tuple[Hardware, ...]:
    return tuple(Hardware(name, labels={ZONE: zone}) for name, zone in zones.items())


def spread(key: str = ZONE, selector: dict[str, Any] | None = None, **more: Any) -> list[dict[str, Any]]:
    chosen = {"matchLabels": WEB} if selector is None else selector
    row = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": chosen}
    return [{**row, **more}]


def term(key: str = ZONE, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": WEB}, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


@contextmanager
def running(*machines: Hardware, **placed: str) -> Iterator[Cluster]:
    """A cluster on which some pods with the label app=web run already: pod=node."""
    with a_cluster(*machines) as cluster:
        for name, node in placed.items():
            cluster.api.create(POD, a_pod(name, labels=WEB, nodeSelector={HOST: node}))
        cluster.world.run(seconds=5)
        yield cluster


def place(cluster: Cluster, name: str = "new", **pod: Any) -> str:
    """Where it goes; empty: nowhere."""
    cluster.api.create(POD, a_pod(name, **pod))
    cluster.world.run(seconds=5)
    return str(cluster.pod(name)["spec"].get("nodeName", ""))


def why(cluster: Cluster, name: str = "new") -> str:
    return str(condition(cluster.pod(name), "PodScheduled")["message"])


# Spread


def test_a_spread_keeps_domains_even():
    with running(*zoned(a="1", b="2"), first="a") as cluster:
        assert place(cluster, "second", labels=WEB, topologySpreadConstraints=spread()) == "b"
        cluster.api.merge_patch(NODE, "", "b", {"spec": {"unschedulable": True}})
        assert place(cluster, "third", labels=WEB, topologySpreadConstraints=spread()) == "a"
        assert place(cluster, "fourth", labels=WEB, topologySpreadConstraints=spread()) == ""
        assert "1 node(s) didn't match pod topology spread constraints, 1 node(s) were unschedulable" in why(
            cluster, "fourth"
        )


@pytest.mark.parametrize(
    ("constraint", "placed"),
    [
        (spread(), True),  # one domain: nothing to compare it with
        (spread(minDomains=2), False),
        (spread("absent/has-it"), False),
        (spread(selector={}), True),  # an empty selector counts nothing
        (spread(minDomains=2, maxSkew=2), True),
        (spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway"), None),
    ],
)
def test_a_spread_by_itself(constraint, placed):
    if placed is None:
        constraint[0].pop("minDomains")  # only a hard one may have it
    with running(*zoned(a="1"), first="a") as cluster:
        assert (place(cluster, labels=WEB, topologySpreadConstraints=constraint) == "a") is (placed is not False)


@pytest.mark.parametrize(
    ("policies", "placed"),
    [
        ({}, True),  # zone 2 is not for this pod: it does not count
        ({"nodeAffinityPolicy": "Ignore"}, False),
    ],
)
def test_domains_that_the_pod_does_not_select(policies, placed):
    with running(*zoned(a="1", b="2"), first="a") as cluster:
        home = place(cluster, labels=WEB, nodeSelector={ZONE: "1"}, topologySpreadConstraints=spread(**policies))
        assert home == ("a" if placed else "")


@pytest.mark.parametrize(("policies", "placed"), [({}, False), ({"nodeTaintsPolicy": "Honor"}, True)])
def test_domains_that_the_pod_does_not_tolerate(policies, placed):
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    machines = (*zoned(a="1"), Hardware("b", labels={ZONE: "2"}, taints=(taint,)))
    with running(*machines, first="a") as cluster:
        assert bool(place(cluster, labels=WEB, topologySpreadConstraints=spread(**policies))) is placed


def test_label_keys_count_only_pods_of_the_same_version():
    with running(*zoned(a="1", b="2"), first="a") as cluster:
        cluster.api.merge_patch(NODE, "", "b", {"spec": {"unschedulable": True}})
        keys = spread(matchLabelKeys=["version", "absent"])
        assert place(cluster, "one", labels={**WEB, "version": "2"}, topologySpreadConstraints=keys) == "a"
        assert place(cluster, "two", labels={**WEB, "version": "2"}, topologySpreadConstraints=keys) == ""
        cluster.api.delete(POD, "default", "one", grace_seconds=0)
        cluster.world.run(seconds=5)
        assert cluster.pod("two")["spec"]["nodeName"] == "a"


# Affinity


def test_affinity_goes_where_the_others_are_and_waits_until_they_are():
    with running(*zoned(a="1", b="2")) as cluster:
        assert place(cluster, affinity=near(term()), labels={"app": "x"}) == ""
        assert "2 node(s) didn't match pod affinity rules" in why(cluster)
        place(cluster, "web", labels=WEB, nodeSelector={HOST: "b"})
        assert cluster.pod("new")["spec"]["nodeName"] == "b"


def test_the_first_of_a_group_may_begin_it():
    with running(*zoned(a="1", b="2")) as cluster:
        first = place(cluster, "first", labels=WEB, affinity=near(term()))
        assert first
        assert place(cluster, "second", labels=WEB, affinity=near(term())) == first
        assert place(cluster, "third", labels=WEB, affinity=near(term("absent/has-it"))) == ""


@pytest.mark.parametrize(
    ("more", "together"),
    [
        ({}, False),
        ({"namespaces": ["team"]}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"tier": "gold"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"tier": "tin"}}}, False),
    ],
)
def test_namespaces_of_a_term(more, together):
    with running(*zoned(a="1")) as cluster:
        cluster.api.create(NAMESPACE, {"metadata": {"name": "team", "labels": {"tier": "gold"}}})
        cluster.api.create(POD, a_pod("web", "team", labels=WEB))
        cluster.world.run(seconds=5)
        assert bool(place(cluster, labels={"app": "x"}, affinity=near(term(**more)))) is together


def test_anti_affinity_holds_in_both_directions():
    with running(*zoned(a="1", b="1", c="2")) as cluster:
        lonely = place(cluster, "lonely", labels={"app": "lonely"}, nodeSelector={HOST: "a"}, affinity=apart(term()))
        assert lonely == "a"
        assert place(cluster, "web", labels=WEB) == "c"  # repelled from zone 1, though it says nothing itself
        assert place(cluster, "other", labels={"app": "lonely"}, nodeSelector={ZONE: "2"}, affinity=apart(term())) == ""
        assert "1 node(s) didn't match pod anti-affinity rules" in why(cluster, "other")
        assert place(cluster, "fourth", labels=WEB, nodeSelector={ZONE: "1"}) == ""
        assert "2 node(s) didn't satisfy existing pods anti-affinity rules" in why(cluster, "fourth")
        cluster.api.delete(POD, "default", "lonely", grace_seconds=0)
        cluster.world.run(seconds=5)
        assert cluster.pod("fourth")["spec"]["nodeName"] in ("a", "b")


def test_label_keys_of_a_term_become_part_of_its_selector():
    keys = {"matchLabelKeys": ["version"], "mismatchLabelKeys": ["tenant"]}
    with running(*zoned(a="1")) as cluster:
        place(cluster, labels={"version": "2", "tenant": "x"}, affinity=apart(term(**keys)))
        written = apart_of(cluster.pod("new"))["labelSelector"]["matchExpressions"]

    assert written == [
        {"key": "version", "operator": "In", "values": ["2"]},
        {"key": "tenant", "operator": "NotIn", "values": ["x"]},
    ]


def apart_of(pod: dict[str, Any]) -> dict[str, Any]:
    return pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]


# Ports


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "::"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),  # so says the scheduler
    ],
)
def test_ports_of_the_host(first, second, together):
    def serving(port: dict[str, Any]) -> dict[str, Any]:
        container = {"name": "main", "image": "x", "ports": [{"containerPort": 8080, **port}]}
        return {"containers": [container]}

    with running(Hardware("a")) as cluster:
        assert place(cluster, "first", **serving(first)) == "a"
        assert (place(cluster, **serving(second)) == "a") is together
        if not together:
            assert "1 node(s) didn't have free ports for the requested pod ports" in why(cluster)


# Volumes


def a_class(name: str = "late", mode: str = "WaitForFirstConsumer", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "provisioner": "csi.example.com", "volumeBindingMode": mode, **more}


def a_claim(name: str = "data", storage_class: str = "late", **metadata: Any) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": name, "namespace": "default", **metadata}
    return {"metadata": meta, "spec": {**spec, "storageClassName": storage_class}}


def a_volume(name: str = "disk", zone: str = "", **metadata: Any) -> dict[str, Any]:
    rule = {"key": ZONE, "operator": "In", "values": [zone]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}} if zone else {}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late"}
    source = {"csi": {"driver": "csi.example.com", "volumeHandle": name}}
    return {"metadata": {"name": name, **metadata}, "spec": {**spec, **source, **affinity}}


def bound(cluster: Cluster, volume: dict[str, Any], name: str = "data") -> None:
    cluster.api.create(PERSISTENT_VOLUME, volume)
    claim = a_claim(name, annotations={"pv.kubernetes.io/bind-completed": "yes"})
    claim["spec"]["volumeName"] = volume["metadata"]["name"]
    cluster.api.create(PERSISTENT_VOLUME_CLAIM, claim)


DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


@pytest.mark.parametrize(
    ("volume", "home"),
    [
        (a_volume(zone="2"), "b"),
        (a_volume(zone="3"), ""),
        (a_volume(labels={ZONE: "2"}), "b"),
        (a_volume(labels={ZONE: "2__3"}), "b"),
        (a_volume(labels={"failure-domain.beta.kubernetes.io/zone": "2"}), "b"),
    ],
)
def test_a_bound_volume_decides_where_its_pod_goes(volume, home):
    with running(*zoned(a="1", b="2")) as cluster:
        bound(cluster, volume)
        assert place(cluster, volumes=DATA) == home


def test_a_claim_that_is_missing_or_not_bound_keeps_its_pod_waiting():
    with running(*zoned(a="1")) as cluster:
        assert place(cluster, volumes=DATA) == ""
        assert 'persistentvolumeclaim "data" not found.' in why(cluster)
        cluster.api.create(STORAGE_CLASS, a_class("soon", "Immediate"))
        cluster.api.create(PERSISTENT_VOLUME_CLAIM, a_claim(storage_class="soon"))
        cluster.world.run(seconds=5)
        assert "pod has unbound immediate PersistentVolumeClaims." in why(cluster)
        cluster.api.create(PERSISTENT_VOLUME, a_volume())
        cluster.api.merge_patch(
            PERSISTENT_VOLUME_CLAIM,
            "default",
            "data",
            {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "disk"}},
        )
        cluster.world.run(seconds=5)
        assert cluster.pod("new")["spec"]["nodeName"] == "a"


def test_a_volume_is_made_where_its_first_consumer_goes():
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": ["2", "3"]}]}]
    with running(*zoned(a="1", b="2", c="2")) as cluster:
        cluster.api.create(STORAGE_CLASS, a_class(allowedTopologies=topologies))
        cluster.api.create(PERSISTENT_VOLUME_CLAIM, a_claim())
        assert place(cluster, volumes=DATA) in ("b", "c")
        claim = cluster.api.get(PERSISTENT_VOLUME_CLAIM, "default", "data")
        volume = cluster.api.get(PERSISTENT_VOLUME, "", claim["spec"]["volumeName"])

        assert (claim["status"]["phase"], volume["status"]["phase"]) == ("Bound", "Bound")
        assert place(cluster, "elsewhere", volumes=DATA, nodeSelector={ZONE: "1"}) == ""
        assert "1 node(s) didn't match PersistentVolume's node affinity" in why(cluster, "elsewhere")


def test_a_class_without_a_provisioner_needs_a_volume_that_is_there():
    with running(*zoned(a="1", b="2")) as cluster:
        cluster.api.create(STORAGE_CLASS, {**a_class(), "provisioner": "kubernetes.io/no-provisioner"})
        cluster.api.create(PERSISTENT_VOLUME_CLAIM, a_claim())
        assert place(cluster, volumes=DATA) == ""
        assert "2 node(s) didn't find available persistent volumes to bind" in why(cluster)
        cluster.api.create(PERSISTENT_VOLUME, a_volume(zone="2"))
        cluster.api.merge_patch(PERSISTENT_VOLUME, "", "disk", {"status": {"phase": "Available"}}, "status")
        cluster.world.run(seconds=5)
        assert cluster.pod("new")["spec"]["nodeName"] == "b"


# Nominations


def nominate(cluster: Cluster, pod: str, node: str) -> None:
    cluster.api.merge_patch(POD, "default", pod, {"status": {"nominatedNodeName": node}}, "status")


@pytest.mark.parametrize(("priority", "home"), [("", "small"), ("urgent", "large")])
def test_a_nominated_pod_keeps_its_room_from_pods_of_its_priority(priority, home):
    """A machine that was bought for a pod is not taken by one that could go elsewhere."""
    with a_cluster(Hardware("small", devices={GPU: 1}), Hardware("large", cpu="64", devices={GPU: 1})) as cluster:
        cluster.api.create(PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 10})
        for name in ("small", "large"):
            cluster.api.merge_patch(NODE, "", name, {"spec": {"unschedulable": True}})
        assert place(cluster, "picky", gpus=1, nodeSelector={HOST: "large"}) == ""
        nominate(cluster, "picky", "large")
        more = {"priorityClassName": priority} if priority else {}
        assert place(cluster, "easy", gpus=1, **more) == ""
        for name in ("large", "small"):
            cluster.api.merge_patch(NODE, "", name, {"spec": {"unschedulable": None}})
        cluster.world.run(seconds=5)

        assert cluster.pod("easy")["spec"]["nodeName"] == home


def test_a_nominated_pod_goes_to_its_node_even_if_another_is_emptier():
    with a_cluster(Hardware("a"), Hardware("b", cpu="64")) as cluster:
        for name in ("a", "b"):
            cluster.api.merge_patch(NODE, "", name, {"spec": {"unschedulable": True}})
        place(cluster)
        nominate(cluster, "new", "a")
        for name in ("a", "b"):
            cluster.api.merge_patch(NODE, "", name, {"spec": {"unschedulable": None}})
        cluster.world.run(seconds=5)

        assert cluster.pod("new")["spec"]["nodeName"] == "a"


# Preferences


def test_preferences_decide_between_nodes_that_fit():
    preferred = {"weight": 1, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["1"]}]}}
    liking = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    soft = {"key": "k", "value": "v", "effect": "PreferNoSchedule"}
    machines = (Hardware("a", labels={ZONE: "1"}), Hardware("b", cpu="64", taints=(soft,)), Hardware("c", cpu="32"))
    with a_cluster(*machines) as cluster:
        assert place(cluster, "likes", affinity=liking) == "a"
        assert place(cluster, "plain") == "c"
