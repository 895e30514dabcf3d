"""Nothing paid is stranded: while a machine costs money, no way to uninstall gets anywhere, and all of them say why.

A real API server judges by the shipped policies; the machine is a simulator's, rented by the operator under the
ServiceAccount of the chart.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.controlplane.providers import a_device_plugin
from tests.controlplane.replica import SHORT
from tests.controlplane.replicas import Replicas
from tests.controlplane.test_lifecycle import CLASS, FULL_LIFE_S, a_class, a_request, a_secret, seen, status_of
from tgp.app.demo.fixtures import join_secret
from tools.controlplane.helm import HelmFailed
from tools.controlplane.kubectl import Kubectl, KubectlFailed
from tools.manifests import CHART, INSTALL

NAMESPACE = "tgp-system"
RELEASE = "tgp"
UNGUARDED = ("tgp-viewer", "tgp-offers-reader", "tgp-metrics-reader", "kube-root-ca.crt")
READERS = ("/tgp-viewer", "/tgp-offers-reader", "/tgp-metrics-reader")  # whose roles and account are not guarded
PROVIDER = "vultr"
HOME = f"/api/v1/namespaces/{NAMESPACE}"
PARTS = "deployments,serviceaccounts,configmaps,roles,rolebindings"
CLUSTER_PARTS = "clusterroles,clusterrolebindings"
OURS = "app.kubernetes.io/part-of=tgp"
KIND_OF_REQUESTS = ("crd", "", "gpurequests.tgp.io")
KINDS = ("gpunodeclasses", "gpunodepools", "gpurequests", "gpuworkloadbudgets")
GUARDS = "validatingadmissionpolicies,validatingadmissionpolicybindings"


@pytest.fixture(scope="module")
def admin(plane, kubectl_program, helm, simulators, registrar) -> Kubectl:
    run = Kubectl(kubectl_program, plane.kubeconfig, plane.directory)
    helm("install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--create-namespace")
    run("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    run.apply(a_secret(simulators), join_secret(), a_device_plugin(), a_class(simulators))
    return run


@pytest.fixture(scope="module")
def replicas(plane, admin, simulators, tmp_path_factory) -> Iterator[Replicas]:
    aboard = Replicas(plane, simulators.signposts(), tmp_path_factory.mktemp("replicas"), shortened=SHORT)
    aboard.start("first")
    yield aboard
    aboard.leave()


def notes(plane) -> dict[str, str]:
    return seen(plane, HOME)["metadata"].get("annotations", {})


def class_notes(plane) -> dict[str, str]:
    return seen(plane, f"/apis/tgp.io/v1/gpunodeclasses/{CLASS}")["metadata"].get("annotations", {})


def items(listed: str) -> list[dict[str, Any]]:
    return list(json.loads(listed)["items"])


def dry_deletion(kind: str, namespace: str, name: str) -> tuple[str, ...]:
    """Judged by the policies as the real one would be."""
    return ("delete", kind, name, *((f"--namespace={namespace}",) if namespace else ()), "--dry-run=server")


@pytest.fixture(scope="module")
def machine(plane, admin, replicas) -> str:
    """The sentence about it."""
    admin.apply(a_request("paid", PROVIDER))
    replicas.until(lambda: bool(status_of(plane, "paid").get("instanceId")), lambda: str(status_of(plane, "paid")))
    replicas.until(
        lambda: (seen(plane, f"/apis/tgp.io/v1/gpunodeclasses/{CLASS}") or {})["status"].get("activeNodes") == 1,
        "the class counts it",
    )
    return notes(plane)["tgp.io/holdings"]


def everything(admin: Kubectl) -> set[str]:
    listed = admin("get", f"{PARTS},{CLUSTER_PARTS}", "-A", "-l", OURS, "-o", "name").split()
    guards = (each for each in admin("get", GUARDS, "-o", "name").split() if each.endswith("-holdings"))
    kinds = admin("get", "crd", "-o", "name").split()
    return {each for each in (*listed, *guards, *kinds) if not each.endswith(READERS)}


def refused(action: Callable[[], object]) -> str:
    with pytest.raises((HelmFailed, KubectlFailed)) as failed:
        action()
    return str(failed.value)


@pytest.fixture(scope="module")
def guarded(admin, machine, replicas) -> set[str]:
    """All that was there once the API server knows the policies."""
    dry = ("delete", "deployment/tgp-operator-controller-manager", "-n", NAMESPACE, "--dry-run=server")
    wide = ("delete", "clusterrole/tgp-operator", "--dry-run=server")
    replicas.until(lambda: not succeeds(admin, *dry) and not succeeds(admin, *wide), "the policies are in force")
    return everything(admin)


def succeeds(admin: Kubectl, *arguments: str) -> bool:
    try:
        admin(*arguments)
    except KubectlFailed:
        return False
    return True


def test_the_namespace_says_what_is_held(machine):
    assert machine.startswith("1 machine costs $")
    assert machine.endswith(" an hour")


def test_helm_uninstall_is_refused_before_anything_is_deleted(admin, helm, guarded, machine):
    said = refused(lambda: helm("uninstall", RELEASE, f"--namespace={NAMESPACE}"))

    assert machine in said
    assert "tgp down" in said
    assert f"helm rollback {RELEASE} 1 --namespace {NAMESPACE}" in said
    assert everything(admin) == guarded

    helm("rollback", RELEASE, "1", f"--namespace={NAMESPACE}")
    (status,) = json.loads(helm("list", f"--namespace={NAMESPACE}", "--output=json"))
    assert status["status"] == "deployed"
    helm("upgrade", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--set=settings.workers=8")


def test_helm_uninstall_without_hooks_deletes_nothing_that_matters(admin, helm, guarded):
    refused(lambda: helm("uninstall", RELEASE, f"--namespace={NAMESPACE}", "--no-hooks"))

    assert everything(admin) == guarded
    again = helm("history", RELEASE, f"--namespace={NAMESPACE}", "--output=json")
    helm("rollback", RELEASE, str(json.loads(again)[-1]["revision"]), f"--namespace={NAMESPACE}")


@pytest.mark.parametrize(
    "arguments",
    [
        ("delete", f"--filename={INSTALL}"),
        ("delete", PARTS, "-n", NAMESPACE, "-l", OURS),
        ("delete", "roles,rolebindings", "-n", "kube-system", "-l", OURS),
        ("delete", "roles,rolebindings", "-n", "kube-node-lease", "-l", OURS),
        ("delete", CLUSTER_PARTS, "-l", OURS),
        ("delete", "crd", *(f"{kind}.tgp.io" for kind in KINDS)),
        ("delete", "namespace", NAMESPACE),
        ("delete", "--raw", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"),
        ("delete", "--raw", f"/apis/rbac.authorization.k8s.io/v1/clusterroles?labelSelector={OURS}"),
    ],
    ids=["file", "prune", "kube-system", "kube-node-lease", "cluster", "kinds", "namespace", "all", "all-cluster"],
)
def test_kubectl_delete_is_refused(admin, guarded, arguments):
    said = refused(lambda: admin(*arguments, *(() if "--raw" in arguments else ("--wait=false",))))

    assert "tgp down" in said
    assert everything(admin) == guarded


def test_other_deployments_and_config_maps_may_be_deleted(admin, guarded):
    admin("create", "configmap", "other", "-n", NAMESPACE)
    admin("create", "serviceaccount", "other", "-n", NAMESPACE)
    admin("delete", "configmap/other", "serviceaccount/other", "-n", NAMESPACE)


def test_every_class_says_what_the_namespace_says(plane, guarded, machine):
    """The guard of cluster roles and kinds sees only classes."""
    assert class_notes(plane)["tgp.io/holdings"] == machine


@pytest.mark.usefixtures("guarded")
def test_without_any_class_cluster_roles_and_kinds_are_guarded(plane, admin, replicas, simulators, machine):
    """As where a request is served by the keys in the operator's Secret alone: the implicit class is never written."""
    admin("delete", "gpunodeclass", CLASS, "--wait=false")
    admin("patch", "gpunodeclass", CLASS, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert seen(plane, f"/apis/tgp.io/v1/gpunodeclasses/{CLASS}") is None
    parts = [("clusterrole", "", "tgp-operator"), ("clusterrolebinding", "", "tgp-operator")]
    parts += [("role", "kube-system", "tgp-operator"), ("crd", "", "gpunodeclasses.tgp.io"), KIND_OF_REQUESTS]
    replicas.until(lambda: not any(succeeds(admin, *dry_deletion(*part)) for part in parts), "all are guarded")
    assert machine in refused(lambda: admin(*dry_deletion(*KIND_OF_REQUESTS)))

    admin("annotate", "namespace", NAMESPACE, "tgp.io/abandon=true")
    replicas.until(lambda: all(succeeds(admin, *dry_deletion(*part)) for part in parts), "the way past")
    admin("annotate", "namespace", NAMESPACE, "tgp.io/abandon-")
    admin.apply(a_class(simulators))
    replicas.until(lambda: class_notes(plane).get("tgp.io/holdings") == machine, "the class has the sentence again")


@pytest.mark.usefixtures("guarded")
def test_with_machines_abandoned_the_release_goes_and_a_new_one_finds_the_machine(
    plane, admin, helm, replicas, machine
):
    """Each part is judged first, so that one that is still guarded is named; then all of it goes."""
    admin("annotate", "namespace", NAMESPACE, "tgp.io/abandon=true")
    replicas.until(lambda: "tgp.io/abandon" in class_notes(plane), "the operator copies it")
    listed = admin("get", f"{PARTS},{CLUSTER_PARTS},crd", "-A", "-l", OURS, "-o", "json")
    parts = [(it["kind"], it["metadata"].get("namespace", ""), it["metadata"]["name"]) for it in items(listed)]
    parts += [("crd", "", f"{kind}.tgp.io") for kind in KINDS] + [("namespace", "", NAMESPACE)]
    replicas.until(
        lambda: all(succeeds(admin, *dry_deletion(*part)) for part in parts),
        lambda: f"all may be deleted, but {[part for part in parts if not succeeds(admin, *dry_deletion(*part))]}",
    )
    assert replicas.stop("first") == 0

    helm("uninstall", RELEASE, f"--namespace={NAMESPACE}")

    assert everything(admin) == {f"customresourcedefinition.apiextensions.k8s.io/{kind}.tgp.io" for kind in KINDS}
    assert notes(plane)["tgp.io/holdings"] == machine
    assert status_of(plane, "paid")["instanceId"]

    helm("install", RELEASE, str(CHART), f"--namespace={NAMESPACE}")
    admin("annotate", "namespace", NAMESPACE, "tgp.io/abandon-")
    replicas.start("first")
    replicas.until(lambda: "tgp.io/abandon" not in class_notes(plane), "the operator takes its copy back")
    replicas.until(
        lambda: all(not succeeds(admin, *dry_deletion(*part)) for part in parts if not part[2].endswith(UNGUARDED)),
        "the guard is in force again",
    )


def test_a_machine_that_no_class_counts_guards_cluster_roles_and_kinds(plane, admin, replicas, guarded):
    """An order of unknown outcome or a machine without a request: the class has the sentence, and counts none."""
    admin("delete", "gpurequest/paid", "-n", "default", "--wait=false")
    replicas.until(lambda: "tgp.io/holdings" not in notes(plane), lambda: str(status_of(plane, "paid")), FULL_LIFE_S)
    replicas.until(
        lambda: succeeds(admin, "delete", "clusterrole/tgp-operator", "--dry-run=server"), "no class says so any more"
    )
    assert replicas.stop("first") == 0
    assert (seen(plane, f"/apis/tgp.io/v1/gpunodeclasses/{CLASS}") or {})["status"].get("activeNodes", 0) == 0
    sentence = "1 machine costs $1.00 an hour"
    admin("annotate", "gpunodeclass", CLASS, f"tgp.io/holdings={sentence}")
    replicas.until(
        lambda: not succeeds(admin, "delete", "clusterrole/tgp-operator", "--dry-run=server"), "the policy sees it"
    )
    for part in (("clusterrole", "", "tgp-operator"), ("role", "kube-system", "tgp-operator"), KIND_OF_REQUESTS):
        assert sentence in refused(lambda part=part: admin(*dry_deletion(*part)))
    admin("annotate", "gpunodeclass", CLASS, "tgp.io/holdings-")


def test_without_a_machine_everything_goes(admin, helm, replicas, guarded):
    replicas.until(
        lambda: succeeds(admin, "delete", "clusterrole/tgp-operator", "--dry-run=server"), "no class says so any more"
    )

    helm("uninstall", RELEASE, f"--namespace={NAMESPACE}")

    assert everything(admin) == {f"customresourcedefinition.apiextensions.k8s.io/{kind}.tgp.io" for kind in KINDS}
