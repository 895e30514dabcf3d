"""The way to a first machine is one sequence: in README and docs, in the bench that measures it, and in its Job."""

import shlex
from pathlib import Path

from ruamel.yaml import YAML

from bench.install import PAGE, WANTED, documented
from tgp.interfaces.cli.init_view import first_job
from tgp.services.setup import INSTALL
from tgp.services.setup_plan import SetupAnswers

ROOT = Path(__file__).parents[2]


def test_the_readme_shows_the_commands_that_the_bench_types():
    assert documented(ROOT / "README.md") == documented(PAGE)


def test_they_are_helm_install_tgp_init_and_a_first_job():
    helm, init, apply = documented()

    assert helm == INSTALL.format("tgp-system"), "as tgp init names it"
    assert init == "tgp init"
    assert shlex.split(apply)[:3] == ["kubectl", "apply", "-f"]
    assert len(documented()) <= WANTED["commands"]


def test_the_job_is_the_one_that_tgp_init_shows():
    """For a machine with an NVIDIA GPU, in the namespace that a kubeconfig has unless it says otherwise."""
    job = YAML(typ="safe", pure=True).load((ROOT / shlex.split(documented()[2])[3]).read_text())

    assert job == first_job(SetupAnswers(provider="vultr", gpu="L40S", max_hourly_cost="2.00"))
