"""`tgp completion`, and what kubectl asks: commands, flags and the names of live objects."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from tests.cli.sample_requests import send
from tests.cli.test_status import cluster, on
from tests.contracts.kubectl.mounted import Mounted
from tgp.app.cli_context import CliContext
from tgp.app.main import kubectl_complete, tgp

__all__ = ["cluster"]  # the fixture

BASH = """
eval "$(tgp completion bash)"
COMP_WORDS=(tgp hol) COMP_CWORD=1
_tgp_completion tgp
echo "${COMPREPLY[@]}"
"""


def completed(*words: str) -> list[str]:
    asked = ShellComplete(tgp, {"obj": CliContext()}, "tgp", "_TGP_COMPLETE")
    return [item.value for item in asked.get_completions(list(words[:-1]), words[-1])]


def test_commands_and_flags_complete():
    assert completed("sta") == ["status"]
    assert "--operator-namespace" in completed("hold", "--")
    assert completed("completion", "") == ["bash", "zsh", "fish"]


def test_names_of_requests_and_their_nodes_complete(cluster: Mounted):
    flags = ("--kubeconfig", str(cluster.kubeconfig))

    assert "request/ml/train" in completed("why", *flags, "req")
    assert all(each.startswith("node/") for each in completed("why", *flags, "node/"))
    assert completed("watch", *flags, "request/nobody") == []


def test_names_of_budgets_complete(cluster: Mounted):
    spec = {
        "selector": {"matchLabels": {"team": "a"}},
        "quota": {"gpuHours": 1, "windowHours": 24},
        "enforcement": {"action": "AlertOnly"},
    }
    budget = {"apiVersion": "tgp.io/v1", "kind": "GPUWorkloadBudget", "metadata": {"name": "team-a"}, "spec": spec}
    send(f"{cluster.url}/apis/tgp.io/v1/namespaces/ml/gpuworkloadbudgets", "POST", budget)
    flags = ("--kubeconfig", str(cluster.kubeconfig))

    assert completed("why", *flags, "budget/") == ["budget/ml/team-a"]
    assert completed("budgets", "top-up", *flags, "ml/") == ["ml/team-a"]


def test_a_cluster_that_cannot_be_asked_completes_nothing_and_says_nothing(tmp_path: Path, capsys):
    assert completed("why", "--kubeconfig", str(tmp_path / "gone"), "") == []
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_the_program(shell: str):
    answer = CliRunner().invoke(tgp, ["completion", shell])

    assert answer.exit_code == 0
    assert f"_TGP_COMPLETE={shell}_complete" in answer.output


def test_bash_completes_with_it():
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path}
    said = subprocess.run(["bash", "-c", BASH], env=env, capture_output=True, text=True, check=True)

    assert (said.stdout.strip(), said.stderr) == ("hold", "")


def test_kubectl_is_answered_as_it_wants(cluster: Mounted, monkeypatch, capsys):
    """The words, each with what it means, and a last line that says: no names of files."""
    monkeypatch.setattr("sys.argv", ["kubectl_complete-tgp", "cos"])
    with pytest.raises(SystemExit):
        kubectl_complete()
    word, *rest = capsys.readouterr().out.splitlines()
    assert word.startswith("cost\tShow what was spent")
    assert rest == [":4"]

    monkeypatch.setattr(
        "sys.argv", ["kubectl_complete-tgp", "why", "--kubeconfig", str(cluster.kubeconfig), "request/"]
    )
    with pytest.raises(SystemExit):
        kubectl_complete()
    assert "request/ml/train\t" in capsys.readouterr().out
    assert on(cluster, "status").exit_code == 0  # nothing was changed
