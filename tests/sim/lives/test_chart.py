"""The state chart in docs/requests.md is the one that requests live by."""

from tests.house.test_requests_page import chart
from tests.sim.an_operator import a_class, operator_main
from tests.sim.lives.an_estate import Lives, lives
from tgp.sim.checkers.seen import Claim
from tgp.sim.checkers.witness import Checker, Witness
from tgp.sim.clouds.mishaps import Mishap, Verb
from tgp.sim.estate import Ailment

OUTSIDE = "[*]"  # before it was written, and after it is gone
RARE = {
    ("Pending", "Finished"),  # a machine lost in its last minutes, and nothing to replace it: told in tests/core
    ("Pending", "Booting"),  # a wiped status whose machine is adopted again: told in tests/sim/mutants/histories.py
}
AT_ANY_TIME = {(phase, OUTSIDE) for phase in ("Pending", "Terminating")}  # deleted by its owner


class Phases(Checker):
    """Every change of phase that any request ever made."""

    def __init__(self, witness: Witness) -> None:
        super().__init__(witness)
        self.seen: set[tuple[str, str]] = set()

    def claimed(self, before: Claim | None, after: Claim | None) -> None:
        edge = _phase(before), _phase(after)
        if edge[0] != edge[1]:
            self.seen.add(edge)


def _phase(claim: Claim | None) -> str:
    return claim.obj.get("status", {}).get("phase", OUTSIDE) if claim is not None else OUTSIDE


def test_requests_change_their_phase_as_the_chart_shows():
    quick = {"timeouts": {"launch": "2m", "boot": "1m", "join": "1m", "initialize": "2m"}}
    with lives("chart") as stage:
        phases = stage.witness.add(Phases(stage.witness))
        a_class(stage.world, "usual")
        a_class(stage.world, "quick", **quick)
        stage.world.process("operator", operator_main())
        stage.world.run(minutes=1)
        _fates(stage)
        stage.until(lambda: stage.phase("silent") == "Ready", minutes=8)
        stage.estate.fall_silent(stage.request("silent")["status"]["nodeName"])
        stage.world.run(minutes=30)
        for name in ("served", "silent", "early", "absent", "bare", "stuck"):
            stage.drops(name)
        stage.world.run(minutes=5)

        assert phases.seen - AT_ANY_TIME == chart() - RARE


def _fates(stage: Lives) -> None:
    """One request for each way through the chart."""
    for shop in stage.shops.values():
        for stand in shop.fleet.stands.values():
            stand.stock = 20
    ailments, mishaps = stage.estate.ailments, stage.shop.mishaps
    ailments.named |= {"absent": [Ailment.NEVER_REGISTERS], "bare": [Ailment.NO_GPUS]}
    stage.wants("dreamer", maxHourlyPrice="0.01", nodeClassRef={"name": "usual"})
    mishaps.aim(Mishap.SOLD_OUT, Verb.LAUNCH)
    stage.wants("sold-out", idleTimeout="5m", nodeClassRef={"name": "usual"})
    stage.world.run(minutes=1)
    for name in ("served", "silent"):
        stage.wants(name, idleTimeout="Never", nodeClassRef={"name": "usual"})
    for name in ("absent", "bare"):
        stage.wants(name, idleTimeout="Never", nodeClassRef={"name": "quick"})
    stage.world.run(minutes=1)
    stage.wants("early", idleTimeout="Never", nodeClassRef={"name": "usual"})
    stage.until(lambda: "instanceId" in (stage.request("early") or {}).get("status", {}), minutes=2, step=0.1)
    mishaps.aim(Mishap.ERROR, Verb.LIST, times=99)  # its Node comes while nobody can tell whether it runs
    stage.until(lambda: stage.phase("early") in ("Joining", "Ready"), minutes=8)
    mishaps.aimed.clear()
    mishaps.aim(Mishap.STUCK, Verb.LAUNCH, times=9)
    stage.wants("stuck", nodeClassRef={"name": "quick"})
