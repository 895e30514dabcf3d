"""From a request to a node of the cluster over a tailnet, and back; and everything that can go wrong on the way in."""

import json

from tests.sim.an_operator import NAMESPACE_NAME
from tests.sim.boot.a_tailnet import TAG, Joining, a_tailnet_class, joining
from tgp.api.resource import CONFIG_MAP, GPU_REQUEST, NODE, SECRET
from tgp.sim.estate import Ailment
from tgp.sim.mesh.mishaps import MeshMishap


def on_stage(stage: Joining, **spec: object) -> None:
    a_tailnet_class(stage, **spec)
    stage.operate()
    stage.world.run(seconds=60)


def ready(stage: Joining, name: str = "train") -> str:
    """The Node's name, once it is ready."""
    stage.until(lambda: stage.phase(name) == "Ready")
    found = stage.request(name)
    assert found is not None
    return str(found["status"]["nodeName"])


def test_a_machine_joins_over_the_tailnet_and_leaves_nothing_behind():
    with joining("whole life") as stage:
        on_stage(stage)
        stage.wants()
        node = ready(stage)
        status = (stage.request() or {})["status"]
        device = stage.tailnet.devices()[0]
        assert (device.hostname, device.tags, device.ephemeral) == (node, (TAG,), True)
        assert status["meshHostname"] == stage.tailnet.name_of(device)
        assert status["meshAddress"] == device.addresses[0]
        assert stage.condition("Connected")[:2] == ("True", "Connected")
        stage.until(lambda: "tgp.io/mesh-hostname" in (stage.node(node) or {})["metadata"]["annotations"], minutes=2)
        annotations = (stage.node(node) or {})["metadata"]["annotations"]
        assert annotations["tgp.io/mesh-hostname"] == status["meshHostname"]
        assert annotations["tgp.io/mesh-address"] == status["meshAddress"]
        assert stage.bootstrap_tokens() == []  # it has joined
        assert stage.open_keys() == []  # burned
        assert stage.book()[node].joined

        stage.drops()
        stage.until(lambda: stage.phase() == "gone")
        assert stage.nothing_is_left()
        assert stage.nodes() == []


def test_no_secret_of_joining_is_written_anywhere():
    with joining("secrets") as stage:
        on_stage(stage)
        stage.wants()
        ready(stage)
        keys = [key.secret for key in stage.tailnet.keys.values()]
        join = stage.world.api.backstage.get(SECRET, NAMESPACE_NAME, "tgp-join") or {}
        hidden = [*keys, *(str(value) for name, value in join["data"].items() if "ca.crt" not in name)]
        for resource in (GPU_REQUEST, NODE, CONFIG_MAP):
            for found in stage.world.api.backstage.objects(resource):
                text = json.dumps(found)
                assert not [value for value in hidden if value in text], found["metadata"]["name"]


def test_a_machine_that_never_comes_into_the_tailnet_is_given_back_and_its_key_opens_nothing():
    with joining("never meshed") as stage:
        on_stage(stage)
        stage.estate.ailments.aim(Ailment.NEVER_MESHED)
        stage.wants()
        stage.until(lambda: stage.condition("Connected")[1] == "DeviceMissing")
        first = next(iter(stage.tailnet.keys.values()))
        ready(stage)
        failed = stage.attempts()[0]
        assert failed["outcome"] == "Failed"
        assert "the tailnet does not know" in failed["message"]
        assert not stage.tailnet.is_valid(first)
        assert len(stage.hostnames()) == 1
        assert len(stage.book()) == 1


def test_a_node_that_registers_outside_the_mesh_is_not_called_ready():
    with joining("wrong address") as stage:
        on_stage(stage, timeouts={"initialize": "5m"})
        stage.estate.ailments.aim(Ailment.WRONG_ADDRESS)
        stage.wants()
        stage.until(lambda: stage.condition("Ready")[1] == "WrongAddress")
        assert "not with an address of the tailnet (100.64.0.0/10" in stage.condition("Ready")[2]
        ready(stage)  # the next one is well
        assert "registered with" in stage.attempts()[0]["message"]


def test_a_machine_whose_device_is_removed_is_lost_and_replaced_only_where_that_was_asked_for():
    with joining("mesh lost") as stage:
        on_stage(stage)
        stage.estate.ailments.aim(Ailment.MESH_LOST)
        stage.wants(idleTimeout="Never")
        ready(stage)
        stage.until(lambda: stage.condition("Connected")[:2] == ("False", "DeviceUnknown"))
        assert stage.phase() == "Joining"
        stage.until(lambda: stage.phase() == "Failed")
        assert "does not list" in (stage.request() or {})["status"]["message"]
        assert len(stage.attempts()) == 1
        assert stage.nothing_is_left()


def test_a_tailnet_that_does_not_answer_ends_no_machine_and_holds_up_no_end():
    with joining("silent tailnet") as stage:
        on_stage(stage)
        stage.wants(idleTimeout="Never")
        ready(stage)
        stage.tailscale.mishaps.chances[MeshMishap.ERROR] = 1.0
        stage.world.run(seconds=3600)
        assert stage.phase() == "Ready"
        stage.drops()
        stage.until(lambda: stage.phase() == "gone")
        assert stage.hostnames()  # nobody could remove it
        stage.tailscale.mishaps.calm()
        stage.until(stage.nothing_is_left, minutes=60)


def test_what_somebody_forced_away_leaves_the_tailnet_all_the_same():
    with joining("forced away", invariants=()) as stage:
        on_stage(stage)
        stage.wants()
        ready(stage)
        assert stage.replica is not None
        stage.replica.crash()
        backstage = stage.world.api.backstage
        backstage.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        stage.drops()
        stage.operate("next")
        stage.until(stage.nothing_is_left, minutes=60)
        stage.until(lambda: stage.living() == [], minutes=60)


def test_another_device_of_that_name_is_nobody_of_ours():
    with joining("names") as stage:
        stranger = stage.tailnet.add("trainer", (TAG,))
        on_stage(stage)
        stage.world.run(seconds=60)
        stage.wants(talosConfig={"tailscaleConfig": {"hostname": "trainer"}})
        ready(stage)
        assert stage.hostnames() == ["trainer", "trainer"]
        assert (stage.request() or {})["status"]["meshHostname"].startswith("trainer-1.")
        stage.drops()
        stage.until(lambda: stage.phase() == "gone")
        assert [seat.id for seat in stage.tailnet.devices()] == [stranger.id]


def test_a_class_without_its_join_secret_says_which_keys_are_missing_and_buys_nothing():
    with joining("no join secret") as stage:
        stage.world.api.backstage.delete(SECRET, NAMESPACE_NAME, "tgp-join")
        on_stage(stage)
        stage.wants()
        stage.world.run(seconds=600)
        assert stage.living() == []
        message = (stage.request() or {})["status"]["message"]
        assert "JoinSecretMissing" in message
        assert "machine-token" in message
        assert "tgp talos join-secret" in message


def test_a_book_that_was_lost_is_written_anew_and_the_device_still_leaves_with_its_machine():
    with joining("lost book") as stage:
        on_stage(stage)
        stage.wants(idleTimeout="Never")
        node = ready(stage)
        assert stage.replica is not None
        stage.replica.crash()
        stage.world.api.backstage.delete(CONFIG_MAP, NAMESPACE_NAME, "tgp-boot")
        stage.operate("next")
        stage.until(lambda: node in stage.book(), minutes=10)
        stage.world.run(seconds=600)
        assert stage.condition("Connected")[0] == "True"
        stage.drops()
        stage.until(lambda: stage.phase() == "gone")
        assert stage.nothing_is_left()


def test_a_mesh_that_cannot_be_asked_delays_the_first_ready_and_not_for_ever():
    with joining("mesh silent at first") as stage:
        on_stage(stage, timeouts={"initialize": "5m"})
        stage.wants()
        stage.until(lambda: len(stage.living()) == 1)
        stage.tailscale.mishaps.chances[MeshMishap.ERROR] = 1.0
        stage.until(lambda: stage.condition("Connected")[1] == "MeshUnreachable")
        stage.until(lambda: stage.condition("Terminating")[1] == "NeverInitialized", minutes=60)
        stage.tailscale.mishaps.calm()
        ready(stage)
        assert stage.attempts()[0]["outcome"] == "Failed"
