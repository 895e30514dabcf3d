"""Machines that were fine stay: whatever another request is called, and whatever a tailnet says of all at once."""

from tests.sim.joining.a_tailnet import a_tailnet_class, joining
from tests.sim.joining.test_joining import on_stage, ready
from tgp.sim.mesh.mesh_faults import MeshFault


def test_of_two_requests_with_one_hostname_the_second_waits_and_takes_nothing_from_the_first():
    with joining("one hostname") as env:
        on_stage(env)
        named = {"talosConfig": {"tailscaleConfig": {"hostname": "trainer"}}, "idleTimeout": "Never"}
        env.wants("first", **named)
        env.wants("second", **named)
        env.until(lambda: "Ready" in (env.phase("first"), env.phase("second")))
        env.world.run(minutes=45)
        holder, waiting = ("first", "second") if env.phase("first") == "Ready" else ("second", "first")
        assert (env.phase(holder), env.phase(waiting)) == ("Ready", "Pending")
        assert len(env.attempts(holder)) == 1
        assert "HostnameTaken" in (env.request(waiting) or {})["status"]["message"]
        assert env.hostnames() == ["trainer"]
        env.drops(holder)
        ready(env, waiting)


def test_a_tailnet_that_knows_none_of_many_machines_ends_none_of_them():
    """The credentials are another tailnet's now, say: every Node is as well as before."""
    with joining("another tailnet", invariants=()) as env:
        a_tailnet_class(env)
        env.operate()
        env.world.run(seconds=60)
        names = [f"train-{number}" for number in range(4)]
        for name in names:
            env.wants(name, idleTimeout="Never")
        for name in names:
            ready(env, name)
        for seat in list(env.tailnet.devices()):
            env.tailnet.remove(seat.id)
        env.until(lambda: env.condition("Connected", names[0])[:2] == ("False", "DeviceUnknown"))
        env.world.run(seconds=3600)
        assert len(env.living()) == 4
        assert {env.attempts(name)[-1]["outcome"] for name in names} == {"Launched"}
        assert "no machine is terminated" in env.condition("Ready", names[0])[2]


def test_an_order_that_waits_for_the_tailnet_says_so():
    with joining("no answer") as env:
        on_stage(env)
        env.tailscale.faults.chances[MeshFault.ERROR] = 1.0
        env.wants()
        env.until(lambda: env.condition("Launched")[1] == "Preparing", minutes=10)
        assert "the mesh does not answer" in (env.request() or {})["status"]["message"]
        before = (env.request() or {})["metadata"]["resourceVersion"]
        env.world.run(seconds=240)
        assert (env.request() or {})["metadata"]["resourceVersion"] == before  # said once
        assert env.living() == []
        env.tailscale.faults.calm()
        ready(env)
