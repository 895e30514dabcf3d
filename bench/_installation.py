"""A cluster without tgp, and a person who types the commands of the documentation there.

The control plane is real; its pods run in the image's root, as a kubelet would run them. Providers and Tailscale are
simulated, and a machine boots in two seconds. `tgp` is the tree's; the public names lead to the simulators. Needs root.
"""

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.controlplane.node_registrar import NodeRegistrar
from tests.controlplane.providers import a_device_plugin
from tests.controlplane.simulators import Simulators
from tgp import __version__
from tgp.core.joining.talos.placeholder_values import placeholder_join
from tgp.core.joining.talos.releases import USUAL
from tgp.sim.clouds.vultr import SNAPSHOT_ID
from tools import toolbox
from tools.controlplane.client import AdminClient, Refused
from tools.controlplane.nodes import fake_node
from tools.controlplane.plane import EVERYTHING, ControlPlane, quiet_environment
from tools.controlplane.pod_launcher import TREE, PodLauncher, launched
from tools.controlplane.pod_launcher import until as tended_until
from tools.image import Image
from tools.toolbox.pins import Tool

ROOT = Path(__file__).parents[1]
NAMESPACE = "tgp-system"
PATIENCE_S = 300.0
SOON_S = 0.3  # what a command that is still running leaves to the pods between two looks
REQUESTS = "/apis/tgp.io/v1/gpurequests"
CLASS = "/apis/tgp.io/v1/gpunodeclasses/gpus"
LED = """

TABLE = {table}
_direct = HttpClientPool.__call__


def _led(self, base_url, *, address=""):
    scheme, _, rest = base_url.partition("://")
    host, _, path = rest.partition("/")
    if host in TABLE:
        return _direct(self, f"{{TABLE[host]}}/{{path}}")
    return _direct(self, base_url, address=address)


HttpClientPool.__call__ = _led
"""


@dataclass
class Person:
    plane: ControlPlane
    pods: PodLauncher
    folder: Path  # where they work: worker.yaml and first.yaml are there
    programs: Mapping[str, list[str]]
    code: Path  # of tgp, whose calls to public names come to the simulators
    said: list[str] = field(default_factory=list)  # commands and what they printed
    commands: int = 0

    def type(self, line: str, *, unsaid: str = "", answers: Iterable[str] = (), refused: bool = False) -> str:
        """One command, to its end, while pods are tended.

        `unsaid`: arguments that only this computer needs; `answers`: lines of standard input.
        """
        name, *arguments = shlex.split(f"{line} {unsaid}")
        environment = quiet_environment() | {
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.plane.kubeconfig),
            "PYTHONPATH": str(self.code),
        }
        (self.folder / "answers").write_text("".join(f"{each}\n" for each in answers))
        with (self.folder / "output").open("w+") as output, (self.folder / "answers").open() as given:
            process = subprocess.Popen(
                [*self.programs[name], *arguments],
                cwd=self.folder,
                env=environment,
                stdin=given,
                stdout=output,
                stderr=output,
            )
            began = time.monotonic()
            while process.poll() is None and time.monotonic() - began < PATIENCE_S:
                self.pods.tend()
                time.sleep(SOON_S)
            output.seek(0)
            text = output.read()
        self.commands += 1
        self.said += [f"$ {line}", *text.rstrip().splitlines(), ""]
        if (process.wait(0) != 0) is not refused:
            raise SystemExit(f"{line}: exit code {process.returncode}\n{text}")
        return text

    def until(self, holds: Callable[[], bool], what: str) -> None:
        tended_until(self.pods, holds, what, PATIENCE_S)

    def phases(self) -> set[str]:
        """Of the requests that there are."""
        try:
            found = self.plane.admin.call("GET", REQUESTS)["items"]
        except Refused:  # the kind is too new
            return set()
        return {str(each.get("status", {}).get("phase", "")) for each in found}


@dataclass(frozen=True)
class Installation:
    person: Person
    simulators: Simulators

    @property
    def secrets(self) -> list[str]:
        """As `tgp init` asks for them."""
        keys = self.simulators.keys()
        return [keys["VULTR_API_KEY"], keys["client-id"], keys["client-secret"]]

    def image_is_there(self) -> None:
        """The account has a Talos image of its own: the import of a first one takes minutes, and is Vultr's time."""
        entry = {"name": "vultr", "settings": {"snapshotId": SNAPSHOT_ID}}
        self.person.plane.admin.call("PATCH", CLASS, {"spec": {"providers": [entry]}})

    @property
    def factory(self) -> str:
        """For helm install: images come from a pretend factory, there being no network."""
        return f"--set settings.factory.url={self.simulators.factory_url}"


@contextmanager
def a_cluster(helm: Tool, built: Image, code: Mapping[str, Path] | None = None) -> Iterator[Installation]:
    """With two nodes of its own and a device plugin, and nothing of tgp."""
    programs = {
        "helm": [str(toolbox.find(helm))],
        "kubectl": [str(toolbox.find(toolbox.KUBECTL))],
        "tgp": [sys.executable, "-m", "tgp"],
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(EVERYTHING) as plane,
        Simulators() as simulators,
        NodeRegistrar(simulators, plane.admin),
        launched(
            plane, NAMESPACE, Path(folder) / "pods", built, {__version__: Path(folder) / "tgp", **(code or {})}
        ) as pods,
    ):
        _lead(Path(folder) / "tgp", simulators)
        work = Path(folder) / "work"
        for each in (work, Path(folder) / "pods"):
            each.mkdir()
        (work / "deploy").symlink_to(ROOT / "deploy")
        (work / "worker.yaml").write_text(json.dumps(_worker()))
        (work / "first.yaml").write_text("\n---\n".join(map(json.dumps, _first(simulators))))
        for name in ("own-1", "own-2"):
            _own_node(plane.admin, name)
        plane.admin.call("POST", "/apis/apps/v1/namespaces/kube-system/daemonsets", a_device_plugin())
        yield Installation(Person(plane, pods, work, programs, Path(folder)), simulators)


def _lead(package: Path, simulators: Simulators) -> None:
    """A copy of the tree's code that finds the simulators by the public names."""
    shutil.copytree(TREE, package, ignore=shutil.ignore_patterns("__pycache__"))
    with (package / "adapters" / "http" / "client_pool.py").open("a") as pool:
        pool.write(LED.format(table=json.loads(simulators.signposts())))


def _own_node(admin: AdminClient, name: str) -> None:
    node = fake_node(name)
    node["status"]["nodeInfo"] = {"osImage": f"Talos ({USUAL})"}
    admin.call("POST", "/api/v1/nodes", node)


def _worker() -> dict[str, Any]:
    """The machine config of a worker, as far as it is read."""
    join = placeholder_join()
    return {
        "machine": {"type": "worker", "token": join.machine_token.reveal(), "ca": {"crt": join.machine_ca, "key": ""}},
        "cluster": {
            "id": join.cluster_id.reveal(),
            "secret": join.cluster_secret.reveal(),
            "ca": {"crt": join.cluster_ca, "key": ""},
            "controlPlane": {"endpoint": "https://203.0.113.7:6443"},
            "clusterName": "home",
        },
    }


def _first(simulators: Simulators) -> list[dict[str, Any]]:
    """A class of the simulated provider, and a request for one machine."""
    entry = {"name": "simulated", "settings": {"endpoint": simulators.urls()["simulated"]}}
    rented = {"providers": [entry], "networking": {"backend": "none"}}
    wanted = {"gpuType": "T4", "maxHourlyPrice": "2.00", "maxLifetime": "4h"}
    mine = {"name": "my-first-gpu", "namespace": "default"}
    return [
        {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": "gpus"}, "spec": rented},
        {"apiVersion": "tgp.io/v1", "kind": "GPURequest", "metadata": mine, "spec": wanted},
    ]
