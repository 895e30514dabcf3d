"""Machines of several pools of one class are exchanged together, and no pod is without room."""

from tests.sim.an_operator import a_class, a_pool
from tests.sim.cluster.manifests import a_set, a_template
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.test_disruption import Watched, disrupted, names, requests, running, serves, taints
from tests.sim.test_exchanges import POLICY, sells
from tests.sim.with_pools import begin, events_of, pool_of
from tgp.api.resource import DEPLOYMENT, GPU_NODE_POOL, NODE

ONE = {"resources": {"nodes": 1}}


def pools_of(env: SimEnv) -> list[str]:
    """The pool of each machine."""
    return sorted(row["metadata"]["ownerReferences"][0]["name"] for row in requests(env))


def two_pools(env: SimEnv) -> None:
    """Of one class, each with room for one machine."""
    begin(env, disruption=POLICY, limits=ONE)
    a_pool(env.world, "pool-1", "rented", disruption=POLICY, limits=ONE)


def without_limits(env: SimEnv) -> None:
    for name in ("pool-0", "pool-1"):
        env.world.api.local_api.merge_patch(GPU_NODE_POOL, "default", name, {"spec": {"limits": None}})


def scale(env: SimEnv, replicas: int) -> None:
    env.world.api.local_api.merge_patch(DEPLOYMENT, "default", "serve", {"spec": {"replicas": replicas}})


def cordon(env: SimEnv, *, cordoned: bool) -> None:
    for node in env.world.api.local_api.objects(NODE):
        patch = {"spec": {"unschedulable": cordoned or None}}
        env.world.api.local_api.merge_patch(NODE, "", node["metadata"]["name"], patch)


def test_of_two_half_used_machines_of_two_pools_one_is_left():
    with sim_env("half-used") as env:
        sells(env, rtx4090_2=0.40)
        two_pools(env)
        tolerations = [{"key": "tgp.io/ephemeral", "operator": "Exists"}]  # not that of a cordoned Node
        template = a_template({"app": "serve"}, gpus=1, tolerations=tolerations)
        env.world.api.local_api.create(DEPLOYMENT, a_set("serve", template=template))
        env.until(lambda: running(env) == 1, minutes=30)
        cordon(env, cordoned=True)
        scale(env, 2)
        env.until(lambda: running(env) == 2, minutes=30)
        cordon(env, cordoned=False)
        assert pools_of(env) == ["pool-0", "pool-1"]
        watched = Watched(env)
        watched.until(lambda: len(names(env)) == 1 and running(env) == 2, minutes=120)

        assert watched.least_running >= 1
        assert watched.most_machines == 2
        env.world.run(minutes=30)
        assert len(names(env)) == len(env.living()) == 1
        assert taints(env) == []


def full(env: SimEnv) -> set[str]:
    """A full machine of each pool."""
    sells(env, t4_1=0.40)
    two_pools(env)
    serves(env, replicas=2)
    env.until(lambda: running(env) == 2, minutes=30)
    assert pools_of(env) == ["pool-0", "pool-1"]
    env.world.run(minutes=61)
    without_limits(env)
    return names(env)


def one_for_both(env: SimEnv) -> None:
    """Is on sale, cheaper than both and not than either."""
    sells(env, rtx4090_2=0.60)


def marks(env: SimEnv) -> list[str]:
    """Moves that requests are in."""
    found = (row["metadata"]["annotations"].get("tgp.io/move") for row in requests(env))
    return [mark for mark in found if mark]


def test_full_machines_of_two_pools_become_one_that_is_cheaper_than_both():
    with sim_env("two-pools-one") as env:
        before = full(env)
        one_for_both(env)
        watched, moves = Watched(env), set[str]()

        def done() -> bool:
            moves.update(marks(env))
            return not names(env) & before and running(env) == 2

        watched.until(done, minutes=150)
        assert len(moves) == 1
        assert watched.most_machines == 3, "both live until the one that replaces them is Ready"
        assert watched.least_running >= 1, "drained one by one"
        (bought,) = requests(env)
        assert bought["metadata"]["annotations"]["tgp.io/replaced-hourly-price"] == "0.80"
        env.world.run(minutes=30)
        assert len(env.living()) == 1
        assert taints(env) == []
        assert all("moves" not in pool_of(env, name)["status"] for name in ("pool-0", "pool-1"))


def test_a_pool_that_changes_its_class_in_the_middle_ends_the_move():
    with sim_env("parted-2") as env:
        before = full(env)
        one_for_both(env)
        a_class(env.world, "another")
        env.until(lambda: len(marks(env)) == 3, minutes=120)  # both machines, and the one that replaces them
        told = [disrupted(env, row)[2] for row in requests(env) if row["metadata"]["name"] in before]
        assert all("Replacing 2 machines of pools pool-0, pool-1 with 1 simulated rtx4090.2" in each for each in told)
        patch = {"spec": {"nodeClassRef": {"name": "another"}}}
        env.world.api.local_api.merge_patch(GPU_NODE_POOL, "default", "pool-1", patch)
        watched = Watched(env)
        watched.until(lambda: not marks(env) and taints(env) == [], minutes=15)

        assert watched.least_running == 2
        env.until(lambda: len(env.living()) == 2, minutes=15)
        assert names(env) >= before
        for name in before:
            (told,) = [message for reason, message in events_of(env, name) if reason == "DisruptionBlocked"]
            assert "is now in a pool of another class" in told, "whichever of the two pools is looked at first"


def test_machines_whose_move_is_given_up_together_say_the_same():
    """Their replacement is deleted once, for both."""
    with sim_env("closed") as env:
        before = full(env)
        one_for_both(env)
        env.until(lambda: len(marks(env)) == 3, minutes=120)
        closed = {"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}}
        env.world.api.local_api.merge_patch(GPU_NODE_POOL, "default", "pool-1", closed)
        Watched(env).until(lambda: not marks(env) and taints(env) == [], minutes=15)

        for name in before:
            (told,) = {message for reason, message in events_of(env, name) if reason == "DisruptionBlocked"}
            assert "GPUNodePool default/pool-1: spec.disruption.budgets[0] (nodes: 0) allows no more disruption" in told
        env.until(lambda: len(env.living()) == 2, minutes=15)
        assert names(env) >= before
