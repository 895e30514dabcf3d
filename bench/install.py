"""From an empty real control plane to a Ready machine of a simulated Vultr, by the commands of docs/install.md.

They are read from the page. What is not measured: starting the control plane, building the image, whose size is
printed, and the first import of a Talos image into the provider's account. `--record` writes
docs/media/installation.txt instead: the life of an installation with both Helms. Needs root, as a kubelet does.
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench._installation import NAMESPACE, ROOT, Installation, Person, a_cluster
from tgp import __version__
from tools import toolbox
from tools.controlplane.registry import Registry, a_registry
from tools.image import image
from tools.release import PREVIOUS, former_code
from tools.toolbox.pins import Tool

WANTED = {"commands": 3, "seconds": 90, "ready_s": 15, "image_mb": 100}
PAGE = ROOT / "docs" / "install.md"
RECORD = ROOT / "docs" / "media" / "installation.txt"
SHOWN_REGISTRY = "oci://registry.example/charts"
ENDPOINT = "https://100.101.102.103:6443"
CHART = "deploy/charts/tgp-operator"
INTRODUCTION = """The life of an installation, on a real control plane with a simulated provider.
Written by `python -m bench install --record`. first.yaml has a class and a request for one T4; worker.yaml is the
machine config of a Talos worker. The registry is one of OCI artifacts, on the same computer.
"""


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench install", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write docs/media/installation.txt instead")
    if parser.parse_args(options).record:
        _record()
        return 0
    built = image()
    with a_cluster(toolbox.NEWER_HELM_CLIENT, built) as installation:
        figures = _measured(installation) | {"image_mb": built.compressed_mb}
    for name, value in figures.items():
        print(f"{name:<9} {value:6.1f} (wanted: {WANTED[name]} at most)")
    print(
        f"install commands={figures['commands']:.0f} seconds={figures['seconds']:.1f} ready_s={figures['ready_s']:.1f} "
        f"image_mb={figures['image_mb']:.0f}"
    )
    return 0 if all(value <= WANTED[name] for name, value in figures.items()) else 1


def documented(page: Path = PAGE) -> list[str]:
    """The commands of the block that begins with helm install."""
    found = re.compile(r"^```sh\n(helm install tgp-operator deploy.*?)^```", re.DOTALL | re.MULTILINE)
    block = found.search(page.read_text("utf-8"))
    assert block is not None, f"{page.name} shows no installation"
    return block[1].splitlines()


def _measured(installation: Installation) -> dict[str, float]:
    """`ready_s`: from the last command to the Ready machine."""
    person = installation.person
    began = time.monotonic()
    for line in documented():
        if line == "tgp init":  # what a person answers
            person.type(line, unsaid="--provider vultr --yes", answers=installation.secrets)
            installation.image_is_there()
        else:
            person.type(line)
    asked = time.monotonic()
    person.until(lambda: "Ready" in person.phases(), "the machine is Ready")
    ended = time.monotonic()
    print("\n".join(person.said))
    return {"commands": person.commands, "seconds": ended - began, "ready_s": ended - asked}


# The record


def _record() -> None:
    parts = [INTRODUCTION]
    for tool in (toolbox.NEWER_HELM_CLIENT, toolbox.HELM_CLIENT):
        parts += [f"== Helm {tool.version}", "", *_life(tool)]
        print(f"Helm {tool.version}: recorded", flush=True)
    RECORD.write_text("\n".join(parts), encoding="utf-8")


def _life(helm: Tool) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as former, ExitStack() as stack:
        chart, code = former_code(Path(former))
        installation = stack.enter_context(a_cluster(helm, image(), code))
        registry = stack.enter_context(a_registry(Path(former) / "registry.log"))
        (installation.person.folder / chart.name).symlink_to(PREVIOUS / chart.name)
        _lived(installation, chart, registry)
        hidden = {
            registry.charts: SHOWN_REGISTRY,
            registry.charts.removeprefix("oci://"): SHOWN_REGISTRY.removeprefix("oci://"),
            installation.simulators.urls()["simulated"]: "http://simulated.example",
            str(installation.person.folder): ".",
            str(Path(sys.executable).with_name("tgp")): "tgp",
        }
        for line in installation.person.said:
            for shown, instead in hidden.items():
                line = line.replace(shown, instead)  # noqa: PLW2901
            yield line.rstrip()


def _lived(installation: Installation, former: Path, registry: Registry) -> None:
    person, there, plain = installation.person, f"--namespace {NAMESPACE}", "--plain-http"
    operator, kinds = (f"{registry.charts}/{name}" for name in ("tgp-operator", "tgp-crds"))
    person.said += ["# The previous release is in the registry. It is installed, and rents a machine."]
    person.type(f"helm push {former.name} {registry.charts}", unsaid=plain)
    person.type(
        f"helm install tgp-operator {operator} --version {_version(former)} {there} --create-namespace",
        unsaid=f"{plain} {installation.factory}",
    )
    person.type(f"tgp talos join-secret worker.yaml --endpoint {ENDPOINT} --apply")
    person.type("kubectl apply -f first.yaml")
    person.until(lambda: bool(person.phases() - {"", "Pending"}), "a machine is ordered")
    person.type("kubectl get gpurequests")
    person.said += ["# The upgrade, while the machine boots: kinds first, then the operator."]
    person.type(f"helm package {CHART} deploy/charts/tgp-crds")
    for name in ("tgp-operator", "tgp-crds"):
        person.type(f"helm push {name}-{__version__}.tgz {registry.charts}", unsaid=plain)
    this = f"--version {__version__} {there}"
    person.type(f"helm upgrade --install tgp-crds {kinds} {this} --take-ownership", unsaid=plain)
    person.type(f"helm upgrade tgp-operator {operator} {this} --reset-then-reuse-values", unsaid=plain)
    person.until(lambda: "Ready" in person.phases() and _holder(person) in person.pods.running, "Ready")
    person.type("kubectl get gpurequests")
    person.type(f"kubectl get lease tgp-operator {there}")
    person.said += ["# Back to the previous release, and forward again. The kinds stay."]
    person.type(f"helm rollback tgp-operator 1 {there}")
    person.until(lambda: _holder(person) in person.pods.running, "the former operator leads")
    person.type(f"helm rollback tgp-operator 2 {there}")
    person.until(lambda: _holder(person) in person.pods.running, "this operator leads")
    person.until(lambda: _guarded(person), "the policies are in force")
    person.said += ["# Uninstalling is refused while the machine costs money."]
    person.type(f"helm uninstall tgp-operator {there}", refused=True)
    person.type(f"helm rollback tgp-operator {_revision(person)} {there}")
    person.type("tgp down --yes")
    person.until(lambda: not _guarded(person), "no machine costs money")
    person.type(f"helm uninstall tgp-operator {there}")
    person.type(f"helm uninstall tgp-operator {there}", refused=True)
    person.said += ["# The kinds stay, with the classes."]
    person.type("kubectl get gpunodeclasses")


def _version(chart: Path) -> str:
    return chart.stem.rpartition("-")[2]


def _holder(person: Person) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/tgp-operator"
    held = str(person.plane.admin.call("GET", path)["spec"].get("holderIdentity", ""))
    return next((name for name in person.pods.running if held.startswith(name)), "")


def _guarded(person: Person) -> bool:
    notes = person.plane.admin.call("GET", f"/api/v1/namespaces/{NAMESPACE}")["metadata"].get("annotations", {})
    return "tgp.io/holdings" in notes


def _revision(person: Person) -> str:
    """That the refusal named."""
    text = "\n".join(person.said)
    return text.rpartition("helm rollback tgp-operator ")[2].split()[0]
