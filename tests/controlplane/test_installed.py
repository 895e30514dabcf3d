"""The installed operator: pods of the chart, made by the real controllers, run by a stand-in for the kubelet."""

from collections.abc import Iterator

import pytest

from tests.controlplane.pod_launcher import PodLauncher, launched, until
from tests.controlplane.test_install import NAMESPACE, NODE_CLASS, reason
from tools import toolbox
from tools.controlplane.fixtures import say_past_capturing
from tools.controlplane.helm import Helm
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.nodes import fake_node
from tools.manifests import CHART

pytestmark = pytest.mark.root

HANDED_OVER_S = 20  # as docs/operator.md promises
PATIENCE_S = 120
SELECTOR = "app.kubernetes.io/name=tgp-operator"


@pytest.fixture(scope="module")
def admin(plane, kubectl_program, pytestconfig) -> Kubectl:
    run = Kubectl(kubectl_program, plane.kubeconfig, plane.directory)
    run.apply(fake_node("own-1"), fake_node("own-2"))
    return run


@pytest.fixture(scope="module")
def helm(pytestconfig, plane, admin) -> Helm:
    program = toolbox.find(toolbox.NEWER_HELM_CLIENT, say=lambda line: say_past_capturing(pytestconfig, line))
    helm = Helm(program, plane.directory, plane.kubeconfig)
    helm("install", "tgp", str(CHART), f"--namespace={NAMESPACE}", "--create-namespace", "--wait", "--timeout=90s")
    return helm


@pytest.fixture(scope="module")
def pods(plane, helm, tmp_path_factory) -> Iterator[PodLauncher]:
    with launched(plane, NAMESPACE, SELECTOR, tmp_path_factory.mktemp("pods")) as launcher:
        yield launcher


def holder(admin: Kubectl) -> str:
    path = "jsonpath={.spec.holderIdentity}"
    return admin("get", "lease/tgp-operator", "-n", NAMESPACE, "--ignore-not-found", "-o", path).strip()


def leader(admin: Kubectl, pods: PodLauncher) -> str:
    """The running pod that holds the Lease; empty: none does."""
    held = holder(admin)
    return next((name for name in pods.running if held.startswith(name)), "")


def test_the_pods_of_the_chart_run_and_one_of_them_acts(admin, pods):
    until(pods, lambda: len(pods.running) == 2 and leader(admin, pods), "two run, one leads", PATIENCE_S)
    admin("apply", "--filename=-", stdin=NODE_CLASS)
    until(pods, lambda: bool(reason(admin)), "the class was looked at", PATIENCE_S)

    for name in pods.running:
        assert "forbidden" not in pods.said(name)


def test_a_leader_that_is_deleted_hands_over(admin, pods):
    until(pods, lambda: leader(admin, pods), "one leads", PATIENCE_S)
    before = leader(admin, pods)
    admin("delete", f"pod/{before}", "-n", NAMESPACE)

    until(pods, lambda: leader(admin, pods) not in ("", before), "another leads", HANDED_OVER_S)


def test_a_leader_that_dies_without_a_word_is_followed(admin, pods):
    """How soon is a matter of the Lease alone, and tried in virtual time."""
    until(pods, lambda: len(pods.running) == 2 and leader(admin, pods), "two run", PATIENCE_S)
    before = holder(admin)
    pods.kill(leader(admin, pods))

    until(pods, lambda: holder(admin) not in ("", before), "another process leads", PATIENCE_S)


def test_an_upgrade_replaces_the_pods_and_the_new_ones_act(admin, helm, pods):
    until(pods, lambda: len(pods.running) == 2 and leader(admin, pods), "two run", PATIENCE_S)
    former = set(pods.running)
    helm("upgrade", "tgp", str(CHART), f"--namespace={NAMESPACE}", "--set=settings.workers=8")

    until(pods, lambda: not former & set(pods.running) and leader(admin, pods), "new ones lead", PATIENCE_S)
