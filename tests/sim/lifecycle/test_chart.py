"""The state chart in docs/requests.md is the one that requests live by."""

from tests.project.test_requests_page import chart
from tests.sim.an_operator import LONE, a_class, operator_main
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tgp.sim.checkers.recorded import RecordedRequest
from tgp.sim.checkers.recorder import Checker, Recorder
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.node_bootstrap import NodeFault

OUTSIDE = "[*]"  # before it was written, and after it is gone
RARE = {
    ("Pending", "Finished"),  # a machine lost in its last minutes, and nothing to replace it: told in tests/core
    ("Pending", "Booting"),  # a wiped status whose machine is adopted again: told in lost_state_histories.py
}
AT_ANY_TIME = {(phase, OUTSIDE) for phase in ("Pending", "Terminating")}  # deleted by its owner


class Phases(Checker):
    """Every change of phase that any request ever made."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self.seen: set[tuple[str, str]] = set()

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        edge = _phase(before), _phase(after)
        if edge[0] != edge[1]:
            self.seen.add(edge)


def _phase(claim: RecordedRequest | None) -> str:
    return claim.obj.get("status", {}).get("phase", OUTSIDE) if claim is not None else OUTSIDE


def test_requests_change_their_phase_as_the_chart_shows():
    quick = {"timeouts": {"launch": "2m", "boot": "1m", "join": "1m", "initialize": "2m"}}
    with sim_env("chart") as env:
        phases = env.recorder.add(Phases(env.recorder))
        a_class(env.world, "usual")
        a_class(env.world, "quick", **quick)
        a_class(env.world, "unhurried", timeouts={"launch": "15m", "boot": "1m", "join": "1m"})
        env.world.process("operator", operator_main(LONE))
        env.world.run(minutes=1)
        _fates(env)
        env.until(lambda: env.phase("silent") == "Ready", minutes=8)
        env.node_bootstrap.fall_silent(env.request("silent")["status"]["nodeName"])
        env.world.run(minutes=30)
        env.until(lambda: env.phase("stuck") == "Failed", minutes=240)
        for name in ("served", "silent", "early", "absent", "unjoined", "bare", "stuck"):
            env.drops(name)
        env.world.run(minutes=5)

        assert phases.seen - AT_ANY_TIME == chart() - RARE


def _fates(env: SimEnv) -> None:
    """One request for each way through the chart."""
    for simulator in env.simulators.values():
        for stand in simulator.fleet.stands.values():
            stand.stock = 20
    node_faults, cloud_faults = env.node_bootstrap.node_faults, env.simulator.faults
    node_faults.named |= {name: [NodeFault.NEVER_REGISTERS] for name in ("absent", "unjoined")}
    node_faults.named["bare"] = [NodeFault.NO_GPUS]
    env.wants("dreamer", maxHourlyPrice="0.01", nodeClassRef={"name": "usual"})
    cloud_faults.aim(CloudFault.SOLD_OUT, CloudVerb.LAUNCH)
    env.wants("sold-out", idleTimeout="5m", nodeClassRef={"name": "usual"})
    env.world.run(minutes=1)
    for name in ("served", "silent"):
        env.wants(name, idleTimeout="Never", nodeClassRef={"name": "usual"})
    for name in ("absent", "bare"):
        env.wants(name, idleTimeout="Never", nodeClassRef={"name": "quick"})
    env.world.run(minutes=1)
    env.wants("early", idleTimeout="Never", nodeClassRef={"name": "usual"})
    env.until(lambda: "instanceId" in (env.request("early") or {}).get("status", {}), minutes=2, step=0.1)
    # its Node registers while no list can show whether it runs
    cloud_faults.aim(CloudFault.ERROR, CloudVerb.LIST, times=99)
    env.until(lambda: env.phase("early") in ("Joining", "Ready"), minutes=8)
    cloud_faults.aimed.clear()
    # it runs, lists show that, and its Node never registers
    env.wants("unjoined", idleTimeout="Never", nodeClassRef={"name": "unhurried"})
    env.until(lambda: env.phase("unjoined") == "Booting", minutes=15)
    cloud_faults.aim(CloudFault.STUCK, CloudVerb.LAUNCH, times=99)
    env.wants("stuck", nodeClassRef={"name": "quick"})
