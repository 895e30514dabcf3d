"""`tgp completion`, and what kubectl asks: commands, flags and the names of live objects."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from tests.cli.program import Terminal
from tests.cli.sample_requests import send
from tests.cli.test_status import cluster, on
from tests.contracts.kubectl.mounted import Mounted
from tgp.app.cli_context import CliContext
from tgp.app.main import COMMANDS, kubectl_complete, tgp
from tools.toolbox.debian import programs

__all__ = ["cluster"]  # the fixture

BASH = """
eval "$(tgp completion bash)"
COMP_WORDS=({}) COMP_CWORD={}
_tgp_completion tgp
echo "${{COMPREPLY[@]}}"
"""


def completed(*words: str) -> list[str]:
    asked = ShellComplete(tgp, {"obj": CliContext()}, "tgp", "_TGP_COMPLETE")
    return [item.value for item in asked.get_completions(list(words[:-1]), words[-1])]


def test_commands_and_flags_complete():
    assert completed("sta") == ["status"]
    assert "--operator-namespace" in completed("hold", "--")
    assert completed("completion", "") == ["bash", "zsh", "fish"]


def test_every_command_completes_with_the_sentence_of_the_help():
    """Whole: a sentence that is cut in the middle tells less than none."""
    asked = ShellComplete(tgp, {"obj": CliContext()}, "tgp", "_TGP_COMPLETE").get_completions([], "")

    assert {item.value: item.help for item in asked} == {name: doc for name, (_, doc) in COMMANDS.items()}


def test_names_of_requests_and_their_nodes_complete(cluster: Mounted):
    flags = ("--kubeconfig", str(cluster.kubeconfig))

    assert "request/ml/train" in completed("why", *flags, "req")
    assert all(each.startswith("node/") for each in completed("why", *flags, "node/"))
    assert completed("watch", *flags, "request/absent") == []


def furnished(cluster: Mounted) -> tuple[str, str]:
    """With a class that has a machine of its own, a pool and a pod that waits; and the flags that lead there."""
    power = {"scaleUpEndpoint": "https://power.example/on", "scaleDownEndpoint": "https://power.example/off"}
    machine = {"name": "gpu-worker-1", "gpuType": "RTX3090", "gpuCount": 1, **power}
    entry = {"name": "webhook", "settings": {"machines": [machine]}}
    spec = {"providers": [entry], "networking": {"backend": "none"}}
    names = {"metadata": {"name": "cellar"}, "apiVersion": "tgp.io/v1"}
    send(f"{cluster.url}/apis/tgp.io/v1/gpunodeclasses", "POST", {**names, "kind": "GPUNodeClass", "spec": spec})
    pool = {"nodeClassRef": {"name": "cellar"}}
    there = f"{cluster.url}/apis/tgp.io/v1/namespaces/ml/gpunodepools"
    send(there, "POST", {**names, "kind": "GPUNodePool", "spec": pool})
    pod = {"metadata": {"name": "waits"}, "spec": {"containers": [{"name": "gpu", "image": "any"}]}}
    send(f"{cluster.url}/api/v1/namespaces/ml/pods", "POST", pod)
    return "--kubeconfig", str(cluster.kubeconfig)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("why", "pool/"), ["pool/ml/cellar"]),
        (("why", "pod/ml/w"), ["pod/ml/waits"]),
        (("why", "po"), ["pod/ml/every-node", "pod/ml/mine", "pod/ml/waits", "pool/ml/cellar"]),
        (("plan", "--consolidate", "--pool", ""), ["ml/cellar"]),
        (("rent", "--class", "ce"), ["cellar"]),
        (("mesh", "policy", "--class", "ce"), ["cellar"]),
        (("hold", "class/ce"), ["class/cellar"]),
        (("node", "test", "gpu"), ["gpu-worker-1"]),
    ],
    ids=" ".join,
)
def test_names_of_pools_pods_classes_and_own_machines_complete(cluster: Mounted, words, names):
    flags = furnished(cluster)
    where = 2 if words[0] in ("mesh", "node") else 1

    assert completed(*words[:where], *flags, *words[where:]) == names


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


@pytest.fixture
def terminal(cluster: Mounted) -> dict[str, str]:
    """`tgp` is in the path, and the kubeconfig leads to the cluster."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig)}


def printed(env: dict[str, str], *command: str) -> str:
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert "Traceback" not in said.stderr
    return said.stdout.strip()


def test_bash_completes_with_it(terminal):
    assert printed(terminal, "bash", "-c", BASH.format("tgp hol", 1)) == "hold"
    assert printed(terminal, "bash", "-c", BASH.format("tgp why request/ml/tr", 2)) == "request/ml/train"


def test_fish_completes_with_it(terminal):
    fish = str(programs(["fish"])["fish"])
    ask = "tgp completion fish | source; complete --do-complete '{}'"

    assert printed(terminal, fish, "--no-config", "-c", ask.format("tgp hol")).split("\t")[0] == "hold"
    assert "request/ml/train" in printed(terminal, fish, "--no-config", "-c", ask.format("tgp why request/ml/tr"))


def test_zsh_completes_with_it(terminal, tmp_path):
    """At a real terminal: the letters, the tab key, and what then stands in the line."""
    zsh = str(programs(["zsh"])["zsh"])
    become = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
    screen = Terminal(tmp_path, "-c", become, zsh, "-f", "-i", **{**terminal, "TERM": "dumb"})
    try:
        screen.type(b"PS1='%% '; autoload -U compinit; compinit -u -D; eval \"$(tgp completion zsh)\"; echo re''ady\n")
        screen.wait_for(b"ready")
        screen.type(b"tgp hol\t")
        screen.wait_for(b"tgp hold ")
        screen.type(b"\x15tgp why request/ml/tr\t")
        screen.wait_for(b"request/ml/train")
    finally:
        screen.close()


def test_the_real_kubectl_completes_with_it(terminal, kubectl_program):
    """It starts `kubectl_complete-tgp`, which stands beside `tgp`."""
    assert printed(terminal, kubectl_program, "__complete", "tgp", "hol").splitlines()[0].startswith("hold\t")
    named = printed(terminal, kubectl_program, "__complete", "tgp", "why", "request/ml/tr")
    assert named.splitlines()[0].startswith("request/ml/train")


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
