"""`tgp doctor node/NAME`: one machine link by link, with the user's own rights."""

import json
from collections.abc import Iterator

import click
import pytest

from tests.cli.boot_world import Person, refusal
from tests.cli.sample_requests import drawn
from tests.sim.joining.a_tailnet import Joining, a_tailnet_class, joining
from tgp.api.resource import GPU_REQUEST, LEASE, NODE, SECRET
from tgp.app.main import tgp
from tgp.core.reports.path_check import PathLink
from tgp.interfaces.cli.doctor_one import render
from tgp.ports.http import Reply
from tgp.services.documents.connectivity import Examination

ORDER = ["request", "machine", "mesh", "Node", "Lease", "kubelet"]


@pytest.fixture
def stage() -> Iterator[Joining]:
    """With a machine that is ready."""
    with joining("looked at") as found:
        a_tailnet_class(found)
        found.operate()
        found.world.run(seconds=60)
        found.wants()
        found.until(lambda: found.phase() == "Ready")
        yield found


@pytest.fixture
def node(stage: Joining) -> str:
    return str((stage.request() or {})["status"]["nodeName"])


@pytest.fixture
def person(stage: Joining) -> Person:
    return Person(stage.world)


def links(person: Person, name: str) -> dict[str, tuple[str, str]]:
    told = json.loads(person.tgp("doctor", name, "-o", "json").output)
    return {link["name"]: (link["kind"], link["message"]) for link in told["links"]}


def test_a_machine_that_is_well_is_well_link_by_link(person, stage, node):
    result = person.tgp("doctor", f"node/{node}")
    found = links(person, f"node/{node}")

    assert result.exit_code == 0, result.output
    assert "No problems, from the request to the kubelet." in result.output
    assert list(found) == ORDER
    assert {kind for kind, _ in found.values()} == {"ok"}
    assert stage.tailnet.devices()[0].addresses[0] in found["mesh"][1]


def test_a_request_is_the_same_machine_by_another_name(person, node):
    assert links(person, "request/default/train") == links(person, f"node/{node}") == links(person, "gr/train")


def test_a_kubelet_that_the_api_server_cannot_reach_is_told_with_its_address_and_the_grants(person, node, stage):
    person.kubelet = refusal(503, "error trying to reach service: dial tcp 100.64.0.7:10250: i/o timeout")
    result = person.tgp("doctor", f"node/{node}")

    assert result.exit_code == 1
    assert f"cannot reach {stage.tailnet.devices()[0].addresses[0]}:10250" in result.output
    assert "i/o timeout" in result.output
    assert "tgp mesh policy" in result.output


def test_who_may_not_ask_is_told_so_and_nothing_is_concluded(person, node):
    person.kubelet = refusal(403, 'nodes "x" is forbidden: User "ada" cannot get resource "nodes/proxy"')
    result = person.tgp("doctor", f"node/{node}")

    assert result.exit_code == 2
    assert "you may not get nodes/proxy" in result.output
    assert "unknown: kubelet" in result.output


def test_a_kubelet_of_another_cluster_is_no_question_of_rights(person, node):
    person.kubelet = Reply(401, b"Unauthorized")

    assert links(person, f"node/{node}")["kubelet"][0] == "broken"


def test_without_the_secrets_the_mesh_is_not_asked_and_the_address_is_looked_at_all_the_same(person, node):
    person.forbidden = "/secrets/tgp-operator-secret"
    found = links(person, f"node/{node}")

    assert found["mesh"] == ("unknown", "the mesh was not asked: you may not read Secret tgp-operator-secret")
    assert found["address"][0] == "ok"


def test_without_the_join_record_the_way_it_joined_is_unknown(person, node):
    person.forbidden = "/configmaps/tgp-boot"

    assert links(person, f"node/{node}")["mesh"][0] == "unknown"


def test_a_removed_device_is_named(person, node, stage):
    for seat in stage.tailnet.devices():
        stage.tailnet.remove(seat.id)
    kind, words = links(person, f"node/{node}")["mesh"]

    assert kind == "broken"
    assert "its device may have been removed" in words


def test_a_silent_kubelet_is_told_by_its_lease(person, node, stage):
    long_ago = {"spec": {"renewTime": "2020-01-01T00:00:00.000000Z", "leaseDurationSeconds": 40}}
    stage.world.api.local_api.merge_patch(LEASE, "kube-node-lease", node, long_ago)
    kind, words = links(person, f"node/{node}")["Lease"]

    assert kind == "broken"
    assert "last renewed its Lease" in words


def test_a_node_that_was_not_rented_is_looked_at_as_far_as_it_goes(person, stage):
    stage.world.api.local_api.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cellar"}})
    found = links(person, "node/cellar")

    assert found["request"] == ("ok", "none: this Node was not rented")
    assert set(found) == {"request", "Node", "Lease", "kubelet"}


def test_a_rented_node_without_its_request_is_a_leftover(person, stage):
    spec = {"providerID": "tgp://simulated/tgp-0123456789-0-1"}
    stage.world.api.local_api.create(
        NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "left"}, "spec": spec}
    )

    assert links(person, "node/left")["request"][0] == "broken"


def test_an_unknown_name_comes_with_the_nearest(person, node):
    result = person.tgp("doctor", f"node/{node[:-1]}")

    assert result.exit_code == 2
    assert f"did you mean node/{node}?" in result.output
    assert person.tgp("doctor", "request/default/trian").exit_code == 2
    assert person.tgp("doctor", "pod/x").exit_code == 2
    assert person.tgp("doctor", f"node/{node}", "--fix").exit_code == 2


def test_a_machine_on_its_way_tells_what_is_missing():
    with joining("on its way") as stage:
        a_tailnet_class(stage)
        stage.operate()
        stage.world.run(seconds=60)
        stage.wants()
        stage.until(lambda: bool(stage.book()), step=1)
        found = links(Person(stage.world), "request/default/train")

        assert found["mesh"][0] == "broken"
        assert "does not list" in found["mesh"][1]
        assert found["Node"][0] == "broken"
        assert "kubelet" not in found


def test_a_request_that_is_finished_is_not_broken(person, stage):
    """Its machine is gone as planned: there is nothing to fix, and the exit code says so."""
    person.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", {"spec": {"idleTimeout": "1m"}})
    stage.until(lambda: stage.phase() == "Finished")
    result = person.tgp("doctor", "request/default/train")

    assert result.exit_code == 0, result.output
    assert "No problems: default/train is Finished: the machine is gone" in result.output
    assert "Broken" not in result.output


def test_no_secret_is_told(person, node, stage):
    told = person.tgp("doctor", f"node/{node}", "-o", "json").output
    secrets = stage.world.api.local_api.objects(SECRET, "tgp-system")

    assert stage.tailscale.client.secret not in told
    assert all(value not in told for each in secrets for key, value in each["data"].items() if "secret" in key)


def test_a_fix_is_written_as_the_program_was_called():
    """By kubectl's plugin, for the cluster that was named."""
    examination = Examination("home", "node/a", (PathLink("request", False, "is not read", "tgp doctor"),))
    root = click.Context(tgp, info_name="kubectl tgp")
    command = tgp.get_command(root, "doctor")
    assert command is not None
    with click.Context(command, parent=root, info_name="doctor") as context:
        context.params = {"kubeconfig": "file"}
        assert "fix: kubectl tgp doctor --kubeconfig file" in drawn(render(examination, 120))
