"""A real Prometheus scrapes two replicas by HTTPS, as the rendered ServiceMonitor says, while all that can change does.

The certificate is rotated again and again, and the token of the Prometheus ends and is replaced: each is bound to a
Secret that is deleted later. Most scrapes come over a new connection, so that each certificate is verified. Replicas
run under the shipped ServiceAccount; only the Secret is read every half second instead of every ten seconds.
"""

import argparse
import json
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tgp.core.access.kept_answers import KEPT
from tools import toolbox
from tools.controlplane.client import AdminClient
from tools.controlplane.helm import Helm
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import ControlPlane, Wanted, quiet_environment
from tools.controlplane.ports import free_port
from tools.manifests import CHART

ROOT = Path(__file__).parents[1]
NAMESPACE = "tgp-system"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
OUR_SECRET = f"{SECRETS}/tgp-operator-tls"
ACCOUNT = "prometheus"
MONITOR_KIND = "monitoring.coreos.com/v1/ServiceMonitor"
REPLICAS = 2
KEPT_JOBS = 4  # whose connection stays open
RECONNECTING_JOBS = 16
RECONNECT_EVERY_S = 11  # longer than the operator keeps an idle connection
TOKEN_EVERY_S = 20.0
TOKEN_STAYS_S = 5.0  # after it was replaced: a scrape under way may still have it
WITHIN_S = 120.0
WANTED_P99_MS = 50.0
SHORTENED = (
    "from tgp.controllers.access import certificate_keeper; certificate_keeper.LOOK_EVERY = 0.5; "
    "from tgp.app.main import main; main()"
)


@dataclass
class Measured:
    scrapes: int = 0
    failed: int = 0
    p99_ms: float = 0.0
    reviews: int = 0
    most_reviews: int = 0  # that one of each kind for a token and ten seconds allows
    why: set[str] = field(default_factory=set)  # of failures


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench access", description=__doc__)
    parser.add_argument("--rotations", type=int, default=100, help="certificates (default: 100)")
    asked = parser.parse_args(options)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Wanted()) as plane:
        bench = _Bench(plane, Path(folder))
        try:
            found = bench.run(asked.rotations)
        finally:
            bench.stop()
    good = not found.failed and found.p99_ms <= WANTED_P99_MS and found.reviews <= found.most_reviews
    for why in sorted(found.why):
        print(f"a scrape failed: {why}")
    print(f"at most {found.most_reviews} reviews are one of each kind for a token, a replica and {KEPT:.0f} s")
    print(
        f"access scrapes={found.scrapes} failed={found.failed} p99_ms={found.p99_ms:.1f} reviews={found.reviews}",
        flush=True,
    )
    return 0 if good else 1


class _Bench:
    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane, self._admin, self._folder = plane, plane.admin, folder
        self._ports = [free_port() for _ in range(REPLICAS)]
        self._prometheus_port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._errors: set[str] = set()  # of scrapes, in Prometheus' words
        self._tokens = _Tokens(plane.admin, folder / "token")

    def run(self, rotations: int) -> Measured:
        endpoint = self._install()
        for port in self._ports:
            self._start_operator(port)
        authority = self._authority(endpoint["tlsConfig"]["ca"]["configMap"])
        self._tokens.start()
        for port in self._ports:
            _wait(lambda port=port: _certificate(port) != "", f"HTTPS on {port}")  # type: ignore[misc]
        began = time.monotonic()
        self._start_prometheus(endpoint, authority)
        _wait(lambda: len(self._samples("up")) > 0, "the first scrape")
        for number in range(rotations):
            self._rotate()
            self._note_errors()
            if number % 10 == 9:
                print(f"{number + 1} certificates, {self._tokens.count} tokens", flush=True)
        time.sleep(2 * RECONNECT_EVERY_S)
        return self._measured(time.monotonic() - began)

    def stop(self) -> None:
        self._tokens.stop()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(60)

    def _install(self) -> dict[str, Any]:
        """Kinds and rights; returns the endpoint of the ServiceMonitor that the chart renders."""
        kubectl = Kubectl(toolbox.find(toolbox.KUBECTL), self._plane.kubeconfig, self._plane.directory)
        kubectl("apply", "--server-side", f"--filename={ROOT / 'deploy' / 'crds'}")
        kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        kubectl("apply", f"--filename={ROOT / 'deploy' / 'rights.yaml'}")
        kubectl("create", "serviceaccount", ACCOUNT, f"--namespace={NAMESPACE}")
        account = f"--serviceaccount={NAMESPACE}:{ACCOUNT}"
        kubectl("create", "clusterrolebinding", ACCOUNT, "--clusterrole=tgp-metrics-reader", account)
        helm = Helm(toolbox.find(toolbox.HELM_CLIENT), self._folder)
        text = helm("template", "tgp", str(CHART), f"--namespace={NAMESPACE}", f"--api-versions={MONITOR_KIND}")
        documents = [each for each in YAML(typ="safe", pure=True).load_all(text) if each]
        (monitor,) = (each for each in documents if each["kind"] == "ServiceMonitor")
        (endpoint,) = monitor["spec"]["endpoints"]
        found: dict[str, Any] = endpoint
        return found

    def _start_operator(self, port: int) -> None:
        kubeconfig = self._plane.kubeconfig_for_service_account(NAMESPACE, "tgp-operator")
        arguments = ["operator", "--listen=", f"--https-listen=127.0.0.1:{port}", f"--kubeconfig={kubeconfig}"]
        self._start([sys.executable, "-c", SHORTENED, *arguments], f"operator-{port}")

    def _start(self, command: list[str], name: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=quiet_environment())
        self._processes.append(process)

    def _authority(self, reference: Mapping[str, str]) -> Path:
        """The ConfigMap as a file, as the Prometheus operator mounts it. Rotating a leaf never changes it."""
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{reference['name']}"
        _wait(lambda: self._admin.ask("GET", path)[0] == 200, "the authority")
        file = self._folder / "ca.crt"
        file.write_text(self._admin.call("GET", path)["data"][reference["key"]])
        return file

    def _start_prometheus(self, endpoint: Mapping[str, Any], authority: Path) -> None:
        assert endpoint["bearerTokenFile"], "the token of its own pod"
        job = {
            "scheme": endpoint["scheme"],
            "metrics_path": endpoint["path"],
            "authorization": {"type": "Bearer", "credentials_file": str(self._tokens.file)},
            "tls_config": {"ca_file": str(authority), "server_name": endpoint["tlsConfig"]["serverName"]},
            "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in self._ports]}],
        }
        often = [
            {"job_name": f"kept-{number}", "scrape_interval": "5s", "scrape_timeout": "5s", **job}
            for number in range(KEPT_JOBS)
        ]
        interval = f"{RECONNECT_EVERY_S}s"
        seldom = [
            {"job_name": f"new-{number}", "scrape_interval": interval, "scrape_timeout": "10s", **job}
            for number in range(RECONNECTING_JOBS)
        ]
        config = self._folder / "prometheus.json"
        config.write_text(json.dumps({"scrape_configs": [*often, *seldom]}))  # JSON is YAML
        storage = f"--storage.tsdb.path={self._folder / 'data'}"
        listens = f"--web.listen-address=127.0.0.1:{self._prometheus_port}"
        self._start([str(_prometheus(self._folder)), f"--config.file={config}", storage, listens], "prometheus")

    def _rotate(self) -> None:
        """A leaf that cannot be read is made again by the leader; waits until every replica serves it."""
        before = [_certificate(port) for port in self._ports]
        self._admin.call("PATCH", OUR_SECRET, {"data": {"tls.crt": ""}})
        _wait(
            lambda: all(_certificate(port) != old for port, old in zip(self._ports, before, strict=True)),
            "the next certificate",
        )

    # -- the result --------------------------------------------------------------------------------------------------

    def _ask(self, path: str, **query: str) -> Any:
        url = f"http://127.0.0.1:{self._prometheus_port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as page:
                return json.load(page)["data"]
        except OSError:
            return {}

    def _samples(self, name: str) -> list[float]:
        found = self._ask("query", query=f"{name}[2h]").get("result", [])
        return [float(value) for series in found for _, value in series["values"]]

    def _measured(self, seconds: float) -> Measured:
        ups, durations = self._samples("up"), sorted(self._samples("scrape_duration_seconds"))
        self._note_errors()
        tokens = self._tokens.count
        return Measured(
            scrapes=len(ups),
            failed=ups.count(0.0),
            p99_ms=durations[min(len(durations) * 99 // 100, len(durations) - 1)] * 1000,
            reviews=sum(self._reviews(port) for port in self._ports),
            most_reviews=2 * REPLICAS * (int(seconds / KEPT) + 2 * tokens),
            why=self._errors,
        )

    def _note_errors(self) -> None:
        targets = self._ask("targets").get("activeTargets", [])
        self._errors |= {each["lastError"] for each in targets if each["lastError"]}

    def _reviews(self, port: int) -> int:
        trust = ssl.create_default_context(cafile=str(self._folder / "ca.crt"))
        headers = {"Authorization": f"Bearer {self._tokens.file.read_text()}"}
        request = urllib.request.Request(f"https://localhost:{port}/metrics", headers=headers)
        with urllib.request.urlopen(request, timeout=10, context=trust) as page:  # noqa: S310 - on loopback
            text = page.read().decode()
        return int(sum(map(float, re.findall(r"^tgp_access_reviews_total\{.*\} (\S+)$", text, re.MULTILINE))))


class _Tokens:
    """A file with a token that works; the one before it ends a few seconds later."""

    def __init__(self, admin: AdminClient, file: Path) -> None:
        self._admin = admin
        self.file = file
        self.count = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._replace()
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(TOKEN_EVERY_S):
            former = self.count
            self._replace()
            if not self._ended.wait(TOKEN_STAYS_S):
                self._admin.call("DELETE", f"{SECRETS}/token-{former}")

    def _replace(self) -> None:
        name = f"token-{self.count + 1}"
        bound = self._admin.call("POST", SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
        reference = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": bound["metadata"]["uid"]}
        answer = self._admin.call(
            "POST",
            f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": 600, "boundObjectRef": reference},
            },
        )
        written = self.file.with_suffix(".new")
        written.write_text(answer["status"]["token"])
        written.replace(self.file)
        self.count += 1


def _certificate(port: int) -> str:
    """That a new connection is shown; empty: none."""
    try:
        return ssl.get_server_certificate(("127.0.0.1", port), timeout=5)
    except OSError:
        return ""


def _prometheus(folder: Path) -> Path:
    """This machine's, or Debian's package, unpacked and not installed: nothing is started by it."""
    if found := shutil.which("prometheus"):
        return Path(found)
    for command in (["apt-get", "download", "prometheus"], ["sh", "-c", "dpkg -x prometheus_*.deb ."]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return folder / "usr" / "bin" / "prometheus"


def _wait(holds: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > give_up_at:
            raise SystemExit(f"not within {WITHIN_S:.0f} s: {what}")
        time.sleep(0.1)
