"""Our checks and Talos's own: whatever it refuses, we refuse; whatever is good, neither refuses."""

import os
from collections import Counter
from itertools import islice

import pytest

from tests.amounts import amount
from tests.core.talos.a_plan import a_join, a_plan, early_template
from tgp.core.joining.talos.check import check, pages_of
from tgp.core.joining.talos.checks_loader import check_keys, check_kinds, check_once
from tgp.core.joining.talos.document_view import Config, NodeExpectations
from tgp.core.joining.talos.render import render
from tgp.core.model.machine_config import Severity
from tgp.core.model.mesh import Backend
from tools.judge import Question
from tools.judge.broken import BROKEN
from tools.judge.mutants import mutants
from tools.judge.page import judged
from tools.judge.paper import expected, good, written
from tools.judge.valid import ADDITIONS, generated

MUTANTS = amount(60, 2500, "TGP_MUTANTS")  # for each release
SEED = int(os.environ.get("TGP_SEED", "1"))


def errors(text, version, expects=None):
    return [finding for finding in check(text, version, expects=expects) if finding.severity is Severity.ERROR]


# ---- what we make


TEMPLATES = {
    "none": None,
    "a few keys": "machine:\n  nodeLabels:\n    a.example/b: c\n  sysctls:\n    vm.nr_hugepages: '1024'\n",
    "variables": (
        "machine:\n  token: {{.MachineToken}}\n  ca:\n    crt: {{.MachineCA}}\n  env:\n    NODE: '{{ .NodeName }}'\n"
        "cluster:\n  clusterName: {{.ClusterName}}\n  controlPlane:\n    endpoint: {{.ControlPlaneEndpoint}}\n"
        "  network:\n    podSubnets: {{.PodSubnets}}\n"
    ),
    "a document": "apiVersion: v1alpha1\nkind: KmsgLogConfig\nname: remote\nurl: tcp://10.0.0.1:3478\n",
    "early": early_template(),
}


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_whatever_we_render_is_accepted_strictly_and_without_a_warning(judge, version, template):
    """Every mesh, with and without GPUs, for hosts that are trusted and not; as clouds and as containers read it."""
    questions = []
    for backend in Backend:
        for nvidia in (True, False):
            for shared in (True, False):
                if backend is Backend.KUBESPAN and not shared:
                    continue
                if template == early_template() and not (shared and backend is Backend.TAILSCALE):
                    continue  # it asks for Tailscale, and for the cluster's own secrets
                plan = a_plan(str(version), backend, nvidia=nvidia, shared_secrets=shared)
                rendered = render(plan, a_join(), template)
                name = f"{backend} nvidia={nvidia} shared={shared}"
                assert errors(rendered.text, version, NodeExpectations.of(plan)) == [], name
                questions += [Question(name, rendered.text, mode, runtime=True) for mode in ("cloud", "container")]

    assert questions
    for verdict in judge.verdicts(questions):
        assert (verdict.verdict, verdict.errors, verdict.warnings) == ("accepted", (), ()), verdict.name


# ---- what is broken


def test_there_are_many_ways_to_be_wrong():
    assert len(BROKEN) >= 120
    assert len({case.name for case in BROKEN}) == len(BROKEN)


def test_what_is_broken_is_refused_by_us_and_by_talos_where_it_notices(judge):
    cases = [case for case in BROKEN if case.since <= judge.minor <= case.until]
    assert cases
    for case in cases:
        found, verdict = judged(judge)[case.name].errors, judged(judge)[case.name].verdict
        assert found, f"{case.name}: we accept it"
        if case.where:
            assert case.where in {finding.path for finding in found}, f"{case.name}: {[str(each) for each in found]}"
        assert verdict.accepted == (judge.minor < case.noticed), f"{case.name}: {verdict}"


def test_what_they_are_made_from_is_good(judge, version):
    """So it is the change that was refused."""
    text = written(good(version))

    assert check(text, version, expects=expected(version)) == ()
    assert judge.verdicts([Question("good", text, runtime=True)])[0].accepted


# ---- what is good


def test_what_people_add_is_accepted_by_talos_and_not_refused_by_us(judge, version):
    additions = [each.name for each in ADDITIONS if each.sayable(version)]
    assert additions
    for name in additions:
        assert judged(judge)[name].errors == [], name
        assert judged(judge)[name].verdict.accepted, name


def test_workers_of_taloss_own_generator_are_accepted_by_both(judge, version):
    made = generated(judge)

    assert len(made) >= 8
    for name, text in made.items():
        assert errors(text, version) == [], name
    for verdict in judge.verdicts([Question(name, text) for name, text in made.items()]):
        assert verdict.accepted, verdict


# ---- random cases


def test_what_talos_refuses_of_random_changes_we_refuse_too(judge, version, capsys):
    """Of every kind; what is told to be passed through unchecked is counted, and must stay rare."""
    cases = [(name, written(paper)) for name, paper in islice(mutants(version, SEED), MUTANTS)]
    verdicts = judge.verdicts([Question(name, text, runtime=True) for name, text in cases])

    seen, bought_for_nothing, misread = Counter(), [], []
    for (name, text), verdict in zip(cases, verdicts, strict=True):
        severities = {finding.severity for finding in check(text, version, expects=expected(version))}
        ours = next((each for each in (Severity.ERROR, Severity.UNCHECKED) if each in severities), "rendered")
        seen[ours, verdict.accepted] += 1
        if ours == "rendered" and not verdict.accepted:
            bought_for_nothing.append(f"{name}: {verdict.errors}")
        if verdict.verdict != "unreadable" and loader_findings(text, version):
            misread.append(f"{name}: Talos reads it: {loader_findings(text, version)}")
    rendered, unchecked = (sum(seen[each, said] for said in (True, False)) for each in ("rendered", Severity.UNCHECKED))
    with capsys.disabled():
        print(
            f"\n{judge.version}: {MUTANTS} mutants, {rendered} rendered, {len(bought_for_nothing)} of them refused by "
            f"Talos; {unchecked} passed through unchecked and {seen[Severity.UNCHECKED, False]} of them refused; "
            f"{seen[Severity.ERROR, True]} refused by us alone"
        )

    assert bought_for_nothing == []
    assert misread == []
    assert unchecked <= MUTANTS // 10
    assert MUTANTS // 10 < rendered < MUTANTS - MUTANTS // 10  # otherwise it would prove nothing


def loader_findings(text, version):
    config = Config(text, version, NodeExpectations(), pages_of(text))
    found = [finding for one in (check_kinds, check_keys, check_once) for finding in one(config)]
    return [str(finding) for finding in found if finding.severity is Severity.ERROR]
