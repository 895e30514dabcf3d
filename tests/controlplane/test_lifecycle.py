"""The whole lifecycle of machines: a real control plane, every pretend provider on a real socket, the shipped operator.

From a request to a Node that runs a pod and back to nothing, for every provider; and what kills, freezes and forgetting
may do in between. Machines are terminated while later tests disturb the operator: that, too, has to end well.
"""

import json
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.controlplane.node_registrar import GPU
from tests.controlplane.providers import ANY_TAINT, PROVIDERS, a_device_plugin, entries
from tests.controlplane.replicas import LAST_RESORT, LEASE_LOST, Replicas
from tests.controlplane.simulators import Simulators
from tgp.app.demo.fixtures import join_secret
from tgp.core.model.offer import CONTAINER_ONLY, BootMode
from tgp.core.model.token import plain_uid
from tgp.core.requests.purchase import ALLOW_UNTRUSTED
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.machine import SimulatedMachine
from tools.controlplane.client import Refused
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import ControlPlane

ROOT = Path(__file__).parents[2]
SEED_CLASS = ROOT / "deploy" / "examples" / "seeds" / "readme-gpunodeclass.yaml"
CLASS = "everyone"
CONTAINERS = [name for name, asked in PROVIDERS.items() if asked.boots == (BootMode.CONTAINER,)]
BOOTED = [name for name in PROVIDERS if name not in CONTAINERS]
REAL = frozenset({"vast", "runpod", "lambdalabs", "paperspace", "vultr", "gcp"})
SECRET = "tgp-operator-secret"
OURS = "tgp-system"
STOPPED_S = 24.0  # four leases, as a minute is with the shipped times
FULL_LIFE_S = 240.0  # two lists a listing lag apart (a minute of most providers), after a hand-over from the beginning


# -- the town ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def admin(plane, kubectl_program, simulators, registrar) -> Kubectl:
    """A cluster with our kinds, our rights, a device plugin, keys, and one class that buys anywhere."""
    run = installed(Kubectl(kubectl_program, plane.kubeconfig, plane.directory), simulators)
    run.apply(a_class(simulators))
    run("label", "namespace", "default", f"{ALLOW_UNTRUSTED}=true")
    return run


def installed(run: Kubectl, simulators: Simulators) -> Kubectl:
    """The same without a class."""
    run("apply", "--server-side", f"--filename={ROOT / 'deploy' / 'crds'}")
    run("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    run("apply", f"--filename={ROOT / 'deploy' / 'rights.yaml'}")
    run.apply(a_secret(simulators), join_secret(), a_device_plugin())
    return run


@pytest.fixture(scope="module")
def replicas(plane, admin, simulators, tmp_path_factory) -> Iterator[Replicas]:
    aboard = Replicas(plane, simulators.signposts(), tmp_path_factory.mktemp("replicas"))
    aboard.start("first")
    yield aboard
    aboard.leave()


def a_secret(simulators: Simulators) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": OURS},
        "stringData": simulators.keys(),
    }


def a_class(simulators: Simulators) -> dict[str, Any]:
    return {
        "apiVersion": "tgp.io/v1",
        "kind": "GPUNodeClass",
        "metadata": {"name": CLASS},
        "spec": {"providers": entries(simulators.urls()), "bootPolicy": "Any", "networking": {"backend": "none"}},
    }


def a_request(name: str, provider: str, node_class: str = CLASS, **spec: Any) -> dict[str, Any]:
    asked = PROVIDERS[provider]
    wanted = {"nodeClassRef": {"name": node_class}, "provider": provider, "gpuType": asked.gpu, "gpuCount": asked.count}
    return {
        "apiVersion": "tgp.io/v1",
        "kind": "GPURequest",
        "metadata": {"name": name, "namespace": "default"},
        "spec": wanted | spec,
    }


def a_gpu_pod(name: str) -> dict[str, Any]:
    """A pod, for the machine of that request alone."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeSelector": {"tgp.io/request": name},
            "tolerations": ANY_TAINT,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "work", "image": "any", "resources": {"limits": {GPU: "1"}}}],
        },
    }


# -- looking -----------------------------------------------------------------------------------------------------------


def seen(plane: ControlPlane, path: str) -> dict[str, Any] | None:
    """None: there is no such object."""
    try:
        return plane.admin.call("GET", path)
    except Refused as error:
        if error.status == 404:
            return None
        raise ConnectionError(str(error)) from error  # an API server that is just coming up answers 403 or 500


def request_path(name: str) -> str:
    return f"/apis/tgp.io/v1/namespaces/default/gpurequests/{name}"


def status_of(plane: ControlPlane, name: str) -> Mapping[str, Any]:
    found = seen(plane, request_path(name))
    return {} if found is None else found.get("status", {})


def uid_of(plane: ControlPlane, name: str) -> str:
    found = seen(plane, request_path(name))
    assert found is not None
    return str(found["metadata"]["uid"])


def condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next((it for it in status.get("conditions", ()) if it["type"] == kind), {})


def pod_runs(plane: ControlPlane, name: str) -> bool:
    pod = seen(plane, f"/api/v1/namespaces/default/pods/{name}")
    return pod is not None and pod["status"].get("phase") == "Running"


def ever_made(simulators: Simulators, uid: str) -> list[SimulatedMachine]:
    """By whatever provider, living or gone: each of them was paid for."""
    return [machine for _, machine in simulators.machines() if plain_uid(uid) in str((machine.name, machine.tags))]


def spend_records(plane: ControlPlane, uid: str) -> list[dict[str, Any]]:
    maps = plane.admin.call("GET", f"/api/v1/namespaces/{OURS}/configmaps")["items"]
    rows = [json.loads(text) for each in maps for key, text in each.get("data", {}).items() if uid in key]
    return [row for row in rows if isinstance(row, dict)]


def test_one_class_sees_the_offers_of_every_provider(plane, replicas):
    """Through real sockets, with the keys of the Secret; owned machines by a name that leads to a private address."""

    def source_statuses() -> dict[str, int]:
        found = seen(plane, f"/apis/tgp.io/v1/gpunodeclasses/{CLASS}") or {}
        told = found.get("status", {}).get("providers", {})
        return {name: each.get("offers", 0) for name, each in told.items()}

    replicas.until(
        lambda: set(source_statuses()) == set(PROVIDERS) and all(map(source_statuses().get, BOOTED)),
        "every provider sells nodes",
    )


# -- one life for every provider ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked(admin, replicas) -> None:
    """All at once: machines boot side by side, as they do in life."""
    admin.apply(*(a_request(name, name) for name in PROVIDERS), *(a_gpu_pod(name) for name in BOOTED))


@pytest.mark.parametrize("provider", BOOTED)
def test_a_request_becomes_a_node_that_runs_a_pod(plane, simulators, replicas, asked, provider):
    """Of every provider: one machine, one Node under the reserved name, GPUs that the real scheduler counts."""
    replicas.until(lambda: pod_runs(plane, provider), lambda: f"{provider} runs a pod: {status_of(plane, provider)}")
    replicas.until(lambda: status_of(plane, provider).get("phase") == "Ready", f"{provider} is Ready")

    status = status_of(plane, provider)
    assert condition(status, "Ready")["status"] == "True"
    assert status["selectedProvider"] == provider
    assert float(status["hourlyPrice"]) > 0
    node = seen(plane, f"/api/v1/nodes/{status['nodeName']}")
    assert node is not None
    assert node["metadata"]["labels"]["tgp.io/request"] == provider
    hung = [taint["key"] for taint in node["spec"].get("taints", ())]
    assert ("tgp.io/ephemeral" in hung) == (provider != "webhook"), "a rented machine is not for every pod"
    (machine,) = ever_made(simulators, uid_of(plane, provider))
    assert machine.alive


@pytest.mark.parametrize("provider", CONTAINERS)
def test_a_container_is_never_bought_whatever_the_class_allows(plane, simulators, replicas, asked, provider):
    """Nothing is reserved, either: Talos cannot boot there, and the request says so."""
    replicas.until(
        lambda: condition(status_of(plane, provider), "Launched").get("reason") == "NoOfferFits", f"{provider} waits"
    )
    assert CONTAINER_ONLY in status_of(plane, provider)["message"]
    assert not status_of(plane, provider).get("attempts")
    assert ever_made(simulators, uid_of(plane, provider)) == []
    plane.admin.call("DELETE", request_path(provider))


def test_kubectl_shows_the_request_in_columns(plane, admin, replicas, asked):
    replicas.until(lambda: status_of(plane, "simulated").get("phase") == "Ready", "simulated is Ready")
    header, *rows = admin("get", "gr", "--namespace=default").splitlines()

    assert header.split() == ["NAME", "PHASE", "REASON", "GPU", "PROVIDER", "HOURLY", "SPENT", "EXPIRES", "AGE"]
    (row,) = (row.split() for row in rows if row.startswith("simulated "))
    _name, phase, _reason, gpu, provider, hourly, spent, expires, _age = row
    assert (phase, gpu, provider) == ("Ready", "T4", "simulated")
    assert 0 <= float(spent) < float(hourly)
    assert datetime.fromisoformat(expires) > datetime.now(UTC)


def test_kubectl_describe_reads_as_sentences(plane, admin, replicas, asked):
    replicas.until(lambda: status_of(plane, "simulated").get("phase") == "Ready", "simulated is Ready")
    told = admin("describe", "gr", "simulated", "--namespace=default")

    for kind in ("Launched", "Registered", "Initialized", "Ready"):
        assert condition(status_of(plane, "simulated"), kind)["message"], kind
    events = told.partition("Events:")[2]
    assert "$" in events, told
    assert "unknown" not in events.lower(), told


@pytest.fixture(scope="module")
def terminated(plane, admin, replicas, asked) -> dict[str, str]:
    """Everything of the walk, once it serves; does not wait for the end. Returns the uids."""
    for name in BOOTED:
        replicas.until(lambda name=name: pod_runs(plane, name), f"the pod on {name} runs")
    uids = {name: uid_of(plane, name) for name in BOOTED}
    admin("delete", "pod", "--namespace=default", "--wait=false", *BOOTED)
    admin("delete", "gr", "--namespace=default", "--wait=false", *BOOTED)
    return uids


# -- disturbances ------------------------------------------------------------------------------------------------------


@contextmanager
def ordering(admin: Kubectl, simulators: Simulators, replicas: Replicas, name: str) -> Iterator[str]:
    """Inside, the provider has made the machine of a new request and no process knows it; then the answer is sent."""
    held = simulators.hold("simulated", CloudVerb.LAUNCH)
    try:
        admin.apply(a_request(name, "simulated"))
        held.wait(180)
        yield str(admin.json("get", "gr", name, "--namespace=default")["metadata"]["uid"])
    finally:
        held.release()


def serves_with_one_machine(
    plane: ControlPlane, simulators: Simulators, replicas: Replicas, name: str, uid: str
) -> None:
    replicas.until(
        lambda: status_of(plane, name).get("phase") == "Ready", lambda: f"{name} is Ready: {status_of(plane, name)}"
    )
    assert len(ever_made(simulators, uid)) == 1
    assert len(status_of(plane, name)["attempts"]) == 1, "it was adopted, not bought again"
    plane.admin.call("DELETE", request_path(name))


def test_killed_at_the_launch_call_it_adopts_the_machine(plane, admin, simulators, replicas, terminated):
    """The order left, the machine was made, and the answer was lost: recorded first, then ordered."""
    with ordering(admin, simulators, replicas, "killed") as uid:
        replicas.kill("first")
    replicas.start("first")

    serves_with_one_machine(plane, simulators, replicas, "killed", uid)


def test_a_leader_that_stands_still_while_ordering_is_replaced_and_nothing_is_bought_twice(
    plane, admin, simulators, replicas, terminated
):
    second = "second"
    replicas.start(second)
    with ordering(admin, simulators, replicas, "frozen") as uid:
        os.kill(replicas.pid("first"), signal.SIGSTOP)
        frozen = replicas.let_go("first")
        serves_with_one_machine(plane, simulators, replicas, "frozen", uid)

    frozen.send_signal(signal.SIGCONT)
    assert frozen.wait(120) in (LEASE_LOST, LAST_RESORT)
    time.sleep(1)
    assert len(ever_made(simulators, uid)) == 1


def test_an_api_server_that_stops_for_long_costs_nothing_twice(plane, admin, simulators, replicas, terminated):
    """It holds every connection and says nothing: the leader ends itself, and its successor finds the machine."""
    with ordering(admin, simulators, replicas, "silence") as uid, plane.standing_still("kube-apiserver"):
        time.sleep(STOPPED_S)

    serves_with_one_machine(plane, simulators, replicas, "silence", uid)


def test_a_restarted_api_server_whose_etcd_forgot_the_past_is_taken_up_again(
    plane, admin, simulators, replicas, terminated
):
    """Every watch breaks and no old version can be watched from: the operator lists again and misses nothing."""
    with ordering(admin, simulators, replicas, "forgotten") as uid:
        plane.compact_etcd()
        plane.restart_apiserver()

    serves_with_one_machine(plane, simulators, replicas, "forgotten", uid)


def test_the_class_of_the_first_readme_says_that_it_can_buy_nothing(plane, admin, simulators, replicas, terminated):
    """It names RunPod, where Talos cannot boot: that is said at no cost, and no word of bootPolicy changes it."""
    written = YAML(typ="safe").load(SEED_CLASS.read_text())
    name = written["metadata"]["name"]
    admin.apply(written, a_request("early", "runpod", name))

    def told() -> str:
        found = seen(plane, f"/apis/tgp.io/v1/gpunodeclasses/{name}") or {}
        return str(condition(found.get("status", {}), "OffersFresh").get("message"))

    replicas.until(lambda: "cannot boot Talos" in told(), lambda: f"the class says why not: {told()}")

    def waits() -> bool:
        return condition(status_of(plane, "early"), "Launched").get("reason") == "NodeClassCannotBuy"

    replicas.until(waits, "it waits")
    uid = uid_of(plane, "early")
    admin("patch", "gnc", name, "--type=merge", '--patch={"spec": {"bootPolicy": "Any"}}')
    replicas.until(waits, "it waits on")

    replicas.until(lambda: CONTAINER_ONLY in status_of(plane, "early")["message"], "it says why")
    assert ever_made(simulators, uid) == []
    plane.admin.call("DELETE", request_path("early"))


def test_readmes_first_manifest_and_job_run_where_only_real_providers_sell(
    plane, admin, simulators, replicas, terminated
):
    """With a class that names the six real providers and nothing else of note: the Job completes on the machine."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    request, job = (
        YAML(typ="safe").load(block) for block in blocks if "kind: GPURequest" in block or "kind: Job" in block
    )
    name = request["metadata"]["name"]
    node_class = a_class(simulators)
    node_class["metadata"] = {"name": "real", "annotations": {"tgp.io/is-default-class": "true"}}
    node_class["spec"] = {
        "providers": [entry for entry in node_class["spec"]["providers"] if entry["name"] in REAL],
        "networking": {"backend": "none"},
    }
    admin.apply(
        node_class, *({**each, "metadata": {**each["metadata"], "namespace": "default"}} for each in (request, job))
    )

    def succeeded() -> bool:
        found = seen(plane, f"/apis/batch/v1/namespaces/default/jobs/{job['metadata']['name']}") or {}
        return found.get("status", {}).get("succeeded") == 1

    replicas.until(succeeded, lambda: f"the Job completes: {status_of(plane, name)}", FULL_LIFE_S)
    status = status_of(plane, name)
    assert status["phase"] == "Ready"
    assert status["selectedProvider"] in REAL
    assert len(ever_made(simulators, uid_of(plane, name))) == 1
    plane.admin.call("DELETE", request_path(name))


# -- and back ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", BOOTED)
def test_of_a_request_that_was_deleted_nothing_is_left_but_its_bill(plane, simulators, replicas, terminated, provider):
    """Object, machine and Node are gone, whichever process was killed meanwhile; its cost is in the monthly record."""
    uid = terminated[provider]
    replicas.until(lambda: seen(plane, request_path(provider)) is None, f"{provider} is gone", FULL_LIFE_S)

    assert [machine for machine in ever_made(simulators, uid) if machine.alive] == []
    assert len(ever_made(simulators, uid)) == 1
    labelled = plane.admin.call("GET", f"/api/v1/nodes?labelSelector=tgp.io/request={provider}")["items"]
    assert [node["metadata"]["name"] for node in labelled] == []
    (record,) = spend_records(plane, uid)
    assert record["microusd"] > 0
    assert record["provider"] == provider


def test_in_the_end_no_machine_is_left_at_any_provider(simulators, replicas, terminated):
    replicas.until(
        lambda: not any(machine.alive for _, machine in simulators.machines()), "every machine is gone", FULL_LIFE_S
    )
