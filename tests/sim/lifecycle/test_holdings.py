"""The sentence on the operator's Namespace follows the machines, also those without a request and after a restart."""

from dataclasses import replace

from tests.sim.an_operator import ALONE, NAMESPACE_NAME, a_class, operator_main, writes
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE
from tgp.core.classes.default_class import IMPLICIT
from tgp.core.classes.nodeclass import ALLOWED_REQUIRED
from tgp.core.inventory.holdings import ABANDON, COPIED, HOLDINGS, STAND_IN
from tgp.core.model.token import plain_uid
from tgp.sim.checkers.money import NoOrphan
from tgp.sim.checkers.registry import INVARIANTS
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb


def said(env: SimEnv) -> str:
    found = env.world.api.local_api.get(NAMESPACE, "", NAMESPACE_NAME)
    return found["metadata"].get("annotations", {}).get(HOLDINGS, "")


def of_class(env: SimEnv, name: str) -> str:
    found = env.world.api.local_api.get(GPU_NODE_CLASS, "", name)
    return found["metadata"].get("annotations", {}).get(HOLDINGS, "")


def test_the_sentence_comes_before_the_machine_and_goes_after_it():
    with sim_env("held") as env:
        a_class(env.world, "rented")
        env.world.process("operator", operator_main(ALONE))
        env.world.run(minutes=3)
        assert said(env) == ""
        env.wants(idleTimeout="Never")
        env.until(lambda: bool(env.living()), step=0.1)
        assert said(env).startswith("1 machine costs $")
        env.until(lambda: env.phase() == "Ready")
        before = [each for each in writes(env.world) if NAMESPACE_NAME in each and "annotations" in each]
        env.world.run(minutes=30)
        assert [each for each in writes(env.world) if NAMESPACE_NAME in each and "annotations" in each] == before
        env.drops()
        env.until(lambda: not env.living())
        assert said(env).startswith("1 machine costs $"), "two lists have not shown yet that it is gone"
        env.until(lambda: said(env) == "", minutes=10)
        assert env.phase() == "gone"


def test_the_namespace_says_whether_classes_have_to_name_namespaces():
    """What another client writes there is corrected; commands in a terminal read it."""
    for required in (True, False):
        with sim_env("required") as env:
            api = env.world.api.local_api
            wrong = {"metadata": {"annotations": {ALLOWED_REQUIRED: None if required else "true"}}}
            api.merge_patch(NAMESPACE, "", NAMESPACE_NAME, wrong)
            env.world.process("operator", operator_main(replace(ALONE, require_allowed_namespaces=required)))
            for _ in range(2):
                env.world.run(minutes=1)
                found = api.get(NAMESPACE, "", NAMESPACE_NAME)["metadata"].get("annotations", {})
                assert found.get(ALLOWED_REQUIRED) == ("true" if required else None)
                api.merge_patch(NAMESPACE, "", NAMESPACE_NAME, wrong)


def test_a_machine_without_a_request_counts_also_for_the_next_process():
    """The invariant about orphans is not asked: this provider does not terminate."""
    with sim_env("held by no request", invariants=[each for each in INVARIANTS if each is not NoOrphan]) as env:
        a_class(env.world, "rented")
        process = env.world.process("operator", operator_main(ALONE))
        env.wants(idleTimeout="Never")
        env.until(lambda: env.phase() == "Ready", minutes=15)
        sentence = said(env)
        env.recorder.forced[plain_uid(env.request()["metadata"]["uid"])] = None
        env.simulator.faults.aim(CloudFault.ERROR, CloudVerb.TERMINATE, times=60)
        env.drops()
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        a_class(env.world, "another")  # without a machine of its own
        for each in range(120):
            env.world.run(seconds=1)
            assert said(env) == sentence
            assert of_class(env, "rented") == sentence, "the policy of cluster roles and kinds sees only classes"
            assert each < 2 or of_class(env, "another") == sentence
        process.crash()
        for _ in range(60):
            env.world.run(seconds=5)
            assert said(env) == sentence
        env.simulator.faults.calm()
        env.until(lambda: said(env) == "", minutes=60)
        env.until(lambda: (of_class(env, "rented"), of_class(env, "another")) == ("", ""), minutes=2)
        assert env.living() == []


def test_an_order_of_unknown_outcome_is_said_on_the_class():
    """While the class itself counts no machine: its status shows what a provider confirmed."""
    with sim_env("held, maybe") as env:
        a_class(env.world, "rented")
        env.world.process("operator", operator_main(ALONE))
        env.world.run(minutes=3)
        env.simulator.faults.aim(CloudFault.HANG_UP_AFTER, CloudVerb.LAUNCH)
        env.wants(idleTimeout="Never")
        env.until(lambda: bool(env.living()), step=0.1)
        status = env.world.api.local_api.get(GPU_NODE_CLASS, "", "rented")["status"]
        assert status.get("activeNodes", 0) == 0
        assert of_class(env, "rented").startswith("1 machine costs $")


def test_what_allows_to_leave_is_copied_to_classes_and_taken_back():
    with sim_env("abandoned") as env:
        api = env.world.api.local_api
        a_class(env.world, "rented")
        a_class(env.world, "by-hand")
        api.merge_patch(GPU_NODE_CLASS, "", "by-hand", {"metadata": {"annotations": {ABANDON: "mine"}}})
        env.world.process("operator", operator_main(ALONE))

        def copies() -> dict[str, str | None]:
            found = (api.get(GPU_NODE_CLASS, "", name)["metadata"] for name in ("rented", "by-hand"))
            return {each["name"]: each.get("annotations", {}).get(ABANDON) for each in found}

        api.merge_patch(NAMESPACE, "", NAMESPACE_NAME, {"metadata": {"annotations": {ABANDON: "true"}}})
        env.until(lambda: copies() == {"rented": COPIED, "by-hand": "mine"}, minutes=2)
        api.merge_patch(NAMESPACE, "", NAMESPACE_NAME, {"metadata": {"annotations": {ABANDON: None}}})
        env.until(lambda: copies() == {"rented": None, "by-hand": "mine"}, minutes=2)


def test_without_any_class_the_operator_keeps_one_for_the_guard_alone():
    """Bought by the keys in the Secret. It serves no request, is no class to the operator, and follows what is held."""
    with sim_env("bare", "vultr") as env:
        api = env.world.api.local_api
        process = env.world.process("operator", operator_main(ALONE))
        env.world.run(minutes=3)
        assert api.get(GPU_NODE_CLASS, "", STAND_IN) is None
        env.wants(provider="vultr", gpuType="A100", idleTimeout="Never")
        env.until(lambda: bool(env.living()), step=0.1)
        assert of_class(env, STAND_IN).startswith("1 machine costs $")
        api.merge_patch(NAMESPACE, "", NAMESPACE_NAME, {"metadata": {"annotations": {ABANDON: "true"}}})
        env.until(lambda: env.phase() == "Ready", minutes=30)
        assert env.request()["status"]["nodeClass"] == IMPLICIT
        assert api.get(GPU_NODE_CLASS, "", STAND_IN)["metadata"]["annotations"][ABANDON] == COPIED
        api.delete(GPU_NODE_CLASS, "", STAND_IN)
        a_class(env.world, "written-later")
        env.until(lambda: of_class(env, "written-later").startswith("1 machine costs $"), minutes=2)
        api.delete(GPU_NODE_CLASS, "", "written-later")
        env.world.run(minutes=1)
        process.crash()
        env.world.process("operator again", operator_main(ALONE))
        env.until(lambda: api.get(GPU_NODE_CLASS, "", STAND_IN) is not None, minutes=5)
        env.drops()
        env.until(lambda: said(env) == "", minutes=30)
        env.world.run(minutes=1)
        assert of_class(env, STAND_IN) == ""
