"""The life of an installation: pods of the chart, made by the real controllers, run by a stand-in for the kubelet.

Each pod runs in the root of the built image, as the chart's user, with the code of its release. The previous release is
installed and rents a machine; while it boots, this one takes over; then back again, and away.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.amounts import PROVING
from tests.controlplane.node_registrar import GPU
from tests.controlplane.providers import a_device_plugin
from tests.controlplane.test_install import NAMESPACE
from tests.controlplane.test_lifecycle import (
    a_request,
    ever_made,
    request_path,
    seen,
    status_of,
    uid_of,
)
from tgp.api.kinds import KINDS
from tgp.app.demo.fixtures import join_secret
from tgp.core.classes.rights import KubeRight, grants_all
from tgp.services.shipped import operator_rights
from tools.controlplane.fixtures import a_control_plane, say_past_capturing
from tools.controlplane.helm import HelmFailed
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.nodes import fake_node
from tools.controlplane.plane import EVERYTHING, ControlPlane
from tools.controlplane.pod_launcher import PodLauncher, launched, until
from tools.image import image
from tools.manifests import CHART, KINDS_CHART
from tools.release import former_code

pytestmark = pytest.mark.root

PATIENCE_S = 150
# As docs/operator.md promises. Beside other tests on two cores it says nothing; tests/sim tries it in virtual time.
HANDED_OVER_S = 20 if PROVING else PATIENCE_S
RELEASE = "tgp"
WAIT = ("--wait", "--timeout=90s")
USER = f"system:serviceaccount:{NAMESPACE}:tgp-operator"
AUDIT = f"""
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{{level: Metadata, users: ["{USER}"]}}, {{level: None}}]
"""
FORBIDDEN = 403
LATER = "laterField"  # of a release that is not there yet


@pytest.fixture(scope="module")
def plane(pytestconfig, tmp_path_factory) -> Iterator[ControlPlane]:
    """With an audit log of everything that the operator asks for."""
    policy = tmp_path_factory.mktemp("audit") / "policy.yaml"
    policy.write_text(AUDIT)
    extra = {"kube-apiserver": (f"--audit-policy-file={policy}",)}
    with a_control_plane(pytestconfig, replace(EVERYTHING, extra=extra)) as running:
        yield running


@pytest.fixture(scope="module")
def former(tmp_path_factory) -> tuple[Path, dict[str, Path]]:
    """Chart and code of the previous release."""
    return former_code(tmp_path_factory.mktemp("former"))


@pytest.fixture(scope="module")
def admin(plane, kubectl_program, helm, simulators, former) -> Kubectl:
    """The previous release, one replica, and a class of the simulated provider."""
    run = Kubectl(kubectl_program, plane.kubeconfig, plane.directory)
    run.apply(fake_node("own-1"), fake_node("own-2"))
    chart, _ = former
    options = ("--create-namespace", "--set=replicas=1", f"--set=settings.factory.url={simulators.factory_url}", *WAIT)
    helm("install", RELEASE, str(chart), f"--namespace={NAMESPACE}", *options)
    entry = {"name": "simulated", "settings": {"endpoint": simulators.urls()["simulated"]}}
    spec = {"providers": [entry], "bootPolicy": "Any", "networking": {"backend": "none"}}
    ours = {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": "everyone"}, "spec": spec}
    run.apply(join_secret(), a_device_plugin(), ours)
    return run


@pytest.fixture(scope="module")
def pods(plane, admin, former, pytestconfig, tmp_path_factory) -> Iterator[PodLauncher]:
    built = image(lambda line: say_past_capturing(pytestconfig, line), any_code=not PROVING)
    with launched(plane, NAMESPACE, tmp_path_factory.mktemp("pods"), built, former[1]) as launcher:
        yield launcher


def lease(admin: Kubectl, field: str) -> str:
    path = f"jsonpath={{.spec.{field}}}"
    return admin("get", "lease/tgp-operator", "-n", NAMESPACE, "--ignore-not-found", "-o", path).strip()


def leader(admin: Kubectl, pods: PodLauncher) -> str:
    """The running pod that holds the Lease; empty: none does."""
    held = lease(admin, "holderIdentity")
    return next((name for name in pods.running if held.startswith(name)), "")


def phase(plane: ControlPlane) -> str:
    return str(status_of(plane, "paid").get("phase", ""))


def living(simulators) -> list[Any]:
    return [machine for _, machine in simulators.machines() if machine.ended_at is None]


def test_the_image_s_own_code_is_complete(pods):
    """By nothing but what the wheel brought into the image; `make prove` runs the operator so, too."""
    assert pods.by_the_image("--version").split()[-1].count(".") == 2
    kinds = [each for each in YAML(typ="safe", pure=True).load_all(pods.by_the_image("crds", "print")) if each]

    assert {each["kind"] for each in kinds} == {"CustomResourceDefinition"}
    assert {f"{kind.resource.plural}.{kind.resource.group}" for kind in KINDS if not kind.optional} <= {
        each["metadata"]["name"] for each in kinds
    }


def test_the_previous_release_rents_a_machine(plane, admin, pods, simulators, registrar):
    until(pods, lambda: leader(admin, pods), "one leads", PATIENCE_S)
    registrar.with_gpus = False  # it boots until this is changed
    admin.apply(a_request("paid", "simulated"))

    until(pods, lambda: bool(status_of(plane, "paid").get("instanceId")), "a machine is rented", PATIENCE_S)
    assert len(living(simulators)) == 1


def with_a_later_field(definition: dict[str, Any]) -> dict[str, Any]:
    """The kind as a later release may have it."""
    for version in definition["spec"]["versions"]:
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        for part in ("spec", "status"):
            properties[part]["properties"][LATER] = {"type": "string"}
    return definition


def test_an_upgrade_hands_over_while_a_machine_boots(plane, admin, helm, pods, registrar):
    simulators = registrar.simulators
    before = set(pods.running)
    kinds = ("upgrade", "--install", "kinds", str(KINDS_CHART), f"--namespace={NAMESPACE}", "--take-ownership")
    helm(*kinds)
    helm("upgrade", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--reset-then-reuse-values", "--set=replicas=2")

    until(pods, lambda: len(set(pods.running) - before) == 2 and not before & set(pods.running), "new pods", PATIENCE_S)
    until(pods, lambda: leader(admin, pods), "one of them leads", HANDED_OVER_S)
    node = f"/api/v1/nodes/{status_of(plane, 'paid')['nodeName']}"
    until(pods, lambda: seen(plane, node) is not None, "its Node is there", PATIENCE_S)
    assert phase(plane) != "Ready", "it still boots"
    registrar.with_gpus = True
    plane.admin.call("PATCH", f"{node}/status", {"status": {"capacity": {GPU: "1"}, "allocatable": {GPU: "1"}}})
    until(pods, lambda: phase(plane) == "Ready", "the machine is Ready", PATIENCE_S)
    assert len(ever_made(simulators, uid_of(plane, "paid"))) == 1, "never twice"


def test_a_leader_that_is_deleted_hands_over(admin, pods):
    until(pods, lambda: len(pods.running) == 2 and leader(admin, pods), "one leads", PATIENCE_S)
    before = leader(admin, pods)
    admin("delete", f"pod/{before}", "-n", NAMESPACE)

    until(pods, lambda: leader(admin, pods) not in ("", before), "another leads", HANDED_OVER_S)


def test_a_leader_that_dies_without_a_word_is_followed(admin, pods):
    """How soon is a matter of the Lease alone, and tried in virtual time."""
    until(pods, lambda: len(pods.running) == 2 and leader(admin, pods), "two run", PATIENCE_S)
    before = lease(admin, "holderIdentity")
    pods.kill(leader(admin, pods))

    until(pods, lambda: lease(admin, "holderIdentity") not in ("", before), "another process leads", PATIENCE_S)


def test_the_pods_run_as_the_charts_user_and_write_nothing_but_tmp(pods):
    for name, process in pods.running.items():
        status = dict(line.split(":", 1) for line in Path("/proc", str(process.pid), "status").read_text().splitlines())
        assert set(status["Uid"].split()) == {"65532"}
        assert int(status["CapEff"], 16) == 0
        inside = Path("/proc", str(process.pid), "root")
        mounts = [line.split() for line in Path("/proc", str(process.pid), "mounts").read_text().splitlines()]
        assert "ro" in next(words[3].split(",") for words in reversed(mounts) if words[1].endswith("/opt"))
        assert "forbidden" not in pods.said(name)
        assert (inside / "etc" / "tgp" / "settings.yaml").is_file()


def test_a_rollback_keeps_later_fields_and_the_former_operator_works(plane, admin, helm, pods, simulators):
    """Kinds never go back: what a later release wrote into a live request stays, whichever operator writes to it."""
    crd = admin.json("get", "crd/gpurequests.tgp.io")
    plane.admin.call(
        "PATCH",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpurequests.tgp.io",
        {"spec": {"versions": with_a_later_field(crd)["spec"]["versions"]}},
    )
    for part in ("spec", "status"):
        path = request_path("paid") + ("/status" if part == "status" else "")
        until(pods, lambda p=part, at=path: _keeps(plane, at, p), f"the kind has {part}.{LATER}", PATIENCE_S)
    newer = set(pods.running)
    helm("rollback", RELEASE, "1", f"--namespace={NAMESPACE}")

    until(pods, lambda: pods.running and not newer & set(pods.running), "the former pods run", PATIENCE_S)
    until(pods, lambda: leader(admin, pods), "the former operator leads", HANDED_OVER_S)
    assert phase(plane) == "Ready"
    admin("delete", "gpurequest/paid", "-n", "default", "--wait=false")
    looks: list[dict[str, Any]] = []
    until(pods, lambda: _gone(plane, looks), "the request is gone, and with it the machine", PATIENCE_S)
    assert {"Ready", "Terminating"} <= {look["status"]["phase"] for look in looks}, "the former operator wrote to it"
    assert all((look["spec"].get(LATER), look["status"].get(LATER)) == ("kept", "kept") for look in looks)
    assert living(simulators) == []


def _gone(plane: ControlPlane, looks: list[dict[str, Any]]) -> bool:
    found = seen(plane, request_path("paid"))
    if found is not None:
        looks.append(found)
    return found is None


def _keeps(plane: ControlPlane, path: str, part: str) -> bool:
    answer = plane.admin.call("PATCH", path, {part: {LATER: "kept"}})
    return answer[part].get(LATER) == "kept"


def test_it_asked_for_nothing_that_its_roles_do_not_grant(plane, pods):
    """The API server's own notes of all pods above, against the rendered roles, while these are there."""
    roles = [role for role in operator_rights() if role["kind"] in ("ClusterRole", "Role")]
    asked: set[tuple[KubeRight, str, int]] = set()  # with the namespace, and what was answered
    for line in plane.audit_log.read_text().splitlines():
        event = json.loads(line)
        if "objectRef" in event:
            right, namespace = _right(event["verb"], event["objectRef"])
            asked.add((right, namespace, event["responseStatus"]["code"]))

    assert {right.verb for right, _, _ in asked} >= {"get", "list", "watch", "create", "patch"}
    assert [(right.text, namespace) for right, namespace, code in asked if code == FORBIDDEN] == []
    assert [(right.text, namespace) for right, namespace, _ in asked if not _granted(roles, right, namespace)] == []


def _right(verb: str, ref: dict[str, str]) -> tuple[KubeRight, str]:
    resource = "/".join(part for part in (ref["resource"], ref.get("subresource", "")) if part)
    return KubeRight(verb, ref.get("apiGroup", ""), resource, ref.get("name", "")), ref.get("namespace", "")


OWN_REVIEWS = ("selfsubjectrulesreviews", "selfsubjectaccessreviews", "selfsubjectreviews")  # every user may


def _granted(roles: list[dict[str, Any]], right: KubeRight, namespace: str) -> bool:
    return right.resource in OWN_REVIEWS or any(
        grants_all(role["rules"], right) for role in roles if role["metadata"].get("namespace", namespace) == namespace
    )


def holdings(admin: Kubectl) -> str:
    return admin("get", f"namespace/{NAMESPACE}", "-o", r"jsonpath={.metadata.annotations.tgp\.io/holdings}").strip()


def test_everything_goes_and_a_second_uninstall_says_so(admin, helm, pods):
    until(pods, lambda: not holdings(admin), "no machine costs money", PATIENCE_S)
    helm("uninstall", RELEASE, f"--namespace={NAMESPACE}", *WAIT)
    helm("uninstall", "kinds", f"--namespace={NAMESPACE}")
    until(pods, lambda: not pods.running, "no pod runs", PATIENCE_S)

    assert admin("get", "clusterrole/tgp-operator", "--ignore-not-found") == ""
    assert admin("get", "gpunodeclass/everyone", "-o", "name").strip(), "the kinds stay, and what is of them"
    with pytest.raises(HelmFailed, match="not found"):
        helm("uninstall", RELEASE, f"--namespace={NAMESPACE}")
    admin("delete", "gpunodeclass/everyone")
    admin("delete", "crd", "--all")  # with the later field: the next Helm begins without them
