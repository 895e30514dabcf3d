"""The faults of the ancestor's power scaler, each as a history that must not happen. docs/webhook.md has the table."""

from datetime import timedelta

from tests.sim.lifecycle.a_world import sim_env
from tests.sim.test_power_pools import a_node, asks, begin_owned, is_on, receiver, switched_off, switched_on
from tests.sim.with_pools import pod_of, requests, runs
from tgp.api.resource import NODE, POD
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.node_bootstrap import NodeFault


def on_now(env):
    return sorted(one.product.sku for one in env.living())


def test_a_box_that_is_off_is_not_asked_to_go_off_and_hides_no_smaller_one():
    """It posted stop to boxes that were off, the largest first, and smaller idle ones stayed on."""
    with sim_env("off-again", "webhook") as env:
        begin_owned(env, [1, 2])  # four GPUs and one
        asks(env, run_for="2m", nodeSelector={"kubernetes.io/hostname": "cellar-3"})
        env.until(runs(env), minutes=20)
        env.until(lambda: on_now(env) == [], minutes=60)
        env.world.run(minutes=3)
        calls = switched_off(env)
        env.world.run(hours=2)

        assert switched_off(env) == calls


def test_an_idle_box_goes_off():
    """Its rule for idle boxes could never be true."""
    with sim_env("idle", "webhook") as env:
        begin_owned(env)
        asks(env, run_for="2m")
        env.until(runs(env), minutes=20)
        env.until(lambda: not is_on(env), minutes=60)


def test_a_box_that_has_just_booted_stays_on():
    """It stopped a box as soon as no pod was pending."""
    with sim_env("just-on", "webhook") as env:
        begin_owned(env, minOnTime="30m")
        asks(env, run_for="1m")
        env.until(runs(env), minutes=20)
        began = env.world.clock.now()
        env.until(lambda: not is_on(env), minutes=60)

        assert env.world.clock.now() - began > timedelta(minutes=25)


def test_pods_without_gpus_leave_before_the_box_goes_off():
    """It switched off without a cordon or a drain."""
    with sim_env("drained", "webhook") as env:
        begin_owned(env)
        asks(env, run_for="2m")
        env.until(runs(env), minutes=20)
        asks(env, "guest", gpus=0, run_for="10h", nodeName="cellar-1", terminationGracePeriodSeconds=60)
        env.until(runs(env, "guest"), minutes=5)
        env.until(lambda: switched_off(env) > 0, minutes=60, step=1.0)
        guest = env.world.api.local_api.get(POD, "default", "guest")

        assert guest is None or guest["status"]["phase"] != "Running"


def test_an_idle_box_that_is_on_serves_the_next_pod():
    """It counted only boxes with a running pod as capacity, and booted others."""
    with sim_env("capacity", "webhook") as env:
        begin_owned(env, [0, 4])
        asks(env, run_for="1m")
        env.until(runs(env), minutes=20)
        env.world.run(minutes=2)
        asks(env, "next", gpus=2, run_for="5m")
        env.until(runs(env, "next"), minutes=5)

        assert switched_on(env) == 1
        assert pod_of(env, "next")["spec"]["nodeName"] == pod_of(env)["spec"]["nodeName"]


def test_a_pod_that_is_bound_and_pulls_its_image_wakes_nothing():
    """It counted pods that were bound as pending."""
    with sim_env("pulling", "webhook") as env:
        begin_owned(env, [0, 4])
        asks(env, gpus=2, run_for="5m")
        env.until(lambda: "nodeName" in pod_of(env)["spec"], minutes=20, step=1.0)
        env.world.run(minutes=4)

        assert switched_on(env) == 1


def test_a_pod_that_fits_no_box_wakes_none():
    """It compared sums: eight GPUs were two boxes of four, for ever."""
    with sim_env("sums", "webhook") as env:
        begin_owned(env, [1, 5])  # four GPUs each
        asks(env, gpus=8)
        env.world.run(hours=1)

        assert switched_on(env) == 0


def test_four_free_gpus_on_two_boxes_are_no_room_for_a_pod_of_four():
    with sim_env("split", "webhook") as env:
        begin_owned(env, [0, 4, 1])  # two, two and four GPUs
        receiver(env).switch_on_by_hand("cellar-1")
        receiver(env).switch_on_by_hand("cellar-5")
        env.until(lambda: len(requests(env)) == 2, minutes=15)
        asks(env, gpus=4, run_for="5m")
        env.until(runs(env), minutes=20)

        assert pod_of(env)["spec"]["nodeName"] == "cellar-2"
        assert switched_on(env) == 1


def test_a_box_is_asked_to_wake_once_and_a_500_is_no_success():
    """It posted start every ten seconds, retried failed boots for ever, and printed success for a 500."""
    with sim_env("once", "webhook") as env:
        begin_owned(env, [0, 4], bootTimeout="5m")
        env.simulator.faults.aim(CloudFault.ERROR_AFTER, CloudVerb.LAUNCH)
        env.node_bootstrap.node_faults.named["cellar-1"] = [NodeFault.NEVER_REGISTERS] * 5
        asks(env, run_for="30m")
        env.world.run(minutes=4)
        assert switched_on(env) == 1
        env.until(runs(env), minutes=30)

        assert pod_of(env)["spec"]["nodeName"] == "cellar-5"
        assert switched_on(env) == 2


def test_three_small_pods_share_one_box_where_that_is_cheaper():
    """It booted three boxes of one GPU where one of four would do."""
    with sim_env("share", "webhook") as env:
        begin_owned(env, [1, 2, 6, 10])  # 1100 W with four GPUs, three of 380 W with one
        for number in range(3):
            asks(env, f"small-{number}", run_for="10m")
        env.until(lambda: all(runs(env, f"small-{number}")() for number in range(3)), minutes=20)

        assert on_now(env) == ["cellar-2"]


def test_a_pod_wakes_the_box_that_its_affinity_names():
    """It ignored affinity, taints and init containers."""
    with sim_env("affinity", "webhook") as env:
        begin_owned(env, [0, 4])
        env.world.api.local_api.merge_patch(NODE, "", "cellar-5", {"metadata": {"labels": {"disk": "fast"}}})
        asks(env, run_for="5m", nodeSelector={"disk": "fast"})
        env.until(runs(env), minutes=20)

        assert on_now(env) == ["cellar-5"]


def test_a_class_has_many_boxes_and_each_tells_its_own_state():
    """One box per group, configured by the environment alone, without a status."""
    with sim_env("many", "webhook") as env:
        begin_owned(env, [0, 1, 2, 3])
        a_node(env, 4)
        for number in range(2):
            asks(env, f"pod-{number}", gpus=2, run_for="10m")
        env.until(lambda: all(runs(env, f"pod-{number}")() for number in range(2)), minutes=20)

        assert len(requests(env)) == switched_on(env) == len(env.living())
