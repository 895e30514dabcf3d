"""What two idle servers cannot be compared in: logs need a kubelet, and events of an object need its uid."""

import json
from dataclasses import replace

import pytest

from tests.contracts.kubectl.conftest import Servers
from tests.contracts.kubectl.normal import normal
from tests.contracts.kubectl.player import Seen
from tests.contracts.kubectl.script import run
from tests.contracts.kubectl.scripts.pods import POD
from tests.contracts.kubectl.test_scripts import difference
from tools.controlplane.kubectl import Kubectl, KubectlFailed

NAMESPACE = "kubectl-alone"


@pytest.fixture(scope="module")
def memory(memory_kubectl: Kubectl) -> Kubectl:
    memory_kubectl("create", "namespace", NAMESPACE)
    memory_kubectl(f"--namespace={NAMESPACE}", "create", "--filename=-", stdin=POD)
    return memory_kubectl


def test_logs_are_what_the_containers_printed(memory: Kubectl):
    def logs(*more: str) -> str:
        return memory(f"--namespace={NAMESPACE}", "logs", "train", *more)

    assert logs("--container=side") == "side of train starts\nand works\n"
    assert logs("--container=side", "--tail=1") == "and works\n"
    assert "[pod/train/main] main of train starts\n" in logs("--all-containers", "--prefix")  # in any order
    with pytest.raises(KubectlFailed, match="container absent is not valid for pod train"):
        logs("--container=absent")


def test_describe_shows_the_events_of_the_very_object(servers: Servers):
    """On both servers: events of a namesake, which has another uid, are not shown."""
    shown = []
    for kubectl in (servers.memory, servers.real):
        kubectl("create", "namespace", "kubectl-described")
        kubectl("--namespace=kubectl-described", "create", "--filename=-", stdin=POD)
        pod = kubectl.json("--namespace=kubectl-described", "get", "pod", "train")
        for name, uid in (("mine", pod["metadata"]["uid"]), ("another", "00000000-0000-0000-0000-000000000000")):
            event = {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": "kubectl-described"},
                "involvedObject": {"kind": "Pod", "name": "train", "namespace": "kubectl-described", "uid": uid},
                "type": "Warning",
                "reason": "FailedScheduling",
                "message": f"this is {name}",
                "firstTimestamp": "2026-01-01T00:00:00Z",
                "lastTimestamp": "2026-01-01T00:00:00Z",
                "count": 1,
                "source": {"component": "scheduler"},
            }
            kubectl("--namespace=kubectl-described", "create", "--filename=-", stdin=json.dumps(event))
        shown.append(normal(kubectl("--namespace=kubectl-described", "describe", "pod", "train")))

    assert "this is mine" in shown[0]
    assert "this is another" not in shown[0]
    assert shown[0] == shown[1]


SEEN = Seen(run("get pods"), 0, "NAME  AGE\none   5s\n", "")


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (replace(SEEN, printed="NAME    AGE\none     17s\n"), False),
        (replace(SEEN, printed="NAME  AGE\ntwo   5s\n"), True),
        (replace(SEEN, printed="NAME\none\n"), True),
        (replace(SEEN, code=1), True),
        (replace(SEEN, complained="Warning: unknown field\n"), True),
    ],
)
def test_the_comparison_sees_what_matters_and_nothing_else(other: Seen, differs: bool):
    assert bool(difference(SEEN, other)) == differs


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("age 90s", "age 2m10s", True),
        ("age 5h", "age 6h", False),
        ('resourceVersion: "7"', 'resourceVersion: "1234"', True),
        ("replicas: 7", "replicas: 8", False),
        ("  indented: 1", "    indented: 1", False),
        ("uid: 3f0a9d2e-1111-4222-8333-abcdefabcdef", "uid: 00000000-0000-4000-8000-000000000000", True),
        ("at 2026-01-01T00:00:00Z", "at 2027-02-02T01:01:01.123456Z", True),
        ("on 2026-11-15 23:05:51 +0000 UTC", "on 2026-11-15 23:05:50 +0000 UTC", True),
        ("Sun, 15 Nov 2026 23:05:51 +0000", "Mon, 16 Nov 2026 00:00:00 +0000", True),
    ],
)
def test_only_what_depends_on_when_and_where_is_made_equal(one: str, other: str, alike: bool):
    assert (normal(one) == normal(other)) == alike
