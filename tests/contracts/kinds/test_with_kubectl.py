"""What a person sees of our kinds through kubectl, and what `tgp crds` does to a real API server."""

from click.testing import CliRunner

from tests.contracts.kinds.conftest import install
from tests.contracts.kinds.real_api_server import RealApiServer
from tests.contracts.kinds.test_early_manifests import EARLY, read
from tgp.api.decoding import kind_of
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION
from tgp.app.main import tgp
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import ControlPlane


def test_explain_reads_like_a_manual(real_server: RealApiServer, kubectl: Kubectl):
    text = " ".join(kubectl("explain", "gpunodepool.spec.disruption.budgets").split())

    assert (
        "How many nodes may be disrupted at the same time, and when. Default: one budget of 10 % of the nodes" in text
    )
    assert "IANA time zone of schedule, such as Europe/Berlin. Default UTC." in text


def test_get_shows_our_kinds_together_with_their_columns(real_server: RealApiServer, kubectl: Kubectl):
    stored = [read(path) for path in EARLY]
    for manifest in stored:
        real_server.create(kind_of(manifest), manifest)
    try:
        together = kubectl("get", "tgp", "-A")
        wide = kubectl("get", "gnp", "-n", "default", "-o", "wide")
    finally:
        for manifest in stored:
            real_server.delete(kind_of(manifest), manifest)

    for column in ("READY", "HOURLY", "PHASE", "MACHINES", "MODE"):
        assert column in together
    row = next(line.split() for line in wide.splitlines() if line.startswith("ml-workload-pool"))
    assert "standard-gpu-class" in row
    assert wide.split("\n", 1)[0].split() == [
        "NAME",
        "READY",
        "REASON",
        "MODE",
        "WAITING",
        "MACHINES",
        "HOURLY",
        "LAST-PLAN",
        "AGE",
        "CLASS",
        "UNSERVED",
        "WEIGHT",
        "MAX-PRICE",
        "CONSOLIDATION",
        "REPLICAS",
        "WOULD-COST",
    ]


def test_the_command_line_brings_a_real_cluster_up_to_date(control_plane: ControlPlane, real_server: RealApiServer):
    """Created or changed once, then unchanged; diff finds what another client changed and nothing else."""
    where = ("--kubeconfig", str(control_plane.kubeconfig), "--legacy-budgets")
    assert run("apply", *where).exit_code == 0
    again = run("apply", *where)
    assert all(line.endswith(": unchanged") for line in again.output.splitlines()), again.output
    assert run("diff", *where).exit_code == 0

    path = CUSTOM_RESOURCE_DEFINITION.path(name="gpunodepools.tgp.io")
    stored = real_server.call("GET", path).body
    stored["spec"]["names"]["shortNames"] = ["pools"]
    assert real_server.call("PUT", path, stored).accepted
    different = run("diff", *where)
    assert different.exit_code == 1
    assert "-    - pools" in different.output
    install(real_server)


def run(*arguments: str):
    return CliRunner().invoke(tgp, ["crds", *arguments], catch_exceptions=False)
