"""Pods and machines that do not end, and many requests at once."""

import pytest

from tests.amounts import amount
from tests.sim.an_operator import ALONE, a_class, create, operator_main
from tests.sim.cluster.manifests import a_set, a_template
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.reference import CLASS, QUICK
from tgp.api.resource import DEPLOYMENT, GPU_NODE_CLASS, NAMESPACE, NODE, POD, POD_DISRUPTION_BUDGET
from tgp.app.settings import Settings
from tgp.core.requests.purchase import ALLOW_UNTRUSTED
from tgp.sim.checkers.objects import OVER, loose_ends
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb

CROWD = amount(30, 1000)
ANYTHING = [{"operator": "Exists"}]


def begin(env: SimEnv, settings: Settings = ALONE, **spec) -> None:
    a_class(env.world, CLASS, **spec)
    env.world.process("operator", operator_main(settings))
    env.world.run(minutes=1)


def ready(env: SimEnv, name: str = "train", **spec) -> str:
    """The name of its Node."""
    env.wants(name, **{"idleTimeout": "Never", **spec})
    env.until(lambda: env.phase(name) == "Ready", minutes=30)
    return env.request(name)["status"]["nodeName"]


def a_pod_on(env: SimEnv, node: str, name: str, *, meta: dict | None = None, **spec) -> None:
    template = a_template({"app": name}, run_for="100h", tolerations=ANYTHING, **spec)
    create(env.world, POD, name, "default", spec={**template["spec"], "nodeName": node})
    more = {"labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"]}
    more = {
        key: {**more.get(key, {}), **value} if isinstance(value, dict) else value for key, value in (meta or {}).items()
    } | {key: value for key, value in more.items() if key not in (meta or {})}
    env.world.api.local_api.merge_patch(POD, "default", name, {"metadata": more})


# -- pods --------------------------------------------------------------------------------------------------------------


def test_a_budget_that_never_allows_a_disruption_is_waited_for_until_the_grace_is_over():
    with sim_env("never allows", kubelets=QUICK) as env:
        begin(env)
        node = ready(env, terminationGracePeriod="20m")
        a_pod_on(env, node, "held")
        create(
            env.world,
            POD_DISRUPTION_BUDGET,
            "never",
            "default",
            spec={"maxUnavailable": 0, "selector": {"matchLabels": {"app": "held"}}},
        )
        env.world.run(minutes=2)
        env.drops()
        env.world.run(minutes=15)
        assert len(env.living()) == 1
        assert "held" in env.condition("Drained")[2]
        env.until(lambda: env.request() is None, minutes=15)
        assert env.living() == []


def test_a_pod_that_tolerates_everything_and_comes_back_keeps_no_machine():
    with sim_env("comes back", kubelets=QUICK) as env:
        begin(env)
        node = ready(env)
        template = a_template({"app": "back"}, tolerations=ANYTHING, nodeSelector={"kubernetes.io/hostname": node})
        env.world.api.local_api.merge_patch(NODE, "", node, {"metadata": {"labels": {"kubernetes.io/hostname": node}}})
        env.world.api.local_api.create(DEPLOYMENT, a_set("back", template=template, replicas=2))
        env.world.run(minutes=2)
        env.drops()
        env.until(lambda: env.request() is None, minutes=20)
        assert env.living() == []


def test_a_pod_that_anothers_finalizer_holds_keeps_no_machine():
    with sim_env("held pod", kubelets=QUICK) as env:
        begin(env)
        node = ready(env)
        a_pod_on(env, node, "stuck", meta={"finalizers": ["example.com/never"]})
        env.world.run(minutes=2)
        env.drops()
        env.until(lambda: env.living() == [], minutes=30)
        env.until(lambda: env.request() is None, minutes=10)


def test_a_mirror_pod_cannot_be_evicted():
    with sim_env("mirror", kubelets=QUICK) as env:
        begin(env)
        node = ready(env)
        a_pod_on(env, node, "static", meta={"annotations": {"kubernetes.io/config.mirror": "0123"}})
        a_pod_on(env, node, "ordinary")
        env.world.run(minutes=2)
        env.drops()
        env.until(lambda: env.request() is None, minutes=10)

        evicted = [effect.path for effect in env.world.effects if "eviction" in effect.path]
        assert any("/ordinary/" in path for path in evicted)
        assert not any("/static/" in path for path in evicted)
        assert env.living() == []


def test_a_pod_bound_by_name_that_comes_back_for_ever_ends_with_the_grace():
    """Another controller sets spec.nodeName itself: no cordon keeps its pods off."""
    with sim_env("bound", kubelets=QUICK) as env:
        begin(env)
        node = ready(env, terminationGracePeriod="10m")
        env.drops()
        for number in range(60):
            name = f"bound-{number}"
            if env.node(node) is not None:
                create(env.world, POD, name, "default", spec={**a_template(run_for="9h")["spec"], "nodeName": node})
            env.world.run(seconds=20)
            if env.request() is None:
                break
        env.until(lambda: env.request() is None, minutes=5)
        assert env.living() == []


# -- machines that cannot be terminated --------------------------------------------------------------------------------


def test_machines_that_cannot_be_terminated_do_not_hide_one_whose_node_is_lost():
    """Their Nodes are silent, and so is another's: that is no broken network."""
    with sim_env("stuck", "vultr", "simulated", kubelets=QUICK) as env:
        begin(env, providers=[{"name": "vultr"}])
        a_class(env.world, "other", providers=[{"name": "simulated"}])
        env.world.run(minutes=1)
        ref = {"nodeClassRef": {"name": CLASS}, "gpuType": "A16"}
        nodes = [ready(env, f"stuck-{number}", **ref) for number in range(3)]
        lost = ready(env, "lost", nodeClassRef={"name": "other"})
        env.simulators["vultr"].faults.aim(CloudFault.ERROR, CloudVerb.TERMINATE, times=10_000)
        for number in range(3):
            env.drops(f"stuck-{number}")
            env.node_bootstrap.fall_silent(nodes[number])
        env.world.run(minutes=15)
        env.node_bootstrap.fall_silent(lost)
        env.until(lambda: env.phase("lost") in OVER, minutes=30)

        assert env.condition("Ended", "lost")[1] == "Lost"
        env.simulators["vultr"].faults.calm()
        env.until(lambda: env.living() == [], minutes=30)


def test_a_namespace_that_goes_with_its_pods_takes_its_machine_along():
    """Nothing can be created there any more, no eviction either; and one of its pods is slow to end."""
    with sim_env("with its pods", kubelets=QUICK) as env:
        begin(env)
        create(env.world, NAMESPACE, "team")
        allow = {"metadata": {"labels": {ALLOW_UNTRUSTED: "true"}}}
        env.world.api.local_api.merge_patch(NAMESPACE, "", "team", allow)
        env.wants(namespace="team", idleTimeout="Never")
        env.until(lambda: env.phase(namespace="team") == "Ready", minutes=30)
        node = env.request(namespace="team")["status"]["nodeName"]
        spec = a_template(run_for="100h", tolerations=ANYTHING, terminationGracePeriodSeconds=300)["spec"]
        for name in ("one", "two"):
            create(env.world, POD, name, "team", spec={**spec, "nodeName": node})
        env.world.run(minutes=2)
        env.world.api.local_api.delete(NAMESPACE, "", "team")
        env.until(lambda: env.world.api.local_api.get(NAMESPACE, "", "team") is None, minutes=40)

        assert env.living() == []
        assert env.nodes() == []


# -- offers ------------------------------------------------------------------------------------------------------------


def test_a_request_that_fails_at_every_offer_within_its_price_waits_and_buys_no_more_expensive_one():
    with sim_env("dearer next", kubelets=QUICK) as env:
        begin(env)
        cheapest = sorted(
            stand.hourly_microusd for stand in env.simulator.fleet.stands.values() if stand.product.gpu == "RTX4090"
        )
        assert len(set(cheapest)) > 1
        cap = f"{cheapest[0] / 1_000_000:.6f}"
        env.simulator.faults.aim(CloudFault.SOLD_OUT, CloudVerb.LAUNCH, times=3)
        env.wants(maxHourlyPrice=cap, idleTimeout="Never")
        env.world.run(minutes=5)
        assert env.living() == []
        assert env.phase() == "Pending"
        assert env.condition("Launched")[1] in ("NoOfferFits", "SoldOut")
        env.until(lambda: env.phase() == "Ready", minutes=180)

        (machine,) = env.living()
        assert machine.rate_microusd <= cheapest[0]


# -- a crowd -----------------------------------------------------------------------------------------------------------


def test_a_crowd_at_once_makes_three_machines_and_a_reason_for_all_others():
    with sim_env("crowd", kubelets=QUICK) as env:
        begin(env, Settings(leader_elect=False, workers=64), limits={"maxNodes": 3})
        for number in range(CROWD):
            env.wants(f"r{number}", idleTimeout="Never")
        env.world.run(minutes=10)
        phases = [env.phase(f"r{number}") for number in range(CROWD)]

        assert phases.count("Ready") == 3
        assert phases.count("Pending") == CROWD - 3
        assert {env.condition("Launched", f"r{n}")[1] for n, phase in enumerate(phases) if phase == "Pending"} == {
            "LimitReached"
        }
        assert len(env.simulator.fleet.machines) == 3


def test_requests_of_one_name_in_two_namespaces_do_not_meet():
    with sim_env("two rooms", kubelets=QUICK) as env:
        begin(env)
        create(env.world, NAMESPACE, "other")
        env.world.api.local_api.merge_patch(NAMESPACE, "", "other", {"metadata": {"labels": {ALLOW_UNTRUSTED: "true"}}})
        env.wants(idleTimeout="Never")
        env.wants(namespace="other", idleTimeout="Never")
        env.until(lambda: env.phase() == env.phase(namespace="other") == "Ready", minutes=30)
        names = {env.request(namespace=room)["status"]["nodeName"] for room in ("default", "other")}
        assert len(names) == len(env.living()) == 2

        env.drops()
        env.until(lambda: env.request() is None, minutes=20)
        assert env.phase(namespace="other") == "Ready"
        assert env.nodes() == [env.request(namespace="other")["status"]["nodeName"]]
        assert loose_ends(env.recorder) == []


@pytest.mark.parametrize("cap", [None, "2.00"])
def test_a_price_that_doubles_between_reservation_and_order_is_not_paid_for_long(cap):
    """Half the price was agreed: whatever comes of the order, the double price is not paid for long."""
    with sim_env(f"doubled {cap}", kubelets=QUICK) as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.OVERBILLED, CloudVerb.LAUNCH, times=50)
        env.wants(idleTimeout="Never", **({"maxHourlyPrice": cap} if cap else {}))
        env.world.run(hours=3)
        agreed = [row["offer"]["hourlyPrice"] for row in env.attempts()]
        for machine in env.living():
            assert machine.rate_microusd <= 1.25 * max(float(price) for price in agreed) * 1_000_000


def test_sixteen_gpus_are_waited_for_where_no_provider_sells_so_many():
    with sim_env("sixteen", kubelets=QUICK) as env:
        begin(env)
        env.wants(gpuCount=16)
        env.world.run(minutes=20)

        assert env.phase() == "Pending"
        assert env.condition("Launched")[1] == "NoOfferFits"
        env.drops()
        env.until(lambda: env.request() is None, minutes=5)


def test_a_request_without_a_class_among_several_waits_until_one_is_the_default():
    with sim_env("which class", kubelets=QUICK) as env:
        begin(env)
        a_class(env.world, "other")
        env.wants(idleTimeout="Never")
        env.world.run(minutes=10)
        assert env.condition("Launched")[1] == "NodeClassNotFound"
        assert "rented" in env.condition("Launched")[2]

        note = {"metadata": {"annotations": {"tgp.io/is-default-class": "true"}}}
        env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", "other", note)
        env.until(lambda: env.phase() == "Ready", minutes=30)
        assert env.request()["status"]["nodeClass"] == "other"
