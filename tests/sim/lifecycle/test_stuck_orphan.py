"""A machine that no request owns, at a provider that does not terminate it: reported, and reported when it is over."""

from tests.sim.an_operator import ALONE, a_class, operator_main
from tests.sim.lifecycle.a_world import sim_env
from tgp.api.resource import EVENT, GPU_NODE_CLASS, GPU_REQUEST
from tgp.core.model.token import plain_uid
from tgp.sim.checkers.money import NoOrphan
from tgp.sim.checkers.registry import INVARIANTS
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb


def stays(env):
    rows = env.world.api.local_api.get(GPU_NODE_CLASS, "", "rented")["status"]["conditions"]
    return next((row for row in rows if row["type"] == "OrphanTerminationFailing"), None)


def test_the_class_says_which_machine_does_not_end_and_what_it_costs():
    """The invariant about orphans is not asked here: no client can terminate what its provider keeps."""
    with sim_env("stuck", invariants=[each for each in INVARIANTS if each is not NoOrphan]) as env:
        a_class(env.world, "rented")
        env.world.process("operator", operator_main(ALONE))
        env.world.run(minutes=2)
        env.wants(idleTimeout="Never")
        env.until(lambda: env.phase() == "Ready", minutes=15)
        (machine,) = env.living()
        env.recorder.forced[plain_uid(env.request()["metadata"]["uid"])] = None
        env.simulator.faults.aim(CloudFault.ERROR, CloudVerb.TERMINATE, times=30)
        env.drops()
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        env.until(lambda: stays(env) is not None, minutes=15)

        assert stays(env)["reason"] == "TerminationFailing"
        assert machine.id in stays(env)["message"]
        assert "owned by no request and still billed at" in stays(env)["message"]
        told = [each for each in env.world.api.local_api.objects(EVENT) if each["reason"] == "TerminationFailing"]
        assert [(each["regarding"]["kind"], each["type"]) for each in told] == [("GPUNodeClass", "Warning")]

        env.until(lambda: env.living() == [], minutes=60)
        env.until(lambda: stays(env) is None, minutes=15)
