"""Whoever does not want to go, and whoever wants in all at once."""

import os

import pytest

from tests.sim.an_operator import a_class, create, operator_main
from tests.sim.cluster.manifests import a_set, a_template
from tests.sim.lives.an_estate import Lives, lives
from tests.sim.lives.reference import CLASS, QUICK
from tgp.api.resource import DEPLOYMENT, GPU_NODE_CLASS, NAMESPACE, NODE, POD, POD_DISRUPTION_BUDGET
from tgp.app.settings import Settings
from tgp.core.rules.purchase import ALLOW_UNTRUSTED
from tgp.sim.checkers.objects import OVER, loose_ends
from tgp.sim.clouds.mishaps import Mishap, Verb

ALONE = Settings(leader_elect=False)  # one replica: nothing here is about whose turn it is
CROWD = 1000 if os.environ.get("TGP_PLANS") == "all" else 150
ANYTHING = [{"operator": "Exists"}]


def begin(stage: Lives, settings: Settings = ALONE, **spec) -> None:
    a_class(stage.world, CLASS, **spec)
    stage.world.process("operator", operator_main(settings))
    stage.world.run(minutes=1)


def ready(stage: Lives, name: str = "train", **spec) -> str:
    """The name of its Node."""
    stage.wants(name, **{"idleTimeout": "Never", **spec})
    stage.until(lambda: stage.phase(name) == "Ready", minutes=30)
    return stage.request(name)["status"]["nodeName"]


def a_pod_on(stage: Lives, node: str, name: str, *, meta: dict | None = None, **spec) -> None:
    template = a_template({"app": name}, run_for="100h", tolerations=ANYTHING, **spec)
    create(stage.world, POD, name, "default", spec={**template["spec"], "nodeName": node})
    more = {"labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"]}
    more = {
        key: {**more.get(key, {}), **value} if isinstance(value, dict) else value for key, value in (meta or {}).items()
    } | {key: value for key, value in more.items() if key not in (meta or {})}
    stage.world.api.backstage.merge_patch(POD, "default", name, {"metadata": more})


# -- pods --------------------------------------------------------------------------------------------------------------


def test_a_budget_that_never_allows_a_disruption_is_waited_for_until_the_grace_is_over():
    with lives("never allows", kubelets=QUICK) as stage:
        begin(stage)
        node = ready(stage, terminationGracePeriod="20m")
        a_pod_on(stage, node, "held")
        create(
            stage.world,
            POD_DISRUPTION_BUDGET,
            "never",
            "default",
            spec={"maxUnavailable": 0, "selector": {"matchLabels": {"app": "held"}}},
        )
        stage.world.run(minutes=2)
        stage.drops()
        stage.world.run(minutes=15)
        assert len(stage.living()) == 1
        assert "held" in stage.condition("Drained")[2]
        stage.until(lambda: stage.request() is None, minutes=15)
        assert stage.living() == []


def test_a_pod_that_tolerates_everything_and_comes_back_keeps_no_machine():
    with lives("comes back", kubelets=QUICK) as stage:
        begin(stage)
        node = ready(stage)
        template = a_template({"app": "back"}, tolerations=ANYTHING, nodeSelector={"kubernetes.io/hostname": node})
        stage.world.api.backstage.merge_patch(
            NODE, "", node, {"metadata": {"labels": {"kubernetes.io/hostname": node}}}
        )
        stage.world.api.backstage.create(DEPLOYMENT, a_set("back", template=template, replicas=2))
        stage.world.run(minutes=2)
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=20)
        assert stage.living() == []


def test_a_pod_that_anothers_finalizer_holds_keeps_no_machine():
    with lives("held pod", kubelets=QUICK) as stage:
        begin(stage)
        node = ready(stage)
        a_pod_on(stage, node, "stuck", meta={"finalizers": ["example.com/never"]})
        stage.world.run(minutes=2)
        stage.drops()
        stage.until(lambda: stage.living() == [], minutes=30)
        stage.until(lambda: stage.request() is None, minutes=10)


def test_a_mirror_pod_is_nobodys_to_evict():
    with lives("mirror", kubelets=QUICK) as stage:
        begin(stage)
        node = ready(stage)
        a_pod_on(stage, node, "static", meta={"annotations": {"kubernetes.io/config.mirror": "0123"}})
        a_pod_on(stage, node, "ordinary")
        stage.world.run(minutes=2)
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=10)

        evicted = [effect.path for effect in stage.world.effects if "eviction" in effect.path]
        assert any("/ordinary/" in path for path in evicted)
        assert not any("/static/" in path for path in evicted)
        assert stage.living() == []


def test_a_pod_bound_by_name_that_comes_back_for_ever_ends_with_the_grace():
    """Somebody's controller sets spec.nodeName itself: no cordon keeps its pods off."""
    with lives("bound", kubelets=QUICK) as stage:
        begin(stage)
        node = ready(stage, terminationGracePeriod="10m")
        stage.drops()
        for number in range(60):
            name = f"bound-{number}"
            if stage.node(node) is not None:
                create(stage.world, POD, name, "default", spec={**a_template(run_for="9h")["spec"], "nodeName": node})
            stage.world.run(seconds=20)
            if stage.request() is None:
                break
        stage.until(lambda: stage.request() is None, minutes=5)
        assert stage.living() == []


# -- machines that cannot be given back --------------------------------------------------------------------------------


def test_machines_that_cannot_be_given_back_do_not_hide_one_whose_node_is_lost():
    """Their Nodes are silent, and so is another's: that is no broken network."""
    with lives("stuck", "vultr", "simulated", kubelets=QUICK) as stage:
        begin(stage, providers=[{"name": "vultr"}])
        a_class(stage.world, "other", providers=[{"name": "simulated"}])
        stage.world.run(minutes=1)
        ref = {"nodeClassRef": {"name": CLASS}, "gpuType": "A16"}
        nodes = [ready(stage, f"stuck-{number}", **ref) for number in range(3)]
        lost = ready(stage, "lost", nodeClassRef={"name": "other"})
        stage.shops["vultr"].mishaps.aim(Mishap.ERROR, Verb.TERMINATE, times=10_000)
        for number in range(3):
            stage.drops(f"stuck-{number}")
            stage.estate.fall_silent(nodes[number])
        stage.world.run(minutes=15)
        stage.estate.fall_silent(lost)
        stage.until(lambda: stage.phase("lost") in OVER, minutes=30)

        assert stage.condition("Ended", "lost")[1] == "Lost"
        stage.shops["vultr"].mishaps.calm()
        stage.until(lambda: stage.living() == [], minutes=30)


def test_a_namespace_that_goes_with_its_pods_takes_its_machine_along():
    """Nothing can be created there any more, no eviction either; and one of its pods is slow to end."""
    with lives("with its pods", kubelets=QUICK) as stage:
        begin(stage)
        create(stage.world, NAMESPACE, "team")
        allow = {"metadata": {"labels": {ALLOW_UNTRUSTED: "true"}}}
        stage.world.api.backstage.merge_patch(NAMESPACE, "", "team", allow)
        stage.wants(namespace="team", idleTimeout="Never")
        stage.until(lambda: stage.phase(namespace="team") == "Ready", minutes=30)
        node = stage.request(namespace="team")["status"]["nodeName"]
        spec = a_template(run_for="100h", tolerations=ANYTHING, terminationGracePeriodSeconds=300)["spec"]
        for name in ("one", "two"):
            create(stage.world, POD, name, "team", spec={**spec, "nodeName": node})
        stage.world.run(minutes=2)
        stage.world.api.backstage.delete(NAMESPACE, "", "team")
        stage.until(lambda: stage.world.api.backstage.get(NAMESPACE, "", "team") is None, minutes=40)

        assert stage.living() == []
        assert stage.nodes() == []


# -- offers ------------------------------------------------------------------------------------------------------------


def test_whoever_fails_at_every_offer_within_its_price_waits_and_buys_no_dearer_one():
    with lives("dearer next", kubelets=QUICK) as stage:
        begin(stage)
        cheapest = sorted(
            stand.hourly_microusd for stand in stage.shop.fleet.stands.values() if stand.shelf.gpu == "RTX4090"
        )
        assert len(set(cheapest)) > 1
        cap = f"{cheapest[0] / 1_000_000:.6f}"
        stage.shop.mishaps.aim(Mishap.SOLD_OUT, Verb.LAUNCH, times=3)
        stage.wants(maxHourlyPrice=cap, idleTimeout="Never")
        stage.world.run(minutes=5)
        assert stage.living() == []
        assert stage.phase() == "Pending"
        assert stage.condition("Launched")[1] in ("NoOfferFits", "SoldOut")
        stage.until(lambda: stage.phase() == "Ready", minutes=180)

        (machine,) = stage.living()
        assert machine.rate_microusd <= cheapest[0]


# -- a crowd -----------------------------------------------------------------------------------------------------------


def test_a_crowd_at_once_makes_three_machines_and_a_reason_for_everybody_else():
    with lives("crowd", kubelets=QUICK) as stage:
        begin(stage, Settings(leader_elect=False, workers=64), limits={"maxNodes": 3})
        for number in range(CROWD):
            stage.wants(f"r{number}", idleTimeout="Never")
        stage.world.run(minutes=10)
        phases = [stage.phase(f"r{number}") for number in range(CROWD)]

        assert phases.count("Ready") == 3
        assert phases.count("Pending") == CROWD - 3
        assert {stage.condition("Launched", f"r{n}")[1] for n, phase in enumerate(phases) if phase == "Pending"} == {
            "LimitReached"
        }
        assert len(stage.shop.fleet.machines) == 3


def test_requests_of_one_name_in_two_namespaces_do_not_meet():
    with lives("two rooms", kubelets=QUICK) as stage:
        begin(stage)
        create(stage.world, NAMESPACE, "other")
        stage.world.api.backstage.merge_patch(
            NAMESPACE, "", "other", {"metadata": {"labels": {ALLOW_UNTRUSTED: "true"}}}
        )
        stage.wants(idleTimeout="Never")
        stage.wants(namespace="other", idleTimeout="Never")
        stage.until(lambda: stage.phase() == stage.phase(namespace="other") == "Ready", minutes=30)
        names = {stage.request(namespace=room)["status"]["nodeName"] for room in ("default", "other")}
        assert len(names) == len(stage.living()) == 2

        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=20)
        assert stage.phase(namespace="other") == "Ready"
        assert stage.nodes() == [stage.request(namespace="other")["status"]["nodeName"]]
        assert loose_ends(stage.witness) == []


@pytest.mark.parametrize("cap", [None, "2.00"])
def test_a_price_that_doubles_between_reservation_and_order_is_not_paid_for_long(cap):
    """Half as dear was agreed: whatever comes of the order, nobody pays the double price on."""
    with lives(f"doubled {cap}", kubelets=QUICK) as stage:
        begin(stage)
        stage.shop.mishaps.aim(Mishap.DEARER, Verb.LAUNCH, times=50)
        stage.wants(idleTimeout="Never", **({"maxHourlyPrice": cap} if cap else {}))
        stage.world.run(hours=3)
        agreed = [row["offer"]["hourlyPrice"] for row in stage.attempts()]
        for machine in stage.living():
            assert machine.rate_microusd <= 1.25 * max(float(price) for price in agreed) * 1_000_000


def test_sixteen_gpus_are_waited_for_where_nobody_sells_so_many():
    with lives("sixteen", kubelets=QUICK) as stage:
        begin(stage)
        stage.wants(gpuCount=16)
        stage.world.run(minutes=20)

        assert stage.phase() == "Pending"
        assert stage.condition("Launched")[1] == "NoOfferFits"
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=5)


def test_a_request_without_a_class_among_several_waits_until_one_is_the_default():
    with lives("which class", kubelets=QUICK) as stage:
        begin(stage)
        a_class(stage.world, "other")
        stage.wants(idleTimeout="Never")
        stage.world.run(minutes=10)
        assert stage.condition("Launched")[1] == "NodeClassNotFound"
        assert "rented" in stage.condition("Launched")[2]

        note = {"metadata": {"annotations": {"tgp.io/is-default-class": "true"}}}
        stage.world.api.backstage.merge_patch(GPU_NODE_CLASS, "", "other", note)
        stage.until(lambda: stage.phase() == "Ready", minutes=30)
        assert stage.request()["status"]["nodeClass"] == "other"
