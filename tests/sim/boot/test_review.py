"""Machines that were fine stay: whatever another request is called, and whatever a tailnet says of all at once."""

from tests.sim.boot.a_tailnet import a_tailnet_class, joining
from tests.sim.boot.test_joining import on_stage, ready
from tgp.sim.mesh.mishaps import MeshMishap


def test_of_two_requests_with_one_hostname_the_second_waits_and_takes_nothing_from_the_first():
    with joining("one hostname") as stage:
        on_stage(stage)
        named = {"talosConfig": {"tailscaleConfig": {"hostname": "trainer"}}, "idleTimeout": "Never"}
        stage.wants("first", **named)
        stage.wants("second", **named)
        stage.until(lambda: "Ready" in (stage.phase("first"), stage.phase("second")))
        stage.world.run(seconds=3 * 3600)
        holder, waiting = ("first", "second") if stage.phase("first") == "Ready" else ("second", "first")
        assert (stage.phase(holder), stage.phase(waiting)) == ("Ready", "Pending")
        assert len(stage.attempts(holder)) == 1
        assert "HostnameTaken" in (stage.request(waiting) or {})["status"]["message"]
        assert stage.hostnames() == ["trainer"]
        stage.drops(holder)
        ready(stage, waiting)


def test_a_tailnet_that_knows_none_of_many_machines_ends_none_of_them():
    """The credentials are another tailnet's now, say: every Node is as well as before."""
    with joining("another tailnet", invariants=()) as stage:
        a_tailnet_class(stage)
        stage.operate()
        stage.world.run(seconds=60)
        names = [f"train-{number}" for number in range(4)]
        for name in names:
            stage.wants(name, idleTimeout="Never")
        for name in names:
            ready(stage, name)
        for seat in list(stage.tailnet.devices()):
            stage.tailnet.remove(seat.id)
        stage.until(lambda: stage.condition("Connected", names[0])[:2] == ("False", "DeviceUnknown"))
        stage.world.run(seconds=3600)
        assert len(stage.living()) == 4
        assert {stage.attempts(name)[-1]["outcome"] for name in names} == {"Launched"}
        assert "nothing is ended" in stage.condition("Ready", names[0])[2]


def test_an_order_that_waits_for_the_tailnet_says_so():
    with joining("no answer") as stage:
        on_stage(stage)
        stage.tailscale.mishaps.chances[MeshMishap.ERROR] = 1.0
        stage.wants()
        stage.until(lambda: stage.condition("Launched")[1] == "Preparing", minutes=10)
        assert "the mesh does not answer" in (stage.request() or {})["status"]["message"]
        before = (stage.request() or {})["metadata"]["resourceVersion"]
        stage.world.run(seconds=240)
        assert (stage.request() or {})["metadata"]["resourceVersion"] == before  # said once
        assert stage.living() == []
        stage.tailscale.mishaps.calm()
        ready(stage)
