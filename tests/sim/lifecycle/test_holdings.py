"""The sentence on the operator's Namespace follows the machines, also those without a request and after a restart."""

from tests.sim.an_operator import ALONE, NAMESPACE_NAME, a_class, operator_main, writes
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE
from tgp.core.inventory.holdings import ABANDON, COPIED, HOLDINGS
from tgp.core.model.token import plain_uid
from tgp.sim.checkers.money import NoOrphan
from tgp.sim.checkers.registry import INVARIANTS
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb


def said(env: SimEnv) -> str:
    found = env.world.api.local_api.get(NAMESPACE, "", NAMESPACE_NAME)
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


def test_a_machine_without_a_request_counts_also_for_the_next_process():
    """The invariant about orphans is not asked: this provider does not terminate."""
    with sim_env("held by nobody", invariants=[each for each in INVARIANTS if each is not NoOrphan]) as env:
        a_class(env.world, "rented")
        process = env.world.process("operator", operator_main(ALONE))
        env.wants(idleTimeout="Never")
        env.until(lambda: env.phase() == "Ready", minutes=15)
        sentence = said(env)
        env.recorder.forced[plain_uid(env.request()["metadata"]["uid"])] = None
        env.simulator.faults.aim(CloudFault.ERROR, CloudVerb.TERMINATE, times=60)
        env.drops()
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        for _ in range(120):
            env.world.run(seconds=1)
            assert said(env) == sentence
        process.crash()
        for _ in range(60):
            env.world.run(seconds=5)
            assert said(env) == sentence
        env.simulator.faults.calm()
        env.until(lambda: said(env) == "", minutes=60)
        assert env.living() == []


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
