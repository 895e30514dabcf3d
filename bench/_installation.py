"""A cluster without tgp, and a person who types the commands of the documentation there.

The control plane is real; its pods run in the image's root, as a kubelet would run them. The provider is simulated and
boots a machine in two seconds. Needs root.
"""

import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.controlplane.node_registrar import NodeRegistrar
from tests.controlplane.providers import a_device_plugin
from tests.controlplane.simulators import Simulators
from tgp.core.joining.talos.placeholder_values import placeholder_join
from tools import toolbox
from tools.controlplane.client import Refused
from tools.controlplane.nodes import fake_node
from tools.controlplane.plane import EVERYTHING, ControlPlane, quiet_environment
from tools.controlplane.pod_launcher import PodLauncher, launched
from tools.controlplane.pod_launcher import until as tended_until
from tools.image import Image
from tools.toolbox.pins import Tool

ROOT = Path(__file__).parents[1]
NAMESPACE = "tgp-system"
PATIENCE_S = 300.0
SOON_S = 0.3  # what a command that is still running leaves to the pods between two looks
REQUEST = "/apis/tgp.io/v1/namespaces/default/gpurequests/my-first-gpu"


@dataclass
class Person:
    plane: ControlPlane
    pods: PodLauncher
    folder: Path  # where they work: worker.yaml and first.yaml are there
    programs: Mapping[str, list[str]]
    said: list[str] = field(default_factory=list)  # commands and what they printed
    commands: int = 0

    def type(self, line: str, *, unsaid: str = "", refused: bool = False) -> str:
        """One command, to its end, while pods are tended. `unsaid`: arguments that only this computer needs."""
        name, *arguments = shlex.split(f"{line} {unsaid}")
        environment = quiet_environment() | {"HOME": str(self.folder), "KUBECONFIG": str(self.plane.kubeconfig)}
        with (self.folder / "output").open("w+") as output:
            process = subprocess.Popen(
                [*self.programs[name], *arguments], cwd=self.folder, env=environment, stdout=output, stderr=output
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

    def phase(self) -> str:
        """Of their request; empty: there is none, or it is too new."""
        try:
            return str(self.plane.admin.call("GET", REQUEST).get("status", {}).get("phase", ""))
        except Refused:
            return ""


@dataclass(frozen=True)
class Scene:
    person: Person
    simulators: Simulators

    @property
    def factory(self) -> str:
        """For helm install: images come from a pretend factory, there being no network."""
        return f"--set settings.factory.url={self.simulators.factory_url}"


@contextmanager
def a_cluster(helm: Tool, built: Image, code: Mapping[str, Path] | None = None) -> Iterator[Scene]:
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
        launched(plane, NAMESPACE, Path(folder) / "pods", built, code) as pods,
    ):
        work = Path(folder) / "work"
        for each in (work, Path(folder) / "pods"):
            each.mkdir()
        (work / "deploy").symlink_to(ROOT / "deploy")
        (work / "worker.yaml").write_text(json.dumps(_worker()))
        (work / "first.yaml").write_text("\n---\n".join(map(json.dumps, _first(simulators))))
        for name in ("own-1", "own-2"):
            plane.admin.call("POST", "/api/v1/nodes", fake_node(name))
        plane.admin.call("POST", "/apis/apps/v1/namespaces/kube-system/daemonsets", a_device_plugin())
        yield Scene(Person(plane, pods, work, programs), simulators)


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
