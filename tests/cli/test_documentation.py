"""Every command that the README and the docs show is run here, or stands in a list with the reason why not."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.cli.program import Answer, a_market, answer
from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.api.decoding import strict
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.resource import JOB, POD
from tgp.app import settings
from tgp.core.classes.semantic_validation import class_problems
from tgp.core.joining.talos.releases import USUAL
from tgp.core.joining.talos.render import inspect
from tgp.core.model.talos import read_version
from tgp.sim.apiserver import ApiServer
from tools import toolbox
from tools.clients import client_environment
from tools.controlplane.fixtures import a_control_plane
from tools.controlplane.plane import ControlPlane, Wanted
from tools.controlplane.registry import a_registry

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "DEVELOPMENT.md", "ARCHITECTURE.md", "SECURITY.md")),
        *(ROOT / "docs").glob("**/*.md"),
        *(ROOT / "src/tgp/adapters/clouds").glob("*/README.md"),
    ]
)
BOUND_S = 180
EMBEDDED_S = 3600  # it is ended with the last test; this is for a test run that was killed

# Commands that would run this very suite, rewrite the tree or need a package index: make only resolves them.
RESOLVED_ONLY = (
    "make test",
    "make prove",
    "make check",
    "make format",
    "make bench",
    "make chaos",
    "make lock",
    "make release",
)
# Commands that stay until they are told to go, and what they say once they are there.
STAYS = {
    "make run": "kubectl",
    "tgp demo": "kubectl",
    "tgp observe": "observing",
    "make cluster": "Ctrl-C stops everything",
    "tgp operator": "LeadershipWon",
    "tgp sim": "Ctrl-C ends",
    "tgp watch": "asked",
}
# Commands that ask a market. Here they ask a simulated one, whatever the page says: no test leaves this machine.
ASKS_THE_MARKET = ("tgp offers", "tgp check", "tgp breakeven", "tgp sim fleet", "tgp sim bill", "tgp sim break")
# Commands that create what another page creates as well: the API server judges them, and keeps nothing.
JUDGED = {"create secret": "--dry-run=server", "deploy/install.yaml": "--dry-run=server --force-conflicts"}
# What begins a command in a block that is not `sh`.
PROGRAMS = "az|curl|docker|eval|export|gcloud|git|helm|kubectl|make|pip|pipx|printf|python3?|talosctl|tgp|uv|wg"
ANSWERED = "tests/cli/test_init.py"
WALKED = "tests/cli/test_operations.py"
IMPORTED = "tests/cli/test_import.py"
AZURE = "needs an account at Azure, which no test has"
BUILT = "tools/image.py"
# Commands that are not run here: the file that runs them, or why none does.
ELSEWHERE = {
    "tgp init": ANSWERED,
    'printf \'%s\\n\' "$KEY" "$CLIENT_ID" "$CLIENT_SECRET" | tgp init --provider vultr --talos worker.yaml --yes': (
        ANSWERED
    ),
    "make wheelhouse": BUILT,
    "docker build --network none --tag registry.example/tgp-operator:0.1.0 .": BUILT,
    "docker push registry.example/tgp-operator:0.1.0": "the image is not kept in a registry by any test",
    "docker run -e GPU_NODE_1_NAME=gpu-worker-1 … registry.example/tgp-operator:0.1.0": (
        "tests/sim/test_seed_environment.py"
    ),
    "helm registry login registry.example": "the registry of the tests asks for no name",
    "pip install .": BUILT,
    'eval "$(tgp completion bash)"': "tests/cli/test_completion.py",
    "tgp talos join-secret worker.yaml --apply": "tests/cli/test_talos_join.py",
    "tgp talos join-secret worker.yaml --endpoint https://100.101.102.103:6443 --apply": "tests/cli/test_talos_join.py",
    "talosctl get machineconfig v1alpha1 --nodes 192.168.7.20 --output=jsonpath='{.spec}' > worker.yaml": (
        "needs a Talos node, which no test has"
    ),
    "tgp down": "tests/cli/test_down.py",
    "tgp doctor": "tests/cli/test_doctor.py",
    "tgp doctor --no-cluster": WALKED,
    "tgp doctor --cluster-id 1875c16502": WALKED,
    'tgp doctor --cluster-id "$(kubectl get namespace kube-system -o jsonpath={.metadata.uid})"': WALKED,
    "export VULTR_API_KEY=…": WALKED,
    "helm upgrade tgp-operator deploy/charts/tgp-operator --namespace tgp-system --reset-then-reuse-values --wait": (
        "tests/controlplane/test_installed.py"
    ),
    "helm install tgp-operator deploy/charts/tgp-operator --namespace other --create-namespace": WALKED,
    "kubectl proxy &": "tests/controlplane/test_access.py",
    "TOKEN=$(kubectl -n tgp-system create token reader --audience tgp-operator --duration 10m)": (
        "tests/controlplane/test_access.py"
    ),
    "kubectl -n tgp-system create serviceaccount reader": "tests/controlplane/test_access.py",
    "kubectl create clusterrolebinding tgp-reader --clusterrole=tgp-viewer --serviceaccount=tgp-system:reader": (
        "tests/controlplane/test_access.py"
    ),
    'curl -H "X-Tgp-Token: $TOKEN" localhost:8001/api/v1/namespaces/tgp-system/services/https:tgp-operator:https/proxy/'
    "api/v1/requests": "tests/controlplane/test_access.py",
    "kubectl describe gr serve-13f31a2b0e": "a machine of the example: tests/sim/test_disruption.py has its conditions",
    "kubectl get gpurequest train --output=jsonpath='{.status.meshHostname}'": "tests/sim/joining/test_joining.py",
    "kubectl apply -f deploy/rights.yaml": "tests/cli/test_operator_start.py",
    "kubectl create clusterrolebinding tgp-operator-2 --clusterrole=tgp-operator --serviceaccount=default:default": (
        "tests/cli/test_operator_start.py"
    ),
    "kubectl -n tgp-system create secret generic paperspace-key --from-literal=PAPERSPACE_API_KEY=…": (
        "tests/cli/test_preflight.py"
    ),
    "tgp node test gpu-worker-1": "tests/cli/test_node_test.py",
    "wg syncconf wg0 /run/wg0.synced": "tests/realmesh/test_wireguard.py",
    "kubectl get gpuworkloadbudgets.budget.zxuhan.dev -A -o yaml | tgp import - > budgets.yaml": IMPORTED,
    "tgp check -f budgets.yaml": IMPORTED,
    "kubectl delete gpuworkloadbudgets.budget.zxuhan.dev -A --all": IMPORTED,
    "kubectl apply -f budgets.yaml": IMPORTED,
    "tgp import values.yaml > machines.yaml": IMPORTED,
    "kubectl get deployment gpu-node-manager -o yaml | tgp import - > machines.yaml": IMPORTED,
    "tgp import .env > machines.yaml": IMPORTED,
    "tgp import classes.yaml pools.yaml requests.yaml > tgp.yaml": IMPORTED,
    "tgp check -f tgp.yaml": IMPORTED,
    "tgp import --mesh tailscale class.yaml > class-tailscale.yaml": IMPORTED,
    "tgp check -f class-tailscale.yaml": IMPORTED,
    "kubectl apply -f class-tailscale.yaml": IMPORTED,
    "az group create --name tgp --location westeurope": AZURE,
    "az deployment group create --resource-group tgp --template-file deploy/aks/main.bicep": AZURE,
    "az aks get-credentials --resource-group tgp --name tgp": AZURE,
    "helm install tgp-operator deploy/charts/tgp-operator --namespace tgp-system --create-namespace "
    "--set image.repository=REGISTRY/tgp-operator": AZURE,
}
FOREIGN = {"Job": JOB, "Pod": POD}
BLOCK = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
REGISTRY = "oci://registry.example"  # of charts: here one on this computer
EMBEDDED = ".tgp/kubeconfig"  # what leads to the embedded world
INTERRUPTED = (0, 2, 130, -signal.SIGINT)  # make itself dies of the signal it passed on


def shown() -> list[tuple[str, str]]:
    """(page, command) for every line of every `sh` block, comments cut off, and every line with a prompt elsewhere.

    What several pages show is run once, but for the embedded world, where the lines of a page follow each other. These
    come last: as long as it stands, a minute of ours is an hour of its own to be lived.
    """
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for page in PAGES:
        for language, block in BLOCK.findall(page.read_text()):
            for line in block.splitlines():
                command = re.sub(r"\s+#.*$", "", line).strip()
                if language != "sh":
                    command = command.removeprefix("$ ") if command.startswith("$ ") else ""
                if command and command not in ELSEWHERE:
                    place = page.name if EMBEDDED in command else ""
                    found.setdefault((place, command), (page.name, command))
    return sorted(found.values(), key=lambda line: EMBEDDED in line[1])


def beside() -> set[str]:
    """The commands in blocks that are not `sh`, with or without a prompt, amid output or not."""
    found = set()
    begins = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:{PROGRAMS})(?= |$)")
    for page in PAGES:
        for language, block in BLOCK.findall(page.read_text()):
            for line in block.splitlines():
                command = re.sub(r"\s+#.*$", "", line).strip().removeprefix("$ ")
                if language != "sh" and begins.match(command):
                    found.add(command)
    return found


@dataclass(frozen=True)
class Vendor:
    """A provider's own program: where it comes from, and which variables lead it to the simulated market."""

    package: str
    requirement: str
    provider: str
    url: str
    key: str


VENDORS = {
    "vastai": Vendor("vastai", "vastai==1.9.1", "vast", "VAST_URL", "VAST_API_KEY"),
    "lai": Vendor(
        "lambda-ai-cloud-api-client",
        "lambda-ai-cloud-api-client==2.4.1",
        "lambdalabs",
        "LAMBDA_CLOUD_BASE_URL",
        "LAMBDA_CLOUD_TOKEN",
    ),
}


def spoken(command: str) -> tuple[dict[str, str], list[str]]:
    """What a shell would make of a line: the variables set before a command, and its words. `export` has no words."""
    words = shlex.split(command)
    exporting = words[0] == "export"
    assigned: dict[str, str] = {}
    for word in words[exporting:]:
        name, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            break
        assigned[name] = value
    rest = words[exporting + len(assigned) :]
    assert not (exporting and rest), f"no shell exports this: {command}"
    return assigned, rest


@pytest.fixture(scope="module")
def control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """One of this file's own: what the commands leave on it does not affect other tests."""
    with a_control_plane(pytestconfig, Wanted()) as plane:
        yield plane


@pytest.fixture(scope="module")
def environment(control_plane, kubectl_program, tmp_path_factory) -> dict[str, str]:
    """A terminal in the repository: our own programs first, and a cluster of its own."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "kubectl").symlink_to(kubectl_program)
    (folder / "helm").symlink_to(toolbox.find(toolbox.HELM_CLIENT))
    (folder / "tgp").symlink_to(Path(sys.executable).with_name("tgp"))
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "KUBECONFIG": str(control_plane.kubeconfig), "PYTHON": sys.executable}


@pytest.fixture(scope="module")
def embedded_world(environment) -> Iterator[None]:
    """What the kubectl lines for the embedded world talk to."""
    command = [sys.executable, "-m", "tgp", "demo", "--lines", "--for", f"{EMBEDDED_S}s"]
    at_once = {**environment, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, cwd=ROOT, env=at_once, stdout=subprocess.PIPE, text=True)
    with process:
        while "big-gpus: NotReady" not in process.stdout.readline():
            assert process.poll() is None
        yield
        process.send_signal(signal.SIGINT)
        process.communicate()


@dataclass(frozen=True)
class ChartRegistry:
    """Where charts are packaged to and pushed to."""

    folder: Path
    registry: str

    def line(self, command: str) -> str:
        """The same command with these places. Ours speaks no TLS."""
        here = command.replace("dist", str(self.folder))
        return f"{here.replace(REGISTRY, self.registry)} --plain-http" if REGISTRY in here else here


@pytest.fixture(scope="module")
def charts(tmp_path_factory) -> Iterator[ChartRegistry]:
    folder = tmp_path_factory.mktemp("charts")
    with a_registry(folder / "registry.log") as registry:
        yield ChartRegistry(folder, registry.charts.removesuffix("/charts"))


@pytest.fixture(scope="module")
def simulated_market() -> Iterator[str]:
    with a_market() as url:
        yield url


def test_the_documentation_shows_commands():
    assert len(shown()) > 8


def test_a_command_in_any_other_block_is_run_here_or_listed_with_the_test_that_runs_it():
    run = {command for _, command in shown()}
    everything = "\n".join(page.read_text() for page in PAGES)

    assert sorted(beside() - run - set(ELSEWHERE)) == [], "neither run nor listed"
    assert sorted(command for command in ELSEWHERE if command not in everything) == [], "no page shows it any more"
    for command, where in ELSEWHERE.items():
        assert " " in where or (ROOT / where).is_file(), f"{command}: {where} does not exist"


def test_what_stands_before_a_command_is_read_as_a_shell_reads_it():
    assert spoken("export TGP_WORLD=http://127.0.0.1:8010") == ({"TGP_WORLD": "http://127.0.0.1:8010"}, [])
    assert spoken('A=1 make test T="a b" B=2') == ({"A": "1"}, ["make", "test", "T=a b", "B=2"])


@pytest.mark.parametrize(("page", "command"), shown(), ids=lambda text: text.replace("/", "."))
def test_a_command_in_the_documentation_works(page, command, environment, control_plane, request):
    if EMBEDDED in command:
        request.getfixturevalue("embedded_world")
    if REGISTRY in command or command.startswith("helm package"):
        command = request.getfixturevalue("charts").line(command)
    command = next((f"{command} {flags}" for part, flags in JUDGED.items() if part in command), command)
    assigned, words = spoken(_quickly(command.replace("KUBECONFIG=…", f"KUBECONFIG={control_plane.kubeconfig}")))
    environment, line = {**environment, **assigned}, " ".join(words)
    if not words:  # an export: the next lines show what it is good for
        return None
    if words[0] in VENDORS:
        vendor = VENDORS[words[0]]
        assert {vendor.url, vendor.key} == set(assigned), "both lead it to the market"
        ended = _run(
            words,
            _led_to(
                vendor, request.getfixturevalue("simulated_market"), environment, request.getfixturevalue("tmp_path")
            ),
        )
    elif line.startswith(ASKS_THE_MARKET):
        ended = _run(words, {**environment, "TGP_WORLD": request.getfixturevalue("simulated_market")})
    elif line.startswith(RESOLVED_ONLY):
        ended = _run(["make", "-n", *words[1:]], environment)
    elif (sign := next((STAYS[known] for known in STAYS if line.startswith(known)), "")) and "FOR=" not in line:
        return _stays_until_told(words, "observing" if "KUBECONFIG=" in line else sign, environment)
    else:
        ended = _run(words, environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return None


def written() -> list[tuple[str, str]]:
    """(page, text) for every `yaml` block."""
    blocks = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
    return [(page.name, text) for page in PAGES for text in blocks.findall(page.read_text())]


def test_the_documentation_shows_manifests_and_settings():
    texts = [text for _, text in written()]

    assert any("kind:" in text for text in texts)
    assert any("kind:" not in text for text in texts)


@pytest.mark.parametrize(("page", "text"), written())
def test_what_the_documentation_writes_in_yaml_is_accepted(page, text):
    """A manifest is one that the API server would take, a template one that boots, and anything else is a file for
    `tgp operator --config`.
    """
    if "{{." in text:
        assert inspect(text, read_version(USUAL)) == ((), ())
        return
    document = YAML(typ="safe", pure=True).load(text)
    if "kind" not in document:
        settings.load({}, {}, document, page)
        return
    if document["kind"] in FOREIGN:  # a Job or a Pod: the API server itself says
        ApiServer(SystemClock(), SystemEntropy()).local_api.create(
            FOREIGN[document["kind"]],
            {**document, "metadata": {"namespace": "default", **document["metadata"]}},
        )
        return
    manifest = strict(document)
    if isinstance(manifest, GPUNodeClass):
        assert class_problems(manifest) == []


def _led_to(vendor: Vendor, world: str, environment: dict[str, str], home: Path) -> dict[str, str]:
    """The vendor's program on the path, with the address and the key that the simulated market publishes."""
    with urllib.request.urlopen(f"{world}/_tgp/clouds") as answer:  # noqa: S310 - on loopback
        told = next(row for row in json.load(answer)["clouds"] if row["provider"] == vendor.provider)
    programs = client_environment(vendor.package, vendor.requirement) / "bin"
    return {
        **environment,
        "PATH": f"{programs}{os.pathsep}{environment['PATH']}",
        "HOME": str(home),
        "VASTAI_NO_UPDATE_CHECK": "1",
        vendor.url: told["url"],
        vendor.key: told["key"],
    }


def _quickly(command: str) -> str:
    """Shorter where a person would wait."""
    shorter = re.sub(r"FOR=\d+s", "FOR=3s", command)
    if "tgp plan" in shorter:  # its hours are of the job: no test waits for them
        return shorter
    return re.sub(r"--hours \d+", "--hours 0.2 --workers 1", shorter)


def _run(words: list[str], environment: dict[str, str]) -> "Answer | subprocess.CompletedProcess[str]":
    """Our own program in this process: `tests/cli/program.py` starts it as others do."""
    if words[0] == "tgp":
        with chdir(ROOT):
            return answer(*words[1:], **environment)
    return subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=BOUND_S, check=False
    )


def _stays_until_told(words: list[str], sign: str, environment: dict[str, str]) -> None:
    """It gets to where it wanted, stays there, and ends well when asked to, as by Ctrl-C."""
    program = shutil.which(words[0], path=environment["PATH"])
    process = subprocess.Popen(
        [program, *words[1:]],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    watchdog = threading.Timer(BOUND_S, os.killpg, (process.pid, signal.SIGKILL))
    watchdog.start()
    try:
        said = ""
        while sign not in said and (line := process.stdout.readline()):
            said += line
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate()
    finally:
        watchdog.cancel()
    assert sign in said, said
    assert process.returncode in INTERRUPTED, said + rest
    assert "Traceback" not in said + rest, said + rest
