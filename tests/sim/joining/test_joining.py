"""From a request to a node of the cluster over a tailnet, and back; and everything that can go wrong on the way in."""

import json

from tests.sim.an_operator import NAMESPACE_NAME
from tests.sim.joining.a_tailnet import TAG, Joining, a_tailnet_class, joining
from tgp.api.resource import CONFIG_MAP, GPU_REQUEST, NODE, SECRET
from tgp.sim.mesh.mesh_faults import MeshFault
from tgp.sim.node_bootstrap import NodeFault


def on_stage(env: Joining, **spec: object) -> None:
    a_tailnet_class(env, **spec)
    env.operate()
    env.world.run(seconds=60)


def ready(env: Joining, name: str = "train") -> str:
    """The Node's name, once it is ready."""
    env.until(lambda: env.phase(name) == "Ready")
    found = env.request(name)
    assert found is not None
    return str(found["status"]["nodeName"])


def test_a_machine_joins_over_the_tailnet_and_leaves_nothing_behind():
    with joining("whole life") as env:
        on_stage(env)
        env.wants()
        node = ready(env)
        status = (env.request() or {})["status"]
        device = env.tailnet.devices()[0]
        assert (device.hostname, device.tags, device.ephemeral) == (node, (TAG,), True)
        assert status["meshHostname"] == env.tailnet.name_of(device)
        assert status["meshAddress"] == device.addresses[0]
        assert env.condition("Connected")[:2] == ("True", "Connected")
        env.until(lambda: "tgp.io/mesh-hostname" in (env.node(node) or {})["metadata"]["annotations"], minutes=2)
        annotations = (env.node(node) or {})["metadata"]["annotations"]
        assert annotations["tgp.io/mesh-hostname"] == status["meshHostname"]
        assert annotations["tgp.io/mesh-address"] == status["meshAddress"]
        assert env.bootstrap_tokens() == []  # it has joined
        assert env.open_keys() == []  # burned
        assert env.book()[node].joined

        env.drops()
        env.until(lambda: env.phase() == "gone")
        assert env.nothing_is_left()
        assert env.nodes() == []


def test_no_secret_of_joining_is_written_anywhere():
    with joining("secrets") as env:
        on_stage(env)
        env.wants()
        ready(env)
        keys = [key.secret for key in env.tailnet.keys.values()]
        join = env.world.api.local_api.get(SECRET, NAMESPACE_NAME, "tgp-join") or {}
        hidden = [*keys, *(str(value) for name, value in join["data"].items() if "ca.crt" not in name)]
        for resource in (GPU_REQUEST, NODE, CONFIG_MAP):
            for found in env.world.api.local_api.objects(resource):
                text = json.dumps(found)
                assert not [value for value in hidden if value in text], found["metadata"]["name"]


def test_a_machine_that_never_comes_into_the_tailnet_is_terminated_and_its_key_opens_nothing():
    with joining("never meshed") as env:
        on_stage(env)
        env.node_bootstrap.node_faults.aim(NodeFault.NEVER_MESHED)
        env.wants()
        env.until(lambda: env.condition("Connected")[1] == "DeviceMissing")
        first = next(iter(env.tailnet.keys.values()))
        ready(env)
        failed = env.attempts()[0]
        assert failed["outcome"] == "Failed"
        assert "tailnet does not list" in failed["message"]
        assert not env.tailnet.is_valid(first)
        assert len(env.hostnames()) == 1
        assert len(env.book()) == 1


def test_a_node_that_registers_outside_the_mesh_is_not_called_ready():
    with joining("wrong address") as env:
        on_stage(env, timeouts={"initialize": "5m"})
        env.node_bootstrap.node_faults.aim(NodeFault.WRONG_ADDRESS)
        env.wants()
        env.until(lambda: env.condition("Ready")[1] == "WrongAddress")
        assert "not with an address of the tailnet (100.64.0.0/10" in env.condition("Ready")[2]
        ready(env)  # the next one is well
        assert "registered with" in env.attempts()[0]["message"]


def test_a_machine_whose_device_is_removed_is_lost_and_replaced_only_where_that_was_asked_for():
    with joining("mesh lost") as env:
        on_stage(env)
        env.node_bootstrap.node_faults.aim(NodeFault.MESH_LOST)
        env.wants(idleTimeout="Never")
        ready(env)
        env.until(lambda: env.condition("Connected")[:2] == ("False", "DeviceUnknown"))
        assert env.phase() == "Joining"
        env.until(lambda: env.phase() == "Failed")
        assert "does not list" in (env.request() or {})["status"]["message"]
        assert len(env.attempts()) == 1
        assert env.nothing_is_left()


def test_a_tailnet_that_does_not_answer_ends_no_machine_and_holds_up_no_end():
    with joining("silent tailnet") as env:
        on_stage(env)
        env.wants(idleTimeout="Never")
        ready(env)
        env.tailscale.faults.chances[MeshFault.ERROR] = 1.0
        env.world.run(seconds=3600)
        assert env.phase() == "Ready"
        env.drops()
        env.until(lambda: env.phase() == "gone")
        assert env.hostnames()  # it could not be removed
        env.tailscale.faults.calm()
        env.until(env.nothing_is_left, minutes=60)


def test_what_was_deleted_by_force_leaves_the_tailnet_all_the_same():
    with joining("forced away", invariants=()) as env:
        on_stage(env)
        env.wants()
        ready(env)
        assert env.replica is not None
        env.replica.stop()
        local_api = env.world.api.local_api
        local_api.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        env.drops()
        env.operate("next")
        env.until(env.nothing_is_left, minutes=60)
        env.until(lambda: env.living() == [], minutes=60)


def test_another_device_of_that_name_is_not_ours():
    with joining("names") as env:
        stranger = env.tailnet.add("trainer", (TAG,))
        on_stage(env)
        env.world.run(seconds=60)
        env.wants(talosConfig={"tailscaleConfig": {"hostname": "trainer"}})
        ready(env)
        assert env.hostnames() == ["trainer", "trainer"]
        assert (env.request() or {})["status"]["meshHostname"].startswith("trainer-1.")
        env.drops()
        env.until(lambda: env.phase() == "gone")
        assert [seat.id for seat in env.tailnet.devices()] == [stranger.id]


def test_a_class_without_its_join_secret_says_which_keys_are_missing_and_buys_nothing():
    with joining("no join secret") as env:
        env.world.api.local_api.delete(SECRET, NAMESPACE_NAME, "tgp-join")
        on_stage(env)
        env.wants()
        env.world.run(seconds=600)
        assert env.living() == []
        message = (env.request() or {})["status"]["message"]
        assert "JoinSecretMissing" in message
        assert "machine-token" in message
        assert "tgp talos join-secret" in message


def test_a_book_that_was_lost_is_written_again_and_the_device_still_leaves_with_its_machine():
    with joining("lost book") as env:
        on_stage(env)
        env.wants(idleTimeout="Never")
        node = ready(env)
        assert env.replica is not None
        env.replica.stop()
        env.world.api.local_api.delete(CONFIG_MAP, NAMESPACE_NAME, "tgp-boot")
        env.operate("next")
        env.until(lambda: node in env.book(), minutes=10)
        env.world.run(seconds=600)
        assert env.condition("Connected")[0] == "True"
        env.drops()
        env.until(lambda: env.phase() == "gone")
        assert env.nothing_is_left()


def test_a_mesh_that_cannot_be_asked_delays_the_first_ready_and_not_for_ever():
    with joining("mesh silent at first") as env:
        on_stage(env, timeouts={"initialize": "5m"})
        env.wants()
        env.until(lambda: len(env.living()) == 1)
        env.tailscale.faults.chances[MeshFault.ERROR] = 1.0
        env.until(lambda: env.condition("Connected")[1] == "MeshUnreachable")
        env.until(lambda: env.condition("Terminating")[1] == "NeverInitialized", minutes=60)
        env.tailscale.faults.calm()
        ready(env)
        assert env.attempts()[0]["outcome"] == "Failed"
