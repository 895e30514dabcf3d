"""A machine that no request owns, at a provider that does not end it: somebody is told, and told when it is over."""

from tests.sim.an_operator import a_class, operator_main
from tests.sim.lives.an_estate import lives
from tgp.api.resource import EVENT, GPU_NODE_CLASS, GPU_REQUEST
from tgp.core.model.token import plain_uid
from tgp.sim.checkers.everyone import INVARIANTS
from tgp.sim.checkers.money import NoOrphan
from tgp.sim.clouds.mishaps import Mishap, Verb


def stays(stage):
    rows = stage.world.api.backstage.get(GPU_NODE_CLASS, "", "rented")["status"]["conditions"]
    return next((row for row in rows if row["type"] == "OrphanStays"), None)


def test_the_class_says_which_machine_does_not_end_and_what_it_costs():
    """The invariant about orphans is not asked here: nobody can end what its provider keeps."""
    with lives("stuck", invariants=[each for each in INVARIANTS if each is not NoOrphan]) as stage:
        a_class(stage.world, "rented")
        stage.world.process("operator", operator_main())
        stage.world.run(minutes=2)
        stage.wants(idleTimeout="Never")
        stage.until(lambda: stage.phase() == "Ready", minutes=15)
        (machine,) = stage.living()
        stage.witness.forced[plain_uid(stage.request()["metadata"]["uid"])] = None
        stage.shop.mishaps.aim(Mishap.ERROR, Verb.TERMINATE, times=30)
        stage.drops()
        stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        stage.until(lambda: stays(stage) is not None, minutes=15)

        assert stays(stage)["reason"] == "TerminationFailing"
        assert machine.id in stays(stage)["message"]
        assert "/h and does not end" in stays(stage)["message"]
        told = [each for each in stage.world.api.backstage.objects(EVENT) if each["reason"] == "TerminationFailing"]
        assert [(each["regarding"]["kind"], each["type"]) for each in told] == [("GPUNodeClass", "Warning")]

        stage.until(lambda: stage.living() == [], minutes=60)
        stage.until(lambda: stays(stage) is None, minutes=15)
