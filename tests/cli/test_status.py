"""`tgp status`: every request with its machine, what it costs and when it ends; and the lines that say what to type."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.sample_requests import BOUGHT, FAILED, FINISHED, READY, WAITING, after, become, drawn, furnish, send
from tests.cli.test_rent import BARE
from tests.contracts.kubectl.mounted import Mounted
from tgp.app.main import main, tgp
from tgp.interfaces.cli import status as status_command
from tgp.interfaces.cli.status_view import next_command, render
from tgp.ports.cluster import ClusterBusy
from tgp.services.documents.requests import status_report, status_rows
from tgp.services.request_answers import ClusterStatus

NOW = after(3600)
SEVERAL = ClusterStatus(NOW, (READY, WAITING, FINISHED, FAILED), {"gpu-train": 2})


def words(standing: ClusterStatus, width: int = 140, *, every: bool = False) -> str:
    return drawn(render(standing, width, every=every), width)


def test_a_machine_is_one_row_with_what_it_costs_and_when_it_ends():
    line = next(line for line in words(SEVERAL).splitlines() if line.startswith("ml/train"))

    assert line.split() == [
        "ml/train",
        "Ready",
        "Fine",
        "1x",
        "L40S",
        "vultr",
        "gpu-train",
        "$1.20",
        "$1.20",
        "3h",
        "2",
    ]
    assert "1 machine costs $1.20 an hour. As of 2026-11-16T15:02:10Z." in words(SEVERAL)


def test_what_is_over_is_counted_and_shown_when_asked_for():
    assert "2 requests finished or failed; --all shows them." in words(SEVERAL)
    assert "Finished" not in words(SEVERAL)
    assert "Finished" in words(SEVERAL, every=True)


def test_a_narrow_terminal_keeps_phase_money_and_end():
    for width in (60, 80, 100, 140):
        lines = words(SEVERAL, width).splitlines()
        assert {"PHASE", "$/H", "SPENT", "ENDS"} <= set(lines[0].split())
        assert max(map(len, lines)) <= width


def test_what_does_not_serve_is_looked_at_first():
    assert next_command(status_rows(SEVERAL)[:2]) == "tgp why request/ml/train"
    assert next_command(status_rows(replace(SEVERAL, requests=(READY,)))) == "tgp watch request/ml/train"
    assert next_command([]) == "tgp rent --help"


def test_rights_that_reach_less_far_are_told():
    told = words(ClusterStatus(NOW, (READY,), None, only="ml"))

    assert "Only namespace ml: you may not list requests in others." in told
    assert status_report(ClusterStatus(NOW, (READY,), None))["requests"][0]["pods"] is None


def test_an_end_that_has_come_is_due():
    assert " due " in words(replace(SEVERAL, now=after(4 * 3600) + timedelta(seconds=1)))


@pytest.fixture
def cluster(tmp_path: Path):
    with Mounted(tmp_path) as server:
        address = furnish(server)
        living = {"phase": "Ready", "attempts": [BOUGHT], "nodeName": "gpu-train", "conditions": []}
        become(address, json.dumps(living))
        containers = [{"name": "c", "image": "c"}]
        for name, owner in (("mine", "Job"), ("every-node", "DaemonSet")):
            owners = [{"apiVersion": "v1", "kind": owner, "name": "x", "uid": "1", "controller": True}]
            meta = {"name": name, "ownerReferences": owners}
            spec = {"nodeName": "gpu-train", "containers": containers}
            send(f"{server.url}/api/v1/namespaces/ml/pods", "POST", {"metadata": meta, "spec": spec})
        yield server


def on(server: Mounted, *words: str):
    return CliRunner().invoke(tgp, [*words, "--kubeconfig", str(server.kubeconfig)], env={**BARE, "COLUMNS": "200"})


def test_it_reads_any_cluster_and_counts_the_pods_that_are_not_of_daemon_sets(cluster: Mounted):
    told = json.loads(on(cluster, "status", "-o", "json").output)
    elsewhere = on(cluster, "status", "-n", "default")

    assert [(row["name"], row["phase"], row["node"], row["pods"]) for row in told["requests"]] == [
        ("train", "Ready", "gpu-train", 1)
    ]
    assert told["usdPerHour"] == 1.2
    said = " ".join(elsewhere.output.split())
    assert "Namespace default has no requests. 1 machine in other namespaces costs $1.20 an hour; without -n" in said
    assert "There are no requests" not in said
    assert "1 machine in namespace ml costs $1.20 an hour." in on(cluster, "status", "-n", "ml").output


@pytest.mark.parametrize(
    ("standing", "told"),
    [
        ({"elsewhere": (FINISHED,)}, "No machine is rented in other namespaces; the cost is $0.00 an hour."),
        ({"elsewhere": None}, "You may not list requests in all namespaces, so machines of others are not counted."),
        ({"only": "ml"}, "Only namespace ml: you may not list requests in others."),
    ],
)
def test_a_namespace_without_machines_is_not_taken_for_the_whole_cluster(standing, told):
    said = words(ClusterStatus(NOW, (), namespace="ml", **standing))

    assert "Namespace ml has no requests." in said
    assert told in " ".join(said.split())
    assert "Namespace ml has no machine." in words(ClusterStatus(NOW, (FINISHED,), namespace="ml", **standing))


def test_a_cluster_without_our_kinds_is_told_what_to_do(tmp_path: Path):
    with Mounted(tmp_path) as server:
        answer = on(server, "status")

    assert answer.exit_code == 1
    assert "tgp crds apply" in answer.output


class Flickering:
    """A cluster that answers, does not answer, and answers again; then the user ends the command."""

    def __init__(self) -> None:
        self._looks = iter([SEVERAL, ClusterBusy("503 from the API server"), replace(SEVERAL, requests=(WAITING,))])

    @asynccontextmanager
    async def requests(self, _kubeconfig: str, _context: str) -> AsyncIterator["Flickering"]:
        yield self

    async def standing(self, _namespace: str) -> ClusterStatus:
        look = next(self._looks, None)
        if look is None:
            raise SystemExit(0)
        if isinstance(look, ClusterBusy):
            raise look
        return look


@pytest.mark.parametrize("how", ["table", "json"])
def test_what_was_last_seen_stays_while_the_cluster_does_not_answer(monkeypatch, how):
    monkeypatch.setattr(status_command, "LOOK_EVERY", 0.0)
    answer = CliRunner().invoke(status_command.status, ["--watch", "-o", how], obj=Flickering(), env={"COLUMNS": "140"})

    assert answer.exit_code == 0
    assert answer.output.count("! the cluster does not answer: 503 from the API server") == 1
    assert answer.stdout.count("gpu-train") == (2 if how == "table" else 1)


# -- next: -----------------------------------------------------------------------------------------------------------


def last(answer) -> str:
    return answer.output.splitlines()[-1]


def test_the_next_step_is_for_the_same_cluster(cluster: Mounted):
    kubeconfig = f"--kubeconfig {cluster.kubeconfig}"
    send(f"{cluster.url}/api/v1/namespaces", "POST", {"metadata": {"name": "elsewhere"}})

    assert last(on(cluster, "status", "-n", "ml")) == f"next: tgp watch {kubeconfig} --namespace ml request/ml/train"
    assert last(on(cluster, "why", "ml/train")).startswith("next: ")
    assert kubeconfig in last(on(cluster, "why", "ml/train"))
    held = on(cluster, "hold", "audit", "--operator-namespace", "elsewhere", "--context", "memory")
    assert last(held) == f"next: tgp release {kubeconfig} --context memory --operator-namespace elsewhere"


def test_the_next_step_is_never_the_command_just_run(cluster: Mounted):
    send(f"{cluster.url}/api/v1/namespaces", "POST", {"metadata": {"name": "tgp-system"}})
    after_hold = on(cluster, "hold", "audit")
    released = on(cluster, "release", "--yes")
    again = on(cluster, "doctor")

    assert last(after_hold).startswith("next: tgp release")
    assert last(released).startswith("next: tgp doctor")
    assert not last(again).startswith("next: tgp doctor --kubeconfig")
    assert "next: tgp doctor\n" not in again.output


def test_kubectls_plugin_speaks_of_itself_as_it_was_called(cluster: Mounted, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["/usr/local/bin/kubectl-tgp", "status", "--kubeconfig", str(cluster.kubeconfig)])
    with pytest.raises(SystemExit):
        main()

    said = capsys.readouterr().out.splitlines()[-1]
    assert said == f"next: kubectl tgp watch --kubeconfig {cluster.kubeconfig} request/ml/train"
