"""An operator newer than the CRDs: it says so, buys nothing, and still terminates."""

import copy

from tests.sim.an_operator import ALONE, a_class, operator_main, ready
from tests.sim.lifecycle.a_world import sim_env
from tests.sim.test_leadership_status import Replica
from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, GPU_NODE_CLASS

NAME = "gpurequests.tgp.io"
OURS = next(each for each in crds() if each["metadata"]["name"] == NAME)


def older() -> dict:
    definition = copy.deepcopy(OURS)
    del definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
        "maxLifetime"
    ]
    return definition


def test_nothing_is_bought_until_they_are_updated_and_terminations_go_on():
    with sim_env("outdated kinds") as env:
        api = env.world.api.local_api

        def put(definition: dict) -> None:
            api.merge_patch(CUSTOM_RESOURCE_DEFINITION, "", NAME, {"spec": definition["spec"]})

        a_class(env.world, "rented")
        process = env.world.process("operator", operator_main(ALONE))
        env.wants(idleTimeout="Never")
        env.until(lambda: env.phase() == "Ready", minutes=15)
        put(older())
        process.crash()
        env.until(lambda: ready(env.world, GPU_NODE_CLASS, "rented") == "KindsOutdated", minutes=5)
        env.wants("late")
        env.world.run(minutes=10)
        assert env.condition("Launched", "late")[1] == "KindsOutdated"
        assert "tgp crds apply" in env.condition("Launched", "late")[2]
        assert len(env.living()) == 1
        env.drops()
        env.until(lambda: env.phase() == "gone", minutes=15)
        assert env.living() == []
        put(OURS)
        env.until(lambda: env.phase("late") == "Ready", minutes=15)


def test_readiness_names_them():
    with sim_env("outdated kinds, readiness") as env:
        env.world.api.local_api.merge_patch(CUSTOM_RESOURCE_DEFINITION, "", NAME, {"spec": older()["spec"]})
        replica = Replica(env.world, "one")
        env.world.run(seconds=30)

        async def troubles() -> list[str]:
            return list(replica.operator.troubles())

        assert any("spec.maxLifetime" in each for each in env.world.until(troubles()))


def test_while_they_cannot_be_read_nothing_is_bought_and_readiness_says_so():
    """What is recorded of an order would be dropped by an older CRD."""
    with sim_env("unread kinds") as env:
        a_class(env.world, "rented")
        env.world.api.faults.on("error-before", where=lambda hit: hit.route.plural == "customresourcedefinitions")
        replica = Replica(env.world, "one")
        env.wants(idleTimeout="Never")

        async def troubles() -> list[str]:
            return list(replica.operator.troubles())

        env.world.run(minutes=5)
        assert env.living() == []
        assert env.condition("Launched")[1] == "NodeClassNotSeen"
        assert any("has not compared the installed CRDs" in each for each in env.world.until(troubles()))
        env.world.api.faults.off("error-before")
        env.until(lambda: env.phase() == "Ready", minutes=15)
        assert env.world.until(troubles()) == []
