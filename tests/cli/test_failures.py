"""Every error of the cluster ends with the next step, whichever command meets it."""

import asyncio
from datetime import timedelta

import click
import pytest

from tests.cli.program import answer
from tests.cli.test_output import commands
from tgp.adapters.kube import list as list_pages
from tgp.app.cli_context import NotConnected
from tgp.app.commands.operator import CannotStart
from tgp.app.main import COMMANDS, OTHER_WORDS, tgp
from tgp.interfaces.cli.failure import GONE, NO_CONFIG, ended, with_next_step
from tgp.ports.cluster import ClusterBusy, Forbidden, KindsMissing, NotFound, Unauthenticated
from tgp.services.cluster_failure import KINDS, LOGIN, NOT_ACCEPTED, REACH, RIGHTS

# What each command needs besides flags for the cluster; None: it does not ask a cluster, or works without one.
ARGUMENTS: dict[str, tuple[str, ...] | None] = {
    "tgp breakeven": None,
    "tgp budgets": (),
    "tgp budgets report": (),
    "tgp budgets reset": ("x", "--yes"),
    "tgp budgets simulate": (),
    "tgp budgets top-up": ("x", "--gpu-hours=1", "--until=friday"),
    "tgp check": None,
    "tgp cost": (),
    "tgp crds apply": (),
    "tgp crds diff": (),
    "tgp doctor": (),
    "tgp down": ("--yes",),
    "tgp hold": (),
    "tgp init": None,
    "tgp mesh policy": None,
    "tgp node test": ("x", "--yes"),
    "tgp nodes": (),
    "tgp observe": None,
    "tgp offers": None,
    "tgp operator": None,
    "tgp plan": (),
    "tgp release": ("--yes",),
    "tgp rent": ("--gpu=L40S", "--class=x", "--max-price=3", "--yes"),
    "tgp status": (),
    "tgp talos check": None,
    "tgp talos join-secret": None,
    "tgp talos render": None,
    "tgp watch": ("x",),
    "tgp why": ("x",),
}
STAYS = {"tgp watch"}  # it waits until the cluster is back
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {token: x}}]
"""


def asks_a_cluster(command: click.Command) -> bool:
    return any("--kubeconfig" in option.opts for option in command.params)


def test_every_command_that_asks_a_cluster_is_tried():
    assert {name for name, command in commands(tgp, "tgp") if asks_a_cluster(command)} == set(ARGUMENTS)


@pytest.mark.parametrize("name", [name for name, words in ARGUMENTS.items() if words is not None])
def test_without_a_kubeconfig_the_next_step_is_to_name_one(name, tmp_path):
    said = answer(*name.split()[1:], *(ARGUMENTS[name] or ()), "--kubeconfig", str(tmp_path / "none"))

    assert said.returncode == 2
    assert said.stderr.splitlines()[-1] == f"next: {NO_CONFIG}{GONE if name == 'tgp doctor' else ''}"


@pytest.mark.parametrize("name", [name for name, words in ARGUMENTS.items() if words is not None and name not in STAYS])
def test_a_cluster_that_does_not_answer_is_looked_for_next(name, tmp_path):
    file = tmp_path / "config"
    file.write_text(KUBECONFIG)
    said = answer(*name.split()[1:], *(ARGUMENTS[name] or ()), "--kubeconfig", str(file))

    assert said.returncode in (1, 2)
    assert said.stderr.splitlines()[-1] == f"next: {REACH} --kubeconfig {file}"


def test_a_message_that_says_what_to_do_is_left_alone_and_others_get_their_step():
    assert ended("install it: tgp crds apply", ClusterBusy("x"), ()) == "install it: tgp crds apply"
    assert ended("no", Forbidden("x"), ("--context=a",)) == f"no\nnext: {RIGHTS} --context=a"
    assert ended("no", None, ()) == "no"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Unauthenticated("x"), f"list: 401: {NOT_ACCEPTED}\nnext: {LOGIN} --kubeconfig other"),
        (KindsMissing("x"), f"list: 401\nnext: {KINDS} --kubeconfig other"),
        (NotFound("x"), "list: 401\nnext: tgp check --kubeconfig other"),
    ],
)
def test_the_next_step_is_for_the_same_cluster(error, said):
    """A CRD applied to the current cluster instead of the one that was named would be the wrong one."""
    assert ended("list: 401", error, ("status", "--kubeconfig", "other")) == said


def test_an_error_is_a_sentence_with_a_capital_letter_unless_it_begins_with_a_name_or_a_command():
    def told(error: click.ClickException) -> tuple[str, int]:
        reworded = with_next_step(error, ())
        return reworded.message, reworded.exit_code

    assert told(click.ClickException("there is no request a/b; see tgp status")) == (
        "There is no request a/b; see tgp status",
        1,
    )
    assert told(NotConnected("context 'nope' does not exist")) == ("Context 'nope' does not exist", 2)
    assert told(CannotStart("kinds are missing")) == ("Kinds are missing", 3)
    assert told(click.UsageError("give FILE")) == ("Give FILE", 2)
    for kept in ("class.yaml is not YAML", "jobs: no such file", "tgp init makes one", "i-12 is gone"):
        assert told(click.ClickException(kept)) == (kept, 1)
    assert told(click.BadParameter("not a length")) == ("not a length", 2)


def test_words_of_other_tools_lead_to_ours():
    said = {word: answer(word).stderr.splitlines()[-1] for word in ("uninstall", "version", "statsu")}

    assert said == {
        "uninstall": "Error: No such command 'uninstall'. Did you mean 'down'?",
        "version": "Error: No such command 'version'. Did you mean '--version'?",
        "statsu": "Error: No such command 'statsu'. Did you mean 'status'?",
    }
    assert {word for word in OTHER_WORDS.values() if not word.startswith("--")} <= set(COMMANDS)
    assert not set(OTHER_WORDS) & set(COMMANDS)


class Lists:
    """What `paged` answers, one after another."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def __call__(self, *_):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("pause", [timedelta(0), None, timedelta(minutes=5)])
def test_a_list_that_the_api_server_cannot_give_yet_is_asked_for_again_when_it_says_so(monkeypatch, pause):
    """The first seconds after its CRD was created a kind answers 429, with a second to wait: commands ended there."""
    lists = Lists(ClusterBusy("429: storage is (re)initializing", pause), "listed")
    monkeypatch.setattr(list_pages, "paged", lists)
    asked = list_pages.paged_when_ready(None, None)

    if pause == timedelta(0):
        assert asyncio.run(asked) == "listed"
    else:
        with pytest.raises(ClusterBusy):
            asyncio.run(asked)
    assert len(lists.answers) == (0 if pause == timedelta(0) else 1)
