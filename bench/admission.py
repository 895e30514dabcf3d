"""What the policies of budgets add to the creation of a pod on a real API server, beside a validating webhook."""

import argparse
import contextlib
import http.client
import json
import ssl
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tgp.api.crds import crds
from tgp.api.resource import GPU_WORKLOAD_BUDGET, NAMESPACE, POD
from tgp.core.budgets.admission import LABEL
from tgp.services.shipped import budget_policies
from tools.controlplane.certificates import Authority
from tools.controlplane.client import Refused
from tools.controlplane.plane import ControlPlane, Wanted

WANTED_OPEN_MS, WANTED_CLOSED_MS = 0.5, 1.5
OPEN_BUDGETS = 100
WARM = 50  # creations before each measurement
PATIENCE_S = 30.0
TEAM, PROBE = "team", "probe"  # namespaces: of the pods, and of a budget that shows whether the policies are in force
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
WEBHOOKS = f"{REGISTRATION}/validatingwebhookconfigurations"


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench admission", description=__doc__)
    parser.add_argument("--pods", type=int, default=200, help="creations per round, by dry run (default: 200)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of all four (default: 9)")
    asked = parser.parse_args(options)
    taken: dict[str, list[float]] = {"bare": [], "open": [], "closed": [], "webhook": []}  # the median of each round
    with ControlPlane(Wanted()) as plane, _webhook() as (webhook, bundle):
        _furnish(plane)
        for _ in range(asked.rounds):
            taken["bare"].append(_measure(plane, asked.pods))
            with _policies(plane):
                taken["open"].append(_measure(plane, asked.pods))
                with _closed(plane):
                    taken["closed"].append(_measure(plane, asked.pods))
            with _registered(plane, webhook, bundle):
                taken["webhook"].append(_measure(plane, asked.pods))
    # Within a round the machine is about as busy: differences are taken there.
    added = {
        name: statistics.median(more - bare for more, bare in zip(each, taken["bare"], strict=True))
        for name, each in taken.items()
    }
    print(f"a pod without policies    {statistics.median(taken['bare']):.2f} ms")
    print(f"{OPEN_BUDGETS} open budgets add      {added['open']:.2f} ms (wanted: {WANTED_OPEN_MS} at most)")
    print(f"one that gates it adds    {added['closed']:.2f} ms (wanted: {WANTED_CLOSED_MS} at most)")
    print(f"a validating webhook adds {added['webhook']:.2f} ms")
    print(
        f"admission open_ms={added['open']:.2f} closed_ms={added['closed']:.2f} webhook_ms={added['webhook']:.2f}",
        flush=True,
    )
    return 0 if added["open"] <= WANTED_OPEN_MS and added["closed"] <= WANTED_CLOSED_MS else 1


def _furnish(plane: ControlPlane) -> None:
    for definition in crds():
        plane.admin.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    for name in (TEAM, PROBE):
        plane.admin.call("POST", NAMESPACE.path(), {"metadata": {"name": name}})
    _until(lambda: _status(plane, "GET", GPU_WORKLOAD_BUDGET.path(TEAM)) == 200)
    for number in range(OPEN_BUDGETS):
        _budget(plane, TEAM, f"open-{number}", "Gate", label="")
    _budget(plane, PROBE, "deny", "Deny", label="Deny")
    _budget(plane, PROBE, "gate", "Gate", label="Gate")


def _budget(plane: ControlPlane, namespace: str, name: str, admission: str, *, label: str) -> None:
    spec = {
        "selector": {"matchLabels": {"team": name if namespace == PROBE else "a"}},
        "quota": {"gpuHours": 1, "windowHours": 24},
        "enforcement": {"action": "AlertOnly", "admission": admission},
    }
    metadata = {"name": name, "labels": {LABEL: label} if label else {}}
    made = {"apiVersion": "tgp.io/v1", "kind": "GPUWorkloadBudget", "metadata": metadata, "spec": spec}
    plane.admin.call("POST", GPU_WORKLOAD_BUDGET.path(namespace), made)
    row = {"type": "QuotaExceeded", "status": "True" if label else "False", "reason": "Told", "message": ""}
    status = {"conditions": [{**row, "lastTransitionTime": "2026-01-05T09:00:00Z"}]}
    plane.admin.call("PATCH", GPU_WORKLOAD_BUDGET.path(namespace, name, "status"), {"status": status})


def _pod(namespace: str, team: str) -> dict[str, Any]:
    container = {"name": "main", "image": "example.org/main:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    metadata = {"name": "new", "namespace": namespace, "labels": {"team": team}}
    spec = {"containers": [container], "serviceAccountName": "default", "automountServiceAccountToken": False}
    return {"metadata": metadata, "spec": spec}


def _measure(plane: ControlPlane, times: int) -> float:
    """Milliseconds of a creation at the median, on one connection."""
    address, tls = urlsplit(plane.url), ssl.create_default_context(cafile=str(plane.ca_file))
    headers = {"Authorization": f"Bearer {plane.admin_token}", "Content-Type": "application/json"}
    body, path = json.dumps(_pod(TEAM, "a")), f"{POD.path(TEAM)}?dryRun=All"
    taken = []
    line = http.client.HTTPSConnection(address.hostname or "", address.port, timeout=PATIENCE_S, context=tls)
    with closing(line):
        for number in range(WARM + times):
            began = time.perf_counter()
            line.request("POST", path, body, headers)
            reply = line.getresponse()
            reply.read()
            assert reply.status == 201, "the pod was refused"
            if number >= WARM:
                taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


# -- what is in force --------------------------------------------------------------------------------------------------


@contextmanager
def _policies(plane: ControlPlane) -> Iterator[None]:
    manifests = list(budget_policies())
    for manifest in manifests:
        plane.admin.call("POST", f"{REGISTRATION}/{PLURALS[manifest['kind']]}", manifest)
    _until(lambda: _in_force(plane) == (True, True))
    yield
    for manifest in reversed(manifests):
        plane.admin.call("DELETE", f"{REGISTRATION}/{PLURALS[manifest['kind']]}/{manifest['metadata']['name']}")
    _until(lambda: _in_force(plane) == (False, False))


def _in_force(plane: ControlPlane) -> tuple[bool, bool]:
    """Whether pods are denied, and gated."""
    path = f"{POD.path(PROBE)}?dryRun=All"
    gated = plane.admin.call("POST", path, _pod(PROBE, "gate"))
    denied = _status(plane, "POST", path, _pod(PROBE, "deny")) == 403
    return denied, "schedulingGates" in gated["spec"]


@contextmanager
def _closed(plane: ControlPlane) -> Iterator[None]:
    """One of the budgets of the pods is used up: they are gated."""
    _budget(plane, TEAM, "closed", "Gate", label="Gate")
    path = f"{POD.path(TEAM)}?dryRun=All"
    _until(lambda: "schedulingGates" in plane.admin.call("POST", path, _pod(TEAM, "a"))["spec"])
    yield
    plane.admin.call("DELETE", GPU_WORKLOAD_BUDGET.path(TEAM, "closed"))


def _status(plane: ControlPlane, method: str, path: str, body: dict[str, Any] | None = None) -> int:
    return plane.admin.ask(method, path, json.dumps(body).encode() if body is not None else None)[0]


def _until(holds: Callable[[], bool]) -> None:
    give_up_at = time.perf_counter() + PATIENCE_S
    while True:
        with contextlib.suppress(Refused):
            if holds():
                return
        assert time.perf_counter() < give_up_at, "the API server did not take it over"
        time.sleep(0.1)


# -- the usual webhook -------------------------------------------------------------------------------------------------


class _Allows(BaseHTTPRequestHandler):
    """Looks at nothing and allows everything: what any webhook costs at least."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65_536  # head and body in one packet: two would wait for each other's acknowledgement
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"uid": review["request"]["uid"], "allowed": True}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server names it
        """Nothing."""


@contextmanager
def _webhook() -> Iterator[tuple[str, str]]:
    """Its URL, and the certificates by which it is known."""
    authority = Authority()
    pair = authority.serving()
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Allows)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/", authority.pair.certificate_data
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _registered(plane: ControlPlane, url: str, bundle: str) -> Iterator[None]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": "bench.tgp.io",
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    plane.admin.call("POST", WEBHOOKS, {"metadata": {"name": "bench"}, "webhooks": [hook]})
    time.sleep(2)  # the API server reads its webhooks every second
    yield
    plane.admin.call("DELETE", f"{WEBHOOKS}/bench")
    time.sleep(2)
