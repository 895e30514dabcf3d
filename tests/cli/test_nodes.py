"""`tgp nodes`: rented machines, machines you own, and others with GPUs."""

import json
import urllib.request
from datetime import timedelta

from click.testing import CliRunner

from tests.cli.sample_requests import START, after, drawn, own_node, send
from tests.cli.test_status import cluster
from tests.contracts.kubectl.mounted import Mounted
from tgp.app.main import tgp
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.resources import Resources
from tgp.interfaces.cli.nodes import render
from tgp.services.documents.nodes import nodes_report
from tgp.services.nodes import OTHER, OWNED, RENTED, MachineNode, NodesReport, state_of

__all__ = ["cluster"]  # the fixture

NODE = Node(
    key=ObjectKey("", "gpu-train"),
    created_at=START,
    ready=True,
    capacity=Resources(others=(("nvidia.com/gpu", 2),)),
    addresses=(("Hostname", "gpu-train"), ("InternalIP", "100.81.48.52")),
)
TRAIN = ObjectKey("ml", "train")
REPORT = NodesReport(
    after(7200),
    (
        MachineNode("gpu-train", RENTED, NODE, "vultr", "L40S", 2, 1, 1_200_000, TRAIN, timedelta(seconds=157)),
        MachineNode("cellar-1", OWNED, None, gpus=4, used=0),
        MachineNode("server", OTHER, NODE, gpus=2, used=2),
    ),
)


def words(report: NodesReport, width: int = 140) -> str:
    return drawn(render(report, width), width)


def test_every_machine_is_a_row_with_use_price_age_and_address():
    rented, owned, other = words(REPORT).splitlines()[1:4]

    assert rented.split()[:8] == ["gpu-train", "vultr", "Ready", "L40S", "1/2", "$1.20", "120m", "2m37s"]
    assert rented.split()[8:] == ["100.81.48.52", "ml/train"]
    assert owned.split() == ["cellar-1", "owned", "Off", "-", "0/4", "-", "-", "-", "-", "-"]
    assert [row["bootSeconds"] for row in nodes_report(REPORT)["nodes"]] == [157, None, None]
    assert other.split()[:3] == ["server", "other", "Ready"]
    assert "3 of 8 GPUs in use; $1.20 an hour for 1 machine." in words(REPORT)
    assert words(REPORT).splitlines()[-1] == "next: tgp why node/gpu-train"


def test_a_narrow_terminal_keeps_name_use_and_price():
    for width in (50, 80, 120):
        lines = words(REPORT, width).splitlines()
        assert {"NODE", "STATE", "USED", "$/H"} <= set(lines[0].split())
        assert max(map(len, lines)) <= width


def test_a_machine_of_yours_that_a_request_waits_for_is_not_off():
    waited_for = MachineNode("cellar-1", OWNED, None, request=TRAIN, gpus=4)

    assert state_of(waited_for) == "NotReady"
    assert nodes_report(NodesReport(after(0), (waited_for,)))["nodes"][0]["request"] == {
        "namespace": "ml",
        "name": "train",
    }


def test_what_may_not_be_read_is_told():
    unknown = NodesReport(after(0), (MachineNode("a", OTHER, NODE, gpus=2, used=None),), requests_known=False)

    assert "?/2" in words(unknown)
    assert "You may not list GPURequests" in words(unknown)
    assert "No Node has GPUs" in words(NodesReport(after(0), ()))


def test_the_cluster_is_asked(cluster: Mounted):
    capacity = {"nvidia.com/gpu": "2"}
    with urllib.request.urlopen(f"{cluster.url}/apis/tgp.io/v1/namespaces/ml/gpurequests/train") as answer:  # noqa: S310 - on loopback
        rented = own_node(json.load(answer))
    for node, gpus in ((rented, capacity), ({"metadata": {"name": "plain"}}, {})):
        send(f"{cluster.url}/api/v1/nodes", "POST", {**node, "status": {"capacity": gpus, "allocatable": gpus}})

    answer = CliRunner().invoke(tgp, ["nodes", "-o", "json", "--kubeconfig", str(cluster.kubeconfig)])

    assert answer.exit_code == 0, answer.output
    (row,) = json.loads(answer.output)["nodes"]
    assert (row["name"], row["kind"], row["gpus"], row["gpusUsed"]) == (rented["metadata"]["name"], "rented", 2, 0)
    assert row["usdPerHour"] == 1.2
